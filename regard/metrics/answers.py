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


def normalised(answer: str) -> str:
    """An answer without what does not count."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def exact(answer: str, right: Sequence[str]) -> float:
    """1 if the answer is one of the right ones, else 0; without any right one, the right answer is none."""
    return _best(answer, right, lambda one, other: float(one == other))


def overlap(answer: str, right: Sequence[str]) -> float:
    """F1 over the words that the answer shares with that right one with which it shares most."""
    return _best(answer, right, _f1)


def _best(answer: str, right: Sequence[str], score: Callable[[str, str], float]) -> float:
    telling = [each for one in right if (each := normalised(one)) or not one]  # an answer of articles alone tells none
    return max(score(normalised(answer), each) for each in telling or [""])


def _f1(answer: str, right: str) -> float:
    one, other = answer.split(), right.split()
    if not one or not other:
        return float(one == other)
    shared = sum((Counter(one) & Counter(other)).values())
    return 2 * shared / (len(one) + len(other))
