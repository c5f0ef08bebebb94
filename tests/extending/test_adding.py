"""A task from outside the package is trained, killed and resumed like those inside."""

import os
import signal
import subprocess
import sys

import pytest
import torch

import regard
from regard import checkpoint, config, recipe
from regard.training.callbacks import Callback
from regard.training.task import Claim, Task
from tests.documents import ROOT
from tests.extending.adding import Adding, AddingRecipe

SETTINGS = {"training": {"steps": 12, "save_every": 3, "eval_every": 6, "device": "cpu", "tensorboard": False}}


@pytest.fixture
def numbers(tmp_path):
    """A file with the sums of two numbers."""
    values = torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
    lines = [f"{a:.3f} {b:.3f} {a + b:.3f}\n" for a, b in values.tolist()]
    (tmp_path / "numbers.txt").write_text("".join(lines))
    return tmp_path / "numbers.txt"


def train(numbers, out, **options):
    settings = {**SETTINGS, "data": {"train": str(numbers)}}
    return regard.train(settings, task=Adding, out=out, quiet=True, **options)


def test_it_is_trained_with_what_its_data_suggests_and_knows_the_recipe_that_is_saved(numbers, tmp_path):
    outcome = train(numbers, tmp_path / "run")
    saved = config.read(tmp_path / "run" / "config.yaml")
    assert saved["task"] == "adding"
    assert (saved["model"]["width"], saved["model"]["inputs"]) == (8, 2)
    assert saved["optim"]["warmup"] == outcome.metrics["warmup"] < 400, "the learner has the warm-up that was chosen"
    assert outcome.metrics["error"] < 10
    assert config.build(AddingRecipe, checkpoint.read(outcome.best).config).model.width == 8


def test_settings_that_somebody_named_stay(numbers, tmp_path):
    settings = {**SETTINGS, "data": {"train": str(numbers)}}
    changes = ["model.width=5", "optim.warmup=3", "training.steps=2"]
    regard.train(settings, *changes, task=Adding, out=tmp_path / "run", quiet=True)
    saved = config.read(tmp_path / "run" / "config.yaml")
    assert (saved["model"]["width"], saved["optim"]["warmup"], saved["training"]["steps"]) == (5, 3, 2)


def test_it_is_killed_and_resumed_to_the_bit(numbers, tmp_path):
    for name in ("whole", "cut"):
        place = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | ({"KILLED": "1"} if name == "cut" else {})
        words = [sys.executable, "-m", "tests.extending.adding", str(numbers), str(tmp_path / name)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=os.environ | place, timeout=3600)
        assert done.returncode == (-signal.SIGKILL if name == "cut" else 0), done.stderr
    outcome = train(numbers, tmp_path / "cut", resume=True)
    assert "resuming from step 6" in (tmp_path / "cut" / "train.log").read_text()
    assert outcome.result.step == 12
    last = [checkpoint.read(tmp_path / name / "checkpoints" / "step-12").tensors() for name in ("whole", "cut")]
    assert last[0].keys() == last[1].keys() == {"hidden.weight", "hidden.bias", "output.weight", "output.bias"}
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])


def test_it_goes_on_from_a_model_of_its_own(numbers, tmp_path):
    parent = train(numbers, tmp_path / "parent").best
    outcome = regard.train(
        {
            "data": {"train": str(numbers)},
            "training": {**SETTINGS["training"], "steps": 1},
            "optim": {"learning_rate": 1e-20},
        },
        task=Adding,
        out=tmp_path / "child",
        start=parent,
        quiet=True,
    )
    before, after = (checkpoint.read(place).tensors() for place in (parent, outcome.folder / "checkpoints" / "step-1"))
    assert all(torch.allclose(before[name], after[name]) for name in before)
    assert "starting from" in (tmp_path / "child" / "train.log").read_text()


class Diary(Callback):
    """Writes down what it is told."""

    def __init__(self):
        self.steps, self.scores, self.folders = [], [], []

    def on_step(self, step, metrics):
        self.steps.append((step, metrics["loss"]))

    def on_evaluation(self, step, scores):
        self.scores.append((step, scores["error"]))

    def on_checkpoint(self, folder):
        self.folders.append(checkpoint.read(folder).step)


def test_a_callback_is_told_of_steps_evaluations_and_checkpoints(numbers, tmp_path):
    diary = Diary()
    settings = {**SETTINGS, "data": {"train": str(numbers)}}
    regard.train(settings, "training.log_every=4", task=Adding, out=tmp_path / "run", callbacks=[diary], quiet=True)
    assert [step for step, _ in diary.steps] == [3, 4, 6, 8, 9, 12], "every four, and before a save"
    assert all(loss > 0 for _, loss in diary.steps)
    assert [step for step, _ in diary.scores] == [6, 12]
    assert diary.folders == [3, 6, 9, 12]


def test_an_error_in_a_callback_ends_the_training(numbers, tmp_path):
    class Impatient(Callback):
        def on_step(self, step, metrics):
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        train(numbers, tmp_path / "run", callbacks=[Impatient()])


def test_what_is_no_callback_is_refused_before_a_folder_is_made(numbers, tmp_path):
    with pytest.raises(ValueError, match="3 is no callback: derive it from"):
        train(numbers, tmp_path / "run", callbacks=[3])
    assert not (tmp_path / "run").exists()


def test_files_are_named_in_the_recipe_unless_the_task_recognises_them(numbers, tmp_path):
    with pytest.raises(ValueError, match=r"adding does not say what to make of .*numbers.txt: name it in data.train"):
        regard.train([numbers], task=Adding, out=tmp_path / "run")

    class Recognising(Adding):
        @staticmethod
        def recognise(given):
            return Claim({"train": given.files[0]}, "numbers and their sums", 3)

    outcome = regard.train([numbers], "training.steps=1", task=Recognising, out=tmp_path / "run", quiet=True)
    assert outcome.result.step == 1


def test_what_is_no_task_or_another_one_is_refused(numbers, tmp_path):
    settings = {**SETTINGS, "data": {"train": str(numbers)}}
    with pytest.raises(ValueError, match=r"task must be a class derived from regard.training.task.Task, not 'adding'"):
        regard.train(settings, task="adding", out=tmp_path / "run")
    with pytest.raises(ValueError, match="task"):
        regard.train({**settings, "task": "translation"}, task=Adding, out=tmp_path / "run")
    with pytest.raises(ValueError, match="nothing to train on"):
        regard.train({}, task=Adding, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_only_rows_batches_steps_data_and_settings_have_no_default():
    """What a task of one's own must write; everything else works as it is."""
    written = {name for name in vars(Adding) if not name.startswith("__")}
    assert {"Recipe", "prepare", "batch", "step"} <= written
    bare = Task(recipe.Order({}), None, torch.nn.Linear(1, 1))
    assert (bare.goal, bare.tuning, bare.piece_tokens) == (None, None, None)
    assert bare.split("batch") == ["batch"]
    assert bare.origins("batch") == []
    assert list(bare.parts()) == ["model"]
