"""Which weights of a model to start from are trained, and how fast: all of them, only a new head, or LoRA adapters.

Learning rates may fall from block to block towards the input (Howard and Ruder 2018), and blocks may be unfrozen one
after the other, from the top down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.config.ranges import Part, Positive, Small, Whole
from regard.models.interface import Backbone, config_of_model
from regard.models.parts import lora

STRONGER = 10.0  # factor of the learning rate that LoRA and a new head alone need


@dataclass(frozen=True, kw_only=True)
class TuningConfig:
    """Which weights of a model to start from (`--from`) are trained."""

    method: Literal["full", "frozen", "lora"] = "full"
    """full: all weights; frozen: a new head alone, with BERT's pooler; lora: low-rank matrices beside frozen weights,
    and a new head."""
    rank: Small = 8
    """LoRA: rank of the product of the two thin matrices."""
    alpha: Positive = 16.0
    """LoRA: their product counts alpha / rank times."""
    matrices: tuple[str, ...] = ()
    """LoRA: the matrices of a block that have some, of query, key, value, output, inner, outer, gate; without any name
    all of them."""
    layer_decay: Part = 1.0
    """Layer-wise learning rates: those of a block are so much of those of the block above it."""
    unfreeze: Whole = 0
    """Gradual unfreezing: steps after which one more block learns, from the top down; 0: all from the first."""

    @property
    def stronger(self) -> float:
        """Return the factor of the learning rate, which is higher if only few weights are trained."""
        return 1.0 if self.method == "full" else STRONGER

    @property
    def is_layered(self) -> bool:
        """True if blocks differ in their learning rates, or in when they start to learn."""
        return self.layer_decay < 1 or self.unfreeze > 0


def tune(model: nn.Module, how: TuningConfig, *, started: bool) -> list[str]:
    """Freeze weights and add LoRA adapters as `how` says; return notes on it."""
    if how.method == "full":
        return []
    if not started:
        raise ValueError(
            f"tuning.method={how.method} needs a model to start from: name it with --from, or leave tuning out"
        )
    backbone = _backbone(model)
    candidates = model.named_parameters()
    body = [
        weight
        for name, weight in candidates
        if _is_in_parts(name, backbone.weights.values()) and not _is_in_parts(name, backbone.trained_with_head)
    ]
    if not body:
        raise ValueError(
            f"tuning.method={how.method} needs a model with a body that others share: set tuning.method=full"
        )
    for weight in body:
        weight.requires_grad = False
    if how.method == "lora":
        lora.adapt(model, how.rank, how.alpha, how.matrices)
    learning = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    every = sum(weight.numel() for weight in model.parameters())
    if not learning:
        raise ValueError(
            "tuning.method=frozen leaves nothing to learn: the model has no new head; set tuning.method=lora or full"
        )
    return [f"{learning:,} of {every:,} weights learn ({100 * learning / every:.2g} %)"]


@torch.no_grad()
def go_on(model: nn.Module, parent: Mapping[str, Tensor]) -> list[str]:
    """Continue with the LoRA adapter of a model to start from, if it fits this one; return notes on it.

    Otherwise the adapter was added to its weights.
    """
    state = model.state_dict()
    theirs, ours = ({name for name in names if lora.is_thin(name)} for names in (parent, state))
    if not theirs:
        return []
    scales = [name for name in ours & theirs if name.endswith(lora.SCALE)]
    alike = ours == theirs and all(state[name].shape == parent[name].shape for name in ours)
    if not alike or not all(state[name].allclose(parent[name]) for name in scales):
        return ["its LoRA adapter was added to its weights"]
    for name in ours | {name.removesuffix(lora.SCALE) + "weight" for name in scales}:
        state[name].copy_(parent[name])
    return ["its LoRA adapter learns on, beside the same weights"]


def split_layer_groups(groups: Iterable[dict[str, Any]], model: nn.Module, how: TuningConfig) -> list[dict[str, Any]]:
    """Split parameter groups by block, each with its `share` of the learning rate from step `begins` on."""
    if not how.is_layered:
        return list(groups)
    depths = _depths(model)
    top = max(depths.values(), default=0)
    apart: list[dict[str, Any]] = []
    for group in groups:
        levels: dict[int, list[nn.Parameter]] = defaultdict(list)
        for parameter in group["params"]:
            levels[top - depths.get(id(parameter), top)].append(parameter)
        for below, some in sorted(levels.items()):
            apart.append({**group, "params": some, "share": how.layer_decay**below, "begins": how.unfreeze * below})
    return apart


def share(group: dict[str, Any], step: int) -> float:
    """Return the share of the learning rate that a parameter group has at a step."""
    return float(group.get("share", 1.0)) if step > group.get("begins", 0) else 0.0


def _depths(model: nn.Module) -> dict[int, int]:
    """Return the height of every weight above the input: 0 for embeddings, then block by block, heads on top."""
    depths, backbone = dict[int, int](), _backbone(model)
    for name, parameter in model.named_parameters():
        numbers = [int(part) for part in name.split(".") if part.isdigit()]
        if numbers:
            depths[id(parameter)] = 1 + numbers[0]
        elif _is_in_parts(name, backbone.weights.values()) and not name.rpartition(".")[0].endswith("norm"):
            depths[id(parameter)] = 0
    highest = 1 + max(depths.values(), default=0)
    return {id(parameter): depths.get(id(parameter), highest) for parameter in model.parameters()}


def _backbone(model: nn.Module) -> Backbone:
    """Return the part of a model that another can start from; empty for a plain module."""
    config = config_of_model(model)
    return (config and config.backbone) or Backbone(family="")


def _is_in_parts(name: str, parts: Iterable[str]) -> bool:
    """True if a weight belongs to one of these parts of a model."""
    return any(name == part or name.startswith(f"{part}.") for part in parts)
