"""Entities such as `&amp;` in a text that is converted to HTML: decoded for the model, restored as written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from typing import NamedTuple

ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
RUN = re.compile(rf"(?:\w|(?<=\d)[.,](?=\d)|(?<=;)[%‰°€$£]|{ENTITY.pattern})+")
"""Words, numbers and the entities that stand in them or touch them."""
TAG = r"&lt;/?[A-Za-z](?:(?!&[lg]t;).){0,300}&gt;"
CHUNK = re.compile(rf"(?:{TAG}|\S)+(?<![.,:!?)])")
"""What stands between blanks, blanks within tags that are written as entities aside, without the stop after it."""
TAGS = re.compile(rf"[^\w\s&]*(?:{TAG}[^\w\s&]*)+")
REST_OF_TAG = re.compile(r"(?:\s*[^\s=&]+=(?:(?!&[lg]t;)\S)*)+(?<=[\"'/])&gt;")
"""What closes a tag that began in an earlier sentence: the rest of its attributes."""
BEGUN_TAG = re.compile(r"(?:(?<=\s)|^)&lt;/?[A-Za-z](?:(?!&[lg]t;).){0,300}$")
"""A tag at the end that does not close."""
OWN = re.compile(r"<(?P<end>/?)m(?P<number>\d+)>|<code id=(?P<code>\d+)></code>|<wbr id=(?P<point>\d+)>")
EMPTY = re.compile(r"<m(?P<number>\d+)>(?P<inner>\s*)</m(?P=number)>")
NEXT_WORD = re.compile(r"(?P<between>\s*)(?P<word>\w[\w'’-]*)")
LAST_WORD = re.compile(r"(?P<word>\w[\w'’-]*)(?P<between>\s*)$")
LONE_SIGN = re.compile(r"<m(?P<number>\d+)>(?P<between>\s*)(?:&amp;|[\w'’-]+)?(?P<rest>[^<>]*)</m(?P=number)>")
"""What a lone `&amp;` has become in a translation: itself or a word for it, with the words that follow if any."""


@dataclass
class Markers:
    """The meaning of the tags of a text converted to HTML, and the original form of its entities."""

    marks: list[tuple[str, str]] = field(default_factory=list)
    """By the number of a tag: what stood before, and after."""
    entities: dict[str, str] = field(default_factory=dict)
    """Characters and the entities they were written as."""
    blanks: set[int] = field(default_factory=set)
    """Numbers of the marks that are blanks, such as `&nbsp;`."""
    signs: set[int] = field(default_factory=set)
    """Numbers of the marks that are a lone `&amp;`, which a translator reads and may answer with a word."""

    def keep(self, text: str) -> str:
        """Return a tag for copied text that is a word of the sentence."""
        self.marks.append((text, ""))
        return f"<code id={len(self.marks) - 1}></code>"

    def keep_sign(self, text: str) -> str:
        """Return a tagged sign, which the model reads and which replaces its translation."""
        opening, closing = self.wrap(text, "")
        self.signs.add(len(self.marks) - 1)
        return f"{opening}{text}{closing}"

    def place(self, text: str) -> str:
        """Return a tag for copied text that is no word of the sentence."""
        self.marks.append((text, ""))
        return f"<wbr id={len(self.marks) - 1}>"

    def wrap(self, before: str, after: str) -> tuple[str, str]:
        """Return a pair of tags for the text before and after some words."""
        self.marks.append((before, after))
        return f"<m{len(self.marks) - 1}>", f"</m{len(self.marks) - 1}>"

    def restore(self, html: str) -> str:
        """Replace the tags of translated HTML by what they stand for."""
        for number in self.blanks:
            html = re.sub(rf" ?<wbr id={number}> ?", f"<wbr id={number}>", html)
        if self.signs:
            html = LONE_SIGN.sub(self._put_sign, html)
        parts = re.split(r"(<code id=\d+></code>|<[^<>]*>)", _fill_empty(html))
        return "".join(self._mark(part) if at % 2 else self._spell(unescape(part)) for at, part in enumerate(parts))

    def _put_sign(self, match: re.Match[str]) -> str:
        if int(match["number"]) not in self.signs:
            return match[0]
        return f"{match['between']}<code id={match['number']}></code>{match['rest']}"

    def _mark(self, tag: str) -> str:
        match = OWN.fullmatch(tag)
        if match is None:
            return tag
        number = next(int(match[name]) for name in ("number", "code", "point") if match[name] is not None)
        return self.marks[number][1 if match["end"] else 0]

    def _spell(self, text: str) -> str:
        return "".join(self.entities.get(char, char) for char in text) if self.entities else text


def has_entity(text: str) -> bool:
    """Return True if a text has a character written as an entity."""
    return "&" in text and any(_is_entity(match[0]) for match in ENTITY.finditer(text))


def encode_text(text: str, markers: Markers) -> str:
    """Convert a text to HTML: letters and punctuation are decoded, words with other entities are to be copied."""
    written, place = [], 0
    for run in RUN.finditer(text) if "&" in text else ():
        if has_entity(run[0]):
            written += [escape(text[place : run.start()], quote=False), _encode_run(run[0], markers)]
            place = run.end()
    return "".join([*written, escape(text[place:], quote=False)])


class Spelling(NamedTuple):
    """The entities of a text restored after translation: in words copied whole, or as characters written as before."""

    words: list[tuple[int, int]]
    """Where words stand that are to be copied, such as `AT&amp;T`."""
    characters: dict[str, str]
    """Letters and punctuation, each with the entity it was written as."""


def find_core(text: str) -> tuple[int, int]:
    """Return the span of a text without tags at its edges that are written as entities."""
    begin, end = 0, len(text)
    if "&lt;" not in text and "&gt;" not in text:
        return begin, end
    if rest := REST_OF_TAG.match(text):
        begin = rest.end()
    if begun := BEGUN_TAG.search(text):
        end = begun.start()
    chunks = [match.span() for match in CHUNK.finditer(text, begin, end)]
    while chunks and not text[chunks[-1][1] : end].strip() and TAGS.search(text, *chunks[-1]):
        end = chunks.pop()[0]
    while chunks and TAGS.fullmatch(text, *chunks[0]):
        begin = chunks.pop(0)[1]
    core = text[begin:end].strip()
    begin = text.index(core, begin)
    return begin, begin + len(core)


def find_spelling(text: str) -> Spelling | None:
    """Return what copying and respelling restore; None if an entity is neither, such as a non-breaking space."""
    words: list[tuple[int, int]] = []
    characters: dict[str, str] = {}
    for chunk in CHUNK.finditer(text):
        entities = [match[0] for match in ENTITY.finditer(chunk[0]) if _is_entity(match[0])]
        if not entities:
            continue
        if any(map(_is_blank, entities)):
            return None
        if entities[0] == chunk[0] or all(map(_is_read, entities)):
            characters |= {unescape(entity): entity for entity in entities}
        elif not _closes_tags(entities):
            return None
        else:
            words.append(chunk.span())
    return Spelling(words, characters)


def comes_back(text: str, answer: str) -> bool:
    """Return True if copying and respelling restored the entities of a text in its answer."""
    return find_spelling(text[slice(*find_core(text))]) is not None and _has_signs(text, answer)


def _has_signs(text: str, answer: str) -> bool:
    """Return True if an answer has the signs that its text writes as entities, as often as the text."""
    signs = {match[0] for match in ENTITY.finditer(text) if _is_entity(match[0]) and not _is_read(match[0])}
    return all(text.count(sign) == answer.count(sign) for sign in signs)


def _closes_tags(entities: Sequence[str]) -> bool:
    """Return True if the angle brackets in a word form whole tags, or there are none."""
    characters = [unescape(entity) for entity in entities]
    return characters.count("<") == characters.count(">")


def _is_entity(text: str) -> bool:
    return len(char := unescape(text)) == 1 and char not in "\ufffd\n\r\t"


def _is_blank(text: str) -> bool:
    return _is_entity(text) and unicodedata.category(unescape(text)) == "Zs"


def _is_read(text: str) -> bool:
    """Return True for an entity of a letter or punctuation mark, which the model reads decoded."""
    char = unescape(text)
    return _is_entity(text) and char != "&" and unicodedata.category(char)[0] in "LMPC"


def _encode_run(run: str, markers: Markers) -> str:
    """Convert words with entities to HTML; a number keeps its unit (`5&nbsp;km`), a non-breaking space stays."""
    pieces = [piece for piece in re.split(rf"({ENTITY.pattern})", run) if piece]
    segments: list[list[str]] = [[]]
    blanks: list[str] = []
    for piece in pieces:
        if not _is_blank(piece) or "".join(segments[-1])[-1:].isdigit():
            segments[-1].append(piece)
        else:
            blanks.append(piece)
            segments.append([])
    written = [_encode_word(segments[0], markers)]
    for blank, segment in zip(blanks, segments[1:], strict=True):
        tag = markers.place(blank)
        if run not in blanks:  # one that stands alone already has spaces, or nothing, around it
            markers.blanks.add(len(markers.marks) - 1)
            tag += " "
        written += [tag, _encode_word(segment, markers)]
    return "".join(written)


def _encode_word(pieces: list[str], markers: Markers) -> str:
    """Convert one word with its entities to HTML."""
    entities = [piece for piece in pieces if _is_entity(piece)]
    if pieces == ["&amp;"]:
        return markers.keep_sign(pieces[0])
    if all(map(_is_read, entities)):
        markers.entities |= {unescape(entity): entity for entity in entities}
        return "".join(piece if _is_entity(piece) else escape(piece, quote=False) for piece in pieces)
    return markers.place(pieces[0]) if len(pieces) == 1 else markers.keep("".join(pieces))


def _fill_empty(html: str) -> str:
    """Move empty tags around a neighbouring word, since empty emphasis is invisible and an empty link dead."""
    while match := EMPTY.search(html):
        before, after = html[: match.start()], html[match.end() :]
        opening, closing = f"<m{match['number']}>", f"</m{match['number']}>"
        if word := NEXT_WORD.match(after):
            space = (match["inner"] + word["between"])[:1] if before[-1:].strip() else ""
            html = f"{before}{space}{opening}{word['word']}{closing}{after[word.end() :]}"
        elif word := LAST_WORD.search(before):
            space = (word["between"] + match["inner"])[:1] if re.match(r"\w", after) else ""
            html = f"{before[: word.start()]}{opening}{word['word']}{closing}{space}{after}"
        else:
            html = f"{before}<wbr id={match['number']}>{match['inner']}{closing}{after}"
    return html
