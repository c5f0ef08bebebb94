"""A trace in a notebook: the model it was recorded from, and how its page reaches that model while the kernel runs.

What answers the pages lies in a layer above this one and registers itself here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

INSTALL_HINT = "To ask the model from here: pip install 'regard[notebook]', and restart the kernel."

Linker = Callable[[Any], str]
"""Returns the id by which pages call a model.

It raises ModuleNotFoundError where packages are missing, ValueError for a model that cannot be served.
"""
_linkers: list[Linker] = []
_shown_hints: set[str] = set()


@dataclass(frozen=True)
class Origin:
    """The model that a trace was recorded from, and the question that it answered."""

    trained: Any
    inputs: Any
    options: Mapping[str, Any]

    def question(self) -> dict[str, Any] | None:
        """Return the question as the explorer asks it; None if it is no text but a picture or an object of Python."""
        texts = self.inputs if isinstance(self.inputs, list | tuple) else [self.inputs]
        if not texts or not all(isinstance(text, str) for text in texts):
            return None
        inputs = self.inputs if isinstance(self.inputs, str) else list(self.inputs)
        options = {name: value for name, value in self.options.items() if value is not None}
        try:
            json.dumps(options, allow_nan=False)
        except (TypeError, ValueError):
            return None
        return {"model": self.trained.name, "verb": self.trained.verb, "inputs": inputs, "options": options}


@dataclass(frozen=True)
class Link:
    """How a page reaches its model: the id it calls, or else a line on how to get there."""

    page_id: str = ""
    hint: str = ""


def register_linker(linker: Linker) -> None:
    """Let pages of traces reach their models."""
    _linkers[:] = [linker]


def link_model(origin: Origin | None) -> Link:
    """Return how the page of a trace reaches its model; the hint on missing packages is given once."""
    if origin is None or not _linkers or not in_kernel():
        return Link()
    try:
        return Link(page_id=_linkers[0](origin.trained))
    except ModuleNotFoundError:
        return Link(hint=hint_once())
    except ValueError:  # a model that answers from files only
        return Link()


def hint_once() -> str:
    """Return the line on how to ask the model from a notebook the first time, then nothing."""
    if INSTALL_HINT in _shown_hints:
        return ""
    _shown_hints.add(INSTALL_HINT)
    return INSTALL_HINT


def in_kernel() -> bool:
    """Return True in a process that answers a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
