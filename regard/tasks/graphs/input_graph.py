"""A graph as an input: a node to classify, edges and features, in the form of the graph that a model was trained on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sized
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from regard.tasks.graphs.graph import PARTS, NodeFeatures, NodeGraph, clean_edges
from regard.tasks.inputs import NODE, STRING, InputKind

MEMBERS = ("node", "edges", "features")
FORM = "a graph is an object with node, edges and features"
MAX_QUOTED = 40  # characters of a name shown in a message
MAX_LISTED = 200  # features whose names the schema lists


def describe_kind(graph: NodeGraph) -> InputKind:
    """Return the kind of input of a model: the name of a node of its graph, or an object with a graph of its own."""
    return replace(
        NODE,
        singular="the name of a node or a graph with one",
        plural="names or graphs",
        is_one=lambda value: NODE.is_one(value) or isinstance(value, Mapping),
        schema={"anyOf": [STRING, graph_schema(graph)]},
        sizes=measure_graph,
    )


def graph_schema(graph: NodeGraph) -> dict[str, Any]:
    """Return the JSON schema of a graph with as many features for each node as a known one."""
    width = graph.features.width
    dense = {"type": "array", "items": {"type": "number"}, "minItems": width, "maxItems": width}
    sparse: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "number"}}
    if graph.columns is not None and len(graph.columns) <= MAX_LISTED:
        sparse["propertyNames"] = {"enum": list(graph.columns)}
    edge = {"type": "array", "items": STRING, "minItems": 2, "maxItems": 2}
    ways = "from the first node to the second, which looks at it" if graph.directed else "both nodes look at each other"
    properties = {
        "node": {**STRING, "description": "The node to classify."},
        "edges": {"type": "array", "items": edge, "description": f"Pairs of nodes: {ways}."},
        "features": {
            "type": "object",
            "description": "The features of each node: all numbers in order, or by name those that are not zero.",
            "additionalProperties": {"anyOf": [dense, sparse]},
        },
    }
    return {"type": "object", "properties": properties, "required": list(MEMBERS), "additionalProperties": False}


def measure_graph(value: Any) -> Mapping[str, int]:
    """Return how many nodes and edges an input has, by the names of limits; none for the name of a node."""
    if not isinstance(value, Mapping):
        return {}
    nodes, edges = value.get("features"), value.get("edges")
    sizes = {"graph_nodes": nodes, "graph_edges": edges}
    return {name: len(members) for name, members in sizes.items() if isinstance(members, Sized)}


def parse_node(text: str, graph: NodeGraph) -> Any:
    """Return the name of a node without surrounding spaces, or the graph of a JSON object."""
    name = text.strip()
    if name in graph.numbers or not name.startswith("{"):
        return name
    try:
        return json.loads(name, object_pairs_hook=_unique_object)
    except json.JSONDecodeError as error:
        raise ValueError(f"the graph is no JSON: {error.msg.lower()} at column {error.colno}: {FORM}") from None
    except RecursionError:
        raise ValueError(f"the graph is nested too deeply: {FORM}") from None


def build_graph(value: Mapping[str, Any], known: NodeGraph) -> tuple[str, NodeGraph]:
    """Return the node to classify and its graph, with features and directions as a known graph has them."""
    for member in MEMBERS:
        if member not in value:
            raise ValueError(f"{FORM}: {member} is missing")
    if unknown := [name for name in value if name not in MEMBERS]:
        raise ValueError(f"{FORM}: leave {_quote(unknown[0])} out")
    if not isinstance(value["features"], Mapping) or not value["features"]:
        raise ValueError("features must be an object with the features of each node by its name")
    numbers: dict[str, int] = {}
    for node in value["features"]:
        name = _read_name(node, "a member of features")
        if name in numbers:
            raise ValueError(f"features has node {_quote(name)} twice: remove one")
        numbers[name] = len(numbers)
    features = _read_features(list(value["features"].values()), list(numbers), known)
    pairs = _read_edges(value["edges"], numbers)
    edges, _ = clean_edges(pairs, len(numbers), directed=known.directed)
    graph = NodeGraph(
        features.scale_rows() if known.scaled else features,
        edges,
        np.full(len(numbers), -1),
        known.classes,
        {part: np.zeros(0, np.int64) for part in PARTS},
        names=list(numbers),
        columns=known.columns,
        scaled=known.scaled,
        directed=known.directed,
    )
    node = _read_name(value["node"], "node")
    graph.number(node)  # an unknown one is refused before anything is computed
    return node, graph


def _read_edges(value: Any, numbers: Mapping[str, int]) -> np.ndarray:
    """Return the pairs of node indices of edges; loops, repetitions and unknown nodes are refused."""
    if not isinstance(value, list | tuple):
        raise ValueError("edges must be a list of pairs of nodes")
    places: dict[tuple[int, int], int] = {}
    for place, edge in enumerate(value, start=1):
        if not isinstance(edge, list | tuple) or len(edge) != 2:
            raise ValueError(f"edge {place} must be a pair of nodes")
        source, target = (_read_name(end, f"an end of edge {place}") for end in edge)
        for end in (source, target):
            if end not in numbers:
                raise ValueError(f"edge {place} names {_quote(end)}, which has no features: add them, or remove it")
        if source == target:
            raise ValueError(
                f"edge {place} is a loop of {_quote(source)}: remove it, every node looks at itself anyway"
            )
        pair = numbers[source], numbers[target]
        if pair in places:
            raise ValueError(f"edge {place} repeats edge {places[pair]}: remove one")
        places[pair] = place
    return np.array(list(places), np.int64).reshape(-1, 2)


def _read_features(rows: list[Any], names: list[str], known: NodeGraph) -> NodeFeatures:
    """Return the features of nodes; zeros are left out, so that no table of all of them is built."""
    width = known.features.width
    columns = known.columns if known.columns is not None else [str(number) for number in range(width)]
    places = {column: place for place, column in enumerate(columns)}
    offsets, chosen, values = [0], [], []
    for name, row in zip(names, rows, strict=True):
        if isinstance(row, Mapping):
            for column in row:
                if str(column) not in places:
                    examples = ", ".join(columns[:3])
                    raise ValueError(
                        f"node {_quote(name)} has a feature {_quote(column)}: they are called {examples} ..."
                    )
            cells = sorted(((places[str(column)], cell) for column, cell in row.items()), key=itemgetter(0))
        elif isinstance(row, list | tuple | np.ndarray):
            if len(row) != width:
                counts = f"{len(row):,} features, those of the model have {width:,}"
                raise ValueError(f"node {_quote(name)} has {counts}: give the same")
            cells = list(enumerate(row))
        else:
            raise ValueError(f"the features of node {_quote(name)} must be a list of {width:,} numbers, or an object")
        numbers = [(place, _read_number(cell, columns[place], name)) for place, cell in cells]
        chosen += [place for place, number in numbers if number]
        values += [number for _, number in numbers if number]
        offsets.append(len(chosen))
    return NodeFeatures(np.array(offsets, np.int64), np.array(chosen, np.int64), np.array(values, np.float32), width)


def _read_number(cell: Any, column: str, name: str) -> float:
    """Return a feature as a number that float32 can hold."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | np.number):
        raise ValueError(f"feature {_quote(column)} of node {_quote(name)} is no number: give one")
    try:
        number = float(cell)
    except OverflowError:
        number = math.inf
    if not abs(number) <= float(np.finfo(np.float32).max):
        raise ValueError(f"feature {_quote(column)} of node {_quote(name)} is not finite: give a number within float32")
    return number


def _read_name(value: Any, where: str) -> str:
    """Return the name of a node as text."""
    if not NODE.is_one(value):
        raise ValueError(f"{where} must be the name of a node")
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where} holds half of a character, a lone surrogate: give the name of a node") from None
    return str(value)


def _quote(name: Any) -> str:
    return repr(str(name)[:MAX_QUOTED])


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object of the graph names a member twice: remove one")
    return members
