"""Long files answered: progress is shown, and answers are kept as they come, so that the same command continues them.

Beside `out.fr` lies `out.fr.part` with the answers so far, and `out.fr.part.json`, which says how many inputs they
answer and what was asked. A block of answers counts once both are on the disk; whatever came after it is cut off.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.cli.lines import ESCAPED, writer
from regard.config.paths import real_path
from regard.config.words import quantity

EVERY = 60.0  # seconds between two lines about progress where there is no terminal
CHUNK = 1 << 20


@dataclass
class Draft:
    """Answers on their way to a file."""

    write: Callable[[str], None]
    done: int = 0
    """Inputs that are answered already."""
    head: str = ""
    """The first line that an earlier attempt wrote."""
    keep: Callable[[int], None] = lambda count: None
    """So many inputs more are answered: what was written stays, whatever happens."""


@contextlib.contextmanager
def drafted(path: Path | None, *, source: Path | None, asked: Any) -> Iterator[Draft]:
    """A file that appears when it is whole; answers to a file are kept meanwhile, and continued if asked the same."""
    if path is None or source is None:
        with writer(path) as write:
            yield Draft(write)
        return
    aside, note = (path.with_name(f"{path.name}.part{ending}") for ending in ("", ".json"))
    mark = hashlib.sha256(json.dumps([asked, _digest(source)], sort_keys=True, default=str).encode()).hexdigest()
    done, size = _kept(note, aside, mark)
    with aside.open("r+b" if done else "wb") as file, _progress(source, done) as advance:
        file.truncate(size)
        head = file.readline().decode().removesuffix("\n") if done else ""
        file.seek(size)

        def write(line: str) -> None:
            file.write(f"{line}\n".encode(errors=ESCAPED))

        def keep(count: int) -> None:
            draft.done += count
            file.flush()
            os.fsync(file.fileno())
            _replace(note, json.dumps({"asked": mark, "done": draft.done, "bytes": file.tell()}))
            advance(draft.done)

        draft = Draft(write, done, head, keep)
        if done:
            print(f"regard: continuing {path} after {quantity(done, 'line')}", file=sys.stderr)
        try:
            yield draft
        except BaseException:
            if draft.done:
                print(
                    f"regard: {aside} has {quantity(draft.done, 'line')}: the same command continues it",
                    file=sys.stderr,
                )
            else:
                aside.unlink(missing_ok=True)
            raise
    aside.replace(path)
    note.unlink(missing_ok=True)


def identity(model: Path | None) -> list[str]:
    """What tells one model from another: where it lies, and what its manifest says of its files."""
    if model is None:
        return []
    manifests = (model / part / "manifest.json" for part in ("", "best"))
    return [str(real_path(model)), *(_digest(path) for path in manifests if path.is_file())]


def _kept(note: Path, aside: Path, mark: str) -> tuple[int, int]:
    """How many inputs an earlier attempt at the same has answered, and in how many bytes."""
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
        same = found["asked"] == mark and aside.stat().st_size >= found["bytes"]
        return (int(found["done"]), int(found["bytes"])) if same else (0, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lines(path: Path) -> int:
    """The lines of a file, the last one too where nothing ends it."""
    count, last = 0, b"\n"
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")


@contextlib.contextmanager
def _progress(source: Path, done: int) -> Iterator[Callable[[int], None]]:
    """Tell how far it is: a bar on a terminal, elsewhere a line a minute."""
    total, began, told = _lines(source), time.monotonic(), [time.monotonic()]
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        with Progress(
            BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
        ) as bar:
            task = bar.add_task("", total=total, completed=done)
            yield lambda count: bar.update(task, completed=count)
        return

    def tell(count: int) -> None:
        now = time.monotonic()
        if now - told[0] >= EVERY and count > done:
            told[0] = now
            left = (total - count) * (now - began) / (count - done)
            print(f"regard: {count:,} of {total:,} lines, {left / 60:.0f} min left", file=sys.stderr)

    yield tell
