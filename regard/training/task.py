"""The interface of tasks to recipes and the training loop: the base classes of every task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from regard import config, models
from regard.checkpoint import Checkpoint
from regard.config.merging import drop_automatic_preset, keep_earlier_values, merge_settings, preset_of
from regard.data.examples import TensorBatch
from regard.training import transfer
from regard.training.checking import prepare_report
from regard.training.tuning import TuningConfig

Goal = tuple[str, Literal["max", "min"]]
LENGTHS = ("steps", "epochs", "seconds")  # settings of the length of training: if one is set, no other is chosen
Spread = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class Step:
    """The result of a task on one row: the summed loss, the weight it is summed over, and counts to report."""

    loss: Tensor
    weight: int | float | Tensor
    counts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """Scores by name, and a few sample answers."""

    metrics: Mapping[str, int | float]
    samples: list[dict[str, Any]] = field(default_factory=list)
    failed: str | None = None
    """Why training has gone wrong for good, with a remedy: such a model is never the best, and training stops."""


@dataclass(frozen=True)
class Given:
    """Files to train on, and what the user said about them."""

    files: tuple[str, ...]
    valid: tuple[str, ...] = ()
    """Files to measure on."""
    kind: str | None = None
    """What they hold, as a task's `takes` calls it; None: it is to be seen."""
    aligned: bool = False
    """Whether there are two, line n of the second belonging to line n of the first."""
    to: str | None = None
    """The language of the second texts."""
    labels: str | None = None
    """A file with the labels of what the others hold."""
    columns: tuple[int, int] | None = None
    """Columns of the two texts, or of text and label."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What was named beside them."""

    @property
    def is_declared(self) -> bool:
        """True if the user said what the files are, so that their contents do not decide."""
        return self.kind is not None or "task" in self.settings


@dataclass(frozen=True)
class Claim:
    """A task's interpretation of files."""

    data: Mapping[str, Any]
    """The data section of a recipe that learns from them."""
    sentence: str
    """What it takes them for and what it would train, as it follows the names of the files."""
    confidence: int
    """How sure it is: one of the four below."""


NAMED, SURE, LIKELY, POSSIBLE = 4, 3, 2, 1  # NAMED: the names of columns say what they hold


def data_section(train: Sequence[Any], valid: Sequence[Any] = ()) -> dict[str, Any]:
    """Return a data section with these files: several in a list, one by itself so that settings can refer to it."""
    files_by_part = {"train": list(train), "valid": list(valid)}
    return {name: files[0] if len(files) == 1 else files for name, files in files_by_part.items() if files}


@runtime_checkable
class Data(Protocol):
    """The data that a task prepared from the files of a recipe."""

    report: Any
    """Counts and fingerprints, as JSON: a run is resumed with the same examples only."""
    summary: Sequence[str]
    """The same in lines for a person."""


def alone(function: Callable[[Any], Any], things: Sequence[Any]) -> list[Any]:
    """Apply a function to all items in this process: the `Spread` of an evaluation by a single process."""
    return [function(thing) for thing in things]


class Learner:
    """Something that the loop can train; all but `rows`, `batch` and `step` has a default."""

    model: Any
    """Any module; one of `regard.models.interface.Model` says more of itself."""
    goal: Goal | None = None
    """The metric by which the best weights are chosen; None: the newest are."""
    rows: int
    """Rows in an epoch."""
    piece_tokens: int | None = None
    """Tokens for which a CPU computes gradients at once; None: all of a row, or the task cannot `split`."""
    updates_itself: ClassVar[bool] = False
    """True if `learn` changes the weights and stands for backward pass and optimizer."""

    @property
    def tuning(self) -> TuningConfig | None:
        """Return the settings for training only some weights of a model to start from; None: all are trained."""
        return None

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Return the parameters of each optimizer, in the order of their steps; `optim` may have a section for each."""
        return {"model": list(self.model.parameters())}

    def batch(self, row: int) -> Any:
        """Return the data of a row, a pure function of its number; numbers continue across epochs."""
        raise NotImplementedError

    def step(self, batch: Any, part: str) -> Step:
        """Return the loss that this part's parameters should lower."""
        raise NotImplementedError

    def learn(self, rows: Sequence[int], *, total: int) -> Step:
        """Update the weights by these rows, out of `total` in the whole run."""
        raise NotImplementedError

    def after_update(self, loss: Tensor, *, veto: Tensor) -> None:
        """Receive the mean loss of a step over all processes, and whether the update was skipped."""

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Evaluate the model; work passed to `spread` is divided among all processes."""
        return Evaluation({})

    def contents(self) -> dict[str, Any]:
        """Return the files of a checkpoint beside weights, metrics and manifest."""
        return {}

    def split(self, batch: Any) -> list[Any]:
        """Return the halves of a batch, or only itself where it cannot be halved."""
        return batch.halves() if isinstance(batch, TensorBatch) else [batch]

    def origins(self, batch: Any) -> list[str]:
        """Return where the examples of a batch come from (such as `train.fr:1042`), longest first."""
        return []


class Task(Learner):
    """A task, from the files of a recipe to a model that the loop can train.

    A custom task needs `Recipe`, `prepare`, `rows`, `batch` and `step`; everything else has a default here.
    """

    Recipe: ClassVar[Any]
    """Frozen dataclass with the name as `task`, the sections data, model, training, optim, and whatever else to set."""
    usage: ClassVar[str] = "regard runs {folder}"
    """The command that uses a trained model; `{folder}` is its run."""
    shared: ClassVar[bool] = True
    """True if several processes may share a step's rows: not where a row carries a state to the next one."""
    unshared_reason: ClassVar[str] = "each row continues the one before"
    """Why only one process can train it, where `shared` is false."""
    brief: ClassVar[Mapping[str, Any]] = {}
    """Settings that shorten long evaluations, for measurements of speed."""
    divides: ClassVar[bool] = False
    """True if its examples can be divided anew, so that several models are compared on the same ones."""

    recipe: Any
    features: int = 0
    """Numbers in a row of the widest layer: small rows are computed faster by one thread."""
    notes: Sequence[str] = ()
    """What to say before training begins."""

    def __init__(self, recipe: Any, data: Any, model: nn.Module, *, fixed: bool = False) -> None:
        """Prepare for training; rows of `fixed` shape can be compiled and captured."""
        self.recipe, self.data, self.model, self.fixed = recipe, data, model, fixed

    @staticmethod
    def recognise(inputs: Given, /) -> Claim | None:
        """Return how the task interprets the files, or None if they are not for it."""
        return None

    @staticmethod
    def prepare(recipe: Any, parent: Checkpoint | None = None) -> Any:
        """Read the data; `parent`, a checkpoint to start from, gives its tokenizer, labels and scales."""
        raise NotImplementedError

    @classmethod
    def check(cls, recipe: Any, *, tokens: bool = False) -> Any:
        """Return a report on the data with `lines()`, `plain()` and `problems`; `tokens` asks for lengths in tokens."""
        return prepare_report(cls, recipe)

    @staticmethod
    def default_settings(recipe: Any, data: Any) -> Mapping[str, Any]:
        """Choose defaults for the data, used where no value was set: sizes, length, warm-up, patience."""
        return {}

    @staticmethod
    def fill_sizes(recipe: Any, data: Any) -> Any:
        """Return the recipe with the sizes that follow from the data: the number of tokens, classes or inputs."""
        return recipe

    @staticmethod
    def limit_lengths(model: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return settings that keep examples within the length that a model to start from can read."""
        return {}

    @classmethod
    def model_settings(cls, settings: Mapping[str, Any], parent: Checkpoint) -> dict[str, Any]:
        """Return the model section of a run that starts from a parent."""
        overrides = drop_automatic_preset(settings).get("model", {})
        available = config.sections(cls.Recipe, "model").values()
        return transfer.model_settings(parent, overrides, task=cls.Recipe.task, available=available)

    @classmethod
    def limit_settings(cls, settings: Mapping[str, Any], parent: Checkpoint) -> dict[str, Any]:
        """Return the settings with which data is prepared for a parent; settings that do not fit it are refused."""
        limits = cls.limit_lengths(cls.model_settings(settings, parent))
        return merge_settings(config.rename_former_settings(cls.Recipe, limits), settings)

    @classmethod
    def resolve(
        cls,
        settings: Mapping[str, Any],
        data: Any,
        parent: Checkpoint | None = None,
        *,
        begun: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the whole recipe: values that were not set follow from the parent and from the data.

        A run that was `begun` with these settings keeps the values chosen then.
        """
        explicit = drop_automatic_preset(settings)
        defaults = cls.default_settings(config.build(cls.Recipe, explicit), data)
        chosen = config.rename_former_settings(cls.Recipe, defaults)
        if preset_of(explicit) is not None:
            chosen.pop("model", None)  # a preset names all sizes
        if any(name in explicit.get("training", {}) for name in LENGTHS):
            training = chosen.get("training", {})
            chosen["training"] = {name: value for name, value in training.items() if name not in LENGTHS}
        chosen = keep_earlier_values(chosen, begun)
        if parent is not None:
            chosen["model"] = cls.model_settings(settings, parent)
        return cls.fill_sizes(config.build(cls.Recipe, merge_settings(chosen, explicit)), data)

    @staticmethod
    def build_model(recipe: Any) -> nn.Module:
        """Return the model of a resolved recipe, with weights drawn at random."""
        return models.build(recipe.model)

    @classmethod
    def adopt(cls, model: Any, parent: Checkpoint, data: Any) -> list[str]:
        """Give a new model the weights of a parent, or of its backbone; return notes on what is new."""
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == cls.Recipe.task)

    @property
    def tuning(self) -> TuningConfig | None:
        """Return the tuning section of the recipe, if there is one."""
        return tuning_of(self.recipe)

    def contents(self) -> dict[str, Any]:
        """Return the settings and the card of a checkpoint."""
        return {"config.yaml": config.plain(self.recipe), "README.md": self.card()}

    def card(self) -> str:
        """Return the README beside a model's weights."""
        return f"# A model trained for {self.recipe.task}\n\nUse it with `{self.usage.format(folder='DIRECTORY')}`.\n"


def tuning_of(recipe: Any) -> TuningConfig | None:
    """Return the tuning section of a recipe; None where the task has none."""
    return vars(recipe).get("tuning")
