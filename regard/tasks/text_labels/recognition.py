"""Recognition of labelled texts, rated pairs, tagged words and multiple-choice questions, and of their layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.column_content import CLASS, TEXT, Column
from regard.data.column_names import DEGREES, LABELS, RUNNING_TEXTS, VERDICTS
from regard.data.columns import ColumnChoice, ColumnSample, Role, choose_columns, find_names, pair_roles
from regard.data.sniff import FilePreview
from regard.tasks.text_labels.choice_columns import usual_columns
from regard.tasks.text_labels.choice_file import ChoiceFile
from regard.tasks.text_labels.tagged_file import WORD_FILE_SUFFIXES
from regard.training.task import LIKELY, NAMED, POSSIBLE, SURE, Claim, Given, data_section

LayoutGuess = tuple[dict[str, Any], str, int]  # settings of a file, description, confidence
LABEL_NAMES = (*VERDICTS, *LABELS)
USUAL_FIELDS = ("text", "label")
CONLLU_COLUMNS = 10  # in CoNLL-U; the second is the word, the fourth its part of speech


def recognise_labelled_texts(inputs: Given) -> Claim | None:
    """Claim files with a text and a label per line; files declared as labelled may have the texts of one label each."""
    previews = [FilePreview.read(name, declared=inputs.is_declared) for name in inputs.files]
    if inputs.is_declared and len(previews) > 1 and all(preview.is_plain for preview in previews):
        description = "each file's name being the label of its lines"
        guesses = [({"label": _file_stem(preview.name)}, description, SURE) for preview in previews]
        valid_files = [{"path": name, "label": _file_stem(name)} for name in inputs.valid]
        return _make_claim(inputs, guesses, "labelled texts, {}: training a classifier", valid_files)
    guesses_by_content: list[LayoutGuess | None] = [_guess_labelled(preview) for preview in previews]
    valid: list[dict[str, Any]] | None = None
    if previews and (first_guess := guesses_by_content[0]) is not None:
        first_preview, first_settings = previews[0], first_guess[0]
        for number, (preview, guess) in enumerate(zip(previews[1:], guesses_by_content[1:], strict=True), start=1):
            guesses_by_content[number] = guess and (
                _columns_by_name(first_preview, first_settings, preview) or guess[0],
                *guess[1:],
            )
        valid = [
            _validation_file(first_preview, first_settings, name, declared=inputs.is_declared) for name in inputs.valid
        ]
    return _make_claim(inputs, guesses_by_content, "labelled texts, {}: training a classifier", valid)


def recognise_rated_pairs(inputs: Given) -> Claim | None:
    """Claim files with a pair of texts and a similarity rating per line."""
    guesses = [_guess_ratings(FilePreview.read(name, declared=inputs.is_declared)) for name in inputs.files]
    return _make_claim(inputs, guesses, "rated pairs, {}: training a model of similarity")


def recognise_choice_questions(inputs: Given) -> Claim | None:
    """Claim files of multiple-choice questions whose columns have usual names."""
    guesses = [_guess_questions(FilePreview.read(name, declared=inputs.is_declared)) for name in inputs.files]
    return _make_claim(inputs, guesses, "questions with choices, {}: training a model that chooses")


def recognise_tagged_words(inputs: Given) -> Claim | None:
    """Claim files of tagged words: as word/tag with one sentence per line, or with one word per line."""
    return _make_claim(
        inputs,
        [_guess_tags(FilePreview.read(name, declared=inputs.is_declared)) for name in inputs.files],
        "tagged words, {}: training a tagger",
    )


def _make_claim(
    inputs: Given, guesses: Sequence[LayoutGuess | None], sentence: str, valid: list[dict[str, Any]] | None = None
) -> Claim | None:
    if inputs.to is not None:
        return None
    if inputs.is_declared:
        guesses = [guess or ({}, "as their reader finds them", SURE) for guess in guesses]
    certain_guesses = [guess for guess in guesses if guess is not None]
    if len(certain_guesses) < len(guesses):
        return None
    train = [{"path": name, **settings} for name, (settings, _, _) in zip(inputs.files, certain_guesses, strict=True)]
    data = data_section(train, valid or [{**train[0], "path": name} for name in inputs.valid])
    return Claim(data, sentence.format(certain_guesses[0][1]), min(confidence for _, _, confidence in certain_guesses))


def _columns_by_name(
    first_preview: FilePreview, first_settings: Mapping[str, Any], preview: FilePreview
) -> dict[str, Any] | None:
    """Return settings for a table with the column names of the first one, in any order, or None."""
    if first_preview.is_json or not first_preview.heading or not preview.rows or "text" in first_settings:
        return None
    names = [first_preview.heading[column - 1] for column in first_settings.get("columns", (1, 2))]
    places = find_names(preview.rows[0], names)
    return {"columns": [place + 1 for place in places], "heading": True} if places else None


def _validation_file(
    first_preview: FilePreview, first_settings: Mapping[str, Any], name: str, *, declared: bool
) -> dict[str, Any]:
    """Return the settings of a validation file: columns by the names of training, by its heading, or by number."""
    preview = FilePreview.read(name, declared=declared)
    settings_by_name = _columns_by_name(first_preview, first_settings, preview)
    if settings_by_name is not None or first_preview.is_json or preview.is_json:
        return {"path": name, **(first_settings if settings_by_name is None else settings_by_name)}
    guess = _guess_labelled(preview) if preview.heading else None
    if guess is not None:
        return {"path": name, **guess[0]}
    return {"path": name, **{key: value for key, value in first_settings.items() if key != "heading"}}


def _file_stem(name: str) -> str:
    return Path(name.removesuffix(".gz")).stem


def _guess_questions(preview: FilePreview) -> LayoutGuess | None:
    """Guess the columns of question text, choices and label by their names."""
    try:
        record = ChoiceFile(path=preview.name).first_values if preview.suffix == ".xml" else _first_record(preview)
    except ValueError:  # invalid XML
        return None
    columns = usual_columns(record)
    return ({}, columns.note, NAMED) if all(columns) else None


def _first_record(preview: FilePreview) -> dict[str, Any]:
    """Return the first record of a file with column names."""
    if preview.is_json:
        return dict(preview.records[0]) if preview.records else {}
    return {name: column.cells[0] for name, column in zip(preview.heading or (), preview.columns, strict=False)}


def _guess_labelled(preview: FilePreview) -> LayoutGuess | None:
    if _guess_questions(preview) is not None:
        return None
    if (guess := _guess_pairs(preview)) is not None or _guess_ratings(preview) is not None:
        return guess
    return _guess_json_fields(preview) if preview.is_json else _guess_columns(preview)


def _guess_pairs(preview: FilePreview) -> LayoutGuess | None:
    """Guess the columns of both texts and the label of pairs by their names."""
    sample = _column_sample(preview)
    pair = pair_roles(sample.names)
    choice = choose_columns(sample, [*pair, Role(name="label", usual=LABEL_NAMES, content=CLASS, required=False)])
    if not pair or "label" not in choice.places or _holds_fractions(sample.columns[choice.places["label"]]):
        return None
    first_name, second_name, label_name = map(choice.column_name, choice.places)
    settings = {"text": [first_name, second_name], "label": label_name}
    return settings, f"pairs of {first_name} and {second_name}, the label in {label_name}", NAMED


def _guess_ratings(preview: FilePreview) -> LayoutGuess | None:
    """Guess the columns of both texts and the similarity rating of pairs."""
    sample = _column_sample(preview)
    pair = pair_roles(sample.names)
    choice = choose_columns(sample, [*pair, Role(name="score", usual=(*DEGREES, *LABELS), required=False)])
    if not pair or "score" not in choice.places or not sample.columns[choice.places["score"]].is_numeric:
        return None
    first_name, second_name, score_name = map(choice.column_name, choice.places)
    settings = {"text": [first_name, second_name], "label": score_name}
    confidence = LIKELY if _guess_pairs(preview) is not None else NAMED  # labels may be numbers as well
    return settings, f"pairs of {first_name} and {second_name}, their score in {score_name}", confidence


def _column_sample(preview: FilePreview) -> ColumnSample:
    """Return the cells of a file, with the names of its columns if it has any."""
    if preview.is_json:
        return ColumnSample.of_records(preview.name, preview.records)
    return ColumnSample(
        preview.name, tuple(preview.heading or ()), preview.rows[1:] if preview.heading else preview.rows
    )


def _holds_fractions(column: Column) -> bool:
    """True if a column is numeric and has values other than integers, which are ratings rather than labels."""
    return column.is_numeric and not all(float(cell).is_integer() for cell in column.cells)


def _guess_json_fields(preview: FilePreview) -> LayoutGuess | None:
    """Guess the fields of text and label in JSON lines: by name, or the longest text and the field that repeats."""
    choice = _choose_text_and_label(preview)
    if set(USUAL_FIELDS) <= set(choice.sample.names):
        return {}, "in the fields text and label", SURE
    if len(choice.places) < 2:
        return None
    text, label = map(choice.column_name, choice.places)
    return {"fields": [text, label]}, f"the text in the field {text}, the label in {label}", LIKELY


def _guess_columns(preview: FilePreview) -> LayoutGuess | None:
    """Guess the columns of text and label of a table."""
    if preview.blank_line_count > len(preview.lines) // 100 and preview.suffix != ".csv":
        return None
    choice = _choose_text_and_label(preview)
    if len(choice.places) < 2:
        is_small_table = (
            len(preview.columns) == 2 and not preview.columns[0].has_enough_cells and not preview.columns[0].is_numeric
        )
        return ({}, "the text in column 1, the label in column 2", POSSIBLE) if is_small_table else None
    text, label = choice.places.values()
    settings: dict[str, Any] = {} if (text, label) == (0, 1) else {"columns": [text + 1, label + 1]}
    if preview.heading:
        settings["heading"] = True
    confidence = SURE if preview.columns[text].words >= 2 and not preview.mixes_texts_and_numbers else LIKELY
    description = f"the text in {choice.column_name('text')}, the label in {choice.column_name('label')}"
    return settings, description, confidence if preview.columns[text].has_enough_cells else POSSIBLE


def _choose_text_and_label(preview: FilePreview) -> ColumnChoice:
    """Choose the columns of text and label by usual names and by cells that fit, or by cells alone."""
    text = Role(name="text", usual=RUNNING_TEXTS, content=TEXT, needs_content=True, required=False)
    label = Role(name="label", usual=LABELS, content=CLASS, needs_content=True, required=False)
    return choose_columns(_column_sample(preview), [text, label])


def _guess_tags(preview: FilePreview) -> LayoutGuess | None:
    """Guess the layout of tagged words: columns with empty lines between sentences, or word/tag in sentences."""
    lines = [line for line in preview.lines if line.strip() and not (line.startswith("#") and "\t" not in line)]
    if preview.is_json or not lines:
        return None
    num_columns = min(len(line.split("\t")) for line in lines)
    has_conll_name = preview.suffix in (".conll", ".conllu")
    if num_columns > 1 and (has_conll_name or preview.blank_line_count > len(preview.lines) // 100):
        settings: dict[str, Any] = {} if preview.suffix in WORD_FILE_SUFFIXES else {"form": "columns"}
        word, tag = (2, 4) if num_columns == CONLLU_COLUMNS else (1, num_columns)
        if (word, tag) != (1, 2):
            settings["columns"] = [word, tag]
        return settings, f"the word in column {word}, its tag in column {tag}", SURE if has_conll_name else LIKELY
    lines_all_tagged = [all(_has_tag(cell) for cell in line.split()) for line in lines]
    if preview.suffix not in WORD_FILE_SUFFIXES and sum(lines_all_tagged) >= 0.9 * len(lines_all_tagged):
        return {}, "as word/tag with a sentence in each line", SURE
    return None


def _has_tag(cell: str) -> bool:
    word, _, tag = cell.rpartition("/")
    return bool(word and tag)
