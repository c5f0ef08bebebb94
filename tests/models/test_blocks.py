"""The settings of blocks, each against its formula in float64; those of today's models change nothing."""

import math

import numpy as np
import pytest
import torch

from regard.attention.masks import EVERYONE
from regard.attention.multihead import Heads
from regard.attention.positions import Positions
from regard.models.parts.blocks import ACTIVATIONS, BlockShape, Embedding, EncoderBlock, FeedForward


def array(tensor):
    return tensor.detach().double().numpy()


def test_a_gated_feed_forward_is_its_formula():
    network = FeedForward(6, 10, activation="silu", bias=False, gated=True)
    x = torch.randn(4, 6)
    inner, gate, outer = (array(part.weight) for part in (network.inner, network.gate, network.outer))
    gated = array(x) @ gate.T
    expected = (gated / (1 + np.exp(-gated)) * (array(x) @ inner.T)) @ outer.T
    np.testing.assert_allclose(array(network(x)), expected, rtol=1e-5, atol=1e-6)
    assert {name for name, _ in network.named_parameters()} == {"inner.weight", "outer.weight", "gate.weight"}


def test_gelu_is_exact_or_by_tanh_as_asked():
    x = np.linspace(-4, 4, 41)
    exact = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    rough = x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    for name, expected in (("gelu", exact), ("gelu_tanh", rough)):
        np.testing.assert_allclose(ACTIVATIONS[name](torch.from_numpy(x)).numpy(), expected, atol=1e-12)
    assert np.abs(exact - rough).max() > 1e-4, "or the names could be exchanged"


@pytest.mark.parametrize(("norm", "eps"), [("layer", 1e-5), ("layer", 1e-2), ("rms", 1e-6), ("rms", 1e-2)])
def test_a_norm_is_its_formula_with_its_eps(norm, eps):
    shape = BlockShape(8, Heads(2), 16, norm=norm, eps=eps)
    x, found = torch.randn(5, 8) * 0.1, shape.normal()
    torch.nn.init.normal_(found.weight)
    values = array(x)
    centred = values - values.mean(-1, keepdims=True) if norm == "layer" else values
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * array(found.weight)
    np.testing.assert_allclose(array(found(x)), expected, rtol=1e-4, atol=1e-5)
    assert hasattr(found, "bias") == (norm == "layer")


def test_a_block_takes_all_of_them():
    plain = {"attention_bias": False, "norm": "rms", "mlp_bias": False, "gated": True}
    shape = BlockShape(8, Heads(4, groups=2), 12, pre=True, activation="silu", **plain)
    block = EncoderBlock(shape)
    assert not [name for name, _ in block.named_parameters() if "bias" in name]
    projections = 8 * (8 + 4 + 4 + 8)  # queries, two groups of keys and of values, output
    assert sum(each.numel() for each in block.parameters()) == projections + 3 * 8 * 12 + 2 * 8
    x = torch.randn(2, 3, 8)
    assert block(x, mask=EVERYONE, positions=Positions()).shape == x.shape


def test_vectors_are_scaled_or_not():
    table, positions = Embedding(9, 16, scaled=False), Positions()
    tokens = torch.tensor([3, 1])
    assert torch.equal(table(tokens, tokens, positions), table.weight[tokens])
    scaled = Embedding(9, 16)
    torch.testing.assert_close(scaled(tokens, tokens, positions), scaled.weight[tokens] * 4)
