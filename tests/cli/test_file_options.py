"""One declaration of what files hold, for every command that takes files to train on."""

import csv
import inspect
from pathlib import Path

import pytest

from regard.cli import data, run, train
from regard.cli.file_options import OPTIONS


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(("neg", "pos")[n % 2], n, f"a film number {n} that was {('dull', 'good')[n % 2]}") for n in range(60)]
    with open("odd.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)


def test_both_commands_have_all_options_of_files():
    for command in (train.train, data.check):
        assert OPTIONS.keys() < inspect.signature(command).parameters.keys()


@pytest.mark.parametrize("words", [["--columns", "3", "1"], ["--columns", "3,1"], ["--columns=3,1"]])
def test_columns_are_named_in_one_grammar_for_checking_and_training(words, capsys):
    assert run(["data", "check", "odd.csv", *words]) == 0
    assert "2 labels" in capsys.readouterr().out
    short = ["training.steps=1", "training.device=cpu", "training.tensorboard=false", "--out", "run"]
    assert run(["train", "--labelled", "odd.csv", *words, *short]) == 0
    assert (Path("run") / "best").exists()
    assert run(["evaluate", "run", "odd.csv", *words]) == 0


def test_columns_take_the_place_of_those_that_were_recognised(capsys):
    assert run(["data", "check", "odd.csv", "--columns", "1", "3"]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_columns_of_files_that_have_none_are_refused_in_a_line(capsys):
    for name, text in (("a.fr", "un chat\n" * 30), ("a.en", "a cat\n" * 30)):
        Path(name).write_text(text)
    assert run(["train", "a.fr", "a.en", "--columns", "1", "2"]) == 1
    assert "--columns are those of files with both texts" in capsys.readouterr().err
    assert run(["train", "--text", "a.fr", "--columns", "1", "2"]) == 1
    assert "--columns are those" in capsys.readouterr().err
