"""Whatever attends can be looked at: one trace, page, matrix and picture, whether the model writes or labels."""

import json
import re
from pathlib import Path

import pytest
import torch

from regard.interpret import trace
from regard.interpret.draw import page, plots, terminal
from regard.interpret.trace import Trace
from tests.interpret.looking import LABELLING, TEXT, WRITING, model

EVERY = (*WRITING, *LABELLING)


@pytest.fixture(scope="module")
def looks() -> dict[str, Trace]:
    """What every kind of model looked at."""
    return {kind: model(kind).look(TEXT) for kind in EVERY}


@pytest.mark.parametrize("kind", EVERY)
def test_every_look_gives_a_trace_whose_axes_are_its_items(kind, looks, tmp_path: Path):
    one = looks[kind]
    assert one.task == ("translation" if kind in WRITING else "tagging" if kind == "tagger" else "classification")
    assert {item.word for item in one.items["source"] if not item.special} == set(range(5 + (kind == "class")))
    assert set(one.items) == ({"source", "target", "fed"} if kind in WRITING else {"source", "label"})
    for weights in one.weights:
        assert torch.allclose(weights.values.sum(-1), torch.ones(weights.values.shape[:2]), atol=1e-5), weights.name
    one.save(tmp_path / "look.json")
    head = json.loads((tmp_path / "look.json").read_text(encoding="utf-8"))
    assert (head["format"], head["model"], head["task"]) == (1, one.model, one.task)
    assert [each["axes"][1:] for each in head["weights"]] == [[each.query, each.key] for each in one.weights]
    back = trace.load(tmp_path / "look.json")
    assert back == Trace(one.model, one.task, one.items, back.weights, one.facts)
    assert back.steps() is None, "a file has no model that could read again"


@pytest.mark.parametrize("kind", EVERY)
def test_every_attention_is_computed_again_from_its_vectors(kind, looks):
    one = looks[kind]
    steps = one.steps()
    opened = {weights.name for weights in one.weights if kind not in WRITING or weights.name.startswith("decoder")}
    assert set(steps.attentions) == opened
    for name, inside in steps.attentions.items():
        assert inside.difference < 1e-5, name
        assert torch.allclose(inside.weights, one.find(name).values, atol=1e-5), name
    [last] = one.steps([one.find().name]).attentions.values()
    assert last.name == one.find().name


@pytest.mark.parametrize("kind", EVERY)
def test_page_and_terminal_and_picture_show_it(kind, looks):
    one = looks[kind]
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.render(one), re.S)[1])
    assert set(data["steps"]) == set(one.steps().attentions), "the page of a trace with a model has its arithmetic"
    assert len(data["predictions"]) == (len(one.items["target"]) if kind in WRITING else int("pooled" in kind))
    title, heading, *_ = terminal.alignment(one).splitlines()
    assert title.startswith(one.find().name)
    assert heading.split()[-5:] == TEXT.split()
    seen = one.find()
    texts = [[item.text for item in one.items[side]] for side in (seen.query, seen.key)]
    figure = plots.alignment(seen.values.mean(0), queries=texts[0], keys=texts[1], sides=(seen.query, seen.key))
    words = "written" if kind in WRITING else "label" if "pooled" in kind else "read"
    assert (figure.axes[0].get_ylabel(), figure.axes[0].get_xlabel()) == (words, "read")


def test_what_a_pooled_label_was_chosen_from_are_the_classifiers_own_probabilities(looks):
    classifier = model("pooled recurrent")
    [prediction] = looks["pooled recurrent"].steps().predictions
    [verdict] = classifier.classify([TEXT])
    assert dict(prediction.top) == pytest.approx(verdict.all, abs=1e-6)
    assert (prediction.written, prediction.rank) == (verdict.label, 0)
