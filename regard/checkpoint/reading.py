"""Reading checkpoints: every byte is compared with the manifest once; large files are then memory-mapped."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import config
from regard.checkpoint.files import CheckpointError, Disk, explain_errors, sibling
from regard.checkpoint.manifest import MANIFEST, entry, read_manifest
from regard.checkpoint.tensors import INDEX, WEIGHTS, gather_weights, is_finite, map_file
from regard.config.words import quote
from regard.models import modernise_settings
from regard.quantize import restore
from regard.shipped import CardFacts, parse_card

Stamp = tuple[int, ...]  # identifies a version of a file


@dataclass(frozen=True)
class Checkpoint:
    """A directory with a manifest; files are compared with it before they are used."""

    directory: Path
    manifest: dict[str, Any]
    disk: Disk = field(repr=False, compare=False)
    _sound: dict[str, Stamp] = field(default_factory=dict, repr=False, compare=False)
    """Stamps of the files that have been verified."""

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
        """The settings, with former names of models replaced by current ones."""
        return explain_errors(
            self.directory, lambda: modernise_settings(config.parse(self.text("config.yaml"), name="config.yaml"))
        )

    @property
    def metrics(self) -> dict[str, Any]:
        return self.json("metrics.json") if "metrics.json" in self.files else {}

    @cached_property
    def about(self) -> CardFacts:
        """The facts in the model card, in machine-readable form."""
        if "README.md" not in self.files:
            return CardFacts()
        return explain_errors(self.directory, lambda: parse_card(self.text("README.md")))

    def text(self, name: str) -> str:
        """Return a file as text."""
        return explain_errors(self.directory, lambda: self.data(name).decode("utf-8"))

    def json(self, name: str) -> Any:
        """Return a JSON file as plain data."""
        return explain_errors(self.directory, lambda: json.loads(self.text(name)))

    def tensors(self, name: str = WEIGHTS) -> dict[str, Tensor]:
        """Return a safetensors file as tensors by name, memory-mapped; quantized weights are converted back to floats.

        The weights may be in shards. Files without quantized weights are returned unchanged, to the bit.
        """
        if name == WEIGHTS and (WEIGHTS in self.files or INDEX in self.files):
            return explain_errors(self.directory, lambda: restore(gather_weights(self.directory, self.verify)))
        return explain_errors(self.directory, lambda: map_file(self.verify(name)))

    def finite_tensors(self, name: str = WEIGHTS) -> dict[str, Tensor]:
        """Return the tensors for inference, where numbers that are not finite are an error: answers would be NaN."""
        tensors = self.tensors(name)
        for key, tensor in tensors.items():
            if not is_finite(tensor):
                why = "its training failed, or it is damaged: train again, or use another checkpoint"
                raise CheckpointError(
                    f"{self.directory}: {quote(key)} in {name} holds numbers that are not finite: {why}"
                )
        return tensors

    def data(self, name: str) -> bytes:
        """Return a file as bytes, which are those that were saved."""
        expected = self._entry_of(name)
        data = explain_errors(self.directory, lambda: self.disk.read(self.directory / name))
        if entry([data]) != expected:
            raise self._damage_error(name)
        return data

    def verify(self, name: str) -> Path:
        """Return the path of a file after comparing it with the manifest, once as long as it does not change."""
        path, expected = self.directory / name, self._entry_of(name)
        stamp = explain_errors(self.directory, lambda: _stamp(path))
        if self._sound.get(name) != stamp:
            if path.stat().st_size != expected["size"] or self.disk.digest(path) != expected["sha256"]:
                raise self._damage_error(name)
            self._sound[name] = stamp
        return path

    def _entry_of(self, name: str) -> dict[str, Any]:
        if name not in self.files:
            raise CheckpointError(f"{self.directory}: holds no {name}")
        return self.manifest["files"][name]

    def _damage_error(self, name: str) -> CheckpointError:
        return CheckpointError(f"{self.directory}: {name} is damaged, its SHA-256 differs from the manifest's")


def open_checkpoint(directory: Path, disk: Disk) -> Checkpoint:
    """Return the checkpoint in a directory that has exactly the files of its manifest, in the right sizes."""
    if not directory.exists() and sibling(directory, "old").exists():
        directory = sibling(directory, "old")  # the writer was killed between two renames
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: no such checkpoint directory")
    return explain_errors(directory, lambda: _complete(directory, disk))


def open_verified(directory: Path, disk: Disk) -> Checkpoint:
    """Return the checkpoint in a directory after comparing all its files with the manifest."""
    checkpoint = open_checkpoint(directory, disk)
    for name in checkpoint.files:
        explain_errors(checkpoint.directory, lambda name=name: checkpoint.verify(name))
    return checkpoint


def _complete(directory: Path, disk: Disk) -> Checkpoint:
    checkpoint = Checkpoint(directory, read_manifest(directory, disk), disk)
    files = checkpoint.manifest["files"]
    present = {path.name for path in directory.iterdir() if not path.name.startswith(".")} - {MANIFEST}
    if missing := sorted(set(files) - present):
        raise CheckpointError(f"{directory}: {missing[0]} is missing")
    if unknown := sorted(present - set(files)):
        raise CheckpointError(f"{directory}: {unknown[0]} is not in the manifest, remove it")
    for name, file_entry in files.items():
        path = directory / name
        if not path.is_file() or path.stat().st_size != file_entry["size"]:
            raise CheckpointError(f"{directory}: {name} is damaged, it should have {file_entry['size']} bytes")
    return checkpoint


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
