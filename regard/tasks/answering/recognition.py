"""Recognition of files of questions about texts, with answers that are parts of the texts."""

from __future__ import annotations

from regard.data.column_names import CHOICE_LISTS
from regard.data.columns import find_name
from regard.data.sniff import FilePreview
from regard.training.task import NAMED, SURE, Claim, Given, data_section

SQUAD_SIGNS = ('"paragraphs"', '"qas"')  # keys that identify SQuAD's JSON
TEXT_FIELDS, ANSWER_FIELDS = ("context", "question"), ("answers", "answer", "is_impossible")
CHOICE_FIELDS = tuple(name for name in CHOICE_LISTS if name not in ANSWER_FIELDS)
"""Names of fields with answers to choose from, which need not be parts of the text."""
UNMISTAKABLE = NAMED + 1  # above the confidence of any other reading of such files
SENTENCE = "questions with their answers in a text, {}: training a model of question answering"


def recognise_questions(inputs: Given) -> Claim | None:
    """Recognise questions in the JSON of SQuAD, or JSON lines with a question, its context and its answers."""
    if inputs.to is not None:
        return None
    descriptions = (
        ["as their reader finds them"] * len(inputs.files)
        if inputs.is_declared
        else [_describe_layout(name) for name in inputs.files]
    )
    recognised = [description for description in descriptions if description is not None]
    if len(recognised) < len(descriptions):
        return None
    train, valid = ([{"path": name} for name in files] for files in (inputs.files, inputs.valid))
    return Claim(
        data_section(train, valid), SENTENCE.format(recognised[0]), SURE if inputs.is_declared else UNMISTAKABLE
    )


def _describe_layout(name: str) -> str | None:
    """Return a description of how a file is read, or None if it has no such questions."""
    preview = FilePreview.read(name)
    if not preview.is_json:
        return None
    first = "\n".join(preview.lines)
    if all(key in first for key in SQUAD_SIGNS):
        return "in the JSON of SQuAD"
    all_complete = bool(preview.records) and all(
        all(isinstance(record.get(field), str) for field in TEXT_FIELDS)
        and any(field in record for field in ANSWER_FIELDS)
        and find_name(list(record), CHOICE_FIELDS) is None
        for record in preview.records
    )
    return "one in each line" if all_complete else None
