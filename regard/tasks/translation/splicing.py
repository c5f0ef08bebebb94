"""Splicing of lost words into an answer, over a word of similar spelling or the words that attended to them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import chain
from operator import itemgetter

import numpy as np

from regard.data.tokenizers import WORD as UNIT
from regard.tasks.translation.lost_names import NAME, OPENING, WORD, Lexicon, find_alike, strip_clitics
from regard.tasks.translation.lost_text import DIGITS, NUMBER, RUN
from regard.tasks.translation.model_calls import WordLooks

Span = tuple[int, int]
CHUNK = re.compile(r"[^\s.,;:!?]+(?:[.,;:!?]+[^\s.,;:!?]+)*")  # text between spaces, without a final stop
SIGN = re.compile(r"[^\w\s'’-]|_|\d")
ALIKE = 0.6  # minimum similarity of a lost word and what was written for it
PLAIN = re.compile(r"[^\W_]+(?:[-'.,:/ ][^\W_]+)*")  # names and numbers, which a word may stand for
LEAST = 0.2  # minimum share of a word's attention on a span to be its rendering


def splice(text: str, answer: str, places: Sequence[tuple[Span, Span]]) -> str:
    """Write spans of a text over spans of its answer, given as pairs; overlapping ones are skipped.

    An empty span is a position after a word: the text is inserted there after a space.
    """
    end = len(answer)
    for (begin, stop), (first, last) in sorted(places, key=lambda pair: (pair[1], pair[0]), reverse=True):
        if last <= end:
            lost = text[begin:stop] if first < last else f" {text[begin:stop]}"
            answer, end = answer[:first] + lost + answer[last:], first
    return answer


def splice_alike(text: str, answer: str, spans: Sequence[Span], lexicon: Lexicon) -> str:
    """Write lost words and numbers over those of the answer that are spelt similarly and stand for nothing else."""
    places = []
    for begin, end in spans:
        lost = text[begin:end]
        stretch = _find_number(lost, text, answer) if lost[0].isdigit() else _find_word(lost, text, answer, lexicon)
        if stretch is not None:
            places.append(((begin, end), stretch))
    return splice(text, answer, places)


def _find_word(lost: str, text: str, answer: str, lexicon: Lexicon) -> Span | None:
    """Return a finely split or capitalised similar word that is not in the text, or a chunk for a word with signs."""
    if not WORD.fullmatch(lost):
        return _find_signs(lost, text, answer)
    candidates = find_alike(lost, answer, ALIKE)
    source_words = {strip_clitics(word).casefold() for word in WORD.findall(text)} if candidates else set()
    for _, match in candidates:
        word = strip_clitics(match[0])
        both_names = lost[0].isupper() and word[:1].isupper() and not OPENING.search(answer[: match.start()].rstrip())
        if word.casefold() not in source_words and (both_names or lexicon.count_pieces(word) >= NAME[0]):
            begin = match.start() + match[0].index(word)
            return begin, begin + len(word)
    return None


def _find_signs(lost: str, text: str, answer: str) -> Span | None:
    """Return the most similar chunk of the answer that has a sign and is not in the text."""
    best, stretch = ALIKE, None
    for match in CHUNK.finditer(answer):
        if not SIGN.search(match[0]) or match[0] in text:
            continue
        likeness = SequenceMatcher(None, lost, match[0], autojunk=False).ratio()
        if likeness >= best:
            best, stretch = likeness, match.span()
    return stretch


def _find_number(lost: str, text: str, answer: str) -> Span | None:
    """Return the only number of the answer that shares digits with the lost one and is not in the text."""
    lost_digits = "".join(DIGITS.findall(lost))
    candidates = []
    for match in RUN.finditer(answer):
        digits = "".join(DIGITS.findall(match[0]))
        if len(digits) > 1 and (digits in lost_digits or lost_digits in digits):
            candidates.append((digits, match.span()))
    if not candidates:
        return None
    source_numbers = {"".join(DIGITS.findall(match[0])) for match in NUMBER.finditer(text)} - {lost_digits}
    spans = [span for digits, span in candidates if digits not in source_numbers]
    return spans[0] if len(spans) == 1 else None


class LossyAnswer:
    """A text, its answer, the spans of the text that the answer has lost, and the words of both sides."""

    def __init__(self, text: str, answer: str, spans: Sequence[Span]) -> None:
        """Split both sides into words, possibly while a device searches for other answers."""
        self.text, self.answer, self.spans = text, answer, spans
        self.read, self.written = ([match.span() for match in UNIT.finditer(side)] for side in (text, answer))
        self.source_words = {strip_clitics(word).casefold() for word in WORD.findall(text)}


def find_stretches(
    losses: Sequence[LossyAnswer], looks: Sequence[WordLooks], lexicon: Lexicon
) -> list[list[tuple[Span, Span]]]:
    """Return for each text the lost spans, each with the span of the answer that attended to it.

    If no word was written for a span, or only words that stand for others, it is the position after the word with the
    highest weight on it.
    """
    places: list[list[tuple[Span, Span]]] = [[] for _ in losses]
    for number, weights in chain.from_iterable(batch.collect() for batch in looks):
        loss = losses[number]
        weights, read = weights[: len(loss.written)], loss.read[: weights.shape[1]]
        if not weights.size:
            continue
        most = weights.argmax(1)
        for span in loss.spans:
            first = bisect_right(read, span[0], key=itemgetter(1))
            last = bisect_left(read, span[1], key=itemgetter(0))
            share = weights[:, first:last].sum(1)
            run = _find_run(share, (first <= most) & (most < last))
            words = [loss.written[n] for n in run or ()] if PLAIN.fullmatch(loss.text[slice(*span)]) else []
            stretch = _trim(loss, words, lexicon) if words else None
            after = loss.written[int(share.argmax())][1]
            places[number].append((span, stretch or (after, after)))
    return places


def _find_run(share: np.ndarray, most: np.ndarray) -> range | None:
    """Return the run of consecutive words with most of their attention on a span, by their weights on it."""
    there = most & (share >= LEAST)
    if not there.any():
        best = int(share.argmax())
        return range(best, best + 1) if share[best] >= LEAST else None
    runs: list[range] = []
    for word in np.flatnonzero(there).tolist():
        if runs and runs[-1].stop == word:
            runs[-1] = range(runs[-1].start, word + 1)
        else:
            runs.append(range(word, word + 1))
    return max(runs, key=lambda run: share[run.start : run.stop].sum())


def _trim(loss: LossyAnswer, words: Sequence[Span], lexicon: Lexicon) -> Span | None:
    """Return the span of these words without signs and common words; None if a word of the source is among them."""
    answer = loss.answer
    spans = [span for span in words if re.search(r"\w", answer[slice(*span)])]
    if any(strip_clitics(answer[slice(*span)]).casefold() in loss.source_words for span in spans):
        return None
    uncommon = [span for span in spans if not _is_common(answer[slice(*span)], lexicon)]
    spans = uncommon or spans
    if not spans:
        return None
    begin, end = spans[0][0], spans[-1][1]
    first = answer[slice(*spans[0])]
    return begin + first.index(strip_clitics(first)), end


def _is_common(word: str, lexicon: Lexicon) -> bool:
    """Return True if a word is in lower case and a single token."""
    return word.islower() and lexicon.count_pieces(word) == 1
