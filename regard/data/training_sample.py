"""Overlap of test files with training data: digests of a bounded sample of training examples, stored with a model.

The training examples with the smallest digests are stored (a bottom-k sketch, Bar-Yossef et al. 2002). Test examples
with digests below the largest stored one are a random sample of the test file, and each of them was trained on or was
not; the share among them estimates that of the file. Up to `KEPT` examples, the share is exact.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt64

from regard.data.dedup import key
from regard.data.holdout import hash_bytes, letters
from regard.data.line_report import LineReport
from regard.data.readers import JSON_SUFFIXES, LONGEST_TEXT, MEMORY_SUFFIX, lines, read_cells, suffix
from regard.data.source_file import Unit
from regard.data.table_records import find_delimiter, split_records
from regard.data.tables import Sheet

KEPT = 1 << 13  # digests stored for a model's training examples: 64 KiB
MANY = 64  # texts of a JSON record from which on each of them is an example
HEADING_WORDS = 3  # words of a cell that may name a column
TEXT_FILES = (".txt", ".text", ".md", ".rst", ".tex", ".jsonl", ".ndjson")
"""How files of a folder are named that are read, `.gz` after it or not."""
UNITS: tuple[Unit, ...] = ("lines", "rows", "sentences")


@dataclass(frozen=True)
class Overlap:
    """The number of examples of a test file, of those compared with the sample, and of those trained on."""

    unit: Unit
    total: int
    compared: int
    shared: int

    def describe(self) -> str:
        """Describe the overlap, as in "150 of its 300 lines"."""
        if self.compared == self.total:
            return f"{self.shared:,} of its {self.total:,} {self.unit}"
        share = 100 * self.shared / self.compared
        return f"about {share:.0f} % of its {self.unit} ({self.shared:,} of {self.compared:,} compared)"


@dataclass(frozen=True)
class TrainingSample:
    """Sorted digests of training examples: all of them, or the smallest."""

    unit: Unit
    keys: UInt64[np.ndarray, "keys"]

    @classmethod
    def of(cls, files: Iterable[str], unit: Unit, before: TrainingSample | None = None) -> TrainingSample:
        """Sample the examples of these files, together with that of an earlier training on this kind of examples."""
        kept_keys = before.keys if before is not None and before.unit == unit else np.empty(0, np.uint64)
        waiting: set[int] = set()
        for file in files:
            for example in _examples(file, unit):
                waiting.update(_example_keys(example, unit))
                if len(waiting) >= 8 * KEPT:
                    kept_keys, waiting = _keep_smallest(kept_keys, waiting), set()
        return cls(unit, _keep_smallest(kept_keys, waiting))

    @classmethod
    def parse(cls, value: Any) -> TrainingSample | None:
        """Parse the result of `plain`; None for anything else."""
        try:
            keys = np.frombuffer(base64.b64decode(value["digests"], validate=True), "<u8").astype(np.uint64)
            return cls(value["unit"], keys[:KEPT]) if value["unit"] in UNITS else None
        except (TypeError, KeyError, ValueError):
            return None

    @classmethod
    def merge(cls, samples: Sequence[TrainingSample]) -> TrainingSample | None:
        """Merge samples of the same unit; None if there are none."""
        if not samples:
            return None
        return cls(samples[0].unit, np.unique(np.concatenate([sample.keys for sample in samples]))[:KEPT])

    def plain(self) -> dict[str, str]:
        """Return the sample as JSON."""
        return {"unit": self.unit, "digests": base64.b64encode(self.keys.astype("<u8").tobytes()).decode()}

    def compare(self, file: str) -> Overlap:
        """Count the examples of a test file that are in the sample."""
        sampled = set(self.keys.tolist())
        limit = int(self.keys[-1]) if len(self.keys) >= KEPT else (1 << 64) - 1
        looked_up = (_lookup_key(example, self.unit) for example in _examples(file, self.unit))
        keys = [number for number in looked_up if number is not None]
        compared = [number for number in keys if number <= limit]
        return Overlap(self.unit, len(keys), len(compared), sum(number in sampled for number in compared))


def warn_of_shared(count: int, places: Sequence[str], what: str) -> list[str]:
    """Return a warning if validation examples are also trained on, so that scores are too good; `places` names some."""
    first_places = ", ".join(places) + ", ..." * (count > len(places))
    return [f"{count:,} of the {what} ({first_places}): take them out of one of the files"] if count else []


def text_files(folder: Path) -> list[str]:
    """Return the text files of a folder in order, judged by their names; hidden ones are skipped."""
    names = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        listed = sorted(name for name in files if not name.startswith(".") and suffix(name) in TEXT_FILES)
        names += [str(Path(place) / name) for name in listed]
    return names


def _examples(file: str, unit: Unit) -> Iterator[list[str]]:
    """Yield the examples of a file as lists of cells or texts; none for a file that cannot be read."""
    try:
        if unit == "rows":
            yield from _rows(file)
        elif unit == "sentences":
            yield from _blocks(file)
        elif suffix(file) in JSON_SUFFIXES:
            yield from _records(file)
        elif suffix(file) == MEMORY_SUFFIX:
            yield from (texts for _, texts in islice(read_cells(file, LineReport()), 1, None))
        else:
            mark = find_delimiter(lambda: _lines(file), spreadsheet=suffix(file) == ".csv")
            if mark == "\t":
                records = (_decode(line).split("\t") for line in _lines(file))
            else:
                records = (record for _, record in split_records(_lines(file), LineReport(), mark, quoted=True))
            first = next(records, [])
            yield from () if _may_be_heading(first) else (first,)
            yield from records
    except ValueError:
        return


def _may_be_heading(record: Sequence[str]) -> bool:
    """True if the first record may be a heading; headings of different datasets are often the same."""
    return len(record) > 1 and all(len(cell.split()) <= HEADING_WORDS for cell in record)


def _lines(file: str) -> Iterator[bytes | None]:
    return lines(file, longest=LONGEST_TEXT)


def _decode(line: bytes | None) -> str:
    return (line or b"").decode("utf-8", errors="replace")


def _rows(file: str) -> Iterator[list[str]]:
    """Yield rows of numbers in a canonical order of columns and notation."""
    sheet = Sheet.read(file)
    order = sorted(range(len(sheet.header)), key=sheet.header.__getitem__)
    for _, row in sheet.lines:
        yield [f"{sheet.header[column]}={_number(row[column])}" for column in order]


def _number(cell: str) -> str:
    try:
        return repr(float(cell))
    except ValueError:
        return cell.strip()


def _blocks(file: str) -> Iterator[list[str]]:
    """Yield the blocks between blank lines as sentences."""
    block: list[str] = []
    for line in _lines(file):
        text = _decode(line)
        if text.strip():
            block.append(text)
        elif block:
            yield [" ".join(block)]
            block = []
    if block:
        yield [" ".join(block)]


def _records(file: str) -> Iterator[list[str]]:
    """Yield the texts of every JSON record."""
    parsed, pieces = 0, list[str]()
    for line in _lines(file):
        text = _decode(line)
        try:
            record = _texts(json.loads(text))
        except (ValueError, RecursionError):
            pieces.append(text)
            continue
        parsed += 1
        yield from _split(record)
    if pieces and not parsed:  # one document over many lines
        try:
            yield from _split(_texts(json.loads("\n".join(pieces))))
        except (ValueError, RecursionError):
            return


def _split(texts: list[str]) -> list[list[str]]:
    return [texts] if len(texts) <= MANY else [[text] for text in texts if " " in text]


def _texts(value: Any) -> list[str]:
    """Return all texts in a JSON value."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inner for text in _texts(part)]


def _example_keys(example: Sequence[str], unit: Unit) -> list[int]:
    """Return the digests of a training example: one of a row, one of every text."""
    if unit == "rows":
        return [key(*example)]
    return [number for cell in example if (number := _text_key(cell)) is not None]


def _lookup_key(example: Sequence[str], unit: Unit) -> int | None:
    """Return the digest by which a test example is looked up: of its row, or of its longest text."""
    if unit == "rows":
        return key(*example)
    for cell in sorted(example, key=len, reverse=True):
        if (number := _text_key(cell)) is not None:
            return number
    return None


def _text_key(cell: str) -> int | None:
    """Return the digest of a text's letters; None for numbers, dates and the like."""
    spelt = letters(cell)
    return hash_bytes(spelt) if spelt and not spelt.isdigit() else None


def _keep_smallest(sorted_keys: UInt64[np.ndarray, "known"], more: Iterable[int]) -> UInt64[np.ndarray, "keys"]:
    return np.union1d(sorted_keys, np.fromiter(more, np.uint64))[:KEPT]
