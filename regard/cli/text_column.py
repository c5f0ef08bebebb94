"""Read the texts of an input file: lines of plain text, or one column of a table without its heading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from regard.cli.table_files import is_unnamed_table, sample_columns
from regard.cli.text_io import print_note, read_lines
from regard.data.column_names import PICTURE_FILES, TEXTS
from regard.data.columns import ColumnSample, suggest_column
from regard.data.readers import suffix
from regard.data.tables import is_table
from regard.data.text_columns import read_table_texts
from regard.tasks.inputs import SENTENCE, TEXT, Inputs

PLAIN_TEXT = Inputs(kind=TEXT, parse=str)


def plain_lines(path: Path) -> Iterator[str]:
    """Return the lines of a file for a command that reads no columns; a table is refused."""
    if is_table(path.name):
        raise ValueError(f"{path} is a table: give a file with a text in each line (.txt)")
    return read_lines(path)


def read_texts(
    path: Path,
    *,
    inputs: Inputs = PLAIN_TEXT,
    column: str | None = None,
    usual_names: Sequence[str] = (),
    report: Callable[[str], None] = print_note,
) -> Iterator[str]:
    """Return the texts of a file: its lines, or the cells of one column of a table, and `report` which.

    The column is the one asked for, the one of the training file, or one of `usual_names`. A file in which none can be
    found is refused.
    """
    if suffix(path.name) in inputs.word_files and column is None:
        raise ValueError(f"{path} has a word in each line: give a file with a sentence in each line (.txt)")
    expected = inputs.text_column
    usual_names = PICTURE_FILES if inputs.kind.is_path else (*usual_names, *TEXTS)
    if not is_table(path.name):
        delimiter, rows = sample_columns(path)
        if column is not None and not rows:
            raise ValueError(f"--column {column}: {path} is no table (.csv, .tsv, .jsonl), leave it out")
        if column is None and not is_unnamed_table(delimiter, rows, expected, usual_names):
            if description := _describe_whole_lines(path, delimiter, rows, reads_words=inputs.kind is SENTENCE):
                report(description)
            return read_lines(path)
    return read_table_texts(str(path), column=column, expected=expected, usual=usual_names, tell=report)


def _describe_whole_lines(path: Path, delimiter: str, rows: Sequence[Sequence[str]], *, reads_words: bool) -> str:
    """Say that lines with tabs between columns are texts as a whole; stop where these are words with their tags."""
    if delimiter != "\t" or len(rows) < 2:
        return ""
    if reads_words:
        raise ValueError(f"{path} has a word in each line: give a file with a sentence in each line (.txt)")
    width = len(rows[0])
    return (
        f"{path}: its lines are read whole, though all have {width} columns between tabs: "
        f"--column {suggest_column(ColumnSample(str(path), rows=rows))} reads one of them"
    )
