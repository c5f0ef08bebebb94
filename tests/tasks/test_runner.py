"""Another engine can compute the outputs of a trained model."""

import copy
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

import regard
from regard import checkpoint
from regard.tasks.embedding.few_shot import train_few_shot
from regard.tasks.runner import Runner, TorchRunner, Weights
from regard.tasks.word2vec.vectors import WordVectors
from tests.tasks.every import TABLE, texts

SMALL = {"steps": 2, "eval_every": 2, "save_every": 2, "device": "cpu", "tensorboard": False}


@dataclass(frozen=True)
class NumpyRunner:
    """A perceptron in numpy."""

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]

    @property
    def device(self):
        return torch.device("cpu")

    @property
    def weights(self):
        arrays = [array for layer in self.layers for array in layer]
        return Weights(sum(array.size for array in arrays), sum(array.nbytes for array in arrays))

    def __call__(self, rows):
        values = rows.numpy().astype(np.float64)
        for number, (weight, bias) in enumerate(self.layers):
            values = values @ weight.T + bias
            values = np.maximum(values, 0) if number < len(self.layers) - 1 else values
        return torch.from_numpy(values.astype(np.float32))


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows") / "run"
    data = {"train": str(TABLE), "target": "period", "inputs": ["length", "angle", "gravity"]}
    regard.train(
        {"task": "regression", "data": data, "model": {"hidden": [8]}, "training": SMALL}, out=folder, quiet=True
    )
    return regard.load(folder, device="cpu")


def test_a_trained_model_is_run_by_pytorch(predictor):
    runner = predictor.runner
    assert isinstance(runner, Runner)
    assert isinstance(runner, TorchRunner)
    assert runner.device == torch.device("cpu")
    assert runner.weights == Weights(3 * 8 + 8 + 8 + 1, 4 * (3 * 8 + 8 + 8 + 1))
    assert f"{runner.weights.number} weights on cpu" in repr(predictor)


def test_another_engine_answers_in_its_place(predictor):
    rows = [{"length": 1.0, "angle": 10.0, "gravity": 9.81}, {"length": 2.0, "angle": 5.0, "gravity": 3.7}]
    before = [answer.value for answer in predictor.answer(rows)]
    tensors = [tensor.double().numpy() for tensor in predictor.model.state_dict().values()]
    other = NumpyRunner(tuple(zip(tensors[::2], tensors[1::2], strict=True)))
    predictor.runner = other
    try:
        assert [answer.value for answer in predictor.answer(rows)] == pytest.approx(before, rel=1e-5)
        assert repr(predictor).endswith(f"{other.weights.number} weights on cpu>")
        (weight, bias), *others = other.layers
        predictor.runner = NumpyRunner(((0 * weight, 0 * bias), *others))
        first, second = (answer.value for answer in predictor.answer(rows))
        assert first == second, "without weights in its first layer it answers every row alike"
    finally:
        predictor.runner = TorchRunner(predictor.model)


@dataclass(frozen=True)
class CountingRunner(TorchRunner):
    """A copy of a model that counts how often it is asked."""

    batches: list[int] = field(default_factory=list)

    def __call__(self, *batch, **settings):
        self.batches.append(len(batch[0]))
        return super().__call__(*batch, **settings)


def refuse(*batch, **settings):
    raise AssertionError("the model was asked instead of what runs it")


def ask(trained, line):
    """What it answers and how it is scored, in plain values."""
    answers = trained.answer([trained.parse(text) for text in line.inputs])
    return [answer.plain() for answer in answers], trained.evaluate(*line.files).plain()


def check_only_runner_computes(trained, line, monkeypatch):
    before, runner = ask(trained, line), CountingRunner(copy.deepcopy(trained.model))
    trained.runner = runner
    monkeypatch.setattr(trained.model, "forward", refuse)
    assert ask(trained, line) == before
    assert len(runner.batches) > 1, "it answers, and is scored"


@pytest.mark.parametrize(
    "task", ["classification", "tagging", "similarity", "choice", "question-answering", "matching"]
)
def test_answers_and_scores_come_from_the_runner_alone(task, tmp_path, monkeypatch):
    line = texts(tmp_path)[task]
    regard.train({**line.settings, "task": task, "training": SMALL}, out=tmp_path / "run", quiet=True)
    check_only_runner_computes(regard.load(tmp_path / "run", device="cpu"), line, monkeypatch)


def test_a_classifier_of_few_texts_has_the_runner_of_what_embeds_them(tmp_path, monkeypatch):
    lines = texts(tmp_path)
    settings = {**lines["matching"].settings, "task": "matching", "training": SMALL}
    regard.train(settings, out=tmp_path / "run", quiet=True)
    parent = checkpoint.read(tmp_path / "run" / "best")
    classifier = train_few_shot(lines["classification"].files, parent, contrast="off").classifier
    check_only_runner_computes(classifier, lines["classification"], monkeypatch)


def test_vectors_of_words_are_run_without_a_network():
    vectors = WordVectors(["a", "b"], np.eye(2, dtype=np.float32))
    assert isinstance(vectors.runner, Runner)
    assert (vectors.runner.weights, vectors.runner.device) == (Weights(4, 16), torch.device("cpu"))
    assert vectors.runner([1]).tolist() == [[0.0, 1.0]]
