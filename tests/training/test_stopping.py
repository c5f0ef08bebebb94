"""Reasons to stop."""

import os
import signal
import threading
import time

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


def test_everything_is_put_back() -> None:
    before, threads = signal.getsignal(signal.SIGTERM), threading.active_count()
    with Signals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.set_wakeup_fd(-1) == -1
    assert threading.active_count() == threads


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            assert signals.asked
            assert signals.number == signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_attempt_ends_with_its_answer_or_at_a_request() -> None:
    def asking() -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
        return "too late"

    with Signals() as signals:
        assert signals.attempt(lambda: "done") == "done"
        with pytest.raises(KeyError):
            signals.attempt(lambda: {}["missing"])
        assert signals.attempt(asking) is None
        assert signals.asked
        assert signals.attempt(lambda: "not even tried") is None
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)  # outside of an attempt it is only heard
        assert signals.asked


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
