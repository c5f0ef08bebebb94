"""Translators side by side: curves are the runs' own, scores are sacreBLEU's, and strangers are refused in a line."""

import json
import shutil
from pathlib import Path

import pytest

import regard
from regard.cli import run
from regard.cli.grammar import model_name
from regard.tasks.translation import evaluation
from regard.training.history import learning_curve
from tests.conftest import sentences

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere
PAIRS = sentences()[:20]


def width(picture: str) -> int:
    """The width of a PNG file in pixels, as its header says."""
    return int.from_bytes(Path(picture).read_bytes()[16:20], "big")


@pytest.fixture
def desk(tmp_path, trained, monkeypatch):
    """Two runs of translation, a checkpoint, and a test set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("one", "two"):
        shutil.copytree(trained, tmp_path / name)
    for side, texts in zip(("fr", "en"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"test.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return tmp_path


def records(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_curve_is_what_the_run_measured(trained):
    points = learning_curve(trained, "bleu")
    entries = [record for record in records(trained) if record["kind"] == "evaluation"]
    assert [(point.step, point.seconds, point.score) for point in points] == [
        (record["step"], record["seconds"], record["bleu"]) for record in entries
    ]
    assert [point.step for point in points] == [75, 150]
    assert 0 < points[0].seconds < points[1].seconds


def test_json_holds_scores_by_length_and_by_time(desk, capsys):
    command = ["compare", "one", "two", "one/best", "-i", "test.fr", "-i", "test.en", "--labels", "a,b, c", "--json"]
    assert run([*command, "--set", "beams=1"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)["systems"]
    assert [record["name"] for record in result] == ["a", "b", "c"]
    translator = regard.load(desk / "one", device="cpu")
    scores = evaluation.evaluate(translator, PAIRS, beams=1)
    assert result[0]["bleu"] == {"score": scores.scores["bleu"].value, "signature": scores.scores["bleu"].signature}
    assert result[0]["metrics"]["BLEU"]["score"] == pytest.approx(scores.scores["bleu"].value)
    assert result[0]["by_length"] == scores.plain()["by_length"] == result[2]["by_length"]
    assert [point["step"] for point in result[1]["by_time"]] == [75, 150]
    assert "by_time" not in result[2]
    assert "one/best: not a run folder, left out over time" in captured.err


def test_tables_fit_eighty_columns_and_the_picture_has_both_curves(desk, capsys):
    long = "a GRU without any attention,a Transformer of two blocks"
    assert run(["compare", "one", "two", "-i", "test.fr", "-i", "test.en", "--labels", long, "-o", "both.png"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.split()[:2] == ["all", "20"]]
    assert [line for line in lines if "randomised" in line], "paired tests come first"
    assert "both.png: 2 models side by side" in lines
    wide = width("both.png")
    assert run(["compare", "one", "two", "-o", "time.png"]) == 0
    assert run(["compare", "one/best", "-i", "test.fr", "-i", "test.en", "-o", "length.svg"]) == 0
    assert width("time.png") < wide
    assert Path("length.svg").read_text().startswith("<?xml")


def test_runs_that_were_measured_in_another_way_are_said_to_be(desk, capsys):
    (desk / "two" / "config.yaml").write_text(
        (desk / "two" / "config.yaml").read_text().replace("eval_examples: 500", "eval_examples: 7")
    )
    assert run(["compare", "one", "two"]) == 0
    assert "two was measured on other held-out data or in another way" in capsys.readouterr().err


@pytest.fixture
def other(desk):
    """A language model, in a run folder of its own."""
    settings = {"task": "language", "data": {"text": "abc\n" * 30, "batch_size": 2, "window": 5}, "model": {"width": 4}}
    settings["training"] = {"steps": 2, "tensorboard": False, "device": "cpu"}
    return regard.train(settings, out=desk / "writer", quiet=True).folder


@pytest.mark.parametrize("with_test", [True, False])
def test_a_language_model_is_refused_by_name(with_test, desk, other, capsys):
    capsys.readouterr()
    words = ["-i", "test.fr", "-i", "test.en"] if with_test else []
    assert run(["compare", "one", "writer", *words]) == 1
    stderr = capsys.readouterr().err
    assert "models of different tasks cannot be compared: one of translation, writer of language" in stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one", "-i", "test.fr", "-i", "short.en"], "test.fr has 20 lines but short.en has 1"),
        (["one", "nowhere"], "no model at nowhere"),
        (["one/best"], "one/best: not a run folder, so nothing is known over time: name test files by -i"),
        (["one", "two", "--labels", "a"], "give 2 different names between commas"),
        (["one", "two", "--labels", "a,a"], "give 2 different names between commas"),
        (["one", "two", "-o", "x.html"], "give two, and test files by -i"),
        (["one", "--metric", "f1"], "its evaluations have no f1"),
        (["one", "-s", "beams=1"], "beams is for test files: name some by -i"),
        (["one", "-o", "x.bmp"], "cannot draw a bmp file"),
        (["old"], "has no seconds"),
        (["blank"], "no evaluations in its metrics.jsonl"),
    ],
)
def test_bad_input_is_one_line(words, message, desk, capsys):
    (desk / "short.en").write_text("The cat sleeps.\n")
    for name in ("old", "blank"):
        shutil.copytree(desk / "one", desk / name)
        stderr = [
            {key: value for key, value in entries.items() if key != "seconds"} for entries in records(desk / "one")
        ]
        lines = "".join(json.dumps(entries) + "\n" for entries in stderr) if name == "old" else ""
        (desk / name / "metrics.jsonl").write_text(lines)
    assert run(["compare", *words]) == 1
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


def test_an_old_run_is_left_out_over_time_where_sentences_are_given(desk, capsys):
    entries = [{key: value for key, value in entry.items() if key != "seconds"} for entry in records(desk / "two")]
    (desk / "two" / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert run(["compare", "one", "two", "-i", "test.fr", "-i", "test.en", "--json"]) == 0
    captured = capsys.readouterr()
    assert "two: its metrics.jsonl has no seconds" in captured.err
    assert ["by_time" in entry for entry in json.loads(captured.out)["systems"]] == [True, False]


def test_checkpoints_of_runs_are_called_by_both_names(desk):
    newest = next((Path("one") / "checkpoints").iterdir())
    assert [model_name(path) for path in (Path("one"), Path("two/best"), newest)] == [
        "one",
        "two/best",
        f"one/{newest.name}",
    ]


def test_a_language_is_refused_where_no_model_has_a_choice(desk, capsys):
    assert run(["compare", "one", "two", "-i", "test.fr", "-i", "test.en", "--to", "fr"]) == 1
    assert "--to fr: no model here translates to several languages" in capsys.readouterr().err
    assert run(["compare", "one", "two", "--to", "fr"]) == 1
    assert "to is for test files: name some by -i" in capsys.readouterr().err
    assert run(["compare", "one", "two", "--labels", "a,b,c"]) == 1
    assert "give 2 different names" in capsys.readouterr().err
    assert run(["compare", "one", "--labels", "a,b"]) == 1
    assert "give 1 different name between" in capsys.readouterr().err
