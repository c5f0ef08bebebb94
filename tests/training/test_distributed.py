"""Several processes train as one would: the same numbers, the same faults, the same end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

from regard.tasks.rnn_lm.task import Language
from regard.tasks.translation.task import Translation
from regard.training import distributed
from regard.training.distributed import ALONE, Team
from tests.conftest import SMALL, Corpus

ROOT = Path(__file__).parent.parent.parent
TERM, INT = int(signal.SIGTERM), int(signal.SIGINT)
CLOSE = 1e-5
CASES = [
    ["plain", 2, 6],
    ["plain", 4, 6],  # two processes have one row, two have two
    ["dropout", 4, 3],  # one has none
    ["not a number", 2, 4],
    ["again and again", 2, 6],
    ["norms", 2, 5],
    ["norms", 3, 4],
]
SCENARIOS = {
    "equal": ["equal", {"cases": CASES}],
    "leap": ["leap", {}],
    "crowded": ["crowded", {}],
    "asked": ["asked", {"cases": [[2, 1, TERM, 1, 4], [3, 0, INT, 2]]}],
    "killed": ["lost", {"how": "is killed", "victim": 1}],
    "hung": ["lost", {"how": "hangs", "victim": 0}],
    "errors": ["errors", {"who": [[0, 1, 2], [2], [0]]}],
    "late": ["late", {}],
    "seconds": ["seconds", {}],
    "translate": ["translate", {}],
    "classify": ["classify", {}],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of all scenarios: once for all workers, in one process, for importing torch takes long."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    place, told = shared / "together", shared / "together.json"
    with FileLock(shared / "together.lock"):
        if not told.exists():
            for key in SCENARIOS:
                (place / key).mkdir(parents=True)
            calls = {key: [name, {"place": str(place / key), **given}] for key, (name, given) in SCENARIOS.items()}
            words = [sys.executable, "-m", "tests.training.together", json.dumps(calls)]
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=3600)
            assert done.returncode == 0, done.stderr
            told.write_text(done.stdout.splitlines()[-1])
    return json.loads(told.read_text())


def similar(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    """Whether the same was measured, but for the order in which numbers were added."""
    assert [record.keys() for record in found] == [record.keys() for record in expected]
    pairs = [(one[name], other[name]) for one, other in zip(found, expected, strict=True) for name in one]
    return all(abs(a - b) < CLOSE if isinstance(a, int | float) else a == b for a, b in pairs)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{name}, {size} of {rows}" for name, size, rows in CASES])
def test_any_number_of_processes_ends_with_the_same_numbers(number: int, found: dict[str, Any]) -> None:
    case = found["equal"][number]
    assert set(case["statuses"]) == {0}
    assert case["alike"], "processes ended with other weights, counts or faults than their fellows"
    assert case["difference"] < CLOSE
    assert similar(*case["measured"])
    for kind in ("noted", "health", "steps"):
        many, one = case[kind]
        assert many == one, kind
    assert case["left"] == []


def test_what_is_not_finite_on_one_process_stops_the_update_of_all(found: dict[str, Any]) -> None:
    twice, again = found["equal"][3], found["equal"][4]
    assert twice["health"][0]["skipped"] == 2
    assert any("row 21 (train.tsv:85" in line for line in twice["noted"][0]), "process 1 had that row"
    assert again["health"][0]["rolled_back"] > 0


def test_a_leap_on_one_process_is_not_learnt_from_by_any(found: dict[str, Any]) -> None:
    leap = found["leap"]
    assert leap["many"] == leap["one"]
    assert leap["many"]["faults"]["spikes"] == 1
    assert leap["difference"] < CLOSE


def test_a_process_out_of_memory_splits_its_rows_while_others_wait(found: dict[str, Any]) -> None:
    crowded = found["crowded"]
    assert crowded["statuses"] == [0, 0, 0]
    assert crowded["alike"]
    assert crowded["difference"] < CLOSE
    assert crowded["split"] == len(crowded["said"]) == 24, "process 1 has 2 of 6 rows in each of 12 steps"
    assert "row 1 (train.tsv:5" in crowded["said"][0]


def test_a_signal_to_one_stops_all_at_one_step_and_any_number_goes_on(found: dict[str, Any]) -> None:
    for case in found["asked"]:
        assert set(case["statuses"]) == {0}
        assert case["endings"] == ["ended 3 interrupted"]
        assert case["steps"] == [3]
        assert {status for statuses in case["resumed"] for status in statuses} == {0}
        assert case["difference"] < CLOSE


@pytest.mark.parametrize("how", ["killed", "hung"])
def test_when_one_is_lost_the_others_end_and_a_rerun_is_exact(how: str, found: dict[str, Any]) -> None:
    case = found[how]
    assert case["status"] == 1
    assert case["seconds"] < 40
    if how == "killed":
        assert case["said"][-1].startswith("error another process of this training ended or no longer answers")
    else:
        assert case["said"] == [], "process 0 speaks"
    assert case["resumed"] == [0, 0]
    assert case["difference"] == 0.0


def test_an_error_ends_all_and_is_said_once(found: dict[str, Any]) -> None:
    said = "error train.tsv: lies on a disk that is gone"
    everybody, last, first = found["errors"]
    assert [case["statuses"] for case in found["errors"]] == [[1, 1, 1]] * 3
    assert everybody["said"] == [[said], [], []]
    assert last["said"][1:] == [[], [said.replace("error ", "error process 2: ")]]
    assert last["said"][0][0].startswith("error another process of this training ended")
    assert first["said"] == [[said], [], []]


def test_an_error_is_said_once_even_if_somebody_comes_late(found: dict[str, Any]) -> None:
    assert found["late"]["statuses"] == [1, 1]
    assert found["late"]["said"] == [["error train.tsv: lies on a disk that is gone"], []]


def test_time_is_up_for_all_at_one_step(found: dict[str, Any]) -> None:
    assert found["seconds"]["statuses"] == [0, 0]
    (ending,) = found["seconds"]["endings"]
    assert ending.endswith(" seconds")


@pytest.mark.parametrize(("name", "made"), [("translate", "made pairs"), ("classify", "made labels")])
def test_a_recipe_gives_the_same_and_its_data_is_prepared_once(name: str, made: str, found: dict[str, Any]) -> None:
    case = found[name]
    assert case["statuses"] == [0, 0]
    assert made in case["made"][0]
    assert case["made"][1] == []
    assert len(case["endings"]) == 1
    assert similar(*case["measured"])
    if name == "classify":  # where a gradient is next to nothing adam makes much of how it was added up
        assert case["difference"] < CLOSE
    assert case["said once"] == 1


# What needs no company.


def test_alone_nothing_is_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with distributed.team() as team:
        assert team is ALONE
        loss = torch.tensor(3.0)
        assert team.all_reduce([], loss, 5) == (loss, 5)
        assert team.shard(range(4)) == range(4)
        assert team.gather({"a": 1}) == [{"a": 1}]
        assert team.agree(None) is None
        assert team.main_first(lambda: 7) == 7
        assert distributed.processes() == 1
    assert not torch.distributed.is_initialized()


def test_variables_of_another_scheduler_start_no_team(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    with distributed.team() as team:
        assert team is ALONE


def test_several_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"4 processes, 2 of them here: .* one machine"), distributed.team():
        pass


def test_rows_are_dealt_out_and_too_few_are_refused() -> None:
    shares = [list(Team(rank, 3).shard(range(10, 17))) for rank in range(3)]
    assert shares == [[10, 13, 16], [11, 14], [12, 15]]
    Team(0, 3).admit(Translation, "translation", 3)
    with pytest.raises(
        ValueError, match=r"training\.accumulate is 2, fewer than the 3 processes: set training\.accumulate=3"
    ):
        Team(0, 3).admit(Translation, "translation", 2)
    with pytest.raises(ValueError, match="language trains in one process"):
        Team(0, 3).admit(Language, "language", 3)
    ALONE.admit(Language, "language", 1)


@pytest.mark.parametrize("name", ["cuda:1", "mps"])
def test_a_device_is_not_shared(name: str) -> None:
    assert Team(1, 2).device(torch.device("cpu")) == torch.device("cpu")
    assert ALONE.device(torch.device(name)) == torch.device(name)
    with pytest.raises(ValueError, match=f"device {name} cannot be shared by 2 processes: use cuda or cpu"):
        Team(1, 2).device(torch.device(name))


def test_more_processes_than_gpus_are_refused() -> None:
    size = torch.cuda.device_count() + 2
    with pytest.raises(ValueError, match=r"processes need a GPU each, and this machine has \d"):
        Team(0, size).device(torch.device("cuda"))


# The command.


@pytest.mark.slow
def test_torchrun_trains_a_recipe(corpus: Corpus, tmp_path: Path) -> None:
    train = {"source": str(corpus.source), "target": str(corpus.target)}
    settings = {**SMALL, "data": {**SMALL["data"], "train": train}, "objective": {"eval_examples": 2}}
    settings["training"] = {"steps": 4, "accumulate": 2, "log_every": 1, "tensorboard": False}
    (tmp_path / "tiny.yaml").write_text(json.dumps(settings))
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    words += ["regard", "train", str(tmp_path / "tiny.yaml"), "--out", str(tmp_path / "run")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=3600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("4 steps, stopped by steps") == 1
    assert done.stderr.count("training ") == 1
    assert "2 rows a step among 2 processes" in done.stderr
    assert json.loads((tmp_path / "run" / "env.json").read_text())["processes"] == 2
    assert json.loads((tmp_path / "run" / "state.json").read_text())["state"] == "finished"
