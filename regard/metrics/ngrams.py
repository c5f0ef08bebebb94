"""An n-gram language model: the baseline that a network predicting the next token should beat.

Interpolated Kneser-Ney with three discounts per order (Chen and Goodman 1998): the longest n-grams are counted by
occurrences, shorter ones by the number of different tokens before them, and the discounts back off to shorter ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Integer

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplication is invertible
SHIFT = np.uint64(29)
DEFAULT_DISCOUNTS = (0.5, 1.0, 1.5)  # discounts where too few n-grams occur to compute them
MIN_DISCOUNT = 0.1  # unseen n-grams must not be impossible


@dataclass(frozen=True)
class _Order:
    """The n-grams of one length; keys are sorted, for lookup by bisection."""

    grams: Integer[np.ndarray, "gram"]
    counts: Float[np.ndarray, "gram"]
    """What is left of each count after the discount."""
    contexts: Integer[np.ndarray, "context"]
    totals: Float[np.ndarray, "context"]
    freed: Float[np.ndarray, "context"]
    """What the discounts took, which is shared out as the next shorter context says."""


class NGrams:
    """The n-gram counts of documents; document n is `tokens[starts[n]:starts[n + 1]]`."""

    def __init__(
        self, tokens: Integer[np.ndarray, "token"], starts: Int[np.ndarray, "bound"], vocab: int, order: int = 5
    ) -> None:
        if order < 1 or len(tokens) == 0:
            raise ValueError(f"{len(tokens)} tokens and an order of {order}: give at least one of each")
        self.vocab, self.order = vocab, order
        windows = self._windows(tokens, starts)
        grams, contexts = _hash_windows(windows)
        self.orders: list[_Order] = []
        chosen = np.arange(len(windows))
        for length in range(order, 0, -1):
            if length < order:
                inside = windows[:, order - length] != vocab
                chosen = np.concatenate([chosen[inside[chosen]], np.flatnonzero(~inside)])
            keys, first, counts = np.unique(grams[length][chosen], return_index=True, return_counts=True)
            chosen = chosen[first]
            self.orders.insert(0, _discount_counts(keys, counts, contexts[length - 1][chosen]))

    def _windows(
        self, tokens: Integer[np.ndarray, "token"], starts: Int[np.ndarray, "bound"]
    ) -> Int[np.ndarray, "token order"]:
        """Return every token with those before it; documents are preceded by a token outside the vocabulary."""
        before = self.order - 1
        positions = np.arange(len(tokens)) + before * (np.searchsorted(starts, np.arange(len(tokens)), side="right"))
        stream = np.full(len(tokens) + before * (len(starts) - 1), self.vocab, dtype=np.int64)
        stream[positions] = tokens
        return np.lib.stride_tricks.sliding_window_view(stream, self.order)[positions - before]

    def probabilities(
        self, tokens: Integer[np.ndarray, "token"], starts: Int[np.ndarray, "bound"]
    ) -> Float[np.ndarray, "token"]:
        """Return the probability of each token given those before it in its document."""
        grams, contexts = _hash_windows(self._windows(tokens, starts))
        estimates = np.full(len(tokens), 1 / self.vocab)
        for length, order in enumerate(self.orders, 1):
            context, context_exists = _find_keys(order.contexts, contexts[length - 1])
            gram, gram_exists = _find_keys(order.grams, grams[length])
            share = (np.where(gram_exists, order.counts[gram], 0.0) + order.freed[context] * estimates) / order.totals[
                context
            ]
            estimates = np.where(context_exists, share, estimates)
        return estimates

    def nats(self, tokens: Integer[np.ndarray, "token"], starts: Int[np.ndarray, "bound"]) -> float:
        """Return the negative log-likelihood of documents."""
        return float(-np.log(self.probabilities(tokens, starts)).sum())


def _hash_windows(
    windows: Int[np.ndarray, "token order"],
) -> tuple[list[Integer[np.ndarray, "token"]], list[Integer[np.ndarray, "token"]]]:
    """Return keys of the last n tokens of every window, by n; and of the n tokens before the last one."""
    words = windows.astype(np.uint64)
    contexts = [np.full(len(words), 1, dtype=np.uint64)]
    for offset in range(2, words.shape[1] + 1):
        contexts.append(_mix_keys(contexts[-1], words[:, -offset]))
    return [contexts[0], *(_mix_keys(context, words[:, -1] + SHIFT) for context in contexts)], contexts


def _mix_keys(key: Integer[np.ndarray, "token"], word: Integer[np.ndarray, "token"]) -> Integer[np.ndarray, "token"]:
    """Combine two numbers into one key; among millions, the chance of a collision is one in a hundred thousand."""
    mixed = (key ^ (word + MULTIPLIER)) * MULTIPLIER
    return (mixed ^ (mixed >> SHIFT)) * MULTIPLIER


def _discount_counts(
    keys: Integer[np.ndarray, "gram"], counts: Int[np.ndarray, "gram"], contexts: Integer[np.ndarray, "gram"]
) -> _Order:
    """Discount the counts, by the numbers of n-grams that occur once, twice, three and four times."""
    once, twice, thrice, four = (int((counts == number).sum()) for number in (1, 2, 3, 4))
    discounts = np.array([0.0, *DEFAULT_DISCOUNTS])
    if min(once, twice, thrice):
        base = once / (once + 2 * twice)
        ratios = (twice / once, thrice / twice, four / thrice)
        discounts[1:] = [
            max(MIN_DISCOUNT, number - (number + 1) * base * ratio) for number, ratio in enumerate(ratios, 1)
        ]
    discount = np.minimum(discounts[np.minimum(counts, 3)], counts)
    unique_contexts, inverse = np.unique(contexts, return_inverse=True)
    totals, freed = (np.bincount(inverse, weights) for weights in (counts, discount))
    return _Order(keys, counts - discount, unique_contexts, totals, freed)


def _find_keys(
    keys: Integer[np.ndarray, "key"], queries: Integer[np.ndarray, "token"]
) -> tuple[Int[np.ndarray, "token"], np.ndarray]:
    """Return the index of each query among the keys, and whether it is one of them."""
    index = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return index, keys[index] == queries
