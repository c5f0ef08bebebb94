"""Questions with choices at a command line: trained on, answered, scored, checked and looked into."""

import io
import json

import pytest

from regard.cli import run

BRIEF = [
    "training.steps=30",
    "training.eval_every=30",
    "training.save_every=30",
    "training.device=cpu",
    "optim.learning_rate=0.02",
]
SMALL = ["model.width=16", "model.heads=2", "model.hidden=16", "model.depth=1", "model.embedding=16"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that chooses the good answer, and the files it learnt from."""
    place = tmp_path_factory.mktemp("choices")
    words = [("good", "bad"), ("bad", "good")]
    rows = [f"story {n}\t{words[n % 2][0]} end\t{words[n % 2][1]} end\t{n % 2}\n" for n in range(60)]
    (place / "a.tsv").write_text("story\tending0\tending1\tlabel\n" + "".join(rows))
    line = ["train", "--choices", str(place / "a.tsv"), "--out", str(place / "run"), *BRIEF, *SMALL]
    assert run([*line, "model.dropout=0", "training.tensorboard=false", "optim.warmup=1"]) == 0
    return place


def output_of(capsys, *words: object) -> str:
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def error_of(capsys, *words: object) -> str:
    assert run([str(word) for word in words]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_a_question_is_answered_by_the_text_of_a_choice(folder, capsys, monkeypatch):
    model = folder / "run"
    [line] = output_of(capsys, "predict", model, "story 3 | bad end | good end", "--device", "cpu").splitlines()
    answer, probability = line.split("\t")
    assert answer == "good end"
    assert 0.5 < float(probability) <= 1
    typed = '{"story": "story 3", "choices": ["good end", "bad end"]}'
    result = json.loads(output_of(capsys, "predict", model, typed, "--json", "--device", "cpu"))
    assert (result["answer"], result["number"], result["choices"]) == ("good end", 1, ["good end", "bad end"])
    assert result["probability"] == max(result["probabilities"]) == result["probabilities"][0]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\tbad\tgood\n\nb\tgood\tbad\tbad\n")))
    lines = output_of(capsys, "predict", model, "-", "--device", "cpu").split("\n")
    assert [line.split("\t")[0] for line in lines] == ["good", "", "good", ""]
    output = output_of(capsys, "predict", model, "-i", folder / "a.tsv", "--json", "--device", "cpu").splitlines()
    assert [json.loads(line)["answer"] for line in output] == ["good end"] * 60
    (folder / "typed.txt").write_text("one | bad | good\ntwo | good | bad\n")
    output = output_of(capsys, "predict", model, "-i", folder / "typed.txt", "--device", "cpu").splitlines()
    assert [line.split("\t")[0] for line in output] == ["good", "good"]


def test_scores_stand_beside_chance(folder, capsys):
    printed = output_of(capsys, "evaluate", folder / "run", folder / "a.tsv", "--device", "cpu")
    assert "questions" in printed
    assert "50.00%" in printed
    result = json.loads(output_of(capsys, "evaluate", folder / "run", folder / "a.tsv", "--json", "--device", "cpu"))
    assert result["metrics"]["accuracy, %"]["score"] == 100
    (folder / "other.jsonl").write_text('{"premise": "a", "options": ["bad", "worse", "good"], "answer": "C"}\n')
    result = json.loads(
        output_of(capsys, "evaluate", folder / "run", folder / "other.jsonl", "--json", "--device", "cpu")
    )
    assert result["chance"] == pytest.approx(1 / 3)


def test_the_pass_of_the_chosen_answer_is_shown(folder, capsys):
    printed = output_of(capsys, "explain", folder / "run", "story 3 | bad end | good end", "--device", "cpu")
    assert "good" in printed.splitlines()[1]
    assert "bad" not in printed.splitlines()[1]
    output_of(capsys, "explain", folder / "run", "a | bad | good", "-o", folder / "page.html", "--device", "cpu")
    assert "good" in (folder / "page.html").read_text()


def test_what_is_no_question_is_said_in_a_line(folder, capsys):
    assert "with fewer than two choices: write" in error_of(capsys, "predict", folder / "run", "story 3")
    (folder / "bad.tsv").write_text("story\tending0\tending1\na\tb\t\n")
    error = error_of(capsys, "predict", folder / "run", "-i", folder / "bad.tsv")
    assert "bad.tsv:2: a question with an empty choice" in error
    (folder / "bad.txt").write_text("one | two | three\nfour | five\n")
    error = error_of(capsys, "predict", folder / "run", "-i", folder / "bad.txt")
    assert "bad.txt:2: a question with fewer than two choices" in error


def test_the_data_is_checked_as_training_reads_it(folder, capsys):
    output = output_of(capsys, "data", "check", "task=choice", f"data.train={folder / 'a.tsv'}", "--tokens")
    assert "can be trained on: 54 questions to learn from, 6 to measure on" in " ".join(output.split())
