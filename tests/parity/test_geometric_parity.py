"""The same weights in torch-geometric's GATConv and GCNConv give the same outputs, attention and gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from regard.interpret.watch import watch
from regard.models.gat import GraphAttention
from tests.models.test_gat import graph, model


def theirs(layer: GraphAttention, inputs: int) -> torch.nn.Module:
    """Their layer with our weights; importing it takes seconds, which whoever only lists the tests need not wait."""
    geometric = pytest.importorskip("torch_geometric.nn", reason="torch-geometric is not installed")
    depth = layer.project.out_features // layer.heads
    conv = geometric.GATConv(inputs, depth, heads=layer.heads, concat=not layer.averaged, add_self_loops=False)
    with torch.no_grad():
        conv.lin.weight.copy_(layer.project.weight)
        conv.att_dst[0].copy_(layer.score.query[..., 0])
        conv.att_src[0].copy_(layer.score.key[..., 0])
        conv.bias.copy_(layer.bias)
    return conv


def test_outputs_attention_and_gradients_are_those_of_gatconv():
    features, mask = graph()
    net = model()
    where = mask.where
    edges = torch.stack([where.key, where.query])  # theirs lead from source to target
    with watch(net) as seen:
        own = net(features, mask)
    x, convs = features.dense(), []
    for number, layer in enumerate(net.layers):
        conv = theirs(layer, x.shape[1])
        convs.append(conv)
        x, (index, weights) = conv(F.elu(x) if number else x, edges, return_attention_weights=True)
        [looked] = seen[f"layers.{number}"]
        looked = looked.to_dense()[:, index[1], index[0]].T
        assert torch.allclose(looked, weights, rtol=0, atol=1e-6)
    assert torch.allclose(own, x, rtol=0, atol=1e-6)
    own.square().sum().backward()
    x.square().sum().backward()
    for layer, conv in zip(net.layers, convs, strict=True):
        pairs = [
            (layer.project.weight, conv.lin.weight.grad),
            (layer.score.query, conv.att_dst.grad[0][..., None]),
            (layer.score.key, conv.att_src.grad[0][..., None]),
            (layer.bias, conv.bias.grad),
        ]
        assert all(torch.allclose(one.grad, other, rtol=1e-4, atol=1e-5) for one, other in pairs)


def test_weights_by_degree_are_those_of_gcnconv():
    geometric = pytest.importorskip("torch_geometric.nn", reason="torch-geometric is not installed")
    features, mask = graph()
    net = model(attention="gcn", heads=1, last=1)
    edges = torch.stack([mask.where.key, mask.where.query])
    x = features.dense()
    for number, layer in enumerate(net.layers):
        conv = geometric.GCNConv(x.shape[1], layer.project.out_features, add_self_loops=False)
        with torch.no_grad():
            conv.lin.weight.copy_(layer.project.weight)
            conv.bias.copy_(layer.bias)
        x = conv(F.elu(x) if number else x, edges)
    assert torch.allclose(net(features, mask), x, rtol=0, atol=1e-6)
