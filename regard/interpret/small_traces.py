"""Traces made small, of which many are kept: one attention of each input in half precision, in one file.

A file holds the traces of a few inputs at one step of a training: of the attention that is shown first the weights of
every head, and of the others the mean over their heads, as far as a bounded number of bytes goes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.interpret.visibility import describe_visibility, restore_visibility

FORMAT = 1
WEIGHT_BYTES = 96 << 10
"""Most bytes of the weights of a trace."""
PICTURE_BYTES = 32 << 10
"""Most bytes of a picture of a trace; larger ones are made coarser."""
HEADER = "traces"  # name of the entry that describes the tensors of a file
SHOWN_FACTS = ("text", "answer", "score", "probability", "forced")


@dataclass(frozen=True)
class SmallWeights:
    """The weights of an attention: of all heads, or only their mean."""

    name: str
    query: str
    key: str
    values: Tensor
    is_mean: bool
    visible: Tensor | None = None


@dataclass(frozen=True)
class SmallTrace:
    """The smaller trace of one answer; the attention that is shown first comes first."""

    items: dict[str, list[Item]]
    weights: list[SmallWeights]
    facts: dict[str, Any]
    pictures: dict[str, Tensor]


def shrink_trace(trace: Trace, most_bytes: int = WEIGHT_BYTES) -> SmallTrace:
    """Return the heads of the attention shown first, and the mean of every other one, as far as the bytes go."""
    first = trace.find()
    others = [attention for attention in reversed(list(trace.weights)) if attention.name != first.name]
    kept_weights: list[SmallWeights] = []
    bytes_left = most_bytes
    for attention in (first, *others):
        for candidate in _versions(attention, with_heads=attention is first):
            if candidate.values.nbytes <= bytes_left:
                kept_weights.append(candidate)
                bytes_left -= candidate.values.nbytes
                break
    used = {side for attention in kept_weights for side in (attention.query, attention.key)}
    return SmallTrace(
        {name: list(items) for name, items in trace.items.items() if name in used},
        kept_weights,
        {name: trace.facts[name] for name in SHOWN_FACTS if name in trace.facts},
        {name: _coarsen(pixels) for name, pixels in trace.pictures.items() if name in used},
    )


def _versions(attention: Weights, *, with_heads: bool) -> list[SmallWeights]:
    """Return an attention in half precision, the fullest version first; none of a sparse one, which has too many."""
    if attention.values.is_sparse:
        return []
    values = attention.values.detach().float().cpu()
    sides = attention.query, attention.key
    mean = SmallWeights(attention.name, *sides, values.mean(0, keepdim=True).half(), True, attention.visible)
    return [replace(mean, values=values.half(), is_mean=False), mean] if with_heads else [mean]


def _coarsen(pixels: Tensor) -> Tensor:
    """Return every n-th pixel of a picture, with the smallest n that is small enough."""
    pixels = pixels.detach().cpu()
    step = 1
    while pixels[::step, ::step].numel() > PICTURE_BYTES:
        step += 1
    return pixels[::step, ::step].contiguous()


def encode_traces(traces: Sequence[SmallTrace]) -> bytes:
    """Return traces as the bytes of a safetensors file."""
    from safetensors.torch import save

    tensors, described = dict[str, Tensor](), []
    for number, trace in enumerate(traces):
        weights = []
        for place, attention in enumerate(trace.weights):
            tensors[f"{number}/{place}"] = attention.values.contiguous()
            mask = {} if attention.visible is None else {"mask": describe_visibility(attention.visible)}
            axes = [attention.query, attention.key]
            weights.append({"name": attention.name, "axes": axes, "mean": attention.is_mean, **mask})
        tensors |= {f"{number}/{name}": pixels for name, pixels in trace.pictures.items()}
        items = {name: [_plain_item(item) for item in listed] for name, listed in trace.items.items()}
        described.append({"items": items, "weights": weights, "facts": trace.facts, "pictures": list(trace.pictures)})
    header = json.dumps({"format": FORMAT, "traces": described}, ensure_ascii=False)
    return save(tensors, metadata={HEADER: header})


def read_traces(path: Path) -> list[SmallTrace]:
    """Read a file that `encode_traces` wrote; one that is damaged or of another format is a ValueError."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(HEADER, "{}"))
            if header.get("format") != FORMAT:
                raise ValueError(f"{path}: trace format {header.get('format')!r}, this version reads {FORMAT}")
            return [_read_trace(file, number, described) for number, described in enumerate(header["traces"])]
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path}: damaged, {error}") from None


def _read_trace(file: Any, number: int, described: dict[str, Any]) -> SmallTrace:
    items = {
        name: [Item(**{**item, "box": tuple(item["box"])} if "box" in item else item) for item in listed]
        for name, listed in described["items"].items()
    }
    weights = [
        _read_weights(entry, file.get_tensor(f"{number}/{place}")) for place, entry in enumerate(described["weights"])
    ]
    for attention in weights:
        shape = len(items[attention.query]), len(items[attention.key])
        if attention.values.dtype != torch.float16 or tuple(attention.values.shape[1:]) != shape:
            raise TypeError(f"{attention.name} does not fit its words")
    pictures = {name: file.get_tensor(f"{number}/{name}") for name in described["pictures"]}
    return SmallTrace(items, weights, described["facts"], pictures)


def _read_weights(entry: dict[str, Any], values: Tensor) -> SmallWeights:
    """Return the weights of an attention with what could be looked at, if the file says it."""
    visible = restore_visibility(entry["mask"], *values.shape[1:]) if "mask" in entry else None
    query, key = entry["axes"]
    return SmallWeights(entry["name"], query, key, values, bool(entry["mean"]), visible)


def _plain_item(item: Item) -> dict[str, Any]:
    values = {"text": item.text, "word": item.word, "box": item.box, "special": item.special}
    return {name: value for name, value in values.items() if value is not None and value is not False}
