"""Read and write lines of text: only a line feed ends one, and a file appears only once it is complete."""

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

ESCAPE_UNENCODABLE = "backslashreplace"  # of the names of files, which may be no text
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # how formulas begin, and what spreadsheets skip before them
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
PICTURE_FORMATS = ("png", "svg", "pdf", "eps", "jpg", "jpeg", "tif", "tiff", "webp")


def is_address(word: str) -> bool:
    """True for one word that is the address of a page, such as https://example.com."""
    return word.startswith(("http://", "https://")) and len(word.split()) == 1


def expand_arguments(texts: list[str], *, option: str | None = None) -> Iterator[str]:
    """Return texts as typed, with standard input for a dash; a file's name is refused, since its content was meant."""
    for text in texts:
        if is_address(text):
            from_file = f"{option} FILE" if option else "- < FILE"
            literally = f"`echo {shlex.quote(text)} |` and - for the address itself"
            raise ValueError(f"{text}: nothing is fetched: save the page and give {from_file}, or use {literally}")
        if text != "-" and len(text) < 256 and "\0" not in text and Path(text).is_file():
            quoted = shlex.quote(text)
            remedy = f"{option} {quoted}" if option else f"- < {quoted}"
            literally = f"`echo {quoted} |` and - for the name itself"
            raise ValueError(f"{text} is a file: use {remedy} to read it, or {literally}")
    return _read_arguments(texts)


def _read_arguments(texts: list[str]) -> Iterator[str]:
    for text in texts:
        if text == "-":
            yield from decode_lines(sys.stdin.buffer, "standard input")
        else:
            yield text


def guess_language(trained: Any, texts: list[str]) -> str | None:
    """Return the target language of a model with several, guessed from the texts, and print the guess."""
    to = trained.language(texts)
    if to is not None:
        print_note(f"translating to {to}, guessed from the text; --to chooses")
    return to


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, plain or gzipped, without a byte order mark; a file that is not text is refused."""
    with open_text(path) as file:
        yield from decode_lines(file, str(path))


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode lines of UTF-8, without their line ends."""
    for number, line in enumerate(lines, start=1):
        line = line.removeprefix(MARK) if number == 1 else line
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            encoding_hint = hint(line, name)
            raise ValueError(
                f"{name}:{number}: not UTF-8, convert the text first{encoding_hint and f' ({encoding_hint})'}"
            ) from None


def split_blocks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Split lines into blocks, so that a file of any length is processed in bounded memory."""
    while block := list(islice(lines, size)):
        yield block


def check_writable(path: Path | None, endings: Sequence[str] = (), *, inputs: Sequence[Path | None] = ()) -> None:
    """Refuse, before any work, an output that cannot be written or that is one of the inputs."""
    if path is None:
        return
    if any(input is not None and real_path(path) == real_path(input) for input in inputs):
        raise ValueError(f"{path} is also the input and would be overwritten: name another file")
    ending = path.suffix.lstrip(".").lower()
    if endings and ending not in endings:
        verb = "draw" if "png" in endings else "write"
        *others, last = endings[:3]
        choices = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"{path}: cannot {verb} a {ending or 'nameless'} file, choose {choices}")
    if ending not in endings and ending in OFFICE | PACKED:
        description = KINDS[ending][0] if ending in KINDS else "a compressed file"
        raise ValueError(f"{path}: cannot write {description}, choose .txt, .csv or .jsonl")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}, make it first")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ValueError(f"{path}: writing is not allowed there, choose another folder")


def escape_name(name: str) -> str:
    """Escape line feeds, tabs and bytes that are not text, so that a name is one printable line."""
    return UNPRINTABLE.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), name)


def count_formulas(cells: Iterable[Any]) -> int:
    """Count the cells that a spreadsheet would take for formulas; numbers, such as -0.5, are none."""
    texts = [cell for cell in cells if isinstance(cell, str) and cell.startswith(FORMULA_STARTS)]
    return sum(NUMBER.fullmatch(text) is None for text in texts)


def warn_about_formulas(count: int, path: Path) -> None:
    """Warn that a table holds texts which a spreadsheet takes for formulas; they are written unchanged."""
    if count:
        cells = f"{quantity(count, 'cell')} of {path} begin{'s' if count == 1 else ''} with =, +, - or @"
        print_note(f"{cells}: import them as text, spreadsheets take them for formulas")


def print_note(text: str) -> None:
    """Print a line about the work to stderr."""
    print(f"regard: {text}", file=sys.stderr)


def print_line(text: str) -> None:
    """Print a line; a reader that has gone away ends nothing."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains once more as it ends


@contextmanager
def open_writer(path: Path | None) -> Iterator[Callable[..., None]]:
    """Open a function that writes lines to standard output, or to a file that appears only once it is complete."""
    if path is None:
        if sys.stdout is None:
            raise ValueError("standard output is closed: redirect it to a file")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors=ESCAPE_UNENCODABLE)
        yield print
        sys.stdout.flush()
        return
    partial_path = path.with_name(path.name + ".part")
    try:
        with partial_path.open("w", encoding="utf-8", errors=ESCAPE_UNENCODABLE, newline="\n") as file:
            yield lambda line: print(line, file=file)
        partial_path.replace(path)
    finally:
        partial_path.unlink(missing_ok=True)


def write_lines(path: Path | None, lines: Iterable[str]) -> None:
    """Write lines to standard output, or to a file that appears only once it is complete."""
    with open_writer(path) as write:
        for line in lines:
            write(line)
