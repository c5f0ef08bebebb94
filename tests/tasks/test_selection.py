"""Which class opens a checkpoint: that of its task, of another it serves, or one that somebody wrote."""

from pathlib import Path

import numpy as np
import pytest

import regard
from regard.metrics.scores import Scores
from regard.metrics.significance import mean_statistics
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.trained import DirectAnswers, NoOptions, Trained, load_model
from regard.tasks.translation.translator import Translator


class LoudTranslator(Translator):
    """A class of a task, changed in one thing."""

    def answer(self, inputs, **options):
        return [str(answer).upper() for answer in super().answer(inputs, **options)]


class Lengths(DirectAnswers):
    """A class of its own: says how long a text is, and how many weights it has for that."""

    task, verb, kind, Options = "lengths", "measure_texts", "a model of lengths", NoOptions

    def __init__(self, model, name):
        self.model, self.name = model, name

    @classmethod
    def load(cls, checkpoint, *, device="cpu"):
        return cls(load_model(checkpoint, device), "lengths")

    def answer(self, inputs, **options):
        return [len(text) for text in inputs]

    def evaluate(self, *files, name=None):
        sizes = [float(len(Path(file).read_text())) for file in files]
        return Scores(name or self.name, self.task, {"characters": mean_statistics(sizes)})

    def look(self, given, **options):
        raise ValueError(f"{self.name} has no attention to look at")


def test_a_class_derived_from_that_of_a_task_opens_its_models():
    loud = regard.load("en-fr", device="cpu", trained=LoudTranslator)
    plain = regard.load("en-fr", device="cpu")
    assert type(loud) is LoudTranslator
    assert isinstance(loud, Trained)
    [answer] = loud.answer(["Good morning."], to="fr")
    assert answer == plain.translate("Good morning.", to="fr").upper()


def test_a_class_of_ones_own_opens_a_model_of_any_task(tmp_path):
    model = regard.load("en-fr", device="cpu", trained=Lengths)
    assert isinstance(model, Trained)
    assert model.answer([model.inputs.parse("Good")]) == [4]
    assert (dict(model.extras), list(model.languages)) == ({}, [])
    (tmp_path / "a.txt").write_text("abc")
    scores = model.evaluate(tmp_path / "a.txt")
    assert np.isclose(scores.metrics["characters"], 3)
    assert "trained_on" in scores.details, "which files the model was trained on is looked up for any class"


@pytest.mark.parametrize("strange", [5, "Translator", dict, Lengths("model", "name")])
def test_only_a_class_made_for_trained_models_can_open_one(strange):
    with pytest.raises(ValueError, match=r"trained takes a class derived from regard\.tasks\.trained\.Face, not "):
        regard.load("en-fr", trained=strange)


def test_a_class_and_a_task_are_not_both_chosen():
    with pytest.raises(ValueError, match="trained and task='matching' both choose the class of a model: give one"):
        regard.load("en-fr", trained=Embedder, task="matching")
