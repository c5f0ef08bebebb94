"""From tables to a trained model: it learns, says what it rests on, shows where it looked, and does without an omic."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import regard
from regard.cli import run
from regard.tasks.omics import drawing
from regard.tasks.omics import importance as importances
from regard.tasks.omics import samples as sample_data
from tests.tasks.omics import cohorts

pytestmark = pytest.mark.unchecked  # whole runs
TRAINING = {"steps": 60, "eval_every": 60, "save_every": 60, "device": "cpu", "threads": 1, "tensorboard": False}
OPTIM = {"name": "adamw", "learning_rate": 0.01, "warmup": 5, "schedule": "cosine"}
SIZES = {"moma": {"modules": 8}, "deeprog": {"width": 16, "heads": 2}}


@pytest.fixture(scope="module", params=SIZES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    place = tmp_path_factory.mktemp(request.param)
    cohorts.write(place / "train", count=80, lacking={"protein": 8})
    cohorts.write(place / "test", count=60, seed=5)
    model = {"name": request.param, **SIZES[request.param]}
    settings = {"task": "omics", "data": {**cohorts.data(place / "train"), "batch_size": 32}, "model": model}
    regard.train({**settings, "optim": OPTIM, "training": TRAINING}, out=place / "run", quiet=True)
    return regard.load(place / "run", device="cpu"), place


def files(place: Path, *omics: str) -> list[str]:
    return [str(place / "test" / f"{omic}.csv") for omic in omics or cohorts.OMICS]


def labels(place: Path) -> str:
    return str(place / "test" / "labels.csv")


def test_classes_are_told_of_samples_never_seen_and_without_an_omic(trained: tuple[Any, Path]) -> None:
    model, place = trained
    whole = model.evaluate(*files(place), labels=labels(place))
    assert whole.metrics["accuracy, %"] > 93  # guessing has 50
    assert whole.details["auc"] > 0.98
    lacking = model.evaluate(*files(place, "mirna", "mrna"), labels=labels(place))
    assert lacking.metrics["accuracy, %"] > 88
    assert lacking.measures["missing"] == "protein"
    assert model.evaluate(*files(place, "mirna"), labels=labels(place)).metrics["accuracy, %"] > 75


def test_the_features_that_tell_the_class_are_the_most_important_and_removing_them_hurts(
    trained: tuple[Any, Path],
) -> None:
    model, place = trained
    found = model.importance(model.join(files(place)))
    assert len(found) == sum(cohorts.OMICS.values())
    first = [each.name for each in found[:5]]
    assert {f"{omic}0" for omic in cohorts.OMICS} <= set(first), "which tell the class, among fifteen"
    samples = labelled(model, place)
    judged = importances.judge(model.model, samples, model.omics, top=3, draws=10)
    assert judged.without_top < judged.all_features - 0.1
    assert judged.believable
    assert judged.without_top < min(judged.without_random)


def labelled(model: Any, place: Path) -> Any:
    found, tables = sample_data.read_for_model(files(place), model.omics)
    return sample_data.add_labels(found, tables, labels(place), model.omics)


def test_what_features_add_to_a_module_along_it_is_all_of_its_length(trained: tuple[Any, Path]) -> None:
    model, place = trained
    if model.model.config.name != "moma":
        pytest.skip("a model without modules")
    samples = labelled(model, place)
    values, present = torch.from_numpy(model.omics.scale(samples)), torch.from_numpy(samples.present)
    for omic, size in enumerate(cohorts.OMICS.values()):
        _, added = drawing.module_contributions(model.model, values, present, omic)
        assert added.shape == (size, 2)
        assert torch.allclose(added.sum(0), torch.tensor([1.0, 0.0]), atol=1e-4)


def test_a_look_shows_modules_or_omics_and_only_those_that_are_there(trained: tuple[Any, Path]) -> None:
    model, place = trained
    full = model.look(model.parse(f"{' '.join(files(place))} sample=s4"))
    assert full.facts["text"] == "sample s4"
    part = model.look(model.parse(f"{' '.join(files(place, 'mrna', 'mirna'))} sample=s4"))
    for trace in (full, part):
        for one in trace.weights:
            assert torch.allclose(one.values.sum(-1), torch.ones(one.values.shape[:2]), atol=1e-5)
    if model.model.config.name == "moma":
        assert len(full.weights) == 6
        assert [one.name for one in part.weights] == ["mrna to mirna", "mirna to mrna"]
        assert full.weights[0].values.shape == (1, 8, 8)
    else:
        assert [one.values.shape for one in (*full.weights, *part.weights)] == [(2, 3, 3), (2, 2, 2)]
        assert [item.text for item in part.items["omics"]] == ["mrna", "mirna"]


def test_a_feature_that_pulls_a_module_back_is_in_the_picture() -> None:
    axes = Figure().subplots()
    drawing._draw_arrows(axes, torch.tensor([[0.5, 0.1], [-0.4, -0.3]]), ["on", "back"])
    left, right = axes.get_xlim()
    assert left < -0.4 < 0.5 < right


def test_commands_answer_score_explain_and_write_importance(
    trained: tuple[Any, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model, place = trained
    genes, picture, folder = tmp_path / "genes.csv", tmp_path / "genes.png", str(place / "run")
    assert run(["predict", folder, *files(place), "--importance", str(genes)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 60
    assert lines[3].split("\t")[:2] == ["s3", "ill"]
    rows = list(csv.reader(genes.read_text().splitlines()))
    assert rows[0] == ["omic", "name", "importance", "along"][: len(rows[0])]
    assert len(rows) == 1 + 15
    assert np.diff([float(row[2]) for row in rows[1:]]).max() <= 0
    assert run(["predict", folder, *files(place), "sample=s3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["input"], told["label"]) == ("s3", "ill")
    assert run(["evaluate", folder, *files(place), "-s", f"labels={labels(place)}", "-s", "importance=true"]) == 0
    assert "auc without top 3" in capsys.readouterr().out
    assert run(["explain", folder, *files(place), "sample=s3", "-o", str(tmp_path / "look.png")]) == 0
    assert (tmp_path / "look.png").stat().st_size > 5000
    status = run(["predict", folder, *files(place), "--importance", str(picture)])
    if model.model.config.name == "moma":
        assert status == 0
        assert picture.stat().st_size > 5000
    else:
        assert status == 1
        assert "no modules to draw vectors on" in capsys.readouterr().err


def test_what_commands_cannot_do_is_said_in_a_line(
    trained: tuple[Any, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, place = trained
    folder = str(place / "run")
    tables = files(place)
    cases = {
        "60 samples in these tables (s0, s1, s2 ...): choose one, sample=s0": ["explain", folder, *tables],
        "labels are needed to score by": ["evaluate", folder, *tables],
        "--labels x.csv goes with --tables": ["train", *tables, "--labels", "x.csv"],
        "--tables needs the labels of the samples": ["train", "--tables", *tables],
        "one table: give two omics or more": ["train", "--tables", tables[0], "--labels", labels(place)],
    }
    cases["is also the input and would be overwritten"] = ["predict", folder, *tables, "-o", tables[0]]
    cases["importance must be true or false"] = ["evaluate", folder, *tables, "-s", "importance=perhaps"]
    cases["answers are written as text: choose jsonl"] = ["predict", folder, *tables, "-o", str(place / "a.png")]
    cases["name them without -i"] = ["predict", folder, "-i", tables[0]]
    cases["run/best is a model of omics"] = ["predict", folder, *tables, "--length", "3"]
    for said, words in cases.items():
        assert run(words) == 1
        error = capsys.readouterr().err.strip()
        assert said in error
        assert len(error.splitlines()) == 1


def test_files_become_a_model_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = cohorts.write(tmp_path / "a")
    words = [
        "train",
        "--tables",
        *tables,
        "--labels",
        str(tmp_path / "a" / "labels.csv"),
        "--out",
        str(tmp_path / "run"),
    ]
    assert run([*words, "training.steps=2", "training.device=cpu", "training.tensorboard=false"]) == 0
    assert "regard predict" in capsys.readouterr().out
    assert regard.load(tmp_path / "run", device="cpu").omics.names == tuple(cohorts.OMICS)


def test_tables_are_checked_before_they_are_learnt_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cohorts.write(tmp_path, count=20)
    tables = [word for omic in cohorts.OMICS for word in ("--tables", str(tmp_path / f"{omic}.csv"))]
    told = str(tmp_path / "labels.csv")
    assert run(["data", "check", *tables, "--labels", told]) == 0
    assert "can be trained on" in capsys.readouterr().out
    assert run(["data", "check", "--labels", told]) != 0
    assert "goes with --tables: name the tables whose samples it labels" in capsys.readouterr().err
