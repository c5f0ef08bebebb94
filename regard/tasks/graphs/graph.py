"""A graph with features and labels of its nodes, checked, as numbers; and the same as files of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.masks import Mask, neighbours
from regard.config.words import quantity
from regard.data.holdout import draw_of_classes
from regard.models.parts.sparse import Sparse

PARTS = ("train", "valid", "test")
PURPOSES = {"train": "be trained on", "valid": "be measured on", "test": "be tested on"}
DENSE_SHARE = 0.25  # share of features that are not zero from which on they are held with their zeros


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """The features of each node: numbers that are not zero, row by row (CSR)."""

    offsets: Int[np.ndarray, "bounds"]
    columns: Int[np.ndarray, "number"]
    values: Float[np.ndarray, "number"]
    width: int

    @classmethod
    def of(cls, table: Float[np.ndarray, "node feature"]) -> NodeFeatures:
        """Return the sparse features of a dense table."""
        rows, columns = np.nonzero(table)
        offsets = np.concatenate([[0], np.bincount(rows, minlength=len(table)).cumsum()])
        return cls(offsets.astype(np.int64), columns, table[rows, columns].astype(np.float32), table.shape[1])

    def scale_rows(self) -> NodeFeatures:
        """Return the features of each node divided by the sum of their absolute values."""
        rows = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        sums = np.bincount(rows, np.abs(self.values), minlength=len(self.offsets) - 1)
        return replace(self, values=(self.values / np.maximum(sums, 1e-12)[rows]).astype(np.float32))

    def to_tensor(self) -> Tensor | Sparse:
        """Return the features as a model reads them: a sparse matrix, or a dense one where few numbers are zero."""
        offsets, columns, values = map(torch.from_numpy, (self.offsets, self.columns, self.values))
        sparse = Sparse.of(offsets, columns, values, self.width)
        return sparse if len(self.values) < DENSE_SHARE * len(sparse) * self.width else sparse.dense()


@dataclass(frozen=True, eq=False)
class NodeGraph:
    """Nodes with features, edges and labels."""

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
        """Return the name of a node."""
        return str(number) if self.names is None else self.names[number]

    def number(self, name: str) -> int:
        """Return the number of the node of that name."""
        if name not in self.numbers:
            examples = ", ".join(self.name(number) for number in range(min(3, len(self))))
            hint = f"called {examples} ..." if self.names is not None else f"numbered from 0 to {len(self) - 1}"
            raise ValueError(f"no node {name!r} among {len(self):,}: they are {hint}")
        return self.numbers[name]

    def mask(self, *, alone: bool = False) -> Mask:
        """Return the mask in which each node sees itself and those whose edges lead to it; `alone`: itself only."""
        nodes = torch.arange(len(self))
        if alone:
            return neighbours(nodes, nodes, nodes=len(self))
        source, target = torch.from_numpy(self.edges.astype(np.int64)).unbind(1)
        return neighbours(torch.cat([target, nodes]), torch.cat([source, nodes]), nodes=len(self))

    def part(self, number: int) -> str:
        """Return the part (train, valid or test) of a node; empty if it is in none."""
        return next((part for part in PARTS if number in self.parts[part]), "")

    def contents(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the graph as files of a checkpoint: names and sizes as JSON, numbers as tensors."""
        features = self.features
        description = {
            "width": features.width,
            "classes": list(self.classes),
            "names": None if self.names is None else list(self.names),
            "columns": None if self.columns is None else list(self.columns),
            "scaled": self.scaled,
            "directed": self.directed,
        }
        arrays = {
            "offsets": features.offsets,
            "features": features.columns,
            "values": features.values,
            "edges": self.edges,
        }
        arrays |= {"labels": self.labels, **{part: self.parts[part] for part in PARTS}}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        return description, {
            name: tensor.int() if tensor.dtype == torch.int64 else tensor for name, tensor in tensors.items()
        }


def restore_graph(description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> NodeGraph:
    """Return the graph that `NodeGraph.contents` described."""
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    features = NodeFeatures(
        arrays["offsets"].astype(np.int64),
        arrays["features"].astype(np.int64),
        arrays["values"],
        int(description["width"]),
    )
    return NodeGraph(
        features,
        arrays["edges"].astype(np.int64),
        arrays["labels"].astype(np.int64),
        description["classes"],
        {part: arrays[part].astype(np.int64) for part in PARTS},
        names=description["names"],
        columns=description["columns"],
        scaled=bool(description["scaled"]),
        directed=bool(description["directed"]),
    )


def clean_edges(
    pairs: Int[np.ndarray, "edge 2"], nodes: int, *, directed: bool, names: Sequence[str] | None = None
) -> tuple[Int[np.ndarray, "kept 2"], list[str]]:
    """Return every edge once, in both directions unless the graph is directed, and notes on what was left out."""
    notes = []

    def name_of(node: int) -> str:
        return names[node] if names else str(node)

    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        first = name_of(int(pairs[loops][0, 0]))
        notes.append(f"{loops.sum():,} loops left out ({first} first): every node looks at itself anyway")
    pairs = pairs[~loops]
    edges = np.unique(pairs, axis=0)
    if len(edges) < len(pairs):
        notes.append(f"{quantity(len(pairs) - len(edges), 'repeated edge')} left out")
    if not directed:
        both_ways = np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0)
        if reversed_count := 2 * len(edges) - len(both_ways):
            notes.append(
                f"{reversed_count // 2:,} edges given in both directions are one each (data.directed=true: two)"
            )
        edges = both_ways
    isolated = np.setdiff1d(np.arange(nodes), edges)
    if isolated.size:
        counted = f"{quantity(len(isolated), 'node')} without an edge ({name_of(int(isolated[0]))} first)"
        notes.append(f"{counted}: their own features alone decide; give them edges, or leave them out")
    return edges, notes


def split_nodes(
    labels: Int[np.ndarray, "node"], classes: Sequence[str], *, share: float, seed: int
) -> dict[str, Int[np.ndarray, "some"]]:
    """Split the labelled nodes at random: this share of every class to measure on, and at least one to train on."""
    is_valid = draw_of_classes(labels, len(classes), share, seed=seed)
    train, valid = np.flatnonzero((labels >= 0) & ~is_valid), np.flatnonzero(is_valid)
    return {"train": train, "valid": valid, "test": np.zeros(0, np.int64)}


def check_parts(graph: NodeGraph, where: str) -> NodeGraph:
    """Return the graph; raise an error if its parts cannot be trained on or measured on."""
    for part in PARTS:
        if (unlabelled := graph.parts[part][graph.labels[graph.parts[part]] < 0]).size:
            raise ValueError(
                f"{where}: node {graph.name(int(unlabelled[0]))} is to {PURPOSES[part]} and has no label: give it one"
            )
    for first, second in (("train", "valid"), ("train", "test"), ("valid", "test")):
        if (both := np.intersect1d(graph.parts[first], graph.parts[second])).size:
            name = graph.name(int(both[0]))
            raise ValueError(f"{where}: node {name} is both in {first} and in {second}: leave it in one of them")
    if not graph.parts["valid"].size:
        raise ValueError(f"{where}: no labelled node is left to measure on: label more, or raise data.validation_share")
    counts = np.bincount(graph.labels[graph.parts["train"]], minlength=len(graph.classes))
    if (counts == 0).any():
        name = graph.classes[int(np.argmin(counts))]
        members = np.flatnonzero(graph.labels == int(np.argmin(counts)))
        remedy = f"put one into train, such as {graph.name(int(members[0]))}" if members.size else "label one"
        raise ValueError(f"{where}: class {name} has no node to train on: {remedy}, or take the class out")
    if len(graph.classes) < 2:
        raise ValueError(f"{where}: every label is {graph.classes[0]!r}: give nodes of two classes or more")
    return graph
