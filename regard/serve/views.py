"""Views of explained answers: what the explorer draws, and the traces behind them, for further steps."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.interpret.draw.view_data import Ref, describe_steps, make_view
from regard.interpret.steps import Steps
from regard.interpret.trace import Trace
from regard.serve.catalogue import ServedModel
from regard.serve.tensor_cache import ID_BYTES

VIEW_BYTES = 64 << 20  # of all views that are kept
TYPES = {"f4": torch.float32, "f2": torch.float16, "u1": torch.uint8}


class PendingStore:
    """Collects the tensors of a view; once they have ids, the references of the view get them."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._refs: list[Ref] = []

    def add(self, name: str, values: Tensor, kind: str = "f4") -> Ref:
        """Collect a tensor, and return its reference."""
        self.tensors[name] = values.detach().cpu().to(TYPES[kind]).contiguous()
        return self._refer({"id": name, "type": kind, "shape": list(values.shape)})

    def add_heads(self, name: str, values: Tensor, kind: str = "f4") -> list[Ref]:
        """Collect a tensor, and return a reference for each of its heads."""
        whole = self.add(name, values, kind)
        self._refs.pop()
        shape = whole["shape"][1:]
        return [
            self._refer(whole | {"shape": shape, "head": head, "heads": len(values)}) for head in range(len(values))
        ]

    def settle(self, ids: Mapping[str, str | None]) -> None:
        """Put ids in the place of names."""
        for ref in self._refs:
            ref["id"] = ids[ref["id"]]

    def _refer(self, ref: Ref) -> Ref:
        self._refs.append(ref)
        return ref


@dataclass(frozen=True)
class KeptView:
    """A view, and the trace without its weights, whose run can be repeated."""

    model: ServedModel
    trace: Trace
    body: bytes
    """The view as JSON."""


class ViewCache:
    """Views under names that nobody can guess; the oldest make room for new ones."""

    def __init__(self, most: int, most_bytes: int = VIEW_BYTES) -> None:
        self.most, self.most_bytes, self.bytes = most, most_bytes, 0
        self._views: OrderedDict[str, KeptView] = OrderedDict()

    def __len__(self) -> int:
        return len(self._views)

    def add(self, model: ServedModel, trace: Trace, view: dict[str, Any]) -> dict[str, Any]:
        """Keep a view, and return it with its id."""
        identifier = secrets.token_urlsafe(ID_BYTES)
        view = {"id": identifier, **view}
        entry = KeptView(model, forget_weights(trace), json.dumps(view, ensure_ascii=False, allow_nan=False).encode())
        self._views[identifier] = entry
        self.bytes += len(entry.body)
        while len(self._views) > self.most or (self.bytes > self.most_bytes and len(self._views) > 1):
            _, oldest = self._views.popitem(last=False)
            self.bytes -= len(oldest.body)
        return view

    def find(self, identifier: str) -> KeptView | None:
        """Return a view; None if there is no such id, or no longer."""
        return self._views.get(identifier)


def view_trace(trace: Trace) -> tuple[dict[str, Any], PendingStore]:
    """Return the view of a trace, whose tensors wait for their ids."""
    store = PendingStore()
    view = make_view(trace, store)
    view["stepped"] = [] if trace.again is None else [attention.name for attention in trace.weights]
    return view, store


def view_steps(steps: Steps) -> tuple[dict[str, Any], PendingStore]:
    """Return the steps of a view, whose tensors wait for their ids."""
    store = PendingStore()
    return describe_steps(steps, store), store


def forget_weights(trace: Trace) -> Trace:
    """Return a trace with the names and shapes of its weights only; repeating its run needs no more."""
    weights = [replace(attention, values=attention.values.to("meta"), visible=None) for attention in trace.weights]
    return replace(trace, weights=weights, pictures={}, origin=None)
