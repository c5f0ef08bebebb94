"""The KV cache: keys and values of earlier tokens, of a fixed size, written in place and never moved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
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
        """Keep only these examples."""
        return KeyValues(self.keys[rows], self.values[rows])

    def join(self, other: KeyValues) -> KeyValues:
        """Append examples that have the same number of keys."""
        return KeyValues(torch.cat([self.keys, other.keys]), torch.cat([self.values, other.values]))


class LayerCache(KeyValues):
    """The KV cache of one self-attention: places for a prompt, then for every token of each beam.

    What was written stays in place; `Stepping` knows to which beam's past it belongs.
    """

    @classmethod
    def empty(cls, like: Float[Tensor, "batch groups key depth"], features: int, size: int) -> LayerCache:
        """Return a cache of `size` places for keys like these and values with `features` features."""
        batch, groups, _, depth = like.shape
        return cls(like.new_zeros(batch, groups, size, depth), like.new_zeros(batch, groups, size, features))

    def extend(self, key: Tensor, value: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        """Write the newest keys and values, and return all that may be attended to."""
        where = mask.where
        if not isinstance(where, Stepping):  # the prompt, read in one pass
            self.keys[:, :, : key.shape[2]] = key
            self.values[:, :, : value.shape[2]] = value
            return key, value
        used = where.room + where.longest * where.beams
        if where.even:
            newest = slice(used - where.beams, used)
            self.keys[:, :, newest], self.values[:, :, newest] = key, value
        else:
            addresses = where.addresses()[:, None, :, None]
            self.keys.scatter_(2, addresses.expand_as(key), key)
            self.values.scatter_(2, addresses.expand_as(value), value)
        return self.keys[:, :, :used], self.values[:, :, :used]


@dataclass(frozen=True)
class DecoderState:
    """The state of a decoder: a KV cache per layer, the index of slots, and the source it attends to, if any."""

    where: Stepping
    caches: tuple[LayerCache, ...]
    memories: tuple[KeyValues, ...] = ()
    source: Grid | None = None
    numbered: int = 0
    """How many examples had a number before some of them left; that of one that left is not given again."""
    storage: CacheStorage | None = None
    """Memory with room for more examples, of which caches and memories are the first rows."""

    @property
    def number_count(self) -> int:
        """The number of example numbers assigned so far."""
        return max(self.numbered, len(self.where.example))

    def advance(self) -> DecoderState:
        """Advance every beam by one token, which the next step writes."""
        return replace(self, where=self.where.advance())

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> DecoderState:
        """Let beam k continue beam `parents[k]`; only the index of slots is gathered."""
        slots = self.where.slots
        chosen = slots.gather(1, parents[:, :, None].expand(-1, -1, slots.shape[2]))
        return replace(self, where=replace(self.where, slots=chosen))

    def keep(self, rows: Int[Tensor, "kept"]) -> DecoderState:
        """Keep only these examples; those that change their row are copied, all others stay in place."""
        where = self.where
        storage = self.storage or CacheStorage.allocate(self, rows=len(where.taken))
        storage.reorder_rows(rows, used=where.room + where.longest * where.beams)
        token_counts = where.taken[rows]
        kept_steps = replace(
            where,
            slots=where.slots[rows],
            taken=token_counts,
            prompt=where.prompt[rows],
            example=where.example[rows],
            longest=_find_longest(token_counts, where.longest),
        )
        source = None
        if self.source is not None:
            lengths = self.source.lengths[rows]
            source = Grid(lengths, _find_longest(lengths, self.source.longest))
        return storage.view_rows(kept_steps, source, self.number_count)

    def join(self, other: DecoderState) -> DecoderState:
        """Append the examples of another state, each at its own position; their numbers follow the ones in use."""
        mine, theirs = self.where, other.where
        if mine.beams != theirs.beams:
            raise ValueError(f"examples of {mine.beams} and of {theirs.beams} beams cannot be stepped together")
        limit = max(mine.slots.shape[2], theirs.slots.shape[2])
        slots = [F.pad(where.slots, (0, limit - where.slots.shape[2])) for where in (mine, theirs)]
        where = Stepping(
            slots=torch.cat(slots),
            taken=torch.cat([mine.taken, theirs.taken]),
            prompt=torch.cat([mine.prompt, theirs.prompt]),
            example=torch.cat([mine.example, theirs.example + self.number_count]),
            room=max(mine.room, theirs.room),
            longest=max(mine.longest, theirs.longest),
            even=mine.even and theirs.even and (mine.longest, mine.room) == (theirs.longest, theirs.room),
        )
        source = None
        if self.source is not None and other.source is not None:
            lengths = torch.cat([self.source.lengths, other.source.lengths])
            source = Grid(lengths, max(self.source.longest, other.source.longest))
        storage = self.storage
        if storage is None or not storage.fits(where, source):
            storage = CacheStorage.allocate(self, rows=_round_capacity(len(where.taken)), where=where, source=source)
        storage.write_rows(len(mine.taken), other)
        return storage.view_rows(where, source, self.number_count + other.number_count)


class CacheStorage(NamedTuple):
    """The memory of a decoder state with spare rows: the present examples are in the first rows."""

    caches: tuple[LayerCache, ...]
    memories: tuple[KeyValues, ...]
    room: int
    """Places for the prompt of an example; its generated tokens come after them."""
    beams: int

    @classmethod
    def allocate(
        cls, past: DecoderState, *, rows: int, where: Stepping | None = None, source: Grid | None = None
    ) -> CacheStorage:
        """Allocate a cache of `rows` rows, sized for `where` and `source`, and copy the examples of `past` into it."""
        where = where or past.where
        size = where.room + where.beams * where.slots.shape[2]
        longest = 0 if past.source is None else max(past.source.longest, 0 if source is None else source.longest)
        caches = (_allocate_like(cache, rows, size) for cache in past.caches)
        memories = (_allocate_like(memory, rows, -(-longest // 16) * 16) for memory in past.memories)
        storage = cls(tuple(LayerCache(*pair) for pair in caches), tuple(memories), where.room, where.beams)
        storage.write_rows(0, past)
        return storage

    def fits(self, where: Stepping, source: Grid | None) -> bool:
        """True if there is room for these examples."""
        size, longest = self.room + self.beams * where.slots.shape[2], 0 if source is None else source.longest
        return (
            where.room <= self.room
            and all(len(where.taken) <= len(stored.keys) for stored in (*self.caches, *self.memories))
            and all(size <= cache.keys.shape[2] for cache in self.caches)
            and all(longest <= memory.keys.shape[2] for memory in self.memories)
        )

    def write_rows(self, first: int, past: DecoderState) -> None:
        """Copy the examples of a state into the rows from `first` on.

        What earlier examples left there is zeroed: it is masked, but NaN or infinity would spoil a sum all the same.
        """
        where = past.where
        rows, used = slice(first, first + len(where.taken)), where.longest * where.beams
        for cache, new in zip(self.caches, past.caches, strict=True):
            for buffer, fresh in zip(cache, new, strict=True):
                buffer[rows, :, : where.room] = fresh[:, :, : where.room]
                buffer[rows, :, where.room : self.room] = 0
                buffer[rows, :, self.room : self.room + used] = fresh[:, :, where.room : where.room + used]
                buffer[rows, :, self.room + used :] = 0
        for memory, new_memory in zip(self.memories, past.memories, strict=True):
            for buffer, fresh in zip(memory, new_memory, strict=True):
                buffer[rows, :, : fresh.shape[2]] = fresh
                buffer[rows, :, fresh.shape[2] :] = 0

    def reorder_rows(self, rows: Int[Tensor, "kept"], used: int) -> None:
        """Move the examples of these rows to the first rows, in this order."""
        places = torch.arange(len(rows), device=rows.device)
        moved = (rows != places).nonzero()[:, 0]
        if not len(moved):
            return
        origins = rows[moved]
        for buffer in (*(tensor[:, :, :used] for cache in self.caches for tensor in cache), *chain(*self.memories)):
            buffer[moved] = buffer[origins]

    def view_rows(self, where: Stepping, source: Grid | None, numbered: int) -> DecoderState:
        """Return the state of the examples in the first rows."""
        count, longest = len(where.taken), 0 if source is None else source.longest
        caches = tuple(LayerCache(*(buffer[:count] for buffer in cache)) for cache in self.caches)
        memories = tuple(KeyValues(*(buffer[:count, :, :longest] for buffer in memory)) for memory in self.memories)
        return DecoderState(where, caches, memories, source, numbered, self)


@dataclass(frozen=True)
class StaticDecoderState(DecoderState):
    """A decoder state that is written in place, with rows that examples can reuse, so that all steps are alike.

    A slot that is still to be written names its own beam.
    """

    @classmethod
    def of(cls, past: DecoderState) -> StaticDecoderState:
        """Return a state with the same content that is written in place from now on."""
        where = past.where
        ahead = torch.arange(where.slots.shape[2], device=where.slots.device) >= where.taken[:, None, None]
        slots = torch.where(ahead, _own_beams(where), where.slots)
        where = replace(where, slots=slots, taken=where.taken.clone(), longest=slots.shape[2], even=False)
        return cls(where, past.caches, past.memories, past.source, past.numbered, past.storage)

    def advance(self) -> StaticDecoderState:
        """Advance every beam by one token; a row at its limit stays there."""
        self.where.taken.add_(1).clamp_(max=self.where.slots.shape[2])
        return self

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> StaticDecoderState:
        """Let beam k continue beam `parents[k]`."""
        where = self.where
        if where.beams > 1 and kernels_run(where.slots):
            from regard.attention.kernels.step import reorder

            reorder(where.slots, where.taken, parents)
        elif where.beams > 1:
            where.slots.copy_(StaticDecoderState.of(super().reorder(parents)).where.slots)
        return self

    def keep(self, rows: Int[Tensor, "kept"]) -> StaticDecoderState:
        """Keep only these examples."""
        return StaticDecoderState.of(super().keep(rows))

    def join(self, other: DecoderState) -> StaticDecoderState:
        """Append the examples of another state, each at its own position."""
        return StaticDecoderState.of(super().join(other))

    def blank(self, rows: int, limit: int) -> StaticDecoderState:
        """Return a state of `rows` free rows with room for `limit` tokens; the source of a free row has one token."""
        room, device = self.where.room, self.where.slots.device
        where = Stepping.begin(torch.full((rows,), room, device=device), beams=self.where.beams, limit=limit, room=room)
        size = room + self.where.beams * limit
        caches = (
            LayerCache(*(buffer.new_zeros(rows, buffer.shape[1], size, buffer.shape[3]) for buffer in cache))
            for cache in self.caches
        )
        memories = (
            KeyValues(*(buffer.new_zeros(rows, *buffer.shape[1:]) for buffer in memory)) for memory in self.memories
        )
        source = self.source and Grid(torch.ones(rows, dtype=torch.int64, device=device), self.source.longest)
        return StaticDecoderState.of(DecoderState(where, tuple(caches), tuple(memories), source))

    def put(self, rows: Int[Tensor, "taken"], other: StaticDecoderState) -> None:
        """Write the examples of another state, which has generated nothing yet and may have less room, into these rows.

        What earlier examples left there is zeroed, as it may hold NaN or infinity.
        """
        mine, theirs = self.where, other.where
        assert theirs.room <= mine.room, f"a prompt of {theirs.room} tokens in a row for {mine.room}"
        mine.taken.index_copy_(0, rows, theirs.taken)
        mine.prompt.index_copy_(0, rows, theirs.prompt)
        mine.slots.index_copy_(0, rows, _own_beams(mine)[:1].expand(len(rows), -1, -1))
        for cache, fresh in zip(self.caches, other.caches, strict=True):
            for buffer, new in zip(cache, fresh, strict=True):
                buffer[:, :, : theirs.room].index_copy_(0, rows, new[:, :, : theirs.room])
                buffer[:, :, theirs.room :].index_fill_(0, rows, 0.0)
        for memory, new_memory in zip(self.memories, other.memories, strict=True):
            for buffer, new in zip(memory, new_memory, strict=True):
                buffer[:, :, : new.shape[2]].index_copy_(0, rows, new)
                buffer[:, :, new.shape[2] :].index_fill_(0, rows, 0.0)
        if self.source is not None and other.source is not None:
            self.source.lengths.index_copy_(0, rows, other.source.lengths)


def _own_beams(where: Stepping) -> Int[Tensor, "batch beam limit"]:
    """Return each beam's own number for every slot."""
    return torch.arange(where.beams, device=where.slots.device)[:, None].expand_as(where.slots)


def _allocate_like(old: KeyValues, rows: int, size: int) -> KeyValues:
    """Return zeros for `rows` rows of `size` keys and values like these."""
    return KeyValues(*(tensor.new_zeros(rows, tensor.shape[1], size, tensor.shape[3]) for tensor in old))


def _round_capacity(rows: int) -> int:
    """Round the number of rows up to a power of two, so that memory is seldom reallocated."""
    return 1 << (rows - 1).bit_length()


def _find_longest(sizes: Int[Tensor, "batch"], fallback: int) -> int:
    """Return the largest of these sizes on a CPU, or `fallback` where asking would wait for a device."""
    return int(sizes.max()) if sizes.device.type == "cpu" and len(sizes) else fallback
