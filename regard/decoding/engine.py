"""The inner loop of everything that writes: examples are seated, all of them advance, and who is done leaves.

`search`, `generate` and `stream` are loops over it; a server seats, advances and reads between two steps of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.ledger import Book, Numbers, Round
from regard.decoding.stepper import Hypothesis, Replayable, Stepper
from regard.decoding.tables import Fixed, Growing, Policy, Seating, away, borrow

TOLD = 32  # answers that are passed on at a time while the device is busy
MOST_UNTOLD = 512  # answers that wait for the device to be busy


class Group(NamedTuple):
    """Examples that are read together: the model's inputs, how long each answer may become, and the noise of draws."""

    inputs: Sequence[Any]
    limit: Sequence[int]
    noise: Float[Tensor, "batch beam room"] | None = None


class Failure(NamedTuple):
    """Why an example has no answers; those beside it are not affected."""

    reason: str


NOT_NUMBERS = Failure("scores are not numbers: the model's weights are not finite, or its precision cannot hold them")


class BrokenScores(FloatingPointError):
    """Some of the examples of a search have no answers; those of all others were found and told."""

    def __init__(self, failed: Sequence[tuple[int, int]]) -> None:
        super().__init__(NOT_NUMBERS.reason)
        self.failed = list(failed)
        """The group and the place of each."""


class Engine:
    """So many rows in which examples are decoded together; each is known by the ticket it was given."""

    def __init__(
        self, table: Growing | Fixed, book: Book, *, longest: int, first: int = 0, examples: int | None = None
    ) -> None:
        self.table, self.book, self.longest, self.examples = table, book, longest, examples
        book.going[:] = False
        self._tickets = count(first)
        self._owner: dict[int, int] = {}  # row -> ticket
        self._turn = np.zeros(len(book.going), dtype=np.int64)  # how many had the row before
        self._launched = np.zeros(len(book.going), dtype=np.int64)
        self._pending: deque[_Record] = deque()
        self._done: dict[int, list[Hypothesis] | Failure] = {}

    @classmethod
    def of(cls, model: Stepper, policy: Policy, *, rows: int, longest: int) -> Engine:
        """An engine with rows of its own, for answers of at most `longest` tokens."""
        if isinstance(model, Replayable):
            table = Fixed(model, policy, rows=rows, longest=longest)
            return cls(table, policy.book([1] * rows, longest), longest=longest)
        return cls(Growing(model, policy), policy.book([1] * rows, longest), longest=longest)

    @property
    def free(self) -> int:
        """Rows that nobody has."""
        return len(self.book.going) - len(self._owner)

    @property
    def busy(self) -> bool:
        """Whether anybody is still being decoded."""
        return bool(self._owner)

    @torch.no_grad()
    def seat(self, group: Group) -> list[int]:
        """Read examples into free rows; their tickets. If they cannot be read, nobody is seated and nothing changes."""
        if len(group.limit) > self.free:
            raise ValueError(
                f"{len(group.limit)} examples for {self.free} free rows: seat fewer, or wait until some are done"
            )
        if max(group.limit, default=0) > self.longest:
            raise ValueError(
                f"an answer of {max(group.limit)} tokens where rows have room for {self.longest}: ask for less"
            )
        taken = [row for row in range(len(self.book.going)) if row not in self._owner][: len(group.limit)]
        rows, tickets = np.array(taken, dtype=np.int64), [next(self._tickets) for _ in taken]
        if not taken:
            return []
        known = tickets[-1] + 1 if self.examples is None else self.examples
        new = Seating(rows, group.inputs, np.array(tickets), known, max(group.limit), group.noise)
        ranked = self.table.seat(new)  # the model reads them, or refuses
        self._owner |= dict(zip(taken, tickets, strict=True))
        self._turn[rows] += 1
        self._launched[rows] = 1
        self.book.admit(rows, group.limit)
        self._send(ranked, rows)
        return tickets

    @torch.no_grad()
    def advance(self, *, waiting: bool = False, meanwhile: Callable[[], bool] | None = None) -> None:
        """A round for everybody, or several where the device runs ahead; `waiting` if somebody wants a row soon.

        The caller's work is done piece by piece while the device is busy: `meanwhile` does a piece, False if none is
        left. Where the device does not run ahead, all of it is done.
        """
        book, lag = self.book, 0 if waiting else self.table.lag
        if not self.table.lag:
            self._hear(0)
        steps = int(np.max((book.limit - self._launched)[book.going], initial=0))
        if steps > 0:
            ahead = min(self.table.span, (steps + 1) // 2)  # shorter towards the end, when nothing is left to overlap
            self._launched += ahead
            self._send(*self.table.run(ahead, book.going))
        while meanwhile is not None and not self.table.lag and meanwhile():
            pass
        self._hear(lag if steps > 0 else 0, meanwhile)  # one stays behind to overlap with the device
        going = book.going.tolist()
        done = [row for row in self._owner if not going[row]]
        for row, answers in zip(done, book.answers(np.array(done, dtype=np.int64)), strict=True):
            self._done[self._owner.pop(row)] = answers

    def leave(self, tickets: Sequence[int]) -> None:
        """Call examples off; their rows are free, and nothing more is heard of them."""
        for row in [row for row, ticket in self._owner.items() if ticket in set(tickets)]:
            del self._owner[row]
            self.book.going[row] = False
            self._turn[row] += 1
        for ticket in tickets:
            self._done.pop(ticket, None)

    def finished(self) -> dict[int, list[Hypothesis] | Failure]:
        """The answers of those that are done and were not asked for yet, by ticket, or why there are none."""
        done, self._done = self._done, {}
        return done

    def read(self, ticket: int) -> list[Hypothesis] | Failure:
        """What the host knows of an example: its answers, or the best so far of one that is still going."""
        if ticket in self._done:
            return self._done[ticket]
        rows = [row for row, owner in self._owner.items() if owner == ticket]
        if not rows:
            raise KeyError(f"nobody with ticket {ticket} is seated: it was never given, or its answers were taken")
        return self.book.so_far(rows[0])

    def _send(self, numbers: Int[Tensor, "round row kind choice"], rows: Numbers) -> None:
        self._pending.append(_Record.of(numbers, rows, self._turn[rows]))

    def _hear(self, lag: int, meanwhile: Callable[[], bool] | None = None) -> None:
        """Take in what was ranked, all but the latest few records."""
        while len(self._pending) > lag:
            while meanwhile is not None and not self._pending[0].has_arrived() and meanwhile():
                pass
            for row in self._pending.popleft().tell(self.book, self._turn):
                self.book.going[row] = False
                self._done[self._owner.pop(row)] = NOT_NUMBERS


class _Record(NamedTuple):
    """What some rounds ranked for some rows, on its way to the host, and whose turn it was in each of them."""

    numbers: Int[Tensor, "round row kind choice"]
    rows: Numbers
    turn: Numbers
    arrived: torch.cuda.Event | None

    @classmethod
    def of(cls, numbers: Int[Tensor, "round row kind choice"], rows: Numbers, turn: Numbers) -> _Record:
        """Send it."""
        if not numbers.is_cuda:
            return cls(numbers.clone(), rows, turn, None)
        here = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        here.copy_(numbers, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        return cls(here, rows, turn, arrived)

    def has_arrived(self) -> bool:
        """Whether taking it in would not wait."""
        return self.arrived is None or self.arrived.query()

    def tell(self, book: Book, turn: Numbers) -> list[int]:
        """Wait for it, and enter it round by round for those whose turn it still is; the rows without numbers."""
        if self.arrived is not None:
            self.arrived.synchronize()
        numbers, rows = self.numbers.numpy()[:, : len(self.rows)], self.rows
        mine = self.turn == turn[rows]
        if not mine.all():
            numbers, rows = np.ascontiguousarray(numbers[:, mine]), rows[mine]
        beams, shape = book.beams, (len(rows), numbers.shape[-1])
        nothing, nowhere = np.zeros(shape, dtype=np.int64), np.zeros((len(rows), beams), dtype=bool)
        failed: list[int] = []
        for each in numbers:
            score = each[:, 0].view(np.float32)
            progress, stuck = (each[:, 3], each[:, 4, :beams] > 0) if each.shape[1] > 3 else (nothing, nowhere)
            broken = _find_broken(score, stuck, book.going[rows])
            if broken is not None:
                failed += rows[broken].tolist()
                book.going[rows[broken]] = False
            book.record(rows, Round(score, each[:, 1], each[:, 2], progress, stuck))
        return failed


def _find_broken(score: Numbers, stuck: Numbers, going: Numbers) -> Numbers | None:
    """Which rows that are still going have scores that are not numbers though something may follow; None if none."""
    best = score[:, 0]
    if np.isfinite(best).all() and not np.isnan(score).any():
        return None
    broken = going & (np.isnan(score).any(1) | (~np.isfinite(best) & ~stuck.any(1)))
    return broken if broken.any() else None


class Finished(NamedTuple):
    """The answers to one example: which group it was in, and at which place."""

    group: int
    place: int
    hypotheses: list[Hypothesis]


def stream(
    model: Stepper,
    groups: Sequence[Group],
    policy: Policy,
    *,
    rows: int | None = None,
    hear: Callable[[Sequence[Finished]], None] | None = None,
) -> list[list[list[Hypothesis]]]:
    """The answers to each group's examples; where states are fixed, `rows` at a time, the widest group first.

    With states that grow, one group follows the other. `hear` is told of answers as soon as they are finished. Scores
    that are not numbers are an error in the end, when all other examples of their group are done.
    """
    found: list[list[list[Hypothesis]]] = [[[] for _ in group.limit] for group in groups]
    examples = sum(len(group.limit) for group in groups)
    if not examples:
        return found
    if not isinstance(model, Replayable):
        first = 0
        for number, group in enumerate(groups):
            growing, longest = Growing(model, policy), max(group.limit, default=1)
            engine = Engine(growing, policy.book(group.limit), longest=longest, first=first, examples=examples)
            found[number], first = _serve(engine, [group], hear, number)[0], first + len(group.limit)
        return found
    most = max([rows or 1, *(len(group.limit) for group in groups)])
    longest = max(max(group.limit) for group in groups if group.limit)
    widths = tuple(int(np.prod(each.shape[1:])) for each in groups[0].inputs)
    table = borrow(model, policy, rows=most, longest=longest, widths=widths)
    with table.lock:
        book = policy.book([1] * table.rows, table.longest)
        return _serve(Engine(table, book, longest=table.longest, examples=examples), groups, hear)


@contextmanager
def seated(model: Stepper, group: Group, policy: Policy) -> Iterator[Engine]:
    """An engine in which one group sits, for whoever advances it; left in the middle, it leaves nothing behind."""
    rows, longest = len(group.limit), max(group.limit)
    if not isinstance(model, Replayable):
        engine = Engine.of(model, policy, rows=rows, longest=longest)
        engine.seat(group)
        yield engine
        return
    widths = tuple(int(np.prod(each.shape[1:])) for each in group.inputs)
    with away(model, policy, rows=rows, longest=longest, widths=widths) as table:
        engine = Engine(table, policy.book([1] * table.rows, table.longest), longest=table.longest)
        engine.seat(group)
        yield engine


def _serve(
    engine: Engine, groups: Sequence[Group], hear: Callable[[Sequence[Finished]], None] | None = None, first: int = 0
) -> list[list[list[Hypothesis]]]:
    """Seat the groups, numbered from `first`, as rows become free, and collect the answers of who is done."""
    found: list[list[list[Hypothesis]]] = [[[] for _ in group.limit] for group in groups]
    places: dict[int, tuple[int, int]] = {}
    waiting = deque(enumerate(groups))
    unheard: deque[Finished] = deque()
    failed: list[tuple[int, int]] = []

    def pass_on() -> bool:
        """Tell of some answers; False if there are none to tell of."""
        some = [unheard.popleft() for _ in range(min(TOLD, len(unheard)))]
        if hear is not None and some:
            hear(some)
        return bool(some)

    while waiting or engine.busy:
        while waiting and len(waiting[0][1].limit) <= engine.free:
            number, group = waiting.popleft()
            places |= {ticket: (number, place) for place, ticket in enumerate(engine.seat(group))}
        engine.advance(waiting=bool(waiting), meanwhile=pass_on)
        while len(unheard) > MOST_UNTOLD:
            pass_on()
        for ticket, answers in engine.finished().items():
            number, place = places.pop(ticket)
            if isinstance(answers, Failure):
                failed.append((first + number, place))
                continue
            found[number][place] = answers
            unheard.append(Finished(first + number, place, answers))
    while pass_on():
        pass
    if failed:
        raise BrokenScores(failed)
    return found
