"""Attention masks: small descriptions that combine with `&`; True means that a query may attend to a key.

A mask becomes a matrix only where one is needed. `causal` and `window` refer to positions; `where` says how tokens are
laid out (packed in a row, padded in a grid, one decoding step, edges of a graph) and so which of them share a sequence;
`boolean` is anything else. `dense` returns the matrix, `places` and `distance` serve the position schemes that depend
on where a token is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from weakref import ref

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.edge_list import Edges
from regard.attention.lazy import cached

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Row:
    """Sequences packed end to end in one flat row of tokens; their `offsets` are what other kernels call cu_seqlens."""

    offsets: Int[Tensor, "bounds"]
    longest: int
    segment: Int[Tensor, "token"]
    place: Int[Tensor, "token"]
    count: Int[Tensor, ""]
    most: int | None = None
    """A bound of how many sequences are real, where it is known without asking the device."""
    even: bool = False
    """Whether every segment is known to have `longest` tokens, but for empty ones at the end: the row is a batch."""

    @classmethod
    def of(
        cls,
        lengths: Sequence[int] | Int[Tensor, "segments"],
        *,
        longest: int | None = None,
        size: int | None = None,
        segments: int | None = None,
        most: int | None = None,
    ) -> Row:
        """Return a row for sequences of these lengths; `size` and `segments` pad it to a fixed shape.

        The tail becomes segments no longer than `longest`, since a kernel bounded by `longest` reads nothing beyond it;
        empty segments come last.
        """
        sizes = torch.as_tensor(lengths, dtype=torch.int64)
        filled, highest = int(sizes.sum()), int(sizes.max()) if len(sizes) else 0
        longest = highest if longest is None else longest
        assert highest <= longest, f"a sequence of {highest} in a row bounded by {longest}"
        rest = 0 if size is None else size - filled
        assert rest >= 0, f"{filled} tokens do not fit a row of {size}"
        assert longest > 0 or not rest, "a tail needs a bound above 0 to be cut by: say `longest`"
        tail = [min(longest, rest - start) for start in range(0, rest, max(longest, 1))]
        empty = 0 if segments is None else segments - len(sizes) - len(tail)
        assert empty >= 0, f"{len(sizes) + len(tail)} segments where {segments} were promised"
        parts = torch.cat([sizes, torch.tensor(tail + [0] * empty, dtype=torch.int64)])
        offsets = F.pad(parts.cumsum(0), (1, 0))
        segment = torch.repeat_interleave(parts)
        place = torch.arange(len(segment)) - offsets[segment]
        assert most is None or len(sizes) <= most, f"{len(sizes)} sequences where at most {most} were promised"
        whole = parts[: len(segment) // max(longest, 1)]  # without empty segments at the end
        even = int(whole.sum()) == len(segment) > 0 and bool((whole == longest).all())
        return cls(offsets.int(), longest, segment, place, torch.tensor(len(sizes)), most, even)

    @cached
    def lengths(self) -> Int[Tensor, "segments"]:
        """The length of each segment."""
        return self.offsets.diff().long()

    @property
    def span(self) -> Int[Tensor, "token"]:
        """The length of the sequence that each token belongs to."""
        return self.lengths.index_select(0, self.segment)

    @property
    def filled(self) -> Int[Tensor, ""]:
        """The number of tokens of real sequences, without waiting for the device."""
        return self.offsets.index_select(0, self.count[None])[0]

    @cached
    def grid(self) -> tuple[Int[Tensor, "cell"], Int[Tensor, "token"], Grid]:
        """Indices that unpack the row into a grid and pack it again.

        On a CPU, unless `most` is set, the grid is as small as its content, because measuring it costs nothing there.
        """
        lengths, longest = self.lengths, self.longest
        if self.most is None and not self.offsets.is_cuda:
            filled = int((lengths > 0).nonzero()[-1]) + 1 if bool((lengths > 0).any()) else 0
            lengths, longest = lengths[:filled], int(lengths.max()) if filled else 0
        columns = torch.arange(longest, device=self.offsets.device)
        starts = self.offsets[: len(lengths)].long()
        cells = (starts[:, None] + columns).clamp(max=max(len(self.segment) - 1, 0)).flatten()
        return cells, self.segment * longest + self.place, Grid(lengths, longest, self.count)

    def to(self, device: torch.device | str) -> Row:
        """Return the same row on another device."""
        tensors = (self.offsets, self.segment, self.place, self.count)
        offsets, segment, place, count = (tensor.to(device, non_blocking=True) for tensor in tensors)
        return Row(offsets, self.longest, segment, place, count, self.most, self.even)


@dataclass(frozen=True, eq=False)
class Grid:
    """Sequences as the rows of a batch, padded on the right to `longest`; `count` of them are real, or all."""

    lengths: Int[Tensor, "batch"]
    longest: int
    count: Int[Tensor, ""] | None = None

    @property
    def place(self) -> Int[Tensor, "place"]:
        """The position of each column, the same for every sequence."""
        return torch.arange(self.longest, device=self.lengths.device)

    @property
    def span(self) -> Int[Tensor, "batch 1"]:
        """The length of each sequence."""
        return self.lengths[:, None]

    @property
    def filled(self) -> Bool[Tensor, "batch place"]:
        """True for tokens, False for padding."""
        return self.place < self.lengths[:, None]


@dataclass(frozen=True, eq=False)
class Turn:
    """One column of a padded batch that is read column by column: the queries are the tokens at column `at`."""

    grid: Grid
    at: int


@dataclass(frozen=True, eq=False)
class Packed:
    """Queries and keys packed in rows; a query sees the keys of the segment with its own number."""

    query: Row
    key: Row

    def visible_pairs(self) -> Bool[Tensor, "query key"]:
        """Return True where query and key share a segment."""
        return self.query.segment[:, None] == self.key.segment

    def places(self, queries: int, keys: int) -> tuple[Tensor, Tensor]:
        """Return the position of each query and each key in its own sequence."""
        return self.query.place, self.key.place


@dataclass(frozen=True, eq=False)
class Padded:
    """Keys in a padded grid; queries are in one too, in all columns or one, or are the beams of a decoding step."""

    key: Grid
    query: Grid | Turn | Stepping | None = None

    def visible_pairs(self) -> Bool[Tensor, "batch 1 key"]:
        """Return True on keys that are not padding."""
        return self.key.filled[:, None, :]

    def places(self, queries: int, keys: int) -> tuple[Tensor, Tensor]:
        """Return the columns of queries and keys."""
        device = self.key.lengths.device
        return torch.arange(queries, device=device), torch.arange(keys, device=device)


@dataclass(frozen=True, eq=False)
class Stepping:
    """One decoding step: the queries are the beams of an example, the keys all tokens that its beams have cached.

    The first `room` places hold the keys of the prompt, once for all beams; then there is one per beam and generated
    token: what beam `b` was fed as token `t` stays at `room + t * beams + b`. `slots[e, k, t]` is the beam whose cache
    holds token `t` of beam `k`'s past, so reordering beams gathers this small index and moves no keys.
    """

    slots: Int[Tensor, "batch beam limit"]
    taken: Int[Tensor, "batch"]
    prompt: Int[Tensor, "batch"]
    example: Int[Tensor, "batch"]
    room: int
    longest: int
    even: bool = False
    """Whether it is known that all prompts fill their room and all examples have taken as many tokens."""

    @classmethod
    def begin(cls, prompt: Int[Tensor, "batch"], *, beams: int, limit: int, room: int, even: bool = False) -> Stepping:
        """Return the state after the prompt, before the first generated token."""
        slots = torch.zeros(len(prompt), beams, limit, dtype=torch.int64, device=prompt.device)
        numbers = torch.arange(len(prompt), device=prompt.device)
        return cls(slots, torch.zeros_like(prompt), prompt, numbers, room, 0, even)

    @property
    def beams(self) -> int:
        """The number of beams of every example."""
        return self.slots.shape[1]

    @property
    def open(self) -> bool:
        """True if every beam sees all cached keys."""
        return self.even and self.beams == 1

    @property
    def newest(self) -> Int[Tensor, "batch beam"]:
        """The position of the newest token of each beam in its text."""
        return (self.prompt + self.taken - 1)[:, None].expand(-1, self.beams)

    def advance(self) -> Stepping:
        """Return the index after each beam has written one more token into its own slot."""
        slots, limit = self.slots, self.slots.shape[2]
        assert not self.even or self.longest < limit, f"a token more than the {limit} that there is room for"
        if self.beams > 1:  # a single beam has number 0, like a free slot
            beam_numbers = torch.arange(self.beams, device=slots.device)[None, :, None].expand(len(self.taken), -1, 1)
            slots = slots.scatter(2, self.taken[:, None, None].expand(-1, self.beams, 1), beam_numbers)
        return replace(self, slots=slots, taken=self.taken + 1, longest=min(self.longest + 1, limit))

    def addresses(self) -> Int[Tensor, "batch beam"]:
        """Return the place in the cache for the newest token of each beam."""
        beam_numbers = torch.arange(self.beams, device=self.slots.device)
        return self.room + (self.taken[:, None] - 1) * self.beams + beam_numbers

    def visible_pairs(self) -> Bool[Tensor, "batch beam key"]:
        """Return True on the prompt and on the slots of the beam's own past."""
        (batch, beams, _), device = self.slots.shape, self.slots.device
        prompt = torch.arange(self.room, device=device) < self.prompt[:, None]
        in_slot = self.slots[:, :, : self.longest, None] == torch.arange(beams, device=device)
        past = torch.arange(self.longest, device=device) < self.taken[:, None]
        generated = (in_slot & past[:, None, :, None]).flatten(2)
        return torch.cat([prompt[:, None].expand(batch, beams, self.room), generated], dim=2)

    def places(self, queries: int, keys: int) -> tuple[Tensor, Tensor]:
        """Return the positions: queries are at their example's newest token, keys where they were written."""
        device = self.slots.device
        newest = (self.prompt + self.taken - 1)[:, None].expand(-1, queries)
        generated = self.prompt[:, None] + torch.arange(self.longest, device=device)
        prompt = torch.arange(self.room, device=device).expand(len(self.prompt), -1)
        return newest, torch.cat([prompt, generated.repeat_interleave(self.beams, dim=1)], dim=1)


Where = Packed | Padded | Stepping | Edges


@dataclass(frozen=True, eq=False)
class Mask:
    """A description of which keys each query may attend to."""

    causal: bool = False
    window: int | None = None
    where: Where | None = None
    boolean: Bool[Tensor, "*batch query key"] | None = None
    memory: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __and__(self, other: Mask) -> Mask:
        """Allow only what both masks allow."""
        if self.where is not None and other.where is not None and self.where is not other.where:
            raise ValueError(
                f"cannot combine two layouts, {type(self.where).__name__} and {type(other.where).__name__}: "
                "a mask describes one set of queries and keys"
            )
        windows = [mask.window for mask in (self, other) if mask.window is not None]
        booleans = [mask.boolean for mask in (self, other) if mask.boolean is not None]
        return Mask(
            causal=self.causal or other.causal,
            window=min(windows) if windows else None,
            where=self.where if self.where is not None else other.where,
            boolean=booleans[0] & booleans[1] if len(booleans) == 2 else (booleans[0] if booleans else None),
        )

    def places(self, queries: int, keys: int, device: torch.device | str | None = None) -> tuple[Tensor, Tensor]:
        """Return the positions of queries and keys in their sequences: (*batch, query) and (*batch, key)."""
        if self.where is not None:
            return self.where.places(queries, keys)
        return torch.arange(queries, device=device), torch.arange(keys, device=device)

    def distance(
        self, queries: int, keys: int, device: torch.device | str | None = None
    ) -> Int[Tensor, "*batch query key"]:
        """Return the position of each key minus that of each query; the past is negative."""
        query, key = self.places(queries, keys, device)
        return key[..., None, :] - query[..., :, None]

    def dense(
        self, queries: int, keys: int, device: torch.device | str | None = None
    ) -> Bool[Tensor, "*batch query key"] | None:
        """Return the mask as a boolean that broadcasts over (*batch, query, key); None if nothing is hidden."""
        parts = []
        if self.where is not None and not (isinstance(self.where, Stepping) and self.where.open):
            parts.append(self.where.visible_pairs())
        if self.causal or self.window is not None:
            distance = self.distance(queries, keys, device)
            if self.causal:
                parts.append(distance <= 0)
            if self.window is not None:
                parts.append(distance.abs() <= self.window)
        if self.boolean is not None:
            parts.append(self.boolean)
        if not parts:
            return None
        allowed = parts[0]
        for part in parts[1:]:
            allowed = allowed & part
        return allowed

    def once(self, name: Any, make: Callable[[], Made]) -> Made:
        """Return the result of `make`, computed once and shared by all layers that use this mask.

        A tensor that needs a gradient is shared only within a pass: it is dropped when its gradient is known.
        """
        if torch.compiler.is_compiling():
            return make()
        if name not in self.memory:
            self.memory[name] = computed = make()
            if isinstance(computed, Tensor) and computed.requires_grad and not computed.is_leaf:
                computed.register_hook(_forget(ref(self), name))
        return self.memory[name]


def _forget(mask: ref[Mask], name: Any) -> Callable[[Tensor], None]:
    """Return a hook that drops a shared tensor when its gradient is computed."""

    def forget(gradient: Tensor) -> None:
        owner = mask()
        if owner is not None:
            owner.memory.pop(name, None)

    return forget


EVERYONE = Mask()


def causal() -> Mask:
    """A query sees itself and all earlier tokens."""
    return Mask(causal=True)


def window(size: int) -> Mask:
    """A query sees keys at most `size` places away."""
    return Mask(window=size)


def padded(key: Grid, query: Grid | Turn | Stepping | None = None) -> Mask:
    """A query sees the keys of its example that are not padding."""
    return Mask(where=Padded(key, query))


def packed(query: Row, key: Row | None = None) -> Mask:
    """A query sees the keys of its own segment."""
    return Mask(where=Packed(query, query if key is None else key))


def stepping(where: Stepping) -> Mask:
    """A beam sees the prompt and its own past."""
    return Mask(where=where)


def neighbours(query: Int[Tensor, "edge"], key: Int[Tensor, "edge"], *, nodes: int) -> Mask:
    """A node sees the nodes it shares an edge with."""
    return Mask(where=Edges.of(query, key, nodes))


def allow(boolean: Bool[Tensor, "*batch query key"]) -> Mask:
    """A query sees where the boolean is True."""
    return Mask(boolean=boolean)


def mask_between(query: Row | Grid, key: Row | Grid) -> Mask:
    """Return the mask for queries and keys that are both packed or both padded."""
    if isinstance(query, Row):
        assert isinstance(key, Row), "a packed row looks at a packed row"
        return packed(query, key)
    assert isinstance(key, Grid), "a padded batch looks at a padded batch"
    return padded(key, query)
