"""Files that are no UTF-8: what they look like, and the command that makes UTF-8 of them."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from regard.data.public_sets import describe_source

SURROGATE = "a text holds a lone surrogate, which no file can: decode it as UTF-8 first"
HEAD = 1 << 16  # bytes of a file that are looked at
MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
# Letters and signs of Western Europe but Ã and Â, with which characters in damaged UTF-8 begin.
WESTERN = "àâäáåçéèêëíìîïñóòôöõøúùûüýßæœÀÄÁÅÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØÚÙÛÜÝÆŒ«»°€‘’“”–—…¿¡\u00a0".encode("cp1252")


def encode_text(text: str) -> bytes:
    """A text as UTF-8; one that cannot be written so is an error."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(SURROGATE) from None


def find_path(name: str) -> Path:
    """The file or folder of this name, looked for as given, under the folder REGARD_DATA, or else under `data`."""
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
    """Stop at a name that is no text, which neither a record of the run nor a message could repeat."""
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = name.encode(errors="backslashreplace").decode()
        raise ValueError(f"{shown}: this name is not UTF-8, rename it first") from None


def find_file(name: str) -> Path:
    """The same where it must be a file."""
    path = find_path(name)
    if not path.is_file():
        raise ValueError(f"{name} is not a regular file: give the path of a text, TSV, JSONL or .gz file")
    return path


def guess_encoding(data: bytes) -> str | None:
    """What text that is no UTF-8 seems to be in, by the name that iconv knows; None where nothing tells."""
    for mark, name in MARKS.items():
        if data.startswith(mark):
            return name
    for first, name in ((0, "UTF-16BE"), (1, "UTF-16LE")):
        if len(data) >= 8 and data[first::2].count(0) > 0.9 * len(data[first::2]) and not data[1 - first :: 2].count(0):
            return name
    high = bytes(byte for byte in data if byte >= 0x80)
    if re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", data):  # no text has such control characters
        return None
    lone = re.search(rb"[\x80-\xff]{4}|\xed[\xa0-\xbf][\x80-\xbf]", data) is None  # letters with accents stand alone
    return "WINDOWS-1252" if high and lone and not high.translate(None, WESTERN) else None


def hint(data: bytes, name: str = "FILE") -> str:
    """A few words on what text that is no UTF-8 seems to be in and how to convert it, or none."""
    encoding = guess_encoding(data)
    label = "Latin-1" if encoding == "WINDOWS-1252" else encoding
    return f"it looks like {label}: iconv -f {encoding} -t UTF-8 {shlex.quote(name)}" if encoding else ""


def hint_of(name: str) -> str:
    """The same for a file; nothing for one that cannot be read, or is UTF-8 where one looks."""
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
