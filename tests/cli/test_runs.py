"""One run shown by its name."""

import json

import regard
from regard.cli import run

SHORT = ["training.steps=2", "training.tensorboard=false", "training.device=cpu"]


def test_a_run_is_shown_by_its_folder_or_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("".join(f"a good film {n}\t{('neg', 'pos')[n % 2]}\n" for n in range(40)))
    regard.train("a.tsv", *SHORT, quiet=True)
    shown = []
    for name in ("runs/a", "a"):
        assert run(["runs", name, "--json"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1]
    facts = {"run": "runs/a", "state": "finished", "step": 2, "task": "classification", "trained on": "a.tsv"}
    assert facts.items() <= shown[0].items()
    assert "accuracy" in shown[0]["best"]
    assert run(["runs", "runs/a"]) == 0
    assert "finished" in capsys.readouterr().out


def test_a_word_that_is_neither_a_run_nor_a_command_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["runs", "nothing"]) == 1
    assert "nothing: no run here or in runs, and no command of regard runs" in capsys.readouterr().err
