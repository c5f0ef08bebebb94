"""Where words look: from tokens to words."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.translation.alignment import merge_words

owners = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(lambda steps: np.cumsum([0, *steps[1:]]).tolist())


@given(
    examples=st.lists(st.tuples(owners, owners), min_size=1, max_size=4),
    skipped=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_weights_are_summed_over_a_word_that_is_looked_at_and_averaged_over_one_that_looks(examples, skipped, seed):
    height, width = (max(len(example[side]) for example in examples) + 1 for side in (0, 1))
    weights = torch.rand(len(examples), height, skipped + width, generator=torch.Generator().manual_seed(seed))
    rows, columns = [list(side) for side in zip(*examples, strict=True)]
    merged, shapes = merge_words(weights, rows, columns, skipped=skipped)
    for number, (own, looked) in enumerate(examples):
        assert shapes[number] == (own[-1] + 1, looked[-1] + 1)
        for word in range(own[-1] + 1):
            for source in range(looked[-1] + 1):
                looking = [n for n, owner in enumerate(own) if owner == word]
                there = [skipped + m for m, owner in enumerate(looked) if owner == source]
                shares = [float(weights[number, n, there].sum()) for n in looking]
                np.testing.assert_allclose(merged[number, word, source], np.mean(shares) if shares else 0.0, rtol=1e-4)


def test_a_text_without_words_has_nothing_to_look_at():
    _, shapes = merge_words(torch.rand(2, 3, 4), [[], [0, 1]], [[0, 1, 2], [0]])
    assert shapes == [(0, 3), (2, 1)]
