"""Batches made before they are asked for: while the device computes, a thread prepares what comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Arrival:
    """A batch, and the event after which the device has all of it."""

    batch: Any
    ready: torch.cuda.Event | None = None


class Prefetch:
    """Makes the batches of rows, those to come in the background; off CUDA, where nothing would be gained, at once.

    A row's batch is a pure function of its number, so what was prepared in vain is simply forgotten.
    """

    def __init__(self, make: Callable[[int], Any], device: torch.device) -> None:
        self.make, self.device = make, device
        self.waiting: dict[int, Future[Arrival]] = {}
        self.pool = ThreadPoolExecutor(1, "ahead") if device.type == "cuda" else None
        self.stream = torch.cuda.Stream(device) if self.pool else None

    def take(self, rows: Sequence[int], *, then: Sequence[int] = ()) -> list[Any]:
        """The batches of these rows; those of `then` are begun."""
        if self.pool is None:
            return [self.make(row) for row in rows]
        futures = [self.waiting.get(row) or self.pool.submit(self._move, row) for row in rows]
        self.waiting = {row: self.waiting.get(row) or self.pool.submit(self._move, row) for row in then}
        return [self._await_arrival(future.result()) for future in futures]

    def close(self) -> None:
        """Prepare nothing any more."""
        self.waiting.clear()
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def _move(self, row: int) -> Arrival:
        """A batch on its way to the device, beside what is computed there."""
        batch = self.make(row)
        if not hasattr(batch, "to"):
            return Arrival(batch)
        assert self.stream is not None
        with torch.cuda.stream(self.stream):
            moved = batch.to(self.device)
            return Arrival(moved, self.stream.record_event())

    def _await_arrival(self, arrival: Arrival) -> Any:
        """The batch, for the stream that computes: its memory is not used again before that is done with it."""
        if arrival.ready is not None:
            from regard.training.graphs import tensors

            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(arrival.ready)
            for tensor in tensors(arrival.batch):
                if tensor.is_cuda:
                    tensor.record_stream(stream)
        return arrival.batch
