"""Answers found in a text, held against those that people gave: exact match and F1 over words, as SQuAD counts them.

Case, punctuation and the articles a, an, the do not count (Rajpurkar et al. 2016). No answer is an answer like any
other, written as an empty text (Rajpurkar et al. 2018).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """An answer without what does not count."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def exact_match(answer: str, references: Sequence[str]) -> float:
    """1 if the answer is one of the right ones, else 0; without any right one, the right answer is none."""
    return _best_score(answer, references, lambda first, second: float(first == second))


def token_f1(answer: str, references: Sequence[str]) -> float:
    """F1 over the words that the answer shares with that right one with which it shares most."""
    return _best_score(answer, references, _f1)


def _best_score(answer: str, references: Sequence[str], score: Callable[[str, str], float]) -> float:
    accepted = [
        text for reference in references if (text := normalise(reference)) or not reference
    ]  # an answer of articles alone tells none
    return max(score(normalise(answer), text) for text in accepted or [""])


def _f1(answer: str, reference: str) -> float:
    answer_words, reference_words = answer.split(), reference.split()
    if not answer_words or not reference_words:
        return float(answer_words == reference_words)
    shared = sum((Counter(answer_words) & Counter(reference_words)).values())
    return 2 * shared / (len(answer_words) + len(reference_words))
