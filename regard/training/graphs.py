"""Forward and backward passes recorded as CUDA graphs, whose replay costs one launch instead of hundreds.

Small models wait for kernel launches, not for arithmetic. A graph repeats the same kernels at the same addresses, so
each layout of batches (shapes and bounds) has its own graph with buffers for its inputs; gradients have fixed buffers,
which the first batch of a step overwrites and to which the others add. Dropout uses the generator's seed at each
replay, as it does without a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.decoding.graphs import Graph
from regard.training.task import Step

MOST = 32  # graphs; a task with more layouts has no fixed ones, and further ones are not captured
Backward = Callable[[Any, str], Step]


class Captured:
    """Calls `backward(batch, part)`, replayed as a graph from the second batch of a layout on."""

    def __init__(self, backward: Backward, parameters: Iterable[nn.Parameter], device: torch.device) -> None:
        self.backward, self.device = backward, device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[Any, Graph | None] = {}
        self.forgotten: list[nn.Parameter] = []  # parameters whose gradients are from an earlier step
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)

    def forget(self, optimizer: torch.optim.Optimizer) -> None:
        """Mark the gradients of an optimizer's parameters to be overwritten by the next batch."""
        self.forgotten = [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def zero(self) -> None:
        """Set the gradients marked by `forget` to zero, so that others can be added to them."""
        if self.forgotten:
            torch._foreach_zero_(gradients(self.forgotten))
        self.forgotten = []

    def __call__(self, batch: Any, part: str) -> Step:
        """Add the gradients of a batch to the existing ones, or overwrite those marked by `forget`."""
        key = (part, layout(batch), bool(self.forgotten))
        if key not in self.graphs:
            if len(self.graphs) < MOST:
                self.graphs[key] = None  # the first run is not captured, as everything is compiled in it
            self.zero()
            return self.backward(batch, part)
        graph = self.graphs[key] or self._graph(batch, part, self.forgotten)
        self.graphs[key], self.forgotten = graph, []
        step = graph(*tensors(batch))
        counts = {name: _copy_value(count) for name, count in step.counts.items()}
        return Step(loss=_copy_value(step.loss), weight=_copy_value(step.weight), counts=counts)

    def _graph(self, batch: Any, part: str, anew: Sequence[nn.Parameter]) -> Graph:
        """Return a graph, captured when it is first called, that serves any batch of this layout."""

        def work(*contents: Tensor) -> Step:
            return replace_gradients(anew, lambda: self.backward(fill_batch(batch, iter(contents)), part))

        return Graph(work, self.device, warm=0, stream=self.stream, pool=self.pool)


def replace_gradients(parameters: Sequence[nn.Parameter], work: Callable[[], Step]) -> Step:
    """Run work whose gradients overwrite the existing ones in the same memory, without zeroing or adding."""
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
    """Return the gradients of these parameters, all of which have one."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def tensors(batch: Any) -> list[Tensor]:
    """Return all tensors of a batch, in order."""
    if isinstance(batch, Tensor):
        return [batch]
    return [tensor for part in _parts(batch).values() for tensor in tensors(part)]


def layout(batch: Any) -> Any:
    """Return what two batches must share to use the same graph: all but the contents of tensors on the device."""
    if isinstance(batch, Tensor):
        return (batch.shape, batch.dtype) if batch.is_cuda else ()
    parts = _parts(batch)
    return (type(batch), *((name, layout(part)) for name, part in parts.items())) if parts else batch


def fill_batch(batch: Any, contents: Iterator[Tensor]) -> Any:
    """Return a batch of the same structure with these tensors, and nothing that was computed from the old ones."""
    if isinstance(batch, Tensor):
        return next(contents)
    parts = {name: fill_batch(part, contents) for name, part in _parts(batch).items()}
    if not parts:
        return batch
    if is_dataclass(batch) and not isinstance(batch, type):
        return replace(batch, **parts)
    return parts if isinstance(batch, Mapping) else type(batch)(parts.values())


def _parts(batch: Any) -> dict[Any, Any]:
    """Return the named or numbered parts of a batch; empty if it has none."""
    if is_dataclass(batch) and not isinstance(batch, type):
        return {field.name: getattr(batch, field.name) for field in fields(batch)}
    if isinstance(batch, Mapping):
        return dict(batch)
    return dict(enumerate(batch)) if isinstance(batch, list | tuple) else {}


def _copy_value(value: Any) -> Any:
    """Return a copy that the next replay does not change."""
    return value.clone() if isinstance(value, Tensor) else value
