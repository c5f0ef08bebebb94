"""Reading a checkpoint: every byte is compared with the manifest once, and large files are then mapped, not loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import config
from regard.checkpoint.files import CheckpointError, Disk, explained, sibling
from regard.checkpoint.manifest import MANIFEST, entry, trusted
from regard.checkpoint.tensors import INDEX, WEIGHTS, gathered, is_finite, mapped
from regard.config.words import shown
from regard.models import modern
from regard.quantize import restore
from regard.shipped import Facts, facts

Stamp = tuple[int, ...]  # of a file: it changes whenever the file does


@dataclass(frozen=True)
class Checkpoint:
    """A directory with a manifest; no file is taken out of it that was not compared with that."""

    directory: Path
    manifest: dict[str, Any]
    disk: Disk = field(repr=False, compare=False)
    _sound: dict[str, Stamp] = field(default_factory=dict, repr=False, compare=False)
    """Files that were compared already, as they were then."""

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self.manifest["files"])

    @property
    def step(self) -> int:
        step = self.manifest["facts"].get("step", 0)
        if type(step) is not int or step < 0:
            raise CheckpointError(f"{self.directory}: {MANIFEST} has step {step!r}, which is no number of steps")
        return step

    @cached_property
    def config(self) -> dict[str, Any]:
        """The settings, in which models have the names of today."""
        return explained(self.directory, lambda: modern(config.parse(self.text("config.yaml"), name="config.yaml")))

    @property
    def metrics(self) -> dict[str, Any]:
        return self.json("metrics.json") if "metrics.json" in self.files else {}

    @cached_property
    def about(self) -> Facts:
        """What its card says in a form that a program reads."""
        if "README.md" not in self.files:
            return Facts()
        return explained(self.directory, lambda: facts(self.text("README.md")))

    def text(self, name: str) -> str:
        """A file as text."""
        return explained(self.directory, lambda: self.data(name).decode("utf-8"))

    def json(self, name: str) -> Any:
        """A JSON file as plain data."""
        return explained(self.directory, lambda: json.loads(self.text(name)))

    def tensors(self, name: str = WEIGHTS) -> dict[str, Tensor]:
        """A safetensors file as tensors by name, mapped from the disk; shrunken weights as the floats they stand for.

        The weights may lie in shards. A training goes on with what it had, to the bit.
        """
        if name == WEIGHTS and (WEIGHTS in self.files or INDEX in self.files):
            return explained(self.directory, lambda: restore(gathered(self.directory, self.verified)))
        return explained(self.directory, lambda: mapped(self.verified(name)))

    def finite_tensors(self, name: str = WEIGHTS) -> dict[str, Tensor]:
        """Return the same for use: numbers that are not finite are an error, for every answer would be NaN."""
        tensors = self.tensors(name)
        for key, tensor in tensors.items():
            if not is_finite(tensor):
                why = "its training failed, or it is damaged: train again, or use another checkpoint"
                raise CheckpointError(
                    f"{self.directory}: {shown(key)} in {name} holds numbers that are not finite: {why}"
                )
        return tensors

    def data(self, name: str) -> bytes:
        """A file as bytes, which are those that were saved."""
        known = self._known(name)
        data = explained(self.directory, lambda: self.disk.read(self.directory / name))
        if entry([data]) != known:
            raise self._damaged(name)
        return data

    def verified(self, name: str) -> Path:
        """The path of a file, after its bytes were compared with the manifest; only once while it stays the same."""
        path, known = self.directory / name, self._known(name)
        stamp = explained(self.directory, lambda: _stamp(path))
        if self._sound.get(name) != stamp:
            if path.stat().st_size != known["size"] or self.disk.digest(path) != known["sha256"]:
                raise self._damaged(name)
            self._sound[name] = stamp
        return path

    def _known(self, name: str) -> dict[str, Any]:
        if name not in self.files:
            raise CheckpointError(f"{self.directory}: holds no {name}")
        return self.manifest["files"][name]

    def _damaged(self, name: str) -> CheckpointError:
        return CheckpointError(f"{self.directory}: {name} is damaged, its SHA-256 differs from the manifest's")


def opened(directory: Path, disk: Disk) -> Checkpoint:
    """The checkpoint in a directory that has every file of its manifest, in the right size, and no other."""
    if not directory.exists() and sibling(directory, "old").exists():
        directory = sibling(directory, "old")  # its writer was stopped between two renames
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: no such checkpoint directory")
    return explained(directory, lambda: _complete(directory, disk))


def verified(directory: Path, disk: Disk) -> Checkpoint:
    """The checkpoint in a directory, after every one of its files was compared with the manifest."""
    checkpoint = opened(directory, disk)
    for name in checkpoint.files:
        explained(checkpoint.directory, lambda name=name: checkpoint.verified(name))
    return checkpoint


def _complete(directory: Path, disk: Disk) -> Checkpoint:
    checkpoint = Checkpoint(directory, trusted(directory, disk), disk)
    files = checkpoint.manifest["files"]
    present = {path.name for path in directory.iterdir() if not path.name.startswith(".")} - {MANIFEST}
    if missing := sorted(set(files) - present):
        raise CheckpointError(f"{directory}: {missing[0]} is missing")
    if unknown := sorted(present - set(files)):
        raise CheckpointError(f"{directory}: {unknown[0]} is not in the manifest, remove it")
    for name, known in files.items():
        path = directory / name
        if not path.is_file() or path.stat().st_size != known["size"]:
            raise CheckpointError(f"{directory}: {name} is damaged, it should have {known['size']} bytes")
    return checkpoint


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
