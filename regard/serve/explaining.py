"""Explaining answers: a thread and copies of the models of its own, and bounded caches of weights and views."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from torch import nn

from regard.attention.tap import Tap
from regard.decoding.search_tree import check_rounds
from regard.interpret.trace import Trace
from regard.serve.calls import Call
from regard.serve.catalogue import Catalogue, ServedModel
from regard.serve.limits import Limits
from regard.serve.payload import count_characters, list_texts, read_options, reads_pictures
from regard.serve.refusal import Refusal
from regard.serve.scheduling import explain_failure, split_ended
from regard.serve.tensor_cache import TensorCache
from regard.serve.views import ViewCache
from regard.serve.worker import Worker
from regard.tasks.trained import Trained, copy_sharing_weights

TREE = "tree"  # the name of the extra that searches, and of what the explorer can do with such a model


class Explainer:
    """Traces the answers of models; other requests go on meanwhile, in the thread of the worker.

    A watched model is a copy that shares the weights of the one that answers. The thread starts with the first request.
    """

    def __init__(self, catalogue: Catalogue, limits: Limits) -> None:
        self.tensors = TensorCache(limits.explain_bytes)
        self.views = ViewCache(limits.explain_views)
        self._catalogue = catalogue
        watched = [model for model in catalogue if model.trained.attention_names() or TREE in model.trained.extras]
        copies = {model.key: copy_sharing_weights(model.trained) for model in watched}
        self._worker = Worker(copies, limits, open_queue=lambda trained, _: ExplainQueue(trained))
        self._lock, self._is_started = threading.Lock(), False

    @property
    def models(self) -> list[ServedModel]:
        """The models whose answers can be explained."""
        return [model for model in self._watched if model.trained.attention_names()]

    @property
    def searching(self) -> list[ServedModel]:
        """The models whose searches can be shown, which need no attention."""
        return [model for model in self._watched if TREE in model.trained.extras]

    @property
    def _watched(self) -> list[ServedModel]:
        return [model for model in self._catalogue if model.key in self._worker.models]

    @property
    def open_calls(self) -> int:
        """The number of explanations that wait or are being made."""
        return self._worker.open_calls

    def stop(self) -> None:
        """Finish what is under way, and stop the thread if it was started."""
        if self._is_started:
            self._worker.stop()

    def pick(self, name: Any = None, verb: Any = None) -> ServedModel:
        """Return the model of this name, or the first, that has attention to show; `verb` chooses between its uses."""
        able = [model for model in self.models if verb is None or model.verb == verb]
        return self._catalogue.choose(able, "be explained", name)

    async def replace(self, key: str, trained: Trained) -> None:
        """Explain the answers of a new version of a model from the next request on."""
        if key not in self._worker.models:
            return
        self._start()
        await self._worker.replace(key, copy_sharing_weights(trained))

    def _start(self) -> None:
        with self._lock:
            if not self._is_started:
                self._worker.start()
                self._is_started = True

    async def explain(self, model: ServedModel, item: Any, options: Mapping[str, Any]) -> Trace:
        """Return the trace of the answer to one input."""
        trace: Trace = await self.run(model, lambda trained: trained.look(item, **options))
        return trace

    async def run(self, model: ServedModel, work: Callable[[Trained], Any]) -> Any:
        """Return what a function makes of the watched copy of a model, in the thread that owns the copy."""
        self._start()
        [result] = await self._worker.answer(model.key, [work], {})
        return result


class ExplainQueue:
    """The queue of a model that is watched: calls one at a time, each of which can be interrupted.

    The only input of a call is a function of the model.
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
        """Do the work of the first waiting call."""
        if not self.waiting:
            return
        call = self.waiting.popleft()
        try:
            with interrupting(self.trained.model, call):
                call.finish([call.inputs[0](self.trained)])
        except Interrupted:
            call.give_up()
        except Exception as error:
            call.finish(error=explain_failure(error))

    def drop_ended(self) -> None:
        """Drop calls that were cancelled or are late."""
        self.waiting, ended = split_ended(self.waiting)
        for call in ended:
            call.give_up()


class Interrupted(Exception):
    """The call was cancelled or is late."""


@contextmanager
def interrupting(model: nn.Module, call: Call) -> Iterator[None]:
    """Raise Interrupted at the next attention, or round of a search, once the call was cancelled or is late."""

    def check(*_: Any) -> None:
        if call.is_over():
            raise Interrupted

    handles = [part.register_forward_pre_hook(check) for part in model.modules() if isinstance(part, Tap)]
    try:
        with check_rounds(check):
            yield
    finally:
        for handle in handles:
            handle.remove()


def read_look_options(model: ServedModel, value: Any, limits: Limits) -> dict[str, Any]:
    """Return the options of an explanation; a language model writes no more than what may be explained."""
    options_class = model.trained.LookOptions
    options = read_options(options_class, value, replace(limits, new_tokens=limits.explain_tokens))
    writes = any(field.name == "length" for field in fields(options_class))
    return {"length": limits.explain_tokens, **options} if writes else options


def check_length(model: ServedModel, value: Any, limits: Limits) -> None:
    """Refuse texts that are too long to be explained."""
    texts = list_texts(model.trained, value if isinstance(value, list) else [value])
    if not reads_pictures(model.trained) and count_characters(texts) > limits.explain_characters:
        raise Refusal(422, f"at most {limits.explain_characters:,} characters can be explained: send less", "too_long")


def take_one(inputs: Sequence[Any]) -> Any:
    """Return the only input, and refuse several."""
    if len(inputs) > 1:
        raise Refusal(422, f"{len(inputs)} inputs, one at a time is explained", "too_many_inputs")
    return inputs[0]
