"""The run folder: everything one training leaves behind, and the rules for going on in it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import regard
from regard import checkpoint, config
from regard.checkpoint import Checkpoint, CheckpointError
from regard.training.log import Log, forget
from regard.training.resume import NUMBERS, TENSORS

FIXED = ("task", "model", "tokenizer", "data")  # settings the weights or the data order depend on
OURS = (
    *("config.yaml", "command.txt", "env.json", "data.json", "checkpoints", "best", ".best.old", ".best.partial"),
    *("metrics.jsonl", "train.log", "samples", "tensorboard", "report.html"),
)


@dataclass(frozen=True)
class Run:
    """An open run folder; `latest` is the checkpoint to go on from, `notes` what the user should hear."""

    folder: Path
    latest: Checkpoint | None = None
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Path:
        """The checkpoint directory of the best weights."""
        return self.folder / "best"

    def directory(self, step: int) -> Path:
        """The checkpoint directory of a step."""
        return self.folder / "checkpoints" / f"step-{step}"

    def steps(self) -> list[int]:
        """The steps that were saved and kept, in order."""
        names = [path.name for path in (self.folder / "checkpoints").glob("step-*")]
        return sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d+", name))

    def prune(self, *, keep: int, every: int | None = None) -> None:
        """Remove checkpoints but the last `keep` and each whose step divides by `every`."""
        for step in self.steps()[:-keep]:
            if not every or step % every:
                with contextlib.suppress(OSError):  # the next pruning tries again
                    checkpoint.remove(self.directory(step))

    def log(self, *, quiet: bool = False, tensorboard: bool = False) -> Log:
        """The listener that writes into this folder."""
        step = self.latest.step if self.latest else 0
        return Log(self.folder, quiet=quiet, tensorboard=tensorboard, step=step)

    def show(self, step: int, samples: Sequence[Mapping[str, Any]]) -> None:
        """Keep what the model answered at a step."""
        folder = self.folder / "samples"
        folder.mkdir(exist_ok=True)
        checkpoint.replace(folder / f"step-{step}.json", checkpoint.render(list(samples)))


def start(
    folder: str | Path,
    *,
    settings: Mapping[str, Any],
    command: str = "",
    data: Mapping[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Run:
    """Open a folder for one run: a new or empty one, one to go on in (`resume`), or one to start anew (`overwrite`)."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, name a folder for the run")
    filled = folder.exists() and any(folder.iterdir())
    if filled and not resume and not overwrite:
        raise ValueError(f"{folder} is not empty: go on in it with --resume, or start anew with --overwrite")
    settings, data = config.plain(settings), config.plain(data or {})
    run = Run(folder)
    if resume:
        run = _resumed(folder, settings, data)
    elif filled:
        _clear(folder)
    _describe(folder, settings, command, data, append=resume)
    return run


def environment() -> dict[str, Any]:
    """The versions and the hardware a result depends on; nothing that names a person or a machine."""
    packages = ("torch", "numpy", "tokenizers", "safetensors", "sacrebleu")
    found = {name: _version(name) for name in packages}
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "regard": getattr(regard, "__version__", "unknown"),
        "python": platform.python_version(),
        "packages": found,
        "system": platform.system(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }


def _resumed(folder: Path, settings: Mapping[str, Any], data: Mapping[str, Any]) -> Run:
    """The run to go on with, or one that starts from 0 where there is nothing to go on from, and says so."""
    latest, notes = _newest(folder)
    if latest is None:
        notes.append(f"{folder} holds no checkpoint to go on from: starting from step 0")
        forget(folder / "metrics.jsonl", after=0)
        return Run(folder, notes=tuple(notes))
    before = config.read(folder / "config.yaml")
    changes = dict(_differences(before, settings))
    fixed = [change for name, change in changes.items() if name.partition(".")[0] in FIXED]
    moved = dict(_differences({"data.json": _seen(folder)}, {"data.json": data}))
    fixed += [change for name, change in moved.items() if name.endswith("fingerprint")]
    if fixed:
        shown = ", ".join(fixed[:8]) + (f" and {len(fixed) - 8} more" if len(fixed) > 8 else "")
        raise ValueError(f"{folder} cannot go on with what it was not begun with: {shown}; use another folder")
    notes += [f"changed since the run began: {change}" for change in changes.values()]
    notes.append(f"going on from step {latest.step}")
    forget(folder / "metrics.jsonl", after=latest.step)
    return Run(folder, latest, tuple(notes))


def _seen(folder: Path) -> Any:
    """What the run said of its data when it began."""
    try:
        return json.loads((folder / "data.json").read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder / 'data.json'} cannot be read, which going on needs: {error}") from None


def _newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that can be trusted; damaged ones are put aside under a name that says so."""
    for place in (folder, folder / "checkpoints"):
        for leftover in [*place.glob(".*.partial"), *place.glob(".*.old")]:
            checkpoint.recover(place / leftover.stem[1:])
    notes: list[str] = []
    run = Run(folder)
    for step in reversed(run.steps()):
        try:
            found = checkpoint.read(run.directory(step))
            if found.step != step or not {TENSORS, NUMBERS} <= set(found.files):
                raise CheckpointError(f"{found.directory}: is not the training state of step {step}")
            return found, notes
        except CheckpointError as error:
            aside = run.directory(step).with_name(f"damaged-step-{step}")
            shutil.rmtree(aside, ignore_errors=True)
            checkpoint.disk.rename(run.directory(step), aside)
            notes.append(f"skipped, and renamed to {aside.name}: {error}")
    return None, notes


def _clear(folder: Path) -> None:
    """Remove what an earlier run wrote; whatever else lies in the folder stays."""
    for name in OURS:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _describe(
    folder: Path, settings: Mapping[str, Any], command: str, data: Mapping[str, Any], *, append: bool
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.replace(folder / "config.yaml", config.dump(settings).encode("utf-8"))
    checkpoint.replace(folder / "env.json", checkpoint.render(environment()))
    checkpoint.replace(folder / "data.json", checkpoint.render(data))
    with open(folder / "command.txt", "a" if append else "w", encoding="utf-8") as file:
        file.write(f"{command}\n")


def _differences(before: Any, after: Any, name: str = "") -> Iterable[tuple[str, str]]:
    """Every setting that differs, as (name, `name: before -> after`)."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _differences(before.get(key), after.get(key), f"{name}.{key}" if name else key)
    elif before != after:
        yield name, f"{name}: {_shown(before)} -> {_shown(after)}"


def _shown(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
