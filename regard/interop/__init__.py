"""Import and export of models of other libraries: `FAMILIES` maps each `model_type` to its two-way table of names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.checkpoint import WEIGHTS
from regard.config.paths import real_path
from regard.config.registry import Registry
from regard.config.words import quote, suggest_name
from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.units import Kind, UnitsConfig
from regard.interop import adapters, peft, sentence_transformers, tokenizers
from regard.interop import folder as folders
from regard.interop.family import Family
from regard.interop.fields import Fields
from regard.interop.heads import ENCODERS, body_of, outline_model, strip_heads

UNITS: dict[str, Kind] = {"BPE": "bpe", "WordPiece": "bpe", "Unigram": "unigram", "WordLevel": "words"}


FAMILIES: Mapping[str, type[Family]] = Registry(
    {
        "gpt2": "regard.interop.gpt:GPT2",
        "openai-gpt": "regard.interop.gpt:GPT1",
        "bloom": "regard.interop.gpt:Bloom",
        "llama": "regard.interop.gpt:Llama",
        "bert": "regard.interop.bert:Bert",
        "distilbert": "regard.interop.bert:DistilBert",
        "roberta": "regard.interop.bert:Roberta",
        "camembert": "regard.interop.bert:Camembert",
        "t5": "regard.interop.t5:T5",
        "marian": "regard.interop.marian:Marian",
    }
)
"""Every family by the `model_type` of its config.json; where a model of ours fits several, the first is written."""


@dataclass(frozen=True)
class ImportedModel:
    """A model of another library, converted to Regard's config and tensors."""

    kind: str
    shape: Any
    tensors: dict[str, Tensor]
    tokenizer: Tokenizer
    notes: tuple[str, ...] = ()
    """What a card of the model should say of its origin."""
    target: Tokenizer | None = None
    """The tokenizer of what is written, where it is another one."""
    embedding: Mapping[str, Any] | None = None
    """How a text becomes one vector, where a folder of sentence-transformers says it."""
    labels: tuple[str, ...] | None = None
    """Names of what a head tells apart, where somebody says them."""
    settings: Mapping[str, Any] | None = None
    """What an adapter of ours says beside its weights: the task, how texts are read."""


def read(place: str | Path, *, kind: str | None = None) -> ImportedModel:
    """Read a model from a Hugging Face folder or a llama2.c file; `kind` is its type if config.json has none."""
    path = Path(place)
    if (file := folders.find_llama2c_file(path)) is not None:
        return _read_llama2c(file, kind)
    embedding = sentence_transformers.read(path)
    body = path if embedding is None else embedding.body
    config = folders.read_config(body)
    family = _choose_family(config, kind, body)
    origin = f"Imported from `{real_path(path).name}`, a folder of Hugging Face's of type {family.kind}."
    model = _assemble_model(family, Fields(config, folders.CONFIG), lambda: folders.read_tensors(body), body, origin)
    return model if embedding is None else replace(model, embedding=_embedding_settings(embedding, model.shape))


def is_adapter(place: str | Path) -> bool:
    """Return True if a folder holds a `peft` adapter."""
    return folders.is_there(Path(place) / peft.CONFIG)


def add_adapter(place: str | Path, base: ImportedModel) -> ImportedModel:
    """Return a base model with the `peft` adapter of a folder added to it, including its head if it has one."""
    folder = Path(place)
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    try:
        shape, tensors = adapters.read(folder, base.shape, FAMILIES[base.kind], base.tensors)
    except ValueError as error:
        raise ValueError(_prefix_error(folder, error)) from None
    has_tokenizer = folders.is_there(folder / "tokenizer.json")
    tokenizer = _parse_tokenizer(tokenizers.read(folder, kind=base.kind)) if has_tokenizer else base.tokenizer
    if tokenizer.vocab > shape.vocab:
        amounts = f"{tokenizer.vocab:,} tokens and the base only {shape.vocab:,}"
        raise ValueError(f"{folder}: the tokenizer has {amounts}: the adapter belongs to another base")
    settings_file = folder / peft.OURS
    settings = folders.read_json_object(settings_file, folders.LARGEST) if folders.is_there(settings_file) else None
    notes = (*base.notes, f"The adapter `{real_path(folder).name}` of peft's lies beside its matrices.")
    return replace(base, shape=shape, tensors=tensors, tokenizer=tokenizer, notes=notes, settings=settings)


def labels(folder: Path) -> tuple[str, ...] | None:
    """Return the label names of config.json in the order of their ids, or None if they are missing or malformed."""
    label_names = folders.read_config(folder).get("id2label") if folders.is_there(folder / folders.CONFIG) else None
    numbered = {str(number) for number in range(len(label_names))} if isinstance(label_names, dict) else set()
    if (
        not isinstance(label_names, dict)
        or set(label_names) != numbered
        or not all(isinstance(name, str) for name in label_names.values())
    ):
        return None
    return tuple(label_names[str(number)] for number in range(len(label_names)))


def _read_llama2c(path: Path, kind: str | None) -> ImportedModel:
    from regard.interop import llama2c

    if kind not in (None, "llama"):
        raise ValueError(f"{path}: a file of llama2.c is of type llama, not {kind}: leave out --type")
    fields, tensors = llama2c.weights(path)
    origin = f"Imported from `{path.name}`, a file of llama2.c."
    return _assemble_model(FAMILIES["llama"], Fields(fields, path.name), lambda: tensors, path.parent, origin)


def _assemble_model(
    family: type[Family], fields: Fields, tensors: Callable[[], dict[str, Tensor]], folder: Path, origin: str
) -> ImportedModel:
    """Convert config, tensors and tokenizers, and check that they fit together."""
    try:
        their_tensors = family.normalise_names(tensors())
        shape = family.build_config(fields, their_tensors)
        ours = family.import_tensors(shape, their_tensors)
        tokenizer = _parse_tokenizer(tokenizers.read(folder, kind=family.kind))
        target = _parse_tokenizer(tokenizers.read(folder, kind=family.kind, target=True)) if family.sides else None
    except ValueError as error:
        raise ValueError(_prefix_error(folder, error)) from None
    if tokenizer.vocab > shape.vocab:
        amounts = f"{tokenizer.vocab:,} tokens and the model only {shape.vocab:,}"
        raise ValueError(f"{folder}: the tokenizer has {amounts}: it belongs to another model")
    return ImportedModel(family.kind, shape, ours, tokenizer, (origin, *_spare(tokenizer.vocab, shape.vocab)), target)


def _embedding_settings(embedding: sentence_transformers.Embedding, shape: Any) -> dict[str, Any]:
    """Return the settings of a sentence-transformers folder, or raise ValueError if the context is too short."""
    settings = dict(embedding.settings)
    if (most := settings.pop("most", None)) is not None:
        settings["max_length"] = min(most, shape.context)
    longest = settings.get("max_length")
    if longest is not None and not 0 < longest <= shape.context:
        raise ValueError(f"{embedding.body}: max_seq_length is {longest}, the model has places for {shape.context:,}")
    return settings


def family_for(shape: Any, kind: str | None = None) -> type[Family]:
    """Return the export family that can hold this model, or a classifier's encoder: `kind` if given, else the first."""
    shape = strip_heads(body_of(shape)) if type(shape) in ENCODERS.values() else shape
    if kind is not None and kind not in FAMILIES:
        raise ValueError(f"unknown type {kind!r}{suggest_name(kind, FAMILIES)}")
    reasons = []
    for family in (FAMILIES[name] for name in FAMILIES if kind in (None, name)):
        if isinstance(shape, family.model):
            if (reason := family.unsupported_reason(shape)) is None:
                return family
            reasons.append(f"{family.kind} cannot hold it, {reason}")
    explanation = "; ".join(reasons) or f"no {kind or 'family of theirs'} has a place for it"
    raise ValueError(f"a model of kind {shape.name} cannot be written for others: {explanation}")


def export_files(
    family: type[Family],
    shape: Any,
    tensors: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    labels: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the files of a folder that `transformers` loads; `labels` are the class names of a classifier."""
    outline = outline_model(shape, family)
    ids = {f"{name}_id": _roles(tokenizer).get(name) for name in ("bos_token", "eos_token", "pad_token")}
    fields = family.fields(outline.body)
    if fields.get("is_encoder_decoder"):
        ids["decoder_start_token_id"] = tokenizer.role("pad")  # the token that `transformers` starts decoding with
    if (pad := fields.get("pad_token_id")) not in (None, tokenizer.pad):
        raise ValueError(f"{family.kind} counts places from its pad token on, which must have id {pad}")
    theirs = outline.export_tensors(tensors)
    kinds = {str(tensor.dtype).removeprefix("torch.") for tensor in theirs.values()}
    precision = {"torch_dtype": kinds.pop()} if len(kinds) == 1 else {}
    head: dict[str, Any] = {"architectures": [outline.architecture_name], "model_type": family.kind, **precision}
    if labels is not None:
        head |= {"id2label": dict(enumerate(labels)), "label2id": {name: id for id, name in enumerate(labels)}}
    return {
        folders.CONFIG: {**head, **fields, **ids},
        WEIGHTS: theirs,
        **_tokenizer_files(tokenizer, shape.context),
        "generation_config.json": {"_from_model_config": True, **ids},
    }


def adapter_files(
    shape: Any,
    tensors: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    *,
    kind: str | None = None,
    base: str | None = None,
    added: Sequence[int] = (),
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the files of a `peft` adapter folder for a model with LoRA."""
    family = family_for(strip_heads(body_of(shape)), kind)
    files = peft.adapter_files(shape, family, tensors, base=base, added=added)
    return {**files, peft.OURS: dict(settings), **_tokenizer_files(tokenizer, shape.context)}


def _roles(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the ids of the special tokens by their names in `transformers`."""
    roles = {
        "bos_token": tokenizer.begin,
        "eos_token": tokenizer.end,
        "unk_token": tokenizer.unknown,
        "pad_token": tokenizer.pad,
        "mask_token": tokenizer.mask,
        "sep_token": tokenizer.separator,
        "cls_token": None if tokenizer.mask is None else tokenizer.begin,
    }
    return {name: id for name, id in roles.items() if id is not None}


def _tokenizer_files(tokenizer: Tokenizer, context: int) -> dict[str, Any]:
    """Return tokenizer.json and tokenizer_config.json of a tokenizer."""
    special_tokens = _roles(tokenizer)
    return {
        "tokenizer.json": tokenizer.json(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": context,
            **dict(zip(special_tokens, tokenizer.pieces(list(special_tokens.values())), strict=True)),
        },
    }


def _choose_family(config: Mapping[str, Any], kind: str | None, folder: Path) -> type[Family]:
    """Return the family named by config.json, or by `kind` if it names none."""
    model_type = config.get("model_type")
    if kind is not None and model_type is not None and model_type != kind:
        raise ValueError(
            f"{folder}: config.json has model_type {quote(model_type)}, not {quote(kind)}: leave out --type"
        )
    name = model_type if kind is None else kind
    if name is None:
        families = ", ".join(FAMILIES)
        raise ValueError(f"{folder}: config.json has no model_type, say it by --type: one of {families}")
    if not isinstance(name, str) or name not in FAMILIES:
        raise ValueError(f"{folder}: model_type {quote(name)} cannot be read{suggest_name('', FAMILIES)}")
    return FAMILIES[name]


def _parse_tokenizer(text: str) -> Tokenizer:
    """Parse an imported tokenizer, which does all text preparation itself."""
    tokenizer = Tokenizer.parse(text)
    unit = UNITS.get(json.loads(text)["model"].get("type", "BPE"), "bpe")
    return tokenizer.with_text_config(UnitsConfig(kind=unit))


def _spare(tokens: int, rows: int) -> Sequence[str]:
    return [] if tokens == rows else [f"{rows - tokens:,} of its {rows:,} rows stand for no token."]


def _prefix_error(folder: Path, error: ValueError) -> str:
    """Return the error message with the folder in front, unless it is there already."""
    return str(error) if str(error).startswith(str(folder)) else f"{folder}: {error}"
