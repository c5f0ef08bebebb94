"""Readers of texts and of sentence pairs from line-aligned files, TSV or JSON lines, plain or gzipped.

Only `\\n` ends a line (one `\\r` before it is dropped); U+2028, `\\x0b` or `\\x85` are part of the text. A byte order
mark at the start is dropped, texts are converted to NFC and stripped. A bad line is refused, counted and reported with
its place; it never shifts the pairs after it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shlex
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from regard.config.ranges import Column, Positive
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data import line_report
from regard.data.binary_files import HEAD, refuse_binary
from regard.data.encodings import find_file, find_path, guess_encoding, hint
from regard.data.foreign_formats import refuse_foreign_format
from regard.data.line_report import NOT_UTF8, LineReport
from regard.data.normalise import remove_invisible
from regard.data.pair_headings import is_pair_heading
from regard.data.source_file import SourceFile, Unit
from regard.data.table_records import LARGEST_CELL, TOO_LONG, find_delimiter, split_records
from regard.data.translation_memory import PARTIAL, split_units

LINE = LARGEST_CELL  # bytes; a longer line is skipped without being held in memory
LONGEST_TEXT = 1 << 27  # bytes of a line of running text, which may have no line ends at all
MARK = b"\xef\xbb\xbf"
SURROGATES = re.compile("[\ud800-\udfff]")
MEMORY_SUFFIX = ".tmx"
CELL_FORMS = ("csv", "tmx")  # formats in which a pair may span several lines
BLOCK = 1 << 16  # bytes of a translation memory that are parsed at a time
HEADING = "that names the columns"
JSON_SUFFIXES = {".jsonl", ".json", ".ndjson"}
Made = TypeVar("Made")
Refusal = line_report.Refusal


@dataclass(frozen=True, kw_only=True)
class Corpus(SourceFile):
    """A corpus of text pairs: two line-aligned files, or one TSV or JSON-lines file; each may be gzipped."""

    example_unit: ClassVar[Unit] = "lines"

    source: Free[str | None] = None
    """File with a text to translate in each line; goes with target."""
    target: Free[str | None] = None
    """File with the translation in the same line."""
    path: Free[str | None] = None
    """One file with both sides instead: JSON lines if named .jsonl, .json or .ndjson, a spreadsheet's cells if named
    .csv, a translation memory if named .tmx, else columns between tabs."""
    columns: tuple[Column, Column] = (1, 2)
    """Columns of source and target in a TSV or CSV file, or languages of a TMX file in the order in which they first
    occur, counted from 1; others are ignored."""
    heading: bool | None = None
    """Whether the first line of a TSV or CSV file names its columns; null: if it names languages, or source and
    target."""
    fields: tuple[str, str] = ("source", "target")
    """Names of source and target in JSON lines; a dot reaches inside, as in translation.fr."""
    weight: Warned[Positive] = 1.0
    """How often each pair is seen in an epoch; 0.5 takes another half of them every time."""
    tag: str | None = None
    """Target language, such as fr, put in front of the source when one model serves several."""
    prefix: str = ""
    """Text put in front of every source, and a blank, where one model is asked several things, such as 'sst2:'."""

    def __post_init__(self) -> None:
        if (self.path is None) == (self.source is None) or (self.source is None) != (self.target is None):
            raise ValueError("a corpus needs either source and target or path")
        if self.columns[0] == self.columns[1]:
            raise ValueError(f"columns must be two different numbers counted from 1, not {list(self.columns)}")
        if self.tag is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", self.tag):
            raise ValueError(f"tag must be a short code such as fr or pt-BR, not {self.tag!r}")

    @property
    def files(self) -> tuple[str, ...]:
        """Return its file names, as given."""
        return (self.path,) if self.path is not None else (str(self.source), str(self.target))

    @property
    def form(self) -> Literal["aligned", "columns", "json", "csv", "tmx"]:
        """Return the format of its lines."""
        if self.path is None:
            return "aligned"
        ending = suffix(self.path)
        if ending in JSON_SUFFIXES:
            return "json"
        return "csv" if ending == ".csv" else "tmx" if ending == MEMORY_SUFFIX else "columns"

    def starts_with_heading(self, first: Sequence[str]) -> bool:
        """True if the cells of the first line are a heading."""
        if self.form == "tmx":
            return True
        if self.heading is not None or len(first) < max(self.columns):
            return bool(self.heading)
        source, target = self.columns
        return is_pair_heading(first[source - 1], first[target - 1])


@dataclass(frozen=True, kw_only=True)
class TextFile(SourceFile):
    """A file with a text in each line; it may be gzipped."""

    example_unit: ClassVar[Unit] = "lines"

    path: Free[str]
    """Plain text, or JSON lines if named .jsonl, .json or .ndjson."""
    field: str = "text"
    """Name of the text in JSON lines; a dot reaches inside."""

    def __post_init__(self) -> None:
        if suffix(self.path) == ".csv" and find_path(self.path):  # a missing file is reported first
            script = "import csv,sys; [print(*row['COLUMN'].split()) for row in csv.DictReader(sys.stdin)]"
            text = Path(self.path.removesuffix(".gz")).with_suffix(".txt")
            command = f'python -c "{script}" < {shlex.quote(self.path)} > {shlex.quote(str(text))}'
            raise ValueError(f"{self.path} is a table, not text: write its column of texts into a file, {command}")


def pairs(corpus: Corpus, tally: LineReport, *, file: int = 0) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, source, target) of every good line; `tally` counts others, files numbered from `file` on."""
    if corpus.form in CELL_FORMS:
        yield from _cell_pairs(corpus, tally, file=file)
        return
    pair = _choose_splitter(corpus)
    for number, row in enumerate(_rows(corpus), start=1):
        tally.read += 1
        if number == 1 and corpus.form == "columns" and corpus.starts_with_heading(cells_of(row[0])):
            tally.drop(HEADING, file, number)
            continue
        try:
            source, target = pair(*row)
        except Refusal as refusal:
            tally.refuse(refusal.reason, file + refusal.file, number)
        else:
            yield number, add_prefix(corpus.prefix, source), target


def _cell_pairs(corpus: Corpus, tally: LineReport, *, file: int) -> Iterator[tuple[int, str, str]]:
    """Yield the pairs of a spreadsheet or a translation memory."""
    first = True
    for number, record in read_cells(str(corpus.path), tally, file=file):
        if first and corpus.starts_with_heading(record):
            if corpus.form == "csv":  # a translation memory has no line for it
                tally.drop(HEADING, file, number)
        elif corpus.form == "tmx" and not all(record[column - 1 : column] > [""] for column in corpus.columns):
            tally.drop(PARTIAL, file, number)
        else:
            try:
                source, target = _pick_columns(record, corpus.columns)
            except Refusal as refusal:
                tally.refuse(refusal.reason, file, number)
            else:
                yield number, add_prefix(corpus.prefix, source), target
        first = False


def read_cells(path: str, tally: LineReport, *, file: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of every record of a CSV file or translation memory, the languages of the latter first."""
    if suffix(path) == MEMORY_SUFFIX:
        with explain_unreadable(path), open_text(find_file(path)) as stream:
            yield from split_units(iter(lambda: stream.read(BLOCK), b""), path, tally, file=file)
        return
    delimiter = find_delimiter(lambda: lines(path), spreadsheet=True)
    yield from split_records(lines(path), tally, delimiter, quoted=True, file=file)


def has_heading(corpus: Corpus) -> bool:
    """True if the first line of a corpus is a heading, which is left out."""
    if corpus.form in CELL_FORMS:
        return any(
            corpus.starts_with_heading(record) for _, record in islice(read_cells(str(corpus.path), LineReport()), 1)
        )
    if corpus.form == "columns":
        return any(corpus.starts_with_heading(cells_of(line)) for line in islice(lines(str(corpus.path)), 1))
    return False


def cells_of(line: bytes | None) -> list[str]:
    """Return the tab-separated cells of a line; undecodable bytes are replaced."""
    return (line or b"").decode("utf-8", errors="replace").split("\t")


def add_prefix(prefix: str, text: str) -> str:
    """Return the text with the prefix in front, if there is one."""
    return f"{prefix.strip()} {text}" if prefix.strip() else text


def texts(name: str, tally: LineReport, *, field: str = "text", longest: int = LINE) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of every good line of a file, or of a field of JSON lines, without empty texts."""
    is_json = suffix(name) in JSON_SUFFIXES
    for number, line in enumerate(lines(name, longest=longest), start=1):
        tally.read += 1
        try:
            if line is None:
                raise Refusal(f"longer than {longest:,} bytes")
            text = _texts_at(line, field)[0] if is_json else _decode_line(line)
            if text.strip():
                yield number, clean_text(text)
            else:
                tally.drop("empty", 0, number)
        except Refusal as refusal:
            tally.refuse(refusal.reason, refusal.file, number)


def records(name: str, tally: LineReport, take: Callable[[str], Made]) -> Iterator[tuple[int, Made]]:
    """Yield (line number, `take(line)`) of every line; lines that it refuses go to `tally`."""
    for number, line in enumerate(lines(name), start=1):
        tally.read += 1
        try:
            record = take(_decode_line(line))
        except Refusal as refusal:
            tally.refuse(refusal.reason, refusal.file, number)
        else:
            yield number, record


def suffix(name: str) -> str:
    """Return the ending of a file name in lower case, without .gz."""
    return Path(name.removesuffix(".gz")).suffix.lower()


def digest(name: str) -> str:
    """Return the SHA-256 of a file."""
    try:
        with find_file(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"cannot read {name}: {error.strerror or error}") from None


def lines(name: str, *, longest: int | None = None) -> Iterator[bytes | None]:
    """Yield every line without its end; None for a line that is too long, by default longer than LINE."""
    longest = LINE if longest is None else longest
    with explain_unreadable(name), open_text(find_file(name)) as file:
        first = file.readline(longest + 2 + len(MARK))
        refuse_foreign_format(name, first)
        if (guess_encoding(first) or "").startswith("UTF"):
            raise ValueError(f"{name} is no UTF-8, {hint(first, name)} > converted.txt")
        line = first.removeprefix(MARK)
        if line or first:  # a byte order mark alone is an empty line, not an empty file
            yield _finish_line(file, line, longest)
        while line := file.readline(longest + 2):
            yield _finish_line(file, line, longest)


@contextmanager
def explain_unreadable(name: str) -> Iterator[None]:
    """Convert errors while a file is read to a ValueError with a plain message."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{name} is a damaged or incomplete gzip file ({error}): fetch or compress it again") from None
    except OSError as error:
        raise ValueError(f"cannot read {name}: {error.strerror or error}") from None


def open_text(path: Path) -> BufferedReader | gzip.GzipFile:
    """Open a text file, plain or gzipped, or raise ValueError if it is binary."""
    file: BufferedReader | gzip.GzipFile = path.open("rb")
    try:
        if path.suffix == ".gz" or file.peek(2).startswith(b"\x1f\x8b"):
            file.close()
            file = gzip.GzipFile(path)
        refuse_binary(file.peek(HEAD)[:HEAD], str(path))
    except BaseException:
        file.close()
        raise
    return file


def _finish_line(file: BufferedIOBase, line: bytes, longest: int) -> bytes | None:
    ended = line.endswith(b"\n")
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) <= longest:
        return line
    while not ended and (rest := file.readline(LINE)):
        ended = rest.endswith(b"\n")
    return None


def _rows(corpus: Corpus) -> Iterator[tuple[bytes | None, ...]]:
    """Yield corresponding lines of all files; files of different lengths are an error."""
    if corpus.path is not None:
        yield from ((line,) for line in lines(corpus.path))
        return
    over = object()
    sides = [lines(name) for name in corpus.files]
    for count, row in enumerate(zip_longest(*sides, fillvalue=over)):
        if over in row:
            counts = [count + (line is not over) + sum(1 for _ in side) for line, side in zip(row, sides, strict=True)]
            raise ValueError(
                f"{corpus.source} has {quantity(counts[0], 'line')} but {corpus.target} has {counts[1]}: "
                "give files in which line n translates line n"
            )
        yield row  # type: ignore[misc]


def _choose_splitter(corpus: Corpus) -> Any:
    """Return the function that splits the lines of a pair into source and target."""
    if corpus.form == "json":
        return lambda line: _fields(line, corpus.fields)
    return (lambda line: _columns(line, corpus.columns)) if corpus.form == "columns" else _decode_pair


def _decode_pair(source: bytes | None, target: bytes | None) -> tuple[str, str]:
    return clean_text(_decode_line(source)), clean_text(_decode_line(target, file=1), file=1)


def _columns(line: bytes | None, columns: tuple[int, int]) -> tuple[str, str]:
    return _pick_columns(_decode_line(line).split("\t"), columns)


def _pick_columns(record: Sequence[str], columns: tuple[int, int]) -> tuple[str, str]:
    if len(record) < max(columns):
        raise Refusal(f"fewer than {max(columns)} columns")
    source, target = columns
    return clean_text(record[source - 1]), clean_text(record[target - 1])


def _fields(line: bytes | None, fields: tuple[str, str]) -> tuple[str, str]:
    source, target = _texts_at(line, *fields)
    return clean_text(source), clean_text(target)


def _texts_at(line: bytes | None, *fields: str) -> list[str]:
    """Return the texts of these fields in a JSON line."""
    record = parse_json_line(_decode_line(line))
    return [text_at(record, name) for name in fields]


def parse_json_line(text: str) -> Any:
    """Parse a JSON line, or refuse it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: deeply nested
        raise Refusal("invalid JSON") from None


def value_at(record: Any, name: str) -> Any:
    """Return the value of a field of a JSON record, None if missing; a dot in the name reaches into objects."""
    value = record
    for part in [name] if isinstance(record, dict) and name in record else name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def text_at(record: Any, name: str) -> str:
    """Return the text of a field, or refuse the record."""
    value = value_at(record, name)
    if not isinstance(value, str):
        raise Refusal(f"without a text named {name}")
    if SURROGATES.search(value):
        raise Refusal("with a lone surrogate")
    return value


def _decode_line(line: bytes | None, file: int = 0) -> str:
    if line is None:
        raise Refusal(TOO_LONG, file)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal(NOT_UTF8, file) from None


def clean_text(text: str, file: int = 0) -> str:
    """Return a text in NFC without surrounding white space, or refuse it; text with nothing visible counts as empty."""
    if "\0" in text:
        raise Refusal("with a NUL character", file)
    text = unicodedata.normalize("NFC", text).strip()
    if not remove_invisible(text).strip():
        raise Refusal("empty on one side", file)
    return text
