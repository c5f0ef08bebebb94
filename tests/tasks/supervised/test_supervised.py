"""What tasks share that answer with a label: one ranking, one JSON, one temperature, batches in the order of inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.graphs.classifier import NodePrediction
from regard.tasks.images.classifier import ImagePrediction
from regard.tasks.omics.classifier import SamplePrediction
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.supervised.calibration import (
    describe_calibration,
    measure_calibration,
    read_temperature,
    record_temperature,
)
from regard.tasks.supervised.evaluation import ClassifierResults, score_classifier
from regard.tasks.supervised.prediction import Prediction, TextPrediction

CLASSES, CHANCES = ["a", "b", "c"], [0.25, 0.1234567, 0.6265433]
RANKED = {"label": "c", "probability": 0.626543, "all": {"c": 0.626543, "a": 0.25, "b": 0.123457}}


@pytest.mark.parametrize(
    ("prediction", "line", "subject"),
    [
        (TextPrediction.rank(CLASSES, CHANCES, text="x"), "c\t0.627", {"text": "x"}),
        (TextPrediction.rank(CLASSES, CHANCES, text=("x", "y")), "c\t0.627", {"texts": ["x", "y"]}),
        (ImagePrediction.rank(CLASSES, CHANCES, picture="x.png"), "c\t0.627", {"picture": "x.png"}),
        (NodePrediction.rank(CLASSES, CHANCES, node="n1"), "c\t0.627", {"node": "n1"}),
        (SamplePrediction.rank(CLASSES, CHANCES, sample="s1"), "s1\tc\t0.6265", {}),
        (Prediction.rank(CLASSES, CHANCES), "c\t0.627", {}),
    ],
)
def test_every_classifier_answers_with_the_same_line_and_json(prediction, line, subject):
    assert str(prediction) == line
    assert prediction.plain() == {**subject, **RANKED}
    assert list(prediction.plain()) == [*subject, *RANKED]
    assert list(prediction.all) == ["c", "a", "b"]


def test_of_equal_probabilities_the_first_class_is_answered():
    assert Prediction.rank(["b", "a"], [0.5, 0.5]).label == "b"


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 40))
def test_answers_come_back_in_the_order_of_the_inputs(lengths, budget):
    seen: list[list[int]] = []

    def answer(batch: list[int]) -> list[int]:
        seen.append(batch)
        return [lengths[number] for number in batch]

    assert answer_by_length(lengths, answer, budget=budget) == lengths
    for batch in seen:
        assert len(batch) == 1 or len(batch) * max(lengths[number] for number in batch) <= budget


@pytest.mark.parametrize("temperature", [0, -1.0, math.inf, math.nan, "1", None])
def test_a_temperature_that_divides_nothing_is_refused(temperature):
    with pytest.raises(ValueError, match="temperature must be a number above 0"):
        read_temperature({"temperature": temperature})


def test_a_temperature_other_than_one_is_recorded_and_read():
    assert record_temperature(1.0) == {}
    assert read_temperature({}) == 1.0
    assert read_temperature(record_temperature(1.5)) == 1.5


def results(count: int = 60) -> ClassifierResults:
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 3, count)
    return ClassifierResults.compare(generator.normal(size=(count, 3)) + 2 * np.eye(3)[truth], truth, CLASSES)


def test_scores_give_every_example_the_probability_of_its_label():
    found, places = results(), [f"{number}.png" for number in range(60)]
    scores = score_classifier("model", "pictures", found, places, unit="picture", temperature=2.0)
    assert scores.metrics["accuracy, %"] == pytest.approx(100 * found.metrics["accuracy"])
    powers = np.exp(found.logits / 2.0)
    chances = powers / powers.sum(-1, keepdims=True)
    assert [example.given for example in scores.examples] == places
    assert [example.right for example in scores.examples] == [CLASSES[label] for label in found.truth]
    assert [example.answer for example in scores.examples] == [CLASSES[label] for label in chances.argmax(-1)]
    own = [chances[number, label] for number, label in enumerate(found.truth)]
    assert [example.score for example in scores.examples] == pytest.approx(own)
    assert scores.measures == {
        "macro F1": f"{found.metrics['f1']:.2%}",
        "loss": f"{found.metrics['loss']:.4f}",
    }


def test_calibration_is_told_as_trained_and_at_a_temperature():
    found = results()
    plain, warmer = (measure_calibration(found.logits, found.truth, heat) for heat in (1.0, 3.0))
    assert plain["before"] == plain["after"] == warmer["before"] != warmer["after"]
    assert describe_calibration(plain) == {"calibration error": f"{plain['before']:.2%} as trained"}
    assert describe_calibration(warmer)["calibration error"].endswith("at temperature 3")
    assert describe_calibration({}) == {}
