"""How well captions agree with those that people wrote: BLEU-1 to BLEU-4 by sacreBLEU, and CIDEr-D.

Captions are compared as the field does it: in lower case, without punctuation, word by word.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from jaxtyping import Float

from regard.metrics.significance import Statistics, averaged, statistics

ORDERS = 4
SPREAD = 6.0  # of the penalty on other lengths, in words
LEFT_OUT = frozenset("'' ' `` ` -LRB- -RRB- -LCB- -RCB- . ? ! , : - -- ... ; ( ) [ ] { } \" / *".lower().split())
NOTE = "captions in lower case without punctuation; CIDEr-D weighs words by the references of this test set"

Gram = tuple[str, ...]
Vector = Mapping[Gram, float]


def words(text: str) -> list[str]:
    """The words of a caption as they are compared: sacreBLEU's 13a, in lower case, without punctuation."""
    return [word for word in _cutter()(text.lower()).split() if word not in LEFT_OUT]


def judged(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Statistics]:
    """Every score of captions, from which intervals and paired tests follow; each has several references."""
    said = [" ".join(words(answer)) for answer in answers]
    right = [[" ".join(words(one)) for one in own] for own in references]
    counts = statistics("bleu", said, right, tokenize="none")
    orders = range(1, ORDERS + 1)
    whole = {f"BLEU-{n}": replace(counts, metric=f"bleu-{n}") for n in orders}
    free = {f"BLEU-{n} without penalty": replace(counts, metric=f"bleu-{n} without penalty") for n in orders}
    return {**whole, **free, "CIDEr-D": averaged(cider(said, right))}


def cider(answers: Sequence[str], references: Sequence[Sequence[str]]) -> Float[np.ndarray, "caption"]:
    """CIDEr-D of each caption, 0 to 10; words are what lies between spaces (Vedantam et al. 2015).

    The cosine of counts of 1- to 4-grams, each weighed by how few pictures have it in their references, clipped so
    that saying a word twice does not pay, less for another length, and averaged over references and orders.
    """
    known = [[_grams(one) for one in own] for own in references]
    pictures: Counter[Gram] = Counter(gram for own in known for gram in {gram for one in own for gram in one})
    total = math.log(max(len(known), 1))
    rarity = {gram: total - math.log(count) for gram, count in pictures.items()}
    found = np.zeros(len(answers))
    for number, (answer, own) in enumerate(zip(answers, known, strict=True)):
        mine = _Weighed(_grams(answer), rarity, total)
        found[number] = 10 * np.mean([mine.likeness(_Weighed(one, rarity, total)) for one in own])
    return found


@cache
def _cutter() -> Callable[[str], str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return Tokenizer13a()


class _Weighed:
    """The n-grams of a caption with their weights, and the norm of each order."""

    def __init__(self, counts: Counter[Gram], rarity: Vector, unseen: float) -> None:
        self.weights = {gram: count * rarity.get(gram, unseen) for gram, count in counts.items()}
        self.length = sum(count for gram, count in counts.items() if len(gram) == 2)
        squares = [0.0] * ORDERS
        for gram, weight in self.weights.items():
            squares[len(gram) - 1] += weight**2
        self.norms = [math.sqrt(each) for each in squares]

    def likeness(self, other: _Weighed) -> float:
        """To a reference, averaged over the orders."""
        shared = [0.0] * ORDERS
        for gram, weight in self.weights.items():
            wanted = other.weights.get(gram, 0.0)
            shared[len(gram) - 1] += min(weight, wanted) * wanted
        scale = [a * b for a, b in zip(self.norms, other.norms, strict=True)]
        cosines = [part / size if size else part for part, size in zip(shared, scale, strict=True)]
        return math.exp(-((self.length - other.length) ** 2) / (2 * SPREAD**2)) * sum(cosines) / ORDERS


def _grams(text: str) -> Counter[Gram]:
    """How often each run of one to four words occurs."""
    own = text.split()
    return Counter(tuple(own[at : at + n]) for n in range(1, ORDERS + 1) for at in range(len(own) - n + 1))
