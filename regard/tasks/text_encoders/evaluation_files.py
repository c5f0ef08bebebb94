"""Labelled files for evaluation: columns are found by their names in training, else by heading and labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard import config
from regard.data.column_content import is_number
from regard.data.column_names import TEXTS
from regard.data.columns import (
    PAIR_ROLES,
    ColumnSample,
    Role,
    can_be_heading,
    choose_columns,
    choose_pair,
    find_name,
    find_names,
)
from regard.data.encodings import find_file
from regard.data.tables import detect_format, is_json, read_sample
from regard.tasks.text_encoders.checkpoint_columns import read_column_names
from regard.tasks.text_encoders.examples import ExampleFile
from regard.tasks.text_encoders.labelled_file import LabelledFile

TABLE_SETTINGS = ("heading", "delimiter")
REPLACED_SETTINGS = {
    "columns": ("text", "label", *TABLE_SETTINGS),
    "text": ("columns", *TABLE_SETTINGS),
    "label": ("columns", *TABLE_SETTINGS),
}
"""Settings of the training files that are dropped if the columns of a file are named."""
SAMPLE_ROWS = 200  # records read to find the columns
COLUMNS_REMEDY = "--columns 1 2 by number or -s text=NAME -s label=NAME by name"


@dataclass(frozen=True)
class TrainedLayout:
    """The layout of a model's training files, and its labels."""

    kind: type[ExampleFile]
    data: Mapping[str, Any]
    """The checkpoint's data section: the settings of the first file, and the names of its columns."""
    labels: Collection[str] = ()
    """Names of the classes; none for ratings."""

    def open_files(self, paths: Sequence[str | Path], changes: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
        """Return the files with their settings, and a note on each file with another layout.

        Columns named in `changes` replace those of training, in whichever setting these are given.
        """
        if not paths:
            raise ValueError("nothing to measure on: name a file like those that the model was trained on")
        replaced = {setting for change in changes for setting in REPLACED_SETTINGS.get(change, ())}
        trained_settings = {name: value for name, value in self.data["file"].items() if name not in replaced}
        files, notes = [], []
        for path in map(str, paths):
            find_file(path)
            if changes or is_json(path) or not issubclass(self.kind, LabelledFile):
                files.append(config.build(self.kind, {**trained_settings, "path": path, **changes}, where="file"))
                continue
            file = config.build(self.kind, {**trained_settings, "path": path}, where="file")
            assert isinstance(file, LabelledFile)
            file, note = (file, []) if file.constant_label is not None else self._match_columns(file)
            files.append(file)
            notes += note
        return files, notes

    def _match_columns(self, file: LabelledFile) -> tuple[LabelledFile, list[str]]:
        """Return the file with its columns by their names in training, else by its own heading and labels."""
        texts, label = read_column_names(self.data)
        trained = _trained_columns(file)
        if not texts and trained is None:
            return file, []  # without known columns, the layout is recognised
        sample = _read_sample(file)
        named_texts = _find_numbers(sample.names, texts)
        named_label = _find_numbers(sample.names, [label] if label else ())
        if named_texts and named_label and len({*named_texts, *named_label}) == len(texts) + 1:
            return _with_columns(file, (*named_texts, *named_label), heading=True), []
        label_column = named_label[0] if named_label else self._find_label(sample, trained)
        if label_column is None:
            return self._keep_trained_columns(file, sample, trained)
        heading = bool(named_texts or named_label) or (
            not self._is_label(sample.names[label_column - 1]) and _starts_with_names(sample, label_column)
        )
        num_texts = len(trained) - 1 if trained else len(texts) or 1
        word_columns = [
            number
            for number in range(1, len(sample.names) + 1)
            if number != label_column and _has_words(sample, number)
        ]
        text_columns = named_texts or (
            tuple(word_columns) if len(word_columns) == num_texts else self._find_texts(sample, heading, trained)
        )
        if not text_columns or label_column in text_columns or len(text_columns) != num_texts:
            raise ValueError(_explain_unclear_columns(file.path, sample if heading else None, texts))
        columns = (*text_columns, label_column)
        if columns == trained and (named_texts or not (texts or heading)):
            return _with_columns(file, columns, heading=heading), []
        role_names = (*(["text"] if num_texts == 1 else PAIR_ROLES), "label")
        roles = [Role(name=name, column=column) for name, column in zip(role_names, columns, strict=True)]
        layout = choose_columns(replace(sample, names=sample.names if heading else ()), roles)
        difference = (
            "has no heading" if columns == trained and not heading else "is laid out otherwise than what was trained on"
        )
        return _with_columns(file, columns, heading=heading), [f"{file.path} {difference}: {layout.describe()}"]

    def _keep_trained_columns(
        self, file: LabelledFile, sample: ColumnSample, trained: tuple[int, ...] | None
    ) -> tuple[LabelledFile, list[str]]:
        """Return the file with the columns of training if no label is known; reading it reports unknown labels."""
        texts, _ = read_column_names(self.data)
        has_all_columns = (
            trained is not None and sum(len(row) >= max(trained) for row in sample.rows) > len(sample.rows) / 2
        )
        if not has_all_columns or trained is None:
            raise ValueError(_explain_unclear_columns(file.path, None, texts))
        if texts and _starts_with_names(sample, trained[-1]):
            raise ValueError(_explain_unclear_columns(file.path, sample, texts))
        return file, []

    def _find_label(self, sample: ColumnSample, trained: tuple[int, ...] | None) -> int | None:
        """Return the column in which most cells are known labels; None if there is none, or several are possible."""
        numbers = range(1, len(sample.names) + 1)
        label_columns = [number for number in numbers if self._holds_labels(sample, number)]
        usual_column = find_name(sample.names, self.kind.USUAL_LABELS) if issubclass(self.kind, LabelledFile) else None
        if usual_column is not None and usual_column + 1 in label_columns:
            return usual_column + 1
        if trained is not None and trained[-1] in label_columns:
            return trained[-1]
        return label_columns[0] if len(label_columns) == 1 else None

    def _holds_labels(self, sample: ColumnSample, number: int) -> bool:
        column = sample.columns[number - 1].cells or [sample.names[number - 1]]
        return sum(map(self._is_label, column)) >= len(column) / 2

    def _is_label(self, cell: str) -> bool:
        if self.kind.has_ratings:
            return is_number(cell)
        return self.data.get("names", {}).get(cell, cell) in self.labels

    def _find_texts(self, sample: ColumnSample, heading: bool, trained: tuple[int, ...] | None) -> tuple[int, ...]:
        """Return the text columns by usual names in the heading, or those of training; none if their names differ."""
        trained_columns = trained[:-1] if trained is not None else ()
        if not heading:
            return trained_columns
        pair = choose_pair(sample.names) if len(trained_columns) == 2 else None
        text_place = find_name(sample.names, TEXTS) if len(trained_columns) < 2 else None
        usual_columns = tuple(place + 1 for place in (pair or (text_place,)) if place is not None)
        if read_column_names(self.data)[0] or max(trained_columns, default=0) > len(sample.names):
            return usual_columns  # the names of training are missing, so that its column numbers mean nothing
        trained_names = [sample.names[number - 1] for number in trained_columns]
        are_usual = all(find_name([name], TEXTS) is not None for name in trained_names)
        return trained_columns if not usual_columns or are_usual else usual_columns


def _read_sample(file: LabelledFile) -> ColumnSample:
    """Read the first records of a file, with the delimiter of training or the detected one."""
    rows = read_sample(file.path, detect_format(file.path, file.delimiter), SAMPLE_ROWS)
    return ColumnSample(file.path, tuple(cell.strip() for cell in rows[0]) if rows else (), rows[1:])


def _has_words(sample: ColumnSample, number: int) -> bool:
    """True if a column holds anything but numbers."""
    return not all(map(is_number, filter(None, sample.columns[number - 1].cells or [sample.names[number - 1]])))


def _starts_with_names(sample: ColumnSample, label: int) -> bool:
    """True if the first line can be a heading, and its label does not occur again."""
    return (
        can_be_heading(sample.names)
        and label <= sample.width
        and sample.names[label - 1] not in sample.columns[label - 1].cells
    )


def _find_numbers(heading: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    return tuple(place + 1 for place in find_names(heading, names))


def _trained_columns(file: LabelledFile) -> tuple[int, ...] | None:
    """Return the column numbers of texts and label in training; None if they have names only, or are unknown."""
    column_settings: tuple[str | int | None, ...] = file.columns or (*file.text_columns, file.label)
    numbers = tuple(column for column in column_settings if isinstance(column, int))
    return numbers if len(numbers) == len(column_settings) > 1 else None


def _with_columns(file: LabelledFile, columns: tuple[int, ...], *, heading: bool) -> LabelledFile:
    return replace(
        file,
        columns=columns,
        text=None,
        label=None,
        heading=heading,
    )


def _explain_unclear_columns(path: str, sample: ColumnSample | None, texts: Sequence[str]) -> str:
    """Return the error message for a table whose text and label columns cannot be found."""
    shown = f" (its first line is {', '.join(sample.names)[:100]})" if sample is not None else ""
    missing = f", without a column {' or '.join(texts)}" if texts and sample is not None else ""
    return (
        f"{path} is laid out otherwise than what was trained on{missing}{shown}: name its columns of text and label, "
        f"{COLUMNS_REMEDY}"
    )
