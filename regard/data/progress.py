"""Progress of long preparations: reported where data is read, passed to a listener, printed from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 10.0  # seconds between two plain lines
Listener = Callable[[str, int, int], None]

_listeners: list[Listener] = []


@contextmanager
def report_to(hear: Listener) -> Iterator[None]:
    """Pass every `report` inside the block to this listener, including those of other threads."""
    _listeners.append(hear)
    try:
        yield
    finally:
        _listeners.remove(hear)


def report(what: str, count: int, total: int) -> None:
    """Report to the innermost listener, if any, that `count` of `total` items are done."""
    if _listeners:
        _listeners[-1](what, count, total)


class Countdown:
    """Progress lines with an estimate of the remaining time."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._began = self._spoke = time.monotonic()

    def line(self, count: int, total: int, *, seconds: float | None = None) -> str | None:
        """Return a line if one is due; work that takes little time has none."""
        now = time.monotonic()
        if not 0 < count < total or now - self._spoke < (LINE_SECONDS if seconds is None else seconds):
            return None
        self._spoke = now
        return f"{count:,} of {total:,} {self.what}, {(now - self._began) * (total - count) / count:,.0f} s left"
