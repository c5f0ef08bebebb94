"""Several benchmarks side by side on one machine, most urgent first, until a deadline.

    python -m benchmarks.together benchmarks/vision.yaml --seconds 1400 --room 12

The file lists jobs in the order of their urgency. Each has a name and a command; it may have a weight (1) and the names
of jobs that it comes after. As many run at a time as have `--room` together; one whose weight is the whole room runs
alone. What a job prints goes to LOGS/NAME.log, and LOGS/status.json says how each
ended: those that ended well are not run again, so that the same command continues after a stop.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

LAST = 60  # seconds before the deadline in which nothing new begins


@dataclass
class Job:
    """A command, and when it may run."""

    name: str
    run: str
    weight: int = 1
    after: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0

    def ready(self, done: dict[str, Any]) -> bool:
        """Whether all that it waits for is there."""
        return all(done.get(name, {}).get("code") == 0 for name in self.after)

    def start(self, logs: Path) -> None:
        """Run it beside this process; `python` is the one that runs this."""
        words = shlex.split(os.path.expandvars(self.run))
        command = [sys.executable if word == "python" else word for word in words[:1]] + words[1:]
        with (logs / f"{self.name}.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.began = time.monotonic()


def main() -> None:
    """Run what fits, write down how it ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=Path, help="a YAML file with a list of jobs")
    parser.add_argument("--only", nargs="*", help="names of jobs, all by default")
    parser.add_argument("--room", type=int, default=8, help="how much may run at a time, by weight")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="what runs after so long is ended")
    parser.add_argument("--logs", type=Path, default=Path("runs/together"))
    asked = parser.parse_args()
    listed = [Job(**one) for one in yaml.safe_load(asked.jobs.read_text(encoding="utf-8"))]
    asked.logs.mkdir(parents=True, exist_ok=True)
    told = asked.logs / "status.json"
    done: dict[str, Any] = json.loads(told.read_text()) if told.exists() else {}
    waiting = [one for one in listed if not asked.only or one.name in asked.only]
    waiting = [one for one in waiting if done.get(one.name, {}).get("code") != 0]
    carried_out(waiting, done, room=asked.room, end=time.monotonic() + asked.seconds, logs=asked.logs, told=told)
    for name, one in done.items():
        print(f"{name}: {'done' if one['code'] == 0 else one['code']}, {one['seconds']} s")


def carried_out(waiting: list[Job], done: dict[str, Any], *, room: int, end: float, logs: Path, told: Path) -> None:
    """Start jobs as room becomes free, until all are done or the time is over."""
    running: list[Job] = []
    while (waiting or running) and time.monotonic() < end:
        for job in [one for one in running if one.process is not None and one.process.poll() is not None]:
            running.remove(job)
            assert job.process is not None
            done[job.name] = {"code": job.process.returncode, "seconds": round(time.monotonic() - job.began)}
            told.write_text(json.dumps(done, indent=1) + "\n")
        ready = [one for one in waiting if one.ready(done)] if time.monotonic() < end - LAST else []
        for job in ready:
            free = room - sum(one.weight for one in running)
            if job.weight <= free or not running:
                job.start(logs)
                running.append(job)
                waiting.remove(job)
            elif job.weight >= room:
                break  # nothing passes one that waits to be alone
        if not running and not ready:
            break  # what is left waits for what will not come
        time.sleep(0.1)
    for job in running:
        assert job.process is not None
        job.process.terminate()
        job.process.wait()
        done[job.name] = {"code": "ended at the deadline", "seconds": round(time.monotonic() - job.began)}
    done |= {job.name: {"code": "not begun", "seconds": 0} for job in waiting}
    told.write_text(json.dumps(done, indent=1) + "\n")


if __name__ == "__main__":
    main()
