"""Files of SentencePiece and llama2.c, written for tests by the field numbers of their formats."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from regard.interop.sentencepiece import Piece, Type

UNKNOWN, BEGIN, END = (
    Piece("<unk>", 0.0, Type.UNKNOWN),
    Piece("<s>", 0.0, Type.CONTROL),
    Piece("</s>", 0.0, Type.CONTROL),
)
BYTES = [Piece(f"<0x{byte:02X}>", 0.0, Type.BYTE) for byte in range(256)]


def model(
    pieces: Iterable[Piece],
    *,
    bpe: bool = False,
    byte_fallback: bool = False,
    charsmap: bytes = b"",
    prefix: bool = True,
    squeeze: bool = True,
) -> bytes:
    """A SentencePiece model, made by the messages that `transformers` brings along."""
    from transformers.utils import sentencepiece_model_pb2_new as messages

    made = messages.ModelProto()
    for each in pieces:
        made.pieces.add(piece=each.name, score=each.score, type=int(each.type))
    made.trainer_spec.model_type = 2 if bpe else 1
    made.trainer_spec.byte_fallback = byte_fallback
    made.trainer_spec.input.append("text.txt")
    made.normalizer_spec.name = "test"
    made.normalizer_spec.precompiled_charsmap = charsmap
    made.normalizer_spec.add_dummy_prefix = prefix
    made.normalizer_spec.remove_extra_whitespaces = squeeze
    return made.SerializeToString()


def llama2c(pieces: Iterable[Piece], *, early: bool = False) -> bytes:
    """A tokenizer.bin; early ones had the character of a byte's number instead of <0x0A>."""
    data = b""
    longest = 0
    for number, piece in enumerate(pieces):
        name = f"\n{piece.name}\n" if piece.type is Type.CONTROL else piece.name.replace("▁", " ")
        raw = (chr(number - 3) if early and piece.type is Type.BYTE else name).encode()
        longest = max(longest, len(raw))
        data += struct.pack("<fi", piece.score, len(raw)) + raw
    return struct.pack("<i", longest) + data


def charsmap(replacements: Mapping[str, str]) -> bytes:
    """A map of characters as a double array over UTF-8, every node with a block of its own."""
    trie: dict[int, dict] = {}
    texts, places = b"", {}
    for old, new in replacements.items():
        places[old] = len(texts)
        texts += new.encode() + b"\0"
        node = trie
        for byte in old.encode():
            node = node.setdefault(byte, {})
        node[0] = places[old]
    units = [0] * 256

    def place(node: dict, at: int) -> None:
        base = len(units)
        units.extend([0] * 256)
        offset = at ^ base
        assert offset < 1 << 21
        units[at] |= offset << 10 | (256 if 0 in node else 0)
        for byte, inner in node.items():
            if byte == 0:
                units[base] = 1 << 31 | inner
            else:
                units[base ^ byte] |= byte
                place(inner, base ^ byte)

    place(trie, 0)
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + texts
