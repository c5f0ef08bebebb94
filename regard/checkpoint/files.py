"""Disk operations, the names of unfinished files, and the error class of this package."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors

Pieces = Sequence[bytes | memoryview]  # the contents of a file, in order


class CheckpointError(ValueError):
    """Raised if a checkpoint cannot be written or must not be trusted, with the reason in one line."""


class Disk:
    """All operations that can fail midway, so that a test can make them fail."""

    def free(self, directory: Path) -> int:
        there = next(place for place in (directory, *directory.absolute().parents) if place.is_dir())
        return shutil.disk_usage(there).free

    def make(self, directory: Path) -> None:
        if not directory.parent.exists():
            self.make(directory.parent)
            self.sync(directory.parent.parent)
        directory.mkdir()

    def write(self, path: Path, pieces: Pieces) -> None:
        with open(path, "wb") as file:
            file.writelines(pieces)

    def sync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def digest(self, path: Path) -> str:
        """Return the SHA-256 of a file, read piece by piece: the file is never in memory as a whole."""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def sibling(path: Path, kind: str) -> Path:
    """Return the hidden name of a temporary file beside a path: `partial`, `old` or `tmp`."""
    return path.with_name(f".{path.name}.{kind}")


def reason(error: Exception) -> str:
    """Return the message of an error in one line."""
    return " ".join(str((isinstance(error, OSError) and error.strerror) or error).split())


def explain_errors(place: Path, action: Any) -> Any:
    """Return the action's result; errors caused by hostile or damaged bytes become one line."""
    try:
        return action()
    except CheckpointError:
        raise
    except (OSError, ValueError, LookupError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{place}: cannot be read, {reason(error)}") from error
