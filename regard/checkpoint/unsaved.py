"""A checkpoint in memory: the files of one before they are written, so that a model in training can be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.checkpoint.atomic import encode
from regard.checkpoint.files import CheckpointError, Disk
from regard.checkpoint.reading import Checkpoint
from regard.checkpoint.tensors import WEIGHTS


@dataclass(frozen=True)
class UnsavedCheckpoint(Checkpoint):
    """Files that `write` would save, read as if they had been; tensors are neither copied nor written."""

    contents: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, directory: Path, contents: Mapping[str, Any], disk: Disk) -> UnsavedCheckpoint:
        """Return the checkpoint with these contents, under the name of the directory where it would be."""
        return cls(directory, {"files": dict.fromkeys(contents), "facts": {}}, disk, contents=contents)

    def data(self, name: str) -> bytes:
        """Return a file as bytes."""
        if name not in self.contents:
            raise CheckpointError(f"{self.directory}: holds no {name}")
        return b"".join(bytes(piece) for piece in encode(name, self.contents[name]))

    def json(self, name: str) -> Any:
        """Return a JSON file as plain data."""
        return json.loads(self.data(name))

    def tensors(self, name: str = WEIGHTS) -> dict[str, Tensor]:
        """Return the tensors of a file by name."""
        if name not in self.contents:
            raise CheckpointError(f"{self.directory}: holds no {name}")
        return dict(self.contents[name])

    def verify(self, name: str) -> Path:
        """Refuse: nothing of it is on disk."""
        raise CheckpointError(f"{self.directory}: {name} is not saved yet")
