"""Which files hold questions about texts, with answers that stand in them."""

from __future__ import annotations

from regard.data.glimpse import Glimpse
from regard.tasks.labels.choices import LISTS
from regard.training.task import NAMED, SURE, Claim, Given, data_section

NESTED = ('"paragraphs"', '"qas"')  # what SQuAD's JSON has, whether on one line or on many
TEXTS, ANSWERS = ("context", "question"), ("answers", "answer", "is_impossible")
CHOICES = {*LISTS} - {*ANSWERS}  # answers to choose from need not stand in the text
UNMISTAKABLE = NAMED + 1  # surer than what else a question, a text and a column could be
SENTENCE = "questions with their answers in a text, {}: training a model of question answering"


def questions(given: Given) -> Claim | None:
    """Questions in the JSON of SQuAD, or JSON lines with a question, its context and its answers in each."""
    if given.to is not None:
        return None
    looks = (
        ["as their reader finds them"] * len(given.files)
        if given.is_declared
        else [_seen(name) for name in given.files]
    )
    found = [look for look in looks if look is not None]
    if len(found) < len(looks):
        return None
    train, valid = ([{"path": name} for name in files] for files in (given.files, given.valid))
    return Claim(data_section(train, valid), SENTENCE.format(found[0]), SURE if given.is_declared else UNMISTAKABLE)


def _seen(name: str) -> str | None:
    """How a file is read, in words; None where it holds nothing of the kind."""
    look = Glimpse.at(name)
    if not look.is_json:
        return None
    first = "\n".join(look.lines)
    if all(sign in first for sign in NESTED):
        return "in the JSON of SQuAD"
    whole = bool(look.records) and all(
        all(isinstance(record.get(each), str) for each in TEXTS)
        and any(each in record for each in ANSWERS)
        and not CHOICES & record.keys()
        for record in look.records
    )
    return "one in each line" if whole else None
