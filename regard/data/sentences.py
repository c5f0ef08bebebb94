"""Sentence splitting that keeps the white space between sentences, so that joining the pieces restores the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise, takewhile
from typing import NamedTuple

# What ends a sentence: stops, then closing quotes and brackets; French » may have a space before it. White space
# must follow, except after the stops of Chinese and Japanese. A line break ends one too. Nothing here backtracks:
# a million stops in a row take a moment.
END = re.compile(
    r"(?<![.!?…])(?P<stop>[.!?…]++)(?P<close>[\"'”’»«)\]]*+(?:[ \u00a0\u202f]»(?=\s|$))?)(?=\s)"
    r"|[。！？]++[」』”）]*+"
    r"|(?<=\S)(?=\s*\n)"
)
INSIDE = re.compile(r"[.!?…][\s\"'”’»«)\]]|[。！？\n]")  # any text of several sentences matches this
SPACE = re.compile(r"\s*")
SPACES = re.compile(r"\s+")
OPENING = "\"'“‘«»„‚([¿¡-–—•* \u00a0\u202f"
LAST_WORD = re.compile(r"[^\s\"'“”‘’«»„(\[]*$")
MONTH = re.compile(r"\s+(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)")  # German: am 3. Oktober
PAUSE = re.compile(r"[,;:，、；：](?=\s)|[，、；：]|\s[-–—](?=\s)")

# Abbreviations that rarely end a sentence, without their stop and in lower case.
ENGLISH = """
    mr mrs ms dr prof st sr jr rev gen col capt lt sgt gov sen rep hon pres vs no nos vol fig figs ed eds al approx dept
    est inc ltd co corp univ jan feb mar apr jun jul aug sep sept oct nov dec mt ft e.g i.e a.m p.m
"""
FRENCH = """
    m mm mme mmes mlle mlles me mgr pr ste bd av ch art chap env ex hab tél réf p pp cf janv févr avr juil déc
"""
GERMAN = """
    hr fr frl nr str bzw ca evtl ggf inkl zzgl tel abs aufl bspw geb gest jh jhd lfd sog usf vgl zt z.b z.t d.h u.a u.u
    o.ä i.d.r s.o s.u v.a
"""
ABBREVIATIONS = frozenset(f"{ENGLISH} {FRENCH} {GERMAN}".split())


class Piece(NamedTuple):
    """A sentence and the white space after it; the text is empty only for white space at the start of a text."""

    text: str
    gap: str


def split_sentences(text: str, *, fits: Callable[[str], bool] | None = None) -> list[Piece]:
    """Split a text into sentences; one for which `fits` is false is halved, at a comma or a space if it has any.

    Joining text and gap of all pieces restores the text exactly. Made for English, French and German, harmless
    for other languages.
    """
    pieces: list[Piece] = []
    if INSIDE.search(text, 0, len(text.rstrip())) is None:
        pieces = as_one_piece(text)
    else:
        starts = [0, *_ends(text), len(text)]
        for piece in chain.from_iterable(
            as_one_piece(text[begin:end]) for begin, end in pairwise(starts) if begin < end
        ):
            if piece.text or not pieces:
                pieces.append(piece)
            else:
                pieces[-1] = Piece(pieces[-1].text, pieces[-1].gap + piece.gap)
    if fits is None:
        return pieces
    return [part for piece in pieces for part in (_halve(piece, fits) if piece.text else [piece])]


def split_to_fit(texts: Sequence[str], count_tokens: Callable[[list[str]], list[int]], most: int) -> list[list[Piece]]:
    """Split each text into sentences, and halve those of more than `most` tokens; all are counted in one call.

    Counts above `most` need not be exact.

    No token is shorter than a byte or a word mark, so short sentences need not be counted.
    """
    plans = [split_sentences(text) for text in texts]
    unsure = {p.text for plan in plans for p in plan if len(p.text.encode()) + p.text.count(" ") + 1 > most}
    sizes = dict(zip(unsure, count_tokens(list(unsure)), strict=True))

    def fits(part: str) -> bool:
        if part not in sizes:
            [sizes[part]] = count_tokens([part])
        return sizes[part] <= most

    too_long = [any(sizes.get(piece.text, 0) > most for piece in plan) for plan in plans]
    return [
        split_sentences(text, fits=fits) if halved else plan
        for text, plan, halved in zip(texts, plans, too_long, strict=True)
    ]


def as_one_piece(text: str) -> list[Piece]:
    """Return the text as one piece, or two if it starts with white space; none if it is empty."""
    inner = text.strip()
    if not inner:
        return [Piece("", text)] if text else []
    begin = text.index(inner)
    piece = Piece(inner, text[begin + len(inner) :])
    return [Piece("", text[:begin]), piece] if begin else [piece]


def _ends(text: str) -> Iterator[int]:
    """Yield the ends of sentences, without the gaps."""
    begin = 0
    for match in END.finditer(text):
        if match["stop"] is None or _ends_here(text, begin, match):
            yield match.end()
            begin = match.end()


def _ends_here(text: str, begin: int, match: re.Match[str]) -> bool:
    """True if a stop ends a sentence rather than an abbreviation, a number or a quotation inside one."""
    after = text[match.end() : match.end() + 40].lstrip()
    follower = after.lstrip(OPENING)
    if follower[:1].islower():
        return False
    if match["stop"] != "." or match["close"]:
        return True
    word = LAST_WORD.search(text[max(begin, match.start() - 40) : match.start()])[0]  # type: ignore[index]
    if word.lower() in ABBREVIATIONS or re.fullmatch(r"[^\W\d_](?:\.[^\W\d_])*", word):
        return False  # also initials, as in J. R. R. Tolkien or U.S.
    if word.isdigit():
        listed = SPACE.match(text, begin).end() == match.start() - len(word)  # type: ignore[union-attr] # "1. Open it"
        return not listed and not (len(word) <= 2 and MONTH.match(text, match.end()))
    return True


def _until(stop: int, matches: Iterator[re.Match[str]]) -> Iterator[re.Match[str]]:
    """Yield the matches that start before `stop`."""
    return takewhile(lambda match: match.start() < stop, matches)


def _halve(piece: Piece, fits: Callable[[str], bool]) -> Iterator[Piece]:
    """Split a piece into as few parts as fit, near the middle: at a pause, else at a space, else anywhere."""
    text, gap = piece
    if fits(text) or len(text) < 2:
        yield piece
        return
    middle = len(text) / 2
    quarter = len(text) // 4
    inside = range(max(quarter, 1), len(text) - quarter)
    begin = max(0, inside.start - 2)  # a pause has at most two characters
    pauses = (match.end() for match in _until(inside.stop, PAUSE.finditer(text, begin)) if match.end() in inside)
    spaces = (match.start() for match in _until(inside.stop, SPACES.finditer(text, begin)) if match.start() in inside)
    cut = min(list(pauses) or list(spaces) or [len(text) // 2], key=lambda place: abs(place - middle))
    rest = text[cut:].lstrip()
    yield from _halve(Piece(text[:cut], text[cut : len(text) - len(rest)]), fits)
    yield from _halve(Piece(rest, gap), fits)
