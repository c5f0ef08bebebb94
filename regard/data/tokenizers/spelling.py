"""Readable text of tokens."""

from __future__ import annotations

import re


class Spelled(dict[int, str]):
    """A mapping from tokens to readable text, computed on first access."""

    def __init__(self, names: dict[int, str], spellings: dict[int, bytes | None]) -> None:
        super().__init__()
        self._names, self._found = names, spellings

    def __missing__(self, id: int) -> str:
        piece = self._found.get(id)
        self[id] = text = self._names.get(id, f"<{id}>") if piece is None else _printable(piece)
        return text


def _printable(piece: bytes) -> str:
    text = piece.decode("utf-8", "surrogateescape")
    return re.sub("[\udc80-\udcff]", lambda match: f"<0x{ord(match[0]) - 0xDC00:02X}>", text)
