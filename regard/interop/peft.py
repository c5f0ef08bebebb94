"""Export of LoRA adapters in the format of `peft`: LoRA matrices, the head, and the embeddings of added tokens.

Where one external matrix is several of Regard's, as query, key and value of GPT-2, their LoRA matrices are joined into
a pair of higher rank with the same effect.
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
from regard.interop.heads import Outline, module_of, outline_model, without_bias
from regard.interop.links import Link
from regard.models.parts.lora import DOWN, SCALE, UP

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
OURS = "regard.json"  # settings for which `peft` has no field: the task, the labels, how texts are read
PREFIX = "base_model.model."
A, B = ".lora_A.weight", ".lora_B.weight"
ROWS = ".token_adapter.trainable_tokens_delta"


@dataclass(frozen=True)
class LoRAPair:
    """The LoRA matrices of one external matrix, and the factor that scales their product."""

    down: Tensor
    up: Tensor
    scale: float

    @property
    def rank(self) -> int:
        """Return the rank, the number of features between the two matrices."""
        return len(self.down)

    @property
    def alpha(self) -> float:
        """Return `lora_alpha`, the scale times the rank."""
        alpha = self.scale * self.rank
        return round(alpha) if math.isclose(alpha, round(alpha), rel_tol=1e-6) else alpha


def adapter_files(
    shape: Any,
    family: type[Family],
    tensors: Mapping[str, Tensor],
    *,
    base: str | None = None,
    added: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the files of an adapter that `peft` loads; `added` are the ids of tokens that the base may lack."""
    outline = outline_model(shape, family)
    head = outline.head
    bare = head is not None and not head.biased
    after = without_bias(shape, tensors) if bare else tensors
    lora_pairs = {
        name: thin
        for name, link in outline.matrices.items()
        if (thin := _join_thin_matrices(link, tensors)) is not None
    }
    if len(lora_pairs) == 0:
        raise ValueError("it holds no LoRA adapter: train with tuning.method=lora, or write all of it with --to hf")
    saved = _modules_outside_body(outline, shape, tensors) if head is None else list(head.saved)
    saved += [module_of(link.theirs) for link in outline.links if any(after[n] is not tensors[n] for n in link.ours)]
    saved_tensors = {
        name: tensor for name, tensor in links.theirs(outline.links, after).items() if is_among(module_of(name), saved)
    }
    files = {PREFIX + name: tensor.contiguous().clone() for name, tensor in saved_tensors.items()}
    for name, thin in lora_pairs.items():
        files |= {f"{PREFIX}{name}{A}": thin.down, f"{PREFIX}{name}{B}": thin.up}
    settings = _settings(outline, lora_pairs, saved, base)
    if added:
        rows = tensors[f"{outline.prefix}embedding.weight"][list(added)]
        files[f"{PREFIX}{outline.tokens}{ROWS}"] = rows
        settings["trainable_token_indices"] = {outline.tokens.rpartition(".")[2]: list(added)}
    return {CONFIG: settings, WEIGHTS: files}


def _settings(
    outline: Outline, lora_pairs: Mapping[str, LoRAPair], saved: Sequence[str], base: str | None
) -> dict[str, Any]:
    """Return the fields of adapter_config.json: the most common rank and alpha, and the exceptions by name."""
    [((rank, alpha), _)] = Counter((thin.rank, thin.alpha) for thin in lora_pairs.values()).most_common(1)
    ranks = {name: thin.rank for name, thin in lora_pairs.items() if thin.rank != rank}
    alphas = {name: thin.alpha for name, thin in lora_pairs.items() if thin.alpha != alpha}
    return {
        "peft_type": "LORA",
        "task_type": outline.task,
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "rank_pattern": _patterns(ranks, outline.modules),
        "alpha_pattern": _patterns(alphas, outline.modules),
        "target_modules": shortest_endings(lora_pairs, outline.modules),
        "modules_to_save": list(saved) or None,
        "fan_in_fan_out": any(outline.matrices[name].transposed for name in lora_pairs),
        "lora_dropout": 0.0,
        "bias": "none",
        "init_lora_weights": True,
        "use_rslora": False,
        "use_dora": False,
        "inference_mode": True,
    }


def _join_thin_matrices(link: Link, tensors: Mapping[str, Tensor]) -> LoRAPair | None:
    """Join the LoRA matrices of Regard matrices that form one external matrix into one pair, or return None."""
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
            up_part = tensors[place + UP] * (float(tensors[place + SCALE]) / scale)
            up[:, start : start + up_part.shape[1]] = up_part
            start += up_part.shape[1]
        ups.append(up)
    merged = link.join(ups)
    return LoRAPair(down.clone(), (merged.t() if link.transposed else merged).contiguous().clone(), scale)


def _modules_outside_body(outline: Outline, shape: Any, tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the external modules outside the body, which were trained as well."""
    within = tuple(f"{prefix}." for prefix in shape.backbone.weights.values())
    outside = [link for link in outline.links if not any(name.startswith(within) for name in link.ours)]
    for link in outside:
        if not link.ours[0].endswith((".weight", ".bias")):
            raise ValueError(
                f"{link.theirs} has learnt too, which an adapter there cannot hold: write all of it with --to hf"
            )
    return list(dict.fromkeys(module_of(link.theirs) for link in outside))


def _patterns(values: Mapping[str, Any], every: Collection[str]) -> dict[str, Any]:
    """Return the values by the shortest name endings that identify their modules."""
    patterns: dict[str, Any] = {}
    for value in dict.fromkeys(values.values()):
        names = [name for name, other in values.items() if other == value]
        patterns |= dict.fromkeys(shortest_endings(names, every), value)
    return patterns


def shortest_endings(names: Iterable[str], every: Collection[str]) -> list[str]:
    """Return the shortest endings of these names that no other name has."""
    selected = set(names)
    shortest: dict[str, None] = {}
    for name in sorted(selected, key=list(every).index):
        parts = name.split(".")
        endings = (".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1))
        shortest[
            next(
                end
                for end in endings
                if all(module_name in selected for module_name in every if ends_with(module_name, end))
            )
        ] = None
    return list(shortest)


def ends_with(name: str, ending: str) -> bool:
    """Return True if a dotted name ends with these parts."""
    return name == ending or name.endswith(f".{ending}")


def is_among(name: str, saved: Iterable[str]) -> bool:
    """Return True if a module is one of the saved modules, or inside one."""
    return any(ends_with(name, saved_name) or f".{name}".find(f".{saved_name}.") >= 0 for saved_name in saved)
