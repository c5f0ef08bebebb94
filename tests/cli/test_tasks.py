"""Every task through the same commands: predict, evaluate, compare, explain, cost."""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from regard import recipe
from regard.cli import run
from regard.data import images
from regard.tasks import TASKS
from regard.tasks.vision import drawn
from regard.tasks.vision.drawn import FramesConfig, PictureConfig
from regard.tasks.word2vec.vectors import WordVectors
from tests.documents import ROOT

BRIEF = {"steps": 2, "evaluate": 2, "save": 2, "tensorboard": False, "device": "cpu"}
FROZEN = ROOT / "tests" / "checkpoints" / "format-1"
SEES = ("translation", "classification")


@dataclass(frozen=True)
class Case:
    """A tiny model, inputs for it, and files or options to score it by."""

    model: Path
    inputs: list[str]
    files: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """One of each task, hardly trained."""
    here = tmp_path_factory.mktemp("tasks")
    (here / "pairs.tsv").write_text("Le roi dort.\tThe king sleeps.\nLe loup dort.\tThe wolf sleeps.\n")
    words = [(word, n) for n in range(20) for word in ("good", "bad")]
    (here / "labels.tsv").write_text("".join(f"{word} film {n}\t{word}\n" for word, n in words))
    (here / "tags.txt").write_text("".join(f"the/D film{n}/N is/V {word}/A\n" for word, n in words))
    (here / "text.txt").write_text("masse masse\n" * 20)
    (here / "questions.txt").write_text(": royal\nman woman king queen\n")
    table = ROOT / "regard" / "samples" / "pendulum.csv"
    reader = {"name": "rnn-encoder", "width": 8, "embedding": 8, "pool": "attention"}
    settings = {
        "classification": {"data": {"train": {"path": str(here / "labels.tsv")}, "tokens": 64}, "model": reader},
        "tagging": {"data": {"train": {"path": str(here / "tags.txt")}, "tokens": 64}, "model": reader},
        "language": {"data": {"text": "masse\n" * 40, "lanes": 2, "window": 5}, "model": {"width": 4}},
        "regression": {"data": {"train": str(table), "target": "period", "inputs": ["length", "angle", "gravity"]}},
        "localisation": {"data": {"valid": 4, "batch": 2}, "model": {"channels": [4, 4, 4]}},
        "counting": {"data": {"valid": 4, "batch": 2}, "model": {"channels": [4, 4, 4]}},
    }
    for task, own in settings.items():
        recipe.train({"task": task, "training": BRIEF, **own}, out=here / task, quiet=True)
    WordVectors(["man", "woman", "king", "queen"], np.eye(4, 3, dtype=np.float32) + 0.1).save(here / "word2vec")
    images.write(here / "digit.png", drawn.album(PictureConfig(), "valid")[0].picture)
    for number, frame in enumerate(drawn.album(FramesConfig(), "valid")[0].pictures[:3]):
        images.write(here / f"frame{number}.png", frame)
    frames = [str(here / f"frame{number}.png") for number in range(3)]
    return {
        "translation": Case(FROZEN, ["Le roi dort.", "Le loup dort."], [str(here / "pairs.tsv")]),
        "classification": Case(here / "classification", ["good film 1"], [str(here / "labels.tsv")]),
        "tagging": Case(here / "tagging", ["the film is good"], [str(here / "tags.txt")]),
        "language": Case(here / "language", ["ma"], [str(here / "text.txt")]),
        "regression": Case(here / "regression", ["length=1,angle=10,gravity=9.81"], [str(table)]),
        "localisation": Case(here / "localisation", [str(here / "digit.png")], options=["-s", "count=4"]),
        "counting": Case(here / "counting", frames, options=["-s", "count=4"]),
        "word2vec": Case(here / "word2vec", ["man", "king"], [str(here / "questions.txt")]),
    }


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize("task", TASKS)
def test_predict_answers_every_input_in_its_line(task, cases, tmp_path, capsys):
    case = cases[task]
    lines = said(capsys, "predict", case.model, *case.inputs, "--device", "cpu").splitlines()
    assert len(lines) == len(case.inputs)
    told = [json.loads(line) for line in said(capsys, "predict", case.model, *case.inputs, "--json").splitlines()]
    assert [one["input"] for one in told] == case.inputs
    said(capsys, "predict", case.model, *case.inputs, "-o", tmp_path / "answers.csv")
    with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["input"] for row in rows] == case.inputs
    assert list(rows[0]) == list(told[0])
    assert run(["predict", str(case.model), *case.inputs, "-s", "louder=1"]) == 1
    assert "louder" in capsys.readouterr().err


@pytest.mark.parametrize("task", TASKS)
def test_evaluate_scores_every_task_and_holds_two_models_together(task, cases, tmp_path, capsys, monkeypatch):
    case = cases[task]
    monkeypatch.setenv("COLUMNS", "80")
    shown = said(capsys, "evaluate", case.model, *case.files, *case.options, "--device", "cpu")
    assert max(map(len, shown.splitlines())) <= 80 or task == "translation"  # signatures are copied whole
    told = json.loads(said(capsys, "evaluate", case.model, *case.files, *case.options, "--json"))
    assert told["task"] == task
    assert all(np.isfinite(one["score"]) for one in told["metrics"].values())
    assert run(["evaluate", str(case.model), *case.files, *case.options, "-s", "louder=1"]) == 1
    error = capsys.readouterr().err
    assert "louder" in error
    assert error.count("\n") == 1
    if task not in (
        "language",
        "translation",
    ):  # one short text cannot be resampled; translators are compared elsewhere
        again = said(capsys, "evaluate", case.model, *case.files, *case.options, "--against", case.model)
        assert "randomised" in again


@pytest.mark.parametrize("task", TASKS)
def test_explain_shows_where_it_looked_or_says_that_there_is_nothing(task, cases, tmp_path, capsys):
    case = cases[task]
    if task in SEES:
        assert "%" in said(capsys, "explain", case.model, case.inputs[0])
        told = json.loads(said(capsys, "explain", case.model, case.inputs[0], "--json"))
        assert len(told["weights"]) == len(told["rows"])
        said(capsys, "explain", case.model, case.inputs[0], "-o", tmp_path / "weights.npy")
        assert np.load(tmp_path / "weights.npy").sum(-1) == pytest.approx(1, abs=1e-5)
        return
    assert run(["explain", str(case.model), case.inputs[0]]) == 1
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert "no attention" in error


@pytest.mark.parametrize("task", [task for task in TASKS if task != "word2vec"])
def test_the_cost_of_a_trained_model_has_exactly_its_parameters(task, cases, capsys):
    told = json.loads(said(capsys, "cost", cases[task].model, "--json"))
    model = recipe.load(cases[task].model, device="cpu").model
    assert told["parameters"] == sum(weight.numel() for weight in model.parameters())
    assert "parameters" in said(capsys, "cost", cases[task].model)


def test_runs_of_any_task_are_compared_over_time(cases, capsys, tmp_path):
    for task in ("regression", "language"):
        told = json.loads(said(capsys, "compare", cases[task].model, "--json"))
        assert [point["step"] for point in told["systems"][0]["by_time"]] == [2]
    picture = tmp_path / "time.png"
    said(capsys, "compare", cases["regression"].model, "--metric", "mae", "-o", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
