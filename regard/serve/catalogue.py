"""The models that are served, by name and by what they do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard import recipe, shipped
from regard.config.words import suggest_name
from regard.serve.payload import is_served
from regard.serve.refusal import Refusal
from regard.tasks import USES
from regard.tasks.trained import Trained

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class ServedModel:
    """A loaded model under the name that clients use; `key` identifies it in the worker."""

    name: str
    key: str
    trained: Trained
    folder: Path | None = None
    """Where it was loaded from, unless it comes with Regard."""
    version: str | None = None
    """The digest of the manifest that it was loaded by."""

    @property
    def verb(self) -> str:
        """The verb of the model's task, such as translate."""
        return self.trained.verb

    @property
    def targets(self) -> list[str]:
        """The target languages to choose from; empty if there is no choice."""
        return list(self.trained.languages)

    def plain(self) -> dict[str, Any]:
        """Return the description of the model for clients, as JSON."""
        trained = self.trained
        facts = {
            "task": trained.task,
            "verb": self.verb,
            "kind": trained.kind,
            "input": trained.inputs.kind.name,
            "parameters": trained.runner.weights.number,
        }
        return facts | ({"targets": self.targets} if self.targets else {})


class Catalogue:
    """All served models; names sent by clients are looked up in memory, never in the file system."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self.models = list(models)
        keys = [model.key for model in models]
        if doubled := next((key for key in keys if keys.count(key) > 1), None):
            raise ValueError(f"two models are called {doubled}: serve copies of them under other names of folders")

    def replace(self, key: str, trained: Trained, version: str | None) -> None:
        """Serve a new version of a model."""
        self.models = [
            replace(model, trained=trained, version=version) if model.key == key else model for model in self.models
        ]

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self.models)

    @property
    def trained_models(self) -> Mapping[str, Trained]:
        """The loaded models by their keys."""
        return {model.key: model.trained for model in self.models}

    @property
    def verbs(self) -> list[str]:
        """The distinct verbs of all models."""
        return list(dict.fromkeys(model.verb for model in self.models))

    @property
    def names(self) -> list[str]:
        """The distinct names of all models."""
        return list(dict.fromkeys(model.name for model in self.models))

    def pick(self, verbs: Sequence[str], name: Any = None) -> ServedModel:
        """Return the model of this name if it does one of the verbs, or the first that does; refuse if none does."""
        able = [model for model in self.models if model.verb in verbs]
        return self.choose(sorted(able, key=lambda model: verbs.index(model.verb)), " or ".join(verbs), name)

    def choose(self, able: Sequence[ServedModel], wish: str, name: Any = None) -> ServedModel:
        """Return the model of this name among those that are able to do what is wished, or the first; else refuse."""
        if name is None and able:
            return able[0]
        if not able:
            raise Refusal(404, f"no model here can {wish}; there is {self._describe()}", "model_not_found")
        if not isinstance(name, str):
            raise Refusal(422, "model must be the name of a model", "invalid_input")
        chosen = [model for model in able if model.name == name]
        if chosen:
            return chosen[0]
        names = ", ".join(dict.fromkeys(model.name for model in able))
        if name in self.names:
            raise Refusal(404, f"{name} cannot {wish}; these can: {names}", "model_not_found")
        hint = suggest_name(name[:64], self.names) if name.isprintable() else ""
        raise Refusal(404, f"no such model{hint}; these can {wish}: {names}", "model_not_found")

    def _describe(self) -> str:
        return ", ".join(f"{model.name} ({model.verb})" for model in self.models)


def load_models(folders: Sequence[str | Path], *, device: str) -> Catalogue:
    """Load and verify models by folder or name, by default those that come with Regard."""
    if not folders:
        return Catalogue(
            [model for name, entry in shipped.models().items() for model in _load_shipped(name, entry, device)]
        )
    return Catalogue([_load(folder, device) for folder in folders])


def _load(folder: str | Path, device: str) -> ServedModel:
    name, version = public_name(Path(folder)), read_version(Path(folder))
    trained = recipe.load(folder, device=device)
    if not is_served(trained):
        raise ValueError(f"{folder} is {trained.kind}, which reads files: use it with regard {trained.verb}")
    return ServedModel(name, name, trained, Path(folder), version)


def _load_shipped(name: str, entry: shipped.ShippedModel, device: str) -> Iterator[ServedModel]:
    """Load a model that comes with Regard, once for each of its commands."""
    trained = recipe.load(entry.path, device=device)
    yield ServedModel(name, name, trained)
    for command in entry.facts.commands:
        tasks = tuple(task for task, (verb, _) in USES.items() if verb == command and verb != trained.verb)
        if tasks:
            yield ServedModel(name, f"{name} {command}", recipe.load(entry.path, device=device, task=tasks))


def read_version(folder: Path) -> str | None:
    """Return the digest of the manifest of a checkpoint, or of the best one of a run; None if there is none."""
    for path in (folder / MANIFEST, folder / "best" / MANIFEST):
        try:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            continue
    return None


def public_name(folder: Path) -> str:
    """Return the name of a model for clients: that of its folder, or of its run if it is a checkpoint."""
    parts = folder.absolute().parts
    if parts[-1] == "best" and len(parts) > 2:
        return parts[-2]
    is_step = len(parts) > 3 and parts[-2] == "checkpoints" and parts[-1].startswith("step-")
    return f"{parts[-3]}-{parts[-1]}" if is_step else parts[-1]
