"""Write the answers to a long file so that an interrupted command can be continued, and show its progress.

Beside `out.fr` lies `out.fr.part` with the answers so far, and `out.fr.part.json`, which says how many inputs they
answer and what was asked. A block of answers counts once both are on disk; whatever came after it is cut off.

"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.cli.text_io import ESCAPE_UNENCODABLE, open_writer, print_note
from regard.config.paths import real_path
from regard.config.words import quantity

REPORT_SECONDS = 60.0  # seconds between two lines about progress where there is no terminal
CHUNK_BYTES = 1 << 20


@dataclass
class Draft:
    """The answers of a file that is being written."""

    write: Callable[[str], None]
    answered_count: int = 0
    """Inputs answered so far."""
    first_line: str = ""
    """The first line that an earlier attempt wrote."""
    commit: Callable[[int], None] = lambda count: None
    """Keep what was written: so many more inputs are answered."""


@contextlib.contextmanager
def open_draft(path: Path | None, *, source: Path | None, request: Any) -> Iterator[Draft]:
    """Open an output that appears once it is complete; the same request continues an interrupted one."""
    if path is None or source is None:
        with open_writer(path) as write:
            yield Draft(write)
        return
    partial_path, progress_path = (path.with_name(f"{path.name}.part{ending}") for ending in ("", ".json"))
    request_digest = digest_request(request, source)
    answered_count, byte_count = _read_progress(progress_path, partial_path, request_digest)
    with (
        partial_path.open("r+b" if answered_count else "wb") as file,
        show_progress(source, answered_count) as advance,
    ):
        file.truncate(byte_count)
        first_line = file.readline().decode().removesuffix("\n") if answered_count else ""
        file.seek(byte_count)

        def write(line: str) -> None:
            file.write(f"{line}\n".encode(errors=ESCAPE_UNENCODABLE))

        def commit(count: int) -> None:
            draft.answered_count += count
            file.flush()
            os.fsync(file.fileno())
            replace_file(
                progress_path, json.dumps({"asked": request_digest, "done": draft.answered_count, "bytes": file.tell()})
            )
            advance(draft.answered_count)

        draft = Draft(write, answered_count, first_line, commit)
        if answered_count:
            print_note(f"continuing {path} after {quantity(answered_count, 'line')}")
        try:
            yield draft
        except BaseException:
            if draft.answered_count:
                line_count = quantity(draft.answered_count, "line")
                print_note(f"{partial_path} has {line_count}: the same command continues it")
            else:
                partial_path.unlink(missing_ok=True)
            raise
    partial_path.replace(path)
    progress_path.unlink(missing_ok=True)


def digest_request(request: Any, source: Path) -> str:
    """Return the digest of what was asked and of the file that it was asked of."""
    return hashlib.sha256(json.dumps([request, _file_digest(source)], sort_keys=True, default=str).encode()).hexdigest()


def identify_model(model: Path | None) -> list[str]:
    """Return what identifies a model: its path, and the digests of its manifests."""
    if model is None:
        return []
    manifests = (model / folder / "manifest.json" for folder in ("", "best"))
    return [str(real_path(model)), *(_file_digest(path) for path in manifests if path.is_file())]


def _read_progress(progress_path: Path, partial_path: Path, request_digest: str) -> tuple[int, int]:
    """Return how many inputs an earlier attempt at the same request has answered, and in how many bytes."""
    try:
        progress = json.loads(progress_path.read_text(encoding="utf-8"))
        continues = progress["asked"] == request_digest and partial_path.stat().st_size >= progress["bytes"]
        return (int(progress["done"]), int(progress["bytes"])) if continues else (0, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


def replace_file(path: Path, text: str) -> None:
    """Write a small file that is there whole or as it was before."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _count_lines(path: Path) -> int:
    """Count the lines of a file, gzipped or not, the last one too if no line feed ends it."""
    count, last = 0, b"\n"
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")


@contextlib.contextmanager
def show_progress(source: Path, answered_count: int) -> Iterator[Callable[[int], None]]:
    """Report progress: as a bar on a terminal, elsewhere as a line a minute."""
    line_count, start_time, last_report = _count_lines(source), time.monotonic(), [time.monotonic()]
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        with Progress(
            BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
        ) as bar:
            task = bar.add_task("", total=line_count, completed=answered_count)
            yield lambda count: bar.update(task, completed=count)
        return

    def report(count: int) -> None:
        now = time.monotonic()
        if now - last_report[0] >= REPORT_SECONDS and count > answered_count:
            last_report[0] = now
            seconds_left = (line_count - count) * (now - start_time) / (count - answered_count)
            print_note(f"{count:,} of {line_count:,} lines, {seconds_left / 60:.0f} min left")

    yield report
