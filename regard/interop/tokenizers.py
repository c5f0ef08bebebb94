"""Other people's tokenizer files, each kind of them as the text of one tokenizer.json."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from regard.config.words import as_json
from regard.data.tokenizers import Tokenizer, refuse_explosive
from regard.data.tokenizers.charsmap import check_charsmaps
from regard.data.tokenizers.limits import check_added_tokens, check_merges
from regard.interop import sentencepiece
from regard.interop.folder import VOCABULARY, is_there, mapping, read_file
from regard.interop.pieces import for_camembert, for_marian, for_t5, parts
from regard.interop.sentencepiece import Pieces
from regard.interop.special import WHOLE, Notes, frame, mark, notes, numbered
from regard.interop.tokenizer_settings import follow_settings
from regard.interop.tokenizer_trial import try_tokenizer

T = TypeVar("T")
LARGEST = 1 << 26  # bytes of a tokenizer.json, a vocabulary or a list of merges
LARGEST_MODEL = 1 << 24  # bytes of a model of SentencePiece
SOURCE, TARGET = "source.spm", "target.spm"
MODELS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", VOCABULARY)
SPECIAL: Mapping[str, tuple[str, ...]] = {
    "gpt2": ("<|endoftext|>",),
    "openai-gpt": ("<unk>",),
    "bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "distilbert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "roberta": ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
    "marian": ("</s>", "<unk>", "<pad>"),
}
"""Tokens that stand for no text, even where no other file names them; SentencePiece names them itself."""


def read(folder: Path, *, kind: str, target: bool = False) -> str:
    """The text of a tokenizer.json for the tokenizer in a folder of this `model_type`.

    `target` asks for the side that is written, where it has pieces of its own (Marian).
    """
    try:
        said = notes(folder)
        document = _document(folder, kind, said, target=target)
        check_added_tokens(document)
        mark(document, said, SPECIAL.get(kind, ()))
        document.setdefault("post_processor", frame(document, kind))
        follow_settings(document, said, kind, folder)
        text = json.dumps(document, ensure_ascii=False)
        made = folder / WHOLE if is_there(folder / WHOLE) else folder
        _placed(made, lambda: _check_whole(document, text))
    except RecursionError:
        raise ValueError(f"{folder}: its tokenizer is nested too deeply") from None
    except ValueError as error:
        line = " ".join(str(error).split())
        raise ValueError(line if line.startswith(str(folder)) else f"{folder}: {line}") from None
    return text


def _check_whole(document: dict[str, Any], text: str) -> None:
    """Refuse a tokenizer that is inconsistent, or that the library cannot use without harm."""
    check_charsmaps(document.get("normalizer"))
    check_merges(document["model"])
    refuse_explosive(document)
    try_tokenizer(text)
    Tokenizer.parse(text)


def _document(folder: Path, kind: str, said: Notes, *, target: bool) -> dict[str, Any]:
    """A tokenizer.json from whatever files there are, the most exact first; texts are never cut or filled up."""
    empty = {"version": "1.0", "truncation": None, "padding": None}
    if is_there(folder / WHOLE):
        return {**mapping(folder / WHOLE, LARGEST), **empty}
    if is_there(folder / SOURCE):
        return {**empty, **_one_side(folder, TARGET if target else SOURCE)}
    for name in MODELS:
        if is_there(folder / name):
            return {**empty, **_pieces(folder / name, kind, said)}
    if is_there(folder / "vocab.json"):
        vocab, merges = _vocabulary(folder / "vocab.json"), _merges(folder / "merges.txt")
        return {**empty, **(_first_pairs(vocab, merges) if kind == "openai-gpt" else _byte_pairs(vocab, merges, said))}
    if is_there(folder / "vocab.txt"):
        return {**empty, **_word_pieces(folder / "vocab.txt", said)}
    known = ", ".join((WHOLE, "vocab.json with merges.txt", "vocab.txt", SOURCE, *MODELS[:-1]))
    raise ValueError(f"{folder}: has no tokenizer; known are {known} and llama2.c's {VOCABULARY}")


def _pieces(path: Path, kind: str, said: Notes) -> dict[str, Any]:
    """Parts from SentencePiece, or from llama2.c's vocabulary."""
    found = _model(path)
    if kind == "t5":
        extra = said.settings.get("extra_ids", 100)
        if type(extra) is not int or not 0 <= extra <= 10_000:
            raise ValueError(f"extra_ids must be a number of sentinels, not {as_json(extra)}")
        found = for_t5(found, extra)
    elif kind == "camembert":
        found = for_camembert(found)
    return _placed(path, lambda: parts(found))


def _one_side(folder: Path, name: str) -> dict[str, Any]:
    """Parts from Marian's pieces of one language and the ids of both."""
    found, ids = _model(folder / name), _vocabulary(folder / "vocab.json")
    return _placed(folder / name, lambda: parts(for_marian(found, ids, SPECIAL["marian"])))


def _model(path: Path) -> Pieces:
    parse = sentencepiece.parse_llama2c if path.name == VOCABULARY else sentencepiece.parse
    return _placed(path, lambda: parse(read_file(path, LARGEST_MODEL)))


def _byte_pairs(vocab: dict[str, int], merges: list[list[str]], said: Notes) -> dict[str, Any]:
    """Parts of GPT-2 and RoBERTa: byte pairs over a sign for every byte."""
    prefix = said.flag("add_prefix_space", False)
    level = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": False, "use_regex": True}
    return {"normalizer": None, "pre_tokenizer": level, "decoder": level, "model": _joining(vocab, merges)}


def _first_pairs(vocab: dict[str, int], merges: list[list[str]]) -> dict[str, Any]:
    """Parts of GPT-1: byte pairs over small letters, a sign at the end of every word."""
    return {
        "normalizer": _plain(lowercase=True, accents=None, chinese=True),
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
        "model": {**_joining(vocab, merges), "unk_token": "<unk>", "end_of_word_suffix": "</w>"},
    }


def _joining(vocab: dict[str, int], merges: list[list[str]]) -> dict[str, Any]:
    affixes = {"continuing_subword_prefix": "", "end_of_word_suffix": ""}
    settings = {"dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {"type": "BPE", **settings, **affixes, "vocab": vocab, "merges": merges}


def _word_pieces(path: Path, said: Notes) -> dict[str, Any]:
    """Parts of BERT: words cut into the longest pieces.

    Where nothing says whether letters are made small, a vocabulary with a capital outside [CLS] and its like says no.
    """
    lines = _lines(path)
    vocab = {name: id for id, name in enumerate(lines)}
    if len(vocab) < len(lines):
        twice = next(name for id, name in enumerate(lines) if vocab[name] != id)
        raise ValueError(f"{path}: {as_json(twice)} is there twice")
    capitals = any(name != name.lower() for name in lines if not re.fullmatch(r"\[.+\]", name))
    unknown = said.settings.get("unk_token") or "[UNK]"
    return {
        "normalizer": _plain(
            lowercase=said.flag("do_lower_case", not capitals),
            accents=None if said.settings.get("strip_accents") is None else said.flag("strip_accents", False),
            chinese=said.flag("tokenize_chinese_chars", True),
        ),
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": unknown if isinstance(unknown, str) else "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocab,
        },
    }


def _plain(*, lowercase: bool, accents: bool | None, chinese: bool) -> dict[str, Any]:
    """BERT's normaliser: no control characters, blanks around Chinese ones; small letters lose accents unless told."""
    kept = {"clean_text": True, "handle_chinese_chars": chinese, "strip_accents": accents, "lowercase": lowercase}
    return {"type": "BertNormalizer", **kept}


def _vocabulary(path: Path) -> dict[str, int]:
    found = mapping(path, LARGEST)
    return _placed(path, lambda: numbered(found))


def _merges(path: Path) -> list[list[str]]:
    """Pairs in their order; the first line may name a version."""
    lines = _lines(path)
    merges: list[list[str]] = []
    for number, line in enumerate(lines, 1):
        pair = line.split(" ")
        if (number == 1 and line.startswith("#version")) or not line:
            continue
        if len(pair) != 2 or not all(pair):
            raise ValueError(f"{path}:{number}: expected two pieces with a blank between, not {as_json(line)}")
        merges.append(pair)
    return merges


def _lines(path: Path) -> list[str]:
    """The lines of a text file; only a line feed ends one."""
    try:
        lines = read_file(path, LARGEST).decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8, byte {error.start:,}") from None
    return lines[:-1] if not lines[-1] else lines


def _placed(path: Path, action: Callable[[], T]) -> T:
    """A result whose errors say where they come from."""
    try:
        return action()
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from None
