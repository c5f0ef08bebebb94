"""Small weights: every number comes back to within half a step of its row."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.quantize import restore, shrink


@given(st.integers(1, 7), st.integers(1, 9), st.integers(0, 1000))
def test_every_number_comes_back_within_half_a_step(rows: int, columns: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(rows, columns, generator=generator) * 10 ** torch.randint(
        -4, 4, (rows, 1), generator=generator
    )
    small = shrink({"matrix": matrix})
    assert small["matrix"].dtype == torch.int8
    step = matrix.abs().amax(1, keepdim=True) / 127
    assert bool(((restore(small)["matrix"] - matrix).abs() <= step * 0.501).all())


def test_vectors_stay_floats_and_zeros_stay_zeros():
    small = shrink({"vector": torch.tensor([1.5, -2.25]), "zeros": torch.zeros(2, 3), "count": torch.tensor([3])})
    back = restore(small)
    assert torch.equal(back["vector"], torch.tensor([1.5, -2.25]))
    assert torch.equal(back["zeros"], torch.zeros(2, 3))
    assert torch.equal(back["count"], torch.tensor([3]))


def test_shrunken_weights_take_little_more_than_a_quarter():
    tensors = {"matrix": torch.randn(300, 256)}
    assert sum(tensor.nbytes for tensor in shrink(tensors).values()) < 0.26 * tensors["matrix"].nbytes


def test_what_was_never_shrunken_comes_back_untouched():
    tensors = {"a": torch.randn(3, 4), "b": torch.randn(5, dtype=torch.float64)}
    assert all(restore(tensors)[name] is tensor for name, tensor in tensors.items())
