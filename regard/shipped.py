"""The models that come with Regard: the folders in `regard/pretrained`, and what their cards say of them.

A card begins with a few lines of YAML between two lines of dashes, as cards of models elsewhere do.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from regard import config

FOLDER = Path(str(resources.files("regard") / "pretrained"))
FIRST = "en-fr"
"""The model that is meant where nobody says what it should do."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a card says of its model, in a form that a program reads."""

    language: tuple[str, ...] = ()
    """The languages that it reads and writes."""
    license: str = ""
    """The licence of the weights."""
    commands: tuple[str, ...] = ()
    """Commands that use this model where none is named."""
    score: str = ""
    """How good it is, in a line."""
    sources: tuple[str, ...] = ()
    """The texts that it was trained on, each with its licence."""


@dataclass(frozen=True)
class Shipped:
    """A model that comes with Regard."""

    name: str
    path: Path

    @property
    def facts(self) -> Facts:
        """What its card says."""
        return facts((self.path / "README.md").read_text(encoding="utf-8"), name=str(self.path / "README.md"))

    @property
    def task(self) -> str:
        """What it was trained for."""
        return str(config.read(self.path / "config.yaml")["task"])

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(path.stat().st_size for path in self.path.iterdir())

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        summary = {"name": self.name, "task": self.task, "bytes": self.size, "path": str(self.path)}
        return summary | config.plain(self.facts)


def models() -> dict[str, Shipped]:
    """Return every model that comes with Regard by its name, the first one first."""
    folders = sorted(path for path in FOLDER.iterdir() if (path / "manifest.json").is_file())
    return {path.name: Shipped(path.name, path) for path in sorted(folders, key=lambda path: path.name != FIRST)}


def name_of(directory: Path) -> str:
    """Return what a model is called in a message: a shipped one by its name, any other by its folder."""
    return directory.name if directory.parent == FOLDER else str(directory)


def model_for_command(command: str) -> Shipped:
    """Return the model that a command uses where none is named."""
    for model in models().values():
        if command in model.facts.commands:
            return model
    raise ValueError(f"no model that comes with Regard is for `regard {command}`: name a run folder or a checkpoint")


def facts(card: str, *, name: str = "README.md") -> Facts:
    """Return what a card says between its first line of dashes and the next; facts of other names are left out."""
    head, dashes, rest = card.partition("---\n")
    if head or not dashes or "\n---\n" not in rest:
        return Facts()
    parsed = config.parse(rest.partition("\n---\n")[0], name=name)
    field_names = {field.name for field in fields(Facts)}
    return config.build(Facts, {key: value for key, value in parsed.items() if key in field_names}, where="card")
