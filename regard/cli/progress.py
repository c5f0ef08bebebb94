"""Show the progress of a long command on stderr: a bar on a terminal, a plain line now and then elsewhere."""

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
    """Announce a slow piece of work: at once on a terminal, elsewhere in a line if it takes long."""
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
    """Progress through a known number of items; nothing is shown if all are done at once."""

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

    def __call__(self, count: int, total: int) -> None:
        """Show how many of the items are done."""
        if self._console.is_terminal:
            self._draw(count, total)
        elif (line := self._countdown.line(count, total, seconds=LINE_SECONDS)) is not None:
            print(f"regard: {line}", file=sys.stderr, flush=True)

    def _draw(self, count: int, total: int) -> None:
        if self._bar is None:
            if count >= total:
                return
            columns = BarColumn(), MofNCompleteColumn(), TextColumn(self.what), TimeRemainingColumn()
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=count)
