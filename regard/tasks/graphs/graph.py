"""A graph with features and labels of its nodes, checked, as numbers; and the same as files of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.masks import Mask, neighbours
from regard.config.words import quantity
from regard.data.holdout import draw_of_classes
from regard.models.sparse import Sparse

PARTS = ("train", "valid", "test")
FILLED = 0.25  # share of features that are not zero from which on they are held with their zeros


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """What is known of each node, by the numbers that are not zero, row by row."""

    offsets: Int[np.ndarray, "bounds"]
    columns: Int[np.ndarray, "number"]
    values: Float[np.ndarray, "number"]
    width: int

    @classmethod
    def of(cls, table: Float[np.ndarray, "node feature"]) -> NodeFeatures:
        """Those of a table."""
        rows, columns = np.nonzero(table)
        offsets = np.concatenate([[0], np.bincount(rows, minlength=len(table)).cumsum()])
        return cls(offsets.astype(np.int64), columns, table[rows, columns].astype(np.float32), table.shape[1])

    def scaled(self) -> NodeFeatures:
        """With the numbers of a node divided by their sum, signs left out."""
        rows = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        sums = np.bincount(rows, np.abs(self.values), minlength=len(self.offsets) - 1)
        return replace(self, values=(self.values / np.maximum(sums, 1e-12)[rows]).astype(np.float32))

    def tensors(self) -> Tensor | Sparse:
        """As a model reads them: without zeros where there are many."""
        offsets, columns, values = map(torch.from_numpy, (self.offsets, self.columns, self.values))
        found = Sparse.of(offsets, columns, values, self.width)
        return found if len(self.values) < FILLED * len(found) * self.width else found.dense()


@dataclass(frozen=True, eq=False)
class NodeGraph:
    """Nodes, their features, who is joined to whom, and which class is known of which."""

    features: NodeFeatures
    edges: Int[np.ndarray, "edge 2"]
    """(from, to): the second looks at the first; both ways where the graph has no directions, without loops."""
    labels: Int[np.ndarray, "node"]
    """The number of its class, -1 where nobody knows."""
    classes: Sequence[str]
    parts: Mapping[str, Int[np.ndarray, "some"]]
    """Nodes to train on, to choose the best weights by, and to test on."""
    names: Sequence[str] | None = None
    """What nodes are called; None: by their numbers, from 0."""
    columns: Sequence[str] | None = None
    """What their features are called."""
    scaled: bool = True
    """Whether the features of a node were divided by their sum."""
    directed: bool = False
    """Whether edges lead one way only."""
    notes: Sequence[str] = field(default=(), repr=False)
    """What was left out or is unusual."""

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each node by its name."""
        return {self.name(number): number for number in range(len(self))}

    def name(self, number: int) -> str:
        """What a node is called."""
        return str(number) if self.names is None else self.names[number]

    def number(self, name: str) -> int:
        """The node of that name."""
        if name not in self.numbers:
            told = ", ".join(self.name(number) for number in range(min(3, len(self))))
            called = f"called {told} ..." if self.names is not None else f"numbered from 0 to {len(self) - 1}"
            raise ValueError(f"no node {name!r} among {len(self):,}: they are {called}")
        return self.numbers[name]

    def mask(self, *, alone: bool = False) -> Mask:
        """Each node sees itself and those whose edges lead to it; `alone`, itself only."""
        own = torch.arange(len(self))
        if alone:
            return neighbours(own, own, nodes=len(self))
        source, target = torch.from_numpy(self.edges.astype(np.int64)).unbind(1)
        return neighbours(torch.cat([target, own]), torch.cat([source, own]), nodes=len(self))

    def part(self, number: int) -> str:
        """Which part a node belongs to, if any."""
        return next((part for part in PARTS if number in self.parts[part]), "")

    def contents(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Names and sizes as JSON, numbers as tensors."""
        kept = self.features
        told = {
            "width": kept.width,
            "classes": list(self.classes),
            "names": None if self.names is None else list(self.names),
            "columns": None if self.columns is None else list(self.columns),
            "scaled": self.scaled,
            "directed": self.directed,
        }
        arrays = {"offsets": kept.offsets, "features": kept.columns, "values": kept.values, "edges": self.edges}
        arrays |= {"labels": self.labels, **{part: self.parts[part] for part in PARTS}}
        whole = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        return told, {name: tensor.int() if tensor.dtype == torch.int64 else tensor for name, tensor in whole.items()}


def revived(told: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> NodeGraph:
    """The graph that `contents` described."""
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    features = NodeFeatures(
        arrays["offsets"].astype(np.int64), arrays["features"].astype(np.int64), arrays["values"], int(told["width"])
    )
    return NodeGraph(
        features,
        arrays["edges"].astype(np.int64),
        arrays["labels"].astype(np.int64),
        told["classes"],
        {part: arrays[part].astype(np.int64) for part in PARTS},
        names=told["names"],
        columns=told["columns"],
        scaled=bool(told["scaled"]),
        directed=bool(told["directed"]),
    )


def joined(
    pairs: Int[np.ndarray, "edge 2"], nodes: int, *, directed: bool, names: Sequence[str] | None = None
) -> tuple[Int[np.ndarray, "found 2"], list[str]]:
    """Every edge once, both ways where there are no directions; and in words what was left out."""
    notes = []

    def named(node: int) -> str:
        return names[node] if names else str(node)

    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        first = named(int(pairs[loops][0, 0]))
        notes.append(f"{loops.sum():,} loops left out ({first} first): every node looks at itself anyway")
    pairs = pairs[~loops]
    once = np.unique(pairs, axis=0)
    if len(once) < len(pairs):
        notes.append(f"{quantity(len(pairs) - len(once), 'repeated edge')} left out")
    if not directed:
        both = np.unique(np.concatenate([once, once[:, ::-1]]), axis=0)
        if twice := 2 * len(once) - len(both):
            notes.append(f"{twice // 2:,} edges given in both directions are one each (data.directed=true: two)")
        once = both
    alone = np.setdiff1d(np.arange(nodes), once)
    if alone.size:
        told = f"{quantity(len(alone), 'node')} without an edge ({named(int(alone[0]))} first)"
        notes.append(f"{told}: their own features alone decide; give them edges, or leave them out")
    return once, notes


def parted(
    labels: Int[np.ndarray, "node"], classes: Sequence[str], *, held: float, seed: int
) -> dict[str, Int[np.ndarray, "some"]]:
    """Labelled nodes to train on and to measure on, by chance: of every class the same share, and one to train on."""
    drawn = draw_of_classes(labels, len(classes), held, seed=seed)
    train, valid = np.flatnonzero((labels >= 0) & ~drawn), np.flatnonzero(drawn)
    return {"train": train, "valid": valid, "test": np.zeros(0, np.int64)}


def checked(graph: NodeGraph, where: str) -> NodeGraph:
    """Stop at parts that cannot be trained on or measured on."""
    for part in PARTS:
        if (unknown := graph.parts[part][graph.labels[graph.parts[part]] < 0]).size:
            raise ValueError(
                f"{where}: node {graph.name(int(unknown[0]))} is to {_does(part)} and has no label: give it one"
            )
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        if (both := np.intersect1d(graph.parts[one], graph.parts[other])).size:
            name = graph.name(int(both[0]))
            raise ValueError(f"{where}: node {name} is both in {one} and in {other}: leave it in one of them")
    if not graph.parts["valid"].size:
        raise ValueError(f"{where}: no labelled node is left to measure on: label more, or raise data.held")
    counts = np.bincount(graph.labels[graph.parts["train"]], minlength=len(graph.classes))
    if (counts == 0).any():
        name = graph.classes[int(np.argmin(counts))]
        own = np.flatnonzero(graph.labels == int(np.argmin(counts)))
        remedy = f"put one into train, such as {graph.name(int(own[0]))}" if own.size else "label one"
        raise ValueError(f"{where}: class {name} has no node to train on: {remedy}, or take the class out")
    if len(graph.classes) < 2:
        raise ValueError(f"{where}: every label is {graph.classes[0]!r}: give nodes of two classes or more")
    return graph


def flags(some: Int[np.ndarray, "some"], nodes: int) -> Bool[np.ndarray, "node"]:
    """Which nodes are among some."""
    found = np.zeros(nodes, bool)
    found[some] = True
    return found


def _does(part: str) -> str:
    return {"train": "be trained on", "valid": "be measured on", "test": "be tested on"}[part]
