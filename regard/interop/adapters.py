"""LoRA adapters of `peft` read onto the base that they belong to; nothing in the folder is run."""

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
from regard.interop.fields import Fields, quoted
from regard.interop.heads import BODIES, ENCODERS, HEADS, TOKENS, Outline, encoder, module, stripped
from regard.interop.peft import CONFIG, PREFIX, ROWS, WEIGHTS, A, B, among, ends
from regard.models.lora import DOWN, SCALE, UP

STARTS: tuple[Any, ...] = (True, False, "gaussian", "eva", "orthogonal")  # ways to begin that leave the base alone
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
    """What an adapter_config.json says that changes numbers."""

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
        """All fields, none overlooked."""
        fields.constant({**CONSTANT, "task_type": (None, *HEADS, *BODIES.values())})
        found = cls(
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
        if not found.targets:
            raise fields.wrong("target_modules", [], "a list of names")
        for rank in (found.rank, *found.ranks.values()):
            if rank < 1:
                raise fields.wrong("r", rank, "1 or more")
        return found

    def size(self, name: str) -> int:
        """The rank beside a matrix."""
        return next((value for key, value in self.ranks.items() if ends(name, key)), self.rank)

    def scale(self, name: str) -> float:
        """What the product beside a matrix counts."""
        alpha = next((value for key, value in self.alphas.items() if ends(name, key)), self.alpha)
        return alpha / (math.sqrt(self.size(name)) if self.rooted else self.size(name))


def read(
    folder: Path, shape: Any, family: type[Family], tensors: Mapping[str, Tensor]
) -> tuple[Any, dict[str, Tensor]]:
    """A base of ours with the adapter in a folder beside its matrices, and under the head that came with it."""
    how = Settings.of(Fields(folders.mapping(folder / CONFIG, folders.LARGEST), CONFIG))
    named = family.named(_bare(folders.tensors(folder, WEIGHTS)))
    outline = _outline(how.task, shape, family)
    pairs = _pairs(named)
    table = _table(outline, how, named, tensors["embedding.weight"])
    outline = replace(outline, body=replace(outline.body, vocab=len(table)))
    whole = _whole(outline, named)
    expected = blank(whole)
    ours = {f"{outline.prefix}{name}": tensor for name, tensor in tensors.items()}
    ours = {name: tensor for name, tensor in ours.items() if name in expected}
    ours[f"{outline.prefix}embedding.weight"] = table
    ours |= _kept(outline, how, named, expected, ours)
    if outline.head is not None and not outline.head.biased:
        ours["output.bias"] = table.new_zeros(whole.classes)
    return whole, {**ours, **_beside(outline, how, pairs, expected)}


def _outline(task: str | None, shape: Any, family: type[Family]) -> Outline:
    """The class of theirs that the adapter was made for."""
    if type(shape) not in BODIES:
        raise ValueError(f"an adapter needs a language model below it, and the base is {shape.phrase}")
    if task is None or task == BODIES[type(shape)]:
        return Outline(BODIES[type(shape)], shape, family)
    if task not in HEADS or type(shape) not in ENCODERS:
        raise ValueError(f"{CONFIG}: task_type is {task}, which a base of type {family.kind} does not do")
    head = HEADS[task].get(family.kind)
    if head is None:
        raise ValueError(f"{CONFIG}: task_type is {task}, and what a {family.kind} has for it is not known here")
    return Outline(task, stripped(shape), family, head)


def _whole(outline: Outline, named: Mapping[str, Tensor]) -> Any:
    """The config of the model of ours; how many labels there are is told by the head."""
    if outline.head is None:
        return outline.body
    [last] = [f"{theirs}.weight" for theirs, ours in outline.head.modules.items() if ours == "output"]
    if last not in named or named[last].dim() != 2 or not len(named[last]):
        raise ValueError(f"{last} is missing from the weights: the head that labels was not saved with the adapter")
    return encoder(outline.body, classes=len(named[last]), per_token=outline.task == TOKENS, head=outline.head)


def _pairs(named: dict[str, Tensor]) -> Pairs:
    """The thin matrices by the module that they lie beside, taken from among the weights."""
    found: Pairs = {}
    for name in [name for name in named if name.endswith((A, B))]:
        place = name.removesuffix(A).removesuffix(B)
        if place not in found:
            for each in (place + A, place + B):
                if each not in named:
                    raise ValueError(f"{each} is missing from the weights")
            found[place] = named[place + A], named[place + B]
        del named[name]
    return found


def _table(outline: Outline, how: Settings, named: dict[str, Tensor], base: Tensor) -> Tensor:
    """The vectors of all tokens, with those that come with the adapter."""
    table = named.pop(f"{outline.tokens}.weight", base)
    rows = named.pop(f"{outline.tokens}{ROWS}", base[:0])
    if (len(rows), *table.shape[1:]) != (len(how.tokens), *base.shape[1:]) or rows.shape[1:] != base.shape[1:]:
        raise ValueError(
            f"{outline.tokens} has vectors of {tuple(table.shape)} and {tuple(rows.shape)}, which do not fit "
            f"{len(how.tokens)} trainable_token_indices and a base of {tuple(base.shape)}"
        )
    lacking = sorted(set(range(len(table), max(how.tokens, default=0) + 1)) - set(how.tokens))
    if lacking:
        raise ValueError(f"token {lacking[0]} has no vector: the base has {len(table):,}, and the adapter none for it")
    if not how.tokens:
        return table
    grown = torch.cat([table, table.new_zeros(max(0, max(how.tokens) + 1 - len(table)), table.shape[1])])
    grown[list(how.tokens)] = rows.to(grown.dtype)
    return grown


def _kept(
    outline: Outline,
    how: Settings,
    named: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    base: Mapping[str, Any],
) -> dict[str, Tensor]:
    """Whole modules that come with the adapter, the head above all."""
    for name in named:
        if not among(module(name), how.saved):
            raise ValueError(f"the weights have {quoted(name)}, which {CONFIG} does not name in modules_to_save")
    wanted = [
        link
        for link in outline.links
        if among(module(link.theirs), how.saved) or any(name not in base for name in link.ours)
    ]
    return links.ours(wanted, named, {name: expected[name] for link in wanted for name in link.ours}, {})


def _beside(outline: Outline, how: Settings, pairs: Pairs, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our thin matrices, from theirs."""
    found: dict[str, Tensor] = {}
    for name in pairs:
        if name not in outline.matrices or not any(ends(name, target) for target in how.targets):
            raise ValueError(f"{quoted(name)} has thin matrices, and {CONFIG} or the model has no such target")
    for name, link in outline.matrices.items():
        if name not in pairs:
            if any(ends(name, target) for target in how.targets) and not among(name, how.saved):
                raise ValueError(f"{name}{A} is missing from the weights, and is among target_modules")
            continue
        down, up = pairs[name]
        shape = link.join([expected[each] for each in link.ours]).shape
        inputs, outputs = shape if link.transposed else shape[::-1]
        links.fitting(name + A, down, torch.Size((how.size(name), inputs)))
        links.fitting(name + B, up, torch.Size((outputs, how.size(name))))
        parts = link.split(up.t() if link.transposed else up)
        for own, part in zip(link.ours, parts, strict=True):
            kept = part.any(0) if len(parts) > 1 else slice(None)  # what counts for another of ours only is left out
            if len(parts) == 1 or bool(part.any()):
                place = own.removesuffix("weight")
                found |= {place + DOWN: down[kept].clone(), place + UP: part[:, kept].contiguous().clone()}
                found[place + SCALE] = torch.tensor(how.scale(name))
    return found


def _bare(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by the names that the base's have."""
    for name in tensors:
        if not name.startswith(PREFIX):
            raise ValueError(f"the weights have {quoted(name)}, and names in an adapter of peft begin with {PREFIX}")
    return {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}


def _names(fields: Fields, name: str, *, missing: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """A list of plain names of modules; an expression instead of one is an error."""
    found = fields.raw(name)
    if found is None and missing is not None:
        return missing
    if not isinstance(found, list) or not all(isinstance(each, str) and _plain(each) for each in found):
        raise fields.wrong(name, found, "a list of names")
    return tuple(dict.fromkeys(found))


def _by_name(fields: Fields, name: str, *kinds: type) -> dict[str, Any]:
    """Values by plain names of modules."""
    found = fields.raw(name)
    found = {} if found is None else found
    if not isinstance(found, dict) or not all(_plain(key) and type(value) in kinds for key, value in found.items()):
        raise fields.wrong(name, found, "numbers by names of modules")
    return found


def _tokens(fields: Fields) -> tuple[int, ...]:
    """Tokens whose vectors come with the adapter: a list, or one by the name of the table."""
    found = fields.raw("trainable_token_indices")
    listed = next(iter(found.values())) if isinstance(found, dict) and len(found) == 1 else found or []
    if not isinstance(listed, list) or not all(type(each) is int and each >= 0 for each in listed):
        raise fields.wrong("trainable_token_indices", found, "a list of tokens")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{CONFIG}: trainable_token_indices names a token twice: {as_json(listed)}")
    return tuple(listed)


def _plain(name: str) -> bool:
    return re.fullmatch(r"[\w-]+(\.[\w-]+)*", name) is not None
