"""Lanes: rows in which examples are decoded together by one policy; they are seated, advanced, and leave when done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.ledger import Beam, HostState, Numbers, Round
from regard.decoding.stepper import Hypothesis, Replayable, Stepper
from regard.decoding.tables import Admission, DynamicBatch, Policy, StaticBatch


class Group(NamedTuple):
    """Examples that are read together: the model's inputs, the limit of each answer, and the noise for sampling."""

    inputs: Sequence[Any]
    limit: Sequence[int]
    noise: Float[Tensor, "batch beam room"] | None = None
    beams: Sequence[Beam] = ()
    """Beam settings of each example, if they differ."""


class Failure(NamedTuple):
    """The reason why an example has no answers; other examples are not affected."""

    reason: str


NOT_NUMBERS = Failure("scores are not numbers: the model's weights are not finite, or its precision cannot hold them")


class Lane:
    """A number of rows in which examples are decoded together; each example is identified by its ticket."""

    def __init__(
        self,
        table: DynamicBatch | StaticBatch,
        book: HostState,
        *,
        longest: int,
        first: int = 0,
        examples: int | None = None,
    ) -> None:
        self.table, self.book, self.longest, self.examples = table, book, longest, examples
        book.going[:] = False
        self.next_ticket = first
        """The ticket that the next example will be given."""
        self._owner: dict[int, int] = {}  # row -> ticket
        self._take_turn = np.zeros(len(book.going), dtype=np.int64)  # counts how often a row was taken or left
        self._launched = np.zeros(len(book.going), dtype=np.int64)
        self._pending: deque[_Record] = deque()
        self._done: dict[int, list[Hypothesis] | Failure] = {}

    @classmethod
    def of(cls, model: Stepper, policy: Policy, *, rows: int, longest: int) -> Lane:
        """Create a lane with new rows for answers of at most `longest` tokens."""
        if isinstance(model, Replayable):
            table = StaticBatch(model, policy, rows=rows, longest=longest)
            return cls(table, policy.book([1] * rows, longest), longest=longest)
        return cls(DynamicBatch(model, policy), policy.book([1] * rows, longest), longest=longest)

    @property
    def free(self) -> int:
        """The number of free rows."""
        return len(self.book.going) - len(self._owner)

    @property
    def busy(self) -> bool:
        """True if any example is still being decoded."""
        return bool(self._owner)

    @torch.no_grad()
    def seat(self, group: Group) -> list[int]:
        """Read examples into free rows and return their tickets; if they cannot be read, nothing changes."""
        if len(group.limit) > self.free:
            raise ValueError(
                f"{len(group.limit)} examples for {self.free} free rows: seat fewer, or wait until some are done"
            )
        if max(group.limit, default=0) > self.longest:
            raise ValueError(
                f"an answer of {max(group.limit)} tokens where rows have room for {self.longest}: ask for less"
            )
        free_rows = [row for row in range(len(self.book.going)) if row not in self._owner][: len(group.limit)]
        rows, tickets = (
            np.array(free_rows, dtype=np.int64),
            [self.next_ticket + place for place in range(len(free_rows))],
        )
        if not free_rows:
            return []
        example_count = tickets[-1] + 1 if self.examples is None else self.examples
        new = Admission(rows, group.inputs, np.array(tickets), example_count, max(group.limit), group.noise)
        ranked = self.table.seat(new)  # raises if the model cannot read them
        self.next_ticket += len(free_rows)
        self._owner |= dict(zip(free_rows, tickets, strict=True))
        self._take_turn[rows] += 1
        self._launched[rows] = 1
        self.book.admit(rows, group.limit, group.beams)
        self._send(ranked, rows)
        return tickets

    @torch.no_grad()
    def advance(self, *, waiting: bool = False, meanwhile: Callable[[], bool] | None = None) -> None:
        """Decode one round of all rows, or several where the device runs ahead; `waiting` is True if examples wait.

        While the device is busy, `meanwhile` is called to do the caller's work piece by piece; it returns False if none
        is left. Where the device does not run ahead, all of that work is done.
        """
        book, lag = self.book, 0 if waiting else self.table.lag
        if not self.table.lag:
            self._process_rankings(0)
        steps = int(np.max((book.limit - self._launched)[book.going], initial=0))
        if steps > 0:
            ahead = min(self.table.span, (steps + 1) // 2)  # shorter towards the end, when nothing is left to overlap
            self._launched += ahead
            self._send(*self.table.run(ahead, book.going))
        while meanwhile is not None and not self.table.lag and meanwhile():
            pass
        self._process_rankings(
            lag if steps > 0 else 0, meanwhile
        )  # one record stays pending to overlap with the device
        going = book.going.tolist()
        finished_rows = [row for row in self._owner if not going[row]]
        for row, answers in zip(finished_rows, book.answers(np.array(finished_rows, dtype=np.int64)), strict=True):
            self._done[self._owner.pop(row)] = answers

    def leave(self, tickets: Sequence[int]) -> None:
        """Remove examples; their rows become free, and they return no answers."""
        for row in [row for row, ticket in self._owner.items() if ticket in set(tickets)]:
            del self._owner[row]
            self.book.going[row] = False
            self._take_turn[row] += 1
        for ticket in tickets:
            self._done.pop(ticket, None)

    def take_finished(self) -> dict[int, list[Hypothesis] | Failure]:
        """Return, by ticket, the answers of examples that finished since the last call, or why they have none."""
        answers, self._done = self._done, {}
        return answers

    def read(self, ticket: int) -> list[Hypothesis] | Failure:
        """Return the answers of an example, or its best hypotheses so far if it is still being decoded."""
        if ticket in self._done:
            return self._done[ticket]
        rows = [row for row, owner in self._owner.items() if owner == ticket]
        if not rows:
            raise KeyError(f"nobody with ticket {ticket} is seated: it was never given, or its answers were taken")
        return self.book.so_far(rows[0])

    def _send(self, numbers: Int[Tensor, "round row kind choice"], rows: Numbers) -> None:
        self._pending.append(_Record.of(numbers, rows, self._take_turn[rows]))

    def _process_rankings(self, lag: int, meanwhile: Callable[[], bool] | None = None) -> None:
        """Process the rankings that have reached the host, except for the latest `lag` records."""
        while len(self._pending) > lag:
            while meanwhile is not None and not self._pending[0].has_arrived() and meanwhile():
                pass
            for row in self._pending.popleft().tell(self.book, self._take_turn):
                self.book.going[row] = False
                self._done[self._owner.pop(row)] = NOT_NUMBERS


class _Record(NamedTuple):
    """The rankings of some rounds on their way to the host, with their rows and the turn of each row."""

    numbers: Int[Tensor, "round row kind choice"]
    rows: Numbers
    turn: Numbers
    arrived: torch.cuda.Event | None

    @classmethod
    def of(cls, numbers: Int[Tensor, "round row kind choice"], rows: Numbers, turn: Numbers) -> _Record:
        """Start copying rankings to the host."""
        if not numbers.is_cuda:
            return cls(numbers.clone(), rows, turn, None)
        here = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        here.copy_(numbers, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        return cls(here, rows, turn, arrived)

    def has_arrived(self) -> bool:
        """True if the copy is complete."""
        return self.arrived is None or self.arrived.query()

    def tell(self, book: HostState, turn: Numbers) -> list[int]:
        """Wait for the copy, pass its rounds to the host state, and return the rows whose scores are not numbers."""
        if self.arrived is not None:
            self.arrived.synchronize()
        numbers, rows = self.numbers.numpy()[:, : len(self.rows)], self.rows
        mine = self.turn == turn[rows]
        if not mine.all():
            numbers, rows = np.ascontiguousarray(numbers[:, mine]), rows[mine]
        beams, shape = book.beams, (len(rows), numbers.shape[-1])
        nothing, nowhere = np.zeros(shape, dtype=np.int64), np.zeros((len(rows), beams), dtype=bool)
        failed: list[int] = []
        for round_numbers in numbers:
            score = round_numbers[:, 0].view(np.float32)
            progress, stuck = (
                (round_numbers[:, 3], round_numbers[:, 4, :beams] > 0)
                if round_numbers.shape[1] > 3
                else (nothing, nowhere)
            )
            broken = _find_broken(score, stuck, book.going[rows])
            if broken is not None:
                failed += rows[broken].tolist()
                book.going[rows[broken]] = False
            book.record(rows, Round(score, round_numbers[:, 1], round_numbers[:, 2], progress, stuck))
        return failed


def _find_broken(score: Numbers, stuck: Numbers, going: Numbers) -> Numbers | None:
    """Return a mask of live rows whose scores are not numbers although they could go on; None if there are none."""
    best = score[:, 0]
    if np.isfinite(best).all() and not np.isnan(score).any():
        return None
    broken = going & (np.isnan(score).any(1) | (~np.isfinite(best) & ~stuck.any(1)))
    return broken if broken.any() else None
