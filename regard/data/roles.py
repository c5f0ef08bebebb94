"""Roles of special tokens, and the text that a token stands for, for any tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import Tokenizer as Engine
from tokenizers import models

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Those of the tokenizers we train, which begin with them."""
ROLES: Mapping[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "begin": ("<bos>", "<s>", "[CLS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "end": ("<eos>", "</s>", "[SEP]", "<|end_of_text|>", "<|endoftext|>", "<s>"),
    "unknown": ("<unk>", "[UNK]"),
    "mask": ("<mask>", "[MASK]"),
    "separator": ("<sep>", "[SEP]", "</s>"),
}
"""Names that special tokens have in one family of models or another, the likeliest first."""
CHARACTER = r"[\s\S]"
"""What is cut out as one where characters are tokens."""
SPELLED = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def roles(engine: Engine) -> dict[str, int | None]:
    """Return the token of each role, None if there is none."""
    special = {token.content: id for id, token in engine.get_added_tokens_decoder().items() if token.special}
    by_role = {role: next((special[name] for name in names if name in special), None) for role, names in ROLES.items()}
    unknown_token = getattr(engine.model, "unk_token", None)
    if by_role["unknown"] is None and unknown_token is not None:
        by_role["unknown"] = engine.token_to_id(unknown_token)
    return by_role


def language_of_tag(name: str) -> str | None:
    """Return the language of a target tag: <2fr> is Regard's form, >>fr<< Marian's."""
    match = re.fullmatch(r"<2(.+)>|>>(.+)<<", name)
    return match and (match[1] or match[2])


def token_surface(engine: Engine) -> Callable[[str], bytes]:
    """Return a function from a token's name to the bytes of its text, with the blank before a word in front.

    Byte-level tokenizers (GPT-2, Regard's) have a symbol for every byte, WordPiece (BERT) marks what continues a word,
    SentencePiece (T5, Llama) marks the blank before a word.
    """
    parts = [*_component_steps(engine.decoder), *_component_steps(engine.pre_tokenizer)]
    kinds = {part["type"] for part in parts}
    if "ByteLevel" in kinds:
        return _bytes
    if isinstance(engine.model, models.WordPiece):
        mark = engine.model.continuing_subword_prefix
        return lambda name: (name.removeprefix(mark) if name.startswith(mark) else f" {name}").encode()
    marks = [replacement for part in parts if (replacement := _replacement(part)) is not None]

    def read(name: str) -> bytes:
        if "ByteFallback" in kinds and (spelled := SPELLED.fullmatch(name)):
            return bytes.fromhex(spelled[1])
        for mark, text in marks:
            name = name.replace(mark, text)
        return name.encode()

    return read


def _replacement(part: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return a symbol inside token names and the text that it stands for, or None."""
    if part["type"] == "Replace":
        pattern = part["pattern"].get("String")
        return None if pattern is None else (str(pattern), str(part["content"]))
    sign = {"Metaspace": "replacement", "BPEDecoder": "suffix"}.get(part["type"])
    return None if sign is None else (str(part[sign]), " ")


def blank_between(engine: Engine) -> str:
    """Return the separator between tokens of a closed vocabulary: a blank between words, nothing between characters."""
    return " " if any(part["type"].startswith("Whitespace") for part in _component_steps(engine.pre_tokenizer)) else ""


def by_character(engine: Engine) -> bool:
    """True if texts are normalised to NFC and split into characters, as in Regard's character tokenizers."""
    composed = _component_steps(engine.normalizer) == [{"type": "NFC"}]
    return (
        composed
        and [part["type"] for part in _component_steps(engine.pre_tokenizer)] == ["Split", "ByteLevel"]
        and (_component_steps(engine.pre_tokenizer)[0]["pattern"] == {"Regex": CHARACTER})
    )


def _component_steps(component: Any) -> list[dict[str, Any]]:
    """Return the steps of a normaliser, pre-tokenizer or decoder."""
    if component is None:
        return []
    state = json.loads(component.__getstate__())
    return [step for name in ("pretokenizers", "decoders") for step in state.get(name, [])] or [state]


def _symbols() -> dict[str, int]:
    """Return the byte of each printable symbol, as in GPT-2."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTES = _symbols()


def _bytes(name: str) -> bytes:
    if BYTES.keys() >= set(name):  # true for nearly all tokens, and many times faster
        return bytes(map(BYTES.__getitem__, name))
    return b"".join(bytes([BYTES[symbol]]) if symbol in BYTES else symbol.encode() for symbol in name)
