"""Own data without reading the manual: one command, the same run by flags, recipe and Python, and it can be used."""

import os
import signal
from pathlib import Path

import pytest

import regard
from regard import config, recipe
from regard.cli import run
from regard.cli.train import EPILOG
from regard.tasks import TASKS
from regard.tasks.translation.task import Translation, transformer_sizes
from tests.conftest import Corpus, sentences

SHORT = ["training.steps=1", "training.tensorboard=false"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files of pairs, labelled texts, running text and a table."""
    monkeypatch.chdir(tmp_path)
    for side, texts in zip(("fr", "en"), zip(*sentences(), strict=True), strict=True):
        (tmp_path / f"a.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    labelled = [f"the {'good' if i % 2 else 'bad'} film {i}\t{'pos' if i % 2 else 'neg'}\n" for i in range(40)]
    (tmp_path / "reviews.tsv").write_text("".join(labelled))
    (tmp_path / "story.txt").write_text("Once upon a time there was a king.\n" * 20)
    rows = "".join(f"{i / 7:.3f},{i % 5},{i / 7 + i % 5:.3f}\n" for i in range(60))
    (tmp_path / "numbers.csv").write_text(f"a,b,y\n{rows}")
    return tmp_path


def settings_of(folder: str) -> dict:
    return config.read(Path(folder) / "config.yaml")


WAYS = {
    "pairs": (
        ["--source", "a.fr", "--target", "a.en"],
        ["a.fr", "a.en"],
        {"data": {"train": {"source": "a.fr", "target": "a.en"}}},
    ),
    "labels": (
        ["--labelled", "reviews.tsv"],
        "reviews.tsv",
        {"task": "classification", "data": {"train": "reviews.tsv"}},
    ),
    "text": (["--text", "story.txt"], "story.txt", {"task": "causal-lm", "data": {"train": ["story.txt"]}}),
    "table": (
        ["--table", "numbers.csv"],
        "numbers.csv",
        {"task": "regression", "data": {"train": {"path": "numbers.csv"}, "target": "y"}},
    ),
}


@pytest.mark.unchecked
@pytest.mark.parametrize("kind", WAYS)
def test_the_same_files_train_the_same_by_flags_recipe_and_python(kind: str, here: Path):
    flags, files, mapping = WAYS[kind]
    short = [*SHORT, "writing.length=3"] if kind == "text" else SHORT
    Path("own.yaml").write_text(config.dump(mapping))
    assert run(["train", *flags, *short, "--out", "flags"]) == 0
    assert run(["train", *([files] if isinstance(files, str) else files), *short, "--out", "seen"]) == 0
    assert run(["train", "own.yaml", *short, "--out", "recipe"]) == 0
    regard.train(files, *short, out="python", quiet=True)
    regard.train(mapping, *short, out="mapping", quiet=True)
    settings = [settings_of(folder) for folder in ("flags", "seen", "recipe", "python", "mapping")]
    assert all(record == settings[0] for record in settings)
    assert settings[0]["training"]["patience"] is not None


def test_one_setting_leaves_the_others_to_the_data(here: Path):
    def model(*settings: str) -> dict:
        task, resolved = recipe.resolve(order := recipe.order(["a.fr", "a.en"], *settings).settings)
        return config.plain(task.resolve(order, task.prepare(resolved, None)))["model"]

    changed = model("model.dropout=0.25")
    assert changed == {**model(), "dropout": 0.25}
    assert changed["width"] == transformer_sizes(180)["width"] != 512
    recurrent = model("model.name=seq2seq")
    assert (recurrent["name"], recurrent["width"]) == ("seq2seq", 128)
    assert model("model.preset=tiny")["encoder"] == 4, "a preset names all sizes"


def test_a_recurrent_translator_is_trained_from_two_files(here: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["train", "--source", "a.fr", "--target", "a.en", "model.name=seq2seq", *SHORT]) == 0
    assert 'use it with: regard translate runs/a "..."' in capsys.readouterr().out


def test_runs_are_named_after_their_data_and_a_taken_name_gets_a_number(here: Path, capsys: pytest.CaptureFixture[str]):
    for name in ("numbers", "numbers-2", "numbers-3"):
        assert run(["train", "numbers.csv", *SHORT]) == 0
        out, error = capsys.readouterr()
        assert out.startswith(f"runs/{name}: 1 step,")
        assert (
            "numbers.csv: a table to predict y, its last column (data.target=NAME chooses another): training" in error
        )
    assert run(["train", "numbers.csv", "training.steps=2", "training.tensorboard=false", "--resume"]) == 0
    assert capsys.readouterr().out.startswith("runs/numbers-3: 2 steps"), "the last one is resumed"
    assert run(["train", "numbers.csv", *SHORT, "--overwrite"]) == 0
    assert capsys.readouterr().out.startswith("runs/numbers: 1 step,")
    assert run(["train", "numbers.csv", *SHORT, "--out", "runs/numbers"]) == 1
    stderr = capsys.readouterr().err.strip().splitlines()[-1]
    assert stderr.index("--resume") < stderr.index("--out") < stderr.index("--overwrite")
    assert run(["train", "task=regression", "data.train=numbers.csv", "data.target=y", *SHORT]) == 0
    assert capsys.readouterr().out.startswith("runs/numbers-4: ")


def test_what_was_chosen_when_a_run_began_stays_when_it_goes_on_for_longer(here: Path, capsys):
    files = ["train", "numbers.csv", "training.tensorboard=false"]
    assert run([*files, "training.steps=100"]) == 0
    before = settings_of("runs/numbers")
    assert (before["optim"]["warmup"], before["training"]["eval_every"]) == (25, 5)
    assert run([*files, "training.steps=200", "--resume"]) == 0
    after = settings_of("runs/numbers")
    assert after == {**before, "training": {**before["training"], "steps": 200}}
    assert "changed since the run began: optim" not in capsys.readouterr().err


def test_the_warm_up_is_in_proportion_to_the_run_unless_it_is_named(here: Path):
    for name, settings, warmup in (
        ("epochs", ["training.epochs=25"], 38),  # of six rows each: 150 steps
        ("named", ["training.steps=5", "optim.warmup=3"], 3),
    ):
        regard.train("numbers.csv", *settings, "training.tensorboard=false", out=name, quiet=True)
        assert settings_of(name)["optim"]["warmup"] == warmup


@pytest.mark.unchecked
def test_the_shipped_model_is_adapted_by_its_short_name_into_a_language_that_is_guessed(here: Path, capsys):
    few = [*SHORT, "objective.eval_examples=2", "data.max_length=48", "training.device=cpu"]
    assert run(["train", "--from", "en-fr", "--source", "a.fr", "--target", "a.en", *few]) == 0
    assert "a.en: translations into en, guessed from the texts (--to chooses)" in capsys.readouterr().err
    settings = settings_of("runs/a")
    assert settings["data"]["train"][0]["tag"] == "en"
    assert settings["decoding"]["longest"] == 48, "no longer than what it learns from"
    assert settings["model"]["width"] == regard.load("runs/a", device="cpu").model.config.width == 256
    task, resolved = recipe.resolve(recipe.order(["a.fr", "a.en"], "data.train.tag=fr").settings)
    prepared = task.prepare(resolved, recipe.open_model("en-fr"))
    assert (prepared.data.train[0].tag, prepared.notes) == ("fr", ()), "what is named is not guessed"
    assert run(["train", "--from", "en-fr", "a.fr", "a.en", "--to", "de", *few]) == 1
    assert "unknown language tag 'de': there are en, fr" in capsys.readouterr().err
    Path("x.en").write_text("1\n2\n3\n")
    Path("x.fr").write_text("1\n2\n3\n")
    assert run(["train", "--from", "en-fr", "x.en", "x.fr", *few]) == 1
    assert "give --to en" in capsys.readouterr().err


def test_an_interrupted_run_can_be_used_before_its_first_evaluation(
    corpus: Corpus, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    step = Translation.step

    def interrupted(self, batch, part):
        os.kill(os.getpid(), signal.SIGINT)
        return step(self, batch, part)

    with monkeypatch.context() as patch:
        patch.setattr(Translation, "step", interrupted)
        assert run(["train", "a.fr", "a.en", "training.tensorboard=false", "tokenizer.vocab=320"]) == 130
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "runs/a: interrupted after 1 step",
        "resume with: regard train --resume --out runs/a",
        'use it with: regard translate runs/a "..."',
    ]
    assert not Path("runs/a/best").exists()
    assert run(["train", "--resume", "runs/a"]) != 0
    assert "go on with it by --resume --out runs/a" in capsys.readouterr().err
    assert run(["translate", "runs/a", "Le roi dort."]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--pairs a.tsv --labelled b.csv", "--pairs and --labelled contradict each other"),
        ("--source a.fr --target a.en --text a.fr", "--text and --source and --target contradict each other"),
        ("--source a.fr --target a.fr", "a text is no translation of itself"),
        ("--source a.fr", "--source and --target go together"),
        ("--to fr", "--valid and --to go with files"),
        ("--resume", "--resume needs to know which run"),
        ("--resume --out runs/none", "there is no run to resume; leave --resume out to start one"),
        ("a.fr reviews.tsv", "cannot tell what this is"),
        ("--task translaton a.fr a.en", "did you mean translation"),
        ("none.csv", "no file none.csv here"),
        (".", ". is a folder: say what its files hold with --text"),
        ("--from de-fr a.fr a.en", "no model at de-fr: give a checkpoint directory, a run folder, or a name: en-fr"),
    ],
)
def test_a_mistake_is_answered_in_one_line(line: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["train", *line.split()]) != 0
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message in error
    assert not Path("runs").exists()


def test_help_tells_every_task_and_shows_examples_that_parse(capsys: pytest.CaptureFixture[str]):
    assert run(["train", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name} " in text for name in TASKS)
    assert "regard train a.fr a.en" in text
    tasks = EPILOG.partition("Examples:")[0]
    assert [line.split()[0] for line in tasks.splitlines() if "  " in line] == sorted(
        TASKS, key=lambda name: tasks.index(f"\n{name} ")
    )
