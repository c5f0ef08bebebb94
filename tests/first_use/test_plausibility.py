"""Numbers that commands print can be what they claim to be: probabilities sum to 1, shares lie between 0 and 1."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import bench
from regard.cli import run
from tests.tasks.every import Line, lines

DIGITS = 6  # after the point, of probabilities that are printed
LABELLING = ("classification", "pictures", "node-classification", "omics")
ANSWERED = (*LABELLING, "tagging", "choice", "question-answering", "masked-lm", "localisation", "counting")
SCORED = ("translation", "classification", "tagging", "choice", "question-answering", "pictures", "matching", "omics")

pytestmark = pytest.mark.unchecked


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Line]:
    """What to ask the tiny models."""
    return lines(tmp_path_factory.mktemp("asked"))


def answers(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """Run a command and return the JSON that it prints, an object in each line."""
    assert run([*words, "--json", "--device", "cpu"]) == 0, capsys.readouterr().err
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def sums_to_one(probabilities: list[float]) -> bool:
    """True if probabilities sum to 1 as far as they are printed."""
    return math.isclose(sum(probabilities), 1, abs_tol=len(probabilities) * 10**-DIGITS)


def named_numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of some JSON with the name it stands under."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from named_numbers(part, key if isinstance(part, int | float) or not name else f"{name} {key}")
    elif isinstance(value, list):
        for part in value:
            yield from named_numbers(part, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)


@pytest.mark.parametrize(
    ("command", "task"),
    [("predict", task) for task in LABELLING] + [("classify", task) for task in LABELLING if task != "omics"],
)
def test_the_probabilities_of_all_labels_sum_to_one(
    command: str, task: str, tiny_models: dict[str, Path], table: dict[str, Line], capsys: pytest.CaptureFixture[str]
):
    every = ["--all"] if command == "classify" else []
    for answer in answers(capsys, command, str(tiny_models[task]), *table[task].inputs, *every):
        assert sums_to_one(list(answer["all"].values())), answer
        assert answer["probability"] == max(answer["all"].values())
        assert answer["label"] == max(answer["all"], key=answer["all"].get)


def test_all_labels_of_a_text_printed_as_lines_sum_to_one(
    tiny_models: dict[str, Path], capsys: pytest.CaptureFixture[str]
):
    assert run(["classify", str(tiny_models["classification"]), "good film", "--all", "--device", "cpu"]) == 0
    cells = capsys.readouterr().out.rstrip("\n").split("\t")
    assert sum(map(float, cells[1::2])) == pytest.approx(1, abs=0.001 * len(cells))


def test_the_probabilities_of_all_choices_sum_to_one(
    tiny_models: dict[str, Path], table: dict[str, Line], capsys: pytest.CaptureFixture[str]
):
    for answer in answers(capsys, "predict", str(tiny_models["choice"]), *table["choice"].inputs):
        assert sums_to_one(answer["probabilities"]), answer
        assert answer["probability"] == max(answer["probabilities"])
        assert answer["number"] == 1 + answer["probabilities"].index(answer["probability"])


def test_the_probabilities_of_all_candidates_for_a_gap_sum_to_one(
    tiny_models: dict[str, Path], capsys: pytest.CaptureFixture[str]
):
    [answer] = answers(capsys, "fill", str(tiny_models["masked-lm"]), "ma[MASK]s[MASK]", "--top", "1000")
    for candidates in answer["gaps"]:
        probabilities = [candidate["probability"] for candidate in candidates]
        assert sums_to_one(probabilities)
        assert probabilities == sorted(probabilities, reverse=True)


def test_every_word_has_a_tag_and_its_probability(tiny_models: dict[str, Path], capsys: pytest.CaptureFixture[str]):
    [answer] = answers(capsys, "tag", str(tiny_models["tagging"]), "the film is good")
    assert len(answer["words"]) == len(answer["tags"]) == len(answer["probabilities"]) == 4
    labels = {"D", "N", "V", "A"}
    assert set(answer["tags"]) <= labels
    assert all(1 / len(labels) <= probability <= 1 for probability in answer["probabilities"])  # the likeliest of four


@pytest.mark.parametrize("task", ANSWERED)
def test_no_probability_lies_beyond_zero_and_one(
    task: str, tiny_models: dict[str, Path], table: dict[str, Line], capsys: pytest.CaptureFixture[str]
):
    printed = answers(capsys, "predict", str(tiny_models[task]), *table[task].inputs)
    probabilities = [number for name, number in named_numbers(printed) if "probabilit" in name or name == "no_answer"]
    assert probabilities
    assert all(0 <= number <= 1 for number in probabilities), probabilities


@pytest.mark.parametrize("task", SCORED)
def test_scores_lie_within_their_intervals_and_shares_between_zero_and_one(
    task: str, tiny_models: dict[str, Path], table: dict[str, Line], capsys: pytest.CaptureFixture[str]
):
    options = [f"-s{name}={value}" for name, value in table[task].options.items()]
    words = ["evaluate", str(tiny_models[task]), *table[task].files, *options, "--json", "--device", "cpu"]
    assert run(words) == 0, capsys.readouterr().err
    scores = json.loads(capsys.readouterr().out)
    for name, metric in scores["metrics"].items():
        assert metric["low"] <= metric["score"] <= metric["high"], (name, metric)
        assert not name.endswith("%") or 0 <= metric["low"] <= metric["high"] <= 100, (name, metric)
    for name in ("accuracy", "f1", "exact", "precision", "recall"):
        assert 0 <= scores.get(name, 0) <= 1
    assert scores.get("loss", 0) >= 0


@pytest.mark.parametrize("task", ["regression", "similarity", "classification", "pictures"])
def test_no_error_that_evaluate_lists_is_negative_and_no_right_answer_is_among_the_wrong_ones(
    task: str, tiny_models: dict[str, Path], table: dict[str, Line], capsys: pytest.CaptureFixture[str]
):
    assert run(["evaluate", str(tiny_models[task]), *table[task].files, "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "error -" not in printed
    wrong = re.findall(r"^right +(.*?) *\nanswer +(.*?) *$", printed, re.MULTILINE)
    assert wrong
    assert all(right != answer for right, answer in wrong), wrong


def test_a_table_of_classes_that_are_all_right_lists_no_wrong_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = [f"{n}.5,{n % 3}.25,{'long' if n >= 20 else 'short'}" for n in range(40)]
    file = tmp_path / "lengths.csv"
    file.write_text("\n".join(["length,width,size", *rows, ""]), encoding="utf-8")
    settings = {"optim.learning_rate": 0.05, "optim.warmup": 1, "training.steps": 150, "training.eval_every": 150}
    changes = [f"{name}={value}" for name, value in settings.items()]
    regard.train(
        [file], "model.hidden=[16]", *changes, "training.device=cpu", kind="table", out=tmp_path / "run", quiet=True
    )
    assert run(["evaluate", str(tmp_path / "run"), str(file), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    wrong = re.findall(r"^right +(.*?) *\nanswer +(.*?) *$", printed, re.MULTILINE)
    assert all(right != answer for right, answer in wrong), printed


def test_nothing_is_faster_than_the_least_time_it_could_take(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench, "BATCHES", (1,))
    beyond_any_core = bench.Limits("a processor", operations=1e11, bytes=1e11)
    for speed in bench.measure_answers(regard.load("en-fr", device="cpu"), [], beyond_any_core):
        assert 0 < speed.least <= speed.milliseconds, speed


def test_the_cost_of_a_run_is_that_of_the_run_itself(tiny_models: dict[str, Path], capsys: pytest.CaptureFixture[str]):
    run_folder = str(tiny_models["regression"])
    assert run(["cost", run_folder, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["plan"]["steps"], told["batch"]) == (1, 16)
    assert run(["cost", run_folder]) == 0
    assert "H100" not in capsys.readouterr().out
