"""Watching run folders: a new best checkpoint is checked, and taken over between two requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from regard import config, recipe
from regard.serve.catalogue import ServedModel, read_version
from regard.serve.collection import exempt_living_objects
from regard.serve.state import ServerState


class RunWatcher:
    """Looks for new versions of the served models in their folders, and takes them over or says why not."""

    def __init__(self, state: ServerState, devices: Sequence[str], log: Callable[[str], None]) -> None:
        self.state, self.devices, self.log = state, list(devices), log
        self._refused: dict[str, str] = {}
        """The version of a model that was refused last, by the model's key."""

    async def run(self) -> None:
        """Look at all folders again and again until the server stops."""
        while True:
            await asyncio.sleep(self.state.limits.watch_seconds)
            for model in list(self.state.catalogue):
                await self.look(model)

    async def look(self, model: ServedModel) -> None:
        """Take over a new version of a model, if there is one; a damaged or another model is refused, once."""
        version = None if model.folder is None else await asyncio.to_thread(read_version, model.folder)
        if version is None or version in (model.version, self._refused.get(model.key)):
            return
        try:
            copies = await asyncio.to_thread(self._load, model)
            await self.state.worker.replace(model.key, copies)
        except Exception as error:
            self._refused[model.key] = version
            reason = str(error) if isinstance(error, ValueError) else type(error).__name__
            self.log(f"{model.name}: the new version is refused, the old one stays: {reason}")
            return
        self.state.catalogue.replace(model.key, copies[0], version)
        await self.state.explainer.replace(model.key, copies[0])
        exempt_living_objects()
        self.log(f"{model.name}: a new version has taken over")

    def _load(self, model: ServedModel) -> list[Any]:
        """Load and verify a copy for each device, and compare it with the model that is served."""
        assert model.folder is not None
        copies = [recipe.load(model.folder, device=device) for device in self.devices]
        check_same_kind(model.trained, copies[0])
        return copies


def check_same_kind(former: Any, trained: Any) -> None:
    """Raise ValueError unless a new model reads and answers what the former one does, with the same architecture."""
    if type(trained) is not type(former):
        raise ValueError(f"it is {trained.kind} instead of {former.kind}")
    if list(trained.languages) != list(former.languages):
        raise ValueError("it has other languages")
    settings, former_settings = (config.plain(getattr(each.model, "config", {})) for each in (trained, former))
    names = sorted(settings.keys() | former_settings.keys())
    if changed := [name for name in names if settings.get(name) != former_settings.get(name)]:
        raise ValueError(f"it is another model: {', '.join(f'model.{name}' for name in changed)} changed")
