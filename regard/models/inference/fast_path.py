"""The fast path of generation: which decoder makes a model's steps, and when its weights are copied."""

from __future__ import annotations

import copy
import warnings
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.tap import Tap
from regard.models.inference.cpu import LeanDecoder
from regard.models.inference.cuda import FusedDecoder
from regard.models.inference.supported import Unknown
from regard.models.interface import Model

ENOUGH = 128  # examples from which copying weights, compiling kernels and capturing graphs pays off


class FastPath:
    """The choice of a decoder for generation: a lean one on a CPU, a half-precision copy on CUDA, or the model itself.

    Compiling kernels and capturing graphs takes seconds, which a few sentences do not save: the first `ENOUGH` examples
    are left to the model itself, unless one request has as many, or `warm` is called. The copy, its tables and its
    graphs belong to this object and are freed with it; changed weights are copied in place. A model that is watched
    generates by itself, since neither decoder has attention weights to show. Calls are thread-safe: the copy is made
    once, and other threads wait for it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._lock = RLock()
        self._examples = 0
        self._lean: FusedDecoder | LeanDecoder | None = None
        self._stamp: Any = None
        self._refused = not isinstance(model, Model) or model.stack is None

    def __deepcopy__(self, memo: dict[int, Any]) -> FastPath:
        """Return a fast path of a copied model, which makes decoders of its own."""
        return FastPath(copy.deepcopy(self.model, memo))

    def __call__(self, examples: int) -> Any:
        """Return the decoder to generate this many more examples with."""
        with self._lock:
            return self._choose(examples)

    def _choose(self, examples: int) -> Any:
        self._examples += examples
        first = next(self.model.parameters())
        copied = pays(first.device)
        if self._refused or (self._examples < ENOUGH if copied else first.device.type != "cpu"):
            return self.model
        watched, *stamp = self._look()
        if watched:
            return self.model
        if self._lean is None or stamp[1:] != self._stamp[1:]:
            self._lean = self._make_decoder(first, copied=copied)
        elif stamp != self._stamp and isinstance(self._lean, FusedDecoder):
            self._lean.take(self.model)
        self._stamp = stamp
        return self.model if self._lean is None else self._lean

    def reader(self) -> nn.Module:
        """Return the fastest model to read whole texts: the copy in half precision if there is one, else the model."""
        fast = self(0)
        return fast.model if isinstance(fast, FusedDecoder) else self.model

    def warm(self) -> None:
        """Use the fast path from the next call on, however few examples it has."""
        self._examples = ENOUGH

    def give_up(self, reason: str) -> None:
        """Leave everything to the model itself, and warn why."""
        with self._lock:
            self._refused, self._lean = True, None
        warnings.warn(f"generating without the fast path, which does not know this model: {reason}", stacklevel=3)

    def _make_decoder(self, first: Tensor, *, copied: bool) -> FusedDecoder | LeanDecoder | None:
        self._lean = None  # freed first, so that there are never two copies
        try:
            if not copied:
                return LeanDecoder(self.model)
            return FusedDecoder(self.model, torch.float16 if first.is_cuda and first.dtype is torch.float32 else None)
        except Unknown as reason:
            if copied:
                self.give_up(str(reason))
            return None

    def _look(self) -> list[Any]:
        """Return whether the model is watched, how often its weights were changed, and what else a copy depends on."""
        watched, changes, parts, hooks, weights, waiting = False, 0, 0, 0, [], [self.model]
        while waiting:  # faster than `modules()`, as it runs for every request
            part = waiting.pop()
            parts += 1
            if isinstance(part, Tap):
                watched = watched or part.is_watched
            else:
                hooks += len(part._forward_hooks) + len(part._forward_pre_hooks)
            for weight in part._parameters.values():
                if weight is not None:
                    changes += weight._version
                    weights.append(id(weight))
            waiting.extend(child for child in part._modules.values() if child is not None)
        first = next(self.model.parameters())
        return [watched, changes, parts, hooks, weights, first.data_ptr(), first.dtype]


def pays(device: torch.device) -> bool:
    """True if a lean copy is worth its memory: where kernel launches, not arithmetic, take the time."""
    return device.type == "cuda"
