"""CUDA graphs: work of fixed shapes is captured once and replayed, so that launching it costs almost nothing."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


class Graph:
    """A function of tensors of fixed shapes that is first called normally, then captured, and from then on replayed.

    It must not wait for the device, and its result is overwritten by the next replay. Inputs on the host are read only
    when it is captured. On a device other than a GPU the function is simply called.
    """

    def __init__(
        self,
        work: Callable[..., Any],
        device: torch.device,
        *,
        warm: int = 1,
        stream: torch.cuda.Stream | None = None,
        pool: Any = None,
    ) -> None:
        self.work: Callable[..., Any] | None = work
        self.device, self.warm = device, warm  # number of normal calls, in which libraries initialise themselves
        self.stream, self.pool = stream, pool
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[Tensor] = []
        self._answer: Any = None

    def __call__(self, *inputs: Tensor) -> Any:
        """Return the result of the function."""
        if self.work is not None and (self.warm > 0 or not captures(self.device)):
            self.warm -= 1
            return self.work(*inputs)
        if self._graph is None:
            self._graph = self._capture(inputs)
        for buffer, source in zip(self._inputs, inputs, strict=True):
            if buffer.is_cuda:
                buffer.copy_(source, non_blocking=True)
        self._graph.replay()
        return self._answer

    def _capture(self, inputs: tuple[Tensor, ...]) -> torch.cuda.CUDAGraph:
        """Capture the function without computing anything; other threads may go on using the device."""
        assert self.work is not None
        self._inputs = [tensor.clone() for tensor in inputs]
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.device)
        aside = None if stream == torch.cuda.default_stream(self.device) else stream  # the default cannot be captured
        torch.cuda.synchronize(self.device)
        capture = torch.cuda.graph(graph, self.pool, self.stream or aside, capture_error_mode="thread_local")
        with pause_garbage_collection(), capture:
            self._answer = self.work(*self._inputs)
        self.work = None  # free the function and all that it holds
        return graph


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Disable garbage collection inside the block: it may destroy a graph or kernel, which a capture forbids."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def captures(device: torch.device) -> bool:
    """True if work on this device can be captured."""
    return device.type == "cuda"
