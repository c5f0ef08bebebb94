"""The folder in which models were compared: it holds a run for each of them, and the best model in `best/`."""

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
    """Return the folder of the model that a path stands for: of a finished comparison its best one, else the path."""
    if not is_comparison(path):
        return path
    if not (path / "best" / "manifest.json").is_file():
        raise ValueError(f"{path} holds a comparison that has not finished: go on with the same command and --resume")
    return path / "best"


def read_result(folder: Path) -> dict[str, Any]:
    """Return what a comparison found; nothing if it has not finished."""
    try:
        return dict(json.loads((folder / RESULT).read_bytes()))
    except (OSError, ValueError):
        return {}
