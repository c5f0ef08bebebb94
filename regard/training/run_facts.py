"""Facts about a run so far, read from its folder: steps, their size, the device and the time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import checkpoint, config
from regard.models import modernise_settings
from regard.training.resume import NUMBERS
from regard.training.run import Run


@dataclass(frozen=True)
class RunFacts:
    """The cost of training up to the newest checkpoint."""

    steps: int
    seconds: float
    unit: str
    """The unit that is counted: tokens, pictures, rows of a table."""
    units_per_step: float
    device: str
    """The name of the GPU, or cpu."""
    processes: int
    precision: str
    """`half` or `fp32`."""
    optimizer: str
    """`adamw`, `muon`, `sgd` or `lora`."""
    rank: int
    lengths: tuple[int, int] | None
    """Mean tokens of source and target, or of a sequence twice; None if unknown."""


def read_run_facts(folder: Path) -> RunFacts | None:
    """Return the facts about a run; None if there is no run folder, or no checkpoint to resume from."""
    steps = Run(folder).steps() if (folder / "checkpoints").is_dir() else []
    if not steps:
        return None
    progress = checkpoint.peek(Run(folder).directory(steps[-1])).json(NUMBERS)["progress"]
    counts: Mapping[str, float] = progress.get("counts") or {}
    steps_done = max(1, int(progress["step"]))
    unit = "tokens" if "tokens" in counts else next(iter(counts), "examples")
    settings, data, surroundings = (
        modernise_settings(config.read(folder / "config.yaml")),
        _read(folder / "data.json"),
        _read(folder / "env.json"),
    )
    training, tuning = settings.get("training") or {}, settings.get("tuning") or {}
    gpus = surroundings.get("gpus") or []
    on_gpu = bool(gpus) and str(training.get("device", "auto")).startswith(("auto", "cuda"))
    lora = tuning.get("method") == "lora"
    return RunFacts(
        steps=steps_done,
        seconds=float(progress["seconds"]),
        unit=unit,
        units_per_step=counts.get(unit, 0.0) / steps_done,
        device=str(gpus[0]) if on_gpu else "cpu",
        processes=int(surroundings.get("processes") or 1),
        precision="half" if on_gpu and training.get("precision") != "float32" else "fp32",
        optimizer="lora" if lora else _optimizer(settings.get("optim") or {}),
        rank=int(tuning.get("rank") or 8),
        lengths=_lengths(settings.get("data") or {}, data),
    )


def _optimizer(optim: Mapping[str, Any]) -> str:
    """Return the optimizer's name in cost plans: adam needs as much memory as adamw."""
    name = str(optim.get("name", "adam"))
    return name if name in ("muon", "sgd") else "adamw"


def _lengths(settings: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the mean lengths of windows, of texts, or of the two sides of pairs; None if unknown."""
    if isinstance(context := settings.get("context"), int):
        return context, context
    texts, tokens = data.get("texts"), data.get("tokens")
    if isinstance(texts, Mapping) and isinstance(tokens, Mapping) and texts.get("train"):
        mean = max(1, round(tokens["train"] / texts["train"]))
        return mean, mean
    train = data.get("train")
    corpora = (train.get("corpora") or []) if isinstance(train, Mapping) else []
    corpora = [corpus for corpus in corpora if "kept" in corpus and "tokens" in corpus]
    pair_count = sum(corpus["kept"] for corpus in corpora)
    sides = [sum(corpus["tokens"][side] for corpus in corpora) for side in ("source", "target")]
    return (
        (max(1, round(sides[0] / pair_count)), max(1, round(sides[1] / pair_count)))
        if pair_count and all(sides)
        else None
    )


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if it is missing or damaged."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
