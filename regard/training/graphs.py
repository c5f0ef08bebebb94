"""A row's forward and backward recorded as CUDA graphs: replayed, hundreds of launches cost as much as one.

Small models wait for launches, not for arithmetic. A graph repeats the same kernels at the same addresses, so each
layout of batches (shapes and bounds) has a graph of its own with places for its inputs; gradients are in buffers that
stay where they are, into which the first batch of a step writes and to which the others add. Dropout draws from the
generator's seed at each replay, as it does without a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.decoding.graphs import Graph
from regard.training.task import Step

MOST = 32  # graphs; a task with more layouts than that has no fixed ones, and is not captured any more
Backward = Callable[[Any, str], Step]


class Captured:
    """Calls `backward(batch, part)`, from the second batch of a layout on as a replay, all on a stream of its own."""

    def __init__(self, backward: Backward, parameters: Iterable[nn.Parameter], device: torch.device) -> None:
        self.backward, self.device = backward, device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[Any, Graph | None] = {}
        self.forgotten: list[nn.Parameter] = []  # whose gradients are those of an earlier step
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)

    def forget(self, optimizer: torch.optim.Optimizer) -> None:
        """What the next batch gives takes the place of the gradients there are."""
        self.forgotten = [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def zero(self) -> None:
        """Let what is forgotten be zero, for those who add."""
        if self.forgotten:
            torch._foreach_zero_(gradients(self.forgotten))
        self.forgotten = []

    def __call__(self, batch: Any, part: str) -> Step:
        """Add the gradients of a batch to those that are not forgotten."""
        key = (part, layout(batch), bool(self.forgotten))
        if key not in self.graphs:
            if len(self.graphs) < MOST:
                self.graphs[key] = None  # the first time is an ordinary one, in which everything is compiled
            self.zero()
            return self.backward(batch, part)
        graph = self.graphs[key] or self._graph(batch, part, self.forgotten)
        self.graphs[key], self.forgotten = graph, []
        step = graph(*tensors(batch))
        counts = {name: _copy_value(count) for name, count in step.counts.items()}
        return Step(loss=_copy_value(step.loss), weight=_copy_value(step.weight), counts=counts)

    def _graph(self, batch: Any, part: str, anew: Sequence[nn.Parameter]) -> Graph:
        """What is captured when it is called: the same for any batch of this layout."""

        def work(*contents: Tensor) -> Step:
            return replace_gradients(anew, lambda: self.backward(fill_batch(batch, iter(contents)), part))

        return Graph(work, self.device, warm=0, stream=self.stream, pool=self.pool)


def replace_gradients(parameters: Sequence[nn.Parameter], work: Callable[[], Step]) -> Step:
    """Work whose gradients take the place of those there are, in the same memory: neither zeros nor sums are made."""
    places = gradients(parameters)
    for parameter in parameters:
        parameter.grad = None
    try:
        step = work()
    finally:
        new_gradients = [parameter.grad for parameter in parameters]
        for parameter, place in zip(parameters, places, strict=True):
            parameter.grad = place
    written = [(place, new) for place, new in zip(places, new_gradients, strict=True) if new is not None]
    if written:
        torch._foreach_copy_([place for place, _ in written], [new for _, new in written])
    if unasked := [place for place, new in zip(places, new_gradients, strict=True) if new is None]:
        torch._foreach_zero_(unasked)
    return step


def gradients(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Where the gradients of these are, all of which have one."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def tensors(batch: Any) -> list[Tensor]:
    """Every tensor in a batch, in order."""
    if isinstance(batch, Tensor):
        return [batch]
    return [tensor for part in _parts(batch).values() for tensor in tensors(part)]


def layout(batch: Any) -> Any:
    """What two batches must share for one recording to serve both: all but the contents of tensors on the device."""
    if isinstance(batch, Tensor):
        return (batch.shape, batch.dtype) if batch.is_cuda else ()
    parts = _parts(batch)
    return (type(batch), *((name, layout(part)) for name, part in parts.items())) if parts else batch


def fill_batch(batch: Any, contents: Iterator[Tensor]) -> Any:
    """A batch of the same structure with these tensors in it; nothing that was computed from the old ones is kept."""
    if isinstance(batch, Tensor):
        return next(contents)
    parts = {name: fill_batch(part, contents) for name, part in _parts(batch).items()}
    if not parts:
        return batch
    if is_dataclass(batch) and not isinstance(batch, type):
        return replace(batch, **parts)
    return parts if isinstance(batch, Mapping) else type(batch)(parts.values())


def _parts(batch: Any) -> dict[Any, Any]:
    """The named or numbered parts of what has parts."""
    if is_dataclass(batch) and not isinstance(batch, type):
        return {field.name: getattr(batch, field.name) for field in fields(batch)}
    if isinstance(batch, Mapping):
        return dict(batch)
    return dict(enumerate(batch)) if isinstance(batch, list | tuple) else {}


def _copy_value(value: Any) -> Any:
    """A value that the next replay does not change."""
    return value.clone() if isinstance(value, Tensor) else value
