"""`regard train --few`: a checkpoint that classifies, scores itself and is looked into like any other."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard import checkpoint, recipe
from regard.cli import run
from regard.tasks.embedding.contrast import cosine_loss
from regard.tasks.embedding.few_shot import FewShot, doubt_accuracy, is_few_shot_data
from regard.tasks.trained import Trained
from regard.training import history
from tests.interop.test_bert import lay

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested


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
    assert run([*words, "--out", str(place / "out"), "penalty=0.1", "contrast=off"]) == 0
    return place


SIDES = {"first": "ABCD", "last": "MNOP"}


def test_it_classifies_and_scores_itself(few, capsys):
    assert run(["classify", str(few / "out"), "A X", "N Z", "--device", "cpu", "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["label"] for record in records] == ["first", "last"]
    assert all(abs(sum(record["all"].values()) - 1) < 1e-5 for record in records)
    assert run(["evaluate", str(few / "out"), str(few / "texts.csv"), "--device", "cpu", "--json"]) == 0
    assert "accuracy, %" in capsys.readouterr().out
    trained = regard.load(few / "out", device="cpu")
    assert isinstance(trained, Trained)
    assert trained.evaluate(few / "texts.csv").details["accuracy"] == checkpoint.read(few / "out").metrics["fitted"]
    trace = trained.look("A X")
    assert trace.facts["answer"] == "first"
    assert trace.weights
    summary = history.summarise_run(few / "out")
    assert (summary.state, summary.reason, summary.step) == ("finished", "made without steps", 0)
    assert summary.best["fitted"] == checkpoint.read(few / "out").metrics["fitted"]


def test_of_a_table_it_reads_the_texts_alone(few, capsys):
    assert run(["classify", str(few / "out"), "-i", str(few / "texts.csv"), "--device", "cpu", "--json"]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line)["text"] for line in shown.out.splitlines()][:2] == ["A X", "A Y"]
    assert "reading the column 'text', as in training; the heading and the column label are left out" in shown.err


def test_the_body_is_as_it_was_and_the_company_of_a_text_means_nothing(few, model):
    before, after = (checkpoint.read(place).tensors() for place in (model, few / "out"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    trained = regard.load(few / "out", device="cpu")
    many = trained.classify(["A X", "B Y Z A B C D", "N"] * 50)
    alone = [trained.classify(text)[0].probability for text in ("A X", "B Y Z A B C D", "N")]
    np.testing.assert_allclose([record.probability for record in many[:3]], alone, atol=1e-6)


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        ("text,label\nA,x\nB,x\n", [], "there must be two labels at least"),
        ("text,label\nA,x\nB,y\n", ["penalty=-1"], "penalty"),
        ("text,label\nA,x\nB,y\n", ["--masked"], "--few fits a head to its own files"),
        ("text,label\nA,x\nB,y\n", None, "--few needs a model"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_a_line(model, tmp_path, capsys, content, more, message):
    (tmp_path / "a.csv").write_text(content)
    begin = [] if more is None else ["--from", str(model)]
    words = ["train", "--few", str(tmp_path / "a.csv"), *begin, "--out", str(tmp_path / "out"), *(more or [])]
    assert run([*words, "--device", "cpu"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_contrast_tunes_the_body_that_is_kept_and_leaves_the_parent_alone(few, model, tmp_path, capsys):
    words = ["train", "--few", str(few / "texts.csv"), "--from", str(model), "--device", "cpu", "steps=30", "rate=1e-2"]
    before = {name: tensor.clone() for name, tensor in checkpoint.read(model).tensors().items()}
    records = {}
    for name in ("a", "b"):
        assert run([*words, "--out", str(tmp_path / name)]) == 0
        records[name] = capsys.readouterr()
    assert "tuned by contrast in 30 steps (contrast=off leaves them frozen)" in records["a"].err
    assert "by cross-validation before the body was tuned; --valid measures it after" in records["a"].out
    parent = checkpoint.read(model).tensors()
    assert all(torch.equal(before[name], parent[name]) for name in before)
    first, again = (checkpoint.read(tmp_path / name).tensors() for name in ("a", "b"))
    assert first.keys() == before.keys()
    assert all(torch.equal(first[name], again[name]) for name in first), "the same seed gives the same weights"
    assert any(not torch.equal(first[name], before[name]) for name in before)
    tuned, frozen = (regard.load(place, device="cpu") for place in (tmp_path / "a", few / "out"))
    texts = [f"{letter} {other}" for letters in SIDES.values() for letter in letters for other in "XYZ"]
    labels = torch.arange(24) // 12
    strains = [float(cosine_loss(torch.from_numpy(record.embedder.embed(texts)), labels)) for record in (tuned, frozen)]
    assert strains[0] < 0.2 * strains[1]
    assert tuned.look("A X").facts["answer"] == "first"
    assert tuned.evaluate(few / "texts.csv").details["accuracy"] == checkpoint.read(tmp_path / "a").metrics["fitted"]
    assert run(["embed", str(tmp_path / "a"), "A X", "--device", "cpu"]) == 0


def test_few_texts_and_a_model_to_start_from_choose_it_and_a_word_chooses_otherwise(few, model, tmp_path, capsys):
    words = ["train", str(few / "texts.csv"), "--from", str(model), "--device", "cpu"]
    assert run([*words, "--out", str(tmp_path / "chosen"), "--valid", str(few / "texts.csv")]) == 0
    out, captured = capsys.readouterr()
    assert "% on the validation files (always the commonest label: 50.0%)" in out
    assert "12 of each of 2 labels; a linear head on" in captured
    assert f"{few / 'texts.csv'}: few labelled texts: fitting a head to vectors, as --few does (--task " in captured
    assert isinstance(regard.load(tmp_path / "chosen", device="cpu"), FewShot)
    short = ["training.steps=2", "training.eval_every=2"]
    assert run([*words, "--out", str(tmp_path / "tuned"), *short]) == 0
    assert "as --few does" not in capsys.readouterr().err
    assert not isinstance(regard.load(tmp_path / "tuned", device="cpu"), FewShot)


def test_many_texts_pairs_and_other_models_are_not_few(model, tmp_path):
    parent = checkpoint.read(model)
    rows = [f"text {number},{'ab'[number % 2]}" for number in range(102)]
    for name, count, expected in (("fifty", 100, True), ("more", 102, False)):
        (tmp_path / name).with_suffix(".csv").write_text("text,label\n" + "\n".join(rows[:count]) + "\n")
        assert is_few_shot_data([{"path": str(tmp_path / f"{name}.csv")}], parent) is expected
    (tmp_path / "pairs.csv").write_text("premise,hypothesis,label\nA,B,x\nB,A,y\n")
    assert not is_few_shot_data(
        [{"path": str(tmp_path / "pairs.csv"), "text": ["premise", "hypothesis"], "label": "label"}], parent
    )
    assert not is_few_shot_data(
        [{"path": str(tmp_path / "fifty.csv")}], checkpoint.read(recipe.shipped.models()["en-fr"].path)
    )


def test_a_label_that_was_not_fitted_is_named_with_its_line(few, tmp_path, capsys):
    (tmp_path / "b.csv").write_text("text,label\nA,first\nB,never\n")
    assert run(["evaluate", str(few / "out"), str(tmp_path / "b.csv"), "--device", "cpu"]) == 1
    assert "b.csv:3: the label 'never' is none of the training labels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("right", "counts", "doubted"),
    [(17, [16, 16], True), (26, [16, 16], False), (24, [24, 8], True), (2600, [2500, 2500], False)],
)
def test_an_accuracy_within_chance_is_called_so(right, counts, doubted):
    lines = doubt_accuracy(right, counts)
    assert len(lines) == doubted
    assert all("is not beyond chance: always the commonest label has" in line for line in lines)
