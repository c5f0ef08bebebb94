"""SentencePiece (Kudo and Richardson 2018) and llama2.c vocabularies, parsed from their bytes without their libraries.

A SentencePiece model is one Protocol Buffers message: pieces with a score and a type, how the model was trained, and
how texts are normalised. Only the fields that affect tokens are read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

from regard.data.tokenizers.charsmap import check_charsmap

MOST = 1_000_000  # pieces of a vocabulary
LONGEST = 1024  # bytes of a piece
VARINT, WIDE, BYTES, NARROW = 0, 1, 2, 5  # wire types of Protocol Buffers
ALGORITHMS: dict[int, Literal["unigram", "bpe"]] = {1: "unigram", 2: "bpe"}
BLANK = "▁"
"""The sign that stands for a blank inside pieces."""


class Type(IntEnum):
    """The type of a piece."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Piece:
    """One token of a vocabulary."""

    name: str
    score: float = 0.0
    type: Type = Type.NORMAL


@dataclass(frozen=True)
class Pieces:
    """A vocabulary and how texts are split into its pieces."""

    pieces: list[Piece]
    algorithm: Literal["unigram", "bpe"] = "unigram"
    spelling: bool = False
    """Whether a character without a piece is spelled in bytes."""
    charsmap: bytes = field(default=b"", repr=False)
    """Which characters are replaced before all else; empty for none."""
    prefix: bool = True
    """Whether a text gets a blank in front."""
    squeeze: bool = True
    """Whether blanks around a text and repeated ones are dropped."""
    suffix: bool = False
    """Whether the sign of a blank belongs to the word before it."""

    @property
    def unknown_id(self) -> int:
        """Return the id of the unknown piece."""
        return next(id for id, piece in enumerate(self.pieces) if piece.type is Type.UNKNOWN)


def parse(data: bytes) -> Pieces:
    """Parse a SentencePiece model, or raise ValueError with what is wrong."""
    pieces: list[Piece] = []
    trainer: dict[int, Any] = {}
    normaliser: dict[int, Any] = {}
    for number, value in _fields(data):
        if number == 1:
            pieces.append(_parse_piece(_message(value)))
            if len(pieces) > MOST:
                raise ValueError(f"more than {MOST:,} pieces")
        elif number in (2, 3):
            (trainer if number == 2 else normaliser).update(_fields(_message(value)))
    algorithm = _whole_number(trainer, 3, 1)
    if algorithm not in ALGORITHMS:
        raise ValueError(f"its algorithm is number {algorithm}, and only unigram (1) and byte pairs (2) can be read")
    if not _whole_number(normaliser, 5, 1):
        raise ValueError("blanks are not escaped in it, which cannot be read")
    charsmap = normaliser.get(2, b"")
    check_charsmap(_message(charsmap))
    return check_pieces(
        Pieces(
            pieces,
            ALGORITHMS[algorithm],
            spelling=bool(_whole_number(trainer, 35, 0)),
            charsmap=charsmap,
            prefix=bool(_whole_number(normaliser, 3, 1)),
            squeeze=bool(_whole_number(normaliser, 4, 1)),
            suffix=bool(_whole_number(trainer, 24, 0)),
        )
    )


def parse_llama2c(data: bytes) -> Pieces:
    """Parse llama2.c's tokenizer.bin: the length of the longest piece, then score, length and bytes of each."""
    pieces: list[Piece] = []
    place = 4
    while place < len(data):
        if len(data) - place < 8:
            raise ValueError("it ends in the middle of a piece")
        score, length = struct.unpack_from("<fi", data, place)
        place += 8
        if not 0 <= length <= min(LONGEST, len(data) - place):
            raise ValueError(f"piece {len(pieces):,} has a length of {length:,} bytes")
        pieces.append(_llama2c_piece(_name(data[place : place + length]), score, len(pieces)))
        place += length
        if len(pieces) > MOST:
            raise ValueError(f"more than {MOST:,} pieces")
    return check_pieces(Pieces(pieces, "bpe", spelling=True, squeeze=False))


def check_pieces(vocabulary: Pieces) -> Pieces:
    """Return the vocabulary if it has one unknown piece, no duplicates, and all bytes if it uses byte fallback."""
    names = {piece.name for piece in vocabulary.pieces}
    if len(names) < len(vocabulary.pieces):
        earlier: set[str] = set()
        twice = next(piece.name for piece in vocabulary.pieces if piece.name in earlier or earlier.add(piece.name))  # type: ignore[func-returns-value]
        raise ValueError(f"the piece {twice[:60]!r} is there twice")
    unknown = [piece for piece in vocabulary.pieces if piece.type is Type.UNKNOWN]
    if len(unknown) != 1:
        raise ValueError(f"{len(unknown)} pieces stand for the unknown, and one must")
    spelled = {f"<0x{byte:02X}>" for byte in range(256)}
    if vocabulary.spelling and not spelled <= names:
        raise ValueError(f"the piece {min(spelled - names)} is missing, and it spells with bytes")
    return vocabulary


def _parse_piece(data: bytes) -> Piece:
    values = dict(_fields(data))
    score = values.get(2, 0.0)
    kind = _whole_number(values, 3, 1)
    name = _name(_message(values.get(1, b"")))
    if not isinstance(score, float) or not math.isfinite(score):
        raise ValueError(f"the score of {name[:60]!r} is no finite number")
    if kind not in set(Type):
        raise ValueError(f"the piece {name[:60]!r} is of type {kind}, which is unknown")
    return Piece(name, score, Type(kind))


def _llama2c_piece(name: str, score: float, number: int) -> Piece:
    """Return a llama2.c piece, which has no type: the first three are unknown, begin and end, then come the bytes.

    Its models were trained on texts with a begin token and no end token, so that a text ends at the next begin token.
    """
    if not math.isfinite(score):
        raise ValueError(f"the score of {name[:60]!r} is no finite number")
    if number < 3:
        unused = "NOTUSED" if number == 2 else ""
        return Piece(name.strip() + unused, 0.0, Type.UNKNOWN if number == 0 else Type.CONTROL)
    byte = number - 3
    if byte < 256 and name in (
        spelled := f"<0x{byte:02X}>",
        chr(byte),
    ):  # early files have the character itself
        return Piece(spelled, 0.0, Type.BYTE)
    return Piece(name.replace(" ", BLANK), score)


def _name(data: bytes) -> str:
    if not 0 < len(data) <= LONGEST:
        raise ValueError(f"a piece is {len(data):,} bytes long, and 1 to {LONGEST:,} are possible")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"the piece {data[:60]!r} is not UTF-8") from None


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: their number, and bytes, a whole number, or a float."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            whole, place = _varint(data, place)
            yield number, whole
            continue
        if wire not in (WIDE, BYTES, NARROW) or not number:
            raise ValueError(f"it is no SentencePiece model: byte {place:,} begins no field")
        length = 8 if wire == WIDE else 4
        if wire == BYTES:
            length, place = _varint(data, place)
        if length > len(data) - place:
            raise ValueError("it ends in the middle of a field")
        value = data[place : place + length]
        yield number, struct.unpack("<f", value)[0] if wire == NARROW else value
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Decode a varint of up to 64 bits, and return it with the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it ends in the middle of a number")
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError(f"it is no SentencePiece model: the number before byte {place:,} has no end")


def _message(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("it is no SentencePiece model: a field is of another kind than it should be")
    return value


def _whole_number(message: dict[int, Any], number: int, default: int) -> int:
    value = message.get(number, default)
    if not isinstance(value, int):
        raise ValueError("it is no SentencePiece model: a field is of another kind than it should be")
    return value
