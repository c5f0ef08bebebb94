"""Long work: jobs of many inputs, kept on disk, answered a part at a time, and taken up again after a restart.

A job is a folder with `request.json`, its inputs in `inputs.jsonl`, `answers.jsonl`, which grows part by part, and
`cancelled` if it was called off. A part is on disk before the next one begins, so that what was finished is never done
again. Of the inputs only those of the part under way are in memory.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from regard.serve.calls import Overloaded
from regard.serve.catalogue import Catalogue, ServedModel
from regard.serve.job_body import read_job
from regard.serve.limits import Limits
from regard.serve.payload import read_inputs, read_options, reads_pictures
from regard.serve.refusal import Refusal, explain_error
from regard.serve.worker_group import WorkerGroup

REQUEST, INPUTS, ANSWERS, CANCELLED, LOCK = "request.json", "inputs.jsonl", "answers.jsonl", "cancelled", ".lock"
MEMBERS = ("model", "verb", "inputs", "options")
LONGEST = 1 << 20  # characters of an input, whatever a request may have
DRAFT = "."  # before the name of a job that is not handed in yet
PIECE = 1 << 16  # bytes of answers that are sent at a time
IDENTIFIER = re.compile(r"[\w-]{22}")
PART_INPUTS = 8  # that are answered together; other requests are served between two parts
PRIVATE = 0o700  # of folders with texts of clients, which no other user of the machine may read
PATIENCE = 0.2  # seconds until a part is tried again that found no room


@dataclass
class Job:
    """A job on disk: its request without the inputs, and the number of inputs answered so far."""

    identifier: str
    folder: Path
    request: dict[str, Any]
    finished: int = 0
    is_cancelled: bool = False
    offset: int = 0
    """Where in the file of inputs the next one begins."""

    @property
    def total(self) -> int:
        """The number of inputs."""
        total: int = self.request["total"]
        return total

    def read_part(self) -> tuple[list[Any], int]:
        """Return the next inputs, and their bytes in the file."""
        with (self.folder / INPUTS).open("rb") as file:
            file.seek(self.offset)
            lines = list(itertools.islice(file, PART_INPUTS))
        return [json.loads(line) for line in lines], sum(map(len, lines))

    @property
    def is_over(self) -> bool:
        """True if the job is cancelled or all inputs are answered."""
        return self.is_cancelled or self.finished >= self.total

    def plain(self) -> dict[str, Any]:
        """Return the status of the job as JSON."""
        going = "running" if self.finished else "queued"
        status = "cancelled" if self.is_cancelled else "finished" if self.is_over else going
        facts = {"id": self.identifier, "object": "job", "status": status, "model": self.request["model"]}
        return {**facts, "total": self.total, "finished": self.finished}


class Jobs:
    """All jobs in a folder, which only one server at a time may use."""

    def __init__(self, folder: Path, worker: WorkerGroup, catalogue: Catalogue, limits: Limits) -> None:
        self.folder, self.worker, self.catalogue, self.limits = folder, worker, catalogue, limits
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        self._lock = FileLock(folder / LOCK, thread_local=False)  # released by the thread of the server
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(f"{folder}: another server keeps its jobs here, give another --jobs folder") from None
        remove_drafts(folder)
        self.jobs = {job.identifier: job for job in read_jobs(folder)}
        self._wake = asyncio.Event()

    def close(self) -> None:
        """Release the lock on the folder."""
        self._lock.release()

    def write_draft(self, body: bytes) -> Job:
        """Write what was handed in to disk, its inputs checked as those of a request; any thread may do that."""
        identifier = secrets.token_urlsafe(16)
        folder = self.folder / f"{DRAFT}{identifier}"
        folder.mkdir(PRIVATE)
        try:
            request = self._write_request(folder, body)
        except BaseException:
            shutil.rmtree(folder)
            raise
        return Job(identifier, folder, request)

    def submit(self, draft: Job) -> Job:
        """Put a job among those that are answered."""
        try:
            self._make_room()
            job = Job(draft.identifier, self.folder / draft.identifier, draft.request)
            draft.folder.rename(job.folder)
        except BaseException:
            shutil.rmtree(draft.folder)
            raise
        _sync_folder(self.folder)
        self.jobs[job.identifier] = job
        self._wake.set()
        return job

    def find(self, identifier: str) -> Job:
        """Return a job by its id; ids sent by clients are never used as file names."""
        if identifier not in self.jobs:
            raise Refusal(404, "no such job", "not_found")
        return self.jobs[identifier]

    def cancel(self, identifier: str) -> Job:
        """Cancel a job; its answers so far are kept."""
        job = self.find(identifier)
        if not job.is_over:
            write_file(job.folder / CANCELLED, b"")
            job.is_cancelled = True
        return job

    async def run(self, log: Callable[[str], None]) -> None:
        """Process jobs one after the other until the server stops."""
        while True:
            job = next((job for job in self.jobs.values() if self._can_go_on(job)), None)
            if job is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                await self._answer_part(job)
            except OSError as error:
                log(f"job {job.identifier}: {(error.strerror or 'cannot be written').lower()}; tried again in a minute")
                await asyncio.sleep(60)

    async def _answer_part(self, job: Job) -> None:
        """Answer the next inputs of a job, and append the answers to its file."""
        inputs, size = job.read_part()
        lines = await self._answer_inputs(job, inputs)
        if lines and not job.is_cancelled:
            append_lines(job.folder / ANSWERS, lines)
            job.finished += len(lines)
            job.offset += size

    def _can_go_on(self, job: Job) -> bool:
        """True for an unfinished job whose model is being served."""
        return not job.is_over and job.request["key"] in self.worker.models

    async def _answer_inputs(self, job: Job, inputs: list[Any]) -> list[str]:
        """Return one JSON line per input; if the batch fails, answer each input by itself."""
        trained = self.worker.models[job.request["key"]]
        try:
            prepared = [item for value in inputs for item in read_inputs(trained, [value], self.limits)]
            deadline = time.monotonic() + self.limits.deadline * len(inputs)
            answers = await self.worker.answer(job.request["key"], prepared, job.request["options"], deadline=deadline)
            return [json.dumps(answer.plain(), ensure_ascii=False, allow_nan=False) for answer in answers]
        except Overloaded:
            await asyncio.sleep(PATIENCE)
            return []
        except Exception as error:
            if len(inputs) == 1:
                return [_error_line(explain_error(error))]
            return [line for value in inputs for line in await self._insist(job, value)]

    async def _insist(self, job: Job, value: Any) -> list[str]:
        """Answer one input, retrying while the queue is full."""
        while not (lines := await self._answer_inputs(job, [value])):
            pass
        return lines

    def _write_request(self, folder: Path, body: bytes) -> dict[str, Any]:
        """Write the files of a job from the body of its request, and return what is in memory of it."""
        with (folder / INPUTS).open("xb") as file:
            inputs = _InputFile(file, self.limits.job_inputs)
            payload = read_job(body, MEMBERS, longest=min(self.limits.body_bytes, LONGEST), take_input=inputs.add)
            if not inputs.count:
                raise Refusal(422, "inputs must be a list of inputs", "invalid_input")
            file.flush()
            os.fsync(file.fileno())
        verb = payload.get("verb")
        model = self.catalogue.pick([verb] if isinstance(verb, str) else self.catalogue.verbs, payload.get("model"))
        if reads_pictures(model.trained) or model.trained.inputs.together:
            raise Refusal(422, f"{model.name} takes no jobs: send its inputs to /v1/{model.verb}", "unsupported")
        options = read_options(model.trained.Options, payload.get("options"), self.limits)
        self._check_inputs(folder / INPUTS, model)
        request = {"model": model.name, "key": model.key, "total": inputs.count, "options": options}
        write_file(folder / REQUEST, json.dumps(request, ensure_ascii=False).encode())
        write_file(folder / ANSWERS, b"")
        _sync_folder(folder)
        return request

    def _check_inputs(self, path: Path, model: ServedModel) -> None:
        """Raise Refusal if an input in a file would be refused in a request of its own."""
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    read_inputs(model.trained, [json.loads(line)], self.limits)
                except (Refusal, ValueError) as error:
                    raise Refusal(422, f"number {number}: {explain_error(error).message}", "invalid_input") from None

    def _make_room(self) -> None:
        """Delete the oldest finished or cancelled job if there are too many; refuse if there is none."""
        if len(self.jobs) < self.limits.jobs:
            return
        oldest = next((job for job in self.jobs.values() if job.is_over), None)
        if oldest is None:
            raise Refusal(
                429, f"{len(self.jobs)} jobs are under way: try again later", "overloaded", {"retry-after": "60"}
            )
        shutil.rmtree(oldest.folder)
        del self.jobs[oldest.identifier]


@dataclass
class _InputFile:
    """The file of a job's inputs while it is written, one in each line."""

    file: BinaryIO
    most: int
    count: int = 0

    def add(self, item: Any) -> None:
        """Append an input, or refuse one too many."""
        if self.count == self.most:
            raise Refusal(422, f"more than {self.most:,} inputs, the most in a job", "too_many_inputs")
        self.file.write(json.dumps(item, ensure_ascii=False).encode() + b"\n")
        self.count += 1


def read_jobs(folder: Path) -> Iterator[Job]:
    """Yield the jobs in a folder, oldest first, removing what a crash has cut off."""
    places = [path for path in folder.iterdir() if IDENTIFIER.fullmatch(path.name) and (path / REQUEST).is_file()]
    for path in sorted(places, key=lambda path: (path / REQUEST).stat().st_mtime_ns):
        finished = _count_whole_lines(path / ANSWERS)
        try:
            request = json.loads((path / REQUEST).read_bytes())
            sizes = _read_offsets(path / INPUTS, [finished, request["total"]])
        except (ValueError, LookupError, TypeError, FileNotFoundError):
            raise ValueError(f"{path}: {REQUEST} or {INPUTS} is damaged, remove this folder") from None
        yield Job(path.name, path, request, finished, (path / CANCELLED).exists(), sizes[0])


def remove_drafts(folder: Path) -> None:
    """Remove the jobs of a folder that were not handed in whole before a crash."""
    for path in folder.iterdir():
        if path.name.startswith(DRAFT) and IDENTIFIER.fullmatch(path.name.removeprefix(DRAFT)):
            shutil.rmtree(path)


def read_beginning(path: Path, size: int) -> Iterator[bytes]:
    """Yield the first bytes of a file in pieces."""
    with path.open("rb") as file:
        while size and (piece := file.read(min(size, PIECE))):
            size -= len(piece)
            yield piece


def write_file(path: Path, content: bytes) -> None:
    """Write a file and flush it to disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def append_lines(path: Path, lines: list[str]) -> None:
    """Append lines to a file and flush it to disk."""
    with path.open("ab") as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
        file.flush()
        os.fsync(file.fileno())


def _read_offsets(path: Path, numbers: list[int]) -> list[int]:
    """Return where in a file the line of each number ends; raise ValueError if there are fewer lines."""
    offsets = [0]
    with path.open("rb") as file:
        offsets += itertools.accumulate(len(line) for line in file if line.endswith(b"\n"))
    if max(numbers) >= len(offsets):
        raise ValueError(f"{path}: fewer than {max(numbers)} lines")
    return [offsets[number] for number in numbers]


def _count_whole_lines(path: Path) -> int:
    """Count the complete lines of a file, and cut off an incomplete last one."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        write_file(path, whole)
    return whole.count(b"\n")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _error_line(refusal: Refusal) -> str:
    return json.dumps({"error": refusal.message}, ensure_ascii=False)
