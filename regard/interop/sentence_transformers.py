"""The files of a sentence-transformers folder that say how a text is turned into one vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config.words import as_json
from regard.interop.fields import Fields, quote_name
from regard.interop.folder import LARGEST, is_there, parse_json, read_json_object
from regard.interop.special import LARGEST as LARGEST_SETTINGS
from regard.interop.special import SETTINGS

ENDLESS = 1_000_000  # tokens; larger values mean that there is no limit
MODULES, WHOLE = "modules.json", "config_sentence_transformers.json"
LENGTH = "sentence_*_config.json"  # beside the weights; the star is bert, roberta, distilbert ...
POOLS = {
    "pooling_mode_cls_token": "class",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
"""Their flags by our names; those for which there is none must be false."""
WORDS = {"cls": "class", "mean": "mean", "max": "max", "lasttoken": "last"}
OTHERS = dict.fromkeys(("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"), (False,))
EMPTY: Mapping[str, tuple[Any, ...]] = {
    **{name: ({}, None) for name in ("model_args", "tokenizer_args", "config_args", "processor_kwargs")},
    **{name: ({}, None) for name in ("model_kwargs", "config_kwargs")},
    "unpad_inputs": (False, True, None),
    "transformer_task": ("feature-extraction",),
    "module_output_name": ("token_embeddings",),
    "method_output_name": ("last_hidden_state",),
}
HARMLESS = ("__version__", "prompts", "similarity_fn_name", "model_type", "modality_config")


@dataclass(frozen=True)
class Embedding:
    """The settings that turn a text into one vector, and the folder of the model itself."""

    body: Path
    settings: dict[str, Any]
    """In our words: pool, normalise, max_length, lowercase."""


def read(folder: Path) -> Embedding | None:
    """Read modules.json and the files that it names; None if there is no modules.json."""
    if not is_there(folder / MODULES):
        return None
    modules = [_parse_module(entry, folder / MODULES) for entry in _read_modules(folder / MODULES)]
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        unsupported = next((kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")), None)
        why = (
            f"the module {unsupported} cannot be read"
            if unsupported
            else f"modules {', '.join(kinds) or 'none'} in a row"
        )
        raise ValueError(f"{folder / MODULES}: {why}: Transformer, Pooling and maybe Normalize can be")
    body = _inside(folder, modules[0][1])
    if is_there(folder / WHOLE):
        fields = Fields(read_json_object(folder / WHOLE, LARGEST), folder / WHOLE)
        fields.constant({"default_prompt_name": (None,)})  # it would be prepended to every text
        fields.rest(HARMLESS)
    pool = _pool(_inside(folder, modules[1][1]) / "config.json")
    return Embedding(body, {"pool": pool, "normalise": "Normalize" in kinds, **_length_settings(body)})


def _read_modules(place: Path) -> list[Any]:
    modules = parse_json(place, LARGEST)
    if not isinstance(modules, list):
        raise ValueError(f"{place}: expected a list of modules, not {as_json(modules)}")
    return modules


def _parse_module(entry: Any, place: Path) -> tuple[str, str]:
    """Return the type of a module, the last part of its dotted name, and its folder."""
    kind, path = (entry.get(name) for name in ("type", "path")) if isinstance(entry, dict) else (None, None)
    if not isinstance(kind, str) or not isinstance(path, str):
        raise ValueError(f"{place}: a module must have a type and a path, not be {as_json(entry)}")
    return quote_name(kind.rsplit(".", 1)[-1]), path


def _inside(folder: Path, path: str) -> Path:
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise ValueError(f"{folder / MODULES}: the path {as_json(path)} leads out of the folder")
    return folder / path


def _pool(place: Path) -> str:
    """Return the name of the pooling method."""
    if not is_there(place):
        raise ValueError(f"{place}: is missing, which says how vectors of tokens become one: copy it too")
    fields = Fields(read_json_object(place, LARGEST), place)
    fields.whole("word_embedding_dimension", "embedding_dimension", default=1)
    fields.flag("include_prompt", default=True)  # it changes nothing without prompts
    if "pooling_mode" in fields:
        chosen = [fields.choice("pooling_mode", among=WORDS, default="mean")]
    else:
        fields.constant(OTHERS)
        chosen = [ours for theirs, ours in POOLS.items() if fields.flag(theirs, default=False)]
    fields.rest()
    if len(chosen) != 1:
        raise ValueError(f"{place}: {' and '.join(chosen) or 'no pooling'} at once cannot be read: one of them can")
    return chosen[0]


def _length_settings(body: Path) -> dict[str, Any]:
    """Return the maximum length in tokens, and whether texts are lowercased.

    Without max_seq_length, which version 6 does not write, the maximum length is that of the tokenizer.
    """
    there = sorted(body.glob(LENGTH))
    fields = Fields(read_json_object(there[0], LARGEST), there[0]) if there else Fields({})
    longest = fields.whole("max_seq_length", default=None)
    lowercase = fields.flag("do_lower_case", default=False)
    fields.constant(EMPTY)
    fields.rest(HARMLESS)
    limits = {"most": _tokenizer_length(body)} if longest is None else {"max_length": longest}
    limits = {name: value for name, value in limits.items() if value is not None}
    return {**limits, **({"lowercase": True} if lowercase else {})}


def _tokenizer_length(body: Path) -> int | None:
    """Return the model_max_length of tokenizer_config.json, or None if it is missing or means no limit."""
    place = body / SETTINGS
    value = read_json_object(place, LARGEST_SETTINGS).get("model_max_length") if is_there(place) else None
    if value is not None and (type(value) not in (int, float) or value < 1):
        raise ValueError(f"{place}: model_max_length must be a number of tokens, not {as_json(value)}")
    return None if value is None or value >= ENDLESS else int(value)
