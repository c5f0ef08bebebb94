"""Weights by name: each tensor once, put back where they were, or taken over where they lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.models.weights import adopt, fill, weights


class Views(nn.Module):
    """Two buffers over one memory: a vector, and the matrix it fills."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("flat", torch.arange(6.0))
        self.register_buffer("square", self.flat.view(2, 3))  # type: ignore[operator]
        self.register_buffer("start", self.flat[:2])  # type: ignore[index]


class Two(nn.Module):
    """A table that is read and written with, and a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.output = nn.Embedding(5, 16), nn.Linear(16, 5)
        self.output.weight = self.table.weight
        self.register_buffer("seen", torch.zeros(0))
        self.register_buffer("rates", torch.arange(3.0), persistent=False)
        self.layers = nn.LSTM(16, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.output(self.layers(self.table(tokens))[0]) + self.rates.sum()


def test_views_of_one_address_with_other_shapes_are_other_tensors() -> None:
    model = Views()
    assert {name: tuple(each.shape) for name, each in weights(model).items()} == {
        "flat": (6,),
        "square": (2, 3),
        "start": (2,),
    }
    saved = {name: each.clone() for name, each in weights(model).items()}
    model.flat.zero_()
    fill(model, saved)
    assert model.square.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_same_view_under_two_names_is_saved_once() -> None:
    assert "output.weight" not in weights(Two())
    assert {"table.weight", "output.bias", "seen"} <= weights(Two()).keys()


def test_a_model_that_takes_weights_over_answers_as_the_one_that_had_them() -> None:
    model, other = Two().eval(), Two().eval()
    tokens = torch.randint(5, (3, 4))
    assert not torch.equal(model(tokens), other(tokens))
    adopt(other, weights(model))
    assert torch.equal(model(tokens), other(tokens))
    assert other.output.weight is other.table.weight, "what was one stays one"
    assert all(each.requires_grad for each in other.parameters())
    other(tokens).sum().backward()
    assert other.table.weight.grad is not None


def test_weights_are_taken_over_without_a_copy_where_they_lie_well() -> None:
    room = torch.zeros(2000)
    well = room[(-room.data_ptr() // 4) % 16 :]  # the first of them lies at a multiple of 64 bytes
    tensors = weights(Two())
    tensors["table.weight"] = well[:80].view(5, 16)
    tensors["output.bias"] = well[81:86]
    model = Two()
    adopt(model, tensors)
    assert model.table.weight.data_ptr() == tensors["table.weight"].data_ptr()
    assert model.output.bias.data_ptr() != tensors["output.bias"].data_ptr()
    assert all(each.data_ptr() % 64 == 0 for each in model.parameters())


def test_numbers_of_another_kind_become_those_of_the_model() -> None:
    model, halves = Two(), {name: each.half() for name, each in weights(Two()).items()}
    adopt(model, halves)
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    assert torch.equal(model.output.bias, halves["output.bias"].float())


@pytest.mark.parametrize("give", [fill, adopt])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("output.bias"), r"output\.bias is missing \(1 in all\)"),
        (lambda tensors: tensors.update(scale=torch.ones(1)), "it has no scale"),
        (lambda tensors: tensors.update({"output.bias": torch.ones(1)}), r"output\.bias is \(1,\), not \(5,\)"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_changed(give: Callable, change: Callable, message: str) -> None:
    model = Two()
    before = {name: each.clone() for name, each in weights(model).items()}
    tensors = {name: each + 1 for name, each in before.items()}
    change(tensors)
    with pytest.raises(ValueError, match=message):
        give(model, tensors)
    assert all(torch.equal(each, before[name]) for name, each in weights(model).items())
