"""What `regard train --few` does: a linear head on the frozen vectors of a model, written as a checkpoint."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.cli.grammar import options


def fit(
    files: Sequence[Path],
    settings: list[str],
    *,
    start: str | None,
    out: Path | None,
    valid: Sequence[Path],
    overwrite: bool,
    device: str | None,
    as_json: bool,
) -> None:
    """Fit, score on validation files where there are some, and save."""
    from regard import checkpoint, recipe
    from regard.tasks.embedding.few import learn
    from regard.training import device as devices
    from regard.training import run as runs

    if start is None:
        raise ValueError("--few needs a model whose vectors are used: name a BERT or a GPT by --from")
    parent = recipe.opened(start)
    place = out or runs.vacant(recipe.RUNS / files[0].name.removesuffix(".gz").partition(".")[0])
    if place.is_file() or (place.is_dir() and any(place.iterdir()) and not overwrite):
        raise ValueError(f"{place}: is not empty, name another folder by --out or add --overwrite")
    found = learn([str(file) for file in files], parent, device=devices.choose(device or "auto"), **options(settings))
    metrics = dict(found.metrics)
    if valid:
        scores = found.classifier.evaluate(*valid)
        metrics |= {"accuracy": scores.details["accuracy"], "f1": scores.details["f1"]}
    checkpoint.write(place, {**found.contents, "metrics.json": metrics})
    print("\n".join(found.summary), file=sys.stderr)
    if as_json:
        print(json.dumps({"folder": str(place), "labels": found.classifier.classes, "metrics": metrics}))
        return
    print(f"{place}: {_told(metrics)}")
    print(f"use it with: {found.classifier.usage.format(folder=place)}")


def _told(metrics: dict[str, Any]) -> str:
    if "accuracy" in metrics:
        return f"accuracy {metrics['accuracy']:.1%} on the validation files"
    if "cross_validated" in metrics:
        return f"accuracy {metrics['cross_validated']:.1%} by cross-validation"
    return f"accuracy {metrics['fitted']:.1%} on the texts it was fitted to"
