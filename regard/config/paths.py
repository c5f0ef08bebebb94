"""Where a path leads, for comparisons; a link that leads to itself is no error before somebody opens it."""

from __future__ import annotations

import os
from pathlib import Path


def real_path(path: str | Path) -> Path:
    """Return the absolute path without links; of a loop of links, one of its names (`Path.resolve` may raise there)."""
    return Path(os.path.realpath(path))
