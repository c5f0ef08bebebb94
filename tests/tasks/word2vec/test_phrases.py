"""Phrases are the pairs of words that the formula of the paper says, joined from the left."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from regard.tasks.word2vec import phrases


def text(words: str) -> tuple[list[str], np.ndarray]:
    """Lines of words as a vocabulary and its numbers."""
    vocabulary = sorted(set(words.split()))
    lines = [[*(vocabulary.index(word) for word in line.split()), -1] for line in words.split("\n")]
    return vocabulary, np.array([number for line in lines for number in line], np.int32)


def counted(vocabulary: list[str], tokens: np.ndarray) -> np.ndarray:
    return np.bincount(tokens[tokens >= 0], minlength=len(vocabulary)).astype(np.int64)


@pytest.mark.parametrize("threshold", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("discount", [0, 2])
def test_phrases_are_those_that_score_above_the_threshold(threshold, discount):
    chance = np.random.default_rng(0)
    lines = [" ".join(chance.choice(list("abcdefgh"), 9, p=np.arange(1, 9) / 36)) for _ in range(60)]
    vocabulary, tokens = text("\n".join([*lines, *["x y b"] * 7, "z w"]))
    counts = counted(vocabulary, tokens)
    naive = Counter((a, b) for a, b in pairwise(tokens.tolist()) if a >= 0 and b >= 0)
    right = {
        (a, b)
        for (a, b), times in naive.items()
        if (times - discount) / (counts[a] * counts[b]) * counts.sum() > threshold
    }
    pieces = np.split(tokens, np.flatnonzero(tokens == -1)[5:25:7] + 1)
    keys = phrases.find_phrases(pieces, counts, threshold=threshold, discount=discount)
    assert {divmod(key, len(vocabulary)) for key in keys.tolist()} == right
    assert right


def test_overlapping_phrases_are_joined_from_the_left_and_never_across_lines():
    vocabulary, tokens = text("a b c d\nb c a b a b\nc\nd")
    key = {word: number for number, word in enumerate(vocabulary)}
    keys = np.sort(np.array([key[a] * 4 + key[b] for a, b in ("ab", "bc", "cd", "ba")]))
    names = [*vocabulary, *(vocabulary[k // 4] + vocabulary[k % 4] for k in keys)]
    joined = phrases.join_phrases(tokens, keys, 4)
    assert [names[token] if token >= 0 else "." for token in joined] == [
        *("ab", "cd", "."),
        *("bc", "ab", "ab", "."),
        *("c", ".", "d", "."),
    ]


def test_without_phrases_a_text_stays_as_it_is():
    _, tokens = text("a b c")
    assert phrases.join_phrases(tokens, np.zeros(0, np.int64), 3) is tokens
