"""Atomic writes: files are written beside their place, synced, and then renamed into it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard import config
from regard.checkpoint.files import CheckpointError, Disk, Pieces, reason, sibling
from regard.checkpoint.manifest import MANIFEST, check_name, entry, manifest, render
from regard.checkpoint.tensors import serialise

BLOCK = 1 << 12  # bytes to whose multiples most disks round file sizes up


def write(directory: Path, contents: Mapping[str, Any], facts: Mapping[str, Any], disk: Disk) -> None:
    """Save files as one checkpoint, whole or not at all."""
    files = {check_name(name): encode(name, value) for name, value in contents.items()}
    entries = {name: entry(pieces) for name, pieces in files.items()}
    files[MANIFEST] = [manifest(entries, facts)]
    aside = sibling(directory, "partial")
    try:
        recover(directory, disk)
        if directory.exists() and not (directory / MANIFEST).exists():
            raise CheckpointError(f"{directory}: exists and is not a checkpoint, name another place or remove it")
        _afford(directory, [file_entry["size"] for file_entry in entries.values()], disk)
        disk.make(aside)
        for name, pieces in files.items():
            disk.write(aside / name, pieces)
            disk.sync(aside / name)
        disk.sync(aside)
        _place(aside, directory, disk)
    except OSError as error:
        raise CheckpointError(f"{directory}: not saved, {reason(error)}") from error
    finally:
        _discard(aside, disk)


def recover(directory: Path, disk: Disk) -> None:
    """Clean up after a writer that was killed: delete partial files and restore a directory that was moved aside."""
    old = sibling(directory, "old")
    for aside in (sibling(directory, "partial"), sibling(directory, "tmp")):
        if os.path.lexists(aside):
            disk.remove(aside)
    if old.exists() and directory.exists():
        disk.remove(old)
    elif old.exists():
        disk.rename(old, directory)


def remove(directory: Path, disk: Disk) -> None:
    """Remove a checkpoint; if killed meanwhile, it leaves what `recover` deletes, never half a checkpoint."""
    recover(directory, disk)
    disk.rename(directory, sibling(directory, "partial"))
    _discard(sibling(directory, "partial"), disk)


def replace(path: Path, data: bytes, disk: Disk) -> None:
    """Write one file atomically."""
    aside = sibling(path, "tmp")
    try:
        if not path.parent.exists():
            disk.make(path.parent)
        disk.write(aside, [data])
        disk.sync(aside)
        disk.rename(aside, path)
    except OSError as error:
        raise CheckpointError(f"{path}: not written, {reason(error)}") from error
    finally:
        _discard(aside, disk)


def encode(name: str, value: Any) -> Pieces:
    """Return the bytes of a file of a checkpoint, in pieces."""
    suffix = Path(name).suffix
    if isinstance(value, bytes | str):
        return [value if isinstance(value, bytes) else value.encode("utf-8")]
    assert isinstance(value, Mapping), f"{name} cannot hold a {type(value).__name__}"
    if suffix == ".safetensors":
        return serialise(name, value)
    if suffix == ".yaml":
        return [config.dump(value).encode("utf-8")]
    assert suffix == ".json", f"how should a mapping be written to {name}?"
    return [render(value)]


def _afford(directory: Path, sizes: Sequence[int], disk: Disk) -> None:
    """Raise CheckpointError before anything is written if the disk lacks space; folder and manifest are small."""
    needed = sum(-(-size // BLOCK) * BLOCK for size in sizes) + 4 * BLOCK
    if needed > (free := disk.free(directory)):
        amounts = f"it needs {needed / 1e6:,.2f} MB and {free / 1e6:,.2f} MB are free"
        raise CheckpointError(f"{directory}: not saved, {amounts}: make room on the disk")


def _place(aside: Path, directory: Path, disk: Disk) -> None:
    """Rename the finished directory to its name, or undo everything."""
    old = sibling(directory, "old")
    try:
        if directory.exists():
            disk.rename(directory, old)
        disk.rename(aside, directory)
        disk.sync(directory.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            if not aside.exists():
                disk.rename(directory, aside)
            if old.exists():
                disk.rename(old, directory)
        raise
    _discard(old, disk)


def _discard(path: Path, disk: Disk) -> None:
    """Remove what is no longer needed; if a second attempt fails too, the next `recover` tries again."""
    for _ in range(2):
        with contextlib.suppress(OSError):
            if os.path.lexists(path):
                disk.remove(path)
            return
