"""Translation memories (TMX) as tables: a column for each language, a row for each translation unit.

Files of any size are read as a stream. Inside a segment the text of `hi` and `sub` is part of the sentence, while
`bpt`, `ept`, `it`, `ph` and `ut` hold codes of another format and are left out. Nothing outside the file is ever
read, and entity declarations are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, NoReturn
from xml.parsers import expat

from regard.data.line_report import LineReport
from regard.data.pair_headings import named_language
from regard.data.table_records import LARGEST_CELL

SAMPLE = 200  # units from which the languages are determined
DEEPEST = 64  # levels of nested elements
MOST_VERSIONS = 256  # of one unit
LARGEST_TAG = 1 << 22  # largest distance in bytes between the tags of elements
CODES = frozenset(("bpt", "ept", "it", "ph", "ut"))
UNNAMED = ("source", "target")
PARTIAL = "without a text in every language that is read"

Unit = tuple[int, list[tuple[str, str]]]


def read_units(blocks: Iterable[bytes], path: str, report: LineReport, *, file: int = 0) -> Iterator[Unit]:
    """Yield (line, (language, text) of every version) of each unit; a unit that is too large is refused."""
    parser = _UnitParser(path)
    try:
        for block in chain(blocks, [b""]):
            parser.feed(block)
            for line, versions, problem in parser.units:
                report.read += 1
                if problem:
                    report.refuse(problem, file, line)
                elif any(text for _, text in versions):
                    yield line, versions
                else:
                    report.drop("blank", file, line)
            parser.units.clear()
    except expat.ExpatError as error:
        raise ValueError(parser.describe(error)) from None


def split_units(
    blocks: Iterable[bytes], path: str, report: LineReport, *, file: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Yield (1, languages), then (line, text in each language) of every unit; "" for a missing language."""
    units = read_units(blocks, path, report, file=file)
    sample = list(islice(units, SAMPLE))
    in_full = any(_has_variants(versions) for _, versions in sample)
    languages = list(dict.fromkeys(_column(code, in_full) for _, versions in sample for code, _ in versions))
    if len(languages) == 1:
        raise ValueError(f"{path} has texts in one language only, {languages[0]}: a translation needs two")
    yield 1, languages
    for line, versions in chain(sample, units):
        texts: dict[str, str] = {}
        for code, text in versions:
            texts.setdefault(_column(code, in_full), text)
        yield line, [texts.get(language, "") for language in languages]


def _has_variants(versions: list[tuple[str, str]]) -> bool:
    """True if a unit has two regional variants of one language, such as en-US and en-GB."""
    codes = {code.lower() for code, _ in versions}
    return len({_column(code, False) for code in codes}) < len(codes)


def _column(code: str, in_full: bool) -> str:
    return code if in_full else named_language(code) or code


class _UnitParser:
    """A collector of translation units from XML events."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.units: list[tuple[int, list[tuple[str, str]], str]] = []
        """(line, versions, what is wrong with it) of every unit that has ended since they were last taken."""
        self.open: list[str] = []
        self.line, self.versions = 0, list[tuple[str, str]]()
        self.language, self.pieces, self.size, self.problem = "", list[str](), 0, ""
        self.waiting, self.bytes_read = 0, 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._refuse_entity

    def feed(self, block: bytes) -> None:
        """Parse more of the file; an empty block is its end."""
        self.waiting += len(block)
        self.bytes_read += len(block)
        self.parser.Parse(block, not block)
        if self.waiting > LARGEST_TAG:
            self._fail(f"nothing begins or ends in {LARGEST_TAG:,} bytes of XML: mend the file")

    def describe(self, error: expat.ExpatError) -> str:
        """Return the message for XML that cannot be parsed, with a remedy."""
        if not self.bytes_read:
            return f"{self.path} is empty: give a file with at least one pair"
        return f"{self.path}:{error.lineno}: broken XML ({expat.ErrorString(error.code)}): mend it"

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.waiting = 0
        if not self.open and name != "tmx":
            self._fail(f"the XML of {name}, not of a translation memory (tmx): give the file another name")
        self.open.append(name)
        if len(self.open) > DEEPEST:
            self._fail(f"more than {DEEPEST} elements in one another: mend the file")
        if name == "tu":
            self.line, self.problem = self.parser.CurrentLineNumber, ""
            self.versions.clear()
        elif name == "tuv":
            number = len(self.versions)
            unnamed = UNNAMED[number] if number < len(UNNAMED) else f"text {number + 1}"
            self.language = attributes.get("xml:lang") or attributes.get("lang") or unnamed
        elif name == "seg":
            self.pieces.clear()
            self.size = 0

    def _end(self, name: str) -> None:
        self.waiting = 0
        self.open.pop()
        if name == "seg" and "tuv" in self.open and len(self.versions) < MOST_VERSIONS:
            self.versions.append((self.language, " ".join("".join(self.pieces).split())))
        elif name == "tu":
            self.units.append((self.line, list(self.versions), self.problem))

    def _text(self, text: str) -> None:
        if "seg" not in self.open:
            self.waiting = 0 if not text.strip() else self.waiting
        elif not CODES & set(self.open) or "sub" in self.open:
            self.waiting = 0
            self.size += len(text)
            if self.size > LARGEST_CELL:
                self.problem = f"with a text of more than {LARGEST_CELL:,} characters"
            else:
                self.pieces.append(text)

    def _refuse_entity(self, name: str, *rest: Any) -> NoReturn:
        self._fail(f"it declares the entity {name}, which is not read: write out what it stands for")

    def _fail(self, problem: str) -> NoReturn:
        raise ValueError(f"{self.path}:{self.parser.CurrentLineNumber}: {problem}")
