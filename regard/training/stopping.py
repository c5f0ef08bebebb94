"""Reasons to stop training before its last step."""

from __future__ import annotations

import signal
import threading
import types
from typing import Any


class Signals:
    """Turns the first SIGINT or SIGTERM into a request; the second one strikes as it always did."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python delivers none
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _ask(self, number: int, frame: types.FrameType | None) -> None:
        self.asked = True
        self.__exit__()


def improves(value: int | float | None, best: int | float | None, direction: str) -> bool:
    """Whether a score beats the best so far; one that is no number never does."""
    if value is None or value != value:
        return False
    return best is None or (value > best if direction == "max" else value < best)
