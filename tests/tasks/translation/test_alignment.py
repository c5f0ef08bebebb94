"""Where words look: from tokens to words."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.translation.alignment import _merge_words

owners = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(lambda steps: np.cumsum([0, *steps[1:]]).tolist())


@given(rows=owners, columns=owners, seed=st.integers(0, 99))
def test_weights_are_summed_over_a_word_that_is_looked_at_and_averaged_over_one_that_looks(rows, columns, seed):
    weights = np.random.default_rng(seed).random((len(rows), len(columns)), dtype=np.float32)
    merged = _merge_words(weights, rows, columns)
    assert merged.shape == (rows[-1] + 1, columns[-1] + 1)
    for word in range(rows[-1] + 1):
        for source in range(columns[-1] + 1):
            looking = [n for n, owner in enumerate(rows) if owner == word]
            shares = [sum(weights[n, m] for m, owner in enumerate(columns) if owner == source) for n in looking]
            np.testing.assert_allclose(merged[word, source], np.mean(shares) if shares else 0.0, rtol=1e-5)


def test_a_text_without_words_has_nothing_to_look_at():
    assert _merge_words(np.zeros((0, 3), dtype=np.float32), [], [0, 1, 2]).size == 0
