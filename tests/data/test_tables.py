"""Tables from files: every delimiter, encoding and form that people save them in, and what is left out of them."""

import gzip
import json
from pathlib import Path

import pytest

from regard.data.line_report import LineReport
from regard.data.sniff import FilePreview
from regard.data.table_records import DELIMITERS, LARGEST_CELL, split_line
from regard.data.tables import (
    Sheet,
    StrictReport,
    TableFormat,
    detect_format,
    detect_heading_format,
    is_table,
    read_even_rows,
    read_objects,
    read_rows,
)

ROWS = [["name", "remark"], ["Ada", 'said "no"'], ["Eve", "two\nlines, and; a | tab\t"], ["Max", "été"]]


def quote(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"'


def save(path: Path, text: str, encoding: str = "utf-8") -> str:
    path.write_bytes(text.encode(encoding))
    return str(path)


def read(path: str) -> tuple[list[tuple[int, list[str]]], LineReport]:
    report = LineReport()
    return list(read_rows(path, report)), report


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("head", ["", "\ufeff", "sep"])
def test_a_spreadsheet_is_read_whatever_separates_its_cells(tmp_path, delimiter, end, head):
    lines = [delimiter.join(map(quote, row)) for row in ROWS]
    head = f"sep={delimiter}{end}" if head == "sep" else head
    text = head + "".join(f"{line}{end}" for line in lines)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    below = [row if "\n" not in row[1] else [row[0], row[1].replace("\n", "\n")] for row in ROWS]
    first = 2 if head.startswith("sep") else 1
    for path in (save(tmp_path / "t.csv", text), str(tmp_path / "t.csv.gz")):
        rows, report = read(path)
        assert rows == list(zip((first, first + 1, first + 2, first + 4), below, strict=True))
        assert (report.read, report.refused, report.dropped) == (4, {}, {})
        assert detect_heading_format(path) == detect_format(path) == TableFormat(delimiter, True)


def test_what_is_left_out_of_a_table_is_counted_with_its_lines_and_reading_goes_on(tmp_path):
    path = tmp_path / "t.csv"
    lines = [b"a,b", b"1,2", b",", b"3,\xe9", b"4,5", b"6," + b"x" * (LARGEST_CELL + 1), b"", b'7,"open', b"8,9"]
    path.write_bytes(b"\n".join(lines) + b"\n")
    rows, report = read(str(path))
    assert rows == [(1, ["a", "b"]), (2, ["1", "2"]), (5, ["4", "5"]), (9, ["8", "9"])]
    assert {reason: found.places for reason, found in report.refused.items()} == {
        "invalid UTF-8": [(0, 4)],
        "longer than 1,048,576 bytes": [(0, 6)],
        "with a quotation mark that is never closed": [(0, 8)],
    }
    assert {reason: found.places for reason, found in report.dropped.items()} == {"blank": [(0, 3), (0, 7)]}


@pytest.mark.parametrize(
    ("text", "encoding", "said"),
    [
        ("a;b\n1;é\n", "latin-1", r"t\.csv:2: not UTF-8: save the table as UTF-8 \(it looks like Latin-1: iconv -f"),
        ('a;b\n1;"2\n', "utf-8", r"t\.csv:2: a quotation mark inside a cell, or one that is never closed: correct"),
        ('a;b\n1;"2"3\n', "utf-8", r"t\.csv:2: a quotation mark inside a cell"),
        (f"a;b\n1;{'2' * (LARGEST_CELL + 1)}\n", "utf-8", r"t\.csv:2: a line of more than 1,048,576 bytes: correct it"),
        ("a;b\n1;2\n3;4;5\n", "utf-8", r"t\.csv:3: 3 cells under 2 columns: correct the line"),
        ("\n\n", "utf-8", r"t\.csv is empty: give a table with the names of its columns in the first line"),
    ],
)
def test_who_needs_every_row_hears_of_the_first_that_cannot_be_read(tmp_path, text, encoding, said):
    with pytest.raises(ValueError, match=said):
        list(read_even_rows(save(tmp_path / "t.csv", text, encoding)))


def test_a_table_without_the_ending_of_a_spreadsheet_has_tabs_and_quotation_marks_are_text(tmp_path):
    path = save(tmp_path / "t.txt", 'one "word\t1\nanother, here\t2\n')
    assert read(path)[0] == [(1, ['one "word', "1"]), (2, ["another, here", "2"])]


@pytest.mark.parametrize(
    ("text", "rows", "commas"),
    [
        ("a;b\n1,5;x\n-2,25e3;y\n", [["1.5", "x"], ["-2.25e3", "y"]], True),
        ("a\tb\n1,5\t2,0\n", [["1.5", "2.0"]], True),
        ("a;b\n1,500;2.5\n", [["1,500", "2.5"]], False),  # a thousand and a half
        ("a,b\n1,5\n", [["1", "5"]], False),
    ],
)
def test_decimal_commas_become_points_where_numbers_are_written_so_throughout(tmp_path, text, rows, commas):
    path = save(tmp_path / "t.csv", text)
    sheet = Sheet.read(path)
    assert ([row for _, row in sheet.lines], sheet.decimal_commas) == (rows, commas)
    assert FilePreview.read(path).rows[1:] == rows


def test_a_row_of_empty_cells_is_a_row_of_a_table_of_numbers(tmp_path):
    """It is refused later by its place; a table must not become shorter without a word."""
    sheet = Sheet.read(save(tmp_path / "t.csv", "a,b\n1,2\n,\n\n3,4\n"))
    assert [(place.rpartition(":")[2], row) for place, row in sheet.lines] == [
        ("2", ["1", "2"]),
        ("3", ["", ""]),
        ("5", ["3", "4"]),
    ]


def test_objects_of_json_are_read_by_their_lines(tmp_path):
    records = [{"text": "a", "label": 1}, {"text": "b"}]
    path = save(tmp_path / "t.jsonl", "".join(f"{json.dumps(record)}\n" for record in records) + "[1]\n{")
    report = LineReport()
    assert list(read_objects(path, report)) == [(1, records[0]), (2, records[1])]
    assert {reason: found.places for reason, found in report.refused.items()} == {
        "that is no object of JSON": [(0, 3)],
        "invalid JSON": [(0, 4)],
    }
    with pytest.raises(ValueError, match=r"t\.jsonl:3: no JSON object, give one in each line"):
        list(read_objects(path, StrictReport(path=path)))


def test_tables_are_known_by_their_names():
    named = ["a.csv", "a.TSV", "a.csv.gz", "a.jsonl", "a.tmx", "a.txt", "a.csv.txt", "csv"]
    assert list(map(is_table, named)) == [True, True, True, True, True, False, False, False]


def test_the_cells_of_one_line():
    assert split_line('a,"b,c",') == ["a", "b,c", ""]
    assert split_line("") == []
