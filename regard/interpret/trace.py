"""A trace: what a model read, what it wrote and where it looked, in a form pages and notebooks exchange.

On disk it is `name.json`, with `format: 1`, and the tensors beside it in `name.safetensors`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from regard.data.tokenizers import Tokenizer

FORMAT = 1


@dataclass(frozen=True)
class Item:
    """One thing that looks or is looked at: a token, a patch of an image, a node."""

    text: str
    word: int | None = None
    box: tuple[float, float, float, float] | None = None
    special: bool = False


@dataclass(frozen=True)
class Weights:
    """The weights of one attention, with the names of the item lists on its axes."""

    name: str
    query: str
    key: str
    values: Float[Tensor, "heads query key"]


@dataclass(frozen=True)
class Trace:
    """One answer of a model with all that was watched on the way."""

    model: str
    task: str
    items: Mapping[str, Sequence[Item]]
    weights: Sequence[Weights]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in self.weights:
            _, queries, keys = one.values.shape
            named = len(self.items[one.query]), len(self.items[one.key])
            if (queries, keys) != named:
                raise ValueError(f"{one.name} has weights of {queries} x {keys} for {named[0]} x {named[1]} items")

    def find(self, name: str) -> Weights:
        """The weights of that name."""
        for one in self.weights:
            if one.name == name:
                return one
        raise ValueError(f"no weights called {name}; there are {', '.join(one.name for one in self.weights)}")

    def save(self, path: Path) -> None:
        """Write `path` (ending in .json) and the tensors beside it."""
        from safetensors.torch import save_file

        head = {
            "format": FORMAT,
            "model": self.model,
            "task": self.task,
            "items": {name: [_spare(asdict(item)) for item in items] for name, items in self.items.items()},
            "weights": [
                {"name": one.name, "axes": ["head", one.query, one.key], "shape": list(one.values.shape)}
                for one in self.weights
            ],
            "facts": dict(self.facts),
        }
        tensors = {one.name: one.values.detach().cpu().contiguous() for one in self.weights}
        save_file(tensors, path.with_suffix(".safetensors"))
        path.write_text(json.dumps(head, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def _repr_html_(self) -> str:
        """The page of this trace, as notebooks show it."""
        from regard.interpret.page import frame

        return frame(self)


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
    weights = [Weights(one["name"], one["axes"][1], one["axes"][2], tensors[one["name"]]) for one in head["weights"]]
    return Trace(head["model"], head["task"], items, weights, head["facts"])


def tokens(tokenizer: Tokenizer, ids: Sequence[int], text: str | None = None) -> list[Item]:
    """Token ids, of this text if it is known, as items with the number of their word; special ones have none."""
    pieces, words = tokenizer.pieces(ids), tokenizer.words(ids, text)
    return [Item(piece, word=word, special=word is None) for piece, word in zip(pieces, words, strict=True)]


def axes(name: str) -> tuple[str, str]:
    """Which items the queries and keys of an attention are, in a model that reads a source and writes a target."""
    if name.startswith("encoder"):
        return "source", "source"
    return ("target", "source") if name.endswith("cross") else ("target", "fed")


def _spare(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what is not there."""
    return {name: value for name, value in fields.items() if value is not None and value is not False}
