"""Reasons to stop training before its last step."""

from __future__ import annotations

import os
import select
import signal
import threading
import types
from collections.abc import Callable
from typing import Any, TypeVar

NUMBERS = (signal.SIGINT, signal.SIGTERM)
GRACE = 1.0  # seconds in which a second signal may still end the process the ordinary way
Answer = TypeVar("Answer")


class Signals:
    """Turns the first SIGINT or SIGTERM into a request to stop; the second one has its usual effect.

    Python runs handlers only between two of its own instructions, so a thread ensures that a second signal ends the
    process even while the main thread is inside a long computation or waits for a disk that does not answer.
    """

    def __init__(self) -> None:
        self.asked = False
        self.number: int | None = None  # of the signal received
        self._initial_state: dict[signal.Signals, Any] = {}
        self._watcher: _Watcher | None = None
        self._attempting = False

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():  # other threads get no signals
            for number in NUMBERS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # an ignored signal stays ignored
                    self._initial_state[number] = signal.signal(number, self._ask)
            self._watcher = _Watcher()
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        if self._watcher is not None:
            self._watcher.dismiss()
            self._watcher = None

    def attempt(self, action: Callable[[], Answer]) -> Answer | None:
        """Return the result of an action that can be repeated later; None if a request came before or during it."""
        try:
            self._attempting = True
            if self.asked:
                return None
            answer = action()
            self._attempting = False
            return answer
        except _Requested:
            return None
        finally:
            self._attempting = False

    def _ask(self, number: int, frame: types.FrameType | None) -> None:
        self.asked, self.number = True, number
        self._restore()
        if self._attempting:
            self._attempting = False
            raise _Requested

    def _restore(self) -> None:
        for number, handler in self._initial_state.items():
            signal.signal(number, handler)
        self._initial_state.clear()


def improves(value: int | float | None, best: int | float | None, direction: str) -> bool:
    """True if a score beats the best so far; None and NaN never do."""
    if value is None or value != value:
        return False
    return best is None or (value > best if direction == "max" else value < best)


class _Requested(BaseException):
    """Raised to leave an attempt; a BaseException, so that no `except Exception` on the way catches it."""


class _Watcher:
    """A thread that reads the number of every signal at once, from the pipe to which Python's C handler writes it."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._initial_state = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def dismiss(self) -> None:
        signal.set_wakeup_fd(self._initial_state)
        os.write(self._write, b"\0")
        self._thread.join()
        os.close(self._read)
        os.close(self._write)

    def _watch(self) -> None:
        received: list[int] = []
        while True:
            patience = None if len(received) < 2 else GRACE if len(received) == 2 else 0.0
            ready, _, _ = select.select([self._read], [], [], patience)
            if not ready:
                os._exit(128 + received[-1])
            number = os.read(self._read, 1)[0]
            if number == 0:
                return
            received += [number] if number in NUMBERS else []
