"""Checks of how far a model's pictures can be trusted: one at a time in a thread of its own, kept by the checkpoint.

A result belongs to the digest of the checkpoint, the version of the checks and what they were measured on; anything
else is measured anew. It is kept in memory, and in the cache folder where that can be written.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard import checkpoint
from regard.data.cache import cache_folder, key
from regard.serve.calls import client_message
from regard.serve.catalogue import ServedModel
from regard.serve.limits import Limits
from regard.serve.refusal import Refusal
from regard.serve.trust_jobs import Cancelled, TrustJob, make_job

KEPT = 64  # jobs, the oldest of which make room
WAITING = 8  # jobs that wait for another
FOLDER = "trust"


class TrustChecks:
    """The jobs of a server, and the results that are kept."""

    def __init__(self, limits: Limits, cache: Path | None = None) -> None:
        self.limits = limits
        self.cache = (cache or cache_folder()) / FOLDER
        self._jobs: OrderedDict[str, TrustJob] = OrderedDict()
        self._by_name: dict[str, TrustJob] = {}
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[TrustJob | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, model: ServedModel, to: Any = None, inputs: Sequence[Any] | None = None) -> TrustJob:
        """Return the job that checks a model: a finished or running one of the same checkpoint, or a new one."""
        job = make_job(model, self.limits, to, inputs)
        with self._lock:
            known = self._by_name.get(job.name)
            if known is not None and known.trained is model.trained and known.status not in ("cancelled", "failed"):
                return known
            open_jobs = sum(other.status in ("queued", "running") for other in self._jobs.values())
            if open_jobs >= WAITING:
                raise Refusal(429, "other checks are waiting: try again in 10 s", "overloaded", {"retry-after": "10"})
            results = read_results(self.cache / f"{job.name}.json", job.name)
            if results is not None:
                job.findings, job.gaps, job.status, job.done = (
                    results["findings"],
                    results["gaps"],
                    "finished",
                    job.total,
                )
            self._keep(job)
            if job.status == "queued":
                self._start()
                self._waiting.put(job)
        return job

    def find(self, identifier: str) -> TrustJob:
        """Return a job, or refuse."""
        job = self._jobs.get(identifier)
        if job is None:
            raise Refusal(404, "no such check, or no longer: begin it again", "not_found")
        return job

    def list_jobs(self, model: ServedModel, to: Any = None) -> list[TrustJob]:
        """Return the jobs of a model, into one language if it is named, the newest first."""
        jobs = [job for job in list(self._jobs.values()) if job.key == model.key]
        return [job for job in reversed(jobs) if to is None or job.to == to]

    def cancel(self, identifier: str) -> TrustJob:
        """Call a job off; it leaves off before its next reading."""
        job = self.find(identifier)
        job.is_cancelled = True
        if job.status == "queued":
            job.status, job.reason = "cancelled", "it was cancelled"
        return job

    def stop(self) -> None:
        """Call everything off, and end the thread."""
        for job in self._jobs.values():
            job.is_cancelled = True
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _keep(self, job: TrustJob) -> None:
        self._jobs[job.identifier] = self._by_name[job.name] = job
        ended = [entry for entry in self._jobs.values() if entry.status not in ("queued", "running")]
        for oldest in ended[: max(0, len(self._jobs) - KEPT)]:
            del self._jobs[oldest.identifier]
            if self._by_name.get(oldest.name) is oldest:
                del self._by_name[oldest.name]

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="regard-trust", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            if job.status == "queued":
                self._measure(job)

    def _measure(self, job: TrustJob) -> None:
        job.status, job.deadline = "running", time.monotonic() + job.seconds
        try:
            results = job.work(job).plain()
        except Cancelled as reason:
            job.reason = str(reason)
            job.status = "cancelled" if job.is_cancelled else "failed"
            return
        except Exception as error:  # nothing that goes wrong in one check may end the thread
            job.reason, job.status = client_message(error), "failed"
            return
        job.findings, job.gaps, job.done, job.status = results["findings"], results["gaps"], job.total, "finished"
        write_results(self.cache / f"{job.name}.json", job.name, results)


def read_results(path: Path, name: str) -> dict[str, Any] | None:
    """Return results that were written under this key; None if there are none, or they are damaged."""
    try:
        content = json.loads(path.read_bytes())
        results: dict[str, Any] = {"findings": content["findings"], "gaps": content["gaps"]}
        return results if content["name"] == name and content["digest"] == key(results=results) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_results(path: Path, name: str, results: dict[str, Any]) -> None:
    """Write results where the cache can be written; elsewhere memory has to do."""
    content = {"name": name, "digest": key(results=results), **results}
    with suppress(OSError, checkpoint.CheckpointError):
        checkpoint.replace(path, json.dumps(content, ensure_ascii=False).encode())
