"""Graph attention from files to answers: it learns, is scored, shows where a node looked."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.cli import run
from regard.interpret.draw import neighbourhood
from regard.interpret.trace import load
from regard.tasks.graphs.explain import MAX_FOLLOWED
from tests.tasks.graphs import small

pytestmark = pytest.mark.unchecked  # shapes are checked with the model and the files
QUICK = [
    "training.steps=60",
    "training.device=cpu",
    "training.tensorboard=false",
    "model.dropout=0.2",
    "optim.learning_rate=0.02",
]
QUICK += ["model.attention_dropout=0.2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the small graph, trained as somebody would."""
    place = tmp_path_factory.mktemp("graph")
    edges, nodes = small.tables(place)
    words = ["train", "--edges", edges, "--nodes", nodes, "--out", str(place / "run"), *QUICK]
    assert run(words) == 0
    return place / "run"


def test_it_learns_from_neighbours_what_features_do_not_say(trained: Path, tmp_path: Path):
    model = regard.load(trained, device="cpu")
    answers = model.classify([f"n{number}" for number in range(small.NODES)])
    right = sum(one.label == small.GROUPS[n % 2] for n, one in enumerate(answers))
    assert right >= 0.9 * small.NODES  # guessing is right once in two
    alone = regard.train(
        {"data": {"train": small.arrays(tmp_path)}, "task": "node-classification", "model": {"attention": "none"}},
        *QUICK,
        out=tmp_path / "none",
        quiet=True,
    )
    assert regard.load(alone.folder, device="cpu").evaluate().metrics["accuracy, %"] < 85


def test_it_is_scored_on_its_own_graph_or_on_another(trained: Path, tmp_path: Path):
    model = regard.load(trained, device="cpu")
    own = model.evaluate()
    assert len(own) == 10
    edges, nodes = small.tables(tmp_path)
    whole = model.evaluate(nodes, edges)  # whichever comes first
    assert len(whole) == 52
    assert whole.metrics["accuracy, %"] >= 90
    with pytest.raises(ValueError, match="a graph is one npz file or two tables, of edges and of nodes, not 1 files"):
        model.evaluate(nodes)


def test_a_command_answers_and_shows_a_neighbourhood(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["classify", str(trained), "--node", "n1", "--node", "n2"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines] == [["n1", "blue"], ["n2", "red"]]
    for ending in ("html", "png", "json", "csv"):
        assert run(["explain", str(trained), "--node", "n1", "-o", str(tmp_path / f"n1.{ending}")]) == 0
    page = (tmp_path / "n1.html").read_text(encoding="utf-8")
    assert '"nodes":[{"text":"n1","ring":0' in page
    rows = (tmp_path / "n1.csv").read_text(encoding="utf-8").splitlines()
    weights = [float(row.split(",")[2]) for row in rows[1:]]
    assert abs(sum(weights) - 1) < 1e-3
    assert weights == sorted(weights, reverse=True)
    capsys.readouterr()
    assert run(["explain", str(trained), "--node", "n1", "--head", "0"]) == 0
    assert "layers.1, head 0" in capsys.readouterr().out


def test_nodes_are_answered_in_their_order(trained: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["classify", str(trained), "--node", "n2", "n1"]) == 0
    named = capsys.readouterr().out
    assert [line.split("\t")[0] for line in named.splitlines()] == ["n2", "n1"]
    assert run(["classify", str(trained), json.dumps(small.posted("n2")), "n1"]) == 0
    assert capsys.readouterr().out == named, "a graph is named by its node"
    assert run(["classify", str(trained), "n2", "n1"]) == 0
    assert capsys.readouterr().out == named, "with and without --node"
    assert run(["export", str(trained), str(trained.parent / "exported")]) == 1
    assert "a model of kind gat cannot be written for others" in capsys.readouterr().err


def test_a_node_that_is_not_there_and_a_model_without_nodes_are_told(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert run(["classify", str(trained)]) != 0
    assert "standard input is empty: give --node NAME, or lines to read" in capsys.readouterr().err
    assert run(["classify", str(trained), "--node", "99"]) != 0
    assert "no node '99' among 60: they are called n0, n1, n2 ..." in capsys.readouterr().err
    assert run(["explain", "en-fr", "--node", "57"]) != 0
    assert "--node is for models of graphs" in capsys.readouterr().err
    assert run(["explain", str(trained), "--node", "n1", "--node", "n2"]) != 0
    assert "give one input to explain, not 2" in capsys.readouterr().err
    assert run(["explain", str(trained)]) != 0
    assert "give one input to explain, not 0; of a graph name a --node" in capsys.readouterr().err


def test_a_trace_holds_the_weights_that_the_model_used(trained: Path, tmp_path: Path):
    model = regard.load(trained, device="cpu")
    trace = model.look("n1")
    where = model.graph.mask().where
    around = sorted(f"n{int(key)}" for key in where.key[where.query == 1])
    first = trace.find("layers.1")
    assert sorted(item.text for item in trace.items[first.key]) == around
    assert torch.allclose(torch.stack([one.values.sum(-1).mean() for one in trace.weights]), torch.ones(2))
    with regard.watch(model.model) as seen:
        model.logits()
    for one in trace.weights:
        [dense] = seen[one.name]
        dense = dense.to_dense()
        names = [[model.graph.number(item.text) for item in trace.items[side]] for side in (one.query, one.key)]
        assert torch.equal(one.values, dense[:, names[0]][:, :, names[1]])
    trace.save(tmp_path / "trace.json")
    assert load(tmp_path / "trace.json").facts == json.loads(json.dumps(trace.facts))
    places = neighbourhood.place_nodes(trace)
    assert places[0].name == "n1"
    assert len({one.name for one in places}) == len(places)
    assert {one.name for one in places if one.ring == 1} <= set(around)


def test_controls_are_the_same_weights_with_equal_looks_and_with_none(trained: Path):
    model = regard.load(trained, device="cpu")
    before, chance = model.logits(), torch.get_rng_state()
    controls = model.controls()
    assert list(controls) == ["equal", "none"]
    with regard.watch(controls["equal"].model) as seen:
        controls["equal"].logits()
    for name in seen:
        [look] = seen.looks[name]
        query = look.mask.where.query
        assert torch.allclose(look.weights, (1 / torch.bincount(query)[query]).expand_as(look.weights))
    held = model.graph.features.to_tensor()
    x = (held if isinstance(held, torch.Tensor) else held.dense()).double()
    for number, layer in enumerate(model.model.layers):  # a perceptron: what is left without edges
        flat = (torch.nn.functional.elu(x) if number else x) @ layer.project.weight.double().T
        x = (flat.unflatten(-1, (layer.heads, -1)).mean(1) if layer.averaged else flat) + layer.bias.double()
    assert torch.allclose(controls["none"].logits().double(), x, atol=1e-5)
    assert torch.equal(torch.get_rng_state(), chance)
    assert torch.equal(model.logits(), before)
    scores = model.evaluate()
    assert scores.details["controls"] == {
        kind: pytest.approx(other.evaluate().metrics["accuracy, %"] / 100) for kind, other in controls.items()
    }
    assert {"accuracy, equal weights", "accuracy, no neighbours"} <= set(scores.measures)


def test_a_hub_is_followed_to_its_strongest_neighbours(tmp_path: Path):
    edges = np.array([[0, n] for n in range(1, small.NODES)])
    many = {"edges": np.concatenate([edges, small.contents()["edges"]])}
    settings = {"data": {"train": small.arrays(tmp_path, **many)}, "task": "node-classification"}
    outcome = regard.train(settings, "training.steps=1", *QUICK[1:3], out=tmp_path / "run", quiet=True)
    trace = regard.load(outcome.folder, device="cpu").look("0")
    assert trace.find("layers.1").values.shape == (1, 1, small.NODES)
    assert trace.find("layers.0").values.shape[1] == min(MAX_FOLLOWED, small.NODES)
    assert sum(one.ring == 1 for one in neighbourhood.place_nodes(trace)) == neighbourhood.FIRST


def test_files_are_recognised_and_what_is_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from regard import recipe

    edges, nodes = small.tables(tmp_path)
    for files in ([edges, nodes], [nodes, edges], [small.arrays(tmp_path)]):
        order = recipe.order(files)
        assert order.settings["task"] == "node-classification"
    assert recipe.order([nodes, edges]).settings["data"]["train"] == {"edges": edges, "nodes": nodes}
    assert run(["train", "--edges", edges]) != 0
    assert "--edges and --nodes go together" in capsys.readouterr().err
