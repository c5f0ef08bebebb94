"""The decoding engine: decodes requests of any kind together; one that fails does not affect the others.

    engine = Engine(model, eos=2, longest=200)
    tickets = engine.submit(requests)   queue requests until there are rows for them
    engine.step()                       decode one round of all requests, or several where the device runs ahead
    engine.peek(ticket)                 return the best hypotheses so far
    engine.collect()                    return the answers of finished requests, or why they have none
    engine.cancel(tickets)              stop requests and free their rows

An engine belongs to one thread. An answer does not depend on the other requests.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, groupby
from typing import Any

import torch
from torch import Tensor

from regard.decoding.batching import round_up
from regard.decoding.lane import Failure
from regard.decoding.ledger import Beam
from regard.decoding.queues import Decoder, LaneQueue, SingleSearch, Waiting, WatchedSearch
from regard.decoding.request import Request, Sampling, Score, stack_inputs
from regard.decoding.rules import Interner, Rules, has_goals
from regard.decoding.stepper import Measured, Replayable, Stepper
from regard.decoding.target_scoring import Answers, MakeWatcher, PairScoring, TargetScoring
from regard.decoding.teacher_forcing import Teacher

ROWS = 64  # requests of one kind that are decoded at the same time
TOGETHER = 20  # requests whose inputs are read in one batch
DELAY = 5  # rounds that a request with a free row waits at most for others to be read with
SIZE = 64  # where graphs are replayed, the input length of a lane is a multiple of this
IDLE = 4  # idle lanes that are kept where creating one is slow


class Engine:
    """A decoding engine that accepts requests at any time; each is identified by its ticket."""

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
        watch: MakeWatcher | None = None,
    ) -> None:
        """Prepare for answers of at most `longest` tokens to sources and prompts of at most these sizes, or of any.

        Inputs are moved to the model's device if it is passed or the model knows it. `watch` creates the watcher that
        collects attention weights, of all attentions or of some, for requests that ask for them.
        """
        self.model, self.eos, self.longest, self.rows = model, -1 if eos is None else eos, longest, rows
        self.source, self.prompt = source, prompt
        self.device = model.device if isinstance(model, Replayable) else device
        self._decoder = Decoder(model, self.eos, longest, rows, self.stack)
        self._tickets, self._round = count(), 0
        self._lanes: dict[Any, LaneQueue] = {}
        self._single: dict[int, tuple[Request, SingleSearch | None]] = {}
        self._watch = watch
        self._pairs: PairScoring | None = None
        self._done: dict[int, Answers] = {}
        self._rules, self._distributions = Interner(), Interner()
        self._thread: int | None = None

    def use_teacher(self, teacher: Teacher) -> None:
        """Score targets with teacher forcing, in one pass over source and target instead of token by token."""
        self._pairs = PairScoring(teacher, self._watch)

    @property
    def busy(self) -> bool:
        """True if any request is waiting or being answered."""
        return bool(self._single or self._unscored_requests) or any(queue.busy for queue in self._lanes.values())

    @property
    def waiting(self) -> int:
        """The number of requests that wait for rows, or for a pass of the teacher."""
        return len(self._unscored_requests) + sum(len(queue.waiting) for queue in self._lanes.values())

    @property
    def size(self) -> int:
        """Requests that wait or are being answered."""
        seated = sum(len(queue.seats) for queue in self._lanes.values())
        return self.waiting + seated + len(self._single)

    @property
    def _unscored_requests(self) -> dict[int, Request]:
        """Requests that wait to be scored by the teacher."""
        return {} if self._pairs is None else self._pairs.waiting

    def submit(self, requests: Sequence[Request]) -> list[int]:
        """Queue requests and return their tickets; if one does not fit, none is queued."""
        self._check_thread()
        for request in requests:
            self._check_size(request)
        alone = [request.weights or isinstance(request.how, Score) for request in requests]
        queues = [
            None if apart else self._find_queue(candidate) for candidate, apart in zip(requests, alone, strict=True)
        ]
        tickets = [next(self._tickets) for _ in requests]
        for ticket, request, queue in zip(tickets, requests, queues, strict=True):
            if self._pairs is not None and isinstance(request.how, Score):
                self._pairs.waiting[ticket] = request
            elif queue is None:
                self._single[ticket] = request, None
            else:
                queue.waiting.append(Waiting(ticket, request, self._round))
        return tickets

    def measure(self, request: Request) -> int | None:
        """Return the bytes of memory that a request takes while it is answered; None if the model cannot tell."""
        if not isinstance(self.model, Measured):
            return None
        how = request.how
        beams = how.beams if isinstance(how, Beam) else how.samples if isinstance(how, Sampling) else len(how.targets)
        return self.model.row_bytes(beams=beams, written=request.longest, prompt=request.prompt, read=request.source)

    def step(self) -> None:
        """Start some of the waiting requests and decode one round of all active ones."""
        self._check_thread()
        self._round += 1
        for queue in list(self._lanes.values()):
            self._read_waiting(queue)
            if queue.lane.busy:
                queue.lane.advance(waiting=bool(queue.waiting))
            self._done |= queue.collect()
        if self._pairs is not None:
            self._done |= self._pairs.advance()
        self._advance_single()
        self._drop_idle()

    def peek(self, ticket: int) -> Answers:
        """Return the answers of a request, or its best hypotheses so far; an empty list while it waits."""
        self._check_thread()
        if ticket in self._done:
            return self._done[ticket]
        for queue in self._lanes.values():
            if ticket in queue.seats:
                return queue.lane.read(queue.seats[ticket])
        if ticket in self._single:
            search = self._single[ticket][1]
            return [] if search is None else search.peek()
        if ticket in self._unscored_requests or any(ticket == waiting.ticket for waiting in self._everyone_waiting()):
            return []
        raise KeyError(f"no request has ticket {ticket}: it was never given, or its answers were collected")

    def collect(self) -> dict[int, Answers]:
        """Return, by ticket, the answers of requests that finished since the last call, or why they have none."""
        self._check_thread()
        answers, self._done = self._done, {}
        return answers

    def cancel(self, tickets: Sequence[int]) -> None:
        """Cancel requests, whatever their state; they return no answers."""
        self._check_thread()
        for queue in self._lanes.values():
            queue.cancel(set(tickets))
        for ticket in tickets:
            self._single.pop(ticket, None)
            self._unscored_requests.pop(ticket, None)
            self._done.pop(ticket, None)

    def stack(self, requests: Sequence[Request], step: int = 1, **sizes: Any) -> tuple[Tensor, ...]:
        """Return the inputs of requests as one batch on the model's device."""
        batch = stack_inputs(requests, step, **sizes)
        return batch if self.device is None else tuple(tensor.to(self.device, non_blocking=True) for tensor in batch)

    def _check_thread(self) -> None:
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        if thread != self._thread:
            raise RuntimeError("an engine belongs to the thread that used it first: hand requests over to that thread")

    def _check_size(self, request: Request) -> None:
        limits = (
            ("an answer", request.longest, self.longest),
            ("a source", request.source, self.source),
            ("a beginning", request.prompt, self.prompt),
        )
        for name, size, most in limits:
            if most is not None and size > most:
                raise ValueError(f"{name} of {size} tokens where there is room for {most}: give a shorter one")
        if request.weights and self._watch is None:
            raise ValueError("this engine cannot tell where attention looked: make one with watch=")
        if has_goals(request.rules) and not isinstance(request.how, Beam):
            raise ValueError("forced phrases cannot be aimed at one token at a time: use a beam search")

    def _find_queue(self, request: Request) -> LaneQueue:
        """Return the lane queue for requests of this kind, created if there is none."""
        fixed, how = isinstance(self.model, Replayable), request.how
        rules: Rules = self._rules.intern(request.rules)
        kind = id(rules) if fixed else (bool(rules) + has_goals(rules))
        sizes: Any = ()
        if fixed:  # memory is allocated once, for inputs of this size
            declared = self.prompt if self.source is None or not request.source else self.source
            sizes = declared or round_up(max(request.source, request.prompt), SIZE), request.shapes
        if isinstance(how, Beam):
            key: Any = "search", how.beams, kind, sizes
        else:
            assert isinstance(how, Sampling)
            key = "draw", how.samples, kind, sizes, how.warping if fixed else None
        if key not in self._lanes:
            self._lanes[key] = LaneQueue.of(self._decoder, request, rules, sizes[0] if sizes else 0)
        return self._lanes[key]

    def _read_waiting(self, queue: LaneQueue) -> None:
        """Seat waiting requests in groups: reading many inputs takes about as long as reading one."""
        while queue.waiting and queue.lane.free:
            soon = queue.waiting[0].since + DELAY > self._round
            if queue.lane.busy and soon and len(queue.waiting) < TOGETHER:
                return
            ready = min(queue.lane.free, len(queue.waiting), TOGETHER)
            group = [queue.waiting.popleft() for _ in range(ready)]
            for _, alike in groupby(group, key=lambda waiting: waiting.request.shapes):
                self._done |= queue.seat(list(alike), self._rules, self._distributions)

    def _everyone_waiting(self) -> Iterator[Waiting]:
        for queue in self._lanes.values():
            yield from queue.waiting

    def _advance_single(self) -> None:
        """Advance the requests that share no lane: targets that are scored and searches that are watched."""
        for ticket, (request, search) in list(self._single.items()):
            try:
                if search is None:
                    search = self._start_single(request)
                    self._single[ticket] = request, search
                else:
                    search.advance()
            except Exception as reason:  # an error in the model ends this request only
                del self._single[ticket]
                self._done[ticket] = Failure(str(reason))
                continue
            if search.answers is not None:
                del self._single[ticket]
                self._done[ticket] = search.answers

    def _start_single(self, request: Request) -> SingleSearch:
        make_watcher = None
        if request.weights:
            assert self._watch is not None
            make_watcher = partial(self._watch, request.attention_names)
        if isinstance(request.how, Score):
            return TargetScoring(self.model, self.stack([request]), request.how, make_watcher)
        assert make_watcher is not None
        return WatchedSearch(self._decoder, request, make_watcher())

    def _drop_idle(self) -> None:
        """Free the memory of idle lanes; a few are kept where graphs are replayed, as creating one is slow."""
        keep = IDLE if isinstance(self.model, Replayable) else 0
        idle = [key for key, queue in self._lanes.items() if not queue.busy]
        for key in idle[: max(0, len(idle) - keep)]:
            del self._lanes[key]
        if not self._lanes:
            self._rules, self._distributions = Interner(), Interner()
