"""Files that are not UTF-8: a guess at their encoding, and the command that converts them."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from regard.data.public_sets import describe_source

SURROGATE = "a text holds a lone surrogate, which no file can: decode it as UTF-8 first"
HEAD = 1 << 16  # bytes of a file that are examined
MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
# Western European letters and signs except Ã and Â, which damaged UTF-8 starts with.
WESTERN = "àâäáåçéèêëíìîïñóòôöõøúùûüýßæœÀÄÁÅÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØÚÙÛÜÝÆŒ«»°€‘’“”–—…¿¡\u00a0".encode("cp1252")


def encode_text(text: str) -> bytes:
    """Encode a text as UTF-8, or raise ValueError if it cannot be encoded."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(SURROGATE) from None


def find_path(name: str) -> Path:
    """Return the file or folder of this name, relative to here, to the folder REGARD_DATA, or else to `data`."""
    if not name.strip():
        raise ValueError("an empty name of a file, which would be the folder here: give its name")
    check_name(name)
    data_folder = os.environ.get("REGARD_DATA")
    folder = Path(data_folder).expanduser() if data_folder else Path("data")
    for path in (Path(name).expanduser(), folder / name):
        if path.exists():
            return path
    where = (
        f"or under REGARD_DATA={data_folder}" if data_folder else "or under data (REGARD_DATA may name another folder)"
    )
    raise ValueError(f"no file {name} here {where}: {describe_source(name) or 'check the path'}")


def check_name(name: str) -> None:
    """Raise ValueError for a name that is not valid Unicode, since neither run records nor messages could show it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = name.encode(errors="backslashreplace").decode()
        raise ValueError(f"{shown}: this name is not UTF-8, rename it first") from None


def find_file(name: str) -> Path:
    """Return the regular file of this name, found as `find_path` does."""
    path = find_path(name)
    if not path.is_file():
        raise ValueError(f"{name} is not a regular file: give the path of a text, TSV, JSONL or .gz file")
    return path


def guess_encoding(data: bytes) -> str | None:
    """Guess the encoding of bytes that are not UTF-8, by its name in iconv; None if it is unclear."""
    for mark, name in MARKS.items():
        if data.startswith(mark):
            return name
    for first, name in ((0, "UTF-16BE"), (1, "UTF-16LE")):
        if len(data) >= 8 and data[first::2].count(0) > 0.9 * len(data[first::2]) and not data[1 - first :: 2].count(0):
            return name
    high = bytes(byte for byte in data if byte >= 0x80)
    if re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", data):  # text has no such control characters
        return None
    lone = re.search(rb"[\x80-\xff]{4}|\xed[\xa0-\xbf][\x80-\xbf]", data) is None  # accented letters stand alone
    return "WINDOWS-1252" if high and lone and not high.translate(None, WESTERN) else None


def hint(data: bytes, name: str = "FILE") -> str:
    """Return the guessed encoding with the command that converts it, or an empty string."""
    encoding = guess_encoding(data)
    label = "Latin-1" if encoding == "WINDOWS-1252" else encoding
    return f"it looks like {label}: iconv -f {encoding} -t UTF-8 {shlex.quote(name)}" if encoding else ""


def hint_of(name: str) -> str:
    """Return the hint for a file; empty if it cannot be read, or its first bytes are UTF-8."""
    try:
        with find_file(name).open("rb") as file:
            lines = file.read(HEAD).split(b"\n")
    except (OSError, ValueError):
        return ""
    bad = b"\n".join(line for line in lines[: -1 if len(lines) > 1 else None] if not _decodes(line))
    return hint(bad, name)


def _decodes(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
