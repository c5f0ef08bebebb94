"""One request to the worker: what to answer with which model, until when, and whom to tell."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_numbers = itertools.count(1)
ABSOLUTE_PATH = re.compile(r"(?<![\w.])(?:/[\w.@+-]+){2,}/?|[A-Za-z]:\\[^\s:]+")
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
MAX_MESSAGE = 300  # letters of a message to a client


class Overloaded(Exception):
    """No room in the queue: come back after so many seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests are waiting: try again in {retry_after} s")
        self.retry_after = retry_after


class DeadlineExceeded(Exception):
    """There was no answer in time."""


class OutOfMemory(Exception):
    """A request did not fit the memory, not even by itself."""


class ModelFailed(Exception):
    """The model could not answer, for a reason that is not the client's."""


@dataclass(eq=False)
class Call:
    """A request to a model: inputs and options; the worker's thread calls `on_done` once, when the call has ended."""

    model: str
    inputs: Sequence[Any]
    options: Mapping[str, Any]
    deadline: float
    """When it is given up, by `time.monotonic`."""
    on_done: Callable[[Any, Exception | None], None]
    on_text: Callable[[str], None] | None = None
    """Is told the beginning of the answer as it grows, and all of it at the end; for calls of one input."""
    cost: int = 0
    """Characters of the inputs."""
    share: float | None = None
    """The share of a batch that it takes; None until that is measured."""
    attempts: int = 0
    """How often it failed together with others."""
    is_cancelled: bool = False
    is_finished: bool = False
    number: int = field(default_factory=lambda: next(_numbers))

    def cancel(self) -> None:
        """Cancel the call; its rows are freed before the next step."""
        self.is_cancelled = True

    def is_over(self) -> bool:
        """True if the call was cancelled or its deadline has passed."""
        return self.is_cancelled or time.monotonic() >= self.deadline

    def tell_text(self, text: str) -> None:
        """Report the beginning of the answer to `on_text`, if anybody listens."""
        if self.on_text is not None and text:
            self.on_text(text)

    def finish(self, answers: Any = None, error: Exception | None = None) -> None:
        """Report the answers or the error to `on_done`; later calls have no effect."""
        if not self.is_finished:
            self.is_finished = True
            self.on_done(answers, error)

    def give_up(self) -> None:
        """End the call with DeadlineExceeded because it was cancelled or is late."""
        self.finish(error=DeadlineExceeded("there was no answer in time: send less at once, or try again later"))


def client_message(error: BaseException) -> str:
    """Return the text of an error for a client, without file paths and memory addresses."""
    first_line = next(iter(str(error).strip().splitlines()), "")
    text = ADDRESS.sub("an address", ABSOLUTE_PATH.sub("a file", first_line))
    return text[:MAX_MESSAGE] or "the request could not be answered"
