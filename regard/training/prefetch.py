"""Prefetching of batches: while the device computes, a thread prepares the next ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Arrival:
    """A batch, and the event after which all of it is on the device."""

    batch: Any
    ready: torch.cuda.Event | None = None


class Prefetch:
    """Makes the batches of rows, the next ones in the background; without CUDA, where it would not help, on demand.

    A row's batch is a pure function of its number, so batches prepared in vain are simply dropped.
    """

    def __init__(self, make: Callable[[int], Any], device: torch.device) -> None:
        self.make, self.device = make, device
        self.waiting: dict[int, Future[Arrival]] = {}
        self.pool = ThreadPoolExecutor(1, "ahead") if device.type == "cuda" else None
        self.stream = torch.cuda.Stream(device) if self.pool else None

    def take(self, rows: Sequence[int], *, then: Sequence[int] = ()) -> list[Any]:
        """Return the batches of these rows, and start preparing those of `then`."""
        if self.pool is None:
            return [self.make(row) for row in rows]
        futures = [self.waiting.get(row) or self.pool.submit(self._move, row) for row in rows]
        self.waiting = {row: self.waiting.get(row) or self.pool.submit(self._move, row) for row in then}
        return [self._await_arrival(future.result()) for future in futures]

    def close(self) -> None:
        """Stop preparing batches."""
        self.waiting.clear()
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def _move(self, row: int) -> Arrival:
        """Make a batch and copy it to the device on a separate stream, in parallel with computation."""
        batch = self.make(row)
        if not hasattr(batch, "to"):
            return Arrival(batch)
        assert self.stream is not None
        with torch.cuda.stream(self.stream):
            moved = batch.to(self.device)
            return Arrival(moved, self.stream.record_event())

    def _await_arrival(self, arrival: Arrival) -> Any:
        """Return the batch for use on the current stream, which protects its memory from reuse until it is done."""
        if arrival.ready is not None:
            from regard.training.graphs import tensors

            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(arrival.ready)
            for tensor in tensors(arrival.batch):
                if tensor.is_cuda:
                    tensor.record_stream(stream)
        return arrival.batch
