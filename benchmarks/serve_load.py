"""The clients of the serving benchmark: requests of a plan, sent by locust, each with its time in milliseconds.

    REGARD_LOAD=plan.json locust -f benchmarks/serve_load.py --headless --host URL --users N --run-time 20s

The plan has `requests` (path, body and name each), which the clients take by turns, again from the beginning after the
end unless `once` is true; `probe`, a path that one more client asks for all the time, or null; and `out`, a file for
what happened: name, start, milliseconds and error of every request.
"""

from __future__ import annotations

import json
import os
from itertools import cycle
from pathlib import Path
from typing import Any

from locust import FastHttpUser, constant, events, task
from locust.exception import StopUser

PLAN = json.loads(Path(os.environ["REGARD_LOAD"]).read_text(encoding="utf-8"))
PROBE_PAUSE = 0.05  # seconds between two requests of the probe
pending = iter(PLAN["requests"]) if PLAN["once"] else cycle(PLAN["requests"])
records: list[tuple[str, float, float, str | None]] = []


class Client(FastHttpUser):
    """Sends one request after the other."""

    wait_time = constant(0)

    @task
    def send(self) -> None:
        """Send the next request of the plan; without one the run ends."""
        request = next(pending, None)
        if request is None:
            self.environment.runner.quit()
            raise StopUser
        self.client.post(request["path"], json=request["body"], name=request["name"])


if PLAN["probe"]:

    class Probe(FastHttpUser):
        """Asks all the time whether the server lives."""

        fixed_count = 1
        wait_time = constant(PROBE_PAUSE)

        @task
        def ask(self) -> None:
            """Ask once."""
            self.client.get(PLAN["probe"], name="probe")


@events.request.add_listener
def record(name: str, start_time: float, response_time: float, exception: Any = None, **_: Any) -> None:
    """Keep what happened to a request."""
    records.append((name, start_time, response_time, None if exception is None else str(exception)))


@events.quitting.add_listener
def save(**_: Any) -> None:
    """Write what happened."""
    Path(PLAN["out"]).write_text(json.dumps(records), encoding="utf-8")
