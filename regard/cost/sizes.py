"""Parameters of a model, part by part, counted in the model itself, which is built without memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from regard import models
from regard.attention.multihead import MultiHead
from regard.attention.positions import Positions
from regard.attention.singlehead import SingleHead
from regard.config.words import suggest_name
from regard.models.parts.batch_norm import RunningNorm
from regard.models.parts.blocks import Embedding, FeedForward
from regard.models.parts.cells import Layer
from regard.models.vit import Patches
from regard.models.weights import Unfilled, learned_tensors

VOCAB = 37_000  # of presets without one, as in the Transformer paper
PARTS: dict[str, tuple[type[nn.Module], ...]] = {
    "embedding": (Embedding, nn.Embedding, Patches),
    "positions": (Positions,),
    "attention": (MultiHead, SingleHead),
    "feed-forward": (FeedForward,),
    "recurrent layers": (Layer,),
    "convolutions": (nn.Conv1d, nn.Conv2d),
    "norms": (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, RunningNorm),
}
ALIASES = {"bloom": "bloom-176b", "smallbert": "bert-small"}  # names that presets are known by elsewhere
REST = "heads"  # what is in none of them: output matrices, poolers, classifiers


def build_without_weights(config: Any) -> nn.Module:
    """Build the model of a config on the meta device, without memory for weights."""
    with torch.device("meta"), Unfilled():
        return models.build(config)


def parameters(config: Any) -> int:
    """Return the number of parameters of the model of this config."""
    return sum(tensor.numel() for tensor in learned_tensors(build_without_weights(config)))


def parts(model: nn.Module) -> dict[str, list[Tensor]]:
    """Return the parameters of each part of a model; a module inside a part belongs to it."""
    by_part: dict[str, list[Tensor]] = {name: [] for name in (*PARTS, REST)}

    def walk(module: nn.Module, part: str | None) -> None:
        part = part or next((name for name, kinds in PARTS.items() if isinstance(module, kinds)), None)
        by_part[part or REST] += learned_tensors(module, recurse=False)
        for child in module.children():
            walk(child, part)

    walk(model, None)
    return {name: tensors for name, tensors in by_part.items() if tensors}


def count(tensors: list[Tensor]) -> int:
    """Return the number of elements in all tensors."""
    return sum(tensor.numel() for tensor in tensors)


def presets() -> dict[str, tuple[type, dict[str, Any]]]:
    """Return every preset of every model by name, also prefixed by its model: `base` and `transformer-base`."""
    by_model = {
        (kind, name): preset for kind, (_, shape) in models.MODELS.items() for name, preset in shape.PRESETS.items()
    }
    uses = Counter(name for _, name in by_model)
    unique = {name: (models.MODELS[kind][1], preset) for (kind, name), preset in by_model.items() if uses[name] == 1}
    every = unique | {f"{kind}-{name}": (models.MODELS[kind][1], preset) for (kind, name), preset in by_model.items()}
    return every | {alias: every[name] for alias, name in ALIASES.items()}


def preset(name: str) -> Any:
    """Return the config of a preset; an unknown name is an error with the nearest names."""
    available = presets()
    if name not in available:
        raise ValueError(f"unknown preset {name}{suggest_name(name, available)}")
    shape, settings = available[name]
    return shape(**{**({"vocab": VOCAB} if "vocab" in shape.__dataclass_fields__ else {}), **settings})  # type: ignore[attr-defined]
