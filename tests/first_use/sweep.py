"""Every command that takes a file beside every kind of file: what it answers, or the one line in which it refuses.

`python -m tests.first_use.sweep --write` runs all of it and records it in sweep.tsv, to be read as a diff.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from unittest import mock

import torch

from regard.cli import run
from tests.first_use.commands import COMMANDS, LINE_BY_LINE
from tests.first_use.kinds import KINDS, lay, plain_text
from tests.first_use.models import share

TABLE = Path(__file__).with_name("sweep.tsv")
HEAD = ("command", "file", "outcome", "said")
SECONDS = 30  # of a cell, on a busy machine: a pipe that is waited for takes forever
LONGEST = 160  # letters kept of what was said
NOTES = (": reading the column ", ": reading '", "was trained on this file")  # what was read, before it is refused
ANSWERS, REFUSES = "answers", "refuses"
ANSWERED, REFUSED = (0,), (1, 2)  # exit statuses
UNSEEN_WARNINGS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


class TrainingBegins(BaseException):
    """Everything was read and built, and the first step would come now."""


class Hung(BaseException):
    """A command did not end in time."""


@dataclass(frozen=True)
class Cell:
    """What a command did with a file."""

    outcome: str
    """answers, refuses, or what must never be: a traceback, a hang, a status of another kind."""
    said: str
    """What stood on standard error, normalised: a refusal, or what the file was taken for; the verdict of a check."""


def sweep_command(command: str, desk: Path) -> dict[str, Cell]:
    """Give every kind of file to one command, each on a desk as it was laid."""
    return {kind: run_cell(command, kind, desk) for kind in KINDS}


def run_cell(command: str, kind: str, desk: Path) -> Cell:
    """Run one command on one file of the desk."""
    words = [word.replace("FILE", kind) for word in COMMANDS[command].split()]
    present = {path.name for path in desk.iterdir()}
    here = Path.cwd()
    os.chdir(desk)
    try:
        with feed(desk / "pipe") if kind == "pipe" else contextlib.nullcontext():
            status, answers, errors = run_quietly(words)
    finally:
        os.chdir(here)
        for path in desk.iterdir():
            if path.name not in present:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    lines = [line for line in errors.splitlines() if line.strip()]
    if command.startswith("data check") and not lines:
        lines = [" ".join(answers.rpartition("verdict")[2].split())]
    if command in LINE_BY_LINE and status == 1:
        lines = lines[:1]
    return Cell(judge(status, lines), normalise(lines, desk))


def judge(status: int | str, lines: Sequence[str]) -> str:
    """Name the outcome of a command by its exit status and what it said."""
    if isinstance(status, str):
        return status
    if status in ANSWERED:
        return ANSWERS
    if status in REFUSED:
        refusal = [line for line in lines if not any(note in line for note in NOTES)]
        return REFUSES if len(refusal) == 1 else f"refuses in {len(refusal)} lines"
    return f"ends with status {status}"


def run_quietly(words: list[str]) -> tuple[int | str, str, str]:
    """Return the exit status of a command, or what went wrong, its standard output and its standard error."""
    out, errors, none = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(3))
    status: int | str
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        mock.patch("sys.stdin", none),
        usual_warnings(),
        no_training(),
        time_limit(SECONDS),
    ):
        try:
            status = run(words)
        except TrainingBegins:
            status = 0
        except Hung:
            status = "hangs"
        except BaseException as error:  # a command that ends so shows a traceback
            traceback.print_exc()
            status = f"traceback of {type(error).__name__}"
    for stream in (out, errors):
        stream.flush()
    return status, *(stream.buffer.getvalue().decode() for stream in (out, errors))  # type: ignore[attr-defined]


@contextlib.contextmanager
def usual_warnings() -> Iterator[None]:
    """Treat warnings as Python does for users, who see some of them, once, and no error; tests raise them."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for kind in UNSEEN_WARNINGS:
            warnings.simplefilter("ignore", kind)
        yield


@contextlib.contextmanager
def feed(pipe: Path) -> Iterator[None]:
    """Write plain text into a pipe for its first reader, as the shell does for `<(zcat text.gz)`."""

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), pipe.open("wb") as file:
            file.write(plain_text())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # lets a writer go on that nobody has read from
        writer.join()
        os.close(reader)


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `Hung` in what takes longer, also while it waits for a pipe."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise Hung

    former = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


@contextlib.contextmanager
def no_training() -> Iterator[None]:
    """Stop trainings and measurements of speed where they would begin, after everything was read and built."""
    from regard import bench, recipe

    def stop(*given: Any, **named: Any) -> NoReturn:
        raise TrainingBegins

    limits = bench.Limits(device="a processor", operations=1e9, bytes=1e9)
    with (
        mock.patch.object(recipe, "fit", stop),
        mock.patch.object(bench, "measure_answers", stop),
        mock.patch.object(bench, "measure_training", stop),
        mock.patch.object(bench, "measure_limits", return_value=limits),
    ):
        yield


def normalise(lines: Sequence[str], desk: Path) -> str:
    """What was said on one line, without what differs between machines: paths, numbers, lengths of words."""
    if any(line.startswith("Traceback") for line in lines):
        lines = lines[-1:]
    text = " / ".join(" ".join(line.split()) for line in lines)
    for folder in (desk.resolve(), desk, Path(__file__).parent.parent.parent):
        text = text.replace(f"{folder}/", "").replace(str(folder), ".")
    text = re.sub(r"\b[0-9a-f]{12,}\b", "N", text)
    text = re.sub(r"(?<![A-Za-z\d])(?<![A-Za-z]-)\d[\d.,]*(?<![.,])(e[-+]?\d+)?", "N", text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def lay_desk(place: Path, shared: Path) -> Path:
    """Make a folder with one of every kind of file, and the tiny models under the names that commands use."""
    desk = place / "desk"
    desk.mkdir(parents=True)
    models = share(shared)
    lay(desk, models["classification"] / "best")
    (desk / "models").mkdir()
    for task, folder in models.items():
        (desk / "models" / task).symlink_to(folder)
    shutil.copytree(models["classification"], desk / "models" / "again")
    (desk / "good").symlink_to(shared / "data")
    return desk


def read_table() -> dict[tuple[str, str], tuple[str, str]]:
    """Return the recorded outcome and words by command and file."""
    rows = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()[1:]]
    return {(command, kind): (outcome, said) for command, kind, outcome, said in rows}


def write_table(cells: dict[str, dict[str, Cell]]) -> None:
    """Record what was seen."""
    rows = [
        (command, kind, cell.outcome, cell.said) for command, kinds in cells.items() for kind, cell in kinds.items()
    ]
    text = "".join("\t".join(row) + "\n" for row in [HEAD, *rows])
    TABLE.write_text(text, encoding="utf-8")


def main() -> None:
    """Sweep all commands, or those named, and write the table or print what differs from it."""
    parser = argparse.ArgumentParser(prog="python -m tests.first_use.sweep", description=__doc__)
    parser.add_argument("commands", nargs="*", help="commands to sweep; all if none is named")
    parser.add_argument("--write", action="store_true", help="record the outcomes in sweep.tsv")
    parser.add_argument("--times", action="store_true", help="print the processor time of every command")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    unknown = set(chosen.commands) - set(COMMANDS)
    if unknown:
        parser.error(f"no such command in commands.py: {', '.join(sorted(unknown))}")
    if chosen.write and chosen.commands:
        parser.error("--write records all commands: name none")
    with tempfile.TemporaryDirectory() as folder:
        prepare_environment(Path(folder))
        desk = lay_desk(Path(folder), Path(folder) / "shared")
        cells = {}
        for command in chosen.commands or COMMANDS:
            started = time.process_time()
            cells[command] = sweep_command(command, desk)
            if chosen.times:
                print(f"{time.process_time() - started:6.2f} s  {command}", file=sys.stderr)
    if chosen.write:
        write_table(cells)
        return
    recorded = read_table() if TABLE.exists() else {}
    for command, kinds in cells.items():
        for kind, cell in kinds.items():
            if recorded.get((command, kind)) != (cell.outcome, cell.said):
                print(f"{command}\t{kind}\t{cell.outcome}\t{cell.said}")


def prepare_environment(folder: Path) -> None:
    """Keep away from the user's cache, and from what the width of a terminal would change."""
    os.environ.update({"REGARD_CACHE": str(folder / "cache"), "COLUMNS": "80", "MPLBACKEND": "Agg"})
    os.environ.pop("REGARD_DATA", None)


if __name__ == "__main__":
    main()
