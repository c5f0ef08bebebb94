"""Agreement of captions with human references: BLEU-1 to BLEU-4 by sacreBLEU, and CIDEr-D.

Captions are compared as usual in the field: in lower case, without punctuation, word by word.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from jaxtyping import Float

from regard.metrics.significance import Statistics, mean_statistics, statistics

ORDERS = 4
LENGTH_SIGMA = 6.0  # of the length penalty, in words
PUNCTUATION = frozenset("'' ' `` ` -LRB- -RRB- -LCB- -RCB- . ? ! , : - -- ... ; ( ) [ ] { } \" / *".lower().split())
NOTE = "captions in lower case without punctuation; CIDEr-D weighs words by the references of this test set"

Gram = tuple[str, ...]
Vector = Mapping[Gram, float]


def words(text: str) -> list[str]:
    """Return the words of a caption for comparison: sacreBLEU's 13a, in lower case, without punctuation."""
    return [word for word in _tokenizer()(text.lower()).split() if word not in PUNCTUATION]


def score_captions(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Statistics]:
    """Return all caption metrics as statistics for intervals and paired tests; each caption has several references."""
    answer_texts = [" ".join(words(answer)) for answer in answers]
    reference_texts = [[" ".join(words(reference)) for reference in alternatives] for alternatives in references]
    counts = statistics("bleu", answer_texts, reference_texts, tokenize="none")
    orders = range(1, ORDERS + 1)
    whole = {f"BLEU-{n}": replace(counts, metric=f"bleu-{n}") for n in orders}
    free = {f"BLEU-{n} without penalty": replace(counts, metric=f"bleu-{n} without penalty") for n in orders}
    return {**whole, **free, "CIDEr-D": mean_statistics(cider(answer_texts, reference_texts))}


def cider(answers: Sequence[str], references: Sequence[Sequence[str]]) -> Float[np.ndarray, "caption"]:
    """Return the CIDEr-D of each caption, 0 to 10; words are separated by spaces (Vedantam et al. 2015).

    It is the cosine of counts of 1- to 4-grams, weighted by how few images have them in their references, clipped so
    that repeating a word does not pay, reduced for a different length, and averaged over references and orders.
    """
    reference_grams = [[_grams(reference) for reference in alternatives] for alternatives in references]
    document_counts: Counter[Gram] = Counter(
        gram for alternatives in reference_grams for gram in {gram for reference in alternatives for gram in reference}
    )
    log_pictures = math.log(max(len(reference_grams), 1))
    idf = {gram: log_pictures - math.log(count) for gram, count in document_counts.items()}
    scores = np.zeros(len(answers))
    for number, (answer, alternatives) in enumerate(zip(answers, reference_grams, strict=True)):
        candidate = _TfIdfVector(_grams(answer), idf, log_pictures)
        scores[number] = 10 * np.mean(
            [candidate.likeness(_TfIdfVector(reference, idf, log_pictures)) for reference in alternatives]
        )
    return scores


@cache
def _tokenizer() -> Callable[[str], str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return Tokenizer13a()


class _TfIdfVector:
    """The n-grams of a caption with their TF-IDF weights, and the norm of each order."""

    def __init__(self, counts: Counter[Gram], idf: Vector, unseen: float) -> None:
        self.weights = {gram: count * idf.get(gram, unseen) for gram, count in counts.items()}
        self.length = sum(count for gram, count in counts.items() if len(gram) == 2)
        squares = [0.0] * ORDERS
        for gram, weight in self.weights.items():
            squares[len(gram) - 1] += weight**2
        self.norms = [math.sqrt(square) for square in squares]

    def likeness(self, other: _TfIdfVector) -> float:
        """Return the similarity to a reference, averaged over the orders."""
        products = [0.0] * ORDERS
        for gram, weight in self.weights.items():
            reference_weight = other.weights.get(gram, 0.0)
            products[len(gram) - 1] += min(weight, reference_weight) * reference_weight
        scale = [a * b for a, b in zip(self.norms, other.norms, strict=True)]
        cosines = [part / size if size else part for part, size in zip(products, scale, strict=True)]
        return math.exp(-((self.length - other.length) ** 2) / (2 * LENGTH_SIGMA**2)) * sum(cosines) / ORDERS


def _grams(text: str) -> Counter[Gram]:
    """Count the n-grams of one to four words."""
    tokens = text.split()
    return Counter(
        tuple(tokens[start : start + n]) for n in range(1, ORDERS + 1) for start in range(len(tokens) - n + 1)
    )
