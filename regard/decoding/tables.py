"""Rows of beams on the device: examples take rows, all rows are stepped together, and each ranking is recorded.

A DynamicBatch grows and shrinks with the state of any model. A StaticBatch has a fixed number of rows, which examples
reuse, and its state is written in place; its rounds run ahead of the host, and a GPU replays them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple, Protocol, runtime_checkable
from weakref import WeakMethod, ref

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.hardware import kernels_run
from regard.decoding.batching import close_gaps, round_up
from regard.decoding.constraints import ABSENT, Constraint
from regard.decoding.graphs import Graph, captures
from regard.decoding.ledger import HostState, Numbers
from regard.decoding.ranking import Chosen, Front, Ranked
from regard.decoding.stepper import Replayable, Stepper
from regard.decoding.threads import limit_threads, multiplications_per_row

SPAN = 8  # rounds that run before the host reads their results
MAX_TABLES = 6  # tables that a model keeps for later searches
TABLES = Lock()  # held while the tables that a model keeps are changed
STARTS = 32  # input shapes for which a table keeps a graph


@runtime_checkable
class Policy(Protocol):
    """How tokens are chosen on the device and recorded on the host."""

    @property
    def eos(self) -> int:
        """The token that ends an answer; -1 if none does."""
        ...

    @property
    def constraints(self) -> Sequence[Constraint]:
        """The constraints on answers."""
        ...

    @property
    def beams(self) -> int:
        """The number of hypotheses of each example."""
        ...

    @property
    def key(self) -> tuple[Any, ...]:
        """The settings that two policies must share to use the same table."""
        ...

    @property
    def draws(self) -> bool:
        """True if every token needs a random number."""
        ...

    @property
    def reorders(self) -> bool:
        """True if a beam may continue another one."""
        ...

    def first(self, batch: int, device: torch.device) -> Float[Tensor, "batch beam"]:
        """Return the initial scores of empty hypotheses."""
        ...

    def choose(self, logits: Float[Tensor, "batch beam vocab"], front: Front) -> Chosen:
        """Rank the next tokens and choose the hypotheses that go on."""
        ...

    def choices(self, vocab: int) -> int:
        """Return the number of next tokens of an example that are recorded in a round."""
        ...

    @property
    def free(self) -> bool:
        """True if the next tokens do not depend on what is written, so that kernels can choose them."""
        ...

    def choose_in_place(self, logits: Tensor, lines: LiveHypotheses, record: Tensor, clock: Tensor) -> None:
        """Choose the next tokens in place with kernels, which update the lines and record the ranking."""
        ...

    def book(self, limits: Sequence[int], longest: int | None = None) -> HostState:
        """Return the host state of examples with these limits."""
        ...


class LiveHypotheses(NamedTuple):
    """The live hypotheses of some examples; texts and random numbers are empty where they are not needed."""

    example: Int[Tensor, "batch"]
    length: Int[Tensor, "batch"]
    total: Float[Tensor, "batch beam"]
    tokens: Int[Tensor, "batch beam"]
    parents: Int[Tensor, "batch beam"]
    written: Int[Tensor, "batch beam text"]
    noise: Float[Tensor, "batch beam room"]

    @classmethod
    def blank(cls, example: Int[Tensor, "batch"], policy: Policy, *, text: int, noise: Tensor | None) -> LiveHypotheses:
        """Return empty hypotheses with room for `text` tokens."""
        batch, beams, device = len(example), policy.beams, example.device
        nothing = torch.zeros(batch, beams, dtype=torch.int64, device=device)
        written = torch.full((batch, beams, text), ABSENT, device=device)
        noise = nothing.new_zeros((batch, beams, 0), dtype=torch.float32) if noise is None else noise
        return cls(
            example, torch.zeros_like(example), policy.first(batch, device), nothing, nothing.clone(), written, noise
        )

    def choose(
        self, logits: Float[Tensor, "batch beam vocab"], policy: Policy, *, growing: bool
    ) -> tuple[Ranked, LiveHypotheses]:
        """Return the ranking and the hypotheses one token longer; texts grow, or lose their oldest token."""
        noise = None
        if self.noise.shape[2]:
            at = self.length.clamp(max=self.noise.shape[2] - 1)[:, None, None].expand(-1, self.noise.shape[1], 1)
            noise = self.noise.gather(2, at)[..., 0]
        chosen = policy.choose(logits.float(), Front(self.example, self.total, self.written, noise))
        written = self.written
        if not policy.free:
            reordered = written.gather(1, chosen.parents[..., None].expand_as(written)) if policy.reorders else written
            written = torch.cat([reordered if growing else reordered[..., 1:], chosen.tokens[..., None]], -1)
        after = LiveHypotheses(
            self.example, self.length + 1, chosen.total, chosen.tokens, chosen.parents, written, self.noise
        )
        return chosen.ranked, after

    def keep(self, rows: Int[Tensor, "kept"]) -> LiveHypotheses:
        """Keep only these examples."""
        return LiveHypotheses(*(tensor[rows] for tensor in self))

    def join(self, other: LiveHypotheses) -> LiveHypotheses:
        """Append the examples of others; texts are aligned right, random numbers left."""
        text, room = (max(self[at].shape[2], other[at].shape[2]) for at in (5, 6))
        written = [F.pad(lines.written, (text - lines.written.shape[2], 0), value=ABSENT) for lines in (self, other)]
        noise = [F.pad(lines.noise, (0, room - lines.noise.shape[2])) for lines in (self, other)]
        example, length, total, tokens, parents = (torch.cat(pair) for pair in zip(self[:5], other[:5], strict=True))
        return LiveHypotheses(example, length, total, tokens, parents, torch.cat(written), torch.cat(noise))


class Admission(NamedTuple):
    """Examples that take rows together: the model's inputs, their numbers out of `examples`, limit and noise."""

    rows: Numbers
    inputs: Sequence[Any]
    example: Numbers
    examples: int
    limit: int
    noise: Float[Tensor, "batch beam room"] | None


class DynamicBatch:
    """Rows of any model: states are joined and reduced as examples come and go; the host reads every round."""

    span, lag = 1, 0

    def __init__(self, model: Stepper, policy: Policy) -> None:
        self.model, self.policy, self.work = model, policy, multiplications_per_row(model)
        self.state: Any = None
        self.lines: LiveHypotheses | None = None
        self.rows: Numbers = np.zeros(0, dtype=np.int64)

    def seat(self, new: Admission) -> Int[Tensor, "1 row 5 choice"]:
        """Read the inputs of new examples and return the ranking of their first round."""
        self.leave(new.rows)
        logits, state = self.model.start(*new.inputs, beams=self.policy.beams, limit=new.limit)
        check(self.policy, new.examples, logits.shape[-1])
        example = torch.from_numpy(new.example).to(logits.device)
        noise = None if new.noise is None else new.noise.to(logits.device)
        ranked, lines = LiveHypotheses.blank(example, self.policy, text=0, noise=noise).choose(
            logits, self.policy, growing=True
        )
        if self.lines is None:
            self.state, self.lines, self.rows = state, lines, new.rows
        else:
            self.state, self.lines = self.state.join(state), self.lines.join(lines)
            self.rows = np.append(self.rows, new.rows)
        return encode_ranking(ranked)

    def run(self, steps: int, going: Numbers) -> tuple[Int[Tensor, "1 row 5 choice"], Numbers]:
        """Run one round of the rows that are still going."""
        assert self.lines is not None
        assert steps == 1
        lines, alive = self.lines, going[self.rows]
        if not alive.all():
            kept_rows = close_gaps(alive.tolist())
            moved = torch.tensor(kept_rows, device=lines.total.device)
            self.state, lines = self.state.keep(moved), lines.keep(moved)
            self.rows = self.rows[kept_rows]
        with limit_threads(None if self.work is None else self.work * lines.tokens.numel()):
            state = self.state.reorder(lines.parents) if self.policy.reorders else self.state
            logits, self.state = self.model.step(lines.tokens, state)
            ranked, self.lines = lines.choose(logits, self.policy, growing=True)
            return encode_ranking(ranked), self.rows

    def leave(self, rows: Numbers) -> None:
        """Drop these rows, before others take them."""
        stay = ~np.isin(self.rows, rows)
        if stay.all() or self.lines is None:
            return
        kept_rows = close_gaps(stay.tolist())
        if not kept_rows:
            self.state, self.lines = None, None
        else:
            moved = torch.tensor(kept_rows, device=self.lines.total.device)
            self.state, self.lines = self.state.keep(moved), self.lines.keep(moved)
        self.rows = self.rows[kept_rows]


class StaticBatch:
    """A fixed number of rows of a model whose state is written in place; rounds run ahead of the host."""

    span, lag = SPAN, 1

    def __init__(self, model: Replayable, policy: Policy, *, rows: int, longest: int) -> None:
        self.policy, self.rows, self.longest = policy, rows, longest
        self.device = model.device
        self.widths: tuple[int, ...] = ()
        self.lock = Lock()
        self.vocab, self._examples = 0, 0
        self._model = ref(model)  # a weak reference, since the model owns this table
        self._state: Any = None
        self._step = Graph(_weak_method(self._round), self.device, warm=2)
        self._starts: OrderedDict[Any, Graph] = OrderedDict()
        # The graphs run one after another and their results are copied at once, so they share one memory pool.
        self._pool = torch.cuda.graph_pool_handle() if captures(self.device) else None
        example = torch.zeros(rows, dtype=torch.int64, device=self.device)
        drawn = torch.zeros(rows, policy.beams, longest, device=self.device) if policy.draws else None
        self._lines = LiveHypotheses.blank(example, policy, text=0 if policy.free else longest, noise=drawn)
        self._clock = torch.zeros_like(example)
        self._record = torch.zeros(0, dtype=torch.int32, device=self.device)

    @property
    def model(self) -> Replayable:
        """The model to which the rows belong."""
        model = self._model()
        assert model is not None, "a table outlived its model"
        return model

    def seat(self, new: Admission) -> Int[Tensor, "1 row kind choice"]:
        """Read the inputs of new examples into these rows and return the ranking of their first round."""
        if self.vocab:
            check(self.policy, new.examples, self.vocab)
        rows, example, inputs, noise = new.rows, new.example, list(new.inputs), new.noise
        padding = round_row_count(len(rows)) - len(rows)
        if padding:  # repeat the first example, into the same row
            again = torch.arange(-padding, len(rows)).clamp(min=0).roll(-padding)
            inputs = [tensor[again.to(tensor.device)] for tensor in inputs]
            rows, example = rows[again.numpy()], example[again.numpy()]
            noise = None if noise is None else noise[again]
        numbers = torch.from_numpy(np.stack([rows, example])).to(self.device, non_blocking=True)
        if noise is None:
            noise = torch.zeros(len(rows), self.policy.beams, 0)
        noise = F.pad(noise, (0, self._lines.noise.shape[2] - noise.shape[2])).to(self.device, non_blocking=True)
        shapes = tuple(tensor.shape for tensor in inputs)
        if shapes not in self._starts:
            self._starts[shapes] = Graph(_weak_method(self._first), self.device, warm=2, pool=self._pool)
            while len(self._starts) > STARTS:
                self._starts.popitem(last=False)
        self._starts.move_to_end(shapes)
        self._examples = new.examples
        return self._starts[shapes](numbers, noise, *inputs)

    def serves(self, policy: Policy, widths: Sequence[int]) -> bool:
        """True if a search with this policy, over inputs of these widths, can use the table."""
        wide = len(widths) == len(self.widths) and all(a <= b for a, b in zip(widths, self.widths, strict=True))
        return wide and self.policy.key == policy.key

    def replaces(self, other: StaticBatch) -> bool:
        """True if all searches that the other table serves can use this one."""
        return self.rows == other.rows and self.longest >= other.longest and self.serves(other.policy, other.widths)

    def run(self, steps: int, going: Numbers) -> tuple[Int[Tensor, "round row kind choice"], Numbers]:
        """Run some rounds of all rows and return the ranking of each."""
        self._clock.zero_()
        for _ in range(steps):
            self._step()
        return self._record[:steps], np.arange(self.rows)

    def _first(self, numbers: Tensor, noise: Tensor, *inputs: Tensor) -> Tensor:
        """Run the first round of new examples, and then write them into their rows."""
        logits, state = self.model.start(*inputs, beams=self.policy.beams, limit=1)
        if self._state is None:
            check(self.policy, self._examples, logits.shape[-1])
            self._state, self.vocab = state.blank(self.rows, self.longest), logits.shape[-1]
        rows, example = numbers
        lines = LiveHypotheses.blank(example, self.policy, text=self._lines.written.shape[2], noise=noise)
        record, lines = self._choose(logits, lines, torch.zeros_like(rows), None)
        self._state.put(rows, state)
        for mine, new in zip(self._lines, lines, strict=True):
            mine.index_copy_(0, rows, new)
        if not self._record.numel():
            self._record = record.new_zeros(SPAN, self.rows, *record.shape[2:])
        return record

    def _round(self) -> None:
        """Feed the newest tokens and choose the next ones."""
        lines = self._lines
        state = self._state.reorder(lines.parents) if self.policy.reorders else self._state
        logits, _ = self.model.step(lines.tokens, state)
        _, after = self._choose(logits, lines, self._clock, self._record)
        for mine, new in zip(lines, after, strict=True):
            if mine is not new:
                mine.copy_(new)

    def _choose(
        self, logits: Tensor, lines: LiveHypotheses, clock: Tensor, record: Tensor | None
    ) -> tuple[Int[Tensor, "round row kind choice"], LiveHypotheses]:
        """Choose tokens, with a kernel where possible, and record the ranking where the clock of each row points."""
        if self.policy.free and kernels_run(logits):
            if record is None:
                shape = 1, len(clock), 3, self.policy.choices(logits.shape[-1])
                record = torch.zeros(shape, dtype=torch.int32, device=logits.device)
            self.policy.choose_in_place(logits, lines, record, clock)
            return record, lines
        ranked, after = lines.choose(logits, self.policy, growing=False)
        numbers = encode_ranking(ranked)
        if record is None:
            return numbers, after
        record[clock % len(record), torch.arange(len(clock), device=clock.device)] = numbers[0]
        clock += 1
        return record, after


def borrow_table(model: Replayable, policy: Policy, *, rows: int, longest: int, widths: tuple[int, ...]) -> StaticBatch:
    """Return an earlier table with the same policy and enough room, or a new one; the model keeps the latest."""
    rows = round_row_count(rows)
    with TABLES:
        for table in sorted(model.tables, key=lambda table: table.longest):
            if table.rows == rows and table.longest >= longest and table.serves(policy, widths):
                model.tables.remove(table)
                break
        else:
            room = 64 if rows <= 16 else 32  # few rows are cheap: one table for texts of many lengths
            table = StaticBatch(model, policy, rows=rows, longest=round_up(longest, room))
            table.widths = widths
            model.tables[:] = [other for other in model.tables if not table.replaces(other)]
        _put_back(model, table)
    return table


@contextmanager
def exclusive_table(
    model: Replayable, policy: Policy, *, rows: int, longest: int, widths: tuple[int, ...]
) -> Iterator[StaticBatch]:
    """Yield a borrowed table that no other search can use meanwhile, however long the caller pauses."""
    table = borrow_table(model, policy, rows=rows, longest=longest, widths=widths)
    with table.lock:
        with TABLES:
            model.tables[:] = [other for other in model.tables if other is not table]
        try:
            yield table
        finally:
            with TABLES:
                _put_back(model, table)


def _put_back(model: Replayable, table: StaticBatch) -> None:
    """Make a table available to other searches; the model keeps only the latest tables."""
    model.tables[:] = [*(other for other in model.tables if other is not table), table][-MAX_TABLES:]


def round_row_count(rows: int) -> int:
    """Round the number of rows up, so that few different numbers occur and none is much larger."""
    return 1 << (rows - 1).bit_length() if rows <= 64 else -(-rows // 64) * 64


def check(policy: Policy, examples: int, vocab: int) -> None:
    """Check, before anything is decoded, that the constraints fit."""
    for constraint in policy.constraints:
        constraint.check(examples, vocab)


def encode_ranking(ranked: Ranked) -> Int[Tensor, "1 row 5 choice"]:
    """Return the ranking as one integer tensor, to be copied to the host at once."""
    stuck = F.pad(ranked.stuck.int(), (0, ranked.score.shape[1] - ranked.stuck.shape[1]))
    score = ranked.score.float().contiguous().view(torch.int32)
    return torch.stack([score, ranked.parent.int(), ranked.token.int(), ranked.progress.int(), stuck], 1)[None]


def _weak_method(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method without keeping its owner alive."""
    weak = WeakMethod(method)

    def call(*inputs: Any) -> Any:
        bound = weak()
        assert bound is not None
        return bound(*inputs)

    return call
