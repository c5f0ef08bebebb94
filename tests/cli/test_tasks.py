"""Every task through the same commands: predict, evaluate, compare, explain, cost."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from regard import config, recipe
from regard.cli import run
from regard.tasks import TASKS
from regard.tasks.word2vec.vectors import WordVectors
from tests.documents import ROOT
from tests.tasks.every import lines

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere

BRIEF = {"steps": 2, "eval_every": 2, "save_every": 2, "tensorboard": False, "device": "cpu"}
FROZEN = ROOT / "tests" / "checkpoints" / "format-1"
MADE = ("translation", "word2vec")  # models that no run here has trained


@dataclass(frozen=True)
class Case:
    """A hardly trained model, inputs for it, and files or options to score it by."""

    model: Path
    inputs: list[str]
    files: list[str]
    options: list[str]
    looks: bool


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """One of each task."""
    here = tmp_path_factory.mktemp("tasks")
    words = ["nouna", "nounb", "verba", "verbb"]
    WordVectors(words, np.eye(4, 3, dtype=np.float32) + 0.1).save(here / "word2vec")
    run_folders = dict(zip(MADE, (FROZEN, here / "word2vec"), strict=True))
    cases_by_task = {}
    for task, line in lines(here).items():
        model = run_folders.get(task, here / task)
        if task not in run_folders:
            recipe.train({"task": task, **line.settings, "training": BRIEF}, out=model, quiet=True)
        options = [word for name, value in line.options.items() for word in ("-s", f"{name}={value}")]
        cases_by_task[task] = Case(model, line.inputs, line.files, options, line.looks)
    return cases_by_task


def output_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize("task", TASKS)
def test_predict_answers_every_input_in_its_line(task, cases, tmp_path, capsys):
    case = cases[task]
    lines = output_of(capsys, "predict", case.model, *case.inputs, "--device", "cpu").splitlines()
    assert len(lines) == len(case.inputs)
    records = [
        json.loads(line) for line in output_of(capsys, "predict", case.model, *case.inputs, "--json").splitlines()
    ]
    assert [record["input"] for record in records] == case.inputs
    output_of(capsys, "predict", case.model, *case.inputs, "-o", tmp_path / "answers.csv")
    with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["input"] for row in rows] == case.inputs
    assert list(rows[0]) == list(records[0])
    assert run(["predict", str(case.model), *case.inputs, "-s", "louder=1"]) == 1
    assert "louder" in capsys.readouterr().err


@pytest.mark.parametrize("task", TASKS)
def test_evaluate_scores_every_task_and_holds_two_models_together(task, cases, tmp_path, capsys, monkeypatch):
    case = cases[task]
    monkeypatch.setenv("COLUMNS", "80")
    shown = output_of(capsys, "evaluate", case.model, *case.files, *case.options, "--device", "cpu")
    assert max(map(len, shown.splitlines())) <= 80 or task in ("translation", "captions")  # signatures are copied whole
    result = json.loads(output_of(capsys, "evaluate", case.model, *case.files, *case.options, "--json"))
    assert result["task"] == task
    assert all(np.isfinite(record["score"]) for record in result["metrics"].values())
    assert run(["evaluate", str(case.model), *case.files, *case.options, "-s", "louder=1"]) == 1
    error = capsys.readouterr().err
    assert "louder" in error
    assert error.count("\n") == 1
    if task not in (
        "language",
        "translation",
    ):  # one short text cannot be resampled; translators are compared elsewhere
        again = output_of(capsys, "evaluate", case.model, *case.files, *case.options, "--against", case.model)
        assert "randomised" in again


@pytest.mark.parametrize("task", TASKS)
def test_explain_shows_where_it_looked_or_says_that_there_is_nothing(task, cases, tmp_path, capsys):
    case = cases[task]
    if case.looks:
        shown = output_of(capsys, "explain", case.model, case.inputs[0])
        assert "%" in shown or "weight" in shown.splitlines()[1], "shares, or a table of edges"
        result = json.loads(output_of(capsys, "explain", case.model, case.inputs[0], "--json"))
        assert len(result["weights"]) == len(result["rows"])
        output_of(capsys, "explain", case.model, case.inputs[0], "-o", tmp_path / "weights.npy")
        assert np.load(tmp_path / "weights.npy").sum(-1) == pytest.approx(1, abs=1e-5)
        return
    assert run(["explain", str(case.model), case.inputs[0]]) == 1
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert "no attention" in error


@pytest.mark.parametrize("task", TASKS)
def test_explain_refuses_an_attention_that_a_model_has_not_before_it_looks(task, cases, tmp_path, capsys, monkeypatch):
    case = cases[task]
    if not case.looks:
        return
    model, input_text, trace = str(case.model), case.inputs[0], tmp_path / "trace.json"
    output_of(capsys, "explain", model, input_text, "-o", trace)
    result = [weights["name"] for weights in json.loads(trace.read_text(encoding="utf-8"))["weights"]]
    monkeypatch.setattr(type(recipe.load(case.model, device="cpu")), "look", None)
    assert run(["explain", model, input_text, "--attention", "grad-cam"]) == 1
    error = capsys.readouterr().err
    assert (error.count("\n"), "no weights called grad-cam; there are " in error) == (1, True)
    assert set(error.strip().partition("there are ")[2].split(", ")) >= set(result)


@pytest.mark.parametrize("task", TASKS)
def test_the_cost_of_a_trained_model_has_exactly_its_parameters(task, cases, capsys):
    result = json.loads(output_of(capsys, "cost", cases[task].model, "--json", "-s", "length=8"))
    trained = recipe.load(cases[task].model, device="cpu")
    if task == "word2vec":  # vectors of words, and as many of what they are predicted by
        assert result["parameters"] == 2 * trained.vectors.size
        assert result["operations"] == 0
    else:
        assert result["parameters"] == sum(weight.numel() for weight in trained.model.parameters())
        assert result["operations"] > 0
        assert result["memory"]["adamw"]["activations"] > 0


@pytest.mark.parametrize("task", ["translation", "word2vec", "captions"])  # operations, none of them, several parts
def test_the_cost_of_a_trained_model_can_be_read(task, cases, capsys):
    assert "parameters" in output_of(capsys, "cost", cases[task].model, "-s", "length=8")


@pytest.mark.parametrize("task", [name for name in TASKS if name not in MADE])
def test_what_was_chosen_for_a_run_is_what_it_resumes_with(task, cases, tmp_path):
    settings = lines(tmp_path)[task].settings
    recipe_settings = {"task": task, **{name: settings[name] for name in ("data", "tokenizer") if name in settings}}
    kind, resolved = recipe.resolve(recipe_settings)
    begun = kind.resolve(recipe_settings, kind.prepare(resolved))
    checkpoint = recipe.open_model(
        cases[task].model
    )  # with a checkpoint the same settings are chosen, not those of a new model
    resumed = kind.resolve(recipe_settings, kind.prepare(resolved, checkpoint), begun=config.plain(begun))
    assert config.plain(resumed) == config.plain(begun)


@pytest.mark.parametrize("task", TASKS)
def test_the_data_of_every_task_is_checked_before_anything_is_trained_on_it(task, tmp_path, capsys):
    settings = {"task": task, **lines(tmp_path)[task].settings}
    (tmp_path / "mine.yaml").write_text(config.dump(settings), encoding="utf-8")
    assert "can be trained on" in output_of(capsys, "data", "check", tmp_path / "mine.yaml")
    result = json.loads(output_of(capsys, "data", "check", tmp_path / "mine.yaml", "--json"))
    assert result["problems"] == []
    assert result.get("summary", True)
    if str(tmp_path) not in config.dump(settings):
        return  # drawn, or shipped
    for path in tmp_path.rglob("*"):
        if path.suffix != ".yaml" and path.is_file():
            path.unlink()
    assert run(["data", "check", str(tmp_path / "mine.yaml")]) == 1
    captured = capsys.readouterr()
    said_so = " ".join(f"{captured.out} {captured.err}".split())
    assert "no file" in said_so or "no pictures" in said_so


def test_runs_of_any_task_are_compared_over_time(cases, capsys, tmp_path):
    for task in ("regression", "language"):
        result = json.loads(output_of(capsys, "compare", cases[task].model, "--json"))
        assert [point["step"] for point in result["systems"][0]["by_time"]] == [2]
    picture = tmp_path / "time.png"
    output_of(capsys, "compare", cases["regression"].model, "--metric", "mae", "-o", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("task", TASKS)
def test_python_calls_refuse_what_is_no_input_in_a_sentence(task, cases):
    trained = recipe.load(cases[task].model, device="cpu")
    use = getattr(trained, trained.verb)
    optional = trained.verb in ("write", "make", "draw")
    for bad_input in (*([] if optional else [None]), {"a": 1}, b"abc", 3.5, ["a", None], [b"a"], [(None,)]):
        with pytest.raises(
            ValueError,
            match=r"takes|number|must be text|no file|give a pair|missing file|no .* 'a'|a row|an object with",
        ):
            use(bad_input)
    with pytest.raises(ValueError, match=r"evaluate takes the names of files, not None"):
        trained.evaluate([None])


def test_an_evaluation_takes_files_in_a_list_too(cases):
    trained = recipe.load(cases["classification"].model, device="cpu")
    [file] = cases["classification"].files
    assert trained.evaluate([file]).plain() == trained.evaluate(file).plain()
    with pytest.raises(ValueError, match=r"classification/best is measured on labelled texts: name at least one file"):
        trained.evaluate()


def test_a_picture_whose_name_is_no_text_or_has_several_lines_is_answered_on_one_line(cases, tmp_path, capsys):
    model, [picture, *_] = str(cases["pictures"].model), cases["pictures"].inputs
    names = [f"{tmp_path}/caf\udce9.png", f"{tmp_path}/a\nb.png"]
    for name in names:
        Path(name).write_bytes(Path(picture).read_bytes())
    lines = output_of(capsys, "classify", model, *names).splitlines()
    assert [line.split("\t")[0] for line in lines] == [f"{tmp_path}/caf\\udce9.png", f"{tmp_path}/a\\nb.png"]
    output = output_of(capsys, "classify", model, *names, "--json").splitlines()
    assert [json.loads(line)["picture"] for line in output] == names
    output_of(capsys, "classify", model, *names, "-o", tmp_path / "out.jsonl")
    assert [json.loads(line)["picture"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == names
    assert run(["classify", model, "https://example.com/cat.jpg"]) == 1
    output = capsys.readouterr().err
    assert output.startswith("regard: https://example.com/cat.jpg: nothing is fetched: download the picture first")
    assert run(["train", names[0]]) == 1
    assert capsys.readouterr().err == f"regard: {tmp_path}/caf\\udce9.png: this name is not UTF-8, rename it first\n"
