"""Lines of text in and out: only a line feed ends one, a file appears only when it is whole, and where it can."""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from regard.config.paths import real_path
from regard.config.words import quantity
from regard.data.binary_files import KINDS, OFFICE, PACKED
from regard.data.encodings import hint
from regard.data.readers import MARK, open_text

ESCAPED = "backslashreplace"  # of the names of files, which may be no text
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how formulas begin, and what spreadsheets skip before them
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
PICTURES = ("png", "svg", "pdf", "eps", "jpg", "jpeg", "tif", "tiff", "webp")


def is_address(word: str) -> bool:
    """True for one word that is the address of a page, such as https://example.com."""
    return word.startswith(("http://", "https://")) and len(word.split()) == 1


def arguments(texts: list[str], *, option: str | None = None) -> Iterator[str]:
    """Texts as given, standard input in place of a dash; the name of a file is hardly the text that was meant."""
    for text in texts:
        if is_address(text):
            read = f"{option} FILE" if option else "- < FILE"
            itself = f"`echo {shlex.quote(text)} |` and - for the address itself"
            raise ValueError(f"{text}: nothing is fetched: save the page and give {read}, or use {itself}")
        if text != "-" and len(text) < 256 and "\0" not in text and Path(text).is_file():
            quoted = shlex.quote(text)
            remedy = f"{option} {quoted}" if option else f"- < {quoted}"
            itself = f"`echo {quoted} |` and - for the name itself"
            raise ValueError(f"{text} is a file: use {remedy} to read it, or {itself}")
    return _given(texts)


def _given(texts: list[str]) -> Iterator[str]:
    for text in texts:
        if text == "-":
            yield from decoded(sys.stdin.buffer, "standard input")
        else:
            yield text


def guessed(trained: Any, texts: list[str]) -> str | None:
    """The language that a model with several is to write in when nobody said it, and a word about the guess."""
    to = trained.language(texts)
    if to is not None:
        print(f"regard: translating to {to}, guessed from the text; --to chooses", file=sys.stderr)
    return to


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, plain or gzipped, without a byte order mark; one that holds no text is refused."""
    with open_text(path) as file:
        yield from decoded(file, str(path))


def decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of text; only a line feed ends one."""
    for number, line in enumerate(lines, start=1):
        line = line.removeprefix(MARK) if number == 1 else line
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            told = hint(line, name)
            raise ValueError(f"{name}:{number}: not UTF-8, convert the text first{told and f' ({told})'}") from None


def blocks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lines in blocks, so that a file of any length is translated in bounded memory."""
    while block := list(islice(lines, size)):
        yield block


def writable(path: Path | None, kinds: Sequence[str] = (), *, reads: Sequence[Path | None] = ()) -> None:
    """Stop before any work at a file that could not be written, or that is one of those to be read."""
    if path is None:
        return
    if any(read is not None and real_path(path) == real_path(read) for read in reads):
        raise ValueError(f"{path} is also the input and would be overwritten: name another file")
    kind = path.suffix.lstrip(".").lower()
    if kinds and kind not in kinds:
        does = "draw" if "png" in kinds else "write"
        *others, last = kinds[:3]
        named = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"{path}: cannot {does} a {kind or 'nameless'} file, choose {named}")
    if kind not in kinds and kind in OFFICE | PACKED:
        what = KINDS[kind][0] if kind in KINDS else "a compressed file"
        raise ValueError(f"{path}: cannot write {what}, choose .txt, .csv or .jsonl")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}, make it first")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ValueError(f"{path}: writing is not allowed there, choose another folder")


def printable(name: str) -> str:
    """A name on one line and in UTF-8: line feeds, tabs and bytes that are no text are escaped."""
    return UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), name)


def count_formulas(cells: Iterable[Any]) -> int:
    """How many cells of a table a spreadsheet would take for formulas; numbers, such as -0.5, are none."""
    texts = [cell for cell in cells if isinstance(cell, str) and cell.startswith(FORMULA)]
    return sum(NUMBER.fullmatch(text) is None for text in texts)


def tell_formulas(count: int, path: Path) -> None:
    """Say that a table holds texts which a spreadsheet takes for formulas: they are written as they are."""
    if count:
        cells = f"{counted(count, 'cell')} of {path} begin{'s' if count == 1 else ''} with =, +, - or @"
        print(f"regard: {cells}: import them as text, spreadsheets take them for formulas", file=sys.stderr)


def counted(count: int, name: str) -> str:
    """A number of things: 1 name, 2 names."""
    return quantity(count, name)


def note(text: str) -> None:
    """Print a line about the work to stderr."""
    print(f"regard: {text}", file=sys.stderr)


def say(text: str) -> None:
    """Print a line whose reader may have gone away without ending anything."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains once more as it ends


@contextmanager
def writer(path: Path | None) -> Iterator[Callable[..., None]]:
    """Write lines to a file that appears only when it is whole, or to standard output."""
    if path is None:
        if sys.stdout is None:
            raise ValueError("standard output is closed: redirect it to a file")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors=ESCAPED)
        yield print
        sys.stdout.flush()
        return
    aside = path.with_name(path.name + ".part")
    try:
        with aside.open("w", encoding="utf-8", errors=ESCAPED, newline="\n") as file:
            yield lambda line: print(line, file=file)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
