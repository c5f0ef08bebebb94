"""Recognition of tables of omics, which must be declared as such and come with a file of labels."""

from __future__ import annotations

from regard.training.task import NAMED, Claim, Given


def recognise(inputs: Given) -> Claim | None:
    """Claim two or more tables, one for each omic, that were declared as such, with a file of labels."""
    if not inputs.is_declared or inputs.to is not None:
        return None
    settings = inputs.settings.get("data") or {}
    labels = inputs.labels or settings.get("labels")
    if labels is None:
        raise ValueError("--tables needs the labels of the samples: name their file with --labels")
    if len(inputs.files) < 2:
        raise ValueError(f"{inputs.files[0]}: one table: give two omics or more, or --table for a single one")
    if inputs.valid:
        raise ValueError("--valid: set data.valid and data.valid_labels for tables of omics, or hold samples out")
    data = {"train": [{"path": name} for name in inputs.files], "labels": labels}
    model = (inputs.settings.get("model") or {}).get("name", "moma")
    return Claim(data, f"tables of {len(inputs.files)} omics: training {model} to tell classes", NAMED)
