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
    """Reason why training has failed, with a remedy; training stops, and the model is never the best."""


@dataclass(frozen=True)
class TraceInput:
    """A held-out input in which a model is looked into at every evaluation."""

    value: Any
    """What `look` of the trained model reads."""
    text: str
    """The input in words, as it is recorded."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of `look`."""
    reference: str | None = None
    """The answer that the model reads instead of writing its own, so that the same words are seen at every step."""


class Tracer(Protocol):
    """Records where a model looks while it is trained."""

    def record(self, step: int) -> None:
        """Record where the model looks at this step; never raises an error."""


@dataclass(frozen=True)
class Given:
    """Files to train on, and what the user said about them."""

    files: tuple[str, ...]
    valid: tuple[str, ...] = ()
    """Validation files."""
    kind: str | None = None
    """The kind of the files, one of the tasks' `takes`; None: it is recognised from the contents."""
    aligned: bool = False
    """True for two parallel files, with matching lines."""
    to: str | None = None
    """The language of the second texts."""
    labels: str | None = None
    """A file with labels for the other files."""
    columns: tuple[int, int] | None = None
    """Columns of the two texts, or of text and label."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings given by the user."""

    @property
    def is_declared(self) -> bool:
        """True if the user said what the files are, so that their contents do not decide."""
        return self.kind is not None or "task" in self.settings


@dataclass(frozen=True)
class Claim:
    """A task's interpretation of files."""

    data: Mapping[str, Any]
    """The data section of a recipe for these files."""
    sentence: str
    """Description of the files and of the model to train, to be shown after the file names."""
    confidence: int
    """One of the four levels below."""


NAMED, SURE, LIKELY, POSSIBLE = 4, 3, 2, 1  # NAMED: the names of columns say what they hold


def data_section(train: Sequence[Any], valid: Sequence[Any] = ()) -> dict[str, Any]:
    """Return a data section with these files: several in a list, one by itself so that settings can refer to it."""
    files_by_part = {"train": list(train), "valid": list(valid)}
    return {name: files[0] if len(files) == 1 else files for name, files in files_by_part.items() if files}


@runtime_checkable
class Data(Protocol):
    """The data that a task prepared from the files of a recipe."""

    report: Any
    """Counts and fingerprints, as JSON; resuming a run requires the same examples."""
    summary: Sequence[str]
    """Summary of the data, as lines for the log."""


def alone(function: Callable[[Any], Any], things: Sequence[Any]) -> list[Any]:
    """Apply a function to all items in this process: the `Spread` of an evaluation by a single process."""
    return [function(thing) for thing in things]


class Learner:
    """Something that the loop can train; all but `rows`, `batch` and `step` has a default."""

    model: Any
    """Any module; a `regard.models.interface.Model` has traits as well."""
    goal: Goal | None = None
    """The metric that selects the best weights; None: the newest weights are used."""
    rows: int
    """Number of rows in an epoch."""
    piece_tokens: int | None = None
    """Tokens per backward pass on a CPU; None: a whole row, or the task cannot `split`."""
    tracer: Tracer | None = None
    """Records where the model looks at every evaluation, if anything does."""
    updates_itself: ClassVar[bool] = False
    """True if `learn` updates the weights, instead of backward pass and optimizer."""

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

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return held-out inputs to look into at every evaluation, always the same; none if there is nothing to see."""
        return []

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
    """Frozen dataclass with the field `task`, the sections data, model, training and optim, and any others."""
    usage: ClassVar[str] = "regard runs {folder}"
    """The command that uses a trained model; `{folder}` is its run folder."""
    shared: ClassVar[bool] = True
    """True if several processes may share the rows of a step; False if state is carried from row to row."""
    unshared_reason: ClassVar[str] = "each row continues the one before"
    """Reason why only one process can train the task, if `shared` is False."""
    brief: ClassVar[Mapping[str, Any]] = {}
    """Settings that shorten long evaluations in speed measurements."""
    divides: ClassVar[bool] = False
    """True if the examples can be split anew for comparing several models."""

    recipe: Any
    features: int = 0
    """Size of a row's widest activations, by which the number of threads is chosen."""
    notes: Sequence[str] = ()
    """Messages before training begins."""

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
