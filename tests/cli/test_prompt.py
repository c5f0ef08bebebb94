"""Prompts in a terminal: labels with probabilities, a table for a labelled file, one line for what is wrong."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from regard import checkpoint, config
from regard.cli import run
from tests.tasks.pretraining.making import made

pytestmark = pytest.mark.unchecked

TEMPLATE = """\
text: "[X] is a [Z]"
answers:
  wolf: old wolf
  dog: [dog, horse]
names: {"1": dog}
"""
FILE = "text,label\nthe old dog,1\nwhy,wolf\nan old wolf,wolf\na dog,1\n"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT of letters, a template and a labelled file."""
    place = tmp_path_factory.mktemp("prompts")
    task = made("causal-lm", "model.context=48", "data.context=48")
    checkpoint.write(place / "gpt", {**task.contents(), checkpoint.WEIGHTS: checkpoint.weights(task.model)})
    (place / "mine.yaml").write_text(TEMPLATE)
    (place / "a.csv").write_text(FILE)
    return place


def output_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def error_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert run([str(word) for word in words]) != 0
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    return stderr


def test_an_embedder_that_kept_its_masked_head_can_be_prompted(capsys):
    output = output_of(capsys, "prompt", "encoder", "sentiment", "A great film, I loved it.", "--device", "cpu")
    label, *shares = output.split("\t")
    assert label in ("positive", "negative")
    assert [share.split()[1] for share in shares] == ["corrected", "plain"]
    assert all(0 < float(share.split()[0]) < 1 for share in shares)


def test_texts_are_answered_wherever_they_come_from(desk, capsys, monkeypatch, tmp_path):
    texts = ["the old dog", "why"]
    output = output_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", *texts)
    lines = [line.split("\t") for line in output.splitlines()]
    assert [len(line) for line in lines] == [3, 3]
    assert {line[0] for line in lines} <= {"wolf", "dog"}
    (tmp_path / "texts.txt").write_text("the old dog\n\nwhy\n")
    printed = output_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", "-i", tmp_path / "texts.txt")
    assert [line for line in printed.split("\n") if line] == output.splitlines()
    assert printed.split("\n")[1] == ""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the old dog\nwhy\n")))
    assert output_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", "-") == output
    result = json.loads(output_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", "--json", "why"))
    assert result["text"] == "why"
    assert result["label"] == lines[1][0] == max(result["corrected"], key=result["corrected"].get)
    assert sum(result["corrected"].values()) == pytest.approx(1, abs=1e-5)
    assert sum(result["plain"].values()) == pytest.approx(1, abs=1e-5)
    assert f"{result['corrected'][result['label']]:.3f} corrected" == lines[1][1]
    assert f"{result['plain'][result['label']]:.3f} plain" == lines[1][2]


def test_a_labelled_file_is_measured(desk, capsys, tmp_path):
    table = output_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", desk / "a.csv")
    rows = ("chance", "commonest label", "plain", "corrected", "corrected by the texts", "plain, per token")
    assert all(any(line.startswith(row) for line in table.splitlines()) for row in rows)
    assert "4 texts" in table
    result = json.loads(output_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", desk / "a.csv", "--json"))
    assert result["metrics"]["commonest label"]["score"] == 0.5
    assert result["chance"] == 0.5
    assert {"score", "low", "high"} == set(result["metrics"]["corrected"])
    out = tmp_path / "all.csv"
    output_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", desk / "a.csv", "-o", out)
    written_rows = list(csv.reader(out.read_text().splitlines()))
    assert len(written_rows) == 5


def test_templates_are_listed_and_shown(capsys):
    every = output_of(capsys, "prompt", "--list")
    assert "sentiment-fr" in every
    assert len(json.loads(output_of(capsys, "prompt", "--list", "--json"))) == 32
    shown = config.parse(output_of(capsys, "prompt", "--show", "topic"))
    assert "[X]" in shown["text"]
    assert json.loads(output_of(capsys, "prompt", "--show", "topic", "--json"))["text"] == shown["text"]


def test_settings_change_a_template(desk, capsys):
    written = output_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", "-s", "kind=write", "-s", "answers={}",
                     "-s", "length=5", "why")  # fmt: skip
    assert written.count("\n") == 1
    error = error_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", "-s", "anwsers={}", "why")
    assert "unknown setting anwsers, did you mean answers" in error


def test_what_is_wrong_is_said_in_a_line(desk, capsys, tmp_path):
    (tmp_path / "bad.yaml").write_text('text: "[X]"\nanswers: {a: b, c: d}\n')
    model, mine = desk / "gpt", desk / "mine.yaml"
    assert "text has no [Z]" in error_of(capsys, "prompt", model, tmp_path / "bad.yaml", "why")
    assert "give a model and a template" in error_of(capsys, "prompt")
    assert "give a model and a template" in error_of(capsys, "prompt", model)
    assert "no template named sentimen, did you mean sentiment" in error_of(capsys, "prompt", model, "sentimen", "a")
    assert "is a file: give files" in error_of(capsys, "prompt", model, mine, desk / "a.csv", "why")
    assert "is one text, the template takes two" in error_of(
        capsys, "prompt", model, mine, "why", "-s", "text='[X] [Y] [Z]'"
    )
    assert "cut=end" in error_of(capsys, "prompt", model, mine, "the old dog " * 9)
    assert "is a translator; a prompt needs a language model" in error_of(capsys, "prompt", "en-fr", mine, "why")
    (tmp_path / "b.csv").write_text("text,label\nwhy,cat\n")
    assert "b.csv:2: the label 'cat' has no answer" in error_of(capsys, "prompt", model, mine, tmp_path / "b.csv")


def test_two_texts_stand_in_one_line(desk, capsys):
    pair = ["-s", "text='[X] runs, [Y] is a [Z]'"]
    first, second = (
        output_of(capsys, "prompt", desk / "gpt", desk / "mine.yaml", *pair, "--json", text)
        for text in ("the dog ||| it", "the dog\tit")
    )
    assert json.loads(first) == json.loads(second)
    assert json.loads(first)["second"] == "it"
