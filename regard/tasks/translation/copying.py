"""What a translation must hold as the source has it: addresses, placeholders, emoji, numbers, codes and names.

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
from regard.tasks.translation.unseen import unseen

if TYPE_CHECKING:
    from regard.tasks.translation.answers import Answer
    from regard.tasks.translation.options import DecodingConfig
    from regard.tasks.translation.translator import Translator

LINK = re.compile(  # names of sites, files, people and topics: example.com, notes_2.pdf, @anna, #summer
    r"(?<![\w@.])[\w-]{2,}(?:\.[\w-]{2,})*\.[a-z]{2,5}\d?(?![\w@])|(?<![\w&])[@#][^\W\d]\w+"
)
CODE = re.compile(r"(?<![\w+-])(?=[\w+-]*\d)(?=[\w+-]*[^\W\d_])\w+(?:[-+]\w+)*")  # AF1680, KX19-ZTR, F4
MEASURE = re.compile(
    r"\d+[^\W\d_]{1,4}|\d{1,2}h\d\d|(?:\d+-)+[^\W\d_-]+(?:-[^\W\d_-]+)*"
)  # 3rd, 5kg, 8h30, 10-year-old
NUMBER = re.compile(r"\+\d+(?:[ .-]\d{1,4}(?!\d))+|\d{1,2} ?h ?\d\d(?!\w)|\d+(?:[./:,-]\d+|\s\d{2,3}(?!\d))*")
TIME = re.compile(r"\d{1,2}(?::| ?h ?)(\d\d)")
LOOSE = re.compile(
    r"(?<!\d)(\d{1,2})(?: h(?:eures? ?)?|: )(\d\d)(?!\d)"
)  # 6 h47, 6: 47: a time with a blank too few or many
GROUPED = re.compile(r"\d{1,3}(?:[,.\s]\d{3})+")  # thousands, which each language sets apart in its own way
RUN = re.compile(r"\d(?:[\d,.\s]*\d)?")
DIGITS = re.compile(r"\d+")


def mended(
    translator: Translator, texts: Sequence[str], answers: Sequence[Answer], *, to: str | None, decoding: DecodingConfig
) -> list[Answer]:
    """The answers to these sentences, with all they must hold; the score stays that of what the model wrote."""
    found = list(answers)
    if decoding.copy == "none" or decoding.sample or decoding.prefix or decoding.force:
        return found
    for number, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        if TIME.search(text) and (tight := _tight(answer.text)) != answer.text:
            found[number] = replace(answer, text=tight)
    broken = {
        number: spans
        for number, (text, answer) in enumerate(zip(texts, found, strict=True))
        if (spans := _missing(translator, text, answer.text, every=decoding.copy == "all"))
    }
    if not broken or not _attends(translator):
        return found
    marked = [cut(texts[number], names=documents.NAMES, spans=spans) for number, spans in broken.items()]
    again = documents.restored(translator, marked, to=to, decoding=replace(decoding, copy="none", nbest=1))
    for number, text in zip(broken, again, strict=True):
        found[number] = replace(found[number], text=text)
    return found


def _tight(answer: str) -> str:
    """An answer whose times have their usual blanks."""
    return LOOSE.sub(lambda time: f"{time[1]} h {time[2]}" if "h" in time[0] else f"{time[1]}:{time[2]}", answer)


def _missing(translator: Translator, text: str, answer: str, *, every: bool) -> list[Span]:
    """Where stands what an answer has lost: of `every` kind, or only addresses, placeholders and emoji."""
    spans = lost(text, answer, numbers=every)
    if every:
        names = unseen(text, answer, translator.source)
        spans += [span for span in names if not any(span[0] < end and begin < span[1] for begin, end in spans)]
    return sorted(spans)


def lost(text: str, answer: str, *, numbers: bool = True) -> list[Span]:
    """Where in a text stands what its answer should have as it is and has not."""
    patterns = (PLACEHOLDER, EMOJI, LINK, *([CODE] if numbers else []))
    copied: list[re.Match[str]] = []
    for match in (match for pattern in patterns for match in pattern.finditer(text)):
        apart = all(match.end() <= one.start() or one.end() <= match.start() for one in copied)
        if apart and not MEASURE.fullmatch(match[0]):
            copied.append(match)
    wanted = Counter(match[0] for match in copied)
    spans = [match.span() for match in copied if answer.count(match[0]) < wanted[match[0]]]
    if numbers:
        free = "".join(" " if any(m.start() <= at < m.end() for m in copied) else c for at, c in enumerate(text))
        said = DIGITS.findall(answer)
        spans += [match.span() for match in NUMBER.finditer(free) if not _says(said, match[0], answer)]
    return sorted(spans)


def _says(said: Sequence[str], number: str, answer: str) -> bool:
    """Whether an answer with these runs of digits can stand for a number of the text.

    Another language may write the signs in it otherwise, a time by another clock, and a small number in words.
    """
    runs = DIGITS.findall(number)
    digits = "".join(runs)
    if GROUPED.fullmatch(number):
        written = (match[0] for match in RUN.finditer(answer))
        return any(_digits(each) == digits and len(_signs(each)) < 2 for each in written)
    if len(runs) > 2:  # a date, a version, a telephone number
        return " ".join(number.split()) in " ".join(answer.split())
    if any(said[n : n + len(runs)] == runs for n in range(len(said))):
        return True
    if time := TIME.fullmatch(number):
        return not said or time[1] in said
    if len(number.split()) > 1:
        return any(
            "".join(said[begin:end]) == digits for begin in range(len(said)) for end in range(begin, len(said) + 1)
        )
    if not number.isdigit():
        return False
    if len(digits) < 3:  # in words, or an hour of another clock
        return True
    return any("".join(said[n : n + 2]) == digits for n in range(len(said)))  # 1 234


def _digits(number: str) -> str:
    return "".join(DIGITS.findall(number))


def _signs(number: str) -> set[str]:
    """What sets the digits of a number apart, all blanks being one."""
    return {" " if sign.isspace() else sign for sign in number if not sign.isdigit()}


def _attends(translator: Translator) -> bool:
    """Whether its words can be linked to those of the source."""
    names = (name for name, module in translator.model.named_modules() if isinstance(module, Tap))
    return any(name.removesuffix(".weights").endswith("cross") for name in names)
