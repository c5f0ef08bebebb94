"""The face of a trained model: what the command line, a notebook, the page and a server know of it, and no more."""

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
from regard.metrics.scores import Scores
from regard.tasks import USES
from regard.tasks.inputs import accept_lists, explain_missing

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


@runtime_checkable
class Trained(Protocol):
    """A trained model, ready to use: what `load` gives.

    Where inputs are files, it says `opens = True`; where one of them may stand for several, as a folder for its
    pictures, `unfolded(text)` gives those; where they belong together, as the frames of a film do, `together = True`;
    where a file of inputs is more than its lines, `read(file)` gives them, and where inputs lie in several files at
    once, as samples do in tables, `joined(words)` does; where a command has an option for them, `option` names it.
    Where training read texts from a column of a table, `text_column` says which, so that other tables are read alike.
    Where answers can be scored that somebody else wrote into a file, `judge(file, *files, name, ...)` is a static
    method that does. Where it writes, and speed is told in tokens, `workloads(inputs, batches, ...)` gives what to
    time. Where it draws inputs for itself, `drawn(length)` gives some as text; where an answer can be drawn,
    `picture(given)` does. Where models of other tasks can be used in the same way, `serves(model)`, a class method,
    tells it by the settings of one. Where its evaluation says by itself which examples it was trained on, it says
    `remembers = True`. Where `look` shows other weights than those of all attentions, `attention_names()` names them.
    `load` sets `learnt_from`, the digests of the files it was trained on. A language model that can be prompted is also
    what `tasks/gaps.py` says.
    """

    task: ClassVar[str]
    verb: ClassVar[str]
    """The method that uses it: translate, classify, write ..."""
    kind: ClassVar[str]
    """What it is, in a message: a translator, a language model ..."""
    Options: ClassVar[type]
    """Frozen dataclass of everything that may be set when it answers."""
    name: str
    model: Any

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: Any = "cpu") -> Any:
        """The model that a checkpoint holds."""

    def parse(self, text: str) -> Any:
        """An input as somebody types it."""

    def answer(self, inputs: Sequence[Any], **options: Any) -> Sequence[Any]:
        """An answer for each input, in their order."""

    def exchange(self, inputs: Sequence[Any], **options: Any) -> Exchange[Sequence[Any]]:
        """The same, with somebody else to write: yields requests, is sent hypotheses, returns answers."""

    def make_engine(self, *, rows: int = ROWS) -> Engine | None:
        """What answers its requests; None if its exchanges have none."""

    def evaluate(self, *files: str | Path, **options: Any) -> Scores:
        """How good it is on files like those it was trained on."""

    def look(self, given: Any, **options: Any) -> Trace:
        """Answer one input and keep where every attention looked; a model that has none says so in a line."""


class Face:
    """What all trained models have in common: `evaluate` takes lists of files too, and what one lacks is explained."""

    kind: ClassVar[str]
    verb: ClassVar[str]

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "evaluate" in vars(cls):
            cls.evaluate = accept_lists(vars(cls)["evaluate"])  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> NoReturn:
        raise explain_missing(self, name, USES.values())


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


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing can be set."""


def revived(checkpoint: Checkpoint, device: Any) -> Any:
    """The model of a checkpoint with its weights, ready to use."""
    return models.revive(checkpoint.config["model"], checkpoint.finite_tensors(), device)


def chosen(trained: Any, options: Mapping[str, Any], *, below: Mapping[str, Any] | None = None) -> Any:
    """The options of an answer, checked; what nobody names is the model's own (`below`) or the default."""
    return config.build(trained.Options, {**(below or {}), **options}, where="options")


def described(trained: Any) -> str:
    """One line for a notebook: what it is and where it came from."""
    weights = sum(parameter.numel() for parameter in trained.model.parameters())
    device = next(iter(trained.model.state_dict().values())).device
    return f"<{type(trained).__name__} {trained.name}: {trained.task}, {weights:,} weights on {device}>"


def usage_line(usage: str, folder: str | Path) -> str:
    """The command to use a model with, its folder quoted so that the line can be pasted into a shell."""
    return f"use it with: {usage.format(folder=shlex.quote(str(folder)))}"


def blind(trained: Any, remedy: str = "") -> ValueError:
    """What to say where there is no attention to look at."""
    return ValueError(f"{trained.name} has no attention to look at{f': {remedy}' if remedy else ''}")
