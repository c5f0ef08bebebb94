"""Tasks whose inputs are no plain texts, by the same one route: nodes of a graph."""

from __future__ import annotations

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
            ({"edges": [["n0", "n1"]]}, "the name of a node"),
        ):
            refused = client.post("/v1/classify", json={"inputs": inputs})
            assert (refused.status_code, words in refused.json()["error"]["message"]) == (422, True), refused.text
        trace = client.post("/v1/explain", json={"inputs": "n0"}).json()["trace"]
        assert trace["facts"]["text"] == "node n0"
