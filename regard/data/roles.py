"""What the tokens of a tokenizer are for and what text they stand for, whoever made it: special tokens and surfaces."""

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
    """The token of each role, None where there is none."""
    special = {token.content: id for id, token in engine.get_added_tokens_decoder().items() if token.special}
    by_role = {role: next((special[name] for name in names if name in special), None) for role, names in ROLES.items()}
    unknown_token = getattr(engine.model, "unk_token", None)
    if by_role["unknown"] is None and unknown_token is not None:
        by_role["unknown"] = engine.token_to_id(unknown_token)
    return by_role


def language_of_tag(name: str) -> str | None:
    """The language that a token asks for: <2fr> is one of ours, >>fr<< one of Marian's."""
    match = re.fullmatch(r"<2(.+)>|>>(.+)<<", name)
    return match and (match[1] or match[2])


def token_surface(engine: Engine) -> Callable[[str], bytes]:
    """How a token's name is read: the bytes of text it stands for, with the blank before a word in front.

    Byte-level tokenizers (GPT-2, ours) have a sign for every byte, WordPiece (BERT) marks what continues a word,
    SentencePiece (T5, Llama) marks the blank before one.
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
    """A sign inside the names of tokens, and the text it stands for."""
    if part["type"] == "Replace":
        pattern = part["pattern"].get("String")
        return None if pattern is None else (str(pattern), str(part["content"]))
    sign = {"Metaspace": "replacement", "BPEDecoder": "suffix"}.get(part["type"])
    return None if sign is None else (str(part[sign]), " ")


def blank_between(engine: Engine) -> str:
    """What stands between the tokens of a closed list: a blank between words, nothing between characters."""
    return " " if any(part["type"].startswith("Whitespace") for part in _component_steps(engine.pre_tokenizer)) else ""


def by_character(engine: Engine) -> bool:
    """Whether a text is composed (NFC) and cut between any two characters, as in our closed lists of them."""
    composed = _component_steps(engine.normalizer) == [{"type": "NFC"}]
    return (
        composed
        and [part["type"] for part in _component_steps(engine.pre_tokenizer)] == ["Split", "ByteLevel"]
        and (_component_steps(engine.pre_tokenizer)[0]["pattern"] == {"Regex": CHARACTER})
    )


def _component_steps(component: Any) -> list[dict[str, Any]]:
    """The steps of a normaliser, pre-tokenizer or decoder."""
    if component is None:
        return []
    state = json.loads(component.__getstate__())
    return [step for name in ("pretokenizers", "decoders") for step in state.get(name, [])] or [state]


def _symbols() -> dict[str, int]:
    """The printable character that stands for each byte, as in GPT-2."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTES = _symbols()


def _bytes(name: str) -> bytes:
    if BYTES.keys() >= set(name):  # of nearly all tokens, and many times faster
        return bytes(map(BYTES.__getitem__, name))
    return b"".join(bytes([BYTES[symbol]]) if symbol in BYTES else symbol.encode() for symbol in name)
