"""Tokenizer files of other libraries, converted to the text of a tokenizer.json."""

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
from regard.interop.folder import VOCABULARY, is_there, read_file, read_json_object
from regard.interop.pieces import add_camembert_tokens, add_t5_sentinels, reorder_for_marian, tokenizer_parts
from regard.interop.sentencepiece import Pieces
from regard.interop.special import WHOLE, Notes, check_ids, frame, list_special_tokens, notes
from regard.interop.tokenizer_settings import follow_settings
from regard.interop.tokenizer_trial import try_tokenizer

T = TypeVar("T")
LARGEST = 1 << 26  # bytes of a tokenizer.json, a vocabulary or a list of merges
LARGEST_MODEL = 1 << 24  # bytes of a SentencePiece model
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
    """Return the text of a tokenizer.json for the tokenizer of a folder with this `model_type`.

    `target` selects the tokenizer of the target language, where it has its own pieces (Marian).
    """
    try:
        token_notes = notes(folder)
        document = _document(folder, kind, token_notes, target=target)
        check_added_tokens(document)
        list_special_tokens(document, token_notes, SPECIAL.get(kind, ()))
        document.setdefault("post_processor", frame(document, kind))
        follow_settings(document, token_notes, kind, folder)
        text = json.dumps(document, ensure_ascii=False)
        origin = folder / WHOLE if is_there(folder / WHOLE) else folder
        _prefix_errors(origin, lambda: _check_whole(document, text))
    except RecursionError:
        raise ValueError(f"{folder}: its tokenizer is nested too deeply") from None
    except ValueError as error:
        line = " ".join(str(error).split())
        raise ValueError(line if line.startswith(str(folder)) else f"{folder}: {line}") from None
    return text


def _check_whole(document: dict[str, Any], text: str) -> None:
    """Raise ValueError for a tokenizer that is inconsistent, or that the library cannot use safely."""
    check_charsmaps(document.get("normalizer"))
    check_merges(document["model"])
    refuse_explosive(document)
    try_tokenizer(text)
    Tokenizer.parse(text)


def _document(folder: Path, kind: str, token_notes: Notes, *, target: bool) -> dict[str, Any]:
    """Return a tokenizer.json from the most exact of the files that exist, without truncation and padding."""
    empty = {"version": "1.0", "truncation": None, "padding": None}
    if is_there(folder / WHOLE):
        return {**read_json_object(folder / WHOLE, LARGEST), **empty}
    if is_there(folder / SOURCE):
        return {**empty, **_one_side(folder, TARGET if target else SOURCE)}
    for name in MODELS:
        if is_there(folder / name):
            return {**empty, **_sentencepiece_parts(folder / name, kind, token_notes)}
    if is_there(folder / "vocab.json"):
        vocab, merges = _vocabulary(folder / "vocab.json"), _merges(folder / "merges.txt")
        return {
            **empty,
            **(_first_pairs(vocab, merges) if kind == "openai-gpt" else _byte_pairs(vocab, merges, token_notes)),
        }
    if is_there(folder / "vocab.txt"):
        return {**empty, **_word_pieces(folder / "vocab.txt", token_notes)}
    readable = ", ".join((WHOLE, "vocab.json with merges.txt", "vocab.txt", SOURCE, *MODELS[:-1]))
    raise ValueError(f"{folder}: has no tokenizer; known are {readable} and llama2.c's {VOCABULARY}")


def _sentencepiece_parts(path: Path, kind: str, token_notes: Notes) -> dict[str, Any]:
    """Return the parts from a SentencePiece model or a llama2.c vocabulary."""
    vocabulary = _read_pieces(path)
    if kind == "t5":
        extra = token_notes.settings.get("extra_ids", 100)
        if type(extra) is not int or not 0 <= extra <= 10_000:
            raise ValueError(f"extra_ids must be a number of sentinels, not {as_json(extra)}")
        vocabulary = add_t5_sentinels(vocabulary, extra)
    elif kind == "camembert":
        vocabulary = add_camembert_tokens(vocabulary)
    return _prefix_errors(path, lambda: tokenizer_parts(vocabulary))


def _one_side(folder: Path, name: str) -> dict[str, Any]:
    """Return the parts from Marian's pieces of one language and the ids shared by both."""
    vocabulary, ids = _read_pieces(folder / name), _vocabulary(folder / "vocab.json")
    return _prefix_errors(
        folder / name, lambda: tokenizer_parts(reorder_for_marian(vocabulary, ids, SPECIAL["marian"]))
    )


def _read_pieces(path: Path) -> Pieces:
    parse = sentencepiece.parse_llama2c if path.name == VOCABULARY else sentencepiece.parse
    return _prefix_errors(path, lambda: parse(read_file(path, LARGEST_MODEL)))


def _byte_pairs(vocab: dict[str, int], merges: list[list[str]], token_notes: Notes) -> dict[str, Any]:
    """Return the parts of GPT-2 and RoBERTa: byte-level BPE."""
    prefix = token_notes.flag("add_prefix_space", False)
    level = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": False, "use_regex": True}
    return {"normalizer": None, "pre_tokenizer": level, "decoder": level, "model": _byte_pair_model(vocab, merges)}


def _first_pairs(vocab: dict[str, int], merges: list[list[str]]) -> dict[str, Any]:
    """Return the parts of GPT-1: BPE over lowercase letters, with a mark at the end of every word."""
    return {
        "normalizer": _bert_normaliser(lowercase=True, accents=None, chinese=True),
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
        "model": {**_byte_pair_model(vocab, merges), "unk_token": "<unk>", "end_of_word_suffix": "</w>"},
    }


def _byte_pair_model(vocab: dict[str, int], merges: list[list[str]]) -> dict[str, Any]:
    affixes = {"continuing_subword_prefix": "", "end_of_word_suffix": ""}
    settings = {"dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {"type": "BPE", **settings, **affixes, "vocab": vocab, "merges": merges}


def _word_pieces(path: Path, token_notes: Notes) -> dict[str, Any]:
    """Return the parts of BERT: WordPiece, the longest match first.

    Without a do_lower_case setting, texts are lowercased if the vocabulary has no capitals outside names such as [CLS].
    """
    lines = _lines(path)
    vocab = {name: id for id, name in enumerate(lines)}
    if len(vocab) < len(lines):
        twice = next(name for id, name in enumerate(lines) if vocab[name] != id)
        raise ValueError(f"{path}: {as_json(twice)} is there twice")
    capitals = any(name != name.lower() for name in lines if not re.fullmatch(r"\[.+\]", name))
    unknown = token_notes.settings.get("unk_token") or "[UNK]"
    return {
        "normalizer": _bert_normaliser(
            lowercase=token_notes.flag("do_lower_case", not capitals),
            accents=None
            if token_notes.settings.get("strip_accents") is None
            else token_notes.flag("strip_accents", False),
            chinese=token_notes.flag("tokenize_chinese_chars", True),
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


def _bert_normaliser(*, lowercase: bool, accents: bool | None, chinese: bool) -> dict[str, Any]:
    """Return BERT's normaliser; if `accents` is None, accents are removed together with capitals."""
    flags = {"clean_text": True, "handle_chinese_chars": chinese, "strip_accents": accents, "lowercase": lowercase}
    return {"type": "BertNormalizer", **flags}


def _vocabulary(path: Path) -> dict[str, int]:
    ids = read_json_object(path, LARGEST)
    return _prefix_errors(path, lambda: check_ids(ids))


def _merges(path: Path) -> list[list[str]]:
    """Read the merges in order; the first line may be a version."""
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
    """Return the lines of a text file; only a line feed ends one."""
    try:
        lines = read_file(path, LARGEST).decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8, byte {error.start:,}") from None
    return lines[:-1] if not lines[-1] else lines


def _prefix_errors(path: Path, action: Callable[[], T]) -> T:
    """Return the result of an action, with the path in front of its errors."""
    try:
        return action()
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from None
