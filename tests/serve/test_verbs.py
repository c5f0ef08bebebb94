"""Tasks whose inputs are no plain texts, by the same one route: nodes of a graph."""

from __future__ import annotations

import json

import pytest
import torch

from regard.models.gat import GAT, GATConfig
from regard.tasks.graphs.classifier import NodeClassifier
from regard.tasks.graphs.files import GraphConfig, GraphFile, read
from tests.serve.harness import serving
from tests.tasks.graphs import small

pytestmark = pytest.mark.unchecked


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> NodeClassifier:
    """A classifier of the nodes of a small graph, which has learnt nothing."""
    edges, nodes = small.tables(tmp_path_factory.mktemp("graph"))
    graph = read(GraphConfig(train=GraphFile(edges=edges, nodes=nodes)))
    torch.manual_seed(0)
    return NodeClassifier(GAT(GATConfig(inputs=6, classes=2)).eval(), graph, "groups")


def test_nodes_of_the_graph_of_a_checkpoint_are_classified_and_explained(classifier):
    names = ["n0", "n1", "n59"]
    with serving({"groups": classifier}, inputs=3) as desk, desk.client() as client:
        answers = client.post("/v1/classify", json={"inputs": names}).json()["answers"]
        assert [answer["label"] for answer in answers] == [entry.label for entry in classifier.classify(names)]
        [single] = client.post("/v1/classify", json={"inputs": "n59"}).json()["answers"]
        assert single["label"] == answers[-1]["label"]
        for inputs, words in (
            ("nobody", "no node 'nobody' among 60"),
            (["n0"] * 4, "at most 3"),
            ([True], "the name of a node"),
            ({"edges": [["n0", "n1"]]}, "a graph is an object with node, edges and features: node is missing"),
        ):
            refused = client.post("/v1/classify", json={"inputs": inputs})
            assert (refused.status_code, words in refused.json()["error"]["message"]) == (422, True), refused.text
        trace = client.post("/v1/explain", json={"inputs": "n0"}).json()["trace"]
        assert trace["facts"]["text"] == "node n0"


def test_a_graph_that_is_sent_is_answered_as_the_one_of_the_checkpoint(classifier):
    """As an object or as its JSON in a text, which is what a form sends; its caps are limits of the server."""
    graph = small.posted("n7")
    expected = classifier.classify("n7")[0]
    with serving({"groups": classifier}, graph_nodes=120, graph_edges=300) as desk, desk.client() as client:
        for inputs in (graph, [graph, "n7"], json.dumps(graph)):
            answers = client.post("/v1/classify", json={"inputs": inputs}).json()["answers"]
            assert [(answer["node"], answer["label"]) for answer in answers] == [("n7", expected.label)] * len(answers)
            assert answers[0]["probability"] == pytest.approx(expected.probability, abs=1e-6)
        trace = client.post("/v1/explain", json={"inputs": graph}).json()["trace"]
        assert trace["facts"]["text"] == "node n7"
        assert trace["items"] == client.post("/v1/explain", json={"inputs": "n7"}).json()["trace"]["items"]
        [form] = client.get("/v1/explorer").json()["models"]
        assert form["inputs"]["anyOf"][1]["properties"]["features"]["additionalProperties"]["anyOf"][0]["minItems"] == 6
        call = {"name": "classify_groups", "arguments": {"inputs": graph}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        [answer] = client.post("/mcp", json=message).json()["result"]["structuredContent"]["answers"]
        assert answer["label"] == expected.label
        for inputs, words in (
            ([graph] * 3, "180 graph nodes, at most 120 in a request"),
            (json.dumps({**graph, "edges": [["n0", "n1"]] * 301}), "301 graph edges, at most 300 in a request"),
            ({**graph, "edges": [["n0", "x"]]}, "edge 1 names 'x', which has no features"),
            ("{", "the graph is no JSON"),
            ({**graph, "node": "x"}, "no node 'x' among 60"),
        ):
            refused = client.post("/v1/classify", json={"inputs": inputs})
            assert (refused.status_code, words in refused.json()["error"]["message"]) == (422, True), refused.text
