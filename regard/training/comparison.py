"""The folder of a model comparison: it holds a run for each model, and the best model in `best/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULT = "contest.json"
DIVISION = Path("data") / "division.json"


def is_comparison(folder: Path) -> bool:
    """True if models are, or were, compared in this folder."""
    return (folder / DIVISION).is_file()


def model_folder(path: Path) -> Path:
    """Return the folder of a model: the best one if the path is a finished comparison, else the path itself."""
    if not is_comparison(path):
        return path
    if not (path / "best" / "manifest.json").is_file():
        raise ValueError(f"{path} holds a comparison that has not finished: go on with the same command and --resume")
    return path / "best"


def read_result(folder: Path) -> dict[str, Any]:
    """Return the result of a comparison; empty if it has not finished."""
    try:
        return dict(json.loads((folder / RESULT).read_bytes()))
    except (OSError, ValueError):
        return {}
