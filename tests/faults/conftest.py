"""Faults are injected for real, by chance with a seed that is shown: REGARD_FAULT_SEED=7 replays what it did."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
Scenarios = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def seed() -> int:
    """What chance starts from; a failing test shows it."""
    return int(os.environ.get("REGARD_FAULT_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """Runs scenarios of a module in a process of their own, and returns their answers."""

    def run(module: str, *, within: Sequence[str] = (), **calls: Any) -> dict[str, Any]:
        given = {
            key: [name, {"place": str(tmp_path_factory.mktemp(key)), **arguments}]
            for key, (name, arguments) in calls.items()
        }
        words = [*within, sys.executable, "-m", f"tests.faults.{module}", json.dumps(given)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=3600)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
