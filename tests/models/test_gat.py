"""Graph attention: sizes, the same numbers as dense attention and torch-geometric's, and learning by heart."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from regard.attention.masks import Mask, neighbours
from regard.interpret.watch import watch
from regard.models.gat import GAT, GATConfig
from regard.models.parts.sparse import Sparse

NODES = 30


def graph(seed: int = 0) -> tuple[Sparse, Mask]:
    """Nodes with a few features each, loops, and edges both ways; the last node has none but its loop."""
    torch.manual_seed(seed)
    dense = torch.rand(NODES, 12) * (torch.rand(NODES, 12) < 0.3)
    counts = (dense != 0).sum(1)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    features = Sparse.of(offsets, dense.nonzero()[:, 1], dense[dense != 0], 12)
    assert torch.equal(features.dense(), dense)
    pairs = torch.combinations(torch.arange(NODES - 1))[torch.randperm(406)[:60]]
    query = torch.cat([pairs[:, 0], pairs[:, 1], torch.arange(NODES)])
    key = torch.cat([pairs[:, 1], pairs[:, 0], torch.arange(NODES)])
    order = torch.randperm(len(query))
    return features, neighbours(query[order], key[order], nodes=NODES)


def model(**changes: object) -> GAT:
    torch.manual_seed(1)
    config = GATConfig(inputs=12, classes=3, width=4, heads=3, last=2, dropout=0.0, attention_dropout=0.0)
    made = GAT(replace(config, **changes))
    for layer in made.layers:
        torch.nn.init.normal_(layer.bias)
    return made


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (GATConfig(inputs=1433, classes=7), 92_373),  # Cora, as in the paper
        (GATConfig(inputs=1433, classes=7, layers=3, last=2), None),
        (GATConfig(inputs=20, classes=7, layers=1), None),
        (GATConfig(inputs=20, classes=7, attention="equal"), None),
        (GATConfig(inputs=20, classes=7, attention="gcn"), None),
    ],
)
def test_as_many_parameters_as_the_config_says(config: GATConfig, parameters: int | None):
    counted = sum(weight.numel() for weight in GAT(config).parameters())
    assert counted == config.parameters
    assert parameters in (None, counted)


def test_sparse_features_are_multiplied_and_dropped_as_dense_ones():
    features, _ = graph()
    weight = torch.randn(5, 12, dtype=torch.float64, requires_grad=True)
    exact = replace(features, values=features.values.double())
    product = exact.product(weight)
    assert torch.allclose(product, exact.dense() @ weight.T)
    given = torch.randn_like(product)
    [own] = torch.autograd.grad(product, weight, given)
    assert torch.allclose(own, given.T @ exact.dense())
    dropped = features.dropout(0.5).values
    kept = dropped != 0
    assert 0 < kept.sum() < len(kept)
    assert torch.allclose(dropped[kept], 2 * features.values[kept])


def test_weights_by_degree_are_those_of_a_graph_convolutional_network():
    features, mask = graph()
    net = model(attention="gcn", heads=1, last=1)
    dense = mask.where.visible_pairs().double()
    roots = dense.sum(1).rsqrt()
    normalised = roots[:, None] * dense * roots
    x = features.dense().double()
    for number, layer in enumerate(net.layers):
        x = F.elu(x) if number else x
        x = normalised @ x @ layer.project.weight.double().T + layer.bias.double()
    with watch(net) as seen:
        output = net(features, mask)
    torch.testing.assert_close(output.double(), x, rtol=1e-5, atol=1e-5)
    [looked] = seen["layers.0"]
    shares = normalised / normalised.sum(1, keepdim=True)
    torch.testing.assert_close(looked.to_dense()[0].double(), shares, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("attention", ["graph", "equal"])
def test_attention_along_edges_is_attention_of_all_pairs_that_a_mask_forbids(attention: str):
    features, mask = graph()
    net = model(attention=attention).double()
    x, allowed = features.dense().double(), mask.dense(NODES, NODES)
    assert allowed is not None
    for number, layer in enumerate(net.layers):
        nodes = layer.project(F.elu(x) if number else x).unflatten(-1, (layer.heads, -1)).transpose(0, 1)
        weights = layer.score(nodes, nodes).masked_fill(~allowed, -torch.inf).softmax(-1)
        mixed = weights @ nodes
        x = (mixed.mean(0) if number else mixed.transpose(0, 1).flatten(1)) + layer.bias
    exact = replace(features, values=features.values.double())
    found = net(exact, mask)
    assert torch.allclose(found, x)
    expected = torch.autograd.grad(x.square().sum(), list(net.parameters()))
    own = torch.autograd.grad(found.square().sum(), list(net.parameters()))
    assert all(torch.allclose(one, other) for one, other in zip(own, expected, strict=True))
    assert torch.allclose(net(features.dense().double(), mask), found)


def test_gradients_are_those_of_differences():
    features, mask = graph()
    net = model().double()
    exact = replace(features, values=features.values.double())
    weight = net.layers[0].score.query

    def loss(value: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(net, {"layers.0.score.query": value}, (exact, mask)).square().sum()

    assert torch.autograd.gradcheck(loss, weight.detach().clone().requires_grad_())


def test_half_precision_is_summed_in_single():
    features, mask = graph()
    net = model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert net(features, mask).dtype == torch.float32


def test_watching_builds_nothing_of_all_pairs():
    nodes = 40_000  # whose pairs would take 6.4 GB
    torch.manual_seed(0)
    every = torch.arange(nodes)
    mask = neighbours(torch.cat([every, every]), torch.cat([every, every.roll(1)]), nodes=nodes)
    net = model().eval()
    with watch(net) as seen, torch.no_grad():
        net(torch.randn(nodes, 12), mask)
    assert list(seen) == ["layers.0", "layers.1"]
    [weights] = seen["layers.0"]
    assert weights.shape == (3, nodes, nodes)
    assert weights.coalesce().values().shape == (3 * 2 * nodes,)


def test_the_order_of_edges_changes_nothing():
    features, mask = graph()
    where = mask.where
    other = neighbours(where.query.flip(0), where.key.flip(0), nodes=NODES)
    assert torch.equal(other.where.query, where.query)
    assert torch.equal(other.where.key, where.key)
    net = model()
    assert torch.equal(net(features, mask), net(features, other))


def test_it_learns_one_graph_by_heart():
    features, mask = graph()
    net, labels = model(), torch.arange(NODES) % 3
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(150):
        loss = F.cross_entropy(net(features, mask), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (net(features, mask).argmax(-1) == labels).all()
