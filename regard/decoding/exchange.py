"""Exchanges: generators that yield requests, are sent hypotheses, and return answers.

One engine serves many exchanges, each of which goes on as soon as its own requests are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, Protocol, TypeVar, runtime_checkable

from regard.config.words import quantity
from regard.decoding.engine import Engine
from regard.decoding.lane import Failure
from regard.decoding.request import Request
from regard.decoding.stepper import Hypothesis

Answer = TypeVar("Answer")
Exchange = Generator[list[Request], list[list[Hypothesis]], Answer]


def run_exchange(engine: Engine | None, exchange: Exchange[Answer]) -> Answer:
    """Run one exchange to its end and return its answer; without an engine it may not make requests."""
    if engine is None:
        return _run_alone(exchange)
    loop = ExchangeLoop(engine)
    number = loop.open(exchange)
    while loop.busy:
        loop.step()
    outcome = loop.collect()[number]
    if isinstance(outcome.error, Exception):
        raise outcome.error
    return outcome.answer  # type: ignore[no-any-return]


def _run_alone(exchange: Exchange[Answer]) -> Answer:
    try:
        requests = next(exchange)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    request_count = quantity(len(requests), "request")
    raise ValueError(f"{request_count} and no engine to answer: give one, as make_engine makes it")


@dataclass(frozen=True)
class Progress:
    """The progress of a request: its answers, or all hypotheses that may still become one."""

    hypotheses: Sequence[Hypothesis]
    is_done: bool = False

    @property
    def settled_tokens(self) -> list[int]:
        """The tokens that all hypotheses begin with, which no later step can change."""
        columns = zip(*(hypothesis.tokens for hypothesis in self.hypotheses), strict=False)
        return [column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns)]


@runtime_checkable
class TextStream(Protocol):
    """A text that an engine is generating: its exchange, and the beginning of it that is final so far."""

    def exchange(self) -> Exchange[Sequence[Any]]:
        """Return the exchange whose only answer is this text; to be called once."""

    def read(self, progress: Sequence[Progress]) -> str:
        """Return the beginning of the text that cannot change any more; `progress` is that of the current requests."""

    def text_of(self, answer: Any) -> str:
        """Return the whole text of the answer."""


@dataclass
class Outcome:
    """The outcome of an exchange: its answer, or the exception it raised."""

    answer: Any = None
    error: Exception | None = None


@dataclass
class _Open:
    """An exchange that waits for hypotheses, the tickets of its requests, and the hypotheses it has so far."""

    exchange: Exchange[Any]
    tickets: list[int]
    hypotheses: dict[int, list[Hypothesis]] = field(default_factory=dict)


class ExchangeLoop:
    """A loop that runs any number of exchanges over one engine, on the thread that owns the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._open: dict[int, _Open] = {}
        self._owners: dict[int, int] = {}  # ticket -> exchange
        self._outcomes: dict[int, Outcome] = {}
        self._opened = 0

    @property
    def busy(self) -> bool:
        """True if any exchange is open."""
        return bool(self._open)

    def open(self, exchange: Exchange[Any]) -> int:
        """Start an exchange and return its number."""
        number, self._opened = self._opened, self._opened + 1
        self._open[number] = _Open(exchange, [])
        self._go_on(number, lambda: next(exchange))
        return number

    def step(self) -> None:
        """Step the engine once, and resume every exchange whose requests are all answered."""
        self.engine.step()
        for ticket, hypotheses in self.engine.collect().items():
            number = self._owners.pop(ticket, None)
            if number is None:
                continue
            if isinstance(hypotheses, Failure):
                self._fail(number, FloatingPointError(hypotheses.reason))
                continue
            open_exchange = self._open[number]
            open_exchange.hypotheses[ticket] = hypotheses
            if len(open_exchange.hypotheses) == len(open_exchange.tickets):
                answered = [open_exchange.hypotheses[request_ticket] for request_ticket in open_exchange.tickets]
                self._go_on(number, partial(open_exchange.exchange.send, answered))

    def collect(self) -> dict[int, Outcome]:
        """Return, by number, the outcomes of exchanges that ended since the last call."""
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes

    def peek(self, number: int) -> list[Progress]:
        """Return the progress of each of the requests that an exchange waits for, in their order."""
        open_exchange = self._open[number]
        return [self._read_progress(ticket, open_exchange.hypotheses) for ticket in open_exchange.tickets]

    def _read_progress(self, ticket: int, answered: dict[int, list[Hypothesis]]) -> Progress:
        if ticket in answered:
            return Progress(answered[ticket], is_done=True)
        hypotheses = self.engine.peek(ticket)
        return Progress([] if isinstance(hypotheses, Failure) else hypotheses)

    def close(self) -> None:
        """Call all exchanges off."""
        for number in list(self._open):
            open_exchange = self._open.pop(number)
            open_exchange.exchange.close()

    def cancel(self, number: int) -> None:
        """Cancel an exchange; it has no outcome."""
        open_exchange = self._open.pop(number, None)
        if open_exchange is not None:
            self._call_off(open_exchange)
            open_exchange.exchange.close()
        self._outcomes.pop(number, None)

    def _fail(self, number: int, error: Exception) -> None:
        """Raise an error in an exchange whose request failed: it may make other requests, or answer all the same."""
        open_exchange = self._open[number]
        self._call_off(open_exchange)
        self._go_on(number, lambda: open_exchange.exchange.throw(error))

    def _go_on(self, number: int, resume: Callable[[], list[Request]]) -> None:
        """Resume an exchange and submit the requests it makes next, or store its outcome if it ends."""
        open_exchange = self._open[number]
        try:
            requests = resume()
            while not requests:
                requests = open_exchange.exchange.send([])
            open_exchange.tickets, open_exchange.hypotheses = self.engine.submit(requests), {}
            self._owners |= dict.fromkeys(open_exchange.tickets, number)
        except StopIteration as end:
            del self._open[number]
            self._outcomes[number] = Outcome(end.value)
        except Exception as reason:  # an error in the exchange or in a request ends this exchange only
            del self._open[number]
            self._outcomes[number] = Outcome(error=reason)

    def _call_off(self, open_exchange: _Open) -> None:
        self.engine.cancel([ticket for ticket in open_exchange.tickets if ticket not in open_exchange.hypotheses])
        for ticket in open_exchange.tickets:
            self._owners.pop(ticket, None)
