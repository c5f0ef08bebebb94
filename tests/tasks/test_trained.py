"""Every trained model has the same face."""

import inspect

import pytest

from regard import config
from regard.metrics.scores import Judged, Scores, compare
from regard.metrics.significance import mean_statistics
from regard.tasks import FACES, TASKS
from regard.tasks.inputs import InputKind
from regard.tasks.trained import NoOptions, resolve_options


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_both_faces(name):
    task, trained = TASKS[name].task, FACES[name]
    assert trained.task == name
    assert hasattr(trained, trained.verb), "the friendly name is a method too"
    for method in ("load", "parse", "answer", "evaluate", "look", "attention_names", "serves"):
        assert callable(getattr(trained, method))
    for method in ("prepare", "default_settings", "fill_sizes", "parts", "batch", "step", "evaluate", "contents"):
        assert callable(getattr(task, method))
    assert "spread" in inspect.signature(task.evaluate).parameters
    assert {"data", "model", "optim", "training"} <= set(task.Recipe.__dataclass_fields__)
    assert isinstance(task.shared, bool)
    assert "{folder}" in task.usage
    assert isinstance(trained.input_kind, InputKind)
    config.build(trained.Options, {})
    config.build(trained.LookOptions, {})


def test_an_option_that_is_unknown_is_named():
    class Silent:
        Options = NoOptions

    with pytest.raises(ValueError, match=r"unknown setting options\.loud"):
        resolve_options(Silent(), {"loud": 1})


def scores(name: str, worth: list[float]) -> Scores:
    examples = [Judged(i + 1, str(i), "x", "y", each) for i, each in enumerate(worth)]
    return Scores(name, "anything", {"accuracy": mean_statistics(worth)}, examples)


def test_models_of_any_task_are_compared_by_paired_tests():
    good, bad = [1.0] * 80 + [0.0] * 20, [1.0] * 50 + [0.0] * 50
    found = compare([scores("bad", bad), scores("good", good), scores("bad", bad)], samples=200, trials=500)
    first, better, same = found.bootstrap["accuracy"]
    assert (first.score, better.score) == (0.5, 0.8)
    assert better.difference == pytest.approx(0.3)
    assert better.p is not None
    assert better.p < 0.01
    assert same.p == pytest.approx(1.0)
    assert [one.system for one in found.bootstrap["accuracy"]] == ["bad", "good", "bad (2)"]
    low, high = found.systems[1].intervals["accuracy"].low, found.systems[1].intervals["accuracy"].high
    assert low < 0.8 < high
    assert [one.number for one in found.systems[0].worst(2)] == [51, 52]


def test_models_of_different_test_sets_are_not_compared():
    other = Scores("b", "anything", {"accuracy": mean_statistics([1.0])}, [Judged(1, "0", "z", "y", 1.0)])
    with pytest.raises(ValueError, match="other references"):
        compare([scores("a", [1.0]), other])
