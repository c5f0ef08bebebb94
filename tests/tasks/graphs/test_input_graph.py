"""A graph as an input: the same answers as for the graph of a checkpoint, and one line for whatever is wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.models.gat import GAT, GATConfig
from regard.tasks.graphs.classifier import NodeClassifier
from regard.tasks.graphs.files import GraphConfig, GraphFile, read
from regard.tasks.inputs import describe_inputs
from tests.tasks.graphs import small

pytestmark = pytest.mark.unchecked


@pytest.fixture(scope="module", params=["undirected", "directed", "unscaled", "arrays"])
def classifier(request, tmp_path_factory) -> NodeClassifier:
    """A classifier of the nodes of a small graph, which has learnt nothing."""
    folder = tmp_path_factory.mktemp("graph")
    edges, nodes = small.tables(folder)
    files = GraphFile(path=small.arrays(folder)) if request.param == "arrays" else GraphFile(edges=edges, nodes=nodes)
    graph = read(GraphConfig(train=files, directed=request.param == "directed", scale=request.param != "unscaled"))
    torch.manual_seed(0)
    return NodeClassifier(GAT(GATConfig(inputs=6, classes=2)).eval(), graph, "groups")


def as_input(classifier: NodeClassifier, number: int, *, sparse: bool) -> dict[str, object]:
    """Return the graph of a classifier as an input."""
    graph = classifier.graph
    columns = graph.columns or [str(column) for column in range(6)]
    held = graph.features.to_tensor()
    rows = (held if isinstance(held, torch.Tensor) else held.dense()).tolist()
    features = {
        graph.name(node): {columns[place]: cell for place, cell in enumerate(row) if cell} if sparse else row
        for node, row in enumerate(rows)
    }
    edges = [[graph.name(source), graph.name(target)] for source, target in graph.edges.tolist()]
    return {"node": graph.name(number), "edges": edges, "features": features}


@pytest.mark.parametrize("sparse", [False, True])
def test_the_graph_of_the_checkpoint_gives_the_same_answers_by_name_and_as_an_input(classifier, sparse) -> None:
    items = [as_input(classifier, number, sparse=sparse) for number in (0, 7, 59)]
    names = [item["node"] for item in items]
    mixed = [item for pair in zip(items, names, strict=True) for item in pair]
    answers = classifier.classify(json.loads(json.dumps(mixed)))
    for posted, named in zip(answers[::2], answers[1::2], strict=True):
        assert (posted.node, posted.label) == (named.node, named.label)
        assert posted.all == pytest.approx(named.all, abs=1e-6)
    assert classifier.answer([classifier.parse(json.dumps(items[1]))])[0].label == answers[3].label
    traces = [classifier.look(item) for item in (items[1], names[1])]
    assert traces[0].items == traces[1].items
    for posted, named in zip(*(trace.weights for trace in traces), strict=True):
        assert torch.allclose(posted.values, named.values, atol=1e-6)


def test_edges_and_features_decide(tmp_path) -> None:
    edges, nodes = small.tables(tmp_path)
    graph = read(GraphConfig(train=GraphFile(edges=edges, nodes=nodes)))
    torch.manual_seed(0)
    classifier = NodeClassifier(GAT(GATConfig(inputs=6, classes=2)).eval(), graph, "groups")
    whole = small.posted("n7")
    alone = {**whole, "edges": []}
    chances = [answer.all["red"] for answer in classifier.classify([whole, alone])]
    assert chances[0] == pytest.approx(classifier.classify("n7")[0].all["red"], abs=1e-6), "as in the files"
    assert abs(chances[0] - chances[1]) > 1e-4
    lonely = NodeClassifier(classifier.model, replace(graph, edges=np.zeros((0, 2), np.int64)), "groups")
    assert chances[1] == pytest.approx(lonely.classify("n7")[0].all["red"], abs=1e-6)


ROWS = {"a": [1.0] * 6, "b": [2.0] * 6}
GOOD = {"node": "a", "edges": [["a", "b"], ["b", "a"]], "features": ROWS}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node": "c"}, "no node 'c' among 2: they are called a, b ..."),
        ({"node": ["a"]}, "node must be the name of a node"),
        ({"nodes": 1}, "a graph is an object with node, edges and features: leave 'nodes' out"),
        ({"edges": "ab"}, "edges must be a list of pairs of nodes"),
        ({"edges": [["a", "b", "a"]]}, "edge 1 must be a pair of nodes"),
        ({"edges": [["a", "b"], ["a", None]]}, "an end of edge 2 must be the name of a node"),
        ({"edges": [["a", "c"]]}, "edge 1 names 'c', which has no features: add them, or remove it"),
        ({"edges": [["a", "b"], ["b", "b"]]}, "edge 2 is a loop of 'b': remove it"),
        ({"edges": [["a", "b"], ["b", "a"], ["a", "b"]]}, "edge 3 repeats edge 1: remove one"),
        ({"features": {}}, "features must be an object with the features of each node"),
        ({"features": {**ROWS, "b": [1] * 5}}, "node 'b' has 5 features, those of the model have 6: give the same"),
        ({"features": {**ROWS, "b": 3}}, "the features of node 'b' must be a list of 6 numbers, or an object"),
        ({"features": {**ROWS, "b": {"z": 1}}}, "node 'b' has a feature 'z': they are called a, b, c ..."),
        ({"features": {**ROWS, "b": {"d": float("nan")}}}, "feature 'd' of node 'b' is not finite"),
        ({"features": {**ROWS, "b": [1e39] * 6}}, "feature 'a' of node 'b' is not finite"),
        ({"features": {**ROWS, "b": [10**400] * 6}}, "feature 'a' of node 'b' is not finite"),
        ({"features": {**ROWS, "b": [True] * 6}}, "feature 'a' of node 'b' is no number"),
        ({"features": {1: [1] * 6, "1": [1] * 6}}, "features has node '1' twice"),
        ({"node": "\ud800"}, "node holds half of a character"),
    ],
)
def test_what_is_wrong_with_a_graph_is_told_in_one_line(tmp_path, change, message) -> None:
    edges, nodes = small.tables(tmp_path)
    graph = read(GraphConfig(train=GraphFile(edges=edges, nodes=nodes)))
    classifier = NodeClassifier(GAT(GATConfig(inputs=6, classes=2)).eval(), graph, "groups")
    assert classifier.classify(GOOD)[0].node == "a"
    with pytest.raises(ValueError) as error:
        classifier.classify({**GOOD, **change})
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_the_schema_describes_the_graph_and_text_is_parsed(classifier) -> None:
    described = describe_inputs(classifier)
    name, graph = described["schema"]["anyOf"]
    assert name == {"type": "string"}
    dense, sparse = graph["properties"]["features"]["additionalProperties"]["anyOf"]
    assert dense["minItems"] == dense["maxItems"] == 6
    assert sparse.get("propertyNames", {}).get("enum") == classifier.graph.columns
    assert described["kind"] == "node"
    assert classifier.parse(f" {described['example']} ") == described["example"]
    for text, message in (("{", "no JSON: "), ('{"a": 1, "a": 2}', "twice"), ('{"a": ' + "[" * 100_000, "too deeply")):
        with pytest.raises(ValueError, match=message):
            classifier.parse(text)
