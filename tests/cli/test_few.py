"""`regard train --few`: a checkpoint that classifies, scores itself and is looked into like any other."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard import checkpoint
from regard.cli import run
from regard.tasks.trained import Trained
from tests.interop.test_bert import lay


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A small BERT."""
    place = tmp_path_factory.mktemp("models")
    lay(place / "theirs", "bert without a head")
    assert run(["import", str(place / "theirs"), str(place / "own")]) == 0
    return place / "own"


@pytest.fixture(scope="module")
def few(model, tmp_path_factory) -> Path:
    """What is fitted to a few texts."""
    place = tmp_path_factory.mktemp("few")
    rows = [f"{letter} {other},{name}" for name, letters in SIDES.items() for letter in letters for other in "XYZ"]
    (place / "texts.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    words = ["train", "--few", str(place / "texts.csv"), "--from", str(model), "--device", "cpu"]
    assert run([*words, "--out", str(place / "out"), "penalty=0.1"]) == 0
    return place


SIDES = {"first": "ABCD", "last": "MNOP"}


def test_it_classifies_and_scores_itself(few, capsys):
    assert run(["classify", str(few / "out"), "A X", "N Z", "--device", "cpu", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["label"] for one in told] == ["first", "last"]
    assert all(abs(sum(one["all"].values()) - 1) < 1e-5 for one in told)
    assert run(["evaluate", str(few / "out"), str(few / "texts.csv"), "--device", "cpu", "--json"]) == 0
    assert "accuracy, %" in capsys.readouterr().out
    found = regard.load(few / "out", device="cpu")
    assert isinstance(found, Trained)
    assert found.evaluate(few / "texts.csv").details["accuracy"] == checkpoint.read(few / "out").metrics["fitted"]
    trace = found.look("A X")
    assert trace.facts["answer"] == "first"
    assert trace.weights


def test_the_body_is_as_it_was_and_the_company_of_a_text_means_nothing(few, model):
    before, after = (checkpoint.read(place).tensors() for place in (model, few / "out"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    found = regard.load(few / "out", device="cpu")
    many = found.classify(["A X", "B Y Z A B C D", "N"] * 50)
    alone = [found.classify(text)[0].probability for text in ("A X", "B Y Z A B C D", "N")]
    np.testing.assert_allclose([one.probability for one in many[:3]], alone, atol=1e-6)


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        ("text,label\nA,x\nB,x\n", [], "there must be two labels at least"),
        ("text,label\nA,x\nB,y\n", ["penalty=-1"], "penalty"),
        ("text,label\nA,x\nB,y\n", ["--masked"], "--few fits a head to its own files"),
        ("text,label\nA,x\nB,y\n", None, "--few needs a model"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_a_line(model, tmp_path, capsys, content, more, said):
    (tmp_path / "a.csv").write_text(content)
    begin = [] if more is None else ["--from", str(model)]
    words = ["train", "--few", str(tmp_path / "a.csv"), *begin, "--out", str(tmp_path / "out"), *(more or [])]
    assert run([*words, "--device", "cpu"]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_label_that_was_not_fitted_is_named_with_its_line(few, tmp_path, capsys):
    (tmp_path / "b.csv").write_text("text,label\nA,first\nB,never\n")
    assert run(["evaluate", str(few / "out"), str(tmp_path / "b.csv"), "--device", "cpu"]) == 1
    assert "b.csv:3: the label 'never' is none of the training labels" in capsys.readouterr().err
