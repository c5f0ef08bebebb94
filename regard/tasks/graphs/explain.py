"""Where a node looked: its own edges in the last layer, and in the layer before those of the nodes it looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.edge_list import Edges
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.interpret.watch import watch

if TYPE_CHECKING:
    from regard.tasks.graphs.classifier import NodeClassifier

MAX_FOLLOWED = 64  # nodes whose looks are followed another edge away, the strongest
MAX_DESCRIBED = 2000  # nodes whose classes are told


def trace_node(classifier: NodeClassifier, node: int) -> Trace:
    """Classify a node and keep the weights along its edges, ring after ring around it."""
    graph = classifier.graph
    with watch(classifier.model) as record:
        logits = classifier.logits()
    prediction = classifier.predictions([node], logits[[node]].numpy())[0]
    items: dict[str, list[Item]] = {"asked": [Item(graph.name(node))]}
    weights: list[Weights] = []
    queries, side, nodes_shown = torch.tensor([node]), "asked", {node: None}
    for ring, name in enumerate(reversed(list(record)), start=1):
        [look] = record.looks[name]
        where: Any = look.mask.where
        values, neighbours = _edges_from(look.weights.cpu(), where, queries)
        key = f"{ring} away"
        items[key] = [Item(graph.name(number)) for number in neighbours.tolist()]
        weights.insert(0, Weights(name, side, key, values))
        nodes_shown |= dict.fromkeys(neighbours.tolist())
        strongest = values.mean(0).sum(0).argsort(descending=True, stable=True)[:MAX_FOLLOWED].sort().values
        side, queries = (
            (key, neighbours) if len(neighbours) <= MAX_FOLLOWED else (f"{key}, strongest", neighbours[strongest])
        )
        items.setdefault(side, [Item(graph.name(number)) for number in queries.tolist()])
    items = {
        name: items[name]
        for name in items
        if name in {end for edge_weights in weights for end in (edge_weights.query, edge_weights.key)}
    }
    facts = {
        "text": f"node {prediction.node}",
        "answer": f"{prediction.label} ({prediction.probability:.3f})",
        "answers": [[label, round(chance, 6)] for label, chance in prediction.all.items()],
        "controls": _control_answers(classifier, node),
        "graph": _describe_nodes(classifier, list(nodes_shown)[:MAX_DESCRIBED], logits),
    }
    return Trace(classifier.name, classifier.task, items, weights, facts)


def _edges_from(
    weights: Float[Tensor, "heads edge"], where: Edges, looking: Int[Tensor, "query"]
) -> tuple[Float[Tensor, "heads query key"], Int[Tensor, "key"]]:
    """Return the weights of some nodes' edges as a matrix, and the nodes at their other ends."""
    query, key = where.query.cpu(), where.key.cpu()
    chosen = torch.isin(query, looking).nonzero()[:, 0]
    neighbours = key[chosen].unique()
    values = weights.new_zeros(len(weights), len(looking), len(neighbours))
    rows, columns = torch.searchsorted(looking, query[chosen]), torch.searchsorted(neighbours, key[chosen])
    values[:, rows, columns] = weights[:, chosen]
    return values, neighbours


def _control_answers(classifier: NodeClassifier, node: int) -> dict[str, list[Any]]:
    """Return what the same weights answer if all neighbours count alike, and if there are none."""
    answers: dict[str, list[Any]] = {}
    for control, classifier_without in classifier.controls().items():
        [prediction] = classifier_without.classify(classifier.graph.name(node))
        answers[control] = [prediction.label, round(prediction.probability, 6)]
    return answers


def _describe_nodes(
    classifier: NodeClassifier, nodes: list[int], logits: Float[Tensor, "node classes"]
) -> dict[str, Any]:
    """Return the label, the answer and the part of each node, by its name."""
    graph = classifier.graph
    answers = logits.argmax(-1).tolist()
    part_of = {int(number): part for part in ("train", "valid", "test") for number in np.asarray(graph.parts[part])}
    return {
        graph.name(number): {
            "label": "" if graph.labels[number] < 0 else graph.classes[graph.labels[number]],
            "answer": graph.classes[answers[number]],
            "part": part_of.get(number, ""),
        }
        for number in nodes
    }
