"""Special tokens: which ones the files beside a vocabulary name, and how a tokenizer.json lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config.words import as_json
from regard.interop.folder import is_there, read_json_object
from regard.interop.sentencepiece import MOST

LARGEST = 1 << 24  # bytes of a file with tokenizer settings
WHOLE, SETTINGS = "tokenizer.json", "tokenizer_config.json"
OLDER, ADDED = "special_tokens_map.json", "added_tokens.json"
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
MORE = ("additional_special_tokens", "extra_special_tokens")
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")
FRAMES: Mapping[str, tuple[str, str, str]] = {
    "bert": ("[CLS]", "[SEP]", ""),
    "distilbert": ("[CLS]", "[SEP]", ""),
    "roberta": ("<s>", "</s>", "</s>"),
    "camembert": ("<s>", "</s>", "</s>"),
    "t5": ("", "</s>", ""),
    "marian": ("", "</s>", ""),
    "llama": ("<s>", "", ""),
}
"""What a family puts before a text, after it, and besides between two."""


@dataclass(frozen=True)
class Notes:
    """The content of the settings files beside a vocabulary."""

    settings: dict[str, Any]
    special: tuple[str, ...]
    """Names of special tokens."""
    added: dict[int, dict[str, Any]]
    """Tokens that came later, by id: their content and flags."""

    def flag(self, name: str, default: bool) -> bool:
        """Return a setting that is true or false."""
        value = self.settings.get(name)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{SETTINGS}: {name} must be true or false, not {as_json(value)}")
        return default if value is None else value


def notes(folder: Path) -> Notes:
    """Read tokenizer_config.json and its older companions, as far as they exist."""
    there = [folder / name for name in (OLDER, SETTINGS) if is_there(folder / name)]
    settings = {name: value for place in there for name, value in read_json_object(place, LARGEST).items()}
    added = dict(_read_added_tokens(folder / ADDED)) if is_there(folder / ADDED) else {}
    added |= _by_id(settings.get("added_tokens_decoder"), folder / SETTINGS)
    tokens = [settings.get(role) for role in ROLES]
    for name in MORE:
        more = settings.get(name) or []
        if not isinstance(more, list | dict):
            raise ValueError(f"{folder / SETTINGS}: {name} must be a list, not {as_json(more)}")
        tokens += more.values() if isinstance(more, dict) else more
    names = [content(token, folder / SETTINGS) for token in tokens if token is not None]
    return Notes(settings, tuple(dict.fromkeys(names)), added)


def content(token: Any, place: str | Path) -> str:
    """Return the text of a token, which is stored as a string or as an object."""
    text = token.get("content") if isinstance(token, dict) else token
    if not isinstance(text, str) or not text:
        raise ValueError(f"{place}: a token must be a text or an object with content, not {as_json(token)}")
    return text


def list_special_tokens(document: dict[str, Any], notes: Notes, usual: tuple[str, ...]) -> None:
    """List the special tokens of a tokenizer.json, and append the added tokens to its vocabulary at their ids."""
    ids = vocabulary(document)
    vocab = document["model"]["vocab"]
    used_ids = set(ids.values())
    listed = {token["content"]: token for token in _added_tokens(document)}
    later = {token["content"]: token for token in notes.added.values()}
    for id, token in sorted(notes.added.items()):
        name = token["content"]
        if ids.get(name, listed.get(name, {}).get("id")) == id:
            continue
        if name in ids or name in listed or id in used_ids or (isinstance(vocab, list) and id != len(vocab)):
            raise ValueError(f"the added token {as_json(name)} should have id {id}, where there is no place for it")
        ids[name] = id
        if isinstance(vocab, list):
            vocab.append([name, 0.0])
        else:
            vocab[name] = id
    for name in (*usual, *notes.special, *later):
        if name in ids and name not in listed:
            listed[name] = added_token(ids[name], name, **_flags(later.get(name, {})))
    document["added_tokens"] = sorted(listed.values(), key=lambda token: token["id"])


def added_token(id: int, name: str, **flags: bool) -> dict[str, Any]:
    """Return the entry of a special token in a tokenizer.json; a mask token absorbs the blank before it."""
    usual = {"single_word": False, "lstrip": name == "<mask>", "rstrip": False, "normalized": False, "special": True}
    return {"id": id, "content": name, **usual, **flags}


def frame(document: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """Return the post-processor that adds special tokens around a text; None if there is none to add."""
    before, after, between = FRAMES.get(kind, ("", "", ""))
    ids = {token["content"]: token["id"] for token in document["added_tokens"]}
    used = [name for name in dict.fromkeys((before, after, between)) if name]
    if not used or not all(name in ids for name in used):
        return None

    def token(name: str, segment: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": name, "type_id": segment}}] if name else []

    second = 1 if kind in ("bert", "distilbert") else 0
    single = [*token(before, 0), {"Sequence": {"id": "A", "type_id": 0}}, *token(after, 0)]
    pair = [*token(between, 0), {"Sequence": {"id": "B", "type_id": second}}, *token(after, second)]
    special = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in used}
    return {"type": "TemplateProcessing", "single": single, "pair": [*single, *pair], "special_tokens": special}


def vocabulary(document: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids by name in the model of a tokenizer.json."""
    model = document.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, dict):
        return check_ids(vocab)
    if not isinstance(vocab, list) or not all(isinstance(entry, list) and len(entry) == 2 for entry in vocab):
        raise ValueError("the tokenizer has no vocabulary")
    return check_ids({str(name): id for id, (name, _) in enumerate(vocab)})


def check_ids(vocab: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids by name, or raise ValueError if one is no whole number, too large, or used twice."""
    for name, id in vocab.items():
        if type(id) is not int or not 0 <= id < MOST:
            raise ValueError(f"the id of {as_json(name)} is {as_json(id)}, and 0 to {MOST - 1:,} are possible")
    if len(set(vocab.values())) < len(vocab):
        raise ValueError("two tokens have the same id")
    return dict(vocab)


def _added_tokens(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = document.get("added_tokens") or []
    check_ids({content(token, WHOLE): token.get("id") for token in listed})
    return listed


def _read_added_tokens(place: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for name, id in check_ids(read_json_object(place, LARGEST)).items():
        yield id, {"content": name}


def _by_id(tokens_by_id: Any, place: Path) -> dict[int, dict[str, Any]]:
    if not isinstance(tokens_by_id or {}, dict):
        raise ValueError(f"{place}: added_tokens_decoder must be an object, not {as_json(tokens_by_id)}")
    added: dict[int, dict[str, Any]] = {}
    for id, token in (tokens_by_id or {}).items():
        if not (id.isascii() and id.isdigit() and len(id) < 8):
            raise ValueError(f"{place}: {as_json(id)} in added_tokens_decoder is no id")
        flags = token if isinstance(token, dict) else {}
        added[int(id)] = {**flags, "content": content(token, place)}
    return added


def _flags(token: Mapping[str, Any]) -> dict[str, bool]:
    flags = {name: token[name] for name in FLAGS if name in token}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise ValueError(f"the added token {as_json(token['content'])} has a flag that is neither true nor false")
    return flags
