"""A vocabulary of SentencePiece as the parts of a tokenizer.json, token for token as the original cuts texts."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regard.interop.sentencepiece import BLANK, Piece, Pieces, Type
from regard.interop.special import added_token

MERGES = 4_000_000
EXPRESSION = 1500  # letters of the regular expression that keeps typed names apart
NEVER = " "
"""What the name of a piece ends with that no text may become: texts have no blanks left where pieces are looked up."""


def tokenizer_parts(vocabulary: Pieces) -> dict[str, Any]:
    """Normaliser, pre-tokenizer, model, decoder and special tokens of a tokenizer.json."""
    if vocabulary.suffix:
        raise ValueError("its words end with the sign of a blank instead of beginning with it, which cannot be read")
    special = [(id, piece) for id, piece in enumerate(vocabulary.pieces) if piece.type in (Type.CONTROL, Type.UNKNOWN)]
    return {
        "added_tokens": [added_token(id, piece.name) for id, piece in special],
        "normalizer": sequence("normalizers", _normaliser_steps(vocabulary)),
        "pre_tokenizer": sequence("pretokenizers", _pre_tokenizer_steps(vocabulary)),
        "decoder": sequence("decoders", _decoder_steps(vocabulary)),
        "model": _unigram_model(vocabulary) if vocabulary.algorithm == "unigram" else _byte_pair_model(vocabulary),
    }


def sequence(name: str, steps: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Steps one after another, as a tokenizer.json says it; None for none."""
    return {"type": "Sequence", name: list(steps)} if steps else None


def add_t5_sentinels(vocabulary: Pieces, extra: int = 100) -> Pieces:
    """With the sentinels of T5 behind the vocabulary, the last one first."""
    if any(piece.name == "<extra_id_0>" for piece in vocabulary.pieces):
        return vocabulary
    sentinels = [Piece(f"<extra_id_{number}>", type=Type.CONTROL) for number in reversed(range(extra))]
    return replace(vocabulary, pieces=[*vocabulary.pieces, *sentinels])


def add_camembert_tokens(vocabulary: Pieces) -> Pieces:
    """With the four tokens that fairseq puts in front, for which the first of SentencePiece make way."""
    if vocabulary.unknown_id != 0:
        raise ValueError(f"its unknown is piece {vocabulary.unknown_id}, and CamemBERT's is the first")
    front = ["<s>NOTUSED", "<pad>", "</s>NOTUSED"]
    first = [
        *(Piece(name, type=Type.CONTROL) for name in front),
        Piece("<unk>", type=Type.UNKNOWN),
        Piece("<unk>NOTUSED", type=Type.CONTROL),
    ]
    return replace(vocabulary, pieces=[*first, *vocabulary.pieces[1:], Piece("<mask>", type=Type.CONTROL)])


def reorder_for_marian(vocabulary: Pieces, ids: Mapping[str, int], special: Sequence[str]) -> Pieces:
    """In the order of a vocabulary for both languages; what this one's pieces lack is never cut out of a text.

    A piece that the vocabulary lacks is left out, and the text is cut otherwise, where Marian would read the unknown.
    """
    if sorted(ids.values()) != list(range(len(ids))):
        raise ValueError("the ids in vocab.json are not 0, 1, 2 and so on")
    known_pieces = {
        piece.name: piece for piece in vocabulary.pieces if piece.type in (Type.NORMAL, Type.USER, Type.BYTE)
    }
    unknown = "<unk>"
    if unknown not in ids:
        raise ValueError(f"{unknown} is missing from vocab.json")

    def piece(name: str) -> Piece:
        if name == unknown:
            return Piece(name, type=Type.UNKNOWN)
        if name in special or re.fullmatch(">>.+<<", name):
            return Piece(name, type=Type.CONTROL)
        return known_pieces.get(name, Piece(name, type=Type.UNUSED))

    return replace(vocabulary, pieces=[piece(name) for name in sorted(ids, key=ids.__getitem__)])


def _normaliser_steps(vocabulary: Pieces) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    if vocabulary.charsmap:
        charsmap = base64.b64encode(vocabulary.charsmap).decode("ascii")
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if vocabulary.squeeze:
        steps += [_replace({"Regex": " {2,}"}, " "), _replace({"Regex": r"\A | \z"}, "")]
    steps += [{"type": "Prepend", "prepend": BLANK}] if vocabulary.prefix else []
    return [*steps, _replace({"String": " "}, BLANK)]


def _pre_tokenizer_steps(vocabulary: Pieces) -> list[dict[str, Any]]:
    """Where a text is cut before pieces are looked for: between words, around symbols, inside names of others.

    A symbol that a user defined is always a piece. Names of what stands for no text are never one, since who types
    `</s>` types four characters; but the model of `tokenizers` knows no types.
    """
    text = {piece.name for piece in vocabulary.pieces if piece.type in (Type.NORMAL, Type.USER)}
    between = BLANK in text and not any(BLANK in name[1:] for name in text)  # no piece reaches into the next word
    cuts = [_split({"String": BLANK}, "MergedWithNext")] if between else []
    symbols = _symbols(vocabulary)
    if symbols:
        cuts.append(_split({"Regex": _expression(map(re.escape, symbols))}, "Isolated"))
    if vocabulary.algorithm == "unigram" or symbols:
        apart = (Type.CONTROL, Type.UNKNOWN, Type.BYTE)
        names = [piece.name for piece in vocabulary.pieces if piece.type in apart and len(piece.name) > 1]
        cuts.append(_split({"Regex": _expression(map(_inside, names))}, "MergedWithPrevious"))
    return cuts


def _symbols(vocabulary: Pieces) -> list[str]:
    """Symbols that byte pairs cannot join, the longest first; the unigram model prefers them by their score."""
    names = [piece.name for piece in vocabulary.pieces if piece.type is Type.USER and vocabulary.algorithm == "bpe"]
    return sorted(names, key=len, reverse=True)


def _inside(name: str) -> str:
    """The first character of a name, where the others follow; all numbers are as one, so that many names are few."""
    if re.fullmatch("<0x[0-9A-F]{2}>", name):
        return "<(?=0x[0-9A-F]{2}>)"
    return f"{re.escape(name[0])}(?={re.sub('[0-9]+', '[0-9]+', re.escape(name[1:]))})"


def _expression(arms: Iterable[str]) -> str:
    """One regular expression for several."""
    expression = "|".join(dict.fromkeys(arms))
    if len(expression) > EXPRESSION:
        raise ValueError("too many of its pieces are control or user-defined symbols")
    return expression


def _decoder_steps(vocabulary: Pieces) -> list[dict[str, Any]]:
    unused = any(piece.type is Type.UNUSED for piece in vocabulary.pieces)
    steps = [_replace({"String": NEVER}, "")] if unused else []
    steps.append(_replace({"String": BLANK}, " "))
    steps += [{"type": "ByteFallback"}] if vocabulary.spelling else []
    steps.append({"type": "Fuse"})
    return [*steps, {"type": "Strip", "content": " ", "start": 1, "stop": 0}] if vocabulary.prefix else steps


def _unigram_model(vocabulary: Pieces) -> dict[str, Any]:
    vocab = [[_name(piece), piece.score if piece.type is Type.NORMAL else 0.0] for piece in vocabulary.pieces]
    return {"type": "Unigram", "unk_id": vocabulary.unknown_id, "vocab": vocab, "byte_fallback": vocabulary.spelling}


def _byte_pair_model(vocabulary: Pieces) -> dict[str, Any]:
    """Every way to join two pieces into a third is a merge, and the highest score goes first."""
    ids = {piece.name: id for id, piece in enumerate(vocabulary.pieces) if piece.type is Type.NORMAL}
    merges: list[tuple[float, int, int, str, str]] = []
    for piece in vocabulary.pieces:
        if piece.type is not Type.NORMAL:
            continue
        name = piece.name
        for place in range(1, len(name)):
            first, second = name[:place], name[place:]
            if first in ids and second in ids:
                merges.append((-piece.score, ids[first], ids[second], first, second))
        if len(merges) > MERGES:
            raise ValueError(f"more than {MERGES:,} merges of its pieces are possible")
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": vocabulary.pieces[vocabulary.unknown_id].name,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": vocabulary.spelling,
        "ignore_merges": bool(_symbols(vocabulary)),
        "vocab": {_name(piece): id for id, piece in enumerate(vocabulary.pieces)},
        "merges": [[first, second] for *_, first, second in sorted(merges)],
    }


def _name(piece: Piece) -> str:
    return piece.name + NEVER if piece.type is Type.UNUSED else piece.name


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _split(pattern: dict[str, str], behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}
