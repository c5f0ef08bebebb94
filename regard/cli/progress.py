"""How far a long command is: a bar on a terminal, a plain line now and then elsewhere; both on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from regard.data.progress import LINE_SECONDS, Countdown


@contextmanager
def announce(what: str) -> Iterator[None]:
    """Say what is being done: at once on a terminal, elsewhere in a line if it takes long."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{what} ..."):
            yield
        return
    late = Timer(LINE_SECONDS, lambda: print(f"regard: {what} ...", file=sys.stderr, flush=True))
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()


class CountedProgress:
    """Progress through a known number of things; nothing is shown of what is done at once."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._countdown = Countdown(what)
        self._bar: Progress | None = None
        self._console = Console(stderr=True)

    def __enter__(self) -> CountedProgress:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show how many of how many are done."""
        if self._console.is_terminal:
            self._draw(done, total)
        elif (line := self._countdown.line(done, total, seconds=LINE_SECONDS)) is not None:
            print(f"regard: {line}", file=sys.stderr, flush=True)

    def _draw(self, done: int, total: int) -> None:
        if self._bar is None:
            if done >= total:
                return
            columns = BarColumn(), MofNCompleteColumn(), TextColumn(self.what), TimeRemainingColumn()
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)
