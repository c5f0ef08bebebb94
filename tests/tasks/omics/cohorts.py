"""Small cohorts as files: two or three omics of the same samples, of which some features tell the class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

OMICS = {"mrna": 6, "mirna": 5, "protein": 4}


def write(folder: Path, *, count: int = 40, seed: int = 0, lacking: dict[str, int] | None = None) -> list[str]:
    """Tables with named samples and a labels file; of an omic in `lacking`, so many of the last samples are missing.

    The first feature of every omic tells the class.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    names = [f"s{number}" for number in range(count)]
    for omic, size in OMICS.items():
        values = draw.normal(size=(count, size))
        values[:, 0] += 3 * labels
        kept = count - (lacking or {}).get(omic, 0)
        head = ",".join(["sample", *(f"{omic}{number}" for number in range(size))])
        rows = [f"{name},{','.join(map(str, row))}" for name, row in zip(names[:kept], values, strict=False)]
        (folder / f"{omic}.csv").write_text("\n".join([head, *rows]) + "\n")
    told = [f"{name},{'ill' if label else 'well'}" for name, label in zip(names, labels, strict=True)]
    (folder / "labels.csv").write_text("\n".join(["sample,label", *told]) + "\n")
    return [str(folder / f"{omic}.csv") for omic in OMICS]


def data(folder: Path) -> dict[str, object]:
    """The data section of a recipe that learns from such files."""
    return {"train": [{"path": str(folder / f"{omic}.csv")} for omic in OMICS], "labels": str(folder / "labels.csv")}
