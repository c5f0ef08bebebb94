"""Keys and values already seen: a fixed size, written in place, never moved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.masks import Grid, Mask, Stepping


class Remembered(NamedTuple):
    """Keys and values of something that does not grow, such as a source sentence."""

    keys: Float[Tensor, "*batch groups key depth"]
    values: Float[Tensor, "*batch groups key features"]

    def keep(self, rows: Int[Tensor, "kept"]) -> Remembered:
        """Only these examples."""
        return Remembered(self.keys[rows], self.values[rows])

    def join(self, other: Remembered) -> Remembered:
        """The examples of both, padded to the longer one."""
        return Remembered(_stack(self.keys, other.keys), _stack(self.values, other.values))

    def copy(self) -> Remembered:
        """Memory of its own."""
        return Remembered(self.keys.clone(), self.values.clone())


class Cache(Remembered):
    """Keys and values of one self-attention: room for a prompt, then for each beam's every token.

    What was written stays where it is; `Stepping` knows which of it belongs to whose past.
    """

    @classmethod
    def empty(cls, like: Float[Tensor, "batch groups key depth"], features: int, size: int) -> Cache:
        """A cache of `size` places for keys like these and values of so many features."""
        batch, groups, _, depth = like.shape
        return cls(like.new_zeros(batch, groups, size, depth), like.new_zeros(batch, groups, size, features))

    def extend(self, key: Tensor, value: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        """Write the newest keys and values, and answer with all that may be looked at."""
        where = mask.where
        if not isinstance(where, Stepping):  # the prompt, read in one go
            self.keys[:, :, : key.shape[2]] = key
            self.values[:, :, : value.shape[2]] = value
            return key, value
        at = where.addresses()[:, None, :, None]
        self.keys.scatter_(2, at.expand_as(key), key)
        self.values.scatter_(2, at.expand_as(value), value)
        used = where.room + where.longest * where.beams
        return self.keys[:, :, :used], self.values[:, :, :used]


@dataclass(frozen=True)
class Past:
    """What a decoder remembers: a cache per layer, the index of slots, and the source it looks at, if any."""

    where: Stepping
    caches: tuple[Cache, ...]
    memories: tuple[Remembered, ...] = ()
    source: Grid | None = None

    def advance(self) -> Past:
        """Ready for one more token of every beam."""
        return replace(self, where=self.where.advance())

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> Past:
        """Beam k goes on from what beam `parents[k]` was; only the index of slots is gathered."""
        slots = self.where.slots
        chosen = slots.gather(1, parents[:, :, None].expand(-1, -1, slots.shape[2]))
        return replace(self, where=replace(self.where, slots=chosen))

    def keep(self, rows: Int[Tensor, "kept"]) -> Past:
        """Only these examples go on."""
        where = self.where
        kept = replace(
            where,
            slots=where.slots[rows],
            taken=where.taken[rows],
            prompt=where.prompt[rows],
            example=where.example[rows],
        )
        return Past(
            kept,
            tuple(Cache(*cache.keep(rows)) for cache in self.caches),
            tuple(memory.keep(rows) for memory in self.memories),
            None if self.source is None else Grid(self.source.lengths[rows], self.source.longest),
        )

    def join(self, other: Past) -> Past:
        """The examples of another past appended, each at its own position; their numbers go on from ours."""
        mine, theirs = self.where, other.where
        same = mine.beams, mine.room
        assert same == (theirs.beams, theirs.room), "beams and prompt room must agree to join"
        limit = max(mine.slots.shape[2], theirs.slots.shape[2])
        slots = [F.pad(where.slots, (0, limit - where.slots.shape[2])) for where in (mine, theirs)]
        first = int(mine.example.max()) + 1 if len(mine.example) else 0
        where = Stepping(
            slots=torch.cat(slots),
            taken=torch.cat([mine.taken, theirs.taken]),
            prompt=torch.cat([mine.prompt, theirs.prompt]),
            example=torch.cat([mine.example, theirs.example + first]),
            room=mine.room,
            longest=max(mine.longest, theirs.longest),
        )
        source = None
        if self.source is not None and other.source is not None:
            lengths = torch.cat([self.source.lengths, other.source.lengths])
            source = Grid(lengths, max(self.source.longest, other.source.longest))
        return Past(
            where,
            tuple(Cache(*a.join(b)) for a, b in zip(self.caches, other.caches, strict=True)),
            tuple(a.join(b) for a, b in zip(self.memories, other.memories, strict=True)),
            source,
        )

    def copy(self) -> Past:
        """A past of its own, to branch off."""
        return replace(self, caches=tuple(Cache(*cache.copy()) for cache in self.caches))


def _stack(first: Tensor, second: Tensor) -> Tensor:
    """Two batches of keys as one, the shorter padded at its end."""
    longest = max(first.shape[2], second.shape[2])
    return torch.cat([F.pad(part, (0, 0, 0, longest - part.shape[2])) for part in (first, second)])
