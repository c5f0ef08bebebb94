"""Killed at any moment, also inside a save: nothing acknowledged is lost, and the end is the same to the bit."""

from __future__ import annotations

from typing import Any

import pytest

QUICK = {"translation": 2, "regression": 8}
LONG = {"translation": 150, "regression": 500}


@pytest.mark.unchecked
def test_a_run_killed_again_and_again_ends_as_if_it_had_not_been(scenarios: Any, seed: int) -> None:
    """At random moments, and by operations on the disk; in one process, for importing torch takes long."""
    print(f"REGARD_FAULT_SEED={seed}")
    calls = {name: ["kills", {"training": name, "count": count, "seed": seed}] for name, count in QUICK.items()}
    calls["short"] = ["operations", {"training": "short", "every": 15, "seed": seed}]
    found = scenarios("killing", **calls)
    print(found)
    assert [one["wrong"] for one in found.values()] == [[], [], []]
    assert {name: found[name]["kills"] for name in QUICK} == QUICK
    assert sum(found[name]["saves"] for name in QUICK) > 0, "no kill came inside a save: this tests too little"
    assert found["short"]["kills"] >= 6, "the run should have had more operations"


@pytest.mark.faults
@pytest.mark.parametrize("training", LONG)
def test_hundreds_of_kills_change_nothing(training: str, scenarios: Any, seed: int) -> None:
    arguments = {"training": training, "count": LONG[training], "seed": seed}
    found = scenarios("killing", kills=["kills", arguments])["kills"]
    print(f"REGARD_FAULT_SEED={seed}", found)
    assert found["wrong"] == []
    assert found["kills"] == LONG[training]
    assert found["saves"] >= found["kills"] / 10, "hardly a kill came inside a save: this tests too little"
    assert found["starts"] <= found["kills"] / 2, "hardly a kill came after the start: this tests too little"


@pytest.mark.faults
@pytest.mark.parametrize(("training", "every"), [("short", 1), ("translation", 3)])
def test_a_run_killed_by_any_operation_on_the_disk_ends_as_if_it_had_not_been(
    training: str, every: int, scenarios: Any, seed: int
) -> None:
    found = scenarios("killing", all=["operations", {"training": training, "every": every, "seed": seed}])["all"]
    print(f"REGARD_FAULT_SEED={seed}", found)
    assert found["wrong"] == []
    assert found["kills"] >= 100
