"""A task is done when its line is green: every one of them is trained, killed, resumed, shared, adapted, used, damaged.

The lines are in tests/tasks/every.py, what happens to them in tests/scenario.py.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from filelock import FileLock

from regard.cli import PANELS
from regard.tasks import FACES, TASKS
from tests.scenario import SHARED
from tests.tasks.every import ROOT, Line, lines
from tests.training.test_distributed import similar

WRITING = {"captions", "causal-lm", "language", "span-corruption", "text-to-text", "translation"}  # token by token

EXTRAS = {
    "causal-lm": {"stream", "workloads"},
    "gan": {"make"},
    "language": {"stream", "workloads"},
    "localisation": {"boxes"},
    "omics": {"draw_importance", "importance"},
    "pictures": {"anatomy", "judge", "look_again", "probe"},
    "pixels": {"draw", "gallery"},
    "remembering": {"picture", "sequences"},
    "text-to-text": {"alignments", "workloads"},
    "translation": {"alignments", "workloads"},
}  # of all models of a task, by name
REFUSED = {"matching": {"max_length"}}  # options of which no small number is valid
CLOSE = 1e-5  # numbers added up in another order


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of all tasks: once for all workers of a test run, in one process, for importing torch takes long."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    with FileLock(place / "scenario.lock"):
        if not (place / "scenario.json").exists():
            (place / "scenario").mkdir()
            words = [sys.executable, "-m", "tests.scenario", str(place / "scenario")]
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=3600)
            assert done.returncode == 0, done.stderr
            (place / "scenario.json").write_text(done.stdout.splitlines()[-1])
    return json.loads((place / "scenario.json").read_text())


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Line]:
    return lines(tmp_path_factory.mktemp("lines"))


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest) -> str:
    if request.param == "word2vec":
        pytest.importorskip("numba", reason="numba is not installed (pip install 'regard[words]')")
    return request.param


@pytest.fixture
def seen(task: str, told: dict[str, Any]) -> dict[str, Any]:
    """What became of one task."""
    assert "failed" not in told[task], told[task]["failed"]
    return told[task]


def test_a_run_killed_after_a_save_and_resumed_ends_with_the_same_bits(task: str, seen: dict[str, Any]) -> None:
    killed = seen["killed"]
    assert (killed["status"], killed["saved"]) == (-signal.SIGKILL, ["step-1"])
    weights = [name for name in killed["names"] if not name.startswith("best/") and name != "step"]
    assert len(weights) > len([name for name in killed["names"] if name.startswith("best/")]), "no optimizer"
    assert killed["differing"] == []
    assert killed["left"] == []
    resumed, whole = killed["measured"]
    assert resumed == whole
    assert {record["step"] for record in whole} == {1, 2}


def test_a_run_goes_on_from_a_model_of_its_task_with_all_it_had_learnt(task: str, seen: dict[str, Any]) -> None:
    [said] = seen["adapted"]["said"]
    assert f"{task}/whole/best" in said
    assert seen["adapted"]["names"]
    assert seen["adapted"]["apart"] == []


def test_a_model_of_another_task_gives_its_body_or_is_refused(
    task: str, seen: dict[str, Any], told: dict[str, Any], table: dict[str, Line]
) -> None:
    parents = seen["bodies"]
    assert parents.keys() == {other for other in TASKS if other != task and "failed" not in told[other]}
    for parent, outcome in parents.items():
        assert "failed" not in outcome, outcome["failed"]
        if parent in table[task].heads:
            [said] = outcome["said"]
            anew = table[task].heads[parent]
            assert said.endswith(f"tensors taken over, made anew: {anew}" if anew else "tensors taken over")
        else:
            assert "leave out --from" in outcome["refused"]
            assert "\n" not in outcome["refused"]


def test_several_processes_train_what_one_does_or_are_refused(task: str, seen: dict[str, Any]) -> None:
    if not TASKS[task].task.shared:
        [refused] = seen["shared"]
        assert refused["statuses"] == [1, 1]
        [[said], silent] = refused["said"]  # once, by process 0
        assert said.startswith(f"error {task} trains in one process")
        assert silent == []
        return
    assert [one["size"] for one in seen["shared"]] == list(SHARED.get(task, (2,)))
    for one in seen["shared"]:
        assert set(one["statuses"]) == {0}, one["said"]
        assert len({line for lines in one["said"] for line in lines}) == 1, "they end with other scores"
        assert one["difference"] < CLOSE
        assert similar(*one["measured"])


def test_a_trained_model_has_one_face_and_answers_as_if_it_had_never_been_killed(
    task: str, seen: dict[str, Any], table: dict[str, Line]
) -> None:
    assert all(seen["faces"])
    whole, resumed = seen["answers"]
    assert len(whole) == len(seen["plain"]) == len(table[task].inputs)
    assert whole == resumed
    assert all(isinstance(plain, dict) and plain for plain in seen["plain"])


def test_answers_are_the_same_when_somebody_else_writes_for_many_askers(task: str, seen: dict[str, Any]) -> None:
    assert all(answers == seen["answers"][0] for answers in seen["exchanged"])
    assert len(seen["exchanged"]) == (2 if task in WRITING else 1)


def test_answers_as_json_have_the_names_and_types_that_programs_rely_on(task: str, seen: dict[str, Any]) -> None:
    known = json.loads((ROOT / "tests" / "tasks" / "answer_types.json").read_text())[task]
    types = {name: ["absent"] for name in known} | seen["types"]
    assert types.keys() == known.keys()
    assert not {name: found for name, found in types.items() if not set(found) <= set(known[name])}


def test_a_trained_model_says_what_it_reads(task: str, seen: dict[str, Any], table: dict[str, Line]) -> None:
    described = seen["described"]
    assert described["example"]
    assert described["title"]
    assert described["schema"].keys() & {"type", "anyOf"}
    assert described["files"] == all(word.startswith("/") for text in table[task].inputs for word in text.split()[:1])


def test_every_extra_of_a_model_is_done_once_and_every_option_set_once(task: str, seen: dict[str, Any]) -> None:
    assert all("\n" not in outcome for outcome in seen["extras"].values()), "a refusal is one line"
    assert seen["extras"].keys() >= EXTRAS.get(task, set())
    refused = {name for name, count in seen["options"].items() if count != 1}
    assert refused == REFUSED.get(task, set()), seen["options"]


def test_a_trained_model_is_scored(task: str, seen: dict[str, Any]) -> None:
    assert seen["task"] == [task, task]
    assert seen["scores"]
    assert all(math.isfinite(score) for score in seen["scores"].values())


def test_a_checkpoint_has_a_card_that_says_how_to_use_it(task: str, seen: dict[str, Any]) -> None:
    title, *lines = seen["card"].splitlines()
    assert title.startswith("# ")
    [command] = [line for line in lines if line.startswith("Scores are in `metrics.json`. Use it with `regard ")]
    assert command.partition("`regard ")[2].split()[0] in {name for panel in PANELS.values() for name in panel}
    assert f'regard.load("DIRECTORY").{FACES[task].verb}' in seen["card"]
    assert "/tmp" not in seen["card"], "where data lies is nobody's business"


def test_a_model_shows_where_it_looks_or_says_that_it_does_not(
    task: str, seen: dict[str, Any], table: dict[str, Line]
) -> None:
    looked = seen["looked"]
    if table[task].looks:
        assert looked["weights"]
        assert looked["off"] < CLOSE, "weights of a query add up to one"
    else:
        assert "no attention" in looked["refused"]
        assert "\n" not in looked["refused"]


def test_one_wrong_bit_in_any_file_of_a_checkpoint_is_found(task: str, seen: dict[str, Any]) -> None:
    assert {"config.yaml", "model.safetensors", "manifest.json"} <= seen["damaged"].keys()
    for name, said in seen["damaged"].items():
        assert said is not None, name
        assert f"{name} is damaged" in said
        assert "\n" not in said


def test_a_task_without_a_line_is_not_done(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "prophecy", replace(TASKS["translation"], title="prophecies"))
    with pytest.raises(AssertionError, match=r"no line for prophecy: add one to tests/tasks/every\.py"):
        lines(tmp_path)
