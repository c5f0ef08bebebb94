"""Detection of addresses, placeholders, emoji, codes, numbers and dates that a translation has lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from regard.tasks.translation.documents.markup import EMOJI, PLACEHOLDER, Span

SUSPECT = re.compile(  # matches every text with something that could be lost
    r"[\d@#%${}]|[\w-]\.[\w-]|://|www\.|[\u203c-\u32ff\U0001f000-\U0001faff]"
)
LINK = re.compile(  # names of sites, files, people and topics: example.com, notes_2.pdf, @anna, #summer
    r"(?<![\w@.])[\w-]{2,}(?:\.[\w-]{2,})*\.[a-z]{2,5}\d?(?![\w@])|(?<![\w&])[@#][^\W\d]\w+"
)
CODE = re.compile(r"(?<![\w+-])(?=[\w+-]*\d)(?=[\w+-]*[^\W\d_])\w+(?:[-+]\w+)*")  # AF1680, KX19-ZTR, F4
MEASURE = re.compile(
    r"\d+[^\W\d_]{1,4}|\d{1,2}h\d\d|(?:\d+-)+[^\W\d_-]+(?:-[^\W\d_-]+)*"
)  # 3rd, 5kg, 8h30, 10-year-old
NUMBER = re.compile(r"\+\d+(?:[ .-]\d{1,4}(?!\d))+|\d{1,2} ?h ?\d\d(?!\w)|\d+(?:[./:,-]\d+|\s\d{2,3}(?!\d))*")
TIME = re.compile(r"\d{1,2}(?::| ?h ?)(\d\d)")
GROUPED = re.compile(r"\d{1,3}(?:[,.\s]\d{3})+")  # thousands, which languages group differently
GROUP_SIGNS = " ", "\u202f", "\xa0", ".", ","
DECIMAL = re.compile(r"\d+[.,]\d+")
OTHER_POINT = str.maketrans(",.", ".,")
ENDS_IN_NUMBER, BEGINS_AS_NUMBER = re.compile(r"\d[.,\s]?$"), re.compile(r"[.,\s]?\d")
RUN = re.compile(r"\d(?:[\d,.\s]*\d)?")
DIGITS = re.compile(r"\d+")

PATTERNS = (  # each with a pattern that is quicker to find in its matches
    (PLACEHOLDER, re.compile(r"://|www\.|[@{}%$]")),
    (EMOJI, re.compile(r"[\u203c-\u32ff\U0001f000-\U0001faff]")),
    (LINK, re.compile(r"[\w-]\.[a-z]|[@#]")),
    (CODE, re.compile(r"\d[+-]*[^\W\d]|[^\W\d][+-]*\d|\d[\w+-]*[-+_]\w")),
)


def find_lost(text: str, answer: str, *, numbers: bool = True) -> list[Span]:
    """Return the spans of a text that its answer should have copied and did not; with `numbers`, codes too."""
    if not SUSPECT.search(text):
        return []
    copied = _find_copied(text, codes=numbers)
    required = Counter(match[0] for match in copied) if copied else {}
    spans = [match.span() for match in copied if answer.count(match[0]) < required[match[0]]]
    if numbers and DIGITS.search(text):
        free = _blank_out(text, copied)
        answer_numbers = DIGITS.findall(answer)
        spans += [
            match.span() for match in NUMBER.finditer(free) if not _can_stand_for(answer_numbers, match[0], answer)
        ]
    return sorted(spans)


class ChunkContents(NamedTuple):
    """The parts of a chunk of text that an answer should have."""

    copied: tuple[str, ...] = ()
    """Addresses, emoji, links and codes."""
    numbers: tuple[str, ...] = ()
    has_braces: bool = False
    """Whether it may be a part of a placeholder with blanks in it, which calls for a closer look."""


def inspect_chunk(chunk: str) -> ChunkContents:
    """Return what an answer to a chunk of text between spaces should have."""
    if not SUSPECT.search(chunk):
        return ChunkContents()
    if "{" in chunk or "}" in chunk:
        return ChunkContents(has_braces=True)
    copied = _find_copied(chunk)
    numbers = (match[0] for match in NUMBER.finditer(_blank_out(chunk, copied)))
    return ChunkContents(tuple(match[0] for match in copied), tuple(numbers))


def says_plainly(answer: str, number: str) -> bool:
    """Return True if an answer has a number as it is, not as part of another, or in the notation of another language.

    A number of two digits may be written in words.
    """
    if len(number) < 3 and number.isdigit():
        return True
    begin = answer.find(number)
    if begin >= 0:
        end = begin + len(number)
        return not answer[max(begin - 1, 0) : begin].isdigit() and not answer[end : end + 1].isdigit()
    if GROUPED.fullmatch(number):
        return any(_stands_alone(re.sub(r"\D", sign, number), answer) for sign in GROUP_SIGNS)
    return DECIMAL.fullmatch(number) is not None and _stands_alone(number.translate(OTHER_POINT), answer)


def _stands_alone(number: str, answer: str) -> bool:
    """Return True if an answer has a number that no neighbouring digits continue."""
    begin = answer.find(number)
    end = begin + len(number)
    return (
        begin >= 0
        and not ENDS_IN_NUMBER.search(answer[max(begin - 2, 0) : begin])
        and not (BEGINS_AS_NUMBER.match(answer[end : end + 2]))
    )


def _blank_out(text: str, matches: Sequence[re.Match[str]]) -> str:
    """Replace these matches by spaces."""
    for match in matches:
        text = text[: match.start()] + " " * len(match[0]) + text[match.end() :]
    return text


def _find_copied(text: str, *, codes: bool = True) -> list[re.Match[str]]:
    """Return the matches of addresses, placeholders, emoji, links and codes, without overlaps."""
    patterns = [pattern for pattern, sign in PATTERNS if sign.search(text) and (codes or pattern is not CODE)]
    copied: list[re.Match[str]] = []
    for match in (match for pattern in patterns for match in pattern.finditer(text)):
        apart = all(match.end() <= other.start() or other.end() <= match.start() for other in copied)
        if apart and not MEASURE.fullmatch(match[0]):
            copied.append(match)
    return copied


def _can_stand_for(answer_numbers: Sequence[str], number: str, answer: str) -> bool:
    """Return True if an answer with these runs of digits may render a number of the text.

    Languages differ in separators, a time may use another clock, and a small number may be in words.
    """
    runs = DIGITS.findall(number)
    digits = "".join(runs)
    if GROUPED.fullmatch(number):
        written = (match[0] for match in RUN.finditer(answer))
        return any(_digits(candidate) == digits and len(_signs(candidate)) < 2 for candidate in written)
    if len(runs) > 2:  # a date, a version, a telephone number
        return " ".join(number.split()) in " ".join(answer.split())
    if any(answer_numbers[n : n + len(runs)] == runs for n in range(len(answer_numbers))):
        return True
    if time := TIME.fullmatch(number):
        return not answer_numbers or time[1] in answer_numbers
    if len(number.split()) > 1:
        return any(
            "".join(answer_numbers[begin:end]) == digits
            for begin in range(len(answer_numbers))
            for end in range(begin, len(answer_numbers) + 1)
        )
    if not number.isdigit():
        return False
    if len(digits) < 3:  # in words, or an hour of another clock
        return True
    return any("".join(answer_numbers[n : n + 2]) == digits for n in range(len(answer_numbers)))  # 1 234


def _digits(number: str) -> str:
    return "".join(DIGITS.findall(number))


def _signs(number: str) -> set[str]:
    """Return the separators within a number, with all kinds of space as one."""
    return {" " if sign.isspace() else sign for sign in number if not sign.isdigit()}
