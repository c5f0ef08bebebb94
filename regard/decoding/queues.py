"""Parts of an engine: lanes with the requests that wait for their rows, and searches whose attention is watched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from torch import Tensor

from regard.decoding.beam import SearchPolicy
from regard.decoding.constraints import Constraint
from regard.decoding.generate import SamplingPolicy, seeded_noise
from regard.decoding.lane import Failure, Group, Lane
from regard.decoding.ledger import Beam
from regard.decoding.request import How, Request, Sampling
from regard.decoding.rules import Interner, RowDistributions, RowGoals, RowRules, Rules, has_goals
from regard.decoding.sampling import Distribution
from regard.decoding.stepper import Hypothesis, Replayable, Stepper, Watcher
from regard.decoding.tables import DynamicBatch
from regard.decoding.target_scoring import Answers

STEP = 16  # where graphs are replayed, the input length of a batch is a multiple of this


class Decoder(NamedTuple):
    """Settings shared by all lanes of an engine."""

    model: Stepper
    eos: int
    longest: int
    rows: int
    stack: Callable[..., tuple[Tensor, ...]]
    """Collates the inputs of requests to a batch."""


def make_policy(
    how: How, eos: int, rules: Sequence[Constraint], distributions: RowDistributions | None = None
) -> SearchPolicy | SamplingPolicy:
    """Return the decoding policy; samples are drawn from one distribution unless rows have their own."""
    if isinstance(how, Beam):
        return SearchPolicy(how, eos, tuple(rules))
    assert isinstance(how, Sampling)
    return SamplingPolicy(how.samples, eos, how if distributions is None else distributions, tuple(rules))


class SingleSearch(Protocol):
    """The search for one request that shares no lane with others."""

    answers: Answers | None
    """The answers; None until the search is finished."""

    def advance(self) -> None:
        """Advance by one round."""

    def peek(self) -> Answers:
        """Return the best answers so far."""


class WatchedSearch:
    """The search for one request while the attention weights of the model are collected."""

    def __init__(self, decoder: Decoder, request: Request, watcher: Watcher) -> None:
        self.watcher, policy = watcher, make_policy(request.how, decoder.eos, request.rules)
        book = policy.book([1], decoder.longest)
        self.lane = Lane(DynamicBatch(watcher.model, policy), book, longest=decoder.longest)
        self.answers: Answers | None = None
        noise = seeded_noise(policy, [request.limit], [request.seed])
        beams = [request.how] if isinstance(request.how, Beam) else []
        with watcher.collect():
            self.lane.seat(Group(decoder.stack([request]), [request.limit], noise, beams))

    def advance(self) -> None:
        """Advance by one round."""
        with self.watcher.collect():
            self.lane.advance()
        for answers in self.lane.take_finished().values():
            self.answers = (
                answers if isinstance(answers, Failure) else [self._with_weights(hypothesis) for hypothesis in answers]
            )

    def peek(self) -> Answers:
        """Return the best answers so far, without attention weights."""
        return self.lane.read(0)

    def _with_weights(self, hypothesis: Hypothesis) -> Hypothesis:
        return replace(hypothesis, weights=self.watcher.weights(hypothesis))


class Waiting(NamedTuple):
    """A request that has no row yet, with its ticket and the round in which it was submitted."""

    ticket: int
    request: Request
    since: int


class LaneQueue:
    """A lane, the requests that wait for its rows, and the settings of the requests in its rows."""

    def __init__(self, decoder: Decoder, lane: Lane, policy: SearchPolicy | SamplingPolicy, size: int) -> None:
        self.lane, self.policy, self.size = lane, policy, size
        self._stack = decoder.stack
        self.waiting: deque[Waiting] = deque()
        self.seats: dict[int, int] = {}  # engine ticket -> lane ticket
        self._laid_out = False  # True once the first requests were read, which lay out the memory
        self.rules: RowRules | None = next(
            (constraint for constraint in policy.constraints if isinstance(constraint, RowRules)), None
        )
        pick = policy.pick if isinstance(policy, SamplingPolicy) else None
        self.distributions = pick if isinstance(pick, RowDistributions) else None

    @classmethod
    def of(cls, decoder: Decoder, request: Request, rules: Rules, size: int) -> LaneQueue:
        """Create a lane for requests like this one."""
        model, how, fixed = decoder.model, request.how, isinstance(decoder.model, Replayable)
        row_rules: Rules = (RowGoals() if has_goals(rules) else RowRules(),) if rules else ()
        constraints = rules if fixed else row_rules
        policy = make_policy(how, decoder.eos, constraints, None if fixed else RowDistributions())
        if fixed:
            lane = Lane.of(model, policy, rows=decoder.rows, longest=decoder.longest)
            return cls(decoder, lane, policy, size)
        book = policy.book([1] * decoder.rows, decoder.longest)
        return cls(decoder, Lane(DynamicBatch(model, policy), book, longest=decoder.longest), policy, size)

    @property
    def busy(self) -> bool:
        """True if any request is waiting or being answered."""
        return bool(self.waiting) or self.lane.busy

    def seat(self, group: Sequence[Waiting], rules: Interner, distributions: Interner) -> dict[int, Answers]:
        """Read requests and return those that failed; if they cannot be read together, each is read alone."""
        number, requests = self.lane.next_ticket, [waiting.request for waiting in group]
        for place, request in enumerate(requests):
            if self.rules is not None:
                self.rules.rules[number + place] = rules.intern(request.rules)
            if self.distributions is not None:
                assert isinstance(request.how, Distribution)
                self.distributions.distributions[number + place] = distributions.intern(request.how)
        limits = [request.limit for request in requests]
        noise = seeded_noise(self.policy, limits, [request.seed for request in requests])
        beams = [request.how for request in requests if isinstance(request.how, Beam)]
        try:  # the first requests lay out the memory of fixed rows; few input shapes need few graphs
            step, least = (STEP if self.size else 1), (0 if self._laid_out else self.size)
            inputs = self._stack(requests, step, least=least, most=self.size or None)
            seats = self.lane.seat(Group(inputs, limits, noise, beams))
        except Exception as reason:  # an error in the model ends that request only
            self._forget(range(number, number + len(group)))
            if len(group) == 1:
                return {group[0].ticket: Failure(str(reason))}
            failed: dict[int, Answers] = {}
            for waiting in group:
                failed |= self.seat([waiting], rules, distributions)
            return failed
        self._laid_out = True
        self.seats |= dict(zip((waiting.ticket for waiting in group), seats, strict=True))
        return {}

    def collect(self) -> dict[int, Answers]:
        """Return the answers of requests that are done, by ticket."""
        finished = self.lane.take_finished()
        tickets = {seat: ticket for ticket, seat in self.seats.items() if seat in finished}
        for ticket in tickets.values():
            del self.seats[ticket]
        self._forget(finished)
        return {tickets[seat]: answers for seat, answers in finished.items()}

    def cancel(self, tickets: set[int]) -> None:
        """Free the rows of these requests, or remove them from the queue."""
        self.waiting = deque(waiting for waiting in self.waiting if waiting.ticket not in tickets)
        seats = [self.seats.pop(ticket) for ticket in tickets if ticket in self.seats]
        self.lane.leave(seats)
        self._forget(seats)

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self.rules is not None:
                self.rules.rules.pop(number, None)
            if self.distributions is not None:
                self.distributions.distributions.pop(number, None)
