"""What the worker does for one model: exchanges that share the steps of an engine, or batches answered at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from regard.config import plain
from regard.decoding.exchange import ExchangeLoop, TextStream
from regard.serve.calls import Call, ModelFailed, OutOfMemory
from regard.tasks.trained import Trained
from regard.training.oom import is_out_of_memory

MAX_ATTEMPTS = 2  # of a call that fails together with others
BATCH_TOKENS = 1 << 14  # of the texts that are answered at once
BATCH_CHARACTERS = 1 << 16  # of those whose tokens are not known
BATCH_INPUTS = 64  # pictures and other inputs that are


class ModelQueue(Protocol):
    """The queue of calls for one model; only the worker's thread uses it."""

    running: dict[int, Call]
    waiting: deque[Call]

    @property
    def rows(self) -> int:
        """The number of requests in the queue."""

    def advance(self) -> None:
        """Run one step for all running calls, and report those that are done."""

    def drop_ended(self) -> None:
        """Drop calls that were cancelled or are late, and free what they use."""


def make_queue(trained: Trained, capacity: int) -> ModelQueue:
    """Return a WritingQueue for a model with an engine, else a DirectQueue."""
    return WritingQueue(trained, capacity) if trained.make_engine() is not None else DirectQueue(trained)


def is_busy(model_queue: ModelQueue) -> bool:
    """True if any call of a queue is waiting or running."""
    return bool(model_queue.running or model_queue.waiting)


def split_ended(calls: deque[Call]) -> tuple[deque[Call], list[Call]]:
    """Split calls into live ones and those that were cancelled or are late."""
    return deque(call for call in calls if not call.is_over()), [call for call in calls if call.is_over()]


class WritingQueue:
    """The queue of a model that generates token by token; all calls share the steps of one engine."""

    def __init__(self, trained: Trained, capacity: int) -> None:
        self.trained, self.capacity = trained, capacity
        self.waiting: deque[Call] = deque()
        self.running: dict[int, Call] = {}
        self._most = capacity  # fewer after the memory was used up
        self._streams: dict[int, TextStream] = {}
        self._loop = self._make_loop()

    @property
    def rows(self) -> int:
        """The number of requests that the engine is answering or has waiting."""
        return self._loop.engine.size

    def advance(self) -> None:
        """Start waiting calls while there is room, run one step of the engine, and finish the calls that are done."""
        while self.waiting and len(self.running) < self._most:
            self._begin(self.waiting.popleft())
        try:
            if self._loop.busy:
                self._loop.step()
        except Exception as error:  # of everybody in this step: all begin again, once
            self._restart_calls(error)
            return
        for number, outcome in self._loop.collect().items():
            call, stream = self.running.pop(number), self._streams.pop(number, None)
            if outcome.error is not None:
                outcome.error = explain_failure(outcome.error)
            elif stream is not None:
                call.tell_text(stream.text_of(outcome.answer[0]))
            call.finish(outcome.answer, outcome.error)
        self._tell_streams()
        if not self.running:
            self._most = self.capacity

    def drop_ended(self) -> None:
        """Free the rows of calls that were cancelled or are late."""
        self.waiting, ended = split_ended(self.waiting)
        for number, call in list(self.running.items()):
            if call.is_over():
                self._loop.cancel(number)
                del self.running[number]
                self._streams.pop(number, None)
                ended.append(call)
        for call in ended:
            call.give_up()

    def _begin(self, call: Call) -> None:
        stream = None
        try:
            if call.on_text is not None:
                stream = self.trained.open_stream(call.inputs[0], **call.options)
            exchange = self.trained.exchange(call.inputs, **call.options) if stream is None else stream.exchange()
            number = self._loop.open(exchange)
        except Exception as error:
            call.finish(error=explain_failure(error))
            return
        self.running[number] = call
        if stream is not None:
            self._streams[number] = stream

    def _tell_streams(self) -> None:
        for number, stream in self._streams.items():
            self.running[number].tell_text(stream.read(self._loop.peek(number)))

    def _restart_calls(self, error: Exception) -> None:
        """Restart all calls in a new engine, half as many at a time; those that failed before end with the error."""
        calls = list(self.running.values())
        self._loop.close()
        self.running, self._streams, self._loop = {}, {}, self._make_loop()
        self._most = max(1, len(calls) // 2)
        for call in reversed(calls):
            call.attempts += 1
            if call.attempts >= MAX_ATTEMPTS:
                call.finish(error=explain_failure(error))
            else:
                self.waiting.appendleft(call)

    def _make_loop(self) -> ExchangeLoop:
        engine = self.trained.make_engine()
        assert engine is not None
        return ExchangeLoop(engine)


class DirectQueue:
    """The queue of a model without an engine; calls with the same options are answered in one batch.

    A batch is bounded by tokens where the model can count them (`Trained.count_tokens`): a tokenizer takes a small part
    of the time of an answer, and only calls that share a batch are counted, each once. Pictures, rows of tables and
    nodes of graphs have no tokens, and a text that the tokenizer refuses has none either; both are bounded by their
    characters and by the number of inputs, and the answer says what was wrong with the text.
    """

    def __init__(self, trained: Trained) -> None:
        self.trained = trained
        self.waiting: deque[Call] = deque()
        self.running: dict[int, Call] = {}

    @property
    def rows(self) -> int:
        """The number of waiting calls."""
        return len(self.waiting)

    def advance(self) -> None:
        """Answer one batch of waiting calls."""
        if self.waiting:
            self._answer(self._take_batch())

    def drop_ended(self) -> None:
        """Drop calls that were cancelled or are late."""
        self.waiting, ended = split_ended(self.waiting)
        for call in ended:
            call.give_up()

    def _take_batch(self) -> list[Call]:
        """Remove and return the first call and others with the same options, within the limits of a batch.

        No call overtakes another with the same options.
        """
        first = self.waiting.popleft()
        if not self.waiting or self.trained.inputs.together:
            return [first]
        batch, rest = [first], deque[Call]()
        options, share, inputs = plain(first.options), self._measure_share(first), len(first.inputs)
        is_full = False
        for call in self.waiting:
            if is_full or plain(call.options) != options:
                rest.append(call)
                continue
            inputs += len(call.inputs)
            share += self._measure_share(call) if inputs <= BATCH_INPUTS else 0
            is_full = inputs > BATCH_INPUTS or share > 1
            (rest if is_full else batch).append(call)
        self.waiting = rest
        return batch

    def _measure_share(self, call: Call) -> float:
        """Return the share of a batch that a call takes, by its tokens, or by its characters if it has none."""
        if call.share is None:
            try:
                counts = [self.trained.count_tokens(item) for item in call.inputs]
            except Exception:  # of a text that cannot be read, which the answer explains
                counts = [None]
            tokens = [count for count in counts if count is not None]
            known = len(tokens) == len(counts)
            call.share = sum(tokens) / BATCH_TOKENS if known else call.cost / BATCH_CHARACTERS
        return call.share

    def _answer(self, calls: Sequence[Call]) -> None:
        """Answer calls as one batch; if it fails, answer each half by itself, recursively."""
        try:
            answers = self._compute([item for call in calls for item in call.inputs], calls[0].options)
        except Exception as error:
            if len(calls) > 1:
                middle = len(calls) // 2
                self._answer(calls[:middle])
                self._answer(calls[middle:])
            else:
                self._answer_in_halves(calls[0], error)
            return
        if self.trained.inputs.together:
            calls[0].finish(answers)
            return
        for call in calls:
            call.finish(answers[: len(call.inputs)])
            answers = answers[len(call.inputs) :]

    def _answer_in_halves(self, call: Call, error: Exception) -> None:
        """Answer a call that ran out of memory in two halves; any other error ends it."""
        failure = explain_failure(error)
        middle = len(call.inputs) // 2
        if not isinstance(failure, OutOfMemory) or not middle or self.trained.inputs.together:
            call.finish(error=failure)
            return
        try:
            halves = [self._compute(half, call.options) for half in (call.inputs[:middle], call.inputs[middle:])]
        except Exception as second_error:
            call.finish(error=explain_failure(second_error))
            return
        call.finish([answer for half in halves for answer in half])

    def _compute(self, inputs: Sequence[Any], options: Any) -> list[Any]:
        with torch.no_grad():
            return list(self.trained.answer(inputs, **options))


def explain_failure(error: Exception) -> Exception:
    """Return the error to report: the client's own (ValueError), out of memory, or the model's."""
    if isinstance(error, MemoryError) or is_out_of_memory(error):
        return OutOfMemory("the request does not fit the memory: send less at once")
    if isinstance(error, ValueError):
        return error
    return ModelFailed(f"the model failed: {error}" if isinstance(error, FloatingPointError) else "the model failed")
