"""The worker: one thread that owns the engines of all models, and an asyncio front that hands requests over to it.

Only PyTorch and the standard library are needed: a program of one's own can use it without the HTTP server.

    worker = Worker({"en-fr": regard.load("en-fr")}, Limits())
    worker.start()
    answers = await worker.answer("en-fr", ["Good morning."], {"to": "fr"})
    worker.stop()
"""

from __future__ import annotations

import asyncio
import math
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from regard.data.memory import release_freed_memory
from regard.decoding.exchange import run_exchange
from regard.serve.calls import Call, ModelFailed, Overloaded
from regard.serve.limits import Limits
from regard.serve.scheduling import ModelQueue, is_busy, make_queue
from regard.tasks.trained import Trained
from regard.tasks.writing import Writes

GATHER_SECONDS = 0.004  # for which an idle worker waits for more requests to read together with the first
IDLE_SECONDS = 0.5  # after which an idle worker looks whether it is to stop
RELEASE_SECONDS = 30.0  # between two releases of freed memory, which sizes that differ with each request scatter
RETRY_AFTER = 1  # seconds, at least
EXAMPLE_TOKENS = 4  # that a language model writes to warm up
EXAMPLE_PICTURE = (64, 64, 3)  # height, width and colours of the picture that warms a model up


class Worker:
    """Answers requests to several models; requests to the same model share its steps."""

    def __init__(
        self,
        models: Mapping[str, Trained],
        limits: Limits,
        *,
        open_queue: Callable[[Trained, int], ModelQueue] = make_queue,
    ) -> None:
        """Prepare for these models; `open_queue` makes the queue of a model with room for so many running calls."""
        self.models, self.limits, self._open_queue = dict(models), limits, open_queue
        self.finished = 0
        self._arrivals: queue.SimpleQueue[Call | Callable[[], None]] = queue.SimpleQueue()
        self._queues: dict[str, ModelQueue] = {}
        self._retiring: list[tuple[str, ModelQueue]] = []
        """Queues of models that were replaced, until their calls are answered."""
        self._open = 0  # calls that were handed over and have not ended
        self._lock = threading.Lock()
        self._seconds = 0.1  # a running mean of the time of an answer
        self._is_stopping = False
        self._released, self._finished_then = time.monotonic(), 0  # when freed memory was last given back
        self._thread = threading.Thread(target=self._run, name="regard-worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish open calls, and stop the thread."""
        self._is_stopping = True
        self._arrivals.put(lambda: None)
        self._thread.join()

    @property
    def alive(self) -> bool:
        """True while the thread is running."""
        return self._thread.is_alive()

    @property
    def open_calls(self) -> int:
        """The number of calls that wait or are being answered."""
        return self._open

    def count_rows(self) -> dict[str, int]:
        """Return the number of requests in the engine of every model, as last reported."""
        rows: dict[str, int] = {}
        for name, model_queue in (*list(self._queues.items()), *self._retiring):
            rows[name] = rows.get(name, 0) + model_queue.rows
        return rows

    async def warm_up(self) -> None:
        """Answer an example with every model, so that the first request is not slower than later ones."""

        def warm_all() -> None:
            for trained in self.models.values():
                _warm_up(trained)

        await self._run_in_thread(warm_all)

    async def replace(self, name: str, trained: Trained) -> None:
        """Take over a new model between two steps, once it has answered an example; open calls stay with the old one.

        If the new model fails at the example, the old one stays and the error is raised.
        """

        def take_over() -> None:
            _warm_up(trained)
            self.models[name] = trained
            former = self._queues.pop(name, None)
            if former is not None:
                self._retiring.append((name, former))

        await self._run_in_thread(take_over)

    async def answer(
        self, model: str, inputs: Sequence[Any], options: Mapping[str, Any], *, deadline: float | None = None
    ) -> Sequence[Any]:
        """Return the answers of a model; a task that is cancelled frees its rows before the next step."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Sequence[Any]] = loop.create_future()

        def settle(answers: Any, error: Exception | None) -> None:
            if not done.done():
                done.set_result(answers) if error is None else done.set_exception(error)

        def tell(answers: Any, error: Exception | None) -> None:
            _call_in(loop, settle, answers, error)

        call = self._submit(Call(model, inputs, options, self._resolve_deadline(deadline), tell))
        try:
            return await done
        finally:
            call.cancel()  # of no effect on one that has ended

    async def stream(
        self, model: str, text: str, options: Mapping[str, Any], *, deadline: float | None = None
    ) -> AsyncGenerator[tuple[str, Any], None]:
        """Yield the growing text with None, and at the end the whole text with its answer; nothing is taken back."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[str, Any, Exception | None]] = asyncio.Queue()

        def tell_text(text: str) -> None:
            _call_in(loop, pieces.put_nowait, (text, None, None))

        def tell(answers: Any, error: Exception | None) -> None:
            _call_in(loop, pieces.put_nowait, ("", None if error is not None else answers[0], error))

        call = self._submit(Call(model, [text], options, self._resolve_deadline(deadline), tell, tell_text))
        longest = ""
        try:
            while True:
                text, answer, error = await pieces.get()
                if error is not None:
                    raise error
                if answer is not None:
                    yield longest or str(answer), answer
                    return
                if not text.startswith(longest[: len(text)]):
                    raise ModelFailed("the model failed: its answer does not begin with what was sent of it")
                if len(text) > len(longest):
                    longest = text
                    yield text, None
        finally:
            call.cancel()

    async def _run_in_thread(self, function: Callable[[], None]) -> None:
        """Run a function in the thread of the worker, between two steps."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def finish(error: Exception | None) -> None:
            if not done.done():
                done.set_result(None) if error is None else done.set_exception(error)

        def run() -> None:
            error: Exception | None = None
            try:
                function()
            except Exception as reason:
                error = reason
            _call_in(loop, finish, error)

        self._arrivals.put(run)
        await done

    def _submit(self, call: Call) -> Call:
        """Put a call into the queue of the thread, or refuse it if the queue is full."""
        if call.model not in self.models:
            raise KeyError(call.model)
        call.cost = sum(len(item) if isinstance(item, str) else 1 for item in call.inputs)
        with self._lock:
            if self._is_stopping or self._open >= self.limits.running + self.limits.queue:
                raise Overloaded(max(RETRY_AFTER, math.ceil(self._seconds * self._open / self.limits.running)))
            self._open += 1
        began, tell = time.monotonic(), call.on_done

        def finish(answers: Any, error: Exception | None) -> None:
            with self._lock:
                self._open -= 1
                self.finished += 1
                self._seconds += 0.1 * (time.monotonic() - began - self._seconds)
            tell(answers, error)

        call.on_done = finish
        self._arrivals.put(call)
        return call

    def _resolve_deadline(self, deadline: float | None) -> float:
        return time.monotonic() + self.limits.deadline if deadline is None else deadline

    def _run(self) -> None:
        """Receive calls and advance all queues until the worker is stopped and no calls are left."""
        while True:
            self._retiring = [(name, former) for name, former in self._retiring if is_busy(former)]
            busy = bool(self._retiring) or any(map(is_busy, self._queues.values()))
            if self._is_stopping and not busy and self._arrivals.empty():
                return
            self._take_arrivals(wait=not busy)
            for model_queue in [*self._queues.values(), *(former for _, former in self._retiring)]:
                model_queue.drop_ended()
                self._advance(model_queue)
            self._release_memory()

    def _release_memory(self) -> None:
        """Give freed memory back to the system now and then: else it grows for hours, though nothing is left in it."""
        now = time.monotonic()
        if now - self._released > RELEASE_SECONDS and self.finished != self._finished_then:
            release_freed_memory()
            self._released, self._finished_then = now, self.finished

    def _advance(self, model_queue: ModelQueue) -> None:
        try:
            model_queue.advance()
        except Exception as error:  # nothing that goes wrong for one model may end the thread
            failure = ModelFailed(f"the model failed: {type(error).__name__}")
            for call in [*model_queue.running.values(), *model_queue.waiting]:
                call.finish(error=failure)
            self._queues = {name: other for name, other in self._queues.items() if other is not model_queue}
            self._retiring = [(name, other) for name, other in self._retiring if other is not model_queue]

    def _take_arrivals(self, *, wait: bool) -> None:
        """Distribute new calls to the queues; an idle worker waits for one, and then briefly for more."""
        try:
            self._sort(self._arrivals.get(timeout=IDLE_SECONDS) if wait else self._arrivals.get_nowait())
            gather_until = time.monotonic() + GATHER_SECONDS if wait else 0.0
            while True:
                left = gather_until - time.monotonic()
                self._sort(self._arrivals.get(timeout=left) if left > 0 else self._arrivals.get_nowait())
        except queue.Empty:
            return

    def _sort(self, arrival: Call | Callable[[], None]) -> None:
        if not isinstance(arrival, Call):
            arrival()
            return
        if arrival.model not in self._queues:
            try:
                self._queues[arrival.model] = self._open_queue(self.models[arrival.model], self.limits.running)
            except Exception as error:
                arrival.finish(error=ModelFailed(f"the model failed: {type(error).__name__}"))
                return
        self._queues[arrival.model].waiting.append(arrival)


def _warm_up(trained: Trained) -> None:
    """Do the one-time work of a model, and answer an example."""
    trained.warm_up()
    _answer_example(trained)


def _answer_example(trained: Trained) -> None:
    """Answer an example as requests are answered; a model that cannot read it goes without."""
    kind = trained.inputs.kind
    example = np.zeros(EXAMPLE_PICTURE, np.uint8) if kind.is_path else trained.inputs.example or kind.example
    try:
        inputs = [trained.inputs.parse(example)] if isinstance(example, str) else [example]
        with torch.no_grad():
            options = {"length": EXAMPLE_TOKENS} if isinstance(trained, Writes) else {}
            run_exchange(trained.make_engine(), trained.exchange(inputs, **options))
    except ValueError:
        return


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function in the thread of an event loop, unless the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        return
