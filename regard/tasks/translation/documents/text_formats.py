"""Subtitles and Markdown cut into what is translated and what is copied to the byte: times, code, rules, front matter.

A cue of several lines, and a paragraph, is translated as one text and laid out in as many lines again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import NamedTuple

from regard.tasks.translation.documents.inline_markdown import from_html, has_markup, to_html

TIME = re.compile(r"\s*(?:\d+:)?\d+:\d\d[.,]\d+\s*-->\s*(?:\d+:)?\d+:\d\d[.,]\d+")
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
STYLE = re.compile(r"\{\\[^{}]*\}\s*")  # where a subtitle stands, such as {\an8}
SPEAKER = re.compile(r"\s*[-–—]")  # two people speak in one cue
UNTOUCHED = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION|X-TIMESTAMP-MAP)\b")  # blocks of WebVTT that nobody reads aloud
FENCE = re.compile(r"\s{0,3}(?:>\s?)*\s*(?P<fence>`{3,}|~{3,})")
PREFIX = re.compile(
    r"(?P<quote>\s*(?:>[ ]?)*)[ \t]*"
    r"(?P<marker>#{1,6}\s+|[-*+]\s+(?:\[[ xX]\]\s+)?|\d{1,9}[.)]\s+|\[\^[^\[\]]+\]:\s+)?"
)
RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")  # between the heading of a table and its rows
DEFINITION = re.compile(r"\s{0,3}\[[^\[\]^]+\]:\s+\S")
RAW = re.compile(r"\s{0,3}<(?P<name>pre|script|style|textarea)\b", re.IGNORECASE)
MARKER = re.compile(r"[-*+>=|]+|#{1,6}|\d{1,9}[.)]")  # what begins a block at the start of a line
WORD = re.compile(r"(?:<[^<>]*>|\S)+")


class Text(NamedTuple):
    """A text to translate: plain, or HTML whose tags stand for markup."""

    written: str
    html: bool = False
    finish: Callable[[str], str] = str
    """Brings the markup back into the translation."""


@dataclass(frozen=True)
class Part:
    """Lines of a document: copied as they are for a reason, or with texts to translate and a way to write them."""

    lines: tuple[str, ...]
    reason: str = ""
    texts: tuple[Text, ...] = ()
    write: Callable[[Sequence[str]], list[str]] = lambda translations: []

    def render(self, translations: Sequence[str]) -> list[str]:
        """Return the lines with these translations of its texts."""
        if not self.texts:
            return list(self.lines)
        told = [text.finish(one) for text, one in zip(self.texts, translations, strict=True)]
        return self.write(told)


def has_letter(text: str) -> bool:
    """True if there is anything to translate in a text."""
    return any(map(str.isalpha, text))


def wrap(text: str, count: int) -> list[str]:
    """Return a text in so many lines of about the same length, or fewer where it has fewer words."""
    rows: list[list[str]] = [[] for _ in range(count)]
    row, place, length = 0, 0, max(len(TAG.sub("", text)), 1)
    for word in WORD.findall(text):
        shown = len(TAG.sub("", word))
        if not MARKER.fullmatch(word):  # at the start of a line it would begin a list
            row = max(row, min(count - 1, (2 * place + shown) * count // (2 * length)))
        rows[row].append(word)
        place += shown + 1
    return [" ".join(words) for words in rows if words]


def copied_lines(parts: Sequence[Part]) -> Counter[str]:
    """Return how many lines that are not blank are copied, by the reason."""
    reasons: Counter[str] = Counter()
    for part in parts:
        if not part.texts:
            reasons[part.reason or "without a letter"] += sum(bool(line.strip()) for line in part.lines)
    return +reasons


def split_subtitles(lines: Sequence[str]) -> Iterator[Part]:
    """Cut SRT or WebVTT into cues to translate and everything else."""
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
            yield from _cue(block[timed + 1 :])
        place = end


def _cue(lines: Sequence[str]) -> Iterator[Part]:
    """The words of one cue as one text, or line by line where two people speak."""
    if len(lines) > 1 and any(SPEAKER.match(line) for line in lines):
        for line in lines:
            yield from _cue([line])
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
    html = TAG.search(words) is not None
    text = Text(words, html, _without_entities(words) if html else str)

    def write(translations: Sequence[str]) -> list[str]:
        wrapped = wrap(translations[0], len(lines))
        return [f"{prefix if not number else ''}{line}{ending}" for number, line in enumerate(wrapped)]

    yield Part(tuple(lines), texts=(text,), write=write)


def _without_entities(source: str) -> Callable[[str], str]:
    """Undo entities that only the translator of HTML wrote."""
    return str if re.search(r"&\w+;", source) else unescape


def split_markdown(lines: Sequence[str]) -> Iterator[Part]:
    """Cut Markdown into paragraphs, headings, items and cells to translate, and what is copied."""
    place, listed, blank = 0, False, True
    while place < len(lines):
        line = lines[place]
        end, reason = _copied_block(lines, place, listed=listed, blank=blank)
        if end > place:
            yield Part(tuple(lines[place:end]), reason)
            blank, place = not line.strip(), end
            continue
        if _is_table_row(lines, place):
            yield _table_row(line)
            blank, place = False, place + 1
            continue
        prefix = _prefix(line)
        marker = prefix["marker"] or ""
        listed = bool(marker.strip("#").strip()) or (listed and not (blank and not line[:1].isspace()))
        end = place + 1
        if not marker.startswith("#"):
            while end < len(lines) and _goes_on(lines, end, prefix["quote"].count(">")):
                end += 1
        yield _paragraph(lines[place:end])
        blank, place = False, end


def _copied_block(lines: Sequence[str], place: int, *, listed: bool, blank: bool) -> tuple[int, str]:
    """Return where the lines end that are copied from here, and why; the place itself if they are not."""
    line = lines[place]
    if place == 0 and line.lstrip("\ufeff").strip() in ("---", "+++"):
        closing = ("---", "...") if "-" in line else ("+++",)
        end = next((at for at in range(1, len(lines)) if lines[at].strip() in closing), None)
        if end is not None:
            return end + 1, "of front matter"
    if fence := FENCE.match(line):
        mark = fence["fence"]
        closed = re.compile(rf"\s*(?:>\s?)*\s*{re.escape(mark[0])}{{{len(mark)},}}\s*")
        end = next((at for at in range(place + 1, len(lines)) if closed.fullmatch(lines[at])), len(lines) - 1)
        return end + 1, "of code"
    for begins, ends in ((line.lstrip().startswith("<!--"), "-->"), (RAW.match(line), "</")):
        if begins:
            return next((at for at in range(place, len(lines)) if ends in lines[at]), len(lines) - 1) + 1, "of HTML"
    if re.match(r"(?: {4}|\t)\s*\S", line) and blank and not listed:
        return place + 1, "of code"
    if DEFINITION.match(line):
        return place + 1, "of addresses"
    return (place, "") if has_letter(line) else (place + 1, "")


def _is_table_row(lines: Sequence[str], place: int) -> bool:
    """True if a line is a row of a table: it begins with a bar, or stands above or below the rule of one."""
    if lines[place].lstrip().startswith("|"):
        return True
    if "|" not in lines[place]:
        return False
    above = place
    while above and "|" in lines[above] and not RULE.fullmatch(lines[above]):
        above -= 1
    below = lines[place + 1] if place + 1 < len(lines) else ""
    return any("|" in line and RULE.fullmatch(line) is not None for line in (lines[above], below))


def _table_row(line: str) -> Part:
    """The cells of a row, each a text of its own."""
    cells = re.split(r"(?<!\\)(\|)", line)
    texts = {place: _inline(cell.strip()) for place, cell in enumerate(cells) if has_letter(cell)}

    def write(translations: Sequence[str]) -> list[str]:
        told = dict(zip(texts, translations, strict=True))
        return [
            "".join(cell.replace(cell.strip(), told[at], 1) if at in told else cell for at, cell in enumerate(cells))
        ]

    return Part((line,), texts=tuple(texts.values()), write=write)


def _prefix(line: str) -> re.Match[str]:
    match = PREFIX.match(line)
    assert match is not None, "it matches nothing too"
    return match


def _goes_on(lines: Sequence[str], place: int, depth: int) -> bool:
    """True if a line continues the paragraph of the line before it."""
    before = lines[place - 1].removesuffix("\r")
    if before.endswith(("  ", "\\")) or _copied_block(lines, place, listed=True, blank=False)[0] > place:
        return False
    prefix = _prefix(lines[place])
    html = TAG.match(lines[place].lstrip()) is not None
    return not prefix["marker"] and prefix["quote"].count(">") == depth and not _is_table_row(lines, place) and not html


def _paragraph(lines: Sequence[str]) -> Part:
    """Lines that belong together, as one text behind what marks them."""
    prefixes = [_prefix(line)[0] for line in lines]
    last = lines[-1].rstrip()
    after = lines[-1][len(last) :]
    ending = "\r" if lines[0].endswith("\r") else ""
    words = " ".join(line[len(prefix) :].strip() for line, prefix in zip(lines, prefixes, strict=True))

    def write(translations: Sequence[str]) -> list[str]:
        wrapped = wrap(translations[0], len(lines)) if len(lines) > 1 else [translations[0]]
        ends = [ending] * (len(wrapped) - 1) + [after]
        return [f"{prefix}{line}{end}" for prefix, line, end in zip(prefixes, wrapped, ends, strict=False)]

    text = _inline(words)
    if text.html and not has_letter(TAG.sub("", text.written)):
        return Part(tuple(lines), "of code and pictures")
    return Part(tuple(lines), texts=(text,), write=write)


def _inline(text: str) -> Text:
    """A text of Markdown, as HTML where it has markup."""
    if not has_markup(text):
        return Text(text)
    html, marks = to_html(text)
    return Text(html, True, lambda answer: from_html(answer, marks))
