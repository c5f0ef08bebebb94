"""What `regard train --few` does: a linear head on the vectors of a model, written as a checkpoint."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.cli.grammar import options


def instead(order: Any, start: str) -> list[Mapping[str, Any]]:
    """The files of an order that `--few` should take, since they hold few texts of each label; else none."""
    from regard import recipe
    from regard.tasks import FACES
    from regard.tasks.embedding.few import FewShot, suits

    task = order.settings["task"]
    if task not in recipe.tasks_with_verb(FewShot.verb) or FACES[task].input_kind.is_path:  # pictures are no texts
        return []
    named = order.settings["data"]["train"]
    files = [named] if isinstance(named, Mapping) else list(named)
    return files if suits(files, recipe.open_model(start)) else []


def fit(
    files: Sequence[Path | Mapping[str, Any]],
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
    from regard.tasks.trained import usage_line
    from regard.training import device as devices
    from regard.training import provenance
    from regard.training import run as runs

    if start is None:
        raise ValueError("--few needs a model whose vectors are used: name a BERT or a GPT by --from")
    parent = recipe.open_model(start)
    first = Path(files[0]["path"]) if isinstance(files[0], Mapping) else files[0]
    place = out or runs.find_vacant_folder(recipe.RUNS / first.name.removesuffix(".gz").partition(".")[0])
    if place.is_file() or (place.is_dir() and any(place.iterdir()) and not overwrite):
        raise ValueError(f"{place}: is not empty, name another folder by --out or add --overwrite")
    found = learn(files, parent, device=devices.choose(device or "auto"), **options(settings))
    metrics = dict(found.metrics)
    if valid:
        scores = found.classifier.evaluate(*valid)
        metrics |= {"accuracy": scores.details["accuracy"], "f1": scores.details["f1"]}
        labels = Counter(example.right for example in scores.examples)
        metrics["commonest"] = max(labels.values()) / len(scores)
    names = [str(file["path"] if isinstance(file, Mapping) else file) for file in files]
    facts = {provenance.FACT: provenance.digests_of_files(names)}
    checkpoint.write(place, {**found.contents, "metrics.json": metrics}, facts=facts)
    print("\n".join(found.summary), file=sys.stderr)
    if as_json:
        print(json.dumps({"folder": str(place), "labels": found.classifier.classes, "metrics": metrics}))
        return
    print(f"{place}: {_told(metrics, found.tuned)}")
    print(usage_line(found.classifier.usage, place))


def _told(metrics: dict[str, Any], tuned: bool) -> str:
    chance = f" (always the commonest label: {metrics['commonest']:.1%})"
    if "accuracy" in metrics:
        return f"accuracy {metrics['accuracy']:.1%} on the validation files{chance}"
    if "cross_validated" in metrics:
        before = " before the body was tuned; --valid measures it after" if tuned else ""
        return f"accuracy {metrics['cross_validated']:.1%} by cross-validation{before}{chance}"
    return f"accuracy {metrics['fitted']:.1%} on the texts it was fitted to"
