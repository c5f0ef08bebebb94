"""The models that come with Regard: the folders in `regard/pretrained`, and the facts in their model cards.

A card begins with a few lines of YAML between two lines of dashes, as is usual for model cards.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from regard import config

FOLDER = Path(str(resources.files("regard") / "pretrained"))
DEFAULT = "en-fr"
"""The model that is used if none is named."""


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """The facts in the YAML header of a model card."""

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
class ShippedModel:
    """A model that comes with Regard."""

    name: str
    path: Path

    @property
    def facts(self) -> CardFacts:
        """The facts in its model card."""
        return parse_card((self.path / "README.md").read_text(encoding="utf-8"), name=str(self.path / "README.md"))

    @property
    def task(self) -> str:
        """The task that it was trained for."""
        return str(config.read(self.path / "config.yaml")["task"])

    @property
    def size(self) -> int:
        """The size of all its files in bytes."""
        return sum(path.stat().st_size for path in self.path.iterdir())

    def plain(self) -> dict[str, Any]:
        """Return the model as plain data for JSON."""
        summary = {"name": self.name, "task": self.task, "bytes": self.size, "path": str(self.path)}
        return summary | config.plain(self.facts)


def models() -> dict[str, ShippedModel]:
    """Return the models that come with Regard, by name, the default first."""
    folders = sorted(path for path in FOLDER.iterdir() if (path / "manifest.json").is_file())
    return {path.name: ShippedModel(path.name, path) for path in sorted(folders, key=lambda path: path.name != DEFAULT)}


def display_name(directory: Path) -> str:
    """Return the name of a shipped model, or the folder of any other."""
    return directory.name if directory.parent == FOLDER else str(directory)


def model_for_command(command: str) -> ShippedModel:
    """Return the model that a command uses by default."""
    for model in models().values():
        if command in model.facts.commands:
            return model
    raise ValueError(f"no model that comes with Regard is for `regard {command}`: name a run folder or a checkpoint")


def parse_card(card: str, *, name: str = "README.md") -> CardFacts:
    """Parse the YAML at the beginning of a card, between two lines of dashes; unknown names are ignored."""
    head, dashes, rest = card.partition("---\n")
    if head or not dashes or "\n---\n" not in rest:
        return CardFacts()
    parsed = config.parse(rest.partition("\n---\n")[0], name=name)
    field_names = {field.name for field in fields(CardFacts)}
    return config.build(CardFacts, {key: value for key, value in parsed.items() if key in field_names}, where="card")
