"""Creating the folder of a new run, and removing it again if the run is refused before it begins."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard import checkpoint


def make_folder(folder: Path) -> tuple[Path, ...]:
    """Create a folder if it is missing, and return the folders that were created, the outermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    if missing:
        with contextlib.suppress(FileExistsError):  # another process was faster: the lock decides
            checkpoint.disk.make(folder)
            return tuple(reversed(missing))
    return ()


def remove_folder(folders: Sequence[Path], names: Iterable[str]) -> None:
    """Remove the folders created for a run with its files of these names; one that holds anything else stays."""
    with contextlib.suppress(OSError):
        folder = folders[-1]
        if {path.name for path in folder.iterdir()} <= set(names):
            for path in folder.iterdir():
                path.unlink()
        for path in reversed(folders):
            os.rmdir(path)
