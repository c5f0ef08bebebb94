"""A language model that counts: what a network that predicts the next token should beat.

Interpolated Kneser-Ney with three discounts an order (Chen and Goodman 1998): the longest n-grams by how often they
occur, shorter ones by how many different tokens stand before them, each with a discount that is given to shorter ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Integer

MIXED = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplying by it loses nothing
SHIFT = np.uint64(29)
FEW = (0.5, 1.0, 1.5)  # discounts where too few n-grams occur to compute them
LEAST = 0.1  # of a discount: what never occurred is not impossible


@dataclass(frozen=True)
class _Order:
    """The n-grams of one length; keys are in order, so that one is found by bisection."""

    grams: Integer[np.ndarray, "gram"]
    counts: Float[np.ndarray, "gram"]
    """What is left of each count after the discount."""
    contexts: Integer[np.ndarray, "context"]
    totals: Float[np.ndarray, "context"]
    freed: Float[np.ndarray, "context"]
    """What the discounts took, which is shared out as the next shorter context says."""


class NGrams:
    """Counts of the n-grams of some documents; document n is `tokens[starts[n]:starts[n + 1]]`."""

    def __init__(
        self, tokens: Integer[np.ndarray, "token"], starts: Int[np.ndarray, "bound"], vocab: int, order: int = 5
    ) -> None:
        if order < 1 or len(tokens) == 0:
            raise ValueError(f"{len(tokens)} tokens and an order of {order}: give at least one of each")
        self.vocab, self.order = vocab, order
        windows = self._windows(tokens, starts)
        grams, contexts = _hashed(windows)
        self.orders: list[_Order] = []
        chosen = np.arange(len(windows))
        for length in range(order, 0, -1):
            if length < order:
                inside = windows[:, order - length] != vocab
                chosen = np.concatenate([chosen[inside[chosen]], np.flatnonzero(~inside)])
            keys, first, counts = np.unique(grams[length][chosen], return_index=True, return_counts=True)
            chosen = chosen[first]
            self.orders.insert(0, _order(keys, counts, contexts[length - 1][chosen]))

    def _windows(
        self, tokens: Integer[np.ndarray, "token"], starts: Int[np.ndarray, "bound"]
    ) -> Int[np.ndarray, "token order"]:
        """Every token with those before it; before a document stands a token that no other is."""
        before = self.order - 1
        places = np.arange(len(tokens)) + before * (np.searchsorted(starts, np.arange(len(tokens)), side="right"))
        stream = np.full(len(tokens) + before * (len(starts) - 1), self.vocab, dtype=np.int64)
        stream[places] = tokens
        return np.lib.stride_tricks.sliding_window_view(stream, self.order)[places - before]

    def probabilities(
        self, tokens: Integer[np.ndarray, "token"], starts: Int[np.ndarray, "bound"]
    ) -> Float[np.ndarray, "token"]:
        """Of each token after those before it in its document."""
        grams, contexts = _hashed(self._windows(tokens, starts))
        found = np.full(len(tokens), 1 / self.vocab)
        for length, order in enumerate(self.orders, 1):
            at, known = _places(order.contexts, contexts[length - 1])
            gram, seen = _places(order.grams, grams[length])
            share = (np.where(seen, order.counts[gram], 0.0) + order.freed[at] * found) / order.totals[at]
            found = np.where(known, share, found)
        return found

    def nats(self, tokens: Integer[np.ndarray, "token"], starts: Int[np.ndarray, "bound"]) -> float:
        """How improbable documents are: the sum of the negative logarithms."""
        return float(-np.log(self.probabilities(tokens, starts)).sum())


def _hashed(
    windows: Int[np.ndarray, "token order"],
) -> tuple[list[Integer[np.ndarray, "token"]], list[Integer[np.ndarray, "token"]]]:
    """Keys of the last tokens of every window, by how many; and of as many before the last one."""
    words = windows.astype(np.uint64)
    contexts = [np.full(len(words), 1, dtype=np.uint64)]
    for back in range(2, words.shape[1] + 1):
        contexts.append(_mixed(contexts[-1], words[:, -back]))
    return [contexts[0], *(_mixed(context, words[:, -1] + SHIFT) for context in contexts)], contexts


def _mixed(key: Integer[np.ndarray, "token"], word: Integer[np.ndarray, "token"]) -> Integer[np.ndarray, "token"]:
    """One key of two numbers; among millions two are the same with a chance of one in a hundred thousand."""
    mixed = (key ^ (word + MIXED)) * MIXED
    return (mixed ^ (mixed >> SHIFT)) * MIXED


def _order(
    keys: Integer[np.ndarray, "gram"], counts: Int[np.ndarray, "gram"], contexts: Integer[np.ndarray, "gram"]
) -> _Order:
    """The discounts follow from how many n-grams occur once, twice, three and four times."""
    once, twice, thrice, four = (int((counts == number).sum()) for number in (1, 2, 3, 4))
    taken = np.array([0.0, *FEW])
    if min(once, twice, thrice):
        base = once / (once + 2 * twice)
        ratios = (twice / once, thrice / twice, four / thrice)
        taken[1:] = [max(LEAST, number - (number + 1) * base * ratio) for number, ratio in enumerate(ratios, 1)]
    discount = np.minimum(taken[np.minimum(counts, 3)], counts)
    known, where = np.unique(contexts, return_inverse=True)
    totals, freed = (np.bincount(where, weights) for weights in (counts, discount))
    return _Order(keys, counts - discount, known, totals, freed)


def _places(
    keys: Integer[np.ndarray, "key"], wanted: Integer[np.ndarray, "token"]
) -> tuple[Int[np.ndarray, "token"], np.ndarray]:
    """Where each is among the keys, and whether it is there at all."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted
