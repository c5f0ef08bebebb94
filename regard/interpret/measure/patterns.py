"""Patterns of single heads: entropy, diagonality, the relation they follow; and attention rollout.

Every number comes with the value of uniform attention over the visible keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from regard.interpret.items import Item, Weights
from regard.interpret.measure.entropy import diagonality, entropy
from regard.interpret.trace import Trace
from regard.interpret.words import group_items, merge

MIN_SHARE = 0.3
"""Least share of a head's weight on a relation for the head to be named after it."""
MIN_RATIO = 2.0
"""Least ratio of this share to its control."""


@dataclass(frozen=True)
class Mean:
    """A mean, and the mean that uniform attention would have at the same positions."""

    value: float
    even: float
    places: int


@dataclass(frozen=True)
class Pattern:
    """One head: entropy in bits, diagonality for cross-attention, and its relations."""

    where: str
    head: int
    entropy: Mean
    relations: dict[str, Mean] = field(default_factory=dict)
    diagonality: float | None = None

    @property
    def role(self) -> str | None:
        """Return the relation with the largest excess over uniform attention, if its weight is high enough, or None."""
        clear = {
            name: mean for name, mean in self.relations.items() if mean.value >= max(MIN_SHARE, MIN_RATIO * mean.even)
        }
        return max(clear, key=lambda name: clear[name].value - clear[name].even, default=None)


@dataclass
class _Sum:
    """An accumulator for a mean."""

    value: Tensor | float = 0.0
    even: float = 0.0
    places: int = 0

    def add(self, values: Float[Tensor, "heads place"], even: Float[Tensor, "place"]) -> None:
        self.value = self.value + values.double().sum(-1)
        self.even += float(even.double().sum())
        self.places += len(even)

    def of(self, head: int) -> Mean:
        assert isinstance(self.value, Tensor)
        return Mean(float(self.value[head]) / self.places, self.even / self.places, self.places)


def measure_heads(traces: Sequence[Trace]) -> list[Pattern]:
    """Measure every head of every attention over several traces of one model."""
    head_patterns = []
    for name in [attention.name for attention in traces[0].weights]:
        entropies, relations, diagonals = _Sum(), dict[str, _Sum](), []
        for trace in traces:
            attention = trace.find(name)
            visible = _visible_counts(attention)
            entropies.add(entropy(attention.values), visible.log2())
            if attention.name.endswith("cross"):
                diagonals.append(diagonality(_word_weights(trace, attention)))
            for relation, rows, keys in _find_relations(trace, attention):
                relations.setdefault(relation, _Sum()).add(
                    _relation_weights(attention.values, rows, keys), _even_weights(visible, rows, keys)
                )
        for head in range(traces[0].find(name).values.shape[0]):
            head_relations = {relation: total.of(head) for relation, total in relations.items()}
            straight = float(torch.stack(diagonals)[:, head].mean()) if diagonals else None
            head_patterns.append(Pattern(name, head, entropies.of(head), head_relations, straight))
    return head_patterns


def rollout(trace: Trace, stack: str = "encoder") -> Float[Tensor, "query key"]:
    """Return how much of each token remains at each position after all layers (Abnar and Zuidema 2020).

    The mean of a layer's heads is mixed equally with the identity, for the residual path; the layers are multiplied.
    """
    layers = [
        attention
        for attention in trace.weights
        if attention.name.startswith(f"{stack}.") and attention.name.endswith(".attention")
    ]
    if not layers:
        raise ValueError(f"no self-attention of a stack called {stack} in this trace: look at encoder or decoder")
    layers = sorted(layers, key=lambda layer: int(layer.name.split(".")[1]))
    return rollout_layers([attention.values.float().cpu().mean(0) for attention in layers])


def rollout_layers(layers: Sequence[Float[Tensor, "*batch token token"]]) -> Float[Tensor, "*batch token token"]:
    """Multiply layers of attention, the first one first, each mixed equally with the identity."""
    identity = torch.eye(layers[0].shape[-1], dtype=layers[0].dtype, device=layers[0].device)
    total = identity.expand_as(layers[0])
    for layer in layers:
        total = (0.5 * layer + 0.5 * identity) @ total
    return total


def _word_weights(trace: Trace, attention: Weights) -> Tensor:
    """Return the weights between words."""
    return merge(
        attention.values.float(), group_items(trace.items[attention.query]), group_items(trace.items[attention.key])
    )


def _visible_counts(attention: Weights) -> Float[Tensor, "query"]:
    """Return the number of visible keys per query: where the trace has no mask, in a decoder those up to itself."""
    _, queries, keys = attention.values.shape
    if attention.visible is not None:
        return attention.visible.sum(-1).clamp(min=1).float().cpu()
    if attention.query == "target" and attention.key == "fed":
        return torch.arange(1.0, queries + 1)
    return torch.full((queries,), float(keys))


def _relation_weights(weights: Tensor, rows: list[int], keys: list[list[int]]) -> Float[Tensor, "heads place"]:
    """Return the weight of these rows on their keys."""
    return torch.stack([weights[:, row, row_keys].sum(-1) for row, row_keys in zip(rows, keys, strict=True)], dim=-1)


def _even_weights(visible: Tensor, rows: list[int], keys: list[list[int]]) -> Float[Tensor, "place"]:
    """Return the weight that uniform attention would have."""
    return torch.tensor([len(row_keys) for row_keys in keys]) / visible[rows]


def _find_relations(trace: Trace, attention: Weights) -> Iterator[tuple[str, list[int], list[list[int]]]]:
    """Yield each relation of a self-attention with the rows that have it and their keys."""
    if attention.name.endswith("cross"):
        return
    items = trace.items[attention.key]  # query r is key r: in a decoder the token fed at that position
    size, backward = len(items), attention.key == "fed"
    keys_by_relation = {
        "itself": [[row] for row in range(size)],
        "previous token": [[row - 1] if row else [] for row in range(size)],
        "next token": [[row + 1] if row + 1 < size and not backward else [] for row in range(size)],
        "first token": [[0] if row > 1 else [] for row in range(size)],
        "last token": [[size - 1] if row < size - 2 and not backward else [] for row in range(size)],
        "rest of its word": _siblings(items, backward=backward),
    }
    for relation, keys in keys_by_relation.items():
        rows = [row for row in range(size) if keys[row]]
        if rows:
            yield relation, rows, [keys[row] for row in rows]


def _siblings(items: Sequence[Item], *, backward: bool) -> list[list[int]]:
    """Return the other pieces of each token's word, only those before it if the future is hidden."""
    return [
        [
            place
            for place, other in enumerate(items)
            if item.word is not None and other.word == item.word and place != row and not (backward and place > row)
        ]
        for row, item in enumerate(items)
    ]
