"""The command line as a stranger meets it: one line for every mistake, counts that match, data on stdout."""

import io
import json
import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import TextIO

import pytest
from rich.cells import cell_len

from regard import demo
from regard.cli import run
from tests.conftest import Corpus


def words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("train --sorce x", "--source"),
        ("tran", "train"),
        ("translate", "give either texts"),
        ("translate nowhere/at/all hello", "no model at nowhere/at/all"),
        ("train missing.yaml", "missing.yaml"),
        ("train", "give a recipe file"),
        ("train --source a.fr", "--source and --target go together"),
        ("train --source a.fr --target a.en --resume --overwrite", "give one of them"),
        ("train --source a.fr --target a.en", "a.fr"),
        ("train --source a.fr --target a.en optim.warmpu=1", "did you mean warmup"),
        ("cost nothing", "nothing is neither a recipe file, a run folder, a checkpoint nor a preset; there are"),
        ("cost base --set gpuu=A100", "did you mean gpu"),
        ("cost base --set gpu=Z9000", "unknown GPU"),
        ("train --resume", "--resume --out runs/NAME"),
        ("train --resume --out runs/none", "there is no run to resume; leave --resume out to start one"),
        ("train --source a.fr --target ./a.fr", "a text is no translation of itself"),
        ("train --source a.fr --target a.en model=big", "not 'big', write model.preset=big"),
        ("train --source a.fr --target a.en model=3", "model must be a section"),
        ("train --source a.fr --target a.en training=fast", "training must be a section of `name: value` lines"),
        ("train --source a.fr --target a.en data=all", "data must be a section"),
        ("train --source a.fr --target a.en optim.max_lr=1", "it is called optim.learning_rate here"),
        ("train --source a.fr --target a.en decoding.beams=0", "decoding.beams must be a whole number from 1"),
        ("train --source a.fr --target a.en model.name=seq2seq model.preset=big", "seq2seq has no presets"),
        ("lab positions sinusoidal", "-o positions.png"),
        ("demo --seconds 0", "seconds"),
    ],
)
def test_a_mistake_is_answered_in_one_line_with_the_remedy(
    command: str, told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert run(words(command)) != 0
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert error.startswith("regard: ")
    assert told in error
    assert list(tmp_path.iterdir()) == []


def test_train_then_translate_from_two_files(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    files = f"--source {corpus.source} --target {corpus.target}"
    assert run(words(f"train {files} training.steps=2 training.tensorboard=false tokenizer.vocab=320")) == 0
    assert "bleu" in capsys.readouterr().out
    assert run(words("train training.steps=3 --resume --out runs/train")) == 0
    assert "3 steps, stopped by steps" in capsys.readouterr().out
    assert run(["translate", "runs/train", "Le roi dort."]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_lines_of_standard_input_match_lines_of_output(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    text = "Le roi dort.\n\n  Le loup mange !  \r\nLe chat\u2028dort.\x85\n\nLe roi dort. Le loup dort."
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(["translate", str(trained), "-"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 7
    assert lines[-1] == ""
    assert lines[0] == "The king sleeps."
    assert lines[1] == lines[4] == ""
    assert lines[2].startswith("  ")
    assert lines[2].endswith("  ")
    assert lines[5] == "The king sleeps. The wolf sleeps."


def test_files_in_and_out(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "in.fr").write_text("Le roi dort.\n\nLe loup dort !\n", encoding="utf-8")
    command = ["translate", str(trained), "-i", str(tmp_path / "in.fr"), "-o", str(tmp_path / "out.en")]
    assert run(command) == 0
    assert (tmp_path / "out.en").read_text(encoding="utf-8") == "The king sleeps.\n\nThe wolf sleeps!\n"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("translate -i x.en -o x.en", "x.en is also the input and would be overwritten"),
        ("translate --input x.en --output ./folder/../x.en", "would be overwritten"),
        ("translate hello --terms x.en -o x.en", "would be overwritten"),
        ("words export v.txt -o v.txt", "would be overwritten"),
        ("locate ./nomodel p.png -o p.png", "would be overwritten"),
        ("evaluate en-fr x.csv -o x.csv", "would be overwritten"),
        ("compare x.en x.csv -i x.en -o x.csv", "would be overwritten"),
        ("translate --to fr x.en", "x.en is a file: use -i x.en to read it"),
        ("translate folder/y.en --to fr", "folder/y.en is a file: use -i folder/y.en"),
        ("explain x.en", "x.en is a file: use - < x.en"),
        ("classify ./nomodel x.en", "x.en is a file: use -i x.en"),
        ("cost folder", "folder is neither a recipe file"),
    ],
)
def test_files_that_are_there_are_neither_overwritten_nor_taken_for_texts(
    command: str, told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name in ("x.en", "v.txt", "p.png", "x.csv", "folder/y.en"):
        Path(name).write_text("I like tea.\n")
    assert run(words(command)) == 1
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert told in error
    assert Path("x.en").read_text() == "I like tea.\n"


def test_another_model_is_trained_from_two_files(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    files = f"--source {corpus.source} --target {corpus.target} --out runs/gru"
    small = "model.name=seq2seq model.width=8 model.embedding=8 tokenizer.vocab=320 training.tensorboard=false"
    assert run(words(f"train {files} {small} training.steps=2 objective.eval_examples=2")) == 0
    assert "use it with" in capsys.readouterr().out
    assert run(words("cost runs/gru -s length=6 -s target=5")) == 0
    assert "recurrent layers" in capsys.readouterr().out
    assert run(words("train --resume --out runs/none")) == 1
    assert capsys.readouterr().err == "regard: runs/none: there is no run to resume; there are runs/gru\n"


def test_a_run_and_its_best_checkpoint_cost_the_same(trained: Path, capsys: pytest.CaptureFixture[str]):
    bills = []
    for path in (trained, trained / "best"):
        assert run(["cost", str(path), "--json"]) == 0
        bills.append(json.loads(capsys.readouterr().out) | {"model": None})
    assert bills[0] == bills[1]
    assert bills[0]["operations"] > 0


def test_a_closed_output_is_said_and_answers_never_mix_with_what_is_said(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        assert run(["translate", str(trained), "Le chat dort."]) == 1
        assert "standard output is closed" in capsys.readouterr().err
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stderr", None)
        assert run(["translate", str(trained), "--beams", "0", "Le chat dort."]) != 0
        sys.stderr.close()
    assert capsys.readouterr().out == "", "a complaint that nobody hears is no answer"


def unread() -> TextIO:
    """A pipe whose reader went away."""
    read, write = os.pipe()
    os.close(read)
    return open(write, "w", encoding="utf-8")


def test_a_training_goes_on_when_the_reader_of_its_log_goes_away(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = f"--source {corpus.source} --target {corpus.target} --out {tmp_path / 'run'}"
    small = "model.width=16 model.heads=2 model.encoder=1 model.decoder=1 tokenizer.vocab=320 objective.eval_examples=2"
    command = f"train {files} {small} training.steps=4 training.log_every=1 training.tensorboard=false"
    with monkeypatch.context() as patched, unread() as out, unread() as error:
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", error)
        status = run(words(command))
        os.dup2(os.open(os.devnull, os.O_WRONLY), error.fileno())  # what is left in it has to go somewhere
    assert status == 0
    assert (tmp_path / "run" / "best" / "manifest.json").exists()
    assert "step 4 " in (tmp_path / "run" / "train.log").read_text(encoding="utf-8")


def test_a_failure_half_way_leaves_the_old_output_alone(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "in.fr").write_bytes(b"Le roi dort.\n\xff\xfe\n")
    (tmp_path / "out.en").write_text("precious\n")
    command = ["translate", str(trained), "-i", str(tmp_path / "in.fr"), "-o", str(tmp_path / "out.en")]
    assert run(command) == 1
    assert "in.fr:2: not UTF-8" in capsys.readouterr().err
    assert (tmp_path / "out.en").read_text() == "precious\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.fr", "out.en"]


def test_json_has_scores_and_alternatives(trained: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["translate", str(trained), "Le roi dort.", "--json", "--nbest", "3"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["translation"] == "The king sleeps."
    assert answer["score"] < 0
    assert len(answer["alternatives"]) == 2
    assert all(other["translation"] != answer["translation"] for other in answer["alternatives"])


def test_nbest_numbers_its_lines(trained: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["translate", str(trained), "Le roi dort.", "Le loup dort.", "--nbest", "2"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    assert rows[0][2] == "The king sleeps."


def test_evaluate_scores_a_model_and_compares_it_with_answers(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    for name, lines in {
        "test.fr": ["Le roi dort.", "Le loup mange !", "Le chat noir dort."],
        "test.en": ["The king sleeps.", "The wolf eats!", "The black cat sleeps."],
        "other.en": ["The king.", "The wolf!", "The cat."],
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = [str(tmp_path / "test.fr"), str(tmp_path / "test.en")]
    against = ["--against", str(tmp_path / "other.en"), "-o", str(tmp_path / "both.html")]
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["evaluate", str(trained), *files, *against]) == 0
    printed = capsys.readouterr().out
    assert "BLEU" in printed
    assert "chrF" in printed
    assert "p, randomised" in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 80
    assert re.search(r"^BLEU nrefs:1\|\S+$", printed, re.MULTILINE), "a signature that can be copied"
    assert (tmp_path / "both.html").read_text(encoding="utf-8").startswith("<!")
    for name in ("by.png", "all.json", "every.csv"):
        assert run(["evaluate", str(trained), *files, "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).stat().st_size > 100
    capsys.readouterr()
    assert run(["evaluate", str(trained), *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["BLEU"]["score"] > 50
    assert run(["evaluate", str(trained), *files, "-o", str(tmp_path / "one.html")]) == 1
    assert "shows two systems side by side: give one --against" in capsys.readouterr().err
    assert run(["evaluate", str(trained), *files, "--metric", "errors"]) == 0
    assert "wrong answers" in capsys.readouterr().out


def test_tags_come_back_and_alternatives_are_told(trained: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["translate", str(trained), "Le <b>chat</b> dort.", "--html"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("<b>") == printed.count("</b>") == 1
    assert run(["translate", str(trained), "Le roi dort.", "--alternatives"]) == 0
    assert "%" in capsys.readouterr().out


def test_data_check_says_whether_it_can_be_trained_on(corpus: Corpus, capsys: pytest.CaptureFixture[str]):
    files = ["--source", str(corpus.source), "--target", str(corpus.target)]
    assert run(["data", "check", *files]) == 0
    assert "can be trained on" in " ".join(capsys.readouterr().out.split())
    corpus.target.write_text("one line\n", encoding="utf-8")
    assert run(["data", "check", *files, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"]


def test_runs_are_listed_and_compared(trained: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["runs", "--in", str(trained.parent)]) == 0
    assert "finished" in capsys.readouterr().out
    assert run(["runs", "diff", str(trained), str(trained)]) == 0
    assert "do not differ" in capsys.readouterr().out
    assert run(["runs", "--in", str(trained.parent), "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert (told["state"], told["step"]) == ("finished", 150)


def test_the_shipped_model_translates_both_ways_and_guesses_the_direction(capsys: pytest.CaptureFixture[str]):
    assert run(["translate", "--to", "fr", "I am tired."]) == 0
    assert "fatigué" in capsys.readouterr().out
    assert run(["translate", "Je suis fatigué."]) == 0
    out, error = capsys.readouterr()
    assert "tired" in out
    assert "translating to en" in error


def test_complexity_prints_the_table_and_cost_the_bill(capsys: pytest.CaptureFixture[str]):
    assert run(["lab", "complexity", "--no-measure"]) == 0
    printed = capsys.readouterr().out
    assert "O(n² d)" in printed
    assert "1.10e+12" in printed
    assert "1.68e+07" in printed
    assert run(["lab", "complexity", "--no-measure", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"][0]["weights"] == 512**2
    assert run(["cost", "vgg16"]) == 0
    assert "138,357,544" in capsys.readouterr().out
    assert run(["cost", "stories15m", "-s", "length=8", "-s", "tokens=1000000000", "-s", "gpu=T4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["operations"] == pytest.approx(1e9 * told["training"])
    assert told["use"]["half"]["256"] == 2 * told["parameters"] + 2 * 256 * 2 * 6 * 288


def test_positions_are_judged_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["lab", "positions", "binary", "-o", str(tmp_path / "binary.png")]) == 0
    assert "normalised" in capsys.readouterr().out
    assert (tmp_path / "binary.png").stat().st_size > 1000
    assert run(["lab", "positions", "--json"]) == 0
    told = {one["scheme"]: one for one in json.loads(capsys.readouterr().out)}
    properties = {"acts_on": "embeddings", "unique": True, "bounded": True, "steady": True}
    assert told["sinusoidal"] == {"scheme": "sinusoidal", **properties}


def test_back_propagation_by_hand_is_that_of_autograd(capsys: pytest.CaptureFixture[str]):
    assert run(["lab", "by-hand", "abab abab", "--steps", "60", "--width", "12", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert max(told["differences"].values()) < 1e-9
    assert told["losses"][-1] < told["losses"][0] / 2
    assert len(told["losses"]) == 61
    assert run(["lab", "by-hand", "aaa"]) == 1
    assert "nothing to predict" in capsys.readouterr().err


@pytest.mark.unchecked
def test_the_demo_trains_scores_translates_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    read = demo.pairs
    monkeypatch.setattr(demo, "pairs", lambda *asked: islice(read(*asked), 40))
    assert run(["demo", "--seconds", "2", "--out", str(tmp_path / "demo")]) == 0
    printed = capsys.readouterr().out
    assert "BLEU" in printed
    assert printed.count("│") >= 10
    assert (tmp_path / "demo" / "alignment.png").read_bytes().startswith(b"\x89PNG")
    assert max(cell_len(line) for line in printed.splitlines() if "│" in line) <= 80


def test_translating_imports_nothing_that_only_scores_draws_or_logs():
    heavy = ("matplotlib", "sacrebleu", "tensorboard", "sympy", "pandas", "scipy", "PIL")
    code = (
        "import regard, sys; print(regard.load().translate('Where is the station?', to='fr')); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["Où est la gare ?", "[]"]
