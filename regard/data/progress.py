"""How far long preparations are: counted where data is read, told to whoever listens, a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 10.0  # between two plain lines
Listener = Callable[[str, int, int], None]

_listeners: list[Listener] = []


@contextmanager
def report_to(hear: Listener) -> Iterator[None]:
    """Have every `report` told to this listener inside the block, those from other threads too."""
    _listeners.append(hear)
    try:
        yield
    finally:
        _listeners.remove(hear)


def report(what: str, count: int, total: int) -> None:
    """Tell the innermost listener, if there is any, how many of how many things are done."""
    if _listeners:
        _listeners[-1](what, count, total)


class Countdown:
    """Says now and then how many of how many things are done, and how long the others take."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._began = self._spoke = time.monotonic()

    def line(self, count: int, total: int, *, seconds: float | None = None) -> str | None:
        """Return a line if it is time for one; what is done at once has none."""
        now = time.monotonic()
        if not 0 < count < total or now - self._spoke < (LINE_SECONDS if seconds is None else seconds):
            return None
        self._spoke = now
        return f"{count:,} of {total:,} {self.what}, {(now - self._began) * (total - count) / count:,.0f} s left"
