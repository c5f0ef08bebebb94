"""Tracing a forward pass: a model runs over sequences of given lengths with tensors that have shapes but no data.

So operations are counted, not estimated, and so are the bytes that autograd keeps for the backward pass. Two functions
are counted as a GPU computes them, whatever the machine: attention never stores its weights, and dropout keeps one byte
for each feature.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from regard import models
from regard.attention.edge_list import Edges
from regard.attention.masks import Grid, Mask
from regard.models.interface import TokenModel

Precision = Literal["half", "fp32"]
BYTES: dict[Precision, int] = {"half": 2, "fp32": 4}


@dataclass(frozen=True)
class Lengths:
    """The lengths of the sequences a model reads, and of those it writes if it reads others."""

    source: int
    target: int


@dataclass(frozen=True)
class Trace:
    """The cost of one sequence."""

    body: int
    """Operations up to the features of every token."""
    head: int
    """Operations that turn all features into logits."""
    kept: int
    """Bytes that autograd keeps for the backward pass, up to the features."""
    copies: int
    """Bytes that it keeps once, however many sequences there are: half-precision copies of weights."""


@functools.lru_cache(maxsize=64)
def trace(config: Any, lengths: Lengths, precision: Precision = "fp32") -> Trace:
    """Return the cost of a training step for one sequence, as the difference between two and one."""
    with FakeTensorMode():
        model = models.build(config).train()
        single, double = (_run(model, lengths, precision, batch) for batch in (1, 2))
    kept_bytes = double.kept - single.kept
    return Trace(double.body - single.body, double.head - single.head, kept_bytes, single.kept - kept_bytes)


@functools.lru_cache(maxsize=64)
def operations(config: Any, lengths: Lengths) -> tuple[int, int]:
    """Return the operations of one sequence's forward pass, up to its features and from there to its logits."""
    with FakeTensorMode():
        single = _run(models.build(config).train(), lengths, "fp32", 1)
    return single.body, single.head


def _run(model: Any, lengths: Lengths, precision: Precision, batch: int) -> Trace:
    """Run the pass and count."""
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "half")
    with _plainly(), autocast, OperationCounter() as watcher:
        with watcher.keeping(model):
            answer = model(**arguments(model, lengths, batch))
        body = watcher.operations
        # A loss takes logits in chunks, so that nothing of their size is kept; a body alone has none.
        if isinstance(model, TokenModel) and model.has_logits:
            with torch.no_grad():
                model.logits(answer[0] if isinstance(answer, tuple) else answer)
    return Trace(body, watcher.operations - body, watcher.kept, 0)


@contextlib.contextmanager
def _plainly() -> Iterator[None]:
    """Compute recurrent layers by products that can be counted, instead of one fused call."""
    before, *_ = torch.backends.mkldnn.set_flags(_enabled=False)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=before)


def arguments(model: nn.Module, lengths: Lengths, batch: int) -> dict[str, Any]:
    """Return the arguments of a model, by their names, which are the same in all models."""
    shape: Any = model.config
    parameters = inspect.signature(model.forward).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty]
    return {name: ARGUMENTS[name](shape, lengths, batch) for name in names}


def _tokens(batch: int, length: int) -> Tensor:
    return torch.zeros(batch, length, dtype=torch.int64)


def _layout(batch: int, length: int) -> Grid:
    return Grid(torch.full((batch,), length), length)


def _loops(nodes: int) -> Edges:
    """Return a graph in which every node is connected to itself only."""
    indices, bounds = torch.arange(nodes), torch.arange(nodes + 1)
    return Edges(indices, indices, nodes, bounds, indices, bounds)


ARGUMENTS: Mapping[str, Callable[[Any, Lengths, int], Any]] = {
    "tokens": lambda shape, lengths, batch: _tokens(batch, lengths.source),
    "words": lambda shape, lengths, batch: _tokens(batch, lengths.source),
    "layout": lambda shape, lengths, batch: _layout(batch, lengths.source),
    "source": lambda shape, lengths, batch: _tokens(batch, lengths.source),
    "target": lambda shape, lengths, batch: _tokens(batch, lengths.target),
    "layouts": lambda shape, lengths, batch: (_layout(batch, lengths.source), _layout(batch, lengths.target)),
    "x": lambda shape, lengths, batch: torch.zeros(batch, shape.inputs),
    "values": lambda shape, lengths, batch: torch.zeros(batch, sum(shape.inputs)),
    "present": lambda shape, lengths, batch: torch.ones(batch, len(shape.inputs), dtype=torch.bool),
    "mask": lambda shape, lengths, batch: Mask(where=_loops(batch)),
    "vectors": lambda shape, lengths, batch: torch.zeros(batch, lengths.source, shape.inputs),
    "pictures": lambda shape, lengths, batch: torch.zeros(batch, shape.size, shape.size),
    "pixels": lambda shape, lengths, batch: torch.zeros(batch, shape.channels, shape.size, shape.size),
    "noise": lambda shape, lengths, batch: torch.zeros(batch, shape.noise),
    "labels": lambda shape, lengths, batch: torch.zeros(batch, dtype=torch.int64),
    "regions": lambda shape, lengths, batch: torch.zeros(batch, *shape.read),
    "grid": lambda shape, lengths, batch: _layout(batch, lengths.target),
    "frames": lambda shape, lengths, batch: torch.zeros(batch, lengths.source, shape.size, shape.size),
}


class OperationCounter(TorchFunctionMode):
    """Counts operations and, inside `keeping`, the bytes that autograd keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.counter = FlopCounterMode(display=False)
        self.attended = self.kept = 0

    def __enter__(self) -> OperationCounter:
        self.counter.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.counter.__exit__(*error)

    @property
    def operations(self) -> int:
        """The operations so far."""
        return self.counter.get_total_flops() + self.attended

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), settings: dict[str, Any] | None = None
    ) -> Any:
        """Count attention and dropout as fused kernels, and pass all other calls through."""
        settings = settings or {}
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            query, key, value = arguments[:3]
            self.attended += 2 * query.shape[:-1].numel() * key.shape[-2] * (query.shape[-1] + value.shape[-1])
            return _Attention.apply(query, key, value)
        if name == "dropout" and function is nn.functional.dropout:
            return _dropout(*arguments, **settings)
        return function(*arguments, **settings)

    @contextlib.contextmanager
    def keeping(self, model: nn.Module) -> Iterator[None]:
        """Count the bytes that autograd keeps inside the block, each once, without the weights."""
        views: dict[int, dict[tuple[Any, ...], int]] = {}
        storages: dict[int, Any] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            storages[storage._cdata] = storage
            place = tensor.storage_offset(), tensor.shape, tensor.stride()
            views.setdefault(storage._cdata, {})[place] = tensor.numel() * tensor.element_size()
            return tensor

        weight_storages = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            yield
        for name, view_sizes in views.items():
            if name not in weight_storages:
                self.kept += min(storages[name].nbytes(), sum(view_sizes.values()))


class _Attention(torch.autograd.Function):
    """Attention as a fused kernel: it keeps queries, keys, values and one number for each query.

    The result is kept by the projection that follows.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return an output of the right shape without computing it, and save what a fused kernel saves."""
        ctx.save_for_backward(query, key, value, query.new_empty(query.shape[:-1], dtype=torch.float32))
        return value.new_empty(*query.shape[:-1], value.shape[-1])


def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Apply dropout as a GPU does."""
    return torch.native_dropout(x, p, training)[0] if training and p else x
