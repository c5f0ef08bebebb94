"""Commands that start Ray, and the processes that belong to them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parent.parent.parent
SMALL = ROOT / "tests" / "checkpoints" / "format-1"
PATIENCE = 900.0  # seconds, on however busy a machine
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@contextmanager
def running(log: Path, *words: str) -> Iterator[subprocess.Popen]:
    """A command of Regard in a process of its own; whatever is left of it and of Ray is killed."""
    with log.open("wb") as file:
        command = [sys.executable, "-m", "regard", *words]
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=file, stderr=subprocess.STDOUT)
    family: list[psutil.Process] = []
    try:
        yield process
    finally:
        family = descendants(process)
        process.kill()
        process.wait()
        end(family)


def descendants(process: subprocess.Popen) -> list[psutil.Process]:
    """The processes that a command has started, and those that these have."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(process.pid).children(recursive=True)
    return []


def end(family: list[psutil.Process]) -> None:
    """Kill what is left of processes."""
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.kill()


def named(process: subprocess.Popen, name: str) -> list[psutil.Process]:
    """The processes of Ray that a command has started under a name, by age."""
    members = []
    for member in descendants(process):
        with suppress(psutil.NoSuchProcess):
            if " ".join(member.cmdline()).startswith(f"ray::{name}"):
                members.append(member)
    return sorted(members, key=lambda member: member.pid)


def wait_for(condition: Callable[[], Any], process: subprocess.Popen, log: Path) -> Any:
    """Wait until something is so, and return it; a command that ends meanwhile has failed."""
    begun = time.monotonic()
    while not (answer := condition()):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < begun + PATIENCE, f"waited in vain: {log.read_text()}"
        time.sleep(0.05)
    return answer


def wait_until_gone(family: list[psutil.Process]) -> None:
    """Wait until processes have ended."""
    _, alive = psutil.wait_procs(family, timeout=PATIENCE)
    assert not alive, alive
