"""A record of the model a run started from, in case the run is killed before its first checkpoint and resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard import checkpoint
from regard.checkpoint import Checkpoint, CheckpointError

NAME = "parent.json"
LARGEST = 1 << 20  # bytes


@dataclass(frozen=True)
class Parent:
    """A model that a run starts from: its name as given, its absolute path, and the digest of its manifest."""

    given: str
    path: str
    sha256: str

    @classmethod
    def of(cls, name: str | Path, model: Checkpoint) -> Parent:
        """Describe an open checkpoint and the name by which it was requested."""
        return cls(str(name), str(model.directory.absolute()), str(model.manifest["sha256"]))

    def find(self, folder: Path, open_model: Callable[[str], Checkpoint]) -> Checkpoint:
        """Open the same model again, at its old path or by its name; raise an error if it is gone or has changed."""
        state = "is gone"
        for place in dict.fromkeys((self.path, self.given)):
            try:
                model = open_model(place)
            except ValueError as error:
                state = f"cannot be read, {error}" if Path(place).exists() else state
                continue
            if model.manifest["sha256"] == self.sha256:
                return model
            state = "has changed since, its SHA-256 is another"
        remedy = "put it back, name another with --from, or start anew with --overwrite"
        raise ValueError(f"{folder} has no checkpoint yet, and {self.given} that it started from {state}: {remedy}")


def record_parent(folder: Path, parent: Parent | None) -> None:
    """Record the model that a run starts from, or remove the record of an earlier run in its folder."""
    if parent is None:
        (folder / NAME).unlink(missing_ok=True)
    else:
        checkpoint.replace(folder / NAME, checkpoint.render(asdict(parent)))


def recorded_parent(folder: Path) -> Parent | None:
    """Return the model that the run in a folder started from; None if it had none, or never began."""
    place = folder / NAME
    if not (folder / "config.yaml").is_file() or not place.is_file():
        return None
    try:
        with place.open("rb") as file:
            fields: Any = json.loads(file.read(LARGEST))
        return Parent(**{name: _text(fields[name]) for name in ("given", "path", "sha256")})
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        remedy = "name the model with --from, or start anew with --overwrite"
        raise CheckpointError(f"{place} is damaged, so what the run started from is unknown: {remedy}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
