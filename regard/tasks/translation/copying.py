"""What a translation must hold as the source has it: addresses, placeholders, emoji, and numbers a model may garble.

Only a sentence whose answer has lost something is translated again, with stand-ins, as documents are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.attention.tap import Tap
from regard.tasks.translation.documents import document as documents
from regard.tasks.translation.documents.markup import EMOJI, PLACEHOLDER, Span, cut

if TYPE_CHECKING:
    from regard.tasks.translation.answers import Answer
    from regard.tasks.translation.options import DecodingConfig
    from regard.tasks.translation.translator import Translator

NUMBER = re.compile(r"\d+(?:[./:,-]\d+|\s\d{2,3}(?!\d))*")
TIME = re.compile(r"\d{1,2}:(\d\d)")
DIGITS = re.compile(r"\d+")
SUSPECT = re.compile(rf"[\d@{{%$]|://|www\.|{EMOJI.pattern}")  # nothing else needs a closer look


def mended(
    translator: Translator, texts: Sequence[str], answers: Sequence[Answer], *, to: str | None, decoding: DecodingConfig
) -> list[Answer]:
    """The answers to these sentences, with all they must hold; the score stays that of what the model wrote."""
    found = list(answers)
    if decoding.copy == "none" or decoding.sample or decoding.prefix or decoding.force:
        return found
    broken = {
        number: spans
        for number, (text, answer) in enumerate(zip(texts, answers, strict=True))
        if SUSPECT.search(text) and (spans := lost(text, answer.text, numbers=decoding.copy == "all"))
    }
    if not broken or not _attends(translator):
        return found
    marked = [cut(texts[number], names=documents.NAMES, spans=spans) for number, spans in broken.items()]
    again = documents.restored(translator, marked, to=to, decoding=replace(decoding, copy="none", nbest=1))
    for number, text in zip(broken, again, strict=True):
        found[number] = replace(found[number], text=text)
    return found


def lost(text: str, answer: str, *, numbers: bool = True) -> list[Span]:
    """Where in a text stands what its answer should have as it is and has not."""
    copied = [match for pattern in (PLACEHOLDER, EMOJI) for match in pattern.finditer(text)]
    wanted = Counter(match[0] for match in copied)
    spans = [match.span() for match in copied if answer.count(match[0]) < wanted[match[0]]]
    if numbers:
        free = "".join(" " if any(m.start() <= at < m.end() for m in copied) else c for at, c in enumerate(text))
        said = DIGITS.findall(answer)
        spans += [match.span() for match in NUMBER.finditer(free) if not _says(said, match[0], free)]
    return sorted(spans)


def _says(said: Sequence[str], number: str, text: str) -> bool:
    """Whether an answer with these runs of digits can stand for a number of the text.

    Another language may write the signs in it otherwise, a time by another clock, and a small number in words.
    """
    runs = DIGITS.findall(number)
    digits = "".join(runs)
    if digits in "".join(said):
        same = any(said[n : n + len(runs)] == runs for n in range(len(said)))
        return same or len(runs) < 3 or len(number.split()) > 1
    if time := TIME.fullmatch(number):
        return not said or time[1] in said
    if not said:
        return len(digits) < 5
    if len(digits) == len(number) < 3:  # might be an hour of another clock
        return True
    known = "".join(DIGITS.findall(text))
    return number.isdigit() and all(run in known for run in said)


def _attends(translator: Translator) -> bool:
    """Whether its words can be linked to those of the source."""
    names = (name for name, module in translator.model.named_modules() if isinstance(module, Tap))
    return any(name.removesuffix(".weights").endswith("cross") for name in names)
