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

MOST = 64  # nodes whose looks are followed another edge away, the strongest
TOLD = 2000  # nodes whose classes are told


def traced(classifier: NodeClassifier, node: int) -> Trace:
    """The answer to one node and the weights along its edges, ring after ring around it."""
    graph = classifier.graph
    with watch(classifier.model) as seen:
        logits = classifier.logits()
    verdict = classifier.verdicts([node], logits[[node]].numpy())[0]
    items: dict[str, list[Item]] = {"asked": [Item(graph.name(node))]}
    weights: list[Weights] = []
    looking, side, met = torch.tensor([node]), "asked", {node: None}
    for ring, name in enumerate(reversed(list(seen)), start=1):
        [look] = seen.looks[name]
        where: Any = look.mask.where
        values, looked = _ring(look.weights.cpu(), where, looking)
        key = f"{ring} away"
        items[key] = [Item(graph.name(number)) for number in looked.tolist()]
        weights.insert(0, Weights(name, side, key, values))
        met |= dict.fromkeys(looked.tolist())
        strongest = values.mean(0).sum(0).argsort(descending=True, stable=True)[:MOST].sort().values
        side, looking = (key, looked) if len(looked) <= MOST else (f"{key}, strongest", looked[strongest])
        items.setdefault(side, [Item(graph.name(number)) for number in looking.tolist()])
    items = {name: items[name] for name in items if name in {end for one in weights for end in (one.query, one.key)}}
    facts = {
        "text": f"node {verdict.node}",
        "answer": f"{verdict.label} ({verdict.probability:.3f})",
        "answers": [[label, round(chance, 6)] for label, chance in verdict.all.items()],
        "controls": _controls(classifier, node),
        "graph": _told(classifier, list(met)[:TOLD], logits),
    }
    return Trace(classifier.name, classifier.task, items, weights, facts)


def _ring(
    weights: Float[Tensor, "heads edge"], where: Edges, looking: Int[Tensor, "query"]
) -> tuple[Float[Tensor, "heads query key"], Int[Tensor, "key"]]:
    """The weights of some nodes' edges, and the nodes at their other ends."""
    query, key = where.query.cpu(), where.key.cpu()
    chosen = torch.isin(query, looking).nonzero()[:, 0]
    looked = key[chosen].unique()
    values = weights.new_zeros(len(weights), len(looking), len(looked))
    rows, columns = torch.searchsorted(looking, query[chosen]), torch.searchsorted(looked, key[chosen])
    values[:, rows, columns] = weights[:, chosen]
    return values, looked


def _controls(classifier: NodeClassifier, node: int) -> dict[str, list[Any]]:
    """What the same weights answer if all neighbours count alike, and if there are none."""
    found: dict[str, list[Any]] = {}
    for control, other in classifier.controls().items():
        [verdict] = other.classify(classifier.graph.name(node))
        found[control] = [verdict.label, round(verdict.probability, 6)]
    return found


def _told(classifier: NodeClassifier, nodes: list[int], logits: Float[Tensor, "node classes"]) -> dict[str, Any]:
    """What is known and what is answered of each node, by its name."""
    graph = classifier.graph
    answers = logits.argmax(-1).tolist()
    known = {int(number): part for part in ("train", "valid", "test") for number in np.asarray(graph.parts[part])}
    return {
        graph.name(number): {
            "label": "" if graph.labels[number] < 0 else graph.classes[graph.labels[number]],
            "answer": graph.classes[answers[number]],
            "part": known.get(number, ""),
        }
        for number in nodes
    }
