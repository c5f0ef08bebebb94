"""Import of `peft` LoRA adapters onto their base model; no code of the folder is run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.config.words import as_json
from regard.interop import folder as folders
from regard.interop import links
from regard.interop.family import Family, blank
from regard.interop.fields import Fields, quote_name
from regard.interop.heads import BODIES, ENCODERS, HEADS, TOKENS, Outline, encoder_config, module_of, strip_heads
from regard.interop.peft import CONFIG, PREFIX, ROWS, WEIGHTS, A, B, ends_with, is_among
from regard.models.parts.lora import DOWN, SCALE, UP

STARTS: tuple[Any, ...] = (True, False, "gaussian", "eva", "orthogonal")  # initialisations that keep the base as it is
CONSTANT: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "init_lora_weights": STARTS,
    **dict.fromkeys(("use_dora", "lora_bias", "use_qalora", "ensure_weight_tying"), (False,)),
    **dict.fromkeys(("use_bdlora", "exclude_modules", "layers_pattern", "target_parameters"), (None, [], False)),
    **dict.fromkeys(
        ("layers_to_transform", "layer_replication", "megatron_config", "alora_invocation_tokens"), (None,)
    ),
    **dict.fromkeys(("eva_config", "corda_config", "lora_ga_config", "velora_config"), (None, {})),
    **dict.fromkeys(("monteclora_config", "arrow_config", "kasa_config", "loftq_config"), (None, {})),
}
"""Fields that would change numbers, or the base, if they had another value than these."""
HARMLESS = frozenset(
    {
        "auto_mapping", "base_model_name_or_path", "revision", "inference_mode", "peft_version", "lora_dropout",
        "fan_in_fan_out", "megatron_core", "qalora_group_size", "runtime_config",
    }
)  # fmt: skip
"""Fields that change no number: where it comes from, how it is trained, and how the base lies in memory."""

Pairs = dict[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Settings:
    """The fields of adapter_config.json that affect the result."""

    task: str | None
    rank: int
    alpha: float
    ranks: Mapping[str, int]
    alphas: Mapping[str, float]
    rooted: bool
    """Whether products count alpha / sqrt(rank) times (rsLoRA)."""
    targets: tuple[str, ...]
    saved: tuple[str, ...]
    tokens: tuple[int, ...]
    """Tokens whose vectors come with the adapter."""

    @classmethod
    def of(cls, fields: Fields) -> Settings:
        """Read all fields, and raise ValueError for an unknown one."""
        fields.constant({**CONSTANT, "task_type": (None, *HEADS, *BODIES.values())})
        settings = cls(
            task=fields.raw("task_type"),
            rank=fields.whole("r", default=8),
            alpha=fields.number("lora_alpha", default=8.0),
            ranks=_by_name(fields, "rank_pattern", int),
            alphas=_by_name(fields, "alpha_pattern", int, float),
            rooted=fields.flag("use_rslora", default=False),
            targets=_names(fields, "target_modules"),
            saved=_names(fields, "modules_to_save", missing=()),
            tokens=_tokens(fields),
        )
        fields.rest(HARMLESS)
        if not settings.targets:
            raise fields.wrong("target_modules", [], "a list of names")
        for rank in (settings.rank, *settings.ranks.values()):
            if rank < 1:
                raise fields.wrong("r", rank, "1 or more")
        return settings

    def size(self, name: str) -> int:
        """Return the rank of the adapter of a matrix."""
        return next((value for key, value in self.ranks.items() if ends_with(name, key)), self.rank)

    def scale(self, name: str) -> float:
        """Return the factor by which the product of the adapter's matrices is scaled."""
        alpha = next((value for key, value in self.alphas.items() if ends_with(name, key)), self.alpha)
        return alpha / (math.sqrt(self.size(name)) if self.rooted else self.size(name))


def read(
    folder: Path, shape: Any, family: type[Family], tensors: Mapping[str, Tensor]
) -> tuple[Any, dict[str, Tensor]]:
    """Return the config and tensors of a base model with the adapter of a folder added, and the head saved with it."""
    settings = Settings.of(Fields(folders.read_json_object(folder / CONFIG, folders.LARGEST), CONFIG))
    adapter_tensors = family.normalise_names(_strip_prefix(folders.read_tensors(folder, WEIGHTS)))
    outline = _outline(settings.task, shape, family)
    pairs = _take_pairs(adapter_tensors)
    table = _token_table(outline, settings, adapter_tensors, tensors["embedding.weight"])
    outline = replace(outline, body=replace(outline.body, vocab=len(table)))
    whole = _model_config(outline, adapter_tensors)
    expected = blank(whole)
    ours = {f"{outline.prefix}{name}": tensor for name, tensor in tensors.items()}
    ours = {name: tensor for name, tensor in ours.items() if name in expected}
    ours[f"{outline.prefix}embedding.weight"] = table
    ours |= _import_saved_modules(outline, settings, adapter_tensors, expected, ours)
    if outline.head is not None and not outline.head.biased:
        ours["output.bias"] = table.new_zeros(whole.classes)
    return whole, {**ours, **_import_thin_matrices(outline, settings, pairs, expected)}


def _outline(task: str | None, shape: Any, family: type[Family]) -> Outline:
    """Return the outline of the `transformers` class that the adapter was made for."""
    if type(shape) not in BODIES:
        raise ValueError(f"an adapter needs a language model below it, and the base is {shape.phrase}")
    if task is None or task == BODIES[type(shape)]:
        return Outline(BODIES[type(shape)], shape, family)
    if task not in HEADS or type(shape) not in ENCODERS:
        raise ValueError(f"{CONFIG}: task_type is {task}, which a base of type {family.kind} does not do")
    head = HEADS[task].get(family.kind)
    if head is None:
        raise ValueError(f"{CONFIG}: task_type is {task}, and what a {family.kind} has for it is not known here")
    return Outline(task, strip_heads(shape), family, head)


def _model_config(outline: Outline, adapter_tensors: Mapping[str, Tensor]) -> Any:
    """Return the config of the adapted model; the number of labels is that of the saved head."""
    if outline.head is None:
        return outline.body
    [last] = [f"{theirs}.weight" for theirs, ours in outline.head.modules.items() if ours == "output"]
    if last not in adapter_tensors or adapter_tensors[last].dim() != 2 or not len(adapter_tensors[last]):
        raise ValueError(f"{last} is missing from the weights: the head that labels was not saved with the adapter")
    return encoder_config(
        outline.body, classes=len(adapter_tensors[last]), per_token=outline.task == TOKENS, head=outline.head
    )


def _take_pairs(adapter_tensors: dict[str, Tensor]) -> Pairs:
    """Remove the LoRA matrices from the tensors and return them in pairs, by the module that they adapt."""
    pairs: Pairs = {}
    for name in [name for name in adapter_tensors if name.endswith((A, B))]:
        place = name.removesuffix(A).removesuffix(B)
        if place not in pairs:
            for matrix_name in (place + A, place + B):
                if matrix_name not in adapter_tensors:
                    raise ValueError(f"{matrix_name} is missing from the weights")
            pairs[place] = adapter_tensors[place + A], adapter_tensors[place + B]
        del adapter_tensors[name]
    return pairs


def _token_table(outline: Outline, settings: Settings, adapter_tensors: dict[str, Tensor], base: Tensor) -> Tensor:
    """Return the embeddings of all tokens, including those saved with the adapter."""
    table = adapter_tensors.pop(f"{outline.tokens}.weight", base)
    rows = adapter_tensors.pop(f"{outline.tokens}{ROWS}", base[:0])
    if (len(rows), *table.shape[1:]) != (len(settings.tokens), *base.shape[1:]) or rows.shape[1:] != base.shape[1:]:
        raise ValueError(
            f"{outline.tokens} has vectors of {tuple(table.shape)} and {tuple(rows.shape)}, which do not fit "
            f"{len(settings.tokens)} trainable_token_indices and a base of {tuple(base.shape)}"
        )
    lacking = sorted(set(range(len(table), max(settings.tokens, default=0) + 1)) - set(settings.tokens))
    if lacking:
        raise ValueError(f"token {lacking[0]} has no vector: the base has {len(table):,}, and the adapter none for it")
    if not settings.tokens:
        return table
    grown = torch.cat([table, table.new_zeros(max(0, max(settings.tokens) + 1 - len(table)), table.shape[1])])
    grown[list(settings.tokens)] = rows.to(grown.dtype)
    return grown


def _import_saved_modules(
    outline: Outline,
    settings: Settings,
    adapter_tensors: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    base: Mapping[str, Any],
) -> dict[str, Tensor]:
    """Convert the modules that were saved whole with the adapter, mainly the head."""
    for name in adapter_tensors:
        if not is_among(module_of(name), settings.saved):
            raise ValueError(f"the weights have {quote_name(name)}, which {CONFIG} does not name in modules_to_save")
    saved_links = [
        link
        for link in outline.links
        if is_among(module_of(link.theirs), settings.saved) or any(name not in base for name in link.ours)
    ]
    return links.ours(
        saved_links, adapter_tensors, {name: expected[name] for link in saved_links for name in link.ours}, {}
    )


def _import_thin_matrices(
    outline: Outline, settings: Settings, pairs: Pairs, expected: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Convert the LoRA matrices to Regard's."""
    thin_matrices: dict[str, Tensor] = {}
    for name in pairs:
        if name not in outline.matrices or not any(ends_with(name, target) for target in settings.targets):
            raise ValueError(f"{quote_name(name)} has thin matrices, and {CONFIG} or the model has no such target")
    for name, link in outline.matrices.items():
        if name not in pairs:
            if any(ends_with(name, target) for target in settings.targets) and not is_among(name, settings.saved):
                raise ValueError(f"{name}{A} is missing from the weights, and is among target_modules")
            continue
        down, up = pairs[name]
        shape = link.join([expected[part_name] for part_name in link.ours]).shape
        inputs, outputs = shape if link.transposed else shape[::-1]
        links.check_tensor(name + A, down, torch.Size((settings.size(name), inputs)))
        links.check_tensor(name + B, up, torch.Size((outputs, settings.size(name))))
        parts = link.split(up.t() if link.transposed else up)
        for our_name, part in zip(link.ours, parts, strict=True):
            used_ranks = (
                part.any(0) if len(parts) > 1 else slice(None)
            )  # ranks that another of Regard's matrices uses alone are left out
            if len(parts) == 1 or bool(part.any()):
                place = our_name.removesuffix("weight")
                thin_matrices |= {
                    place + DOWN: down[used_ranks].clone(),
                    place + UP: part[:, used_ranks].contiguous().clone(),
                }
                thin_matrices[place + SCALE] = torch.tensor(settings.scale(name))
    return thin_matrices


def _strip_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Remove the prefix of `peft` from the names of the tensors."""
    for name in tensors:
        if not name.startswith(PREFIX):
            raise ValueError(
                f"the weights have {quote_name(name)}, and names in an adapter of peft begin with {PREFIX}"
            )
    return {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}


def _names(fields: Fields, name: str, *, missing: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Read a list of plain module names; a regular expression is an error."""
    names = fields.raw(name)
    if names is None and missing is not None:
        return missing
    if not isinstance(names, list) or not all(isinstance(entry, str) and _is_plain_name(entry) for entry in names):
        raise fields.wrong(name, names, "a list of names")
    return tuple(dict.fromkeys(names))


def _by_name(fields: Fields, name: str, *kinds: type) -> dict[str, Any]:
    """Read values by plain module names."""
    by_module = fields.raw(name)
    by_module = {} if by_module is None else by_module
    if not isinstance(by_module, dict) or not all(
        _is_plain_name(key) and type(value) in kinds for key, value in by_module.items()
    ):
        raise fields.wrong(name, by_module, "numbers by names of modules")
    return by_module


def _tokens(fields: Fields) -> tuple[int, ...]:
    """Read the tokens whose embeddings are saved with the adapter: a list, or one list under the name of the table."""
    indices = fields.raw("trainable_token_indices")
    listed = next(iter(indices.values())) if isinstance(indices, dict) and len(indices) == 1 else indices or []
    if not isinstance(listed, list) or not all(type(token) is int and token >= 0 for token in listed):
        raise fields.wrong("trainable_token_indices", indices, "a list of tokens")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{CONFIG}: trainable_token_indices names a token twice: {as_json(listed)}")
    return tuple(listed)


def _is_plain_name(name: str) -> bool:
    return re.fullmatch(r"[\w-]+(\.[\w-]+)*", name) is not None
