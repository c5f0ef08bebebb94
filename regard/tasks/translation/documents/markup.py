"""Text with tags and placeholders, split into plain sentences to translate and markup to put back afterwards.

The model never sees tags around a whole sentence. Those inside one are removed with their positions, and put back by
the alignment of words (`tag_placement.py`). Placeholders (`{name}`, `%s`, `$VAR`, addresses), code and formulas are
replaced by stand-ins such as X1, which preserve the grammar, and return verbatim, each exactly once, even if the model
dropped the stand-in.

Attributes that are translated (`alt`, `title`) are in `attributes.py`. Not translated: all others, the contents of
script, style, pre, textarea and anything marked `translate="no"`, and the contents of placeholders (such as the
branches of a plural in braces).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from itertools import chain, count

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
LETTER = re.compile(rf"[^\W{UNSPACED}]")  # what continues a word; Chinese, Japanese and Thai do not separate words
DEEPEST = 200  # depth of nested tags that are paired; deeper ones are put back one by one
SPACES = re.compile(r"[ \t\n\r\f]+")
TAG = (
    r"""<!--(?:(?!<!--|-->).)*+-->|<!\[CDATA\[(?:(?!<!\[|\]\]>).)*+\]\]>|<\?[^<>]*>|<![A-Za-z][^<>]*>"""
    r"""|<(?P<end>/?)(?P<name>[A-Za-z][^\s/<>"'=]*)(?P<rest>(?:[^<>"']|"[^"]*"|'[^']*')*+|[^<>]*)>"""
)
SIGN = r"<su[bp]\b[^<>]*>[^\s<>]{1,8}</su[bp]>"  # short sub- or superscript, as in m<sup>2</sup>
RAISED = re.compile(SIGN, re.IGNORECASE)
FORMULA = re.compile(  # signs inside a word, as in H<sub>2</sub>O, or else any tag
    rf"(?P<formula>{LETTER.pattern}{{0,40}}(?:{SIGN}{LETTER.pattern}{{1,40}})+(?:{SIGN})?)|{TAG}",
    re.DOTALL | re.IGNORECASE,
)


def _name_set(names: str) -> frozenset[str]:
    return frozenset(names.split())


VOID = _name_set("area base br col embed hr img input link meta param source track wbr")
BLOCK = _name_set(  # no sentence continues across one of these
    """address article aside base blockquote body br caption col colgroup dd details dialog div dl dt fieldset
    figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link main menu meta
    nav noscript ol optgroup option p pre search section select summary table tbody td textarea tfoot th thead title
    tr ul"""
)
UNSPOKEN = _name_set("script style")  # their attributes are not for people
OPAQUE = _name_set("script style pre textarea svg template iframe object video audio canvas")  # copied whole
NOUNS = _name_set("code kbd samp var math tt")  # copied too, but represented by a word in the sentence
UNTRANSLATED = re.compile(
    r"""\btranslate\s*=\s*["']?no\b|\bclass\s*=\s*(?:"[^"]*|'[^']*|)\bnotranslate\b""", re.IGNORECASE
)

SIGNS = r"(?!&(?:nbsp|quot|lt|gt|apos|#\w+);)"  # entities that are not part of an address
PLACEHOLDER = re.compile(
    rf"""(?:https?://|ftp://|www\.)(?:{SIGNS}[^\s<>"«»])*{SIGNS}[^\s<>"«».,;:!?'’)\]…]"""
    r"""|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"""
    r"""|\{\{[^{}]{0,200}\}\}|\{%[^{}]{0,200}?%\}|[$\#]?\{(?:[^{}]|\{[^{}]{0,200}\}){0,400}\}"""
    r"""|(?<![\d%])%(?:\(\w+\)|\d+\$)?[-+0\#]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGaAcCsSpn@]"""
    r"""|%%|%[A-Z_]{2,}%|\$[A-Za-z_]\w*"""
)
_SIGN = r"[\u203c-\u3299\U0001f000-\U0001faff]"
_FORM = r"[\ufe0f\U0001f3fb-\U0001f3ff]"
EMOJI = re.compile(
    rf"[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\ufe0f?\u20e3"
    rf"|(?:[\u231a-\u23ff\u25aa-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff]|{_SIGN}\ufe0f){_FORM}*+(?:\u200d{_SIGN}{_FORM}*+)*+"
)
Span = tuple[int, int]
NUMBER = re.compile(r"%(?:\(\w+\)|\d+\$)?[-+0#]*[\d*]*(?:\.[\d*]+)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgG]|\d[\d.,\s]*")
DATE = re.compile(r"\d+(?:[/:-]\d.*|(?:[.\s]\d+){2,})")  # days and times, and anything of this form


@dataclass(frozen=True)
class Mark:
    """A tag, or a pair of tags, removed from a sentence, with its position in the plain text and its parent."""

    opening: str
    closing: str = ""
    begin: int = 0
    end: int = 0
    parent: int | None = None
    point: bool = False
    """Whether it stands at one place and wraps nothing."""
    loose: bool = False
    """Whether its partner is missing or in another sentence, so that it must keep its order among such."""
    spaced: tuple[bool, bool] = (False, False)
    """Whether white space was before it and after it."""


@dataclass(frozen=True)
class Marked:
    """One or more sentences without markup, ready to be translated, with everything needed to put it back."""

    plain: str
    """What to translate; empty when there is nothing."""
    left: str = ""
    right: str = ""
    marks: tuple[Mark, ...] = ()
    kept: dict[str, str] = field(default_factory=dict)
    """Stand-ins in the plain text and what they stand for."""
    html: bool = False

    @property
    def required_phrases(self) -> list[str]:
        """Return the phrases that the answer should contain, as the setting `force` can require."""
        return list(self.kept)


def cut(text: str, *, names: Sequence[str] = (), spans: Sequence[Span] | None = None) -> Marked:
    """Replace the placeholders of a plain text, or these spans, by stand-ins: these names first, then X1, X2, ...

    Names of four digits stand for dates and the like, other numbers for numbers and such as %d, words for the rest.
    """
    return _build_marked(list(_split_placeholders(text, spans)), names, html=False)


def parse(text: str, *, names: Sequence[str] = (), tidy: Callable[[str], str] = str) -> list[str | Marked]:
    """Split an HTML text, or a fragment, into markup to copy and tidied sentences to translate, in order."""
    parts: list[str | Marked] = []
    line: list[_Token] = []
    for token in chain(_tokens(text), [None]):
        if token is not None and not token.breaks:
            spoken = token.kind == "text" and any(map(str.isalnum, token.raw))
            line.append(replace(token, raw=tidy(token.raw)) if spoken else token)
            continue
        if line:
            marked = _build_marked(line, names, html=True)
            parts.append(marked if marked.plain else marked.left)
            line = []
        if token is not None:
            parts.append(token.raw)
    return [part for part in parts if part != ""]


def parse_value(text: str, *, names: Sequence[str] = ()) -> Marked:
    """Replace the placeholders of an attribute's value, as written in HTML, by stand-ins."""
    return _build_marked(list(_split_placeholders(text)), names, html=True)


def find_start_tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the start tags of an HTML text, except inside elements that are not translated."""
    place = 0
    while match := FORMULA.search(text, place):
        place = match.end()
        if match["formula"] or not match["name"]:
            continue
        place = match.start() + len(_parse_tag(text, match).raw)
        untouched = match["name"].lower() in UNSPOKEN or UNTRANSLATED.search(match["rest"]) is not None
        if not match["end"] and not untouched:
            yield match


@dataclass(frozen=True)
class _Token:
    """A token of the input, as written."""

    raw: str
    kind: str
    """text, keep (a placeholder), open, close or point."""
    name: str = ""

    @property
    def breaks(self) -> bool:
        """Return True if no sentence continues across it."""
        return self.kind in ("open", "close", "point") and self.name in BLOCK

    @property
    def speaks(self) -> bool:
        """Return True if it is part of the content of a sentence."""
        return self.kind == "keep" or (self.kind == "text" and not self.raw.isspace())


def _tokens(text: str) -> Iterator[_Token]:
    """Yield tags, placeholders and the text between them; joined, they are the input."""
    place = 0
    while match := FORMULA.search(text, place):
        yield from _split_placeholders(text[place : match.start()])
        token = _Token(match[0], "keep") if match["formula"] else _parse_tag(text, match)
        yield token
        place = match.start() + len(token.raw)
    yield from _split_placeholders(text[place:])


def _parse_tag(text: str, match: re.Match[str]) -> _Token:
    """Return a tag, or the whole element if its contents are not translated."""
    name = (match["name"] or "").lower()
    if not name:
        return _Token(match[0], "point")
    if match["end"]:
        return _Token(match[0], "close", name)
    if name in VOID or match["rest"].endswith("/"):
        return _Token(match[0], "point", name)
    if raised := RAISED.match(text, match.start()):
        return _Token(raised[0], "point", name)
    noun = name in NOUNS or UNTRANSLATED.search(match["rest"]) is not None
    end = _element_end(text, match, name) if noun or name in OPAQUE else None
    if end is None:
        return _Token(match[0], "open", name)
    return _Token(text[match.start() : end], "keep" if noun and name not in BLOCK else "point", name)


def _element_end(text: str, opening: re.Match[str], name: str) -> int | None:
    """Return the end of an element, or None if it is not closed."""
    depth = 1
    for match in re.compile(rf"<(/?){re.escape(name)}(?=[\s/>])[^<>]*>", re.IGNORECASE).finditer(text, opening.end()):
        depth += -1 if match[1] else 1
        if depth == 0:
            return match.end()
    return None


def _split_placeholders(text: str, chosen: Sequence[Span] | None = None) -> Iterator[_Token]:
    """Yield text and its placeholders, or the chosen spans, extended by adjacent letters; emoji are separate."""
    place = 0
    if chosen is None:
        chosen = sorted(match.span() for kind in (PLACEHOLDER, EMOJI) for match in kind.finditer(text))
    spans: list[Span] = []
    for begin, end in chosen:
        if EMOJI.match(text, begin):  # it is no word of the sentence, and neither is the space before it
            begin -= len(text[place:begin]) - len(text[place:begin].rstrip())
            spans.append((begin, end))
            place = end
            continue
        while begin > place and LETTER.match(text[begin - 1]):
            begin -= 1
        while end < len(text) and LETTER.match(text[end]):
            end += 1
        if spans and begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((begin, end))
        place = spans[-1][1]
    place = 0
    for begin, end in spans:
        if place < begin:
            yield _Token(text[place:begin], "text")
        yield _Token(text[begin:end], "point" if EMOJI.match(text[begin:end].lstrip()) else "keep")
        place = end
    if place < len(text):
        yield _Token(text[place:], "text")


def _pair_tags(tokens: Sequence[_Token]) -> dict[int, int]:
    """Match opening and closing tags, in both directions; unmatched ones are left out."""
    partners: dict[int, int] = {}
    open_ones: list[int] = []
    for place, token in enumerate(tokens):
        if token.kind == "open" and len(open_ones) < DEEPEST:
            open_ones.append(place)
        elif token.kind == "close":
            opening = next((at for at in reversed(open_ones) if tokens[at].name == token.name), None)
            if opening is not None:
                del open_ones[open_ones.index(opening) :]
                partners |= {opening: place, place: opening}
    return partners


def _build_marked(tokens: list[_Token], names: Sequence[str], *, html: bool) -> Marked:
    """Convert the tokens of one line to plain text and marks, with the markup at its edges separated."""
    tokens = [part for token in tokens for part in _split_edges(token)]
    raw = "".join(token.raw for token in tokens)
    texts = (unescape(element.raw) if html else element.raw for element in tokens if element.kind == "text")
    if not any(c.isalnum() for text in texts for c in text):
        return Marked("", left=raw, html=html)
    partners = _pair_tags(tokens)
    speaking = [place for place, token in enumerate(tokens) if token.speaks]
    first, last = speaking[0], speaking[-1]
    lead = next((at for at in range(first) if first <= partners.get(at, -1) <= last), first)
    trail = next((at for at in range(len(tokens) - 1, last, -1) if first <= partners.get(at, -1) <= last), last)
    builder = _Builder(names, raw, html)
    for place in range(lead, trail + 1):
        builder.add(tokens[place], partners.get(place) is not None, _has_spaces_around(tokens, place))
    plain = builder.plain.strip()
    offset = builder.plain.index(plain)
    marks = [
        replace(element, begin=_clamp(element.begin - offset, plain), end=_clamp(element.end - offset, plain))
        for element in builder.marks
    ]
    before = "".join(token.raw for token in tokens[:lead]) + builder.plain[:offset]
    after = builder.plain[offset + len(plain) :] + "".join(token.raw for token in tokens[trail + 1 :])
    return Marked(plain, before, after, tuple(marks), builder.kept, html)


def _split_edges(token: _Token) -> list[_Token]:
    """Split off the white space at the ends of a text."""
    if token.kind != "text" or not (inner := token.raw.strip()):
        return [token]
    begin = token.raw.index(inner)
    parts = token.raw[:begin], inner, token.raw[begin + len(inner) :]
    return [_Token(part, "text") for part in parts if part]


def _clamp(place: int, text: str) -> int:
    return min(max(place, 0), len(text))


def _has_spaces_around(tokens: Sequence[_Token], place: int) -> tuple[bool, bool]:
    """Return whether there is white space before and after a token."""
    before = tokens[place - 1].raw[-1:] if place else " "
    after = tokens[place + 1].raw[:1] if place + 1 < len(tokens) else " "
    return before.isspace(), after.isspace()


class _Builder:
    """A builder of plain text, marks and stand-ins from tokens."""

    def __init__(self, names: Sequence[str], raw: str, html: bool) -> None:
        lower_text = raw.casefold()
        unused = [name for name in names if name.casefold() not in lower_text]
        generated = (name for number in count(1) if (name := f"X{number}").casefold() not in lower_text)
        self._words = chain((name for name in unused if not name.isdigit()), generated)
        self._dates = chain((name for name in unused if name.isdigit() and len(name) == 4), generated)
        self._numbers = chain((name for name in unused if name.isdigit() and len(name) != 4), generated)
        self._html = html
        self._open: list[int] = []  # indices of the open marks
        self.plain = ""
        self.marks: list[Mark] = []
        self.kept: dict[str, str] = {}

    def add(self, token: _Token, paired: bool, spaced: tuple[bool, bool]) -> None:
        """Add a token; `paired` means that its partner is in the same line."""
        here, parent = len(self.plain), self._open[-1] if self._open else None
        if token.kind == "text":
            self._write(SPACES.sub(" ", unescape(token.raw)) if self._html else token.raw)
        elif token.kind == "keep":
            number = self._numbers if NUMBER.fullmatch(token.raw) else self._words
            name = next(self._dates if DATE.fullmatch(token.raw) else number)
            self.kept[name] = token.raw
            self._write(name)
        elif token.kind == "open" and paired:
            self._open.append(len(self.marks))
            self.marks.append(Mark(token.raw, begin=here, parent=parent, spaced=spaced))
        elif token.kind == "close" and paired:
            opening = self._open.pop()
            both = self.marks[opening].spaced[0], spaced[1]
            self.marks[opening] = replace(self.marks[opening], closing=token.raw, end=here, spaced=both)
        else:
            loose = token.kind != "point"
            self.marks.append(Mark(token.raw, "", here, here, parent, point=True, loose=loose, spaced=spaced))

    def _write(self, text: str) -> None:
        """Add text without doubling a space around a tag, and with one where a stand-in would merge with a word."""
        if self._html and self.plain.endswith(" "):
            text = text.removeprefix(" ")
        last = next(reversed(self.kept), None)
        meets = last is not None and (text == last or self.plain.endswith(last))
        if meets and re.match(r"\w\w", self.plain[-1:] + text[:1]):
            text = f" {text}"
        self.plain += text
