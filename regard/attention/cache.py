"""The KV cache: keys and values already seen, of a fixed size, written in place, never moved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.hardware import kernels_run
from regard.attention.masks import Grid, Mask, Stepping


class KeyValues(NamedTuple):
    """Keys and values of something that does not grow, such as a source sentence."""

    keys: Float[Tensor, "*batch groups key depth"]
    values: Float[Tensor, "*batch groups key features"]

    def keep(self, rows: Int[Tensor, "kept"]) -> KeyValues:
        """Only these examples."""
        return KeyValues(self.keys[rows], self.values[rows])

    def join(self, other: KeyValues) -> KeyValues:
        """The examples of both, padded to the longer one."""
        return KeyValues(_stack(self.keys, other.keys), _stack(self.values, other.values))


class LayerCache(KeyValues):
    """The KV cache of one self-attention: room for a prompt, then for each beam's every token.

    What was written stays where it is; `Stepping` knows which of it belongs to whose past.
    """

    @classmethod
    def empty(cls, like: Float[Tensor, "batch groups key depth"], features: int, size: int) -> LayerCache:
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
        used = where.room + where.longest * where.beams
        if where.even:
            newest = slice(used - where.beams, used)
            self.keys[:, :, newest], self.values[:, :, newest] = key, value
        else:
            at = where.addresses()[:, None, :, None]
            self.keys.scatter_(2, at.expand_as(key), key)
            self.values.scatter_(2, at.expand_as(value), value)
        return self.keys[:, :, :used], self.values[:, :, :used]


@dataclass(frozen=True)
class DecoderState:
    """What a decoder remembers: a KV cache per layer, the index of slots, and the source it looks at, if any."""

    where: Stepping
    caches: tuple[LayerCache, ...]
    memories: tuple[KeyValues, ...] = ()
    source: Grid | None = None
    numbered: int = 0
    """How many examples had a number before some of them left; that of one that left is not given again."""

    @property
    def known(self) -> int:
        """How many numbers were given so far."""
        return max(self.numbered, len(self.where.example))

    def advance(self) -> DecoderState:
        """Ready for one more token of every beam."""
        return replace(self, where=self.where.advance())

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> DecoderState:
        """Beam k continues what beam `parents[k]` was; only the index of slots is gathered."""
        slots = self.where.slots
        chosen = slots.gather(1, parents[:, :, None].expand(-1, -1, slots.shape[2]))
        return replace(self, where=replace(self.where, slots=chosen))

    def keep(self, rows: Int[Tensor, "kept"]) -> DecoderState:
        """Only these examples go on."""
        where = self.where
        kept = replace(
            where,
            slots=where.slots[rows],
            taken=where.taken[rows],
            prompt=where.prompt[rows],
            example=where.example[rows],
        )
        return DecoderState(
            kept,
            tuple(LayerCache(*cache.keep(rows)) for cache in self.caches),
            tuple(memory.keep(rows) for memory in self.memories),
            None if self.source is None else Grid(self.source.lengths[rows], self.source.longest),
            self.known,
        )

    def join(self, other: DecoderState) -> DecoderState:
        """The examples of another past appended, each at its own position; their numbers go on from ours."""
        mine, theirs = self.where, other.where
        same = mine.beams, mine.room
        assert same == (theirs.beams, theirs.room), "beams and prompt room must agree to join"
        limit = max(mine.slots.shape[2], theirs.slots.shape[2])
        slots = [F.pad(where.slots, (0, limit - where.slots.shape[2])) for where in (mine, theirs)]
        where = Stepping(
            slots=torch.cat(slots),
            taken=torch.cat([mine.taken, theirs.taken]),
            prompt=torch.cat([mine.prompt, theirs.prompt]),
            example=torch.cat([mine.example, theirs.example + self.known]),
            room=mine.room,
            longest=max(mine.longest, theirs.longest),
            even=mine.even and theirs.even and mine.longest == theirs.longest,
        )
        source = None
        if self.source is not None and other.source is not None:
            lengths = torch.cat([self.source.lengths, other.source.lengths])
            source = Grid(lengths, max(self.source.longest, other.source.longest))
        return DecoderState(
            where,
            tuple(LayerCache(*a.join(b)) for a, b in zip(self.caches, other.caches, strict=True)),
            tuple(a.join(b) for a, b in zip(self.memories, other.memories, strict=True)),
            source,
            self.known + other.known,
        )


@dataclass(frozen=True)
class StaticDecoderState(DecoderState):
    """A past that is written in place, with rows that examples can take from one another: one step is like the next.

    A slot that is still to be written names its own beam.
    """

    @classmethod
    def of(cls, past: DecoderState) -> StaticDecoderState:
        """The same past from now on in place."""
        where = past.where
        ahead = torch.arange(where.slots.shape[2], device=where.slots.device) >= where.taken[:, None, None]
        slots = torch.where(ahead, _own(where), where.slots)
        where = replace(where, slots=slots, taken=where.taken.clone(), longest=slots.shape[2], even=False)
        return cls(where, past.caches, past.memories, past.source, past.numbered)

    def advance(self) -> StaticDecoderState:
        """Ready for one more token of every beam; a row at its limit stays there."""
        self.where.taken.add_(1).clamp_(max=self.where.slots.shape[2])
        return self

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> StaticDecoderState:
        """Beam k continues what beam `parents[k]` was."""
        where = self.where
        if where.beams > 1 and kernels_run(where.slots):
            from regard.attention.kernels.step import reorder

            reorder(where.slots, where.taken, parents)
        elif where.beams > 1:
            where.slots.copy_(StaticDecoderState.of(super().reorder(parents)).where.slots)
        return self

    def keep(self, rows: Int[Tensor, "kept"]) -> StaticDecoderState:
        """Only these examples go on."""
        return StaticDecoderState.of(super().keep(rows))

    def join(self, other: DecoderState) -> StaticDecoderState:
        """The examples of another past appended, each at its own position."""
        return StaticDecoderState.of(super().join(other))

    def blank(self, rows: int, limit: int) -> StaticDecoderState:
        """So many rows for examples like these, with room for `limit` tokens; nobody's source has one token."""
        room, device = self.where.room, self.where.slots.device
        where = Stepping.begin(torch.full((rows,), room, device=device), beams=self.where.beams, limit=limit, room=room)
        size = room + self.where.beams * limit
        caches = (
            LayerCache(*(held.new_zeros(rows, held.shape[1], size, held.shape[3]) for held in cache))
            for cache in self.caches
        )
        memories = (KeyValues(*(held.new_zeros(rows, *held.shape[1:]) for held in memory)) for memory in self.memories)
        source = self.source and Grid(torch.ones(rows, dtype=torch.int64, device=device), self.source.longest)
        return StaticDecoderState.of(DecoderState(where, tuple(caches), tuple(memories), source))

    def put(self, rows: Int[Tensor, "taken"], other: StaticDecoderState) -> None:
        """The examples of another past, which has written nothing yet, take these rows; it may have less room."""
        mine, theirs = self.where, other.where
        assert theirs.room <= mine.room, f"a prompt of {theirs.room} tokens in a row for {mine.room}"
        mine.taken.index_copy_(0, rows, theirs.taken)
        mine.prompt.index_copy_(0, rows, theirs.prompt)
        mine.slots.index_copy_(0, rows, _own(mine)[:1].expand(len(rows), -1, -1))
        for cache, fresh in zip(self.caches, other.caches, strict=True):
            for held, new in zip(cache, fresh, strict=True):
                held[:, :, : theirs.room].index_copy_(0, rows, new[:, :, : theirs.room])
        for memory, read in zip(self.memories, other.memories, strict=True):
            for held, new in zip(memory, read, strict=True):
                held[:, :, : new.shape[2]].index_copy_(0, rows, new)
        if self.source is not None and other.source is not None:
            self.source.lengths.index_copy_(0, rows, other.source.lengths)


def _own(where: Stepping) -> Int[Tensor, "batch beam limit"]:
    """Every beam's own number at every place."""
    return torch.arange(where.beams, device=where.slots.device)[:, None].expand_as(where.slots)


def _stack(first: Tensor, second: Tensor) -> Tensor:
    """Two batches of keys as one, the shorter padded at its end."""
    longest = max(first.shape[2], second.shape[2])
    return torch.cat([F.pad(part, (0, 0, 0, longest - part.shape[2])) for part in (first, second)])
