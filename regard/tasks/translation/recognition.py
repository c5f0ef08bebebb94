"""Recognition of files of sentence pairs, and of their layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.config.paths import real_path
from regard.data.columns import ColumnSample
from regard.data.foreign_formats import describe_marks
from regard.data.pair_headings import language_columns
from regard.data.readers import JSON_SUFFIXES, suffix
from regard.data.sniff import FilePreview, have_same_length
from regard.data.tables import is_table
from regard.tasks.translation.directions import direct_files, read_heading
from regard.training.task import LIKELY, POSSIBLE, SURE, Claim, Given, data_section

SIDES = ("source", "target")
PROSE = {".txt", ".text", ".md", ""}  # endings that do not name a language
TAGGED = (".conll", ".conllu")


def recognise(inputs: Given) -> Claim | None:
    """Claim two line-aligned files, or files with both texts in each line."""
    if inputs.aligned or _are_parallel(inputs.files, explicit=inputs.is_declared):
        for files in (inputs.files, inputs.valid):
            if files and (len(files) != 2 or real_path(files[0]) == real_path(files[1])):
                raise ValueError(
                    f"{' and '.join(files)}: a text is no translation of itself: give two files, one a side"
                )
        source, target = inputs.files
        data = data_section(*([_sides(files, inputs.to)] if files else [] for files in (inputs.files, inputs.valid)))
        sentence = f"pairs, line by line: training a translator from {source} to {target}"
        return Claim(data, sentence, SURE if _share_a_stem(inputs.files) else LIKELY)
    guesses = [
        _guess_corpus(FilePreview.read(name, declared=inputs.is_declared), explicit=inputs.is_declared)
        for name in inputs.files
    ]
    if any(guess is None for guess in guesses):
        return None
    sections = [{**section, **_tag(inputs.to)} for section, _ in filter(None, guesses)]
    valid = [_validation_file(sections[0], name) for name in inputs.valid]
    directed = direct_files([*sections, *valid], inputs.to)
    sections, valid = directed[: len(sections)], directed[len(sections) :]
    data = data_section(sections, valid)
    sentence = "pairs: training a translator from {} to {}".format(*_name_sides(inputs.files[0], sections[0]))
    return Claim(data, sentence, min(confidence for _, confidence in filter(None, guesses)))


def _validation_file(first: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return settings of a validation file: its own columns if its heading names languages, or those of training."""
    columns = language_columns(read_heading(name))
    return {**first, "path": name, **({} if columns is None else {"columns": list(columns)})}


def _name_sides(name: str, section: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of the two sides of a file of pairs: from its heading, its fields, or its column numbers."""
    if suffix(name) in JSON_SUFFIXES:
        first, second = section.get("fields", SIDES)
        return first, second
    source, target = section.get("columns", (1, 2))
    rows = FilePreview.read(name, declared=True).rows
    if rows and section.get("heading") is not False and language_columns(rows[0]) == (source, target):
        return rows[0][source - 1].strip(), rows[0][target - 1].strip()
    return f"column {source}", f"column {target}"


def _are_parallel(files: Sequence[str], *, explicit: bool) -> bool:
    """Return True if line n of the second file translates line n of the first."""
    if len(files) != 2 or any(is_table(name) or suffix(name) in TAGGED for name in files):
        return False
    if (marks := next(filter(None, map(describe_marks, files)), None)) is not None:
        raise ValueError(marks)
    previews = [FilePreview.read(name, declared=explicit) for name in files]
    if not all(preview.is_plain for preview in previews):
        return False
    return explicit or _share_a_stem(files) or have_same_length(files)


def _share_a_stem(files: Sequence[str]) -> bool:
    """Return True if the names differ only in an ending such as .fr and .en."""
    (first_stem, first), (second_stem, second) = (
        (name.removesuffix(".gz").removesuffix(suffix(name)), suffix(name)) for name in files
    )
    return first_stem == second_stem and first != second and not {first, second} & PROSE


def _sides(files: Sequence[str], to: str | None) -> dict[str, Any]:
    return {**dict(zip(SIDES, files, strict=True)), **_tag(to)}


def _tag(to: str | None) -> dict[str, str]:
    return {} if to is None else {"tag": to}


def _guess_corpus(preview: FilePreview, *, explicit: bool) -> tuple[dict[str, Any], int] | None:
    """Return the settings of a file with both texts in each line, and the confidence; None if it is none."""
    guess = _guess_fields(preview) if preview.is_json else _guess_columns(preview)
    return guess or (({"path": preview.name}, SURE) if explicit else None)


def _guess_fields(preview: FilePreview) -> tuple[dict[str, Any], int] | None:
    """The two texts of JSON lines: source and target, a translation by languages, or the only two there are."""
    sample = ColumnSample.of_records(preview.name, preview.records, texts=True)
    if set(SIDES) <= set(sample.names):
        return {"path": preview.name}, SURE
    if len(sample.names) != 2 or any(column.is_categorical for column in sample.columns):
        return None
    is_translation = sample.names[0].startswith("translation.")
    return {"path": preview.name, "fields": list(sample.names)}, SURE if is_translation else LIKELY


def _guess_columns(preview: FilePreview) -> tuple[dict[str, Any], int] | None:
    """Return the columns of the two texts: those named after languages, or else the first two."""
    if preview.suffix in TAGGED or preview.blank_line_count > len(preview.lines) // 100 or not preview.columns:
        return None
    heading_columns = language_columns(preview.rows[0]) if len(preview.rows) > 1 else None
    if heading_columns is not None and not any(
        preview.columns[number - 1].is_mostly_numeric for number in heading_columns
    ):
        return {"path": preview.name, **({} if heading_columns == (1, 2) else {"columns": list(heading_columns)})}, SURE
    if preview.suffix == ".csv" and (len(preview.columns) != 2 or min(column.words for column in preview.columns) < 2):
        return None
    first, second = preview.columns[:2]
    if first.is_numeric or second.is_numeric:
        return None
    if first.is_categorical or second.is_categorical:
        return None if first.has_enough_cells else ({"path": preview.name}, POSSIBLE)
    return {"path": preview.name}, SURE if min(first.words, second.words) >= 2 else LIKELY
