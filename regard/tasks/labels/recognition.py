"""Which files are labelled texts, tagged words or questions with choices, and how they are laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.column_names import DEGREES, LABELS, VERDICTS, find_name, find_names, find_pair
from regard.data.glimpse import Column, Glimpse
from regard.tasks.labels.choice_file import ChoiceFile, usual_columns
from regard.tasks.labels.tagged_file import WORD_FILE_SUFFIXES
from regard.training.task import LIKELY, NAMED, POSSIBLE, SURE, Claim, Given, data_section

LayoutGuess = tuple[dict[str, Any], str, int]  # settings of a file, how it is read in words, how sure that is
USUAL_FIELDS = ("text", "label")
CONLLU_COLUMNS = 10  # columns of CoNLL-U, whose second is the word and whose fourth is its part of speech


def recognise_labelled_texts(given: Given) -> Claim | None:
    """Texts with a label in each line; told to be labelled, plain files hold the texts of one label each."""
    looks = [Glimpse.at(name, declared=given.is_declared) for name in given.files]
    if given.is_declared and len(looks) > 1 and all(look.is_plain for look in looks):
        words = "each file's name being the label of its lines"
        named = [({"label": _file_stem(look.name)}, words, SURE) for look in looks]
        whole = [{"path": name, "label": _file_stem(name)} for name in given.valid]
        return _make_claim(given, named, "labelled texts, {}: training a classifier", whole)
    found: list[LayoutGuess | None] = [_guess_labelled(look) for look in looks]
    valid: list[dict[str, Any]] | None = None
    if looks and (leading := found[0]) is not None:
        first, how = looks[0], leading[0]
        for number, (glimpse, own) in enumerate(zip(looks[1:], found[1:], strict=True), start=1):
            found[number] = own and (_columns_by_name(first, how, glimpse) or own[0], *own[1:])
        valid = [_validation_file(first, how, name, told=given.is_declared) for name in given.valid]
    return _make_claim(given, found, "labelled texts, {}: training a classifier", valid)


def recognise_rated_pairs(given: Given) -> Claim | None:
    """Pairs of texts with a number in each line that says how alike they are."""
    looks = [_guess_ratings(Glimpse.at(name, declared=given.is_declared)) for name in given.files]
    return _make_claim(given, looks, "rated pairs, {}: training a model of similarity")


def recognise_choice_questions(given: Given) -> Claim | None:
    """Questions with answers to choose from, whose columns are named as usual."""
    looks = [_guess_questions(Glimpse.at(name, declared=given.is_declared)) for name in given.files]
    return _make_claim(given, looks, "questions with choices, {}: training a model that chooses")


def recognise_tagged_words(given: Given) -> Claim | None:
    """Words with a tag each, as word/tag with a sentence in each line, or with a word in each line."""
    return _make_claim(
        given,
        [_guess_tags(Glimpse.at(name, declared=given.is_declared)) for name in given.files],
        "tagged words, {}: training a tagger",
    )


def _make_claim(
    given: Given, looks: Sequence[LayoutGuess | None], sentence: str, valid: list[dict[str, Any]] | None = None
) -> Claim | None:
    if given.to is not None:
        return None
    if given.is_declared:
        looks = [look or ({}, "as their reader finds them", SURE) for look in looks]
    found = [look for look in looks if look is not None]
    if len(found) < len(looks):
        return None
    train = [{"path": name, **how} for name, (how, _, _) in zip(given.files, found, strict=True)]
    data = data_section(train, valid or [{**train[0], "path": name} for name in given.valid])
    return Claim(data, sentence.format(found[0][1]), min(sure for _, _, sure in found))


def _columns_by_name(first: Glimpse, how: Mapping[str, Any], other: Glimpse) -> dict[str, Any] | None:
    """The settings of another table whose columns have the names of the first, in any order; None if they have not."""
    if first.is_json or not first.heading or not other.rows or "text" in how:
        return None
    names = [first.heading[column - 1] for column in how.get("columns", (1, 2))]
    places = find_names(other.rows[0], names)
    return {"columns": [place + 1 for place in places], "heading": True} if places else None


def _validation_file(first: Glimpse, how: Mapping[str, Any], name: str, *, told: bool) -> dict[str, Any]:
    """The settings of a validation file: columns by the names of training, by its own heading, or as in training."""
    other = Glimpse.at(name, declared=told)
    named = _columns_by_name(first, how, other)
    if named is not None or first.is_json or other.is_json:
        return {"path": name, **(how if named is None else named)}
    own = _guess_labelled(other) if other.heading else None
    return {"path": name, **({key: value for key, value in how.items() if key != "heading"} if own is None else own[0])}


def _file_stem(name: str) -> str:
    return Path(name.removesuffix(".gz")).stem


def _guess_questions(look: Glimpse) -> LayoutGuess | None:
    """What is given, the choices and which of them is right, by their names."""
    try:
        there = ChoiceFile(path=look.name).first_values if look.suffix == ".xml" else _first_record(look)
    except ValueError:  # no XML
        return None
    found = usual_columns(there)
    return ({}, found.note, NAMED) if all(found) else None


def _first_record(look: Glimpse) -> dict[str, Any]:
    """The first record of a file that has names for its columns."""
    names, columns = _named_columns(look)
    return (
        dict(look.records[0])
        if look.is_json and names
        else {n: c.cells[0] for n, c in zip(names, columns, strict=True)}
    )


def _guess_labelled(look: Glimpse) -> LayoutGuess | None:
    if _guess_questions(look) is not None:
        return None
    if (found := _guess_pairs(look)) is not None or _guess_ratings(look) is not None:
        return found
    return _guess_json_fields(look) if look.is_json else _guess_columns(look)


def _guess_pairs(look: Glimpse) -> LayoutGuess | None:
    """The two texts and the label of pairs, where a heading or the fields of JSON lines name them."""
    names, columns = _named_columns(look)
    pair, label = find_pair(names), find_name(names, (*VERDICTS, *LABELS))
    if pair is None:
        return None
    repeating = [number for number, column in enumerate(columns) if column.repeats and number not in pair]
    label = label if label is not None else repeating[-1] if repeating else None
    if label is None or label in pair or _holds_fractions(columns[label]):
        return None
    first, second, told = (names[number] for number in (*pair, label))
    how = {"text": [first, second], "label": told}
    return how, f"pairs of {first} and {second}, the label in {told}", NAMED


def _guess_ratings(look: Glimpse) -> LayoutGuess | None:
    """The two texts of pairs and the number that says how alike they are."""
    names, columns = _named_columns(look)
    pair, score = find_pair(names), find_name(names, (*DEGREES, *LABELS))
    if pair is None or score is None or score in pair or not columns[score].numeric:
        return None
    first, second, told = (names[number] for number in (*pair, score))
    how = {"text": [first, second], "label": told}
    sure = LIKELY if _guess_pairs(look) is not None else NAMED  # a label may be a number too
    return how, f"pairs of {first} and {second}, their score in {told}", sure


def _named_columns(look: Glimpse) -> tuple[list[str], list[Column]]:
    """The columns of a file that has names for them."""
    if not look.is_json:
        return (look.heading or [], look.columns if look.heading else [])
    names = [name for name in look.records[0] if all(name in record for record in look.records)] if look.records else []
    return names, [Column(tuple(str(record[name]) for record in look.records)) for name in names]


def _holds_fractions(column: Column) -> bool:
    """Whether a column holds numbers of which hardly any is whole: a degree, not a label."""
    return column.numeric and not all(float(cell).is_integer() for cell in column.cells)


def _guess_json_fields(look: Glimpse) -> LayoutGuess | None:
    """The text and the label of JSON lines: those called so, or the one field that repeats and the longest text."""
    if not look.records:
        return None
    names = [name for name in look.records[0] if all(name in record for record in look.records)]
    columns = {name: Column(tuple(str(record[name]) for record in look.records)) for name in names}
    if set(USUAL_FIELDS) <= set(names):
        return {}, "in the fields text and label", SURE
    chosen = _choose_text_and_label(list(columns.values()))
    if chosen is None:
        return None
    text, label = (names[place] for place in chosen)
    return {"fields": [text, label]}, f"the text in the field {text}, the label in {label}", LIKELY


def _guess_columns(look: Glimpse) -> LayoutGuess | None:
    """The columns of text and label of a table."""
    if look.blanks > len(look.lines) // 100 and look.suffix != ".csv":
        return None
    chosen = _choose_text_and_label(look.columns)
    if chosen is None:
        tiny = len(look.columns) == 2 and not look.columns[0].telling and not look.columns[0].numeric
        return ({}, "the text in column 1, the label in column 2", POSSIBLE) if tiny else None
    text, label = chosen
    how: dict[str, Any] = {} if chosen == (0, 1) else {"columns": [text + 1, label + 1]}
    if look.heading:
        how["heading"] = True
    called = look.heading or [f"column {number}" for number in range(1, len(look.columns) + 1)]
    sure = SURE if look.columns[text].words >= 2 and not look.mixes_texts_and_numbers else LIKELY
    words = f"the text in {called[text]}, the label in {called[label]}"
    return how, words, sure if look.columns[text].telling else POSSIBLE


def _choose_text_and_label(columns: list[Column]) -> tuple[int, int] | None:
    """Which column is the text and which the label: the one of most words, and of those that repeat the poorest."""
    repeating = [number for number, column in enumerate(columns) if column.repeats]
    labels = [number for number in repeating if columns[number].distinct > 1] or repeating
    texts = [number for number, column in enumerate(columns) if not column.repeats and not column.mostly_numeric]
    if not labels or not texts:
        return None
    return max(texts, key=lambda number: columns[number].words), min(
        labels, key=lambda number: columns[number].distinct
    )


def _guess_tags(look: Glimpse) -> LayoutGuess | None:
    """Columns with empty lines between sentences, or sentences in which every word has a slash and a tag."""
    lines = [line for line in look.lines if line.strip() and not (line.startswith("#") and "\t" not in line)]
    if look.is_json or not lines:
        return None
    width = min(len(line.split("\t")) for line in lines)
    named = look.suffix in (".conll", ".conllu")
    if width > 1 and (named or look.blanks > len(look.lines) // 100):
        how: dict[str, Any] = {} if look.suffix in WORD_FILE_SUFFIXES else {"form": "columns"}
        word, tag = (2, 4) if width == CONLLU_COLUMNS else (1, width)
        if (word, tag) != (1, 2):
            how["columns"] = [word, tag]
        return how, f"the word in column {word}, its tag in column {tag}", SURE if named else LIKELY
    whole = [all(_has_tag(cell) for cell in line.split()) for line in lines]
    if look.suffix not in WORD_FILE_SUFFIXES and sum(whole) >= 0.9 * len(whole):
        return {}, "as word/tag with a sentence in each line", SURE
    return None


def _has_tag(cell: str) -> bool:
    word, _, tag = cell.rpartition("/")
    return bool(word and tag)
