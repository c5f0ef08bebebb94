"""What all trained models offer to the command line, notebooks, the page and servers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol, runtime_checkable

from regard import config, models
from regard.checkpoint import Checkpoint
from regard.decoding.engine import ROWS, Engine
from regard.decoding.exchange import Exchange
from regard.interpret.trace import Trace
from regard.interpret.watch import attention_names
from regard.metrics.scores import Scores
from regard.tasks import USES
from regard.tasks.inputs import TEXT, InputKind, Inputs, accept_lists, explain_missing
from regard.tasks.runner import Runner, TorchRunner

SENTENCES = (
    "The man in the red coat walks slowly along the river with his two dogs.",
    "Nobody knows where she bought the old house in which her parents used to live.",
    "A few children are playing football on the grass behind the school this afternoon.",
    "If it had not rained so much yesterday, we would have gone to the mountains together.",
)
"""What a model is timed with that reads sentences, where nobody gives any."""


class Unreadable(ValueError):
    """Why one of several inputs cannot be read; the others can."""


@runtime_checkable
class Answer(Protocol):
    """What a model says of one input: `str(answer)` is a line for a person, `plain()` the same as JSON."""

    def plain(self) -> dict[str, Any]:
        """As JSON."""


@dataclass(frozen=True)
class Extra:
    """Something that only some models do beside answering: judge maps, draw pictures, time themselves."""

    call: Callable[..., Any]
    Options: type
    """Frozen dataclass of the options that `call` takes as keyword arguments."""
    help: str
    """What it does, in a sentence."""


@runtime_checkable
class Trained(Protocol):
    """A trained model, ready to use: what `load` gives.

    What it reads is described by `inputs`, what only some models do lies in `extras` by name. A language model that can
    be prompted is also a `Promptable`.
    """

    task: ClassVar[str]
    verb: ClassVar[str]
    """The method that uses it: translate, classify, write ..."""
    kind: ClassVar[str]
    """What it is, in a message: a translator, a language model ..."""
    Options: ClassVar[type]
    """Frozen dataclass of everything that may be set when it answers."""
    LookOptions: ClassVar[type]
    """Frozen dataclass of everything that may be set when it shows where it looked."""
    name: str
    model: Any
    runner: Runner
    """Computes its outputs; who assigns another one has another engine compute them."""

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: Any = "cpu") -> Any:
        """The model that a checkpoint holds."""

    @property
    def inputs(self) -> Inputs:
        """What it reads, and how people write it."""

    @property
    def extras(self) -> Mapping[str, Extra]:
        """What it does beside answering, by name."""

    @property
    def languages(self) -> Sequence[str]:
        """Languages that it can answer in, where there is a choice."""

    def answer(self, inputs: Sequence[Any], **options: Any) -> Sequence[Any]:
        """An answer for each input, in their order."""

    def exchange(self, inputs: Sequence[Any], **options: Any) -> Exchange[Sequence[Any]]:
        """The same, with somebody else to write: yields requests, is sent hypotheses, returns answers."""

    def make_engine(self, *, rows: int = ROWS) -> Engine | None:
        """What answers its requests; None if its exchanges have none."""

    def warm_up(self) -> None:
        """Do what would make the first answers slower than later ones."""

    def evaluate(self, *files: str | Path, **options: Any) -> Scores:
        """How good it is on files like those it was trained on."""

    def look(self, given: Any, **options: Any) -> Trace:
        """Answer one input and keep where every attention looked; a model that has none says so in a line."""

    def attention_names(self) -> list[str]:
        """Names of the weights that `look` shows; none where there is nothing to look at."""


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing can be set."""


class Face:
    """What all trained models have in common, and what those do that say nothing else."""

    kind: ClassVar[str]
    verb: ClassVar[str]
    model: Any
    LookOptions: ClassVar[type] = NoOptions
    input_kind: ClassVar[InputKind] = TEXT
    """What it reads one of at a time."""
    score_answers: ClassVar[Extra | None] = None
    """Scores answers that somebody else wrote into a file, for which no model is needed."""
    remembers: ClassVar[bool] = False
    """True if its evaluation itself says which examples it was trained on."""
    _runner: Runner | None = None
    learnt_from: Mapping[str, Any] | None = {}
    """Digests of the files it was trained on; None if its checkpoint has none, empty if it comes from no checkpoint."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "evaluate" in vars(cls):
            cls.evaluate = accept_lists(vars(cls)["evaluate"])  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> NoReturn:
        raise explain_missing(self, name, USES.values())

    @classmethod
    def serves(cls, model: Mapping[str, Any]) -> bool:
        """True if models that learnt another task can be used like this, by the settings of one."""
        return False

    @classmethod
    def combine(cls, models: Sequence[Any]) -> Any:
        """Return an ensemble of such models, which decodes with all of them."""
        raise ValueError(f"{models[0].name} is {cls.kind}, and only translators decode together: load one model")

    @property
    def runner(self) -> Runner:
        """What computes its outputs: PyTorch, unless another engine was assigned."""
        return TorchRunner(self.model) if self._runner is None else self._runner

    @runner.setter
    def runner(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def inputs(self) -> Inputs:
        """What it reads, and how people write it."""
        return Inputs(kind=self.input_kind, parse=self.parse)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """What it does beside answering, by name."""
        return {}

    @property
    def languages(self) -> Sequence[str]:
        """Languages that it can answer in, where there is a choice."""
        return ()

    def parse(self, text: str) -> Any:
        """Return an input as `answer` takes it: of most models the text itself."""
        return text

    def attention_names(self) -> list[str]:
        """Return the names of the weights that `look` shows: all attentions of the model."""
        return attention_names(self.model)

    def warm_up(self) -> None:
        """Do what would make the first answers slower than later ones: nothing, unless a model says so."""


class DirectAnswers(Face):
    """A trained model that has nothing written token by token: its exchange answers at once."""

    answer: Callable[..., Sequence[Any]]

    def exchange(self, inputs: Sequence[Any], **options: Any) -> Exchange[Sequence[Any]]:
        """Answer without asking for anything."""
        yield from ()
        return self.answer(inputs, **options)

    def make_engine(self, *, rows: int = ROWS) -> None:
        """Nothing is asked of an engine."""


@dataclass(frozen=True)
class Workload:
    """Something a model does that can be timed, how many tokens that writes and the bytes of weights it must read."""

    name: str
    action: Callable[[], Any]
    tokens: int
    read: int


def load_model(checkpoint: Checkpoint, device: Any) -> Any:
    """Load the model of a checkpoint with its weights, ready to use."""
    return models.revive(checkpoint.config["model"], checkpoint.finite_tensors(), device)


def resolve_options(trained: Any, options: Mapping[str, Any], *, below: Mapping[str, Any] | None = None) -> Any:
    """Return the options of an answer, checked; what nobody names is the model's own (`below`) or the default."""
    current_options = config.rename_former_settings(trained.Options, options, where="options")
    return config.build(trained.Options, {**(below or {}), **current_options}, where="options")


def describe_model(trained: Any) -> str:
    """Return one line for a notebook: what a model is and where it runs."""
    runner: Runner = trained.runner
    weights = f"{runner.weights.number:,} weights on {runner.device}"
    return f"<{type(trained).__name__} {trained.name}: {trained.task}, {weights}>"


def usage_line(usage: str, folder: str | Path) -> str:
    """Return the command to use a model with, its folder quoted so that the line can be pasted into a shell."""
    return f"use it with: {usage.format(folder=shlex.quote(str(folder)))}"


def no_attention_error(trained: Any, remedy: str = "") -> ValueError:
    """Return the error of a model that has no attention to look at."""
    return ValueError(f"{trained.name} has no attention to look at{f': {remedy}' if remedy else ''}")
