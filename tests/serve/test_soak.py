"""The soak in short: `make soak` sends 20,000 requests to a server of its own (S16)."""

from __future__ import annotations

import pytest

from tests.serve.soak import Report, soak

pytestmark = pytest.mark.unchecked


def test_requests_of_all_kinds_leave_nothing_behind(served):
    report = soak(served, 60, seed=3)
    assert not report.faults(60)
    assert report.statuses["200"] > 20
    assert report.statuses["left"]
    assert len(list(report.lines())) == 6


def test_what_grows_or_is_lost_is_found():
    growing = Report(seconds=1.0, descriptors=[10, 10], samples=[5], routes=2)
    growing.statuses["200"] = 20_000
    growing.memory = [(500 * number, 10**8 + 500 * number * 5000) for number in range(40)]
    assert growing.slope() == pytest.approx(5000)
    assert growing.faults(20_000) == ["memory grows by 5,000 bytes a request"]
    level = [(500 * number, 10**8 + number % 3 * 10**6) for number in range(40)]
    for change, word in (
        ({"descriptors": [10, 30]}, "descriptors"),
        ({"samples": [900]}, "/metrics"),
        ({}, "20001 requests were sent"),
    ):
        report = Report(
            **{"seconds": 1.0, "memory": level, "descriptors": [10, 10], "samples": [5], "routes": 2, **change}
        )
        report.statuses["200"] = 20_000
        [fault] = report.faults(20_000 if change else 20_001)
        assert word in fault
