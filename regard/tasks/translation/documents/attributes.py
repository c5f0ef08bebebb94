"""HTML attributes with text for people: found in a page, and written back with their translations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from typing import NamedTuple

from regard.tasks.translation.documents.markup import Marked, find_start_tags, parse_value
from regard.tasks.translation.documents.text_formats import has_letter

SPOKEN = ("alt", "title", "placeholder", "aria-label")
QUOTES = {'"': "&quot;", "'": "&#39;"}
LANGUAGE = ("lang", "xml:lang")
ATTRIBUTE = re.compile(
    r"""(?P<name>[^\s"'<>/=]+)(?:\s*=\s*(?P<value>(?P<quote>["'])(?P<text>.*?)(?P=quote)|[^\s"'=<>`]*[^\s"'=<>`/]))?""",
    re.DOTALL,
)

TEMPLATE = re.compile(r"<[?%]|\{\{(?!.*\}\})|\{%(?!.*%\})", re.DOTALL)
"""What a server fills in, which may have quotation marks of its own: the value seen here is not all of it."""


class Value(NamedTuple):
    """The value of a translated attribute: its position with the quotation marks, and its text."""

    begin: int
    end: int
    quote: str
    """Its quotation marks; empty if it has none."""
    raw: str
    marked: Marked

    def write(self, answer: str) -> str:
        """Return a translation, given as HTML, as the value of an attribute; an unchanged one is kept as it was."""
        if unescape(answer) == " ".join(unescape(self.raw).split()):
            return f"{self.quote}{self.raw}{self.quote}"
        quote = self.quote or '"'
        return f"{quote}{answer.replace(quote, QUOTES[quote])}{quote}"


def find_values(text: str, *, names: Sequence[str] = (), tidy: Callable[[str], str] = str) -> list[Value]:
    """Return the values to translate in an HTML text, in order; `names` are stand-ins for placeholders."""
    values = []
    for tag, attribute in _iterate_attributes(text):
        if not _is_spoken(tag, attribute["name"].lower()):
            continue
        marked = parse_value(tidy(_raw_value(attribute)), names=names)
        if has_letter(marked.plain) and not TEMPLATE.search(_raw_value(attribute)):
            values.append(Value(*attribute.span("value"), attribute["quote"] or "", _raw_value(attribute), marked))
    return values


def write_values(text: str, values: Sequence[Value], answers: Sequence[str], language: str | None) -> str:
    """Return an HTML text with its values translated, and the language of its `<html>` updated if given."""
    translated = zip(values, answers, strict=True)
    edits = [(value.begin, value.end, value.write(answer)) for value, answer in translated]
    if language is not None:
        edits += _language_edits(text, language)
    parts, place = [], 0
    for begin, end, written in sorted(edits):
        parts += [text[place:begin], written]
        place = end
    return "".join([*parts, text[place:]])


def _iterate_attributes(text: str) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """Yield the attributes with a value of every translatable tag, each with its tag."""
    for tag in find_start_tags(text):
        for attribute in ATTRIBUTE.finditer(text, *tag.span("rest")):
            if attribute["value"] is not None:
                yield tag, attribute


def _raw_value(attribute: re.Match[str]) -> str:
    return attribute["text"] if attribute["quote"] else attribute["value"]


def _is_spoken(tag: re.Match[str], name: str) -> bool:
    """Return True for text that is shown or read aloud, such as `alt`, or is the description of a page."""
    if tag["name"].lower() != "meta" or name != "content":
        return name in SPOKEN
    attributes = ATTRIBUTE.finditer(tag.string, *tag.span("rest"))
    return any(
        attribute["name"].lower() == "name"
        and attribute["value"] is not None
        and _raw_value(attribute).strip().lower() == "description"
        for attribute in attributes
    )


def _language_edits(text: str, language: str) -> Iterator[tuple[int, int, str]]:
    """Yield the edits of the page's language attributes, unless they already name this language or a variety of it."""
    for tag, attribute in _iterate_attributes(text):
        current = _raw_value(attribute)
        if tag["name"].lower() != "html" or attribute["name"].lower() not in LANGUAGE or not current.strip():
            continue
        if re.split("[-_]", current.strip().lower())[0] != language:
            yield *attribute.span("text" if attribute["quote"] else "value"), language
