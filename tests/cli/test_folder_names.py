"""A folder may have any name: it is a model wherever one is named, and commands that are printed can be pasted."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from regard import recipe
from regard.cli import run
from regard.cli.grammar import split_model
from regard.training.bookkeeping import Result
from regard.training.guard import Faults
from tests.documents import ROOT
from tests.tasks.every import lines

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere

BRIEF = {"steps": 1, "eval_every": 1, "save_every": 1, "tensorboard": False, "device": "cpu"}
TRANSLATOR = ROOT / "tests" / "checkpoints" / "format-1"
TASKS = ("classification", "tagging", "causal-lm", "masked-lm")
ODD = "Mes photos (d'été) [bold] $HOME {x}"
COMMANDS = {
    "translate": ("translation", "translate MODEL 'Le roi dort.'"),
    "generate": ("causal-lm", "generate MODEL ma --seed 3 --length 4"),
    "fill": ("masked-lm", "fill MODEL 'ma[MASK]se'"),
    "embed": ("masked-lm", "embed MODEL masse"),
    "classify": ("classification", "classify MODEL 'good film 1'"),
    "tag": ("tagging", "tag MODEL 'the film is good'"),
    "predict": ("classification", "predict MODEL 'good film 1'"),
    "prompt": ("causal-lm", "prompt MODEL sentiment mama"),
    "evaluate": ("classification", "evaluate MODEL LABELS --json"),
    "against": ("classification", "evaluate MODEL LABELS --against MODEL --json"),
    "explain": ("classification", "explain MODEL 'good film 1'"),
    "compare": ("classification", "compare MODEL MODEL -i LABELS --json"),
    "cost": ("classification", "cost MODEL --json"),
    "bench": ("classification", "bench MODEL 'good film 1' --json"),
    "export": ("masked-lm", "export MODEL exported --overwrite"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each task, in folders whose names have all kinds of characters."""
    here = tmp_path_factory.mktemp("names")
    commands = lines(here)
    for task in TASKS:
        recipe.train(
            {"task": task, **commands[task].settings, "training": BRIEF}, out=here / f"{ODD} {task}", quiet=True
        )
    shutil.copytree(TRANSLATOR, here / f"{ODD} translation")
    return here


@pytest.fixture
def at_home(models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the models, as the one that commands are typed in."""
    monkeypatch.chdir(models)
    return models


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_a_folder_of_any_name_for_the_model_in_it(command: str, at_home: Path, capsys):
    task, line = COMMANDS[command]
    Path("plain").unlink(missing_ok=True)
    Path("plain").symlink_to(f"{ODD} {task}")

    def answer(model: str) -> tuple[int, str]:
        words = [{"MODEL": model, "LABELS": "labels.tsv"}.get(word, word) for word in shlex.split(line)]
        status, printed = run(words), capsys.readouterr().out
        for name in (f"{ODD} {task}", json.dumps(f"{ODD} {task}")[1:-1]):
            printed = printed.replace(name, "plain")
        return status, "" if command == "bench" else printed

    assert answer(f"{ODD} {task}") == answer("plain")
    assert answer("plain")[0] == 0
    assert answer(f"./{ODD} {task}")[0] == 0, "by a path too"


def test_a_text_stays_a_text_and_a_path_that_leads_nowhere_is_refused(at_home: Path):
    (at_home / "runs").mkdir(exist_ok=True)
    texts = [
        *("and/or this", "He/she went home.", "The files are in runs/a.", "", " ", "-", "a\0b", "x" * 5000),
        *("runs/first holds the best model.", "/tmp is full", "a/" * 200 + " b", "Is it in runs/a?"),
    ]
    for text in texts:
        assert split_model([text, "more"]) == (None, [text, "more"])
    for path in ("runs/ma memoire", "./ma memoire", "../ma memoire", f"{at_home}/ma memoire"):
        with pytest.raises(ValueError, match=rf"no model at {path}: correct the path, or name a model before it"):
            split_model([path, "a text"])
    assert split_model(["en-fr", "runs/ma memoire"]) == (Path("en-fr"), ["runs/ma memoire"]), (
        "behind a model it is a text"
    )
    assert split_model(["runs/typo"]) == (Path("runs/typo"), [])
    assert split_model([f"{ODD} tagging", "x"])[0] == Path(f"{ODD} tagging")
    assert split_model([str(Path("runs") / ".." / "runs" / ".." / f"{ODD} tagging")])[0] is not None


def split_command(printed: str) -> list[str]:
    """The words of the command that a line tells people to use."""
    [line] = [line for line in printed.splitlines() if line.startswith(("use it with: ", "Try it: "))]
    words = shlex.split(line.partition(": ")[2])
    assert words.pop(0) == "regard"
    return words


def test_what_a_training_prints_can_be_pasted(at_home: Path, capsys):
    out = f"runs/{ODD}"
    brief = [f"training.{name}={str(value).lower()}" for name, value in BRIEF.items()]
    small = ["model.name=transformer-encoder", "model.width=16", "model.heads=2", "model.depth=1"]
    assert run(["train", "labels.tsv", *brief, *small, "--out", out]) == 0
    words = split_command(capsys.readouterr().out)
    assert words[:2] == ["classify", out]
    assert run(words) == 0
    assert run(["train", out, "--resume"]) == 1
    stderr = capsys.readouterr().err
    assert shlex.split(stderr.partition("go on with it by ")[2]) == ["--resume", "--out", out]
    assert run(["train", "--few", "labels.tsv", "--from", f"{ODD} masked-lm", "--out", f"{out} few"]) == 0
    words = split_command(capsys.readouterr().out)
    assert words[:2] == ["classify", f"{out} few"]
    assert run(words) == 0
    assert run(["export", f"{ODD} masked-lm", "exported", "--overwrite"]) == 0
    assert run(["import", "exported", f"{out} imported"]) == 0
    assert split_command(capsys.readouterr().out)[:2] == ["fill", f"{out} imported"]


def test_what_an_interrupted_training_prints_can_be_pasted(tmp_path: Path):
    result = Result(3, "interrupted", 1.0, best=None, faults=Faults(), counts={})
    summary = recipe.Outcome(tmp_path / ODD, tmp_path / ODD / "best", {}, result, "regard tag {folder}").summary
    [line] = [line for line in summary.splitlines() if line.startswith("resume with: ")]
    assert shlex.split(line)[2:] == ["regard", "train", "--resume", "--out", str(tmp_path / ODD)]


def test_the_name_of_a_file_in_advice_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("l'été.txt").write_bytes("Bonjour, mon été.\n".encode("latin-1"))
    assert run(["translate", "l'été.txt"]) == 1
    stderr = capsys.readouterr().err
    assert shlex.quote("l'été.txt") in stderr
    assert run(["translate", "-i", "l'été.txt"]) == 1
    stderr = capsys.readouterr().err
    assert f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(chr(108) + chr(39) + 'été.txt')}" in stderr
