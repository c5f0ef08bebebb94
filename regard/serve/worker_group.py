"""Several workers with the same models, one for each device; a request goes to the one with the fewest open calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from regard.serve.worker import Worker
from regard.tasks.trained import Trained


class WorkerGroup:
    """Answers requests as a worker does, each by one of several; the limits of the queue are those of each."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        assert workers, "a group of no workers answers nothing"
        self.workers = list(workers)

    @property
    def models(self) -> Mapping[str, Trained]:
        """The models of the first worker; the others have copies on other devices."""
        return self.workers[0].models

    @property
    def alive(self) -> bool:
        """True while all threads are running."""
        return all(worker.alive for worker in self.workers)

    @property
    def open_calls(self) -> int:
        """The number of calls that wait or are being answered."""
        return sum(worker.open_calls for worker in self.workers)

    def count_rows(self) -> dict[str, int]:
        """Return the number of requests in the engines of every model, as last reported."""
        rows: Counter[str] = Counter()
        for worker in self.workers:
            rows.update(worker.count_rows())
        return dict(rows)

    def start(self) -> None:
        """Start all threads."""
        for worker in self.workers:
            worker.start()

    def stop(self) -> None:
        """Finish open calls, and stop all threads."""
        for worker in self.workers:
            worker.stop()

    async def warm_up(self) -> None:
        """Answer an example with every model on every device."""
        await asyncio.gather(*(worker.warm_up() for worker in self.workers))

    async def replace(self, name: str, copies: Sequence[Trained]) -> None:
        """Take over a new model, a copy of it in each worker; if one fails, all return to the old one."""
        former = [worker.models[name] for worker in self.workers]
        for number, (worker, trained) in enumerate(zip(self.workers, copies, strict=True)):
            try:
                await worker.replace(name, trained)
            except Exception:
                for changed, old in zip(self.workers[:number], former, strict=False):
                    await changed.replace(name, old)
                raise

    async def answer(
        self, model: str, inputs: Sequence[Any], options: Mapping[str, Any], *, deadline: float | None = None
    ) -> Sequence[Any]:
        """Return the answers of a model, by the worker that has the fewest open calls."""
        return await self._find_freest().answer(model, inputs, options, deadline=deadline)

    async def stream(
        self, model: str, text: str, options: Mapping[str, Any], *, deadline: float | None = None
    ) -> AsyncGenerator[tuple[str, Any], None]:
        """Yield the growing text with None, and at the end the whole text with its answer."""
        async with aclosing(self._find_freest().stream(model, text, options, deadline=deadline)) as pieces:
            async for piece in pieces:
                yield piece

    def _find_freest(self) -> Worker:
        return min(self.workers, key=lambda worker: worker.open_calls)
