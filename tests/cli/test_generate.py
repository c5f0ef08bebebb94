"""Language models in a terminal: texts continued, measured, and as they were while training went on."""

import gzip
import json
import re
from pathlib import Path

import pytest

from regard import recipe
from regard.cli import run
from tests.documents import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learnt to spell masse."""
    out = tmp_path_factory.mktemp("writing") / "run"
    recipe.train(recipe.settings(ROOT / "recipes" / "masse.yaml"), out=out, quiet=True)
    return out


def output_of(capsys, *line: object) -> str:
    assert run([str(word) for word in line]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_generate_goes_on_with_a_text(folder, capsys):
    assert output_of(capsys, "generate", folder, "ma", "--length", 3, "--temperature", 0) == "masse\n"
    assert output_of(capsys, "generate", folder, "--length", 5, "--top-k", 1) == "masse\n"
    assert (
        output_of(capsys, "generate", folder, "--length", 5, "--top-p", 0.5, "--min-p", 0.9, "--seed", 3) == "masse\n"
    )
    two = output_of(capsys, "generate", folder, "m", "--length", 4, "--samples", 2, "--temperature", 0.1)
    assert two == "masse\n---\nmasse\n"


def test_generate_answers_in_json(folder, capsys):
    output = output_of(capsys, "generate", folder, "m", "--length", 4, "--samples", 2, "--temperature", 0.1, "--json")
    records = [json.loads(line) for line in output.splitlines()]
    assert [record["text"] for record in records] == ["masse", "masse"]
    assert all(-0.1 < record["score"] < 0 for record in records)


def test_evaluate_measures_how_much_a_text_surprises_the_model(folder, tmp_path, capsys):
    with gzip.open(tmp_path / "text.gz", "wb") as file:
        file.write(b"masse\nmasse\n")
    table = output_of(capsys, "evaluate", folder, tmp_path / "text.gz")
    assert re.search(r"tokens +12\b", table)
    result = json.loads(output_of(capsys, "evaluate", folder, tmp_path / "text.gz", "--json"))
    assert result["loss"] == result["nats_per_character"] < 0.01
    assert result["perplexity"] == pytest.approx(1, abs=0.05)


def test_texts_are_written_to_files_and_begin_with_files(folder, tmp_path, capsys):
    (tmp_path / "begin.txt").write_text("ma")
    how = ["--length", "3", "--temperature", "0"]
    assert output_of(capsys, "generate", folder, "-i", tmp_path / "begin.txt", *how, "-o", tmp_path / "a.txt") == ""
    assert (tmp_path / "a.txt").read_text() == "masse\n"
    output_of(capsys, "generate", folder, "ma", *how, "-s", "samples=2", "-o", tmp_path / "a.jsonl")
    assert [json.loads(line)["text"] for line in (tmp_path / "a.jsonl").read_text().splitlines()] == ["masse"] * 2
    assert run(["generate", str(folder), "-i", str(tmp_path / "begin.txt"), "-o", str(tmp_path / "begin.txt")]) == 1
    assert "would be overwritten" in capsys.readouterr().err


def test_samples_stand_side_by_side(folder, capsys):
    output = output_of(capsys, "runs", "samples", folder, "--columns", 3, "--rows", 1)
    steps = ("step 20", "step 40", "step 60", "step 80", "step 100", "step 120")
    assert [step for step in steps if step in output] == ["step 20", "step 80", "step 120"]
    assert "masse" in output
    assert "step 120" in output_of(capsys, "runs", "samples", folder, "--columns", 1)
    assert list(json.loads(output_of(capsys, "runs", "samples", folder, "--json"))) == [
        "20",
        "40",
        "60",
        "80",
        "100",
        "120",
    ]


def test_samples_of_other_tasks_say_what_was_asked(tmp_path, capsys):
    for step, text in ((5, "a cat"), (10, "a dog")):
        (tmp_path / "samples").mkdir(exist_ok=True)
        sample = {"source": "un chien noir", "reference": "a black dog", "answer": text}
        (tmp_path / "samples" / f"step-{step}.json").write_text(json.dumps([sample], sort_keys=True))
    head, row = (_cells(output_of(capsys, "runs", "samples", tmp_path), mark) for mark in ("step 10", "a dog"))
    assert head == ["source", "reference", "step 5", "step 10"]
    assert row == ["un chien noir", "a black dog", "a cat", "a dog"]
    assert _cells(output_of(capsys, "runs", "samples", tmp_path, "--characters", 10), "a dog")[:2] == [
        "un chie...",
        "a black...",
    ]


def test_samples_of_a_classifier_show_what_was_read_before_its_label(tmp_path, capsys):
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "step-5.json").write_text('[{"answer": "verbe", "label": "adjectif", "read": "vert"}]')
    assert _cells(output_of(capsys, "runs", "samples", tmp_path), "vert") == ["vert", "adjectif", "verbe"]


def _cells(shown: str, mark: str) -> list[str]:
    """The cells of the line of a table that has this in it."""
    [line] = [line for line in shown.splitlines() if mark in line]
    return [cell.strip() for cell in re.split("[┃│]", line)[1:-1]]


def test_a_bad_file_is_to_be_mended_since_there_is_no_setting_for_it(folder, tmp_path, capsys):
    (tmp_path / "bad.txt").write_bytes(b"masse\n\xff\n")
    assert run(["evaluate", str(folder), str(tmp_path / "bad.txt")]) == 1
    assert capsys.readouterr().err.endswith("mend them\n")


def test_a_seed_too_large_is_told_the_range(folder, capsys):
    assert run(["generate", str(folder), "--seed", "9" * 23]) == 2
    assert "18446744073709551615" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["generate", "{folder}", "é"], "never seen 'é'"),
        (["generate", "{folder}", "--top-p", "2"], "top_p must be a number above 0 and at most 1, not 2.0"),
        (["generate", "runs/nowhere"], "no model at runs/nowhere"),
        (["evaluate", "{folder}", "nowhere.txt"], "no file nowhere.txt"),
        (["runs", "samples", "nowhere"], "nowhere holds no samples"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, capsys, line, message):
    assert run([word.format(folder=folder) for word in line]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_model_that_translates_does_not_write(capsys):
    assert run(["generate", str(recipe.shipped.models()["en-fr"].path)]) == 1
    message = "needs a language model, a model of pixels or a generator of pictures (try regard translate)"
    assert message in capsys.readouterr().err


def test_damaged_samples_are_named(tmp_path, capsys):
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "step-3.json").write_text("[1")
    assert run(["runs", "samples", str(tmp_path)]) == 1
    assert "step-3.json is damaged" in capsys.readouterr().err
