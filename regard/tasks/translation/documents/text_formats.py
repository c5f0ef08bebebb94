"""Documents as parts to translate and parts to copy, and subtitles split into such parts.

A cue of several lines, and a paragraph, is translated as one text and wrapped to the same number of lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from regard.tasks.translation.documents.entities import Markers, encode_text, has_entity

TIME = re.compile(r"\s*(?:\d+:)?\d+:\d\d[.,]\d+\s*-->\s*(?:\d+:)?\d+:\d\d[.,]\d+")
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
TAGS = re.compile(f"({TAG.pattern})")
STYLE = re.compile(r"\{\\[^{}]*\}\s*")  # the position of a subtitle, such as {\an8}
SPEAKER = re.compile(r"\s*[-–—]")  # two speakers in one cue
UNTOUCHED = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION|X-TIMESTAMP-MAP)\b")  # blocks of WebVTT without subtitles
MARKER = re.compile(  # starts a block at the beginning of a line
    r"[-*+>=|:_]+|#{1,6}|\d{1,9}[.)]|(?:\$\$|`{3}|~~~|:::|!!!|\?\?\?|===|\{%|\\\[|\\begin|\[[^\[\]]*\]:|\|).*"
)
WORD = re.compile(  # with tags, code, formulas and addresses in it, which may have spaces
    r"(?:<[^<>]*>|(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|\$[^$\s](?:[^$]*[^$\s])?\$(?!\d)|\]\([^()]*\)|\S)+"
)


class Text(NamedTuple):
    """A text to translate: plain, or HTML whose tags stand for markup."""

    written: str
    html: bool = False
    finish: Callable[[str], str] = str
    """Brings the markup back into the translation."""


@dataclass(frozen=True)
class Part:
    """Lines of a document: copied for a reason, or with texts to translate and a function that writes them."""

    lines: tuple[str, ...]
    reason: str = ""
    texts: tuple[Text, ...] = ()
    write: Callable[[Sequence[str]], list[str]] = lambda translations: []

    def render(self, translations: Sequence[str]) -> list[str]:
        """Return the lines with these translations of its texts."""
        if all(text.written == translation for text, translation in zip(self.texts, translations, strict=True)):
            return list(self.lines)
        finished = [text.finish(translation) for text, translation in zip(self.texts, translations, strict=True)]
        return self.write(finished)


def has_letter(text: str) -> bool:
    """Return True if a text has anything to translate."""
    return any(map(str.isalpha, text))


def wrap(text: str, widths: Sequence[int]) -> list[str]:
    """Wrap a text to lines proportional to the widths, or fewer if it has fewer words."""
    rows: list[list[str]] = [[] for _ in widths]
    edges = list(accumulate(widths))
    row, place, length = 0, 0, len(TAG.sub("", text)) + 1
    for match in WORD.finditer(text):
        word = match[0]
        shown = len(TAG.sub("", word))
        if not MARKER.fullmatch(word):  # at the start of a line it would start a block
            middle = (2 * place + shown) * edges[-1] / (2 * length)
            row = max(row, min(bisect_right(edges, middle), len(widths) - 1))
        rows[row].append(word)
        place += shown + 1
    return [" ".join(words) for words in rows if words]


def copied_lines(parts: Sequence[Part]) -> Counter[str]:
    """Return the number of copied lines that are not blank, by reason."""
    reasons: Counter[str] = Counter()
    for part in parts:
        if not part.texts:
            reasons[part.reason or "without a letter"] += sum(bool(line.strip()) for line in part.lines)
    return +reasons


def split_subtitles(lines: Sequence[str]) -> Iterator[Part]:
    """Split SRT or WebVTT into cues to translate and everything else."""
    place = 0
    while place < len(lines):
        end = next((at for at in range(place, len(lines)) if not lines[at].strip()), len(lines))
        if end == place:
            yield Part((lines[place],))
            place += 1
            continue
        block = lines[place:end]
        timed = next((at for at, line in enumerate(block) if TIME.match(line)), None)
        if timed is None or UNTOUCHED.match(block[0].lstrip("\ufeff")):
            yield Part(tuple(block), "outside cues")
        else:
            yield Part(tuple(block[: timed + 1]), "of times and numbers")
            yield from _split_cue(block[timed + 1 :])
        place = end


def _split_cue(lines: Sequence[str]) -> Iterator[Part]:
    """Yield the words of one cue as one text, or line by line if two people speak."""
    if len(lines) > 1 and any(SPEAKER.match(line) for line in lines):
        for line in lines:
            yield from _split_cue([line])
        return
    if not any(map(has_letter, lines)):
        if lines:
            yield Part(tuple(lines))
        return
    if "<" in TAG.sub("", "".join(lines)):
        yield Part(tuple(lines), "with markup that is not known")
        return
    ending = "\r" if lines[0].endswith("\r") else ""
    first = re.match(rf"(?:{STYLE.pattern})?(?:{SPEAKER.pattern}\s*)?", lines[0])
    prefix = first[0] if first else ""
    words = " ".join(line.strip() for line in [lines[0][len(prefix) :], *lines[1:]])
    text = Text(words)
    if TAG.search(words) or has_entity(words):
        markers = Markers()
        pieces = (
            piece if number % 2 else encode_text(piece, markers) for number, piece in enumerate(TAGS.split(words))
        )
        text = Text("".join(pieces), True, markers.restore)

    def write(translations: Sequence[str]) -> list[str]:
        wrapped = wrap(translations[0], [1] * len(lines))
        return [f"{prefix if not number else ''}{line}{ending}" for number, line in enumerate(wrapped)]

    yield Part(tuple(lines), texts=(text,), write=write)
