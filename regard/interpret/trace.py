"""Traces: what a model read and wrote and its attention weights, in a format that pages and notebooks can load.

On disk it is `name.json`, with `format: 1`, and the tensors beside it in `name.safetensors`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from jaxtyping import UInt8
from torch import Tensor

from regard.interpret.items import Item, Weights
from regard.interpret.notebook import Origin, link_model
from regard.interpret.steps import Steps
from regard.interpret.visibility import describe_visibility, merge_visibility, restore_visibility
from regard.interpret.words import Unit, group_items, merge

FORMAT = 1
PICTURE = "picture: "  # prefix of the name of a list whose image is among the tensors


@dataclass(frozen=True)
class Trace:
    """One answer of a model with all recorded attention weights."""

    model: str
    task: str
    items: Mapping[str, Sequence[Item]]
    weights: Sequence[Weights]
    facts: Mapping[str, Any] = field(default_factory=dict)
    again: Callable[..., Steps] | None = field(default=None, repr=False, compare=False)
    """Function `again(trace, names=...)` that repeats the run and returns its vectors; None for a trace from a file."""
    pictures: Mapping[str, UInt8[Tensor, "height width channels"]] = field(default_factory=dict)
    """Images that items with a box are parts of, by the name of the list of items."""
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """The model and the question; None for a trace from a file."""

    def __post_init__(self) -> None:
        for attention in self.weights:
            _, queries, keys = attention.values.shape
            item_counts = len(self.items[attention.query]), len(self.items[attention.key])
            if (queries, keys) != item_counts:
                raise ValueError(
                    f"{attention.name} has weights of {queries} x {keys} for {item_counts[0]} x {item_counts[1]} items"
                )

    def find(self, name: str | None = None) -> Weights:
        """Return the weights of this name; by default the last cross-attention, or else the last attention."""
        if not self.weights:
            raise ValueError("this trace holds no weights: nothing was watched")
        for attention in self.weights:
            if attention.name == name:
                return attention
        if name is not None:
            raise unknown_weights(name, [attention.name for attention in self.weights])
        across = [attention for attention in self.weights if attention.name.endswith("cross")]
        return (across or list(self.weights))[-1]

    def by_words(self) -> Trace:
        """Return the trace with pieces merged into words; items with an image keep their pieces."""
        lists = {
            name: group_items(items, level="subword" if name in self.pictures else "word", specials=True)
            for name, items in self.items.items()
        }
        if all(len(lists[name]) == len(items) for name, items in self.items.items()):
            return self
        items = {
            name: [Item(unit.text, word=unit.word, special=unit.special) for unit in lists[name]]
            if len(lists[name]) < len(original)
            else original
            for name, original in self.items.items()
        }
        weights = [_merge_words(attention, lists[attention.query], lists[attention.key]) for attention in self.weights]
        return replace(self, items=items, weights=weights, again=None)

    def steps(self, names: Sequence[str] | None = None) -> Steps | None:
        """Recompute the steps of these attentions, or of the model's selection by default; None without a model."""
        return None if self.again is None else self.again(self, names=names)

    def save(self, path: Path) -> None:
        """Write `path` (ending in .json) and a safetensors file next to it."""
        from safetensors.torch import save_file

        save_file(self.tensors(), path.with_suffix(".safetensors"))
        path.write_text(json.dumps(self.plain(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def plain(self) -> dict[str, Any]:
        """Return everything but the tensors as JSON."""
        return {
            "format": FORMAT,
            "model": self.model,
            "task": self.task,
            "items": {name: [_drop_empty(asdict(item)) for item in items] for name, items in self.items.items()},
            "weights": [
                {
                    "name": attention.name,
                    "axes": ["head", attention.query, attention.key],
                    "shape": list(attention.values.shape),
                    **({} if attention.visible is None else {"mask": describe_visibility(attention.visible)}),
                }
                for attention in self.weights
            ],
            "facts": dict(self.facts),
            "pictures": list(self.pictures),
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by the names of attentions, and the images by the names of their lists."""
        tensors = {attention.name: attention.values.detach().cpu().contiguous() for attention in self.weights}
        return tensors | {f"{PICTURE}{name}": pixels.cpu().contiguous() for name, pixels in self.pictures.items()}

    def _repr_html_(self) -> str:
        """Return the page of this trace, for notebooks; where packages allow it, it asks the model in the kernel."""
        from regard.interpret.draw import page

        link = link_model(self.origin)
        question = None if self.origin is None else self.origin.question()
        return page.frame(self, link=link, question=question if link.page_id else None)


def _merge_words(attention: Weights, queries: Sequence[Unit], keys: Sequence[Unit]) -> Weights:
    """Return the weights between words, and which words could look at which."""
    visible = None if attention.visible is None else merge_visibility(attention.visible, queries, keys)
    return replace(attention, values=merge(attention.values.float(), queries, keys), visible=visible)


def unknown_weights(name: str, names: Sequence[str]) -> ValueError:
    """Return the error for a name that no weights have."""
    return ValueError(f"no weights called {name}; there are {', '.join(names)}")


def load(path: Path) -> Trace:
    """Read a trace that `save` wrote."""
    from safetensors.torch import load_file

    head = json.loads(path.read_text(encoding="utf-8"))
    if head.get("format") != FORMAT:
        raise ValueError(f"{path}: trace format {head.get('format')!r}, this version reads {FORMAT}")
    tensors = load_file(path.with_suffix(".safetensors"))
    items = {
        name: [Item(**{**item, "box": tuple(item["box"])} if "box" in item else item) for item in listed]
        for name, listed in head["items"].items()
    }
    weights = [
        Weights(record["name"], record["axes"][1], record["axes"][2], tensors[record["name"]], _read_mask(record))
        for record in head["weights"]
    ]
    pictures = {name: tensors[f"{PICTURE}{name}"] for name in head.get("pictures", [])}
    return Trace(head["model"], head["task"], items, weights, head["facts"], pictures=pictures)


def _read_mask(record: Mapping[str, Any]) -> Tensor | None:
    """Return what could be looked at, if the file says it."""
    return restore_visibility(record["mask"], *record["shape"][1:]) if "mask" in record else None


def _drop_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """Remove fields that are None or False."""
    return {name: value for name, value in fields.items() if value is not None and value is not False}
