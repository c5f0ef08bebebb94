"""Weights handed to CTranslate2 are copies: its conversion writes into the arrays that it is given."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from benchmarks import ctranslate
from regard.models.transformer import Transformer, TransformerConfig


def test_converting_a_weight_in_place_changes_nothing_of_the_model() -> None:
    linear, norm = nn.Linear(3, 2), nn.LayerNorm(3)
    before = copy.deepcopy([linear.state_dict(), norm.state_dict()])
    table, layer, scale = ctranslate._array(linear.weight), SimpleNamespace(), SimpleNamespace()
    assert (table == linear.weight.detach().numpy()).all()
    ctranslate._linear(layer, linear)
    ctranslate._norm(scale, norm)
    for array in (table, layer.weight, layer.bias, scale.gamma, scale.beta):
        array[...] = 127.0
    for state, module in zip(before, (linear, norm), strict=True):
        assert all(torch.equal(state[name], weight) for name, weight in module.state_dict().items())


def test_half_precision_is_handed_over_in_float32() -> None:
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    array = ctranslate._array(half)
    assert array.dtype == "float32"
    assert array.tolist() == [1.5, -2.0]


@pytest.mark.unchecked
def test_an_int8_conversion_leaves_the_live_model_as_it_was(tmp_path) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed (pip install ctranslate2)")
    shape = {"vocab": 24, "width": 16, "heads": 2, "hidden": 32, "encoder": 1, "decoder": 1}
    model = Transformer(TransformerConfig(**shape, share="all", positions="sinusoidal", activation="relu"))
    before = copy.deepcopy(model.state_dict())
    ctranslate.CTranslate2(model, tmp_path, device="cpu", precision="int8", eos=0, bos=1)
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
