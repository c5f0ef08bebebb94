"""LoRA adapters written as `peft` keeps them: thin matrices, the head, and the vectors of tokens that were added.

Where one matrix of theirs is several of ours, as query, key and value of GPT-2, their thin matrices lie side by side in
one of a higher rank, to the same effect.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.interop import links
from regard.interop.family import Family
from regard.interop.heads import Outline, module, outlined, without_bias
from regard.interop.links import Link
from regard.models.lora import DOWN, SCALE, UP

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
OURS = "regard.json"  # what `peft` has no field for: the task, the labels, how texts are read
PREFIX = "base_model.model."
A, B = ".lora_A.weight", ".lora_B.weight"
ROWS = ".token_adapter.trainable_tokens_delta"


@dataclass(frozen=True)
class Thin:
    """The pair of thin matrices beside one matrix of theirs, and what their product counts."""

    down: Tensor
    up: Tensor
    scale: float

    @property
    def rank(self) -> int:
        """Features between the two."""
        return len(self.down)

    @property
    def alpha(self) -> float:
        """What their product counts, times the rank."""
        alpha = self.scale * self.rank
        return round(alpha) if math.isclose(alpha, round(alpha), rel_tol=1e-6) else alpha


def written(
    shape: Any,
    family: type[Family],
    tensors: Mapping[str, Tensor],
    *,
    base: str | None = None,
    added: Sequence[int] = (),
) -> dict[str, Any]:
    """The files of an adapter that `peft` loads, for a model of ours with LoRA; `added` are tokens a base may lack."""
    outline = outlined(shape, family)
    head = outline.head
    bare = head is not None and not head.biased
    after = without_bias(shape, tensors) if bare else tensors
    found = {name: thin for name, link in outline.matrices.items() if (thin := _joined(link, tensors)) is not None}
    if len(found) == 0:
        raise ValueError("it holds no LoRA adapter: train with tuning.way=lora, or write all of it with --to hf")
    saved = _saved(outline, shape, tensors) if head is None else list(head.saved)
    saved += [module(link.theirs) for link in outline.links if any(after[n] is not tensors[n] for n in link.ours)]
    kept = {name: tensor for name, tensor in links.theirs(outline.links, after).items() if among(module(name), saved)}
    files = {PREFIX + name: tensor.contiguous().clone() for name, tensor in kept.items()}
    for name, thin in found.items():
        files |= {f"{PREFIX}{name}{A}": thin.down, f"{PREFIX}{name}{B}": thin.up}
    settings = _settings(outline, found, saved, base)
    if added:
        rows = tensors[f"{outline.prefix}embedding.weight"][list(added)]
        files[f"{PREFIX}{outline.tokens}{ROWS}"] = rows
        settings["trainable_token_indices"] = {outline.tokens.rpartition(".")[2]: list(added)}
    return {CONFIG: settings, WEIGHTS: files}


def _settings(outline: Outline, found: Mapping[str, Thin], saved: Sequence[str], base: str | None) -> dict[str, Any]:
    """The fields of adapter_config.json: a rank and an alpha for most, others by name."""
    [((rank, alpha), _)] = Counter((thin.rank, thin.alpha) for thin in found.values()).most_common(1)
    ranks = {name: thin.rank for name, thin in found.items() if thin.rank != rank}
    alphas = {name: thin.alpha for name, thin in found.items() if thin.alpha != alpha}
    return {
        "peft_type": "LORA",
        "task_type": outline.task,
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "rank_pattern": _patterns(ranks, outline.modules),
        "alpha_pattern": _patterns(alphas, outline.modules),
        "target_modules": short(found, outline.modules),
        "modules_to_save": list(saved) or None,
        "fan_in_fan_out": any(outline.matrices[name].transposed for name in found),
        "lora_dropout": 0.0,
        "bias": "none",
        "init_lora_weights": True,
        "use_rslora": False,
        "use_dora": False,
        "inference_mode": True,
    }


def _joined(link: Link, tensors: Mapping[str, Tensor]) -> Thin | None:
    """Our thin matrices beside those that are one of theirs, as one pair."""
    places = [name.removesuffix("weight") for name in link.ours]
    there = [place for place in places if place + DOWN in tensors]
    if not there:
        return None
    scale = float(tensors[there[0] + SCALE])
    down = torch.cat([tensors[place + DOWN] for place in there])
    ups, start = [], 0
    for place in places:
        up = down.new_zeros(len(tensors[place + "weight"]), len(down))
        if place in there:
            own = tensors[place + UP] * (float(tensors[place + SCALE]) / scale)
            up[:, start : start + own.shape[1]] = own
            start += own.shape[1]
        ups.append(up)
    joined = link.join(ups)
    return Thin(down.clone(), (joined.t() if link.transposed else joined).contiguous().clone(), scale)


def _saved(outline: Outline, shape: Any, tensors: Mapping[str, Tensor]) -> list[str]:
    """Modules of theirs outside the body, which have learnt as well."""
    within = tuple(f"{own}." for own in shape.backbone.weights.values())
    outside = [link for link in outline.links if not any(name.startswith(within) for name in link.ours)]
    for link in outside:
        if not link.ours[0].endswith((".weight", ".bias")):
            raise ValueError(
                f"{link.theirs} has learnt too, which an adapter there cannot hold: write all of it with --to hf"
            )
    return list(dict.fromkeys(module(link.theirs) for link in outside))


def _patterns(values: Mapping[str, Any], every: Collection[str]) -> dict[str, Any]:
    """Values by the shortest names that say of which modules they are."""
    found: dict[str, Any] = {}
    for value in dict.fromkeys(values.values()):
        some = [name for name, own in values.items() if own == value]
        found |= dict.fromkeys(short(some, every), value)
    return found


def short(names: Iterable[str], every: Collection[str]) -> list[str]:
    """The shortest endings of these names that none of the others has."""
    meant = set(names)
    found: dict[str, None] = {}
    for name in sorted(meant, key=list(every).index):
        parts = name.split(".")
        endings = (".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1))
        found[next(end for end in endings if all(own in meant for own in every if ends(own, end)))] = None
    return list(found)


def ends(name: str, ending: str) -> bool:
    """Whether a dotted name ends with these parts."""
    return name == ending or name.endswith(f".{ending}")


def among(name: str, saved: Iterable[str]) -> bool:
    """Whether a module is one of those saved as they are, or inside one."""
    return any(ends(name, each) or f".{name}".find(f".{each}.") >= 0 for each in saved)
