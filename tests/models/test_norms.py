"""Layer normalisation looks along an example, batch normalisation across examples."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.models.parts.blocks import Residual

# Rows are features, columns are examples; the second feature is the same in all examples, so its variance is 0.
MATRIX = np.array([[1, 3, 4], [2, 2, 2], [0, 1, 5], [4, 6, 1], [5, 2, 3], [3, 0, 1]], dtype=np.float64)
EXAMPLES = torch.tensor(MATRIX.T)


def standardised(values: np.ndarray, axis: int) -> np.ndarray:
    """Minus the mean, over the root of the population variance plus the small constant that torch adds."""
    return (values - values.mean(axis, keepdims=True)) / np.sqrt(values.var(axis, keepdims=True, ddof=0) + 1e-5)


def test_the_means_are_per_feature_for_one_and_per_example_for_the_other():
    assert MATRIX.mean(1).round(2).tolist() == [2.67, 2, 2, 3.67, 3.33, 1.33]
    assert MATRIX.mean(0).round(2).tolist() == [2.5, 2.33, 2.67]
    batch = nn.BatchNorm1d(6, momentum=1.0, dtype=torch.float64)
    batch(EXAMPLES)
    assert batch.running_mean.numpy().round(2).tolist() == [2.67, 2, 2, 3.67, 3.33, 1.33]


def test_the_deviations_are_those_of_each_feature_or_of_each_example():
    assert MATRIX.std(1).round(2).tolist() == [1.25, 0, 2.16, 2.05, 1.25, 1.25]
    assert MATRIX.std(0).round(2).tolist() == [1.71, 1.89, 1.49]
    batch = nn.BatchNorm1d(6, momentum=1.0, dtype=torch.float64)
    batch(EXAMPLES)
    assert (batch.running_var * 2 / 3).sqrt().numpy().round(2).tolist() == [1.25, 0, 2.16, 2.05, 1.25, 1.25]


def test_a_feature_without_variance_becomes_zero_and_not_a_division_by_zero():
    normalised = nn.BatchNorm1d(6, dtype=torch.float64).train()(EXAMPLES)
    assert normalised[:, 1].tolist() == [0, 0, 0]
    assert normalised.isfinite().all()


def test_batch_norm_divides_by_the_population_deviation_of_each_feature():
    normalised = nn.BatchNorm1d(6, dtype=torch.float64).train()(EXAMPLES)
    np.testing.assert_allclose(normalised.detach().numpy(), standardised(MATRIX, axis=1).T, rtol=1e-12)
    np.testing.assert_allclose(normalised.detach().mean(0), np.zeros(6), atol=1e-12)


def test_layer_norm_divides_by_the_population_deviation_of_each_example():
    normalised = nn.LayerNorm(6, dtype=torch.float64)(EXAMPLES)
    np.testing.assert_allclose(normalised.detach().numpy(), standardised(MATRIX, axis=0).T, rtol=1e-12)
    np.testing.assert_allclose(normalised.detach().mean(1), np.zeros(3), atol=1e-12)


@pytest.mark.parametrize("pre", [False, True])
def test_a_residual_step_never_depends_on_the_other_examples(pre):
    step = Residual(6, pre=pre, dropout=0.0).double()
    together = step(EXAMPLES, torch.tanh)
    alone = torch.cat([step(example[None], torch.tanh) for example in EXAMPLES])
    torch.testing.assert_close(together, alone)
    batch = nn.BatchNorm1d(6, dtype=torch.float64).train()
    assert not torch.allclose(batch(EXAMPLES)[:2], batch(EXAMPLES[:2]))
