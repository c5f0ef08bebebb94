"""Requests of any kind answered side by side: what can run together does, and one that fails harms no other.

    engine = Engine(model, eos=2, longest=200)
    tickets = engine.submit(requests)   they wait until there are rows for them
    engine.step()                       a round for everybody, or several where the device runs ahead
    engine.peek(ticket)                 the best so far
    engine.collect()                    the answers of those that are done, or why they have none
    engine.cancel(tickets)              their rows are free

An engine belongs to one thread. An answer does not depend on who else is there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decoding.batching import round_up
from regard.decoding.beam import Searching
from regard.decoding.generate import Drawing, seeded_noise
from regard.decoding.lane import Failure, Group, Lane
from regard.decoding.ledger import Beam
from regard.decoding.request import Request, Sampling, Score, stack_inputs
from regard.decoding.rules import Interner, RowDistributions, RowGoals, RowRules, Rules, has_goals
from regard.decoding.sampling import Distribution
from regard.decoding.stepper import Hypothesis, Measured, Replayable, Stepper
from regard.decoding.tables import Growing, Policy
from regard.decoding.teacher_forcing import TargetScorer

ROWS = 64  # requests of a kind that are decoded at the same time
TOGETHER = 16  # requests that are read at once, whoever else is being decoded
DELAY = 3  # rounds that a request waits at most for others to be read with, if there are rows for it
STEP, SIZE = 16, 64  # of which the tokens of a batch, and the room of a lane, are multiples on a device that replays
IDLE = 4  # lanes without work that are kept where making one takes long


class Engine:
    """A model that takes requests at any time; each is known by the ticket it was given."""

    def __init__(
        self,
        model: Stepper,
        *,
        eos: int | None,
        longest: int,
        rows: int = ROWS,
        source: int | None = None,
        prompt: int | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Prepare for answers of at most `longest` tokens to sources and prompts of these sizes, or of any.

        Inputs are brought to the device where the model runs, if it is named or the model knows it.
        """
        self.model, self.eos, self.longest, self.rows = model, -1 if eos is None else eos, longest, rows
        self.source, self.prompt = source, prompt
        self.device = model.device if isinstance(model, Replayable) else device
        self._tickets, self._round = count(), 0
        self._lanes: dict[Any, _Queue] = {}
        self._scores: dict[int, tuple[Request, TargetScorer | None]] = {}
        self._done: dict[int, Answers] = {}
        self._rules, self._distributions = Interner(), Interner()
        self._thread: int | None = None

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or being answered."""
        return bool(self._scores) or any(queue.busy for queue in self._lanes.values())

    @property
    def waiting(self) -> int:
        """Requests for which there were no rows yet."""
        return sum(len(queue.waiting) for queue in self._lanes.values())

    def submit(self, requests: Sequence[Request]) -> list[int]:
        """Take requests in; their tickets. If one does not fit, none is taken."""
        self._check_thread()
        for request in requests:
            self._check_size(request)
        queues = [None if isinstance(request.how, Score) else self._find_queue(request) for request in requests]
        tickets = [next(self._tickets) for _ in requests]
        for ticket, request, queue in zip(tickets, requests, queues, strict=True):
            if queue is None:
                self._scores[ticket] = request, None
            else:
                queue.waiting.append(_Waiting(ticket, request, self._round))
        return tickets

    def measure(self, request: Request) -> int | None:
        """Return how many bytes a request takes while it is answered; None if the model does not say."""
        if not isinstance(self.model, Measured):
            return None
        how = request.how
        beams = how.beams if isinstance(how, Beam) else how.samples if isinstance(how, Sampling) else len(how.targets)
        return self.model.row_bytes(beams=beams, written=request.limit, prompt=request.prompt, read=request.source)

    def step(self) -> None:
        """Read some of those that wait, and go a round on with everybody."""
        self._check_thread()
        self._round += 1
        for queue in list(self._lanes.values()):
            self._read_waiting(queue)
            if queue.lane.busy:
                queue.lane.advance(waiting=bool(queue.waiting))
            self._done |= queue.collect()
        self._advance_scores()
        self._drop_idle()

    def peek(self, ticket: int) -> Answers:
        """Return the answers of a request, or the best so far if it is not done; nothing while it waits."""
        self._check_thread()
        if ticket in self._done:
            return self._done[ticket]
        for queue in self._lanes.values():
            if ticket in queue.seats:
                return queue.lane.read(queue.seats[ticket])
        if ticket in self._scores or any(ticket == each.ticket for each in self._everyone_waiting()):
            return []
        raise KeyError(f"no request has ticket {ticket}: it was never given, or its answers were collected")

    def collect(self) -> dict[int, Answers]:
        """Return the answers of requests that are done since the last time, by ticket, or why they have none."""
        self._check_thread()
        done, self._done = self._done, {}
        return done

    def cancel(self, tickets: Sequence[int]) -> None:
        """Call requests off, wherever they are; nothing more is heard of them."""
        self._check_thread()
        for queue in self._lanes.values():
            queue.cancel(set(tickets))
        for ticket in tickets:
            self._scores.pop(ticket, None)
            self._done.pop(ticket, None)

    def stack(self, requests: Sequence[Request], step: int = 1, **sizes: Any) -> tuple[Tensor, ...]:
        """Return the inputs of requests as one batch where the model runs."""
        batch = stack_inputs(requests, step, **sizes)
        return batch if self.device is None else tuple(each.to(self.device, non_blocking=True) for each in batch)

    def _check_thread(self) -> None:
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        if thread != self._thread:
            raise RuntimeError("an engine belongs to the thread that used it first: hand requests over to that thread")

    def _check_size(self, request: Request) -> None:
        limits = (
            ("an answer", request.limit, self.longest),
            ("a source", request.source, self.source),
            ("a beginning", request.prompt, self.prompt),
        )
        for name, size, most in limits:
            if most is not None and size > most:
                raise ValueError(f"{name} of {size} tokens where there is room for {most}: give a shorter one")
        if has_goals(request.rules) and not isinstance(request.how, Beam):
            raise ValueError("forced phrases cannot be aimed at one token at a time: use a beam search")

    def _find_queue(self, request: Request) -> _Queue:
        """The lane for requests like this one, made if there is none."""
        fixed, how = isinstance(self.model, Replayable), request.how
        rules: Rules = self._rules.intern(request.rules)
        kind = id(rules) if fixed else (bool(rules) + has_goals(rules))
        sizes: Any = ()
        if fixed:  # memory is laid out once, for so much
            declared = self.prompt if self.source is None or not request.source else self.source
            sizes = declared or round_up(max(request.source, request.prompt), SIZE), request.shapes
        if isinstance(how, Beam):
            key: Any = "search", how.beams, kind, sizes
        else:
            assert isinstance(how, Sampling)
            key = "draw", how.samples, kind, sizes, how.warping if fixed else None
        if key not in self._lanes:
            self._lanes[key] = _Queue.of(self, request, rules, sizes[0] if sizes else 0)
        return self._lanes[key]

    def _read_waiting(self, queue: _Queue) -> None:
        """Seat those that wait, many together: reading them takes about as long as reading one."""
        while queue.waiting and queue.lane.free:
            soon = queue.waiting[0].since + DELAY > self._round
            if queue.lane.busy and soon and len(queue.waiting) < TOGETHER:
                return
            ready = min(queue.lane.free, len(queue.waiting), TOGETHER)
            group = [queue.waiting.popleft() for _ in range(ready)]
            for _, alike in groupby(group, key=lambda each: each.request.shapes):
                self._done |= queue.seat(list(alike), self._rules, self._distributions)

    def _everyone_waiting(self) -> Iterator[_Waiting]:
        for queue in self._lanes.values():
            yield from queue.waiting

    def _advance_scores(self) -> None:
        """Go a token on with all whose answers are given."""
        for ticket, (request, scorer) in list(self._scores.items()):
            assert isinstance(request.how, Score)
            try:
                if scorer is None:
                    scorer = TargetScorer(self.model, self.stack([request]), [request.how.targets])
                    self._scores[ticket] = request, scorer
                else:
                    scorer.advance()
            except Exception as reason:  # whatever a model refuses is the end of this request alone
                del self._scores[ticket]
                self._done[ticket] = Failure(str(reason))
                continue
            if scorer.done:
                del self._scores[ticket]
                [scores] = scorer.scores()
                self._done[ticket] = [_make_hypothesis(*each) for each in zip(request.how.targets, scores, strict=True)]

    def _drop_idle(self) -> None:
        """Let go of the memory of lanes that have no work; a device keeps a few, since making one takes long."""
        kept = IDLE if isinstance(self.model, Replayable) else 0
        idle = [key for key, queue in self._lanes.items() if not queue.busy]
        for key in idle[: max(0, len(idle) - kept)]:
            del self._lanes[key]
        if not self._lanes:
            self._rules, self._distributions = Interner(), Interner()


Answers = list[Hypothesis] | Failure


def _make_hypothesis(tokens: Sequence[int], scores: Sequence[float]) -> Hypothesis:
    """A given answer as if it had been written."""
    return Hypothesis(list(tokens), sum(scores), [], False, sum(scores))


class _Waiting(NamedTuple):
    """A request that has no row yet, and the round in which it came."""

    ticket: int
    request: Request
    since: int


class _Queue:
    """A lane, the requests that wait for its rows, and the settings of those that have some."""

    def __init__(self, engine: Engine, lane: Lane, policy: Policy, size: int) -> None:
        self.lane, self.policy, self.size = lane, policy, size
        self._stack = engine.stack
        self.waiting: deque[_Waiting] = deque()
        self.seats: dict[int, int] = {}  # ticket of the engine -> of the lane
        self._laid_out = False  # whether memory was laid out by the first that were read
        self.rules: RowRules | None = next((each for each in policy.constraints if isinstance(each, RowRules)), None)
        own = policy.pick if isinstance(policy, Drawing) else None
        self.distributions = own if isinstance(own, RowDistributions) else None

    @classmethod
    def of(cls, engine: Engine, request: Request, rules: Rules, size: int) -> _Queue:
        """A lane for requests like this one."""
        model, how, fixed = engine.model, request.how, isinstance(engine.model, Replayable)
        own: Rules = (RowGoals() if has_goals(rules) else RowRules(),) if rules else ()
        constraints = rules if fixed else own
        policy: Policy
        if isinstance(how, Beam):
            policy = Searching(how, engine.eos, constraints)
        else:
            assert isinstance(how, Sampling)
            policy = Drawing(how.samples, engine.eos, how if fixed else RowDistributions(), constraints)
        if fixed:
            lane = Lane.of(model, policy, rows=engine.rows, longest=engine.longest)
            return cls(engine, lane, policy, size)
        book = policy.book([1] * engine.rows, engine.longest)
        return cls(engine, Lane(Growing(model, policy), book, longest=engine.longest), policy, size)

    @property
    def busy(self) -> bool:
        """Whether anybody waits or is being answered."""
        return bool(self.waiting) or self.lane.busy

    def seat(self, group: Sequence[_Waiting], rules: Interner, distributions: Interner) -> dict[int, Answers]:
        """Read requests; those that cannot be read are failures. Only if reading fails is it done one by one."""
        number, requests = self.lane.next_ticket, [each.request for each in group]
        for place, request in enumerate(requests):
            if self.rules is not None:
                self.rules.rules[number + place] = rules.intern(request.rules)
            if self.distributions is not None:
                assert isinstance(request.how, Distribution)
                self.distributions.distributions[number + place] = distributions.intern(request.how)
        limits = [request.limit for request in requests]
        noise = seeded_noise(self.policy, limits, [request.seed for request in requests])
        beams = [request.how for request in requests if isinstance(request.how, Beam)]
        try:  # what lies in fixed rows is laid out by the first that are read, and replayed in few shapes
            step, least = (STEP if self.size else 1), (0 if self._laid_out else self.size)
            inputs = self._stack(requests, step, least=least, most=self.size or None)
            seats = self.lane.seat(Group(inputs, limits, noise, beams))
        except Exception as reason:  # whatever a model refuses is the end of that request alone
            self._forget(range(number, number + len(group)))
            if len(group) == 1:
                return {group[0].ticket: Failure(str(reason))}
            failed: dict[int, Answers] = {}
            for each in group:
                failed |= self.seat([each], rules, distributions)
            return failed
        self._laid_out = True
        self.seats |= dict(zip((each.ticket for each in group), seats, strict=True))
        return {}

    def collect(self) -> dict[int, Answers]:
        """Return the answers of those that are done."""
        done = self.lane.finished()
        tickets = {seat: ticket for ticket, seat in self.seats.items() if seat in done}
        for ticket in tickets.values():
            del self.seats[ticket]
        self._forget(done)
        return {tickets[seat]: answers for seat, answers in done.items()}

    def cancel(self, tickets: set[int]) -> None:
        """Free the rows of requests, and forget those that wait."""
        self.waiting = deque(each for each in self.waiting if each.ticket not in tickets)
        seats = [self.seats.pop(ticket) for ticket in tickets if ticket in self.seats]
        self.lane.leave(seats)
        self._forget(seats)

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self.rules is not None:
                self.rules.rules.pop(number, None)
            if self.distributions is not None:
                self.distributions.distributions.pop(number, None)
