"""Conversion of a SentencePiece vocabulary to the parts of a tokenizer.json that gives the same tokens."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regard.interop.sentencepiece import BLANK, Piece, Pieces, Type
from regard.interop.special import added_token

MERGES = 4_000_000
EXPRESSION = 1500  # characters of the regular expression that splits typed names of special tokens
NEVER = " "
"""What the name of a piece ends with that no text may become: texts have no blanks left where pieces are looked up."""


def tokenizer_parts(vocabulary: Pieces) -> dict[str, Any]:
    """Return normaliser, pre-tokenizer, model, decoder and special tokens of a tokenizer.json."""
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
    """Return several steps as one part of a tokenizer.json; None if there are none."""
    return {"type": "Sequence", name: list(steps)} if steps else None


def add_t5_sentinels(vocabulary: Pieces, extra: int = 100) -> Pieces:
    """Append T5's sentinels to the vocabulary, the last one first."""
    if any(piece.name == "<extra_id_0>" for piece in vocabulary.pieces):
        return vocabulary
    sentinels = [Piece(f"<extra_id_{number}>", type=Type.CONTROL) for number in reversed(range(extra))]
    return replace(vocabulary, pieces=[*vocabulary.pieces, *sentinels])


def add_camembert_tokens(vocabulary: Pieces) -> Pieces:
    """Add the tokens that fairseq puts before SentencePiece's vocabulary, in place of its first one, and the mask."""
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
    """Reorder the pieces by the ids of a vocabulary shared by both languages.

    A piece that the vocabulary lacks is left out, so that the text is split otherwise, where Marian would read an
    unknown token. Tokens of the vocabulary that are no pieces here are never the result of tokenising a text.
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
    """Return the splits before pieces are looked up: between words, around symbols, inside the names of special tokens.

    A user-defined symbol is always one piece. The name of a special token never is, since a typed `</s>` is four
    characters; but the models of `tokenizers` have no types of pieces.
    """
    text = {piece.name for piece in vocabulary.pieces if piece.type in (Type.NORMAL, Type.USER)}
    between = BLANK in text and not any(BLANK in name[1:] for name in text)  # no piece spans two words
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
    """Return the user-defined symbols of a BPE vocabulary, longest first; the unigram model prefers them by score."""
    names = [piece.name for piece in vocabulary.pieces if piece.type is Type.USER and vocabulary.algorithm == "bpe"]
    return sorted(names, key=len, reverse=True)


def _inside(name: str) -> str:
    """Match the first character of a name before the rest; names that differ in numbers share a pattern."""
    if re.fullmatch("<0x[0-9A-F]{2}>", name):
        return "<(?=0x[0-9A-F]{2}>)"
    return f"{re.escape(name[0])}(?={re.sub('[0-9]+', '[0-9]+', re.escape(name[1:]))})"


def _expression(arms: Iterable[str]) -> str:
    """Join several regular expressions into one."""
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
    """Return a BPE model in which every way to join two pieces into a third is a merge, the highest score first."""
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
