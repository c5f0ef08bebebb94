"""Learning a column: linear data is recovered as by least squares, stops change nothing, answers are in their units."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard import checkpoint, config, recipe
from regard.models.perceptron import Perceptron, PerceptronConfig
from regard.tasks.tables import files as tables
from regard.tasks.tables.files import Columns, TableConfig
from regard.tasks.tables.task import Predictor, Regression, RegressionRecipe, score_linear_baseline, score_numbers
from regard.training.task import Task
from tests.documents import ROOT
from tests.tasks.small import by_heart, halves_add_up


@pytest.fixture
def path(tmp_path):
    """y is linear in a and b, but for a little noise; `sign` tells whether a and b have the same sign."""
    chance = np.random.default_rng(0)
    a, b = chance.normal(5, 2, 120), chance.normal(0, 30, 120)
    y = 3 * a - 0.2 * b + 100 + chance.normal(0, 0.1, 120)
    sign = np.where((a > 5) == (b > 0), "same", "other")
    rows = [f"{one},{two},{three},{four}" for one, two, three, four in zip(a, b, y, sign, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y,sign", *rows]) + "\n")
    return str(tmp_path / "t.csv")


def settings(path: str, **data) -> dict:
    return {
        "task": "regression",
        "data": {"train": path, "target": "y", "inputs": ["a", "b"], "batch_size": 32, **data},
        "model": {"hidden": [16], "dropout": 0.1},
        "optim": {"learning_rate": 0.02, "warmup": 5, "schedule": "cosine"},
        "training": {
            "steps": 30,
            "log_every": 10,
            "eval_every": 10,
            "save_every": 5,
            "device": "cpu",
            "tensorboard": False,
        },
    }


def made(path: str, hidden: tuple[int, ...] = (16,), **data) -> Regression:
    torch.manual_seed(0)
    chosen = config.build(TableConfig, {"train": path, "target": "y", "inputs": ("a", "b"), "batch_size": 32, **data})
    found = tables.prepare(chosen)
    shape = PerceptronConfig(inputs=2, outputs=len(found.columns.classes) or 1, hidden=hidden)
    return Regression(RegressionRecipe(data=chosen, model=shape), found, Perceptron(shape))


def test_without_hidden_layers_it_finds_what_least_squares_finds_in_closed_form(path, tmp_path):
    once = [f"training.{name}=600" for name in ("steps", "evaluate", "save")]  # so that the best is the last
    plain = ["model.hidden=[]", "model.dropout=0", "data.batch_size=96"]
    outcome = recipe.train(recipe.settings(settings(path), *once, *plain), out=tmp_path / "run", quiet=True)
    predictor = regard.load(outcome.best, device="cpu")
    task = made(path)
    train = task.tables.train
    design = np.column_stack([train.inputs, np.ones(len(train))])
    weights = np.linalg.solve(design.T @ design, design.T @ train.targets)  # the normal equations
    np.testing.assert_allclose(weights, [3, -0.2, 100], atol=0.1)
    columns, [layer] = predictor.columns, predictor.model.layers
    slopes = layer.weight[0].double().detach().numpy() * columns.deviation / np.array(columns.deviations)
    np.testing.assert_allclose(slopes, weights[:2], rtol=1e-3)
    rows = [{"a": 1.0, "b": 2.0}, {"a": -4.0, "b": 50.0}]
    wanted = [weights @ (row["a"], row["b"], 1) for row in rows]
    np.testing.assert_allclose([answer.value for answer in predictor.predict(rows)], wanted, atol=0.02)
    scores = score_linear_baseline(train, task.tables.valid, columns)
    assert outcome.metrics["r2"] == pytest.approx(scores["r2"], abs=1e-4)
    assert outcome.metrics["mae"] == pytest.approx(scores["mae"], rel=0.02)


def test_the_closed_form_is_that_of_the_normal_equations(path):
    task = made(path)
    train, valid = task.tables.train, task.tables.valid
    design, other = (np.column_stack([rows.inputs, np.ones(len(rows))]) for rows in (train, valid))
    answers = other @ np.linalg.solve(design.T @ design, design.T @ train.targets)
    for name, value in score_numbers(answers, valid.targets).items():
        assert score_linear_baseline(train, valid, task.tables.columns)[name] == pytest.approx(value, rel=1e-4)


def test_scores_are_computed_as_said():
    truths, answers = np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.0, 3.0, 3.0, 4.0])
    assert score_numbers(answers, truths) == {"r2": pytest.approx(1 - 5 / 14), "mae": pytest.approx(0.75)}
    assert score_numbers(truths, truths) == {"r2": 1.0, "mae": 0.0}
    assert score_numbers(np.full(4, 3.0), truths)["r2"] == 0.0


def test_a_row_costs_its_squared_error_in_deviations(path):
    task = made(path)
    assert isinstance(task, Task)
    assert task.goal == ("loss", "min")
    batch = task.batch(1)
    outputs = task.predictor().numbers(task.model(batch.parts[0]).detach())
    rows = [task.tables.train.targets[number] for number in batch.numbers]
    wanted = (((outputs - rows) / task.tables.columns.deviation) ** 2).sum()
    assert task.step(batch, "model").loss.item() == pytest.approx(wanted, rel=1e-4)
    assert task.origins(batch)[0].rpartition(":")[0] == path


@pytest.mark.parametrize("data", [{}, {"target": "sign", "predicts": "class"}])
def test_halves_of_a_row_add_up_and_a_row_is_learnt_by_heart(path, data):
    halves_add_up(made(path, **data))
    assert by_heart(made(path, hidden=(32, 32), **data), steps=150) < 0.02


def test_classes_that_no_line_parts_are_told_by_a_hidden_layer(path, tmp_path):
    changed = settings(path, target="sign", predicts="class")
    outcome = recipe.train(
        recipe.settings(changed, "training.steps=300", "model.dropout=0"), out=tmp_path / "run", quiet=True
    )
    task = made(path, target="sign", predicts="class")
    assert score_linear_baseline(task.tables.train, task.tables.valid, task.tables.columns)["accuracy"] < 0.7
    assert outcome.metrics["accuracy"] > 0.85
    predictor = regard.load(tmp_path / "run", device="cpu")
    [answer] = predictor.predict([{"a": 8.0, "b": 40.0}])
    assert answer.value == "same"
    assert answer.probability > 0.8


def test_a_checkpoint_is_self_contained(path, tmp_path):
    outcome = recipe.train(settings(path), out=tmp_path / "run", quiet=True)
    assert f"regard predict {tmp_path / 'run'}" in outcome.summary
    (tmp_path / "run" / "best").rename(tmp_path / "copy")
    predictor = regard.load(tmp_path / "copy", device="cpu")
    answers, scores = predictor.predict_file(path)
    assert len(answers) == 120
    assert set(scores) == {"r2", "mae"}
    columns = json.loads((tmp_path / "copy" / "columns.json").read_text())
    assert columns["inputs"] == ["a", "b"]
    assert "# Predicts y" in (tmp_path / "copy" / "README.md").read_text()
    with pytest.raises(ValueError, match="a row without b: the model needs a, b"):
        predictor.predict([{"a": 1.0}])


@pytest.fixture(scope="module")
def predictors():
    """Two that were not trained: of a number, and of a class."""
    number = Columns(("a", "b"), (0.0, 5.0), (1.0, 1e-3), "y")
    shape = PerceptronConfig(inputs=2, outputs=1, hidden=(4,))
    classes = replace(number, classes=("other", "same"))
    return Predictor(Perceptron(shape), number), Predictor(Perceptron(replace(shape, outputs=2)), classes)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a=1,b=nan", "a=1,b=nan: 'nan' in column b is no number: correct it, or leave the row out"),
        ("a=-inf,b=1", "'-inf' in column a is no number"),
        ("a=1,b=1e39", "1e39 in column b is beyond 1e\\+30: choose another unit"),
        ("a=1,b=", "an empty cell in column b is no number"),
        ("a=1,b=2,a=3", "column a is given twice: leave one out"),
        ("a=1,b=2,c=3", "the model reads no column c; there are a, b"),
        ("a=1,b=2,A=3", "no column A, did you mean a\\?"),
        ("a=1,b=2,", "is no row: name its columns, such as a=1,b=1, or give a table"),
        ("1,2", "is no row"),
    ],
)
def test_a_typed_row_that_is_none_is_refused_with_its_column(predictors, row, said):
    with pytest.raises(ValueError, match=said):
        predictors[0].parse(row)
    assert predictors[0].parse("a = 1, b=-2e3") == {"a": 1.0, "b": -2000.0}


@pytest.mark.parametrize("value", [None, "a", float("nan"), float("inf"), 10**400, [1], 1e31])
def test_what_a_program_gives_for_a_column_must_be_a_number(predictors, value):
    with pytest.raises(ValueError, match=r"row 2: .* in column b "):
        predictors[0].predict([{"a": 1, "b": 2}, {"a": 1, "b": value}])
    [answer] = predictors[0].predict([{"a": np.float32(1), "b": "2.5"}])
    assert np.isfinite(answer.value)


def test_a_number_too_far_from_those_learnt_from_is_refused_and_one_far_away_is_answered(predictors):
    with pytest.raises(ValueError, match=r"1e\+30 in column b is too far from 5, its mean in training"):
        predictors[0].predict([{"a": 1, "b": 1e30}])
    assert np.isfinite(predictors[0].predict([{"a": 1e30, "b": 1e20}])[0].value)


def test_rows_are_answered_whatever_their_target_and_measured_only_with_one(predictors, tmp_path):
    number, classes = predictors
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,odd\n1,2,\n")
    for predictor in predictors:
        assert predictor.read(tmp_path / "t.csv") == [{"a": 1.0, "b": 2.0}] * 2
        with pytest.raises(ValueError, match=r"t.csv:3: an empty cell in column y, .*: fill it, or take the row out"):
            predictor.evaluate(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,odd\n")
    with pytest.raises(ValueError, match=r"t.csv:2: 'odd' in column y is no number: correct it, or take the row out"):
        number.evaluate(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="none of the training classes: other, same"):
        classes.evaluate(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"has no column 'y'.* give a table that has it to measure on"):
        number.evaluate(tmp_path / "t.csv")


@pytest.mark.unchecked
@pytest.mark.parametrize("given", [None, 5, "", [], {"a": 1}])
def test_a_table_is_given_by_the_name_of_a_file(predictors, given):
    for read in (predictors[0].predict_file, predictors[0].read):
        with pytest.raises(ValueError, match="a table is given by the name of its file, not "):
            read(given)


def test_weights_so_large_that_nothing_is_answered_say_that_training_failed(predictors):
    number, _ = predictors
    broken = Predictor(copy.deepcopy(number.model), number.columns)
    with torch.no_grad():
        for weight in broken.model.parameters():
            weight.fill_(1e38)
    with pytest.raises(
        ValueError, match=r"not finite: its training failed, train it again with a lower optim\.learning_rate"
    ):
        broken.predict([{"a": 1, "b": 7}])


def test_evaluations_are_kept_in_the_run_folder(path, tmp_path):
    recipe.train(settings(path), out=tmp_path / "run", quiet=True)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("r2" in line for line in lines)
    assert "linear least squares: r2 0.99" in (tmp_path / "run" / "train.log").read_text()
    samples = json.loads((tmp_path / "run" / "samples" / "step-30.json").read_text())
    assert set(samples[0]) == {"row", "truth", "answer"}


def test_a_changed_table_cannot_be_gone_on_with(path, tmp_path):
    recipe.train(recipe.settings(settings(path), "training.steps=5"), out=tmp_path / "run", quiet=True)
    with open(path, "a") as file:
        file.write("1,2,3,same\n")
    with pytest.raises(ValueError, match=r"data\.json\.train\.fingerprint"):
        recipe.train(settings(path), out=tmp_path / "run", resume=True, quiet=True)


def test_the_pendulums_period_is_that_of_the_formula():
    """The shipped table against the integral of a swing, by an outsider's quadrature."""
    rows = [line.split(",") for line in (ROOT / "regard/samples/pendulum.csv").read_text().splitlines()[1:]]
    assert len(rows) == 1200
    off = []
    for length, angle, gravity, period, _ in rows:
        modulus = np.sin(np.radians(float(angle)) / 2) ** 2
        middles = (np.arange(200) + 0.5) / 200 * np.pi / 2
        quarter = (1 / np.sqrt(1 - modulus * np.sin(middles) ** 2)).mean() * np.pi / 2
        off.append(float(period) - 4 * np.sqrt(float(length) / float(gravity)) * quarter)
    assert abs(np.mean(off)) < 0.002
    assert np.std(off) == pytest.approx(0.02, rel=0.1)


def test_weights_are_the_only_thing_trained(path, tmp_path):
    outcome = recipe.train(recipe.settings(settings(path), "training.steps=5"), out=tmp_path / "run", quiet=True)
    names = set(checkpoint.read(outcome.best).tensors())
    assert names == {"layers.0.weight", "layers.0.bias", "layers.3.weight", "layers.3.bias"}


@pytest.mark.parametrize("change", [{"hidden": (0,)}, {"dropout": 1.0}])
def test_sizes_that_make_no_network_are_refused(change):
    with pytest.raises(ValueError, match=r"(hidden\[0\]|dropout) must be"):
        config.build(PerceptronConfig, change)
