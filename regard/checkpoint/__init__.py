"""Checkpoints: a directory with the files of a model, and a manifest with the digest of each.

Saving writes the files into a hidden sibling, syncs each, then the manifest, and renames. A directory that is being
replaced is moved aside first: between the two renames only its hidden `.name.old` exists, which `read` accepts in its
place and `recover` moves back, so that a valid checkpoint exists at every moment.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.checkpoint import atomic, reading
from regard.checkpoint.atomic import BLOCK
from regard.checkpoint.files import CheckpointError, Disk, explain_errors
from regard.checkpoint.manifest import FORMAT, MANIFEST, fingerprint, render
from regard.checkpoint.reading import Checkpoint
from regard.checkpoint.tensors import DTYPES, INDEX, WEIGHTS, gather_weights
from regard.models import weights as names
from regard.models.weights import weights

__all__ = [
    "BLOCK",
    "DTYPES",
    "FORMAT",
    "INDEX",
    "MANIFEST",
    "VERSIONS",
    "WEIGHTS",
    "Checkpoint",
    "CheckpointError",
    "Disk",
    "disk",
    "fill",
    "fingerprint",
    "gather",
    "peek",
    "read",
    "recover",
    "remove",
    "render",
    "replace",
    "weights",
    "write",
]

VERSIONS = {"regard": regard.__version__, "torch": str(torch.__version__), "python": platform.python_version()}

disk = Disk()


def write(directory: str | Path, contents: Mapping[str, Any], *, facts: Mapping[str, Any] | None = None) -> None:
    """Save files as one checkpoint, whole or not at all; `facts` (such as the step) go into the manifest.

    Values are bytes, text, tensors by name for `.safetensors`, or plain data for `.yaml` and `.json`.
    """
    atomic.write(Path(directory), contents, {"versions": VERSIONS, **(facts or {})}, disk)


def read(directory: str | Path) -> Checkpoint:
    """Return the checkpoint in a directory after comparing all its files with the manifest."""
    return reading.open_verified(Path(directory), disk)


def peek(directory: str | Path) -> Checkpoint:
    """Return the checkpoint in a directory whose files all exist; each is compared with the manifest when it is used.

    This allows reading metrics and settings without reading the weights.
    """
    return reading.open_checkpoint(Path(directory), disk)


def gather(directory: str | Path) -> dict[str, Tensor]:
    """Return the weights in a folder without a manifest: one safetensors file, or shards and an index."""
    return explain_errors(Path(directory), lambda: gather_weights(Path(directory)))


def recover(directory: str | Path) -> None:
    """Clean up after a writer that was killed: delete partial files and restore a directory that was moved aside."""
    atomic.recover(Path(directory), disk)


def remove(directory: str | Path) -> None:
    """Remove a checkpoint; if killed meanwhile, it leaves what `recover` deletes, never half a checkpoint."""
    atomic.remove(Path(directory), disk)


def replace(path: Path, data: bytes) -> None:
    """Write one file atomically."""
    atomic.replace(path, data, disk)


def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load tensors saved by `weights` into a model; the error names any that does not fit."""
    try:
        names.fill(model, tensors)
    except ValueError as error:
        raise CheckpointError(str(error)) from None
