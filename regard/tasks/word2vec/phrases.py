"""Words that belong together, such as new_york, found by how often they follow one another (Mikolov et al. 2013).

score(a, b) = (count(a b) - discount) / (count(a) count(b)) * words of the text; pairs that score above the threshold
become one word. A second pass finds phrases of up to four words, of which pairs are already one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Int

Tokens = Int[np.ndarray, "token"]
Keys = Int[np.ndarray, "phrase"]


def find_phrases(
    pieces: Iterable[Tokens], counts: Int[np.ndarray, "vocab"], *, threshold: float, discount: int
) -> Keys:
    """Return the phrases of a text in order, each as a * vocab + b; negative tokens are never part of a phrase."""
    size, total = len(counts), int(counts.sum())
    # No pair with a word outside these bounds can score above the threshold, since it is no more frequent than either.
    useful = (counts > discount) & (counts * threshold < total)
    keys, times = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for tokens in pieces:
        inside = (tokens >= 0) & useful[np.maximum(tokens, 0)]
        both = inside[:-1] & inside[1:]
        pair_keys = tokens[:-1][both].astype(np.int64) * size + tokens[1:][both]
        keys, times = _merge_counts(keys, times, *np.unique(pair_keys, return_counts=True))
    product = counts[keys // size].astype(np.float64) * counts[keys % size]
    return keys[(times - discount) * float(total) > threshold * product]


def join_phrases(tokens: Tokens, keys: Keys, size: int) -> Int[np.ndarray, "fewer"]:
    """Return the text with every phrase as one token, numbered from `size`; the first of two that overlap wins."""
    if not len(keys) or len(tokens) < 2:
        return tokens
    pair_keys = np.where((tokens[:-1] >= 0) & (tokens[1:] >= 0), tokens[:-1].astype(np.int64) * size + tokens[1:], -1)
    number = np.minimum(np.searchsorted(keys, pair_keys), len(keys) - 1)
    begins_phrase = _every_other(keys[number] == pair_keys)
    merged = tokens.copy()
    merged[:-1][begins_phrase] = size + number[begins_phrase]
    return merged[np.concatenate([[True], ~begins_phrase])]


def _every_other(run: Bool[np.ndarray, "place"]) -> Bool[np.ndarray, "place"]:
    """Mark the first, third, fifth element and so on of every run of True values."""
    places = np.arange(len(run))
    begins = run & ~np.concatenate([[False], run[:-1]])
    return run & ((places - np.maximum.accumulate(np.where(begins, places, 0))) % 2 == 0)


def _merge_counts(
    keys: Int[np.ndarray, "old"], times: Int[np.ndarray, "old"], more: Keys, more_times: Keys
) -> tuple[Int[np.ndarray, "all"], Int[np.ndarray, "all"]]:
    """Merge two tables of counts."""
    every, place = np.unique(np.concatenate([keys, more]), return_inverse=True)
    return every, np.bincount(place, np.concatenate([times, more_times]), len(every)).astype(np.int64)
