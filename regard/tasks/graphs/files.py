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
from regard.data.columns import check_columns
from regard.data.encodings import find_file
from regard.data.readers import digest
from regard.data.source_file import SourceFile
from regard.data.tables import Sheet, number_in
from regard.tasks.graphs.graph import PARTS, NodeFeatures, NodeGraph, check_parts, clean_edges, split_nodes

PART_BY_MARK = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test", "": ""}
ARRAY_NAMES = "edges, labels, and x or x_indptr, x_indices, x_data and x_shape"
SPARSE_KEYS = ("x_indptr", "x_indices", "x_data", "x_shape")
MAX_CLASSES = 10_000  # different labels that are still believed to be classes


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
    """The graph; its training nodes are named in it, or drawn at random."""
    directed: bool = False
    """Whether edges are directed: the second node of an edge attends to the first; false: both attend to each other,
    whether or not both directions are given."""
    scale: bool = True
    """Divide the features of a node by their sum."""
    id: str = "id"
    """Column of a table of nodes with their names."""
    label: str = "label"
    """Column with the classes of the nodes; blank where unknown."""
    split: str = "split"
    """Column that says which nodes to train on, to choose the best weights by (valid) and to test on, if there is
    one."""
    validation_share: Some = 0.2
    """Share of the labelled nodes held out if the files name none, the same of every class."""
    seed: Seed = 0
    """Random seed of the choice of held-out nodes."""


@dataclass(frozen=True)
class GraphData:
    """A graph whose nodes are split into parts, and the report on it."""

    graph: NodeGraph
    report: dict[str, Any]

    @property
    def summary(self) -> list[str]:
        """Lines for a person: how many nodes, edges, features and classes there are."""
        graph = self.graph
        edges = len(graph.edges) // (1 if graph.directed else 2)
        counts = ", ".join(
            f"{len(graph.parts[part]):,} to {verb}" for part, verb in zip(PARTS, PART_VERBS, strict=True)
        )
        sizes = {"node": len(graph), "edge": edges, "feature": graph.features.width}
        size = ", ".join([*(quantity(count, what) for what, count in sizes.items()), f"{len(graph.classes)} classes"])
        return [f"{size}: {counts}", *graph.notes]


PART_VERBS = ("train on", "choose by", "test on")


def prepare(config: GraphConfig, parent: NodeGraph | None = None) -> GraphData:
    """Read the graph; `parent`, that of a model to start from, gives the order of features and of classes."""
    graph, where = read(config, parent), " and ".join(config.train.files)
    if not graph.parts["valid"].size and graph.parts["test"].size:
        raise ValueError(f"{where}: nodes are marked to train and test on, and none to choose by: mark some as valid")
    graph = check_parts(graph, where)
    digests = "".join(digest(name) for name in config.train.files)
    counts = {"files": config.train.files, "nodes": len(graph), "edges": len(graph.edges)}
    settings = [
        config.directed,
        config.scale,
        config.id,
        config.label,
        config.split,
        config.validation_share,
        config.seed,
    ]
    return GraphData(graph, {"train": {**counts, "fingerprint": f"{digests} {settings}"}})


def read(config: GraphConfig, parent: NodeGraph | None = None) -> NodeGraph:
    """Read the graph, with its parts as marked in the files, or else split at random."""
    file = config.train
    graph = _read_arrays(file.path, config) if file.path is not None else _read_tables(file, config, parent)
    where = file.files[-1]
    if parent is not None:
        graph = _fit_to_parent(graph, parent, where)
    if not (graph.labels >= 0).any():
        raise ValueError(f"{where}: no node has a label: give some of them one")
    if not graph.parts["train"].size:
        graph = replace(graph, parts=_draw_parts(graph, config))
    notes = list(graph.notes)
    if (unlabelled := np.flatnonzero(graph.labels < 0)).size:
        counted = f"{quantity(len(unlabelled), 'node')} without a label ({graph.name(int(unlabelled[0]))} first)"
        notes.append(f"{counted}: looked at, not learnt from; label what is to be learnt from")
    features = graph.features.scale_rows() if config.scale else graph.features
    return replace(graph, features=features, scaled=config.scale, directed=config.directed, notes=notes)


def _draw_parts(graph: NodeGraph, config: GraphConfig) -> dict[str, np.ndarray]:
    """Draw the parts of a graph that marks no nodes to train on; parts that it marks stay."""
    marked, remaining = graph.parts, graph.labels.copy()
    remaining[np.concatenate([marked["valid"], marked["test"]])] = -1
    share = 0.0 if marked["valid"].size else config.validation_share
    drawn = split_nodes(remaining, graph.classes, share=share, seed=config.seed)
    return {part: marked[part] if marked[part].size else drawn[part] for part in PARTS}


def graph_file(files: Sequence[str]) -> GraphFile:
    """Return the settings of a graph from names of files in any order; a table with two columns is the one of edges."""
    if len(files) == 1 and str(files[0]).lower().endswith(".npz"):
        return GraphFile(path=str(files[0]))
    if len(files) != 2:
        raise ValueError(f"a graph is one npz file or two tables, of edges and of nodes, not {len(files)} files")
    has_features = [len(Sheet.read(str(file)).header) > 2 for file in files]
    first, second = map(str, files)
    return (
        GraphFile(edges=second, nodes=first)
        if has_features[0] and not has_features[1]
        else GraphFile(edges=first, nodes=second)
    )


def _read_tables(file: GraphFile, config: GraphConfig, parent: NodeGraph | None) -> NodeGraph:
    assert file.edges is not None
    assert file.nodes is not None
    sheet = Sheet.read(file.nodes)
    for setting, column_name in (("id", config.id), ("label", config.label)):
        remedy = f"rename one, or say which it is with data.{setting}=COLUMN"
        check_columns(sheet.name, sheet.header, [column_name], remedy=remedy)
    if not sheet.lines:
        raise ValueError(f"{sheet.name} holds no nodes below its header: give at least one")
    reserved = (config.id, config.label, config.split)
    columns = (
        list(parent.columns) if parent and parent.columns else [name for name in sheet.header if name not in reserved]
    )
    if not columns:
        raise ValueError(f"{sheet.name} has no column of features beside {config.id} and {config.label}: add some")
    check_columns(sheet.name, sheet.header, columns)
    names = _number_nodes(sheet, sheet.header.index(config.id))
    places = [sheet.header.index(column_name) for column_name in columns]
    table = np.array(
        [
            [number_in(cells[place], sheet.header[place], location) for place in places]
            for location, cells in sheet.lines
        ],
        np.float32,
    )
    labels, classes = _read_labels(sheet, config.label, parent)
    parts = _read_parts(sheet, config.split, labels)
    edge_list, edge_notes = _read_edges(file.edges, names, file.nodes)
    edges, notes = clean_edges(edge_list, len(names), directed=config.directed, names=list(names))
    return NodeGraph(
        NodeFeatures.of(table), edges, labels, classes, parts, list(names), columns, notes=[*edge_notes, *notes]
    )


def _number_nodes(sheet: Sheet, column: int) -> dict[str, int]:
    """Return the index of each node by its name."""
    numbers: dict[str, int] = {}
    for place, cells in sheet.lines:
        name = cells[column].strip()
        if not name:
            raise ValueError(f"{place}: a node without a name: fill in its {sheet.header[column]}")
        if name in numbers:
            raise ValueError(f"{place}: node {name} is listed twice: remove one of the lines")
        numbers[name] = len(numbers)
    return numbers


def _read_labels(sheet: Sheet, column: str, parent: NodeGraph | None) -> tuple[np.ndarray, list[str]]:
    place_of_label = sheet.header.index(column)
    cells = [(place, line[place_of_label].strip()) for place, line in sheet.lines]
    classes = list(parent.classes) if parent else sorted({cell for _, cell in cells if cell})
    if len(classes) > MAX_CLASSES:
        raise ValueError(f"{sheet.name}: {len(classes):,} different labels in column {column}: name one of classes")
    numbers = {name: number for number, name in enumerate(classes)} | {"": -1}
    for place, cell in cells:
        if cell not in numbers:
            raise ValueError(
                f"{place}: label {cell!r} is none that the model knows, {', '.join(classes[:8])}: correct or blank it"
            )
    return np.array([numbers[cell] for _, cell in cells]), classes


def _read_parts(sheet: Sheet, column: str, labels: np.ndarray) -> dict[str, np.ndarray]:
    nodes_by_part: dict[str, list[int]] = {part: [] for part in PARTS}
    if column in sheet.header:
        place_of_mark = sheet.header.index(column)
        for number, (place, cells) in enumerate(sheet.lines):
            cell = cells[place_of_mark].strip().lower()
            if cell not in PART_BY_MARK:
                raise ValueError(
                    f"{place}: {cells[place_of_mark]!r} in column {column}: write train, valid, test, or leave it blank"
                )
            if part := PART_BY_MARK[cell]:
                nodes_by_part[part].append(number)
                if labels[number] < 0:
                    raise ValueError(
                        f"{place}: this node is in {part} and has no label: give it one, or blank {column}"
                    )
    return {part: np.array(numbers, np.int64) for part, numbers in nodes_by_part.items()}


def _read_edges(name: str, names: dict[str, int], nodes: str) -> tuple[np.ndarray, list[str]]:
    """Return the node indices of every edge, and notes on edges left out or repeated."""
    sheet = Sheet.read(name)
    if len(sheet.header) < 2:
        raise ValueError(f"{name}:1: an edge needs two columns, the nodes at its ends: there is one")
    cells = [(place, (line[0].strip(), line[1].strip())) for place, line in sheet.lines]
    notes = []
    if len(sheet.header) > 2:
        notes.append(f"{name}: columns after the second are not used: {', '.join(sheet.header[2:5])}")
    if all(end in names for end in sheet.header[:2]):  # no header: the first line is an edge as well
        cells.insert(0, (f"{name}:1", (sheet.header[0], sheet.header[1])))
    for place, pair in cells:
        for end in pair:
            if end not in names:
                raise ValueError(
                    f"{place}: an edge to {end!r}, which is no node of {nodes}: add it, or remove the edge"
                )
    edges = np.array([[names[end_name] for end_name in pair] for _, pair in cells], np.int64).reshape(-1, 2)
    repeats = np.setdiff1d(np.arange(len(edges)), np.unique(edges, axis=0, return_index=True)[1])
    if repeats.size:
        notes.append(f"{cells[int(repeats[0])][0]}: the first edge that is listed a second time: lines may be removed")
    return edges, notes


def _read_arrays(name: str, config: GraphConfig) -> NodeGraph:
    """Read the graph in an npz file."""
    arrays = _load_npz(name)
    missing = [key for key in ("edges", "labels") if key not in arrays]
    if "x" not in arrays:
        missing += [key for key in SPARSE_KEYS if key not in arrays]
    if missing:
        raise ValueError(
            f"{name} has no array {missing[0]}{suggest_name(missing[0], arrays)}: a graph has {ARRAY_NAMES}"
        )
    for key, array in arrays.items():
        if key not in ("x", "x_data", "label_names", "node_names") and array.dtype.kind not in "iu":
            raise ValueError(f"{name}: {key} is of type {array.dtype}: store whole numbers")
    features = _read_features(name, arrays)
    labels = arrays["labels"].astype(np.int64)
    nodes = len(features.offsets) - 1
    if labels.shape != (nodes,):
        raise ValueError(f"{name}: labels have shape {labels.shape} for {nodes:,} nodes: give one each, -1 for none")
    count = int(labels.max(initial=-1)) + 1
    if labels.min(initial=0) < -1 or count > MAX_CLASSES:
        raise ValueError(f"{name}: labels from {labels.min()} to {labels.max()}: number classes from 0, -1 is none")
    pairs = arrays["edges"].astype(np.int64)
    if pairs.ndim != 2 or 2 not in pairs.shape:
        raise ValueError(f"{name}: edges have shape {pairs.shape}: store two numbers for each, (edges, 2)")
    pairs = pairs if pairs.shape[1] == 2 else pairs.T
    _check_range(name, "edges", pairs, nodes)
    parts = {}
    for part, index_key in zip(PARTS, ("train_idx", "val_idx", "test_idx"), strict=True):
        parts[part] = (
            np.sort(arrays[index_key].astype(np.int64).ravel()) if index_key in arrays else np.zeros(0, np.int64)
        )
        _check_range(name, index_key, parts[part], nodes)
    classes = _read_names(name, arrays, "label_names", count) or [str(number) for number in range(count)]
    names = _read_names(name, arrays, "node_names", nodes)
    edges, notes = clean_edges(pairs, nodes, directed=config.directed, names=names)
    return NodeGraph(features, edges, labels, classes, parts, names, notes=notes)


def _load_npz(name: str) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(find_file(name)) as archive:
            arrays = {}
            for part in archive.namelist():
                with archive.open(part) as file:
                    arrays[part.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
            return arrays
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        if "no file" in str(error):
            raise
        reason = " ".join(str(error).split())
        raise ValueError(f"{name} is no npz file of plain arrays ({reason}): save it with numpy.savez") from None


def _read_features(name: str, arrays: dict[str, np.ndarray]) -> NodeFeatures:
    if "x" in arrays:
        if arrays["x"].ndim != 2 or arrays["x"].dtype.kind not in "iuf":
            raise ValueError(f"{name}: x has shape {arrays['x'].shape}: store a number for each node and feature")
        features = NodeFeatures.of(arrays["x"].astype(np.float32))
    else:
        shape = arrays["x_shape"].ravel().tolist()
        offsets, columns = arrays["x_indptr"].astype(np.int64).ravel(), arrays["x_indices"].astype(np.int64).ravel()
        if len(shape) != 2 or len(offsets) != shape[0] + 1:
            raise ValueError(f"{name}: x_indptr has {len(offsets):,} bounds for a shape of {shape}: store rows + 1")
        is_csr = (
            offsets[0] == 0 and offsets[-1] == len(columns) == len(arrays["x_data"]) and (np.diff(offsets) >= 0).all()
        )
        if not is_csr:
            raise ValueError(f"{name}: x_indptr, x_indices and x_data do not fit together: store a CSR matrix")
        _check_range(name, "x_indices", columns, shape[1])
        features = NodeFeatures(offsets, columns, arrays["x_data"].astype(np.float32).ravel(), shape[1])
    if not features.width or not len(features.offsets) > 1:
        raise ValueError(
            f"{name}: features of shape ({len(features.offsets) - 1}, {features.width}): there is nothing to read"
        )
    if not np.isfinite(features.values).all():
        wrong = int(np.flatnonzero(~np.isfinite(features.values))[0])
        node, column = int(np.searchsorted(features.offsets, wrong, side="right")) - 1, int(features.columns[wrong])
        raise ValueError(f"{name}: feature {column} of node {node} is {features.values[wrong]}: store a finite number")
    return features


def _check_range(name: str, key: str, numbers: np.ndarray, size: int) -> None:
    for row, *column in np.argwhere((numbers < 0) | (numbers >= size))[:1].tolist():
        wrong = int(numbers[row, *column])
        raise ValueError(f"{name}: {key}[{row}] names number {wrong}, there are 0 to {size - 1}: correct it")


def _read_names(name: str, arrays: dict[str, np.ndarray], key: str, count: int) -> list[str] | None:
    """Return the names in an array; None if the file has no such array."""
    if key not in arrays:
        return None
    names = [str(entry) for entry in arrays[key].ravel().tolist()]
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"{name}: {key} has {len(set(names)):,} different names for {count:,}: give one each")
    return names


def _fit_to_parent(graph: NodeGraph, parent: NodeGraph, where: str) -> NodeGraph:
    """Return the graph with the classes of the model to start from; refuse one that the model cannot read."""
    if graph.features.width != parent.features.width:
        raise ValueError(
            f"{where}: nodes have {graph.features.width:,} features, those of the model have "
            f"{parent.features.width:,}: give the same"
        )
    if graph.classes == [str(number) for number in range(len(graph.classes))]:  # the file names none
        if len(graph.classes) > len(parent.classes):
            counts = f"{len(graph.classes)} classes, the model knows {len(parent.classes)}"
            raise ValueError(f"{where}: {counts}: give the same")
        return replace(graph, classes=parent.classes)
    for number in np.unique(graph.labels[graph.labels >= 0]).tolist():
        if (name := graph.classes[number]) not in parent.classes:
            examples = ", ".join(parent.classes[:8])
            raise ValueError(
                f"{where}: class {name!r} is none that the model knows, {examples}: rename it, or leave it out"
            )
    numbers = [parent.classes.index(name) if name in parent.classes else -1 for name in graph.classes]
    labels = np.where(graph.labels < 0, -1, np.array(numbers)[graph.labels])
    return replace(graph, classes=parent.classes, labels=labels)
