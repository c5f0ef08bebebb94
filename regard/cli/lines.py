"""Lines of text in and out: only a line feed ends one, and a file appears only when it is whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path


def arguments(texts: list[str]) -> Iterator[str]:
    """Texts as given, standard input in place of a dash."""
    for text in texts:
        if text == "-":
            yield from decoded(sys.stdin.buffer, "standard input")
        else:
            yield text


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file."""
    with path.open("rb") as file:
        yield from decoded(file, str(path))


def decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of text; only a line feed ends one."""
    for number, line in enumerate(lines, start=1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{name}:{number}: not UTF-8, convert the text first") from None


def blocks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lines in blocks, so that a file of any length is translated in bounded memory."""
    while block := list(islice(lines, size)):
        yield block


@contextmanager
def writer(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Write lines to a file that appears only when it is whole, or to standard output."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8") if hasattr(sys.stdout, "reconfigure") else None
        yield print
        sys.stdout.flush()
        return
    aside = path.with_name(path.name + ".part")
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            yield lambda line: print(line, file=file)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
