"""The training of `regard train --few`: a linear head on the vectors of a model, saved as a checkpoint."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.cli.grammar import parse_settings


def choose_few_shot_files(order: Any, start: str) -> list[Mapping[str, Any]]:
    """Return the files of an order if they hold so few texts of each label that `--few` should take them, else none."""
    from regard import recipe
    from regard.tasks import FACES
    from regard.tasks.embedding.few_shot import FewShot, is_few_shot_data

    task = order.settings["task"]
    if task not in recipe.tasks_with_verb(FewShot.verb) or FACES[task].input_kind.is_path:  # pictures are no texts
        return []
    train_files = order.settings["data"]["train"]
    files = [train_files] if isinstance(train_files, Mapping) else list(train_files)
    return files if is_few_shot_data(files, recipe.open_model(start)) else []


def fit_few_shot(
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
    """Fit a head, score it on validation files if there are any, and save it."""
    from regard import checkpoint, recipe
    from regard.tasks.embedding.few_shot import train_few_shot
    from regard.tasks.trained import usage_line
    from regard.training import device as devices
    from regard.training import provenance
    from regard.training import run as runs

    if start is None:
        raise ValueError("--few needs a model whose vectors are used: name a BERT or a GPT by --from")
    parent = recipe.open_model(start)
    first_path = Path(files[0]["path"]) if isinstance(files[0], Mapping) else files[0]
    folder = out or runs.find_vacant_folder(recipe.RUNS / first_path.name.removesuffix(".gz").partition(".")[0])
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not overwrite):
        raise ValueError(f"{folder}: is not empty, name another folder by --out or add --overwrite")
    trained = train_few_shot(files, parent, device=devices.choose(device or "auto"), **parse_settings(settings))
    metrics = {**trained.metrics, **(_validation_metrics(trained.classifier, valid) if valid else {})}
    file_names = [str(file["path"] if isinstance(file, Mapping) else file) for file in files]
    facts = {provenance.FACT: provenance.digests_of_files(file_names)}
    checkpoint.write(folder, {**trained.contents, "metrics.json": metrics}, facts=facts)
    print("\n".join(trained.summary), file=sys.stderr)
    if as_json:
        print(json.dumps({"folder": str(folder), "labels": trained.classifier.classes, "metrics": metrics}))
        return
    print(f"{folder}: {_describe_accuracy(metrics, trained.tuned)}")
    print(usage_line(trained.classifier.usage, folder))


def _validation_metrics(classifier: Any, valid: Sequence[Path]) -> dict[str, float]:
    """Return accuracy and F1 on validation files, and the share of the commonest label."""
    scores = classifier.evaluate(*valid)
    labels = Counter(example.right for example in scores.examples)
    commonest_share = max(labels.values()) / len(scores)
    return {"accuracy": scores.details["accuracy"], "f1": scores.details["f1"], "commonest": commonest_share}


def _describe_accuracy(metrics: dict[str, Any], tuned: bool) -> str:
    """Describe the accuracy of a fitted head beside that of the commonest label."""
    chance = f" (always the commonest label: {metrics['commonest']:.1%})"
    if "accuracy" in metrics:
        return f"accuracy {metrics['accuracy']:.1%} on the validation files{chance}"
    if "cross_validated" in metrics:
        before = " before the body was tuned; --valid measures it after" if tuned else ""
        return f"accuracy {metrics['cross_validated']:.1%} by cross-validation{before}{chance}"
    return f"accuracy {metrics['fitted']:.1%} on the texts it was fitted to"
