"""Every family learns a small thing to a stated level, from files to a loaded model, in seconds on one core.

What is asked was never seen in training; what guessing would give stands beside the level.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.recipe import Outcome
from tests.learning import lessons
from tests.learning.lessons import ADAM, training

pytestmark = pytest.mark.unchecked  # levels are reached in these tests; shapes are checked in others
TRANSFORMER = {"width": 48, "heads": 4, "hidden": 96, "encoder": 1, "decoder": 1, "norm": "pre", "dropout": 0.0}
SEQ2SEQ = {"name": "seq2seq", "cell": "gru", "attention": "bahdanau", "width": 48, "embedding": 32, "dropout": 0.0}
READERS = {
    "rnn-encoder": ({"cell": "gru", "width": 24, "embedding": 16}, 80),
    "cnn-encoder": ({"widths": [2], "maps": 16, "embedding": 16}, 80),
    "transformer-encoder": (
        {"width": 32, "embedding": 32, "heads": 4, "hidden": 64, "depth": 2, "positions": "rotary"},
        100,
    ),
}


def learn(folder: Path, steps: int, rate: float, **settings: Any) -> Outcome:
    """Train as anybody would."""
    optim = {**ADAM, "learning_rate": rate, "warmup": steps // 8}
    return regard.train({"optim": optim, "training": training(steps), **settings}, out=folder / "run", quiet=True)


@pytest.mark.parametrize(
    ("model", "steps", "rate"),
    [
        pytest.param(TRANSFORMER, 260, 0.006, marks=pytest.mark.slow),
        pytest.param(SEQ2SEQ, 100, 0.01, marks=pytest.mark.slow),
    ],
    ids=["transformer", "gru"],
)
def test_a_translator_turns_digits_round_without_a_mistake_in_a_hundred(model, steps, rate, tmp_path: Path):
    files, asked = lessons.digits(tmp_path)
    outcome = learn(
        tmp_path,
        steps,
        rate,
        task="translation",
        data={**files, "batch_tokens": 384, "max_length": 16},
        tokenizer={"kind": "characters", "joint": True},
        model=model,
        objective={"label_smoothing": 0.0, "eval_examples": 4, "samples": 4},
        decoding={"beams": 1},
    )
    answers = regard.load(outcome.folder, device="cpu").translate(asked)
    right = sum(answer == text[::-1] for answer, text in zip(answers, asked, strict=True))
    assert right >= 0.99 * len(asked)  # guessing is right once in a hundred at best


def test_a_language_model_comes_near_the_entropy_of_its_text_and_writes_it(tmp_path: Path):
    text, nats = lessons.rhymes(tmp_path)
    outcome = learn(
        tmp_path,
        90,
        0.02,
        task="language",
        data={"train": [str(text)], "validation_share": 0.1, "batch_size": 8, "window": 24},
        tokenizer={"kind": "characters"},
        model={"name": "rnn-lm", "cell": "lstm", "width": 32, "depth": 1},
    )
    assert 0.9 * nats < outcome.metrics["loss"] < 1.1 * nats  # seven characters, drawn evenly, have eight times as much
    written = regard.load(outcome.folder, device="cpu").write(length=59, samples=4)
    words = [word for sample in written for word in sample.text.split()[1:-1]]
    assert len(words) > 20
    assert sum(word in lessons.WORDS for word in words) >= 0.9 * len(words)


@pytest.mark.parametrize("name", READERS)
def test_a_classifier_hears_a_negation_where_it_stands(name, tmp_path: Path):
    model, steps = READERS[name]
    outcome = learn(
        tmp_path,
        steps,
        0.01,
        task="classification",
        data={"train": {"path": str(lessons.negations(tmp_path))}, "batch_tokens": 1024},
        model={"name": name, "dropout": 0.0, **model},
    )
    assert outcome.metrics["accuracy"] >= 0.99  # guessing: 0.5
    found = regard.load(outcome.folder, device="cpu").classify(["so the man was not good", "not so good the man"])
    assert [one.label for one in found] == ["bad", "fine"]


def test_a_tagger_tells_nouns_from_verbs_by_what_stands_before(tmp_path: Path):
    outcome = learn(
        tmp_path,
        60,
        0.02,
        task="tagging",
        data={"train": {"path": str(lessons.infinitives(tmp_path))}, "batch_tokens": 512},
        model={
            "name": "rnn-encoder",
            "cell": "gru",
            "width": 16,
            "embedding": 16,
            "dropout": 0.0,
            "bidirectional": False,
        },
    )
    assert outcome.metrics["accuracy"] >= 0.99  # by the word alone, without what stands before: about 0.78
    [tagged] = regard.load(outcome.folder, device="cpu").tag("to so look the so look to look")
    assert tagged.tags == ["P", "R", "V", "D", "R", "N", "P", "V"]


def test_word_vectors_of_two_topics_stand_apart(tmp_path: Path):
    pytest.importorskip("numba", reason="numba is not installed (pip install 'regard[words]')")
    settings = {
        "task": "word2vec",
        "data": {"train": {"path": str(lessons.topics(tmp_path))}, "min_count": 1},
        "model": {"width": 16, "window": 4, "negatives": 5, "sample": None},
        "training": {"epochs": 3, "seed": 0},
    }
    vectors = regard.load(regard.train(settings, out=tmp_path / "run", quiet=True).folder)
    for topic in lessons.TOPICS:
        for word in topic:
            near = [other for other, _ in vectors.similar(word, count=11)]
            assert set(near) == set(topic) - {word}, word  # of 23 others, 11 are of the same topic


def test_a_perceptron_follows_what_no_straight_line_does(tmp_path: Path):
    table = lessons.waves(tmp_path)
    outcome = learn(
        tmp_path,
        400,
        0.01,
        task="regression",
        data={"train": str(table), "validation_share": 0.2, "target": "y", "inputs": ["x", "z"], "batch_size": 128},
        model={"name": "perceptron", "hidden": [32, 32]},
    )
    assert outcome.metrics["r2"] > 0.95
    columns = np.loadtxt(table, delimiter=",", skiprows=1)
    inputs, target = np.c_[columns[:, :2], np.ones(len(columns))], columns[:, 2]
    residual = target - inputs @ np.linalg.lstsq(inputs, target, rcond=None)[0]
    assert 1 - residual.var() / target.var() < 0.1, "the best straight line"


@pytest.mark.slow
def test_a_detector_finds_a_digit_and_says_which(tmp_path: Path):
    outcome = learn(
        tmp_path,
        150,
        0.008,
        task="localisation",
        data={
            "size": 24, "smallest": 12, "largest": 18, "noise": 0.0, "clutter": 0, "batch_size": 32, "valid": 200,
        },
        model={"name": "class-and-box", "channels": [8, 16, 32], "width": 64},
        objective={"loss": "smooth_l1", "weight": 10.0},
    )  # fmt: skip
    assert outcome.metrics["iou"] > 0.7  # the mean box of other pictures: 0.39
    assert outcome.metrics["accuracy"] > 0.5  # guessing: 0.1


@pytest.mark.slow
def test_a_counter_keeps_count_of_digits_that_hide(tmp_path: Path):
    outcome = learn(
        tmp_path,
        150,
        0.01,
        task="counting",
        data={
            "frames": 5, "size": 20, "smallest": 7, "largest": 8, "max_digits": 2, "hidden": 0.5, "noise": 0.0,
            "batch_size": 24, "valid": 150,
        },
        model={"name": "count-per-frame", "channels": [8, 16], "cell": "gru", "width": 48, "depth": 1},
    )  # fmt: skip
    assert outcome.metrics["accuracy"] > 0.9  # what is in sight alone, counted without a mistake: 0.80


@pytest.mark.parametrize(
    ("bits", "longest", "steps", "rate", "level"),
    [(6, 3, 350, 0.01, 0.01)],  # guessing: 0.5
)
def test_a_machine_copies_sequences_from_its_memory(bits, longest, steps, rate, level, tmp_path: Path):
    outcome = learn(
        tmp_path,
        steps,
        rate,
        task="remembering",
        data={"bits": bits, "max_length": longest, "batch_size": 2 * bits, "valid": 60},
        model={"controller": "feedforward", "width": 12 * bits, "places": 4 * longest, "depth": 2 * bits},
    )
    assert outcome.metrics["bit_errors"] < level
