"""A first signal is a request that loses nothing, a second one strikes at once; and one folder has one trainer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Corpus

TERM, INT = int(signal.SIGTERM), int(signal.SIGINT)
ENDINGS = {TERM: {-TERM, 128 + TERM}, INT: {-INT, 128 + INT}}  # struck by the system, or by ourselves
FIRST = [["step", "briefly", [TERM]], ["evaluation", "waiting", [INT]], ["save", "briefly", [TERM]]]
SECOND = [
    ["step", "computing", [TERM, TERM]],
    ["step", "waiting", [INT, INT]],
    ["evaluation", "computing", [TERM, TERM]],
    ["save", "waiting", [INT, INT]],
]


def saved_and_left(case: list[Any], found: dict[str, Any]) -> None:
    """What the first signal should do."""
    print(case, found)
    assert found["status"] == 0
    assert found["lines"][-1] == "reason interrupted"
    assert found["steps"] == [3, 6], "the step under way should have been saved, and none after it"
    assert found["seconds"] < 30
    assert (found["resumed"], found["differing"], found["left"]) == (0, [], [])


def struck(case: list[Any], found: dict[str, Any]) -> None:
    """What the second signal should do."""
    print(case, found)
    assert found["status"] in ENDINGS[case[2][1]]
    assert found["seconds"] < 30
    assert found["steps"] == [3]
    assert found["intact"]
    assert (found["resumed"], found["differing"], found["left"]) == (0, [], [])


def refused(found: dict[str, Any]) -> None:
    """What should happen to those who train where another one does, and after that one was killed."""
    print(found)
    assert found["statuses"] == [0, 0]
    assert len(found["lines"]) == 2
    for line in found["lines"]:
        assert f"/run is in use by another training (process {found['pid']})" in line
    assert found["untouched"], "the refused changed something"
    assert found["held"] == [True, False]
    assert (found["resumed"], found["differing"]) == (0, [])


def test_a_signal_saves_a_second_one_strikes_and_a_second_trainer_is_refused(scenarios: Any) -> None:
    """In one process, for importing torch takes long."""
    calls = {"first": ["signals", {"cases": FIRST}], "second": ["signals", {"cases": SECOND}]}
    found = scenarios("stalling", **calls, trespass=["trespass", {}])
    for case, one in zip(FIRST, found["first"], strict=True):
        saved_and_left(case, one)
    for case, one in zip(SECOND, found["second"], strict=True):
        struck(case, one)
    refused(found["trespass"])


@pytest.mark.faults
def test_every_signal_is_heard_everywhere(scenarios: Any) -> None:
    first = [[where, "briefly", [number]] for where, number in product(("step", "save"), (TERM, INT))]
    first += [["evaluation", how, [number]] for how, number in product(("briefly", "waiting"), (TERM, INT))]
    pairs = ([TERM, TERM], [INT, INT], [TERM, INT], [INT, TERM])
    stuck = (("step", "waiting"), ("step", "computing"), ("evaluation", "computing"), ("save", "computing"))
    second = [[*place, pair] for place, pair in product(stuck, pairs)]
    answers = scenarios("stalling", all=["signals", {"cases": first + second}])["all"]
    for case, one in zip(first + second, answers, strict=True):
        (saved_and_left if len(case[2]) == 1 else struck)(case, one)


@pytest.mark.faults
@pytest.mark.parametrize("number", [TERM, INT])
def test_a_command_that_is_stopped_says_how_to_go_on(number: int, corpus: Corpus, tmp_path: Path) -> None:
    root, words = Path(__file__).parent.parent.parent, [sys.executable, "-m", "regard", "train"]
    shape = ["model.width=16", "model.heads=2", "model.encoder=1", "model.decoder=1", "training.log_every=1"]
    files = ["--source", str(corpus.source), "--target", str(corpus.target), "--out", str(tmp_path / "run")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": root, "env": environment}
    process = subprocess.Popen([*words, "training.steps=100000", *shape, *files], **pipes)
    log = tmp_path / "run" / "train.log"
    while not (log.exists() and "step 3 " in log.read_text()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(number)
    out, _ = process.communicate(timeout=3600)
    assert process.returncode == 128 + INT, "it was stopped, and says so"
    assert f"resume with: regard train --resume --out {tmp_path / 'run'}" in out
    (saved,) = [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()]
    steps = int(saved.removeprefix("step-")) + 1
    again = ["--resume", "--out", str(tmp_path / "run"), f"training.steps={steps}"]
    done = subprocess.run([*words, *again], **pipes, timeout=3600)
    assert done.returncode == 0, done.stderr
    assert f"resuming from {saved.replace('-', ' ')}" in log.read_text()
