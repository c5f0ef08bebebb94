"""How a graph network weighs neighbours: by attention (GAT), by degree (GCN), all alike, or not at all.

Nodes of two classes have weak features of their own; each is joined to nodes of its class, and to strangers, marked as
such, whose features are large and say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.masks import Mask, neighbours
from regard.interpret.watch import watch
from regard.lab.demonstration import Demonstration, LabelledMatrix, Measurement
from regard.models.gat import GAT, GATConfig

PER_CLASS, STRANGERS = 60, 60
FRIENDS = 3  # edges of a node to its own class, and as many to strangers
SIGNAL, NOISE, STRANGE_NOISE = 0.7, 1.0, 4.0
STEPS, RATE = 80, 0.02
Weighing = Literal["graph", "gcn", "equal", "none"]
NAMES: dict[Weighing, str] = {
    "graph": "attention (GAT)",
    "gcn": "degree (GCN)",
    "equal": "all alike",
    "none": "no neighbours",
}


@dataclass(frozen=True)
class Community:
    """Features, labels and edges; strangers have the label -1, and come last."""

    features: Float[Tensor, "node feature"]
    labels: Int[Tensor, "node"]
    train: Bool[Tensor, "node"]
    mask: Mask
    alone: Mask


def make_community(*, seed: int = 0) -> Community:
    """Draw a graph of two classes and strangers."""
    generator = torch.Generator().manual_seed(seed)
    nodes = 2 * PER_CLASS + STRANGERS
    labels = torch.cat([torch.zeros(PER_CLASS), torch.ones(PER_CLASS), -torch.ones(STRANGERS)]).long()
    strange = labels < 0
    scale = torch.where(strange, STRANGE_NOISE, NOISE)
    values = scale * torch.randn(nodes, generator=generator) + SIGNAL * (2.0 * labels - 1) * ~strange
    pairs = []
    for node in range(2 * PER_CLASS):
        start = PER_CLASS * int(labels[node])
        friends = start + torch.randint(PER_CLASS, (FRIENDS,), generator=generator)
        others = 2 * PER_CLASS + torch.randint(STRANGERS, (FRIENDS,), generator=generator)
        pairs += [(node, int(other)) for other in torch.cat([friends, others]) if int(other) != node]
    loops = torch.arange(nodes)
    edges = torch.tensor(sorted({*pairs, *((b, a) for a, b in pairs)}))
    edges = torch.cat([edges, torch.stack([loops, loops], 1)])
    train = ~strange & (torch.arange(nodes) % 2 == 0)
    features = torch.stack([values, strange.float()], 1)
    mask = neighbours(edges[:, 0], edges[:, 1], nodes=nodes)
    return Community(features, labels, train, mask, neighbours(loops, loops, nodes=nodes))


def train_network(community: Community, weighing: Weighing, *, seed: int = 0) -> tuple[GAT, float]:
    """Train a network on every other node; return it with its accuracy on the remaining nodes."""
    settings = {"layers": 2, "width": 8, "heads": 2, "dropout": 0.0, "attention_dropout": 0.0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GAT(GATConfig(inputs=2, classes=2, attention=weighing, **settings))  # type: ignore[arg-type]
    mask = community.alone if weighing == "none" else community.mask
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(community.features, mask)
        F.cross_entropy(logits[community.train], community.labels[community.train]).backward()
        optimizer.step()
    test = ~community.train & (community.labels >= 0)
    with torch.no_grad():
        answers = model.eval()(community.features, mask).argmax(-1)
    return model, float((answers == community.labels)[test].float().mean())


def first_weights(model: GAT, community: Community, mask: Mask) -> Float[Tensor, "node node"]:
    """Return the attention weights of the first layer, averaged over heads."""
    with watch(model) as record, torch.no_grad():
        model(community.features, mask)
    [weights] = record["layers.0"]
    return weights.to_dense().mean(0)


def compare_weighing(*, seed: int = 0) -> Demonstration:
    """Compare accuracy and the weight on strangers between the ways of weighting neighbours."""
    community = make_community(seed=seed)
    strange = community.labels < 0
    rows, shares, accuracy = [], {}, {}
    node = int(community.mask.dense(len(strange), len(strange))[: 2 * PER_CLASS].sum(1).argmin())  # type: ignore[index]
    for weighing in NAMES:
        model, accuracy[weighing] = train_network(community, weighing, seed=seed)
        mask = community.alone if weighing == "none" else community.mask
        weights = first_weights(model, community, mask)
        shares[weighing] = float(weights[: 2 * PER_CLASS, strange].sum(1).mean())
        rows.append(weights[node])
    places = (rows[2] > 0).nonzero()[:, 0].tolist()
    columns = ["itself" if place == node else "stranger" if strange[place] else "friend" for place in places]
    order = sorted(range(len(places)), key=lambda index: columns[index] != "itself")
    matrix = LabelledMatrix(
        "Weights of the neighbours of one node",
        list(NAMES.values()),
        [columns[index] for index in order],
        [[float(row[places[index]]) for index in order] for row in rows],
    )
    table = LabelledMatrix(
        f"{2 * PER_CLASS} nodes of two classes and {STRANGERS} strangers",
        list(NAMES.values()),
        ["accuracy", "weight on strangers"],
        [[accuracy[weighing], shares[weighing]] for weighing in NAMES],
    )
    measurements = [
        Measurement("accuracy", NAMES["graph"], accuracy["graph"], NAMES["none"], accuracy["none"]),
        Measurement("accuracy", NAMES["gcn"], accuracy["gcn"], NAMES["none"], accuracy["none"]),
        Measurement(
            "largest difference of the weights in the picture",
            NAMES["graph"],
            spread(rows[0], places),
            NAMES["equal"],
            spread(rows[2], places),
        ),
    ]
    return Demonstration("Neighbours weighed in four ways", measurements, matrices=[matrix], tables=[table])


def spread(weights: Float[Tensor, "node"], places: list[int]) -> float:
    """Return the difference between the largest and the smallest weight of some nodes."""
    return float(weights[places].max() - weights[places].min())
