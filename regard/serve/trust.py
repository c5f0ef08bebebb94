"""Checks of how far a model's pictures can be trusted: one at a time in a thread of its own, kept by the checkpoint.

A result belongs to the digest of the checkpoint, the version of the checks and what they were measured on; anything
else is measured anew. It is kept in memory, and in the cache folder where that can be written.
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard import __version__, checkpoint, shipped
from regard.data.cache import cache_folder, key
from regard.interpret.measure import trust
from regard.interpret.measure.map_checks import MapExamples
from regard.metrics import alignment
from regard.serve.calls import client_message
from regard.serve.catalogue import ServedModel, read_version
from regard.serve.limits import Limits
from regard.serve.refusal import Refusal
from regard.tasks.trained import copy_sharing_weights

LANGUAGES = ("en", "fr")
"""Of the pairs aligned by hand that come with Regard."""
KEPT = 64  # jobs, the oldest of which make room
WAITING = 8  # jobs that wait for another
FOLDER = "trust"


class Cancelled(Exception):
    """Raised inside a measurement that was called off, or took too long."""


@dataclass
class TrustJob:
    """One measurement: what it is of, how far it is, and what was found."""

    model: str
    key: str
    """Of the model in the catalogue."""
    trained: Any = field(repr=False)
    """The version of the model that is checked."""
    digest: str
    work: Callable[[Callable[[int], None]], list[dict[str, Any]]]
    total: int
    name: str
    """The key of what it measures."""
    seconds: float
    identifier: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    status: str = "queued"
    done: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""
    is_cancelled: bool = False
    deadline: float = 0.0
    to: str | None = None
    """The language into which a translator is checked."""

    def tell(self, count: int) -> None:
        """Count what is about to be done, and leave off if that is wanted."""
        if self.is_cancelled:
            raise Cancelled("it was cancelled")
        if time.monotonic() > self.deadline:
            raise Cancelled(f"it took longer than {self.seconds:g} s: allow more with -s trust_seconds")
        self.done = min(self.total, self.done + count)

    def plain(self) -> dict[str, Any]:
        """Return how the job stands, as JSON."""
        return {
            "id": self.identifier,
            "model": self.model,
            "digest": self.digest,
            "status": self.status,
            "done": self.done,
            "total": self.total,
            "findings": self.findings,
            "reason": self.reason,
        }


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

    def submit(self, model: ServedModel, to: Any = None, pictures: Sequence[Any] | None = None) -> TrustJob:
        """Return the job that checks a model: a finished or running one of the same checkpoint, or a new one."""
        digest = digest_of(model)
        job = self._make_job(model, digest, to, pictures)
        with self._lock:
            known = self._by_name.get(job.name)
            if known is not None and known.trained is model.trained and known.status not in ("cancelled", "failed"):
                return known
            open_jobs = sum(other.status in ("queued", "running") for other in self._jobs.values())
            if open_jobs >= WAITING:
                raise Refusal(429, "other checks are waiting: try again in 10 s", "overloaded", {"retry-after": "10"})
            findings = read_findings(self.cache / f"{job.name}.json", job.name)
            if findings is not None:
                job.findings, job.status, job.done = findings, "finished", job.total
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
            findings = job.work(job.tell)
        except Cancelled as reason:
            job.reason = str(reason)
            job.status = "cancelled" if job.is_cancelled else "failed"
            return
        except Exception as error:  # nothing that goes wrong in one check may end the thread
            job.reason, job.status = client_message(error), "failed"
            return
        job.findings, job.done, job.status = findings, job.total, "finished"
        write_findings(self.cache / f"{job.name}.json", job.name, findings)

    def _make_job(self, model: ServedModel, digest: str, to: Any, pictures: Sequence[Any] | None) -> TrustJob:
        kind = check_kind(model)
        if kind == "translator":
            return self._make_translator_job(model, digest, to)
        if kind == "maps":
            return self._make_maps_job(model, digest, pictures)
        raise Refusal(422, f"no check of what {model.name} shows exists: it is {model.trained.kind}", "no_check")

    def _make_translator_job(self, model: ServedModel, digest: str, to: Any) -> TrustJob:
        directions = directions_of(model.trained)
        if to is not None and to not in directions:
            raise Refusal(422, f"to must be one of {', '.join(directions)}", "invalid_input")
        target = to or directions[-1]
        golds = alignment.read()[: self.limits.trust_sentences]
        golds = [gold.swap_languages() for gold in golds] if target == "en" else golds
        language = target if model.trained.languages else None

        def work(tell: Callable[[int], None]) -> list[dict[str, Any]]:
            copy = copy_sharing_weights(
                model.trained
            )  # its heads are silenced, those of the model that answers are not
            reader = trust.CountingReader(copy, language, tell)
            return [finding.plain() for finding in trust.check_translator(reader, golds)]

        total = trust.count_readings(model.trained.model, golds)
        name = name_of(digest, "translator", target, len(golds))
        seconds = self.limits.trust_seconds
        return TrustJob(model.name, model.key, model.trained, digest, work, total, name, seconds, to=target)

    def _make_maps_job(self, model: ServedModel, digest: str, pictures: Sequence[Any] | None) -> TrustJob:
        if not pictures:
            raise Refusal(422, "send pictures on which its maps are checked, as inputs", "invalid_input")
        chosen = list(pictures)[: self.limits.trust_sentences]
        trained: Any = model.trained
        pixels = trained.decode_images(chosen)
        marks = [checkpoint.fingerprint(picture.flatten().tolist()) for picture in pixels]

        def work(tell: Callable[[int], None]) -> list[dict[str, Any]]:
            copy = copy_sharing_weights(trained)
            inputs = copy.normalise(pixels.to(copy.runner.device))
            with torch.no_grad():
                labels = copy.model(inputs).argmax(-1)
            return [finding.plain() for finding in trust.check_maps(copy.model, MapExamples(inputs, labels), tell)]

        name = name_of(digest, "maps", *marks)
        return TrustJob(
            model.name, model.key, model.trained, digest, work, len(chosen), name, self.limits.trust_seconds
        )


def check_kind(model: ServedModel) -> str | None:
    """Return which checks exist for a model: of a translator, of maps, or none."""
    extras = model.trained.extras
    if "alignments" in extras and model.trained.attention_names() and directions_of(model.trained):
        return "translator" if trust.cross_heads(model.trained.model) else None
    return "maps" if "judge" in extras and model.trained.attention_names() else None


def directions_of(trained: Any) -> list[str]:
    """Return the target languages in which a translator can be checked on the pairs that come with Regard."""
    if trained.languages:
        known = set(LANGUAGES) <= {*trained.reads, *trained.languages}
        return [code for code in LANGUAGES if code in trained.languages and known]
    direction = getattr(trained, "trained_direction", None)
    return [direction[1]] if direction and set(direction) == set(LANGUAGES) else []


def digest_of(model: ServedModel) -> str:
    """Return the digest of a model's checkpoint; that of its weights for one that has no folder."""
    if model.version is not None:
        return model.version
    entry = shipped.models().get(model.name)
    if entry is not None and model.folder is None and (version := read_version(entry.path)) is not None:
        return version
    tensors = model.trained.model.state_dict()
    return key(weights=[[name, float(tensor.double().sum())] for name, tensor in sorted(tensors.items())])


def name_of(digest: str, kind: str, *what: Any) -> str:
    """Return the key of a result: the checkpoint, the version of what is measured, and on what."""
    return key(trust=trust.VERSION, regard=__version__, digest=digest, kind=kind, what=what)


def read_findings(path: Path, name: str) -> list[dict[str, Any]] | None:
    """Return findings that were written under this key; None if there are none, or they are damaged."""
    try:
        content = json.loads(path.read_bytes())
        findings: list[dict[str, Any]] = content["findings"]
        return findings if content["name"] == name and content["digest"] == key(findings=findings) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_findings(path: Path, name: str, findings: list[dict[str, Any]]) -> None:
    """Write findings where the cache can be written; elsewhere memory has to do."""
    content = {"name": name, "digest": key(findings=findings), "findings": findings}
    with suppress(OSError, checkpoint.CheckpointError):
        checkpoint.replace(path, json.dumps(content, ensure_ascii=False).encode())
