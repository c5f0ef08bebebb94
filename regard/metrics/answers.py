"""Extractive answers against references: exact match and F1 over words, computed as in SQuAD.

Case, punctuation and the articles a, an, the do not count (Rajpurkar et al. 2016). An empty text stands for "no answer"
and is scored like any other (Rajpurkar et al. 2018).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """Return an answer without case, punctuation and articles."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def exact_match(answer: str, references: Sequence[str]) -> float:
    """Return 1 if the answer equals a reference, else 0; without references, the right answer is the empty one."""
    return _best_score(answer, references, lambda first, second: float(first == second))


def token_f1(answer: str, references: Sequence[str]) -> float:
    """Return the F1 over words with the reference for which it is highest."""
    return _best_score(answer, references, _f1)


def _best_score(answer: str, references: Sequence[str], score: Callable[[str, str], float]) -> float:
    accepted = [
        text for reference in references if (text := normalise(reference)) or not reference
    ]  # an answer of articles alone is dropped
    return max(score(normalise(answer), text) for text in accepted or [""])


def _f1(answer: str, reference: str) -> float:
    answer_words, reference_words = answer.split(), reference.split()
    if not answer_words or not reference_words:
        return float(answer_words == reference_words)
    shared = sum((Counter(answer_words) & Counter(reference_words)).values())
    return 2 * shared / (len(answer_words) + len(reference_words))
