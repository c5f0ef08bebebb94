"""Graphs from files: two tables, of edges and of nodes, or arrays in an npz file; what is wrong has its place.

A table of edges has two columns, the names of both ends. A table of nodes has a column `id`, a column `label`, blank
where nobody knows, perhaps a column `split` (train, valid, test), and features, one column each.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.config.ranges import Seed, Some
from regard.config.resuming import Free
from regard.config.words import quantity, suggest_name
from regard.data.encodings import find_file
from regard.data.readers import digest
from regard.data.source_file import SourceFile
from regard.data.tables import Sheet, known_in, number_in
from regard.tasks.graphs.graph import PARTS, NodeFeatures, NodeGraph, checked, joined, parted

SPLITS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test", "": ""}
ARRAYS = "edges, labels, and x or x_indptr, x_indices, x_data and x_shape"
CLASSES = 10_000  # different labels that are still believed to be classes


@dataclass(frozen=True, kw_only=True)
class GraphFile(SourceFile):
    """A graph: an npz file, or a table of edges and one of nodes."""

    path: Free[str | None] = None
    """An npz file with edges, features, labels, and perhaps train_idx, val_idx and test_idx."""
    edges: Free[str | None] = None
    """A table of edges (CSV, with a header): its first two columns name the nodes at both ends."""
    nodes: Free[str | None] = None
    """A table of nodes (CSV): id, label, perhaps split, and features."""

    def __post_init__(self) -> None:
        if (self.path is None) == (self.edges is None and self.nodes is None) or (
            (self.edges is None) != (self.nodes is None)
        ):
            raise ValueError("a graph is a path to an npz file, or both edges and nodes: name the one or the others")

    @property
    def files(self) -> list[str]:
        """The names of its files."""
        return [name for name in (self.path, self.edges, self.nodes) if name is not None]


@dataclass(frozen=True, kw_only=True)
class GraphConfig:
    """Which graph, and how it is read."""

    train: GraphFile
    """The graph; which of its nodes are learnt from is said in it, or drawn."""
    directed: bool = False
    """Whether an edge leads from its first node to its second, which then looks at the first; false: each at the
    other, whether or not both directions are given."""
    scale: bool = True
    """Divide the features of a node by their sum."""
    id: str = "id"
    """Column of a table of nodes with their names."""
    label: str = "label"
    """Column with their classes; blank where nobody knows."""
    split: str = "split"
    """Column that says which nodes to train on, to choose the best weights by (valid) and to test on, if there is
    one."""
    held: Some = 0.2
    """Share of the labelled nodes held out where the files do not say, of every class the same."""
    seed: Seed = 0
    """Random seed of that choice."""


@dataclass(frozen=True)
class Graphs:
    """What is learnt from and measured on."""

    graph: NodeGraph
    report: dict[str, Any]

    @property
    def summary(self) -> list[str]:
        """How many of what there are."""
        graph = self.graph
        edges = len(graph.edges) // (1 if graph.directed else 2)
        counts = ", ".join(f"{len(graph.parts[part]):,} to {does}" for part, does in zip(PARTS, DOES, strict=True))
        sizes = {"node": len(graph), "edge": edges, "feature": graph.features.width}
        size = ", ".join([*(quantity(count, what) for what, count in sizes.items()), f"{len(graph.classes)} classes"])
        return [f"{size}: {counts}", *graph.notes]


DOES = ("train on", "choose by", "test on")


def prepare(config: GraphConfig, known: NodeGraph | None = None) -> Graphs:
    """Read the graph; `known`, that of a model to start from, gives the order of features and of classes."""
    graph, where = read(config, known), " and ".join(config.train.files)
    if not graph.parts["valid"].size and graph.parts["test"].size:
        raise ValueError(f"{where}: nodes are marked to train and test on, and none to choose by: mark some as valid")
    graph = checked(graph, where)
    marks = "".join(digest(name) for name in config.train.files)
    told = {"files": config.train.files, "nodes": len(graph), "edges": len(graph.edges)}
    how = [config.directed, config.scale, config.id, config.label, config.split, config.held, config.seed]
    return Graphs(graph, {"train": {**told, "fingerprint": f"{marks} {how}"}})


def read(config: GraphConfig, known: NodeGraph | None = None) -> NodeGraph:
    """The graph in the files, its parts as they say or as they are drawn."""
    file = config.train
    graph = _arrays(file.path, config) if file.path is not None else _tables(file, config, known)
    where = file.files[-1]
    if known is not None:
        graph = _fitting(graph, known, where)
    if not (graph.labels >= 0).any():
        raise ValueError(f"{where}: no node has a label: give some of them one")
    if not graph.parts["train"].size:
        graph = replace(graph, parts=_drawn(graph, config))
    notes = list(graph.notes)
    if (unknown := np.flatnonzero(graph.labels < 0)).size:
        told = f"{quantity(len(unknown), 'node')} without a label ({graph.name(int(unknown[0]))} first)"
        notes.append(f"{told}: looked at, not learnt from; label what is to be learnt from")
    features = graph.features.scaled() if config.scale else graph.features
    return replace(graph, features=features, scaled=config.scale, directed=config.directed, notes=notes)


def _drawn(graph: NodeGraph, config: GraphConfig) -> dict[str, np.ndarray]:
    """The parts of a graph that names no nodes to train on: those that it names stay, others are drawn."""
    given, free = graph.parts, graph.labels.copy()
    free[np.concatenate([given["valid"], given["test"]])] = -1
    held = 0.0 if given["valid"].size else config.held
    drawn = parted(free, graph.classes, held=held, seed=config.seed)
    return {part: given[part] if given[part].size else drawn[part] for part in PARTS}


def sides(files: Sequence[str]) -> GraphFile:
    """Names of files, in any order, as a graph; a table with two columns is the one of edges."""
    if len(files) == 1 and str(files[0]).lower().endswith(".npz"):
        return GraphFile(path=str(files[0]))
    if len(files) != 2:
        raise ValueError(f"a graph is one npz file or two tables, of edges and of nodes, not {len(files)} files")
    wide = [len(Sheet.read(str(file)).header) > 2 for file in files]
    first, second = map(str, files)
    return GraphFile(edges=second, nodes=first) if wide[0] and not wide[1] else GraphFile(edges=first, nodes=second)


def _tables(file: GraphFile, config: GraphConfig, known: NodeGraph | None) -> NodeGraph:
    assert file.edges is not None
    assert file.nodes is not None
    sheet = Sheet.read(file.nodes)
    for setting, column in (("id", config.id), ("label", config.label)):
        if column not in sheet.header:
            close = suggest_name(column, sheet.header)
            remedy = f"{'' if close.endswith('?') else ':'} rename one, or say which it is with data.{setting}=COLUMN"
            raise ValueError(f"{sheet.name} has no column {column}{close}{remedy}")
    if not sheet.lines:
        raise ValueError(f"{sheet.name} holds no nodes below its header: give at least one")
    own = (config.id, config.label, config.split)
    columns = list(known.columns) if known and known.columns else [name for name in sheet.header if name not in own]
    if not columns:
        raise ValueError(f"{sheet.name} has no column of features beside {config.id} and {config.label}: add some")
    known_in(sheet.name, sheet.header, columns)
    names = _names(sheet, sheet.header.index(config.id))
    at = [sheet.header.index(column) for column in columns]
    table = np.array(
        [[number_in(cells[one], sheet.header[one], place) for one in at] for place, cells in sheet.lines], np.float32
    )
    labels, classes = _labels(sheet, config.label, known)
    parts = _parts(sheet, config.split, labels)
    pairs, told = _pairs(file.edges, names, file.nodes)
    edges, notes = joined(pairs, len(names), directed=config.directed, names=list(names))
    return NodeGraph(NodeFeatures.of(table), edges, labels, classes, parts, list(names), columns, notes=[*told, *notes])


def _names(sheet: Sheet, at: int) -> dict[str, int]:
    """The number of each node by its name."""
    found: dict[str, int] = {}
    for place, cells in sheet.lines:
        name = cells[at].strip()
        if not name:
            raise ValueError(f"{place}: a node without a name: fill in its {sheet.header[at]}")
        if name in found:
            raise ValueError(f"{place}: node {name} is listed twice: remove one of the lines")
        found[name] = len(found)
    return found


def _labels(sheet: Sheet, column: str, known: NodeGraph | None) -> tuple[np.ndarray, list[str]]:
    at = sheet.header.index(column)
    cells = [(place, line[at].strip()) for place, line in sheet.lines]
    classes = list(known.classes) if known else sorted({cell for _, cell in cells if cell})
    if len(classes) > CLASSES:
        raise ValueError(f"{sheet.name}: {len(classes):,} different labels in column {column}: name one of classes")
    numbers = {name: number for number, name in enumerate(classes)} | {"": -1}
    for place, cell in cells:
        if cell not in numbers:
            raise ValueError(
                f"{place}: label {cell!r} is none that the model knows, {', '.join(classes[:8])}: correct or blank it"
            )
    return np.array([numbers[cell] for _, cell in cells]), classes


def _parts(sheet: Sheet, column: str, labels: np.ndarray) -> dict[str, np.ndarray]:
    found: dict[str, list[int]] = {part: [] for part in PARTS}
    if column in sheet.header:
        at = sheet.header.index(column)
        for number, (place, cells) in enumerate(sheet.lines):
            cell = cells[at].strip().lower()
            if cell not in SPLITS:
                raise ValueError(
                    f"{place}: {cells[at]!r} in column {column}: write train, valid, test, or leave it blank"
                )
            if part := SPLITS[cell]:
                found[part].append(number)
                if labels[number] < 0:
                    raise ValueError(
                        f"{place}: this node is in {part} and has no label: give it one, or blank {column}"
                    )
    return {part: np.array(numbers, np.int64) for part, numbers in found.items()}


def _pairs(name: str, names: dict[str, int], nodes: str) -> tuple[np.ndarray, list[str]]:
    """Both ends of every edge as numbers."""
    sheet = Sheet.read(name)
    if len(sheet.header) < 2:
        raise ValueError(f"{name}:1: an edge needs two columns, the nodes at its ends: there is one")
    cells = [(place, (line[0].strip(), line[1].strip())) for place, line in sheet.lines]
    told = []
    if len(sheet.header) > 2:
        told.append(f"{name}: columns after the second are not used: {', '.join(sheet.header[2:5])}")
    if all(end in names for end in sheet.header[:2]):  # no header: the first line is an edge as well
        cells.insert(0, (f"{name}:1", (sheet.header[0], sheet.header[1])))
    for place, pair in cells:
        for end in pair:
            if end not in names:
                raise ValueError(
                    f"{place}: an edge to {end!r}, which is no node of {nodes}: add it, or remove the edge"
                )
    found = np.array([[names[one] for one in pair] for _, pair in cells], np.int64).reshape(-1, 2)
    again = np.setdiff1d(np.arange(len(found)), np.unique(found, axis=0, return_index=True)[1])
    if again.size:
        told.append(f"{cells[int(again[0])][0]}: the first edge that is listed a second time: lines may be removed")
    return found, told


def _arrays(name: str, config: GraphConfig) -> NodeGraph:
    """The graph in an npz file."""
    held = _loaded(name)
    missing = [each for each in ("edges", "labels") if each not in held]
    whole = ("x_indptr", "x_indices", "x_data", "x_shape")
    if "x" not in held:
        missing += [each for each in whole if each not in held]
    if missing:
        raise ValueError(f"{name} has no array {missing[0]}{suggest_name(missing[0], held)}: a graph has {ARRAYS}")
    for each, array in held.items():
        if each not in ("x", "x_data", "label_names", "node_names") and array.dtype.kind not in "iu":
            raise ValueError(f"{name}: {each} is of type {array.dtype}: store whole numbers")
    features = _features(name, held)
    labels = held["labels"].astype(np.int64)
    nodes = len(features.offsets) - 1
    if labels.shape != (nodes,):
        raise ValueError(f"{name}: labels have shape {labels.shape} for {nodes:,} nodes: give one each, -1 for none")
    count = int(labels.max(initial=-1)) + 1
    if labels.min(initial=0) < -1 or count > CLASSES:
        raise ValueError(f"{name}: labels from {labels.min()} to {labels.max()}: number classes from 0, -1 is none")
    pairs = held["edges"].astype(np.int64)
    if pairs.ndim != 2 or 2 not in pairs.shape:
        raise ValueError(f"{name}: edges have shape {pairs.shape}: store two numbers for each, (edges, 2)")
    pairs = pairs if pairs.shape[1] == 2 else pairs.T
    _within(name, "edges", pairs, nodes)
    parts = {}
    for part, key in zip(PARTS, ("train_idx", "val_idx", "test_idx"), strict=True):
        parts[part] = np.sort(held[key].astype(np.int64).ravel()) if key in held else np.zeros(0, np.int64)
        _within(name, key, parts[part], nodes)
    classes = _told(name, held, "label_names", count) or [str(number) for number in range(count)]
    names = _told(name, held, "node_names", nodes)
    edges, notes = joined(pairs, nodes, directed=config.directed, names=names)
    return NodeGraph(features, edges, labels, classes, parts, names, notes=notes)


def _loaded(name: str) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(find_file(name)) as held:
            found = {}
            for part in held.namelist():
                with held.open(part) as file:
                    found[part.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
            return found
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        if "no file" in str(error):
            raise
        reason = " ".join(str(error).split())
        raise ValueError(f"{name} is no npz file of plain arrays ({reason}): save it with numpy.savez") from None


def _features(name: str, held: dict[str, np.ndarray]) -> NodeFeatures:
    if "x" in held:
        if held["x"].ndim != 2 or held["x"].dtype.kind not in "iuf":
            raise ValueError(f"{name}: x has shape {held['x'].shape}: store a number for each node and feature")
        found = NodeFeatures.of(held["x"].astype(np.float32))
    else:
        shape = held["x_shape"].ravel().tolist()
        offsets, columns = held["x_indptr"].astype(np.int64).ravel(), held["x_indices"].astype(np.int64).ravel()
        if len(shape) != 2 or len(offsets) != shape[0] + 1:
            raise ValueError(f"{name}: x_indptr has {len(offsets):,} bounds for a shape of {shape}: store rows + 1")
        bounded = (
            offsets[0] == 0 and offsets[-1] == len(columns) == len(held["x_data"]) and (np.diff(offsets) >= 0).all()
        )
        if not bounded:
            raise ValueError(f"{name}: x_indptr, x_indices and x_data do not fit together: store a CSR matrix")
        _within(name, "x_indices", columns, shape[1])
        found = NodeFeatures(offsets, columns, held["x_data"].astype(np.float32).ravel(), shape[1])
    if not found.width or not len(found.offsets) > 1:
        raise ValueError(
            f"{name}: features of shape ({len(found.offsets) - 1}, {found.width}): there is nothing to read"
        )
    if not np.isfinite(found.values).all():
        wrong = int(np.flatnonzero(~np.isfinite(found.values))[0])
        node, column = int(np.searchsorted(found.offsets, wrong, side="right")) - 1, int(found.columns[wrong])
        raise ValueError(f"{name}: feature {column} of node {node} is {found.values[wrong]}: store a finite number")
    return found


def _within(name: str, key: str, numbers: np.ndarray, size: int) -> None:
    for row, *column in np.argwhere((numbers < 0) | (numbers >= size))[:1].tolist():
        wrong = int(numbers[row, *column])
        raise ValueError(f"{name}: {key}[{row}] names number {wrong}, there are 0 to {size - 1}: correct it")


def _told(name: str, held: dict[str, np.ndarray], key: str, count: int) -> list[str] | None:
    """Names that stand in the file."""
    if key not in held:
        return None
    found = [str(each) for each in held[key].ravel().tolist()]
    if len(found) != count or len(set(found)) != count:
        raise ValueError(f"{name}: {key} has {len(set(found)):,} different names for {count:,}: give one each")
    return found


def _fitting(graph: NodeGraph, known: NodeGraph, where: str) -> NodeGraph:
    """Stop at a graph that a model to start from cannot read."""
    if graph.features.width != known.features.width:
        raise ValueError(
            f"{where}: nodes have {graph.features.width:,} features, those of the model have "
            f"{known.features.width:,}: give the same"
        )
    if graph.classes == [str(number) for number in range(len(graph.classes))]:  # the file names none
        if len(graph.classes) > len(known.classes):
            counts = f"{len(graph.classes)} classes, the model knows {len(known.classes)}"
            raise ValueError(f"{where}: {counts}: give the same")
        return replace(graph, classes=known.classes)
    for number in np.unique(graph.labels[graph.labels >= 0]).tolist():
        if (name := graph.classes[number]) not in known.classes:
            those = ", ".join(known.classes[:8])
            raise ValueError(
                f"{where}: class {name!r} is none that the model knows, {those}: rename it, or leave it out"
            )
    numbers = [known.classes.index(name) if name in known.classes else -1 for name in graph.classes]
    labels = np.where(graph.labels < 0, -1, np.array(numbers)[graph.labels])
    return replace(graph, classes=known.classes, labels=labels)
