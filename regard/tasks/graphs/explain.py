"""Where a node looked: its own edges in the last layer, and in the layer before those of the nodes it looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.edge_list import Edges
from regard.interpret.items import Item, Weights
from regard.interpret.watch import AttentionRecord
from regard.tasks.graphs.graph import PARTS, NodeGraph

MAX_FOLLOWED = 64  # neighbours whose own edges are followed, the strongest
MAX_DESCRIBED = 2000  # nodes whose labels and answers are given


def follow_edges(
    graph: NodeGraph, record: AttentionRecord, node: int
) -> tuple[dict[str, list[Item]], list[Weights], list[int]]:
    """Return the nodes on each ring around a node, the weights along their edges, and all nodes by number."""
    items: dict[str, list[Item]] = {"asked": [Item(graph.name(node))]}
    weights: list[Weights] = []
    queries, side, nodes_shown = torch.tensor([node]), "asked", {node: None}
    for ring, name in enumerate(reversed(list(record)), start=1):
        [look] = record.looks[name]
        where: Any = look.mask.where
        values, visible, neighbours = _edges_from(look.weights.cpu(), where, queries)
        key = f"{ring} away"
        items[key] = [Item(graph.name(number)) for number in neighbours.tolist()]
        weights.insert(0, Weights(name, side, key, values, visible))
        nodes_shown |= dict.fromkeys(neighbours.tolist())
        side, queries = key, neighbours
        if len(neighbours) > MAX_FOLLOWED:
            strongest = values.mean(0).sum(0).argsort(descending=True, stable=True)[:MAX_FOLLOWED].sort().values
            side, queries = f"{key}, strongest", neighbours[strongest]
        items.setdefault(side, [Item(graph.name(number)) for number in queries.tolist()])
    axes = {axis for attention in weights for axis in (attention.query, attention.key)}
    return {name: items[name] for name in items if name in axes}, weights, list(nodes_shown)


def describe_nodes(graph: NodeGraph, nodes: list[int], logits: Float[Tensor, "node classes"]) -> dict[str, Any]:
    """Return the label, the prediction and the part of each node, by its name."""
    answers = logits.argmax(-1).tolist()
    part_of = {int(number): part for part in PARTS for number in np.asarray(graph.parts[part])}
    return {
        graph.name(number): {
            "label": "" if graph.labels[number] < 0 else graph.classes[graph.labels[number]],
            "answer": graph.classes[answers[number]],
            "part": part_of.get(number, ""),
        }
        for number in nodes[:MAX_DESCRIBED]
    }


def _edges_from(
    weights: Float[Tensor, "heads edge"], where: Edges, looking: Int[Tensor, "query"]
) -> tuple[Float[Tensor, "heads query key"], Bool[Tensor, "query key"], Int[Tensor, "key"]]:
    """Return the weights of some nodes' edges as a matrix, where there are edges, and the nodes at their other ends."""
    query, key = where.query.cpu(), where.key.cpu()
    chosen = torch.isin(query, looking).nonzero()[:, 0]
    neighbours = key[chosen].unique()
    values = weights.new_zeros(len(weights), len(looking), len(neighbours))
    rows, columns = torch.searchsorted(looking, query[chosen]), torch.searchsorted(neighbours, key[chosen])
    values[:, rows, columns] = weights[:, chosen]
    visible = torch.zeros(values.shape[1:], dtype=torch.bool)
    visible[rows, columns] = True
    return values, visible, neighbours
