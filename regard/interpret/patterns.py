"""What single heads do: how widely they look, how near the diagonal, which relation they follow; rollout of a stack.

Every number stands beside what a head that looks evenly at all it may see would score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from regard.interpret.items import Item, Weights
from regard.interpret.spread import diagonality, entropy
from regard.interpret.trace import Trace
from regard.interpret.words import merge, units

LEAST = 0.3
"""Share of its weight that a head must give to a relation to be named after it."""
TIMES = 2.0
"""How many times the control it must give."""


@dataclass(frozen=True)
class Mean:
    """A mean with what an even look would have given at the same places."""

    value: float
    even: float
    places: int


@dataclass(frozen=True)
class Pattern:
    """One head: entropy in bits, diagonality where it looks across, and its relations."""

    where: str
    head: int
    entropy: Mean
    relations: dict[str, Mean] = field(default_factory=dict)
    diagonality: float | None = None

    @property
    def role(self) -> str | None:
        """The relation it favours most over an even look, if it gives much to it and many times the control."""
        clear = {name: mean for name, mean in self.relations.items() if mean.value >= max(LEAST, TIMES * mean.even)}
        return max(clear, key=lambda name: clear[name].value - clear[name].even, default=None)


@dataclass
class _Sum:
    """A mean in the making."""

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


def patterns(traces: Sequence[Trace]) -> list[Pattern]:
    """Every head of every attention over many traces of one model."""
    found = []
    for name in [one.name for one in traces[0].weights]:
        entropies, relations, diagonals = _Sum(), dict[str, _Sum](), []
        for trace in traces:
            one = trace.find(name)
            visible = _visible(one)
            entropies.add(entropy(one.values), visible.log2())
            if one.name.endswith("cross"):
                diagonals.append(diagonality(_words(trace, one)))
            for relation, rows, keys in _related(trace, one):
                relations.setdefault(relation, _Sum()).add(_given(one.values, rows, keys), _even(visible, rows, keys))
        for head in range(traces[0].find(name).values.shape[0]):
            known = {relation: total.of(head) for relation, total in relations.items()}
            straight = float(torch.stack(diagonals)[:, head].mean()) if diagonals else None
            found.append(Pattern(name, head, entropies.of(head), known, straight))
    return found


def rollout(trace: Trace, stack: str = "encoder") -> Float[Tensor, "query key"]:
    """How much of each token is left in each place after all layers (Abnar and Zuidema 2020).

    The mean head of a layer mixed half and half with the identity, for the residual path, and the layers multiplied.
    """
    layers = [one for one in trace.weights if one.name.startswith(f"{stack}.") and one.name.endswith(".attention")]
    if not layers:
        raise ValueError(f"no self-attention of a stack called {stack} in this trace: look at encoder or decoder")
    layers = sorted(layers, key=lambda each: int(each.name.split(".")[1]))
    return rolled([one.values.float().cpu().mean(0) for one in layers])


def rolled(layers: Sequence[Float[Tensor, "*batch token token"]]) -> Float[Tensor, "*batch token token"]:
    """Layers of attention, the first one first, each mixed half and half with the identity, multiplied."""
    own = torch.eye(layers[0].shape[-1], dtype=layers[0].dtype, device=layers[0].device)
    total = own.expand_as(layers[0])
    for layer in layers:
        total = (0.5 * layer + 0.5 * own) @ total
    return total


def _words(trace: Trace, one: Weights) -> Tensor:
    """The weights between words."""
    return merge(one.values.float(), units(trace.items[one.query]), units(trace.items[one.key]))


def _visible(one: Weights) -> Float[Tensor, "query"]:
    """How many keys each query may see: in a decoder those up to itself."""
    _, queries, keys = one.values.shape
    if one.query == "target" and one.key == "fed":
        return torch.arange(1.0, queries + 1)
    return torch.full((queries,), float(keys))


def _given(weights: Tensor, rows: list[int], keys: list[list[int]]) -> Float[Tensor, "heads place"]:
    """What each of these rows gives to its keys."""
    return torch.stack([weights[:, row, own].sum(-1) for row, own in zip(rows, keys, strict=True)], dim=-1)


def _even(visible: Tensor, rows: list[int], keys: list[list[int]]) -> Float[Tensor, "place"]:
    """What an even look would give."""
    return torch.tensor([len(own) for own in keys]) / visible[rows]


def _related(trace: Trace, one: Weights) -> Iterator[tuple[str, list[int], list[list[int]]]]:
    """Each relation of a self-attention: which rows have it, and to which keys."""
    if one.name.endswith("cross"):
        return
    items = trace.items[one.key]  # row r stands at key r: in a decoder it was fed that token
    size, backward = len(items), one.key == "fed"
    offered = {
        "itself": [[row] for row in range(size)],
        "previous token": [[row - 1] if row else [] for row in range(size)],
        "next token": [[row + 1] if row + 1 < size and not backward else [] for row in range(size)],
        "first token": [[0] if row > 1 else [] for row in range(size)],
        "last token": [[size - 1] if row < size - 2 and not backward else [] for row in range(size)],
        "rest of its word": _siblings(items, backward=backward),
    }
    for relation, keys in offered.items():
        rows = [row for row in range(size) if keys[row]]
        if rows:
            yield relation, rows, [keys[row] for row in rows]


def _siblings(items: Sequence[Item], *, backward: bool) -> list[list[int]]:
    """The other pieces of each token's word, those before it where the future is hidden."""
    return [
        [
            place
            for place, other in enumerate(items)
            if item.word is not None and other.word == item.word and place != row and not (backward and place > row)
        ]
        for row, item in enumerate(items)
    ]
