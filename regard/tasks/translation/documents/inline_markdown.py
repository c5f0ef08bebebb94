"""Inline Markdown as HTML and back: emphasis and links become tags, code and images placeholders.

The translator of HTML puts every tag back around the corresponding words, and so the Markdown markers.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from regard.tasks.translation.documents.entities import Markers, encode_text, has_entity

TARGET = r"\((?:[^()]|\([^()]*\))*\)"
CODE = r"(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
FORMULA = (
    r"\$\$[^$]+\$\$|(?<![\w$\\])\$[^$\s](?:[^$]*[^$\s])?\$(?![\d$])"
    r"|\\\((?=[^()]*[\\^_=+<>{}]).+?\\\)|\\\[(?=[^\[\]]*[\\^_=+<>{}]).+?\\\]"
)
INLINE = re.compile(
    rf"(?P<code>(?:\{{[\w:.-]+\}})?{CODE}|<(?:https?://|mailto:)[^<>\s]+>|<[^<>\s@]+@[^<>\s]+>|{FORMULA}"
    r"|<(?P<element>code|kbd|samp|var|math|tt|pre)\b[^<>]*>.*?</(?P=element)>"
    r"|!?\[\[[^\[\]]+\]\]|\[-?@[^\[\]]+\]|(?<![\w@/.])@[A-Za-z0-9][\w-]*(?:/[\w-]+)?(?![\w@.]*@)"
    r"|\w{1,40}(?:\\[_*~^-]\w{1,40})+|\w{0,40}(?<!~)(?:~[^\s~]{1,8}~(?!~)|(?<!\[)\^[^\s^\[\]]{1,8}\^)\w{0,40})"
    rf"|(?P<point>!\[[^\[\]]*\](?:{TARGET}|\[[^\[\]]*\])(?:\{{[^{{}}]*\}})?|\[\^[^\[\]]+\]|<!--.*?-->"
    r"|(?<![\w:]):[a-zA-Z0-9_+-]*[a-zA-Z0-9]:(?![\w:])|\\[\\`*_{}\[\]()#+.!|<>~$:^=-])"
    rf"|\[(?P<label>(?:[^\[\]]|!\[[^\[\]]*\]{TARGET})+)\](?P<target>(?:{TARGET}|\[[^\[\]]*\])(?:\{{[^{{}}]*\}})?|\{{[^{{}}]*\}})?"
    r"|(?P<tag></?[A-Za-z][^<>]*>)"
    r"|\^\[(?P<note>[^\[\]]+)\]"
    r"|(?P<stars>\*{1,3}|~~|==|(?<!\w)\+\+)(?=[^\s*~=])(?P<starred>.+?)(?<=[^\s*~=])(?P=stars)(?![*=])"
    r"|(?<!\w)(?P<lines>_{1,3})(?=[^\s_])(?P<lined>.+?)(?<=[^\s_])(?P=lines)(?!\w)"
)
OWN_LABEL = re.compile(r"\]\0(?P<label>[^\0]*)\0(?P<pair>(?:\[\])?)")
"""The end of a link whose address is found by its words."""


def has_markup(text: str, labels: Collection[str] = ()) -> bool:
    """Return True if a text has anything that the translator must not read as it is."""
    return has_entity(text) or any(not _is_prose(match, labels) for match in INLINE.finditer(text))


def to_html(text: str, labels: Collection[str] = ()) -> tuple[str, Markers]:
    """Convert a line of Markdown to HTML, with the meaning of its tags; `labels` are of links defined elsewhere."""
    markers = Markers()
    return _encode(text, markers, labels), markers


def from_html(html: str, markers: Markers) -> str:
    """Convert translated HTML back to Markdown."""
    text = markers.restore(html)
    while match := OWN_LABEL.search(text):
        before, label = text[: match.start()], match["label"]
        unchanged = before.endswith(f"[{label}")
        text = f"{before}]{match['pair'] if unchanged else f'[{label}]'}{text[match.end() :]}"
    return text


def normal_label(label: str) -> str:
    """Return the normalised label of a link, for comparison with its definition."""
    return " ".join(label.split()).casefold()


def _is_prose(match: re.Match[str], labels: Collection[str]) -> bool:
    """Return True for brackets that are no link: no address follows, and none is defined for them."""
    return match["label"] is not None and match["target"] is None and normal_label(match["label"]) not in labels


def _encode(text: str, markers: Markers, labels: Collection[str]) -> str:
    """Convert a text to HTML, and add the meaning of its tags to the markers."""
    written, place, at = [], 0, 0
    while match := INLINE.search(text, at):
        if _is_prose(match, labels):
            at = match.start() + 1
            continue
        written.append(encode_text(text[place : match.start()], markers))
        place = at = match.end()
        if match["tag"]:
            written.append(match[0])
        elif match["code"]:
            written.append(markers.keep(match[0]))
        elif match["point"]:
            written.append(markers.place(match[0]))
        else:
            inner, before, after = _split_wrapper(match, labels)
            opening, closing = markers.wrap(before, after)
            written += [opening, _encode(inner, markers, labels), closing]
    return "".join([*written, encode_text(text[place:], markers)])


def _split_wrapper(match: re.Match[str], labels: Collection[str]) -> tuple[str, str, str]:
    """Return the words inside emphasis, a link or a note, and the markup before and after them."""
    if match["note"]:
        return match["note"], "^[", "]"
    if (label := match["label"]) is None:
        sign = match["stars"] or match["lines"]
        return match["starred"] or match["lined"], sign, sign
    target = match["target"] or ""
    if target in ("", "[]") and normal_label(label) in labels:
        return label, "[", f"]\0{label}\0{target}"  # the link is defined under these words, not under their translation
    return label, "[", f"]{target}"
