"""The interface of trained models for the command line, notebooks, the page and servers."""

from __future__ import annotations

import copy
import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol, runtime_checkable

from regard import config, models
from regard.checkpoint import Checkpoint
from regard.decoding.engine import ROWS, Engine
from regard.decoding.exchange import Exchange, TextStream
from regard.interpret.notebook import Origin
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
"""Default sentences for timing models that read sentences."""


class Unreadable(ValueError):
    """Error of a single unreadable input among several."""


@runtime_checkable
class Answer(Protocol):
    """A model's answer to one input: `str(answer)` is a line to print, `plain()` the same as JSON."""

    def plain(self) -> dict[str, Any]:
        """Return the answer as JSON."""


@dataclass(frozen=True)
class Extra:
    """A further method of some models, such as evaluating maps or drawing pictures."""

    call: Callable[..., Any]
    Options: type
    """Frozen dataclass of the options that `call` takes as keyword arguments."""
    help: str
    """Description in one sentence."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Options that come from the model where none are given."""


@runtime_checkable
class Trained(Protocol):
    """A trained model, ready to use, as returned by `load`.

    `inputs` describes its inputs, `extras` has further methods by name. A language model that can be prompted is also a
    `Promptable`.
    """

    task: ClassVar[str]
    verb: ClassVar[str]
    """The method that uses the model: translate, classify, write ..."""
    kind: ClassVar[str]
    """Description in messages: a translator, a language model ..."""
    Options: ClassVar[type]
    """Frozen dataclass of the options of `answer`."""
    LookOptions: ClassVar[type]
    """Frozen dataclass of the options of `look`."""
    name: str
    model: Any
    runner: Runner
    """Computes the model's outputs; another runner may be assigned to use another engine."""

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: Any = "cpu") -> Any:
        """Load the model of a checkpoint."""

    @property
    def inputs(self) -> Inputs:
        """Description of the model's inputs."""

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Further methods, by name."""

    @property
    def languages(self) -> Sequence[str]:
        """Languages of answers to choose from, if any."""

    def answer(self, inputs: Sequence[Any], **options: Any) -> Sequence[Any]:
        """Return an answer to each input, in their order."""

    def exchange(self, inputs: Sequence[Any], **options: Any) -> Exchange[Sequence[Any]]:
        """Answer with an external engine: yield requests, receive hypotheses, and return the answers."""

    def open_stream(self, item: Any, **options: Any) -> TextStream | None:
        """Return an answer that can be read while an engine generates it; None if it comes in one piece."""

    def make_engine(self, *, rows: int = ROWS) -> Engine | None:
        """Return an engine for the requests of `exchange`; None if there are none."""

    def count_tokens(self, item: Any) -> int | None:
        """Return how many tokens an input has; None if that is as costly as answering it, or it has none."""

    def warm_up(self) -> None:
        """Do the one-time work that would make the first answers slow."""

    def evaluate(self, *files: str | Path, **options: Any) -> Scores:
        """Return scores on files like the training files."""

    def look(self, given: Any, **options: Any) -> Trace:
        """Answer one input and return all attention weights; raise an error if the model has no attention."""

    def attention_names(self) -> list[str]:
        """Return the names of the weights that `look` returns, if any."""


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options."""


class Face:
    """Base class of trained models, with the defaults of `Trained`."""

    kind: ClassVar[str]
    verb: ClassVar[str]
    model: Any
    LookOptions: ClassVar[type] = NoOptions
    input_kind: ClassVar[InputKind] = TEXT
    """The kind of a single input."""
    score_answers: ClassVar[Extra | None] = None
    """Scores answers from a file, without a model."""
    remembers: ClassVar[bool] = False
    """True if the model's evaluation itself notes examples of training."""
    _runner: Runner | None = None
    learnt_from: Mapping[str, Any] | None = {}
    """Digests of the training files; None if the checkpoint has none, empty without a checkpoint."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "evaluate" in vars(cls):
            cls.evaluate = accept_lists(vars(cls)["evaluate"])  # type: ignore[attr-defined]
        if "look" in vars(cls):
            cls.look = note_origin(vars(cls)["look"])  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> NoReturn:
        raise explain_missing(self, name, USES.values())

    @classmethod
    def serves(cls, model: Mapping[str, Any]) -> bool:
        """True if a model of another task can be used with this class, judged by the model's settings."""
        return False

    @classmethod
    def combine(cls, models: Sequence[Any]) -> Any:
        """Return an ensemble of such models, which decodes with all of them."""
        raise ValueError(f"{models[0].name} is {cls.kind}, and only translators decode together: load one model")

    @property
    def runner(self) -> Runner:
        """The runner that computes the model's outputs: PyTorch, unless another one was assigned."""
        return TorchRunner(self.model) if self._runner is None else self._runner

    @runner.setter
    def runner(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def inputs(self) -> Inputs:
        """Description of the model's inputs."""
        return Inputs(kind=self.input_kind, parse=self.parse)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Further methods, by name."""
        return {}

    @property
    def languages(self) -> Sequence[str]:
        """Languages of answers to choose from, if any."""
        return ()

    def parse(self, text: str) -> Any:
        """Parse text to an input of `answer`; for most models the text itself."""
        return text

    def attention_names(self) -> list[str]:
        """Return the names of the weights that `look` returns: all attentions of the model."""
        return attention_names(self.model)

    def open_stream(self, item: Any, **options: Any) -> TextStream | None:
        """Return an answer that can be read while it is generated; by default None: answers come in one piece."""
        return None

    def count_tokens(self, item: Any) -> int | None:
        """Return how many tokens an input has; by default None: it is not known before it is answered."""
        return None

    def warm_up(self) -> None:
        """Do the one-time work that would make the first answers slow; by default nothing."""


class DirectAnswers(Face):
    """Base class of trained models that do not generate tokens and so need no engine."""

    answer: Callable[..., Sequence[Any]]

    def exchange(self, inputs: Sequence[Any], **options: Any) -> Exchange[Sequence[Any]]:
        """Answer without requests."""
        yield from ()
        return self.answer(inputs, **options)

    def make_engine(self, *, rows: int = ROWS) -> None:
        """Return None: no engine is needed."""


@dataclass(frozen=True)
class Workload:
    """An action to time, with the number of tokens that it generates and the bytes of weights that it reads."""

    name: str
    action: Callable[[], Any]
    tokens: int
    read: int


def note_origin(look: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `look` so that its trace knows the model and the question: its page in a notebook can ask more."""

    @functools.wraps(look)
    def look_and_note(trained: Any, *inputs: Any, **options: Any) -> Any:
        trace = look(trained, *inputs, **options)
        return replace(trace, origin=Origin(trained, inputs[0] if inputs else None, options))

    return look_and_note


def load_model(checkpoint: Checkpoint, device: Any) -> Any:
    """Load the model of a checkpoint with its weights, ready to use."""
    return models.revive(checkpoint.config["model"], checkpoint.finite_tensors(), device)


def copy_sharing_weights(trained: Any) -> Any:
    """Return a copy of a trained model with modules of its own, which can be watched, and the same weights."""
    weights = (*trained.model.parameters(), *trained.model.buffers())
    return copy.deepcopy(trained, {id(tensor): tensor for tensor in weights})


def resolve_options(trained: Any, options: Mapping[str, Any], *, below: Mapping[str, Any] | None = None) -> Any:
    """Return the checked options of an answer; missing ones come from the model (`below`) or the defaults."""
    current_options = config.rename_former_settings(trained.Options, options, where="options")
    return config.build(trained.Options, {**(below or {}), **current_options}, where="options")


def describe_model(trained: Any) -> str:
    """Return one line for a notebook with the model's class, name, task, size and device."""
    runner: Runner = trained.runner
    weights = f"{runner.weights.number:,} weights on {runner.device}"
    return f"<{type(trained).__name__} {trained.name}: {trained.task}, {weights}>"


def usage_line(usage: str, folder: str | Path) -> str:
    """Return the command that uses a model, with its folder quoted for a shell."""
    return f"use it with: {usage.format(folder=shlex.quote(str(folder)))}"


def no_attention_error(trained: Any, remedy: str = "") -> ValueError:
    """Return the error for a model without attention."""
    return ValueError(f"{trained.name} has no attention to look at{f': {remedy}' if remedy else ''}")
