"""Forward and backward passes of rows of data: prefetched, and compiled and captured where the device benefits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.data.memory import map_large_arrays
from regard.models.interface import traits_of
from regard.training import device
from regard.training.graphs import Captured
from regard.training.oom import Piece
from regard.training.prefetch import Prefetch
from regard.training.task import Learner, Step


class MicroBatches:
    """The gradients of rows; random numbers depend only on the row, not on the process or the way of computing."""

    def __init__(
        self, task: Learner, place: torch.device, dtype: torch.dtype, *, seed: int, compiles: device.Switch = "off"
    ) -> None:
        self.task, self.place, self.dtype, self.seed = task, place, dtype, seed
        traits = traits_of(task.model)
        whole = compiles == "on" and traits.compilable
        self.forward = torch.compile(task.step) if whole else task.step
        for name in traits.compiled if compiles == "on" else ():
            task.model.get_submodule(name).compile()  # a part that is repeated at every step of a sequence
        self.ahead = Prefetch(task.batch, place)
        parameters = [parameter for part in task.parts().values() for parameter in part]
        self.captured = Captured(self._backward_compiled, parameters, place) if compiles != "off" else None
        self._around = contextlib.ExitStack()
        if place.type == "cpu" and task.piece_tokens is not None:
            map_large_arrays()

    def __enter__(self) -> MicroBatches:
        self._around.callback(self.ahead.close)
        if self.captured is not None:
            self.captured.stream.wait_stream(torch.cuda.current_stream(self.place))
            self._around.enter_context(torch.cuda.stream(self.captured.stream))
        return self

    def __exit__(self, *error: Any) -> None:
        if self.captured is not None:
            torch.cuda.synchronize(self.place)
        self._around.close()

    def take(self, rows: Sequence[int], *, then: Sequence[int] = ()) -> list[Piece]:
        """Return these rows, while those of `then` are being prepared; on a CPU in pieces that bound memory."""
        pieces = [Piece(row, batch) for row, batch in zip(rows, self.ahead.take(rows, then=then), strict=True)]
        return pieces if self.place.type != "cpu" else [part for piece in pieces for part in self._divide(piece)]

    def _divide(self, piece: Piece) -> list[Piece]:
        """Halve a piece until each part has no more tokens than the task allows for one backward pass."""
        limit = self.task.piece_tokens
        if limit is None or len(piece.batch.tokens) <= limit:
            return [piece]
        halves = self.task.split(piece.batch)
        if len(halves) < 2:
            return [piece]
        parts = [Piece(piece.row, half, (*piece.path, number)) for number, half in enumerate(halves)]
        return [smaller for part in parts for smaller in self._divide(part)]

    def clear(self, optimizer: torch.optim.Optimizer) -> None:
        """Clear all gradients; captured passes overwrite them in place instead."""
        if self.captured is None:
            optimizer.zero_grad(set_to_none=True)
        else:
            self.captured.forget(optimizer)

    def free_gradients(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """Free the memory of gradients, which the next step computes anew; captured passes need it and keep it."""
        if self.captured is None:
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)

    def backward(self, piece: Piece, part: str, number: int) -> tuple[int, Step]:
        """Add the gradients of a row to the existing ones; the returned loss and counts stay on the device."""
        device.seed(self.place, device.hash64(self.seed, piece.row, number, *piece.path))
        if piece.path:  # nothing is compiled for halves
            if self.captured is not None:
                self.captured.zero()
            return piece.row, self._plain(piece.batch, part, self.task.step)
        return piece.row, (self.captured or self._backward_compiled)(piece.batch, part)

    def _backward_compiled(self, batch: Any, part: str) -> Step:
        return self._plain(batch, part, self.forward)

    def _plain(self, batch: Any, part: str, forward: Any) -> Step:
        with device.autocast(self.place, self.dtype):
            step = forward(batch, part)
        step.loss.backward()
        return replace(step, loss=step.loss.detach())
