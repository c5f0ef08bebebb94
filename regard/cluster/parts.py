"""A long file answered in numbered parts by a pool of models, on Ray Data; a part appears once it is whole.

Every worker loads the model and reads the file by itself, so both must lie where all machines see them under the same
path, as must the folder of the parts. A part that is there already is left alone: whoever died is simply asked again.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

DIGITS = 6  # of the number of a part
DRAFT = ".draft-"  # how the names of files begin that are not whole


@dataclass
class Part:
    """The lines that answer a part of a file, and what is to be said of them."""

    lines: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    """How many lines were treated out of the ordinary, by what happened."""
    messages: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PartWork:
    """What a worker does; its functions are known by their names, so that other processes can import them."""

    load: Callable[[], Any]
    """Loads the model."""
    read: Callable[[Any], Iterator[str]]
    """Reads the texts of the whole file."""
    answer: Callable[[Any, int, list[str]], Part]
    """Answers some texts, of which the first has this number in the file."""
    size: int
    """Texts of a part."""


@dataclass(frozen=True)
class PartFolder:
    """The folder in which the parts of an output appear."""

    path: Path
    ending: str

    def part(self, number: int) -> Path:
        """Return the path of a part."""
        return self.path / f"part-{number:0{DIGITS}}{self.ending}"

    def missing(self, count: int) -> list[int]:
        """Return the numbers of the parts that are not there, out of so many."""
        return [number for number in range(count) if not self.part(number).is_file()]

    def write(self, number: int, part: Part) -> None:
        """Write a part, which appears under its name once it is on disk, and before it what is to be said of it."""
        if part.counts or part.messages:
            notes = json.dumps({"counts": dict(part.counts), "messages": part.messages})
            self._write(self.path / f"notes-{number:0{DIGITS}}.json", [notes])
        self._write(self.part(number), part.lines)

    def read_notes(self) -> Part:
        """Return what is to be said of all parts together."""
        notes = Part([])
        for path in sorted(self.path.glob("notes-*.json")):
            part = json.loads(path.read_text(encoding="utf-8"))
            notes.counts.update(part["counts"])
            notes.messages += part["messages"]
        return notes

    def drop_drafts(self) -> None:
        """Delete what workers left that were killed."""
        for draft in self.path.glob(f"{DRAFT}*"):
            draft.unlink(missing_ok=True)

    def _write(self, path: Path, lines: Sequence[str]) -> None:
        draft = self.path / f"{DRAFT}{path.name}.{uuid.uuid4().hex}"  # two workers may be at the same part
        try:
            with draft.open("wb") as file:
                file.writelines(f"{line}\n".encode(errors="backslashreplace") for line in lines)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


class PartReader:
    """Reads parts of a file, which come in nearly ascending order: only a step back begins it anew."""

    def __init__(self, open_texts: Callable[[], Iterator[str]], size: int) -> None:
        self.open_texts, self.size = open_texts, size
        self._texts, self._next = open_texts(), 0

    def read(self, number: int) -> list[str]:
        """Return the texts of a part."""
        if number < self._next:
            self._texts, self._next = self.open_texts(), 0
        for _ in islice(self._texts, (number - self._next) * self.size):
            pass
        self._next = number + 1
        return list(islice(self._texts, self.size))


class PartWorker:
    """Writes parts in a process of its own, as Ray Data asks for them."""

    def __init__(self, work: PartWork, folder: PartFolder, directory: str) -> None:
        self.work, self.folder, self.directory = work, folder, directory
        self._opened: tuple[Any, PartReader] | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Write the parts of a batch, and return what went wrong with each: nothing, or an error of the user."""
        errors = []
        for number in batch["part"]:
            try:
                self._write(int(number))
                errors.append("")
            except (ValueError, OSError) as error:
                errors.append(str(error) or type(error).__name__)
        return {"error": errors}

    def _open(self) -> tuple[Any, PartReader]:
        """Return the model and the reader of the file, opened for the first part."""
        if self._opened is None:
            os.chdir(self.directory)  # names of pictures may be relative to where the command was given
            model = self.work.load()
            self._opened = model, PartReader(lambda: self.work.read(model), self.work.size)
        return self._opened

    def _write(self, number: int) -> None:
        if self.folder.part(number).is_file():  # by a worker that died before it could say so
            return
        model, reader = self._open()
        self.folder.write(number, self.work.answer(model, number * self.work.size, reader.read(number)))


def write_parts(work: PartWork, folder: PartFolder, numbers: Sequence[int], *, gpu: bool = False) -> Iterator[None]:
    """Have these parts written by the cluster that is connected, and yield after each of them.

    The pool has as many workers as there are processors, or GPUs, but no more than parts.
    """
    import ray
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    workers = max(1, min(len(numbers), int(ray.cluster_resources().get("GPU" if gpu else "CPU", 1))))
    dataset = ray.data.from_items([{"part": number} for number in numbers], override_num_blocks=len(numbers))
    outcomes = dataset.map_batches(
        PartWorker,
        fn_constructor_args=(work, folder, os.getcwd()),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers),
        num_cpus=0 if gpu else 1,
        num_gpus=1 if gpu else 0,
    )
    for row in outcomes.iter_rows():
        if row["error"]:
            raise ValueError(row["error"])
        yield
