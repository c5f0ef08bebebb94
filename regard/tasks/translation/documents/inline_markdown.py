"""Markdown inside a line as HTML and back: emphasis and links become tags, code and pictures placeholders.

The translator of HTML puts every tag back around the words it was around, so that markers come back with them.
"""

from __future__ import annotations

import re
from html import escape, unescape

INLINE = re.compile(
    r"(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|<(?:https?://|mailto:)[^<>\s]+>|\$\$?[^$\s](?:[^$]*[^$\s])?\$\$?)"
    r"|(?P<point>!\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])|\[\^[^\[\]]+\]|<!--.*?-->|\\[\\`*_{}\[\]()#+.!|<>~-])"
    r"|\[(?P<label>(?:[^\[\]]|!\[[^\[\]]*\]\([^()]*\))+)\](?P<target>\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])"
    r"|(?P<tag></?[A-Za-z][^<>]*>)"
    r"|(?P<stars>\*{1,3}|~~)(?=[^\s*~])(?P<starred>.+?)(?<=[^\s*~])(?P=stars)(?!\*)"
    r"|(?<!\w)(?P<lines>_{1,3})(?=[^\s_])(?P<lined>.+?)(?<=[^\s_])(?P=lines)(?!\w)"
)
OWN = re.compile(r"<(?P<end>/?)m(?P<number>\d+)>|<code id=(?P<code>\d+)></code>|<wbr id=(?P<point>\d+)>")


def has_markup(text: str) -> bool:
    """True if a text has anything that must not reach the translator as it is."""
    return INLINE.search(text) is not None


def to_html(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a line of Markdown as HTML, and for every number in it what stood before and after."""
    marks: list[tuple[str, str]] = []
    return _encode(text, marks), marks


def from_html(html: str, marks: list[tuple[str, str]]) -> str:
    """Return the Markdown of such HTML once it is translated."""

    def marker(tag: str) -> str:
        match = OWN.fullmatch(tag)
        if match is None:
            return tag
        number = next(int(match[name]) for name in ("number", "code", "point") if match[name] is not None)
        return marks[number][1 if match["end"] else 0]

    parts = re.split(r"(<code id=\d+></code>|<[^<>]*>)", html)
    return "".join(marker(part) if place % 2 else unescape(part) for place, part in enumerate(parts))


def _encode(text: str, marks: list[tuple[str, str]]) -> str:
    """Return the HTML of a text; what its tags stand for is added to the marks."""
    written, place = [], 0
    for match in INLINE.finditer(text):
        written.append(escape(text[place : match.start()], quote=False))
        place, number = match.end(), len(marks)
        if match["tag"]:
            written.append(match[0])
            continue
        if match["code"] or match["point"]:
            marks.append((match[0], ""))
            written.append(f"<code id={number}></code>" if match["code"] else f"<wbr id={number}>")
            continue
        sign = match["stars"] or match["lines"]
        inner = match["label"] or match["starred"] or match["lined"]
        marks.append((sign, sign) if sign else ("[", f"]{match['target']}"))
        written.append(f"<m{number}>{_encode(inner, marks)}</m{number}>")
    return "".join([*written, escape(text[place:], quote=False)])
