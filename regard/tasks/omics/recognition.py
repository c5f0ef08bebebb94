"""Which files are tables of omics: nobody can see it, somebody must say so and give the labels."""

from __future__ import annotations

from regard.training.task import NAMED, Claim, Given


def recognise(given: Given) -> Claim | None:
    """Two tables or more, one for each omic, that were said to be such, beside a file of labels."""
    if not given.told or given.to is not None:
        return None
    named = given.settings.get("data") or {}
    labels = given.labels or named.get("labels")
    if labels is None:
        raise ValueError("--tables needs the labels of the samples: name their file with --labels")
    if len(given.files) < 2:
        raise ValueError(f"{given.files[0]}: one table: give two omics or more, or --table for a single one")
    if given.valid:
        raise ValueError("--valid: set data.valid and data.valid_labels for tables of omics, or hold samples out")
    data = {"train": [{"path": name} for name in given.files], "labels": labels}
    model = (given.settings.get("model") or {}).get("name", "moma")
    return Claim(data, f"tables of {len(given.files)} omics: training {model} to tell classes", NAMED)
