"""The face of a trained model: what the command line, a notebook, the page and a server know of it, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard import config
from regard.checkpoint import Checkpoint
from regard.interpret.trace import Trace
from regard.metrics.scores import Scores


@runtime_checkable
class Answer(Protocol):
    """What a model says of one input: `str(answer)` is a line for a person, `plain()` the same as JSON."""

    def plain(self) -> dict[str, Any]:
        """As JSON."""


@runtime_checkable
class Trained(Protocol):
    """A trained model, ready to use: what `load` gives."""

    task: ClassVar[str]
    verb: ClassVar[str]
    """The command and the method that use it: translate, classify, write ..."""
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

    def evaluate(self, *files: str | Path, **options: Any) -> Scores:
        """How good it is on files like those it was trained on."""

    def look(self, given: Any, **options: Any) -> Trace:
        """Answer one input and keep where every attention looked; a model that has none says so in a line."""


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing can be set."""


def chosen(trained: Any, options: Mapping[str, Any], *, below: Mapping[str, Any] | None = None) -> Any:
    """The options of an answer, checked; what nobody names is the model's own (`below`) or the default."""
    return config.build(trained.Options, {**(below or {}), **options}, where="options")


def described(trained: Any) -> str:
    """One line for a notebook: what it is and where it came from."""
    weights = sum(parameter.numel() for parameter in trained.model.parameters())
    device = next(iter(trained.model.state_dict().values())).device
    return f"<{type(trained).__name__} {trained.name}: {trained.task}, {weights:,} weights on {device}>"


def blind(trained: Any, remedy: str = "") -> ValueError:
    """What to say where there is no attention to look at."""
    return ValueError(f"{trained.name} has no attention to look at{f': {remedy}' if remedy else ''}")


class Unfilled(TorchFunctionMode):
    """Inside the block weights are not drawn at random: they are about to be replaced, every one of them."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function in (Tensor.uniform_, Tensor.normal_) or getattr(function, "__module__", "") == "torch.nn.init":
            return named["tensor"] if "tensor" in named else arguments[0]
        return torch.empty(*arguments, **named) if function is torch.randn else function(*arguments, **named)
