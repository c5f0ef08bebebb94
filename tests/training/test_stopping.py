"""Reasons to stop."""

import os
import signal
import threading

import pytest

from regard.training.stopping import Signals, improves


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_request_and_the_second_strikes(number: signal.Signals) -> None:
    struck = []
    before = signal.signal(number, lambda *_: struck.append(True))
    try:
        with Signals() as signals:
            assert not signals.asked
            os.kill(os.getpid(), number)
            assert signals.asked
            assert not struck
            os.kill(os.getpid(), number)
            assert struck
    finally:
        signal.signal(number, before)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Signals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    asked = []

    def work() -> None:
        with Signals() as signals:
            asked.append(signals.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert asked == [False]


@pytest.mark.parametrize(
    ("value", "best", "direction", "answer"),
    [
        (1.0, None, "max", True),
        (1.0, 2.0, "max", False),
        (1.0, 2.0, "min", True),
        (2.0, 2.0, "max", False),
        (2.0, 2.0, "min", False),
        (float("nan"), None, "max", False),
        (None, 1.0, "min", False),
    ],
)
def test_only_a_better_number_improves(value: float, best: float, direction: str, answer: bool) -> None:
    assert improves(value, best, direction) is answer
