"""Which files are pairs of texts, and how they are laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.config.paths import real_path
from regard.data.foreign_formats import describe_marks
from regard.data.glimpse import Column, Glimpse, same_length
from regard.data.pair_headings import language_columns
from regard.data.readers import JSON_SUFFIXES, suffix
from regard.data.tables import is_table
from regard.tasks.translation.directions import direct_files, heading_of
from regard.training.task import LIKELY, POSSIBLE, SURE, Claim, Given, data_section

SIDES = ("source", "target")
PROSE = {".txt", ".text", ".md", ""}  # endings that say nothing of a language
TAGGED = (".conll", ".conllu")


def recognise(given: Given) -> Claim | None:
    """Two files that belong together line by line, or files with both texts in each line."""
    if given.aligned or _beside(given.files, told=given.told):
        for files in (given.files, given.valid):
            if files and (len(files) != 2 or real_path(files[0]) == real_path(files[1])):
                raise ValueError(
                    f"{' and '.join(files)}: a text is no translation of itself: give two files, one a side"
                )
        source, target = given.files
        data = data_section(*([_sides(files, given.to)] if files else [] for files in (given.files, given.valid)))
        what = f"pairs, line by line: training a translator from {source} to {target}"
        return Claim(data, what, SURE if _stems(given.files) else LIKELY)
    looks = [_together(Glimpse.at(name, told=given.told), told=given.told) for name in given.files]
    if any(look is None for look in looks):
        return None
    sections = [{**section, **_tag(given.to)} for section, _ in filter(None, looks)]
    valid = [_validation_file(sections[0], name) for name in given.valid]
    directed = direct_files([*sections, *valid], given.to)
    sections, valid = directed[: len(sections)], directed[len(sections) :]
    data = data_section(sections, valid)
    what = "pairs: training a translator from {} to {}".format(*_named_sides(given.files[0], sections[0]))
    return Claim(data, what, min(sure for _, sure in filter(None, looks)))


def _validation_file(first: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings of a validation file: its own columns if its heading names languages, else those of training."""
    named = language_columns(heading_of(name))
    return {**first, "path": name, **({} if named is None else {"columns": list(named)})}


def _named_sides(name: str, section: Mapping[str, Any]) -> tuple[str, str]:
    """What the two sides of a file of pairs are called: by its heading, its fields, or the numbers of its columns."""
    if suffix(name) in JSON_SUFFIXES:
        first, second = section.get("fields", SIDES)
        return first, second
    source, target = section.get("columns", (1, 2))
    rows = Glimpse.at(name, told=True).rows
    if rows and section.get("heading") is not False and language_columns(rows[0]) == (source, target):
        return rows[0][source - 1].strip(), rows[0][target - 1].strip()
    return f"column {source}", f"column {target}"


def _beside(files: Sequence[str], *, told: bool) -> bool:
    """Whether two files hold a text each, line n of the second translating line n of the first."""
    if len(files) != 2 or any(is_table(name) or suffix(name) in TAGGED for name in files):
        return False
    if (marks := next(filter(None, map(describe_marks, files)), None)) is not None:
        raise ValueError(marks)
    looks = [Glimpse.at(name, told=told) for name in files]
    if not all(look.is_plain for look in looks):
        return False
    return told or _stems(files) or same_length(files)


def _stems(files: Sequence[str]) -> bool:
    """Whether they are named alike but for an ending such as .fr and .en."""
    (one, first), (other, second) = (
        (name.removesuffix(".gz").removesuffix(suffix(name)), suffix(name)) for name in files
    )
    return one == other and first != second and not {first, second} & PROSE


def _sides(files: Sequence[str], to: str | None) -> dict[str, Any]:
    return {**dict(zip(SIDES, files, strict=True)), **_tag(to)}


def _tag(to: str | None) -> dict[str, str]:
    return {} if to is None else {"tag": to}


def _together(look: Glimpse, *, told: bool) -> tuple[dict[str, Any], int] | None:
    """The corpus that a file with both texts in each line is, and how sure that is."""
    found = _fields(look) if look.is_json else _columns(look)
    return found or (({"path": look.name}, SURE) if told else None)


def _fields(look: Glimpse) -> tuple[dict[str, Any], int] | None:
    """The two texts of JSON lines: source and target, a translation by languages, or the only two there are."""
    texts = [_texts(record) for record in look.records]
    if not texts or any(found.keys() != texts[0].keys() for found in texts):
        return None
    names = tuple(texts[0])
    if set(SIDES) <= set(names):
        return {"path": look.name}, SURE
    if len(names) != 2 or any(Column(tuple(found[name] for found in texts)).repeats for name in names):
        return None
    return {"path": look.name, "fields": list(names)}, SURE if names[0].startswith("translation.") else LIKELY


def _texts(record: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a record, those one level down by names with a dot."""
    inner = {
        f"{name}.{key}": text
        for name, value in record.items()
        if isinstance(value, Mapping)
        for key, text in value.items()
    }
    return {name: text for name, text in {**record, **inner}.items() if isinstance(text, str)}


def _columns(look: Glimpse) -> tuple[dict[str, Any], int] | None:
    """The two texts of a line: the two columns named after languages, or else the first two."""
    if look.suffix in TAGGED or look.blanks > len(look.lines) // 100 or not look.columns:
        return None
    named = language_columns(look.rows[0]) if len(look.rows) > 1 else None
    if named is not None and not any(look.columns[number - 1].mostly_numeric for number in named):
        return {"path": look.name, **({} if named == (1, 2) else {"columns": list(named)})}, SURE
    if look.suffix == ".csv" and (len(look.columns) != 2 or min(column.words for column in look.columns) < 2):
        return None
    first, second = look.columns[:2]
    if first.numeric or second.numeric:
        return None
    if first.repeats or second.repeats:
        return None if first.telling else ({"path": look.name}, POSSIBLE)
    return {"path": look.name}, SURE if min(first.words, second.words) >= 2 else LIKELY
