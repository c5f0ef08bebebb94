"""Which files hold questions about texts, with answers that stand in them."""

from __future__ import annotations

from regard.data.glimpse import Glimpse
from regard.tasks.labels.choice_file import LIST_COLUMNS
from regard.training.task import NAMED, SURE, Claim, Given, data_section

SQUAD_SIGNS = ('"paragraphs"', '"qas"')  # what SQuAD's JSON has, whether on one line or on many
TEXT_FIELDS, ANSWER_FIELDS = ("context", "question"), ("answers", "answer", "is_impossible")
CHOICE_FIELDS = {*LIST_COLUMNS} - {*ANSWER_FIELDS}  # answers to choose from need not stand in the text
UNMISTAKABLE = NAMED + 1  # surer than what else a question, a text and a column could be
SENTENCE = "questions with their answers in a text, {}: training a model of question answering"


def recognise_questions(given: Given) -> Claim | None:
    """Questions in the JSON of SQuAD, or JSON lines with a question, its context and its answers in each."""
    if given.to is not None:
        return None
    looks = (
        ["as their reader finds them"] * len(given.files)
        if given.is_declared
        else [_describe_layout(name) for name in given.files]
    )
    found = [look for look in looks if look is not None]
    if len(found) < len(looks):
        return None
    train, valid = ([{"path": name} for name in files] for files in (given.files, given.valid))
    return Claim(data_section(train, valid), SENTENCE.format(found[0]), SURE if given.is_declared else UNMISTAKABLE)


def _describe_layout(name: str) -> str | None:
    """How a file is read, in words; None where it holds nothing of the kind."""
    look = Glimpse.at(name)
    if not look.is_json:
        return None
    first = "\n".join(look.lines)
    if all(sign in first for sign in SQUAD_SIGNS):
        return "in the JSON of SQuAD"
    whole = bool(look.records) and all(
        all(isinstance(record.get(each), str) for each in TEXT_FIELDS)
        and any(each in record for each in ANSWER_FIELDS)
        and not CHOICE_FIELDS & record.keys()
        for record in look.records
    )
    return "one in each line" if whole else None
