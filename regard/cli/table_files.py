"""Recognise tables whose names do not say so: their first lines have the same columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from regard.cli.text_io import read_lines
from regard.data.column_names import LABELS, TEXTS
from regard.data.columns import can_be_heading, find_name
from regard.data.line_report import LineReport
from regard.data.pair_headings import language_columns
from regard.data.table_records import find_delimiter, split_records
from regard.data.text_columns import TextColumn

SAMPLE_LINES = 200  # lines that are looked at
MIN_EQUAL_SHARE = 0.9  # share of lines with the same number of columns


def sample_columns(path: Path) -> tuple[str, list[list[str]]]:
    """Return the delimiter of a file without the name of a table, and its first rows; none if it is plain text."""
    if not path.is_file():  # of a pipe nothing can be read twice
        return "", []
    try:
        sample = [line.encode() for line in islice(read_lines(path), SAMPLE_LINES) if line.strip()]
    except ValueError:
        return "", []  # whoever reads it says why it cannot be read
    delimiter = find_delimiter(lambda: sample, spreadsheet=False)
    rows = [row for _, row in split_records(sample, LineReport(), delimiter, quoted=delimiter != "\t")]
    widths = Counter(len(row) for row in rows)
    width, count = widths.most_common(1)[0] if widths else (1, 0)
    filled_rows = sum(sum(map(bool, map(str.strip, row))) > 1 and bool(row[0].strip()) for row in rows)
    return (delimiter, rows) if width > 1 and min(count, filled_rows) >= MIN_EQUAL_SHARE * len(rows) else ("", [])


def is_unnamed_table(
    delimiter: str, rows: Sequence[Sequence[str]], expected: TextColumn, usual_names: Sequence[str]
) -> bool:
    """True if rows are those of a table like the one trained on: by its heading, its known labels or its columns."""
    if not rows:
        return False
    heading = [cell.strip() for cell in rows[0]]
    known_names = (*expected.names, *usual_names, *TEXTS)
    if all(heading) and can_be_heading(heading) and (text := find_name(heading, known_names)) is not None:
        return delimiter == "\t" or find_name(heading, (*known_names, *LABELS), [text]) is not None
    if delimiter != "\t":
        return False
    if language_columns(rows[0]) is not None:
        return True
    if expected.labels and any(_holds_labels(column, expected) for column in zip(*rows, strict=False)):
        return True
    last_column = max(expected.number or 0, expected.label_number or 0)
    return not expected.names and 1 < last_column <= len(heading)


def _holds_labels(column: Sequence[str], expected: TextColumn) -> bool:
    """True if most cells of a column are labels that the model was trained on."""
    return sum(cell.strip() in expected.labels for cell in column) > len(column) / 2
