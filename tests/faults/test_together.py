"""Several processes under torchrun: killed again and again, on any number of processes, and stopped by signals."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from regard import checkpoint
from regard.training.run import Run
from tests.conftest import SMALL, Corpus
from tests.faults.nursery import differing, weights

ROOT = Path(__file__).parent.parent.parent
KILLS = 4
STEPS = 60

pytestmark = pytest.mark.faults


class Torchrun:
    """A training that torchrun starts, and its processes."""

    def __init__(self, recipe: Path, out: Path, *words: str, size: int = 2, restarts: int = 0) -> None:
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
        start += [f"--max-restarts={restarts}", "-m", "regard", "train", str(recipe), "--out", str(out), "--resume"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
        self.process = subprocess.Popen([*start, *words], cwd=ROOT, **pipes)
        self.log = out / "train.log"

    def members(self) -> list[int]:
        """The processes that train, by rank."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def until(self, words: str, times: int = 1) -> None:
        """Wait until the log has said something so many times."""
        while not (self.log.exists() and self.log.read_text().count(words) >= times):
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)

    def end(self) -> tuple[int, str, str]:
        """The exit status and what was said."""
        out, err = self.process.communicate(timeout=3600)
        return self.process.returncode, out, err


@pytest.fixture
def recipe(corpus: Corpus, tmp_path: Path) -> Path:
    """A recipe that takes some seconds and saves often."""
    train = {"source": str(corpus.source), "target": str(corpus.target)}
    settings = {**SMALL, "data": {**SMALL["data"], "train": train}, "objective": {"eval_examples": 2}}
    settings["training"] = {
        "steps": STEPS,
        "accumulate": 4,
        "log_every": 1,
        "save_every": 5,
        "eval_every": 20,
        "tensorboard": False,
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(settings))
    return path


def losses(folder: Path) -> list[float]:
    """The loss of every step, as the log measured it."""
    lines = (json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] == "training"]


def whole(recipe: Path, folder: Path, *words: str, size: int = 2) -> Path:
    """A run that nobody disturbs."""
    status, _, err = Torchrun(recipe, folder, *words, size=size).end()
    assert status == 0, err
    return folder


def test_torchrun_starts_all_anew_when_one_is_killed_and_nothing_is_lost(
    recipe: Path, tmp_path: Path, seed: int
) -> None:
    print(f"REGARD_FAULT_SEED={seed}")
    chance, expected = random.Random(seed), weights(whole(recipe, tmp_path / "whole"))
    training = Torchrun(recipe, tmp_path / "run", restarts=KILLS)
    for number in range(KILLS):
        training.until(" parameters on ", times=number + 1)
        training.until(f"step {number * 7 + 2} ")
        time.sleep(chance.uniform(0, 0.3))
        os.kill(chance.choice(training.members()), signal.SIGKILL)
    status, _, err = training.end()
    assert status == 0, err
    assert (tmp_path / "run" / "train.log").read_text().count(" parameters on ") == KILLS + 1
    assert differing(weights(tmp_path / "run"), expected) == []


def test_a_run_goes_on_with_any_number_of_processes(recipe: Path, tmp_path: Path, seed: int) -> None:
    print(f"REGARD_FAULT_SEED={seed}")
    chance = random.Random(seed)
    plain = (
        "model.dropout=0",
        "optim.name=sgd",
        "optim.learning_rate=0.1",
    )  # adam magnifies rounding from step to step
    expected = losses(whole(recipe, tmp_path / "whole", *plain, size=1))
    for number in range(KILLS):
        training = Torchrun(recipe, tmp_path / "run", *plain, size=chance.choice((1, 2, 3, 4)))
        training.until(f"step {number * 7 + 2} ")
        os.kill(chance.choice(training.members()), signal.SIGKILL)
        assert training.end()[0] != 0
    found = losses(whole(recipe, tmp_path / "run", *plain, size=3))
    assert len(found) == len(expected) == STEPS
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 1e-5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("who", ["torchrun", "process 0", "process 1"])
def test_a_signal_stops_all_at_one_step_with_a_checkpoint(
    number: signal.Signals, who: str, recipe: Path, tmp_path: Path
) -> None:
    training = Torchrun(recipe, tmp_path / "run", "training.steps=100000", "training.save_every=100000")
    training.until("step 3 ")
    os.kill(training.process.pid if who == "torchrun" else training.members()[int(who[-1])], number)
    _, out, err = training.end()
    assert out.count("stopped by interrupted") == 1, err
    run = Run(tmp_path / "run")
    (step,) = run.steps()
    assert checkpoint.read(run.directory(step)).step == step
    assert json.loads((run.folder / "state.json").read_text())["state"] == "interrupted"
    shutil.copytree(run.folder, tmp_path / "again")
    finals = [
        weights(whole(recipe, folder, f"training.steps={step + 2}")) for folder in (run.folder, tmp_path / "again")
    ]
    assert differing(*finals) == []


def test_the_same_mistake_of_all_processes_is_said_once(recipe: Path, tmp_path: Path) -> None:
    for words, said in (
        (["optim.warmpu=3"], "unknown setting optim.warmpu, did you mean warmup?"),
        (["training.accumulate=1"], "training.accumulate is 1, fewer than the 2 processes"),
        (["data.train.source=nowhere.fr"], "no file nowhere.fr here"),
    ):
        status, _, err = Torchrun(recipe, tmp_path / "run", *words).end()
        assert status != 0
        assert err.count(f"regard: {said}") == err.count("regard: ") == 1, err
