"""Absolute paths for comparisons; a link that points to itself is no error until it is opened."""

from __future__ import annotations

import os
from pathlib import Path


def real_path(path: str | Path) -> Path:
    """Return the absolute path without links; for a loop of links, where `Path.resolve` may raise, one of its names."""
    return Path(os.path.realpath(path))
