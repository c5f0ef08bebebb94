"""Learning one column of a table from others, a number or a class, by a multi-layer perceptron; and it in use.

Numbers are brought to mean 0 and deviation 1 before the network sees them, as they are in the rows learnt from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.resuming import Fingerprinted, Fixed
from regard.config.words import suggest_name
from regard.data.examples import Examples
from regard.data.tables import number_in
from regard.interpret.trace import Trace
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import mean_statistics
from regard.models.perceptron import Perceptron, PerceptronConfig
from regard.tasks.inputs import ROW, InputKind, Inputs, check_files, check_path, list_inputs
from regard.tasks.model_card import model_card
from regard.tasks.tables import files as tables
from regard.tasks.tables.files import Columns, TableConfig, TableData, TableRows
from regard.tasks.tables.recognition import recognise
from regard.tasks.trained import (
    DirectAnswers,
    NoOptions,
    describe_model,
    load_model,
    no_attention_error,
    resolve_options,
)
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, power_of_two_below, round_between
from regard.training.task import Evaluation, Goal, Spread, Step, Task, alone

COLUMNS = "columns.json"
SHOWN = 4
HIDDEN = ((200, [16]), (50_000, [64, 64]))  # up to so many rows, layers of so many features


@dataclass(frozen=True, kw_only=True)
class RegressionRecipe:
    """One run that learns a column of a table."""

    task: Fixed[Literal["regression"]] = "regression"
    """What is learnt."""
    data: Fingerprinted[TableConfig]
    """Which table, and which of its columns."""
    model: Fixed[PerceptronConfig] = field(default_factory=PerceptronConfig)
    """Its size."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


class Regression(Task):
    """The task of learning a column."""

    Recipe = RegressionRecipe
    usage: ClassVar[str] = "regard predict {folder} -i TABLE.csv"
    shared: ClassVar[bool] = True
    goal: Goal = ("loss", "min")
    recognise = staticmethod(recognise)

    def __init__(self, recipe: RegressionRecipe, prepared: TableData, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.tables, self.model = recipe, prepared, model
        self.rows = prepared.rows(recipe.data.batch_size)
        self.train_inputs, self.train_targets = self._tensors(prepared.train)
        self.features = recipe.data.batch_size * max((*recipe.model.hidden, recipe.model.inputs))
        self.notes = self._notes()

    @staticmethod
    def prepare(recipe: RegressionRecipe, parent: Checkpoint | None = None) -> TableData:
        """Read the table; a model to start from gives the scales of its columns and its classes."""
        columns = None if parent is None or COLUMNS not in parent.files else read_columns(parent)
        return tables.prepare(recipe.data, columns)

    @staticmethod
    def default_settings(recipe: RegressionRecipe, prepared: TableData) -> dict[str, Any]:
        """Choose layers, batch size and training length for so many rows."""
        row_count = len(prepared.train)
        hidden = next((sizes for limit, sizes in HIDDEN if row_count <= limit), [256, 256])
        batch = round_between(8, power_of_two_below(row_count / 20), 256)
        rows = ceil(row_count / batch)
        steps = round_between(500, 200 * rows, round_between(10_000, 5 * rows, 100_000))
        return {
            "model": {"hidden": hidden},
            "data": {"batch_size": batch},
            "optim": {"learning_rate": 0.003},
            "training": default_run_length(recipe.training, rows=rows, steps=steps, patience=20),
        }

    @staticmethod
    def fill_sizes(recipe: RegressionRecipe, prepared: TableData) -> RegressionRecipe:
        """Return the recipe with the number of columns, and of classes where there are any."""
        inputs, outputs = len(prepared.columns.inputs), len(prepared.columns.classes) or 1
        return replace(recipe, model=replace(recipe.model, inputs=inputs, outputs=outputs))

    def _notes(self) -> list[str]:
        """Return a note on how well linear least squares does, to be beaten."""
        columns, train, valid = self.tables.columns, self.tables.train, self.tables.valid
        scores = ", ".join(
            f"{name} {value:.4g}" for name, value in score_linear_baseline(train, valid, columns).items()
        )
        return [f"linear least squares: {scores}"]

    def batch(self, row: int) -> Examples:
        """Return some rows of the table; each comes once in an epoch."""
        data = self.recipe.data
        numbers = self.tables.row(row, batch=data.batch_size, seed=data.seed)
        return Examples(numbers.tolist(), (self.train_inputs[numbers], self.train_targets[numbers]))

    def origins(self, batch: Examples) -> list[str]:
        """Return where these rows stand in the file."""
        return [self.tables.train.places[number] for number in batch.numbers]

    def step(self, batch: Examples, part: str) -> Step:
        """Return squared error or cross-entropy, summed over the rows."""
        inputs, targets = batch.to(device_of(self.model)).parts
        return Step(loss=loss_of(self.model(inputs), targets), weight=len(batch), counts={"rows": len(batch)})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Score the answers for validation rows."""
        predictor, valid = self.predictor(), self.tables.valid
        outputs, (_, targets) = predictor.outputs(valid.inputs), self._tensors(valid)
        assert valid.targets is not None
        metrics = {"loss": loss_of(outputs, targets).item() / len(valid), **predictor.scores(valid)}
        predictions = predictor.predictions(outputs[:SHOWN])
        classes = self.tables.columns.classes
        truths = [Prediction(classes[int(target)] if classes else float(target)) for target in valid.targets[:SHOWN]]
        samples = [
            {"row": place, "truth": truth.text, "answer": answer.text}
            for place, truth, answer in zip(valid.places, truths, predictions, strict=False)
        ]
        return Evaluation(metrics, samples)

    def predictor(self) -> Predictor:
        """Return the model as it is now, ready to use."""
        return Predictor(self.model, self.tables.columns)

    def contents(self) -> dict[str, Any]:
        """Return the files of a checkpoint beside weights and metrics."""
        recipe = config.plain(self.recipe)
        settings = {name: recipe[name] for name in ("task", "model")}
        columns = config.plain(asdict(self.tables.columns))
        return {"config.yaml": {"format": 1, **settings}, COLUMNS: columns, "README.md": _card(self.tables)}

    def _tensors(self, rows: TableRows) -> tuple[Tensor, Tensor]:
        """Return scaled inputs and targets."""
        columns = self.tables.columns
        assert rows.targets is not None
        inputs = torch.from_numpy(columns.scale(rows.inputs))
        if columns.classes:
            return inputs, torch.from_numpy(rows.targets)
        return inputs, torch.from_numpy(((rows.targets - columns.mean) / columns.deviation).astype(np.float32))


@dataclass(frozen=True)
class Prediction:
    """An answer: a number, or a class with its probability."""

    value: float | str
    probability: float | None = None

    @property
    def text(self) -> str:
        """The answer as it is printed."""
        return self.value if isinstance(self.value, str) else f"{self.value:.6g}"

    def __str__(self) -> str:
        return self.text

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        probability = {} if self.probability is None else {"probability": round(self.probability, 6)}
        return {"value": self.value, **probability}


class Predictor(DirectAnswers):
    """Predicts a column of a table."""

    task: ClassVar[str] = "regression"
    verb: ClassVar[str] = "predict"
    kind: ClassVar[str] = "a model of tables"
    input_kind: ClassVar[InputKind] = ROW
    Options: ClassVar[type] = NoOptions
    __repr__ = describe_model

    def __init__(self, model: Perceptron, columns: Columns, name: str = "predictor") -> None:
        self.model, self.columns, self.name = model, columns, name

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Predictor:
        """Load the predictor of a checkpoint directory."""
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        return cls(load_model(checkpoint, device), read_columns(checkpoint), name=name)

    @property
    def inputs(self) -> Inputs:
        """Rows of a table, by the names of its columns."""
        example = ",".join(f"{name}=1" for name in self.columns.inputs)
        return Inputs(kind=self.input_kind, parse=self.parse, read=self.read, example=example)

    def parse(self, text: str) -> dict[str, float]:
        """Return a row from text such as `length=1,mass=0.5`."""
        cells = [
            (name.strip(), value.strip()) for name, mark, value in (c.rpartition("=") for c in text.split(",")) if mark
        ]
        if len(cells) <= text.count(","):
            example = ",".join(f"{name}=1" for name in self.columns.inputs[:2])
            raise ValueError(f"{text!r} is no row: name its columns, such as {example}, or give a table")
        row: dict[str, float] = {}
        for name, value in cells:
            if name in row:
                raise ValueError(f"{text}: column {name} is given twice: leave one out")
            if name not in self.columns.inputs:
                raise ValueError(f"{text}: the model reads no column {name}{suggest_name(name, self.columns.inputs)}")
            row[name] = number_in(value, name, text, remedy="leave the row out")
        return row

    def answer(self, inputs: Sequence[Mapping[str, Any]], **options: Any) -> list[Prediction]:
        """Return the answers to rows given as numbers by the names of columns."""
        resolve_options(self, options)
        return self.predict(inputs)

    def evaluate(self, *files: str | Path, name: str | None = None) -> Scores:
        """Score the answers on tables that have the column predicted."""
        check_files(self, files, "tables")
        parts = [tables.read(str(file), self.columns, target=True) for file in files]
        inputs, truths = (np.concatenate(part) for part in zip(*((r.inputs, r.targets) for r in parts), strict=True))
        outputs = self._finite_outputs(inputs)
        predictions, places = self.predictions(outputs), [place for rows in parts for place in rows.places]
        classes = self.columns.classes
        truth_texts = [classes[int(number)] if classes else f"{number:.6g}" for number in truths]
        if classes:
            metrics = {"accuracy, %": mean_statistics(100.0 * (outputs.argmax(-1).numpy() == truths))}
            example_scores = outputs.softmax(-1).double().numpy()[np.arange(len(truths)), truths]
            measures, score_name = {}, "probability of the truth"
        else:
            example_scores = np.abs(self.numbers(outputs) - truths)
            metrics = {"mean absolute error": mean_statistics(example_scores, lower=True)}
            measures, score_name = {"r2": f"{score_numbers(self.numbers(outputs), truths)['r2']:.4f}"}, "error"
        examples = [
            Judged(i + 1, place, truth, answer.text, float(number))
            for i, (place, truth, answer, number) in enumerate(
                zip(places, truth_texts, predictions, example_scores, strict=True)
            )
        ]
        settings: dict[str, Any] = {"unit": "row", "counted": score_name, "lower_is_better": not classes}
        return Scores(name or self.name, self.task, metrics, examples, measures=measures, **settings)

    def look(self, row: Any, **options: Any) -> Trace:
        """Raise an error: a perceptron has no attention to look at."""
        raise no_attention_error(self)

    def predict(self, rows: Sequence[Mapping[str, Any]]) -> list[Prediction]:
        """Return the answers to rows given as numbers, or texts of numbers, by the names of columns."""
        rows = list_inputs(rows, ROW, verb=self.verb)
        if not rows:
            return []
        missing = [name for row in rows for name in self.columns.inputs if name not in row]
        if missing:
            raise ValueError(f"a row without {missing[0]}: the model needs {', '.join(self.columns.inputs)}")
        names = self.columns.inputs
        values = [[_number(row[name], name, f"row {number}") for name in names] for number, row in enumerate(rows, 1)]
        return self.predictions(self._finite_outputs(np.array(values)))

    def read(self, file: str | Path) -> list[dict[str, float]]:
        """Return the rows of a table, as inputs."""
        file = check_path(file, "a table is given by the name of its file")
        rows = tables.read(str(file), self.columns, target=False).inputs
        return [dict(zip(self.columns.inputs, map(float, row), strict=True)) for row in rows]

    def predict_file(self, name: str | Path) -> tuple[list[Prediction], dict[str, float]]:
        """Return the answers to the rows of a table, and their scores where it has the column predicted."""
        rows = tables.read(str(check_path(name, "a table is given by the name of its file")), self.columns)
        return self.predictions(self._finite_outputs(rows.inputs)), self.scores(
            rows
        ) if rows.targets is not None else {}

    @torch.no_grad()
    def outputs(self, inputs: Float[np.ndarray, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Return the outputs of the network for rows as they stand in a table."""
        device = self.runner.device
        return self.runner(torch.from_numpy(self.columns.scale(inputs)).to(device)).cpu()

    def _finite_outputs(self, inputs: Float[np.ndarray, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Return the outputs of the network; raise an error if they are not finite."""
        outputs = self.outputs(inputs)
        if not bool(outputs.isfinite().all()):
            raise ValueError(
                f"{self.name} answers with numbers that are not finite: its training failed, train it again with a "
                "lower optim.learning_rate"
            )
        return outputs

    def predictions(self, outputs: Float[Tensor, "rows outputs"]) -> list[Prediction]:
        """Return outputs in the units of the table, or as names of classes."""
        if not self.columns.classes:
            return [Prediction(float(value)) for value in self.numbers(outputs)]
        probabilities, classes = outputs.softmax(-1).max(-1)
        return [
            Prediction(self.columns.classes[int(number)], float(probability))
            for probability, number in zip(probabilities, classes, strict=True)
        ]

    def numbers(self, outputs: Float[Tensor, "rows 1"]) -> Float[np.ndarray, "rows"]:
        """Return outputs in the units of the table."""
        return outputs[:, 0].double().numpy() * self.columns.deviation + self.columns.mean

    def scores(self, rows: TableRows) -> dict[str, float]:
        """Score the answers to rows with targets."""
        assert rows.targets is not None
        outputs = self.outputs(rows.inputs)
        if self.columns.classes:
            return {"accuracy": float((outputs.argmax(-1).numpy() == rows.targets).mean())}
        return score_numbers(self.numbers(outputs), rows.targets)


def _number(value: Any, column: str, where: str) -> float:
    """Return the number that a program gives for a column: a number, or a text that is one."""
    with suppress(TypeError, ValueError, OverflowError):
        value = float(value)
    return number_in(str(value), column, where, remedy="leave the row out")


def loss_of(outputs: Float[Tensor, "rows outputs"], targets: Tensor) -> Float[Tensor, ""]:
    """Return cross-entropy of classes, or squared error of scaled numbers, summed."""
    if targets.is_floating_point():
        return (outputs[:, 0] - targets).square().sum()
    return F.cross_entropy(outputs, targets, reduction="sum")


def read_columns(checkpoint: Checkpoint) -> Columns:
    """Read names, scales and classes of the columns that a model was trained on."""
    return config.build(Columns, checkpoint.json(COLUMNS), where=COLUMNS)


def score_numbers(answers: Float[np.ndarray, "rows"], truths: Float[np.ndarray, "rows"]) -> dict[str, float]:
    """Return the share of the variance that is explained, and the mean absolute error in the column's unit."""
    total_squares = float(np.square(truths - truths.mean()).sum())
    residual_squares = float(np.square(answers - truths).sum())
    return {
        "r2": 1 - residual_squares / total_squares if total_squares else float(residual_squares == 0),
        "mae": float(np.abs(answers - truths).mean()),
    }


def score_linear_baseline(train: TableRows, valid: TableRows, columns: Columns) -> dict[str, float]:
    """Score linear least squares; for classes, the largest of one such answer for each."""
    assert train.targets is not None
    assert valid.targets is not None
    train_inputs, valid_inputs = (
        np.column_stack([columns.scale(rows.inputs), np.ones(len(rows))]) for rows in (train, valid)
    )
    targets = np.eye(len(columns.classes))[train.targets] if columns.classes else train.targets
    weights, *_ = np.linalg.lstsq(train_inputs, targets, rcond=None)
    if columns.classes:
        return {"accuracy": float(((valid_inputs @ weights).argmax(-1) == valid.targets).mean())}
    return score_numbers(valid_inputs @ weights, valid.targets)


def _card(prepared: TableData) -> str:
    columns = prepared.columns
    what = f"which of {', '.join(columns.classes[:8])} it is" if columns.classes else "a number"
    return model_card(
        f"Predicts {columns.target}",
        f"From {', '.join(columns.inputs)}; the answer is {what}. A multi-layer perceptron, trained with Regard on "
        f"{len(prepared.train):,} rows of a table.",
        command="regard predict DIRECTORY -i table.csv",
        code='predict_file("table.csv")',
    )
