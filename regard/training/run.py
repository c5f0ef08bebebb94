"""The run folder: the files of one training run, and the rules for resuming it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache
from importlib import metadata
from itertools import chain, count
from pathlib import Path
from typing import Any

import torch

import regard
from regard import checkpoint, config
from regard.checkpoint import Checkpoint, CheckpointError
from regard.config.resuming import Verdict
from regard.data.encodings import check_name
from regard.data.normalise import read_text_settings
from regard.data.progress import report_to
from regard.models import modernise_settings
from regard.training import distributed, provenance
from regard.training import parent as parents
from regard.training.callbacks import Callback
from regard.training.compatibility import judge_changes
from regard.training.distributed import ALONE, Team
from regard.training.lock import NAME, Lock, is_locked
from regard.training.log import Log, Silence, drop_records
from regard.training.new_folder import make_folder, remove_folder
from regard.training.parent import Parent
from regard.training.resume import NUMBERS, TENSORS

STEP = re.compile(r"step-[0-9]+")
UNFINISHED = re.compile(r"\.(step-[0-9]+(?:\.json|\.safetensors)?)\.\w+")  # of writers that were killed
STRICT: Mapping[str, Verdict] = {"": "refused"}
OURS = (
    *("checkpoints", "best", "damaged-best", "state.json", "config.yaml", "command.txt", "env.json", "data.json"),
    parents.NAME,
    *("metrics.jsonl", "train.log", "samples", "traces", "tensorboard", "report.html"),
)
# files of a run that ended before training began
EARLY = {NAME, parents.NAME, "state.json", "command.txt", "env.json", "train.log"}


@dataclass(frozen=True)
class Run:
    """An open run folder; `latest` is the checkpoint to resume from, `notes` are messages for the user."""

    folder: Path
    latest: Checkpoint | None = None
    notes: tuple[str, ...] = ()
    damaged: int = 0
    """Number of damaged checkpoints that were moved aside."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the settings and the data, repeated in every manifest."""
    learnt_from: Mapping[str, Sequence[str]] | None = field(default=None, repr=False)
    """SHA-256 of the training and validation files, repeated in every manifest."""
    lock: Lock | None = field(default=None, repr=False, compare=False)
    team: Team = ALONE
    """The processes of the run; only process 0 writes files."""
    resumed: bool = False
    filled: bool = False
    """True if the folder has an earlier run, which is resumed, or replaced when this run begins."""
    made: tuple[Path, ...] = field(default=(), repr=False)
    """Folders created for the run; they are removed if the run fails before it begins."""
    doubtful: tuple[tuple[Path, CheckpointError], ...] = field(default=(), repr=False)
    """Damaged checkpoints with their errors, to be moved aside when the run continues."""

    @property
    def step(self) -> int:
        """Return the step from which the run continues."""
        return self.latest.step if self.latest else 0

    @property
    def best(self) -> Path:
        """The checkpoint directory of the best weights."""
        return self.folder / "best"

    def directory(self, step: int) -> Path:
        """Return the checkpoint directory of a step."""
        return self.folder / "checkpoints" / f"step-{step}"

    def facts(self, step: int) -> dict[str, Any]:
        """Return what the manifest of a checkpoint records beside its files."""
        files = {} if self.learnt_from is None else {provenance.FACT: self.learnt_from}
        return {"step": step, **self.fingerprints, **files}

    def steps(self) -> list[int]:
        """Return the steps of the existing checkpoints, in order."""
        names = [path.name for path in (self.folder / "checkpoints").glob("step-*")]
        return sorted(int(name[5:]) for name in names if STEP.fullmatch(name))

    @property
    def usable(self) -> Path | None:
        """Return the checkpoint to use: the best, or the newest before the first evaluation."""
        newest = [self.directory(step) for step in self.steps()[-1:]]
        return next((path for path in (self.best, *newest) if path.exists()), None)

    def whole(self, steps: Iterable[int], say: Callable[[str], None]) -> Checkpoint | None:
        """Return the first of these checkpoints that is intact, and report what is wrong with those before it."""
        for step in steps:
            try:
                return checkpoint.read(self.directory(step))
            except CheckpointError as error:
                say(str(error))
        return None

    def prune(self, keep: Collection[int], *, every: int | None = None) -> None:
        """Remove all checkpoints but the newest, those to keep, and each whose step is a multiple of `every`."""
        for step in self.steps()[:-1]:
            if step not in keep and (not every or step % every):
                with contextlib.suppress(OSError):  # the next pruning tries again
                    checkpoint.remove(self.directory(step))

    @contextlib.contextmanager
    def log(
        self, *, quiet: bool = False, tensorboard: bool = False, callbacks: Sequence[Callback] = ()
    ) -> Iterator[Log]:
        """Yield the log that writes into this folder; the run ends with the block, and the folder is unlocked."""
        if not self.team.is_main:
            yield Silence()
            return
        try:
            has_begun = bool(self.fingerprints)
            log = Log(self.folder, quiet=quiet, tensorboard=tensorboard, step=self.step, begun=has_begun)
            log.callbacks = tuple(callbacks)
            with log, report_to(log.prepare):
                try:
                    yield log
                except BaseException as error:
                    with contextlib.suppress(OSError, ValueError):  # the disk may be full, or the file closed
                        log.note_failure(" ".join(str(error).split()) or type(error).__name__)
                    raise
        except ValueError:
            if self.made and not (self.folder / "config.yaml").exists():
                remove_folder(self.made, EARLY)
            raise
        finally:
            self.close()

    def begin(
        self, recipe: Any, data: Mapping[str, Any], parent: Parent | None = None, start: Checkpoint | None = None
    ) -> Run:
        """Check that the run may continue with these settings and data, and record them.

        The recipe's fields say what may change when a run is resumed; in a plain mapping nothing may. The model that a
        run starts from, open as `start`, is recorded first, so that config.yaml never exists without it.
        """
        if not self.team.is_main:
            return self
        settings, data = config.plain(recipe), config.plain(data)
        verdicts = config.verdicts(type(recipe)) if is_dataclass(recipe) else STRICT
        run = self
        with _explain_disk_errors(self.folder):
            if self.resumed:
                before = {} if self.latest is None else read_begun_settings(self.folder, type(recipe))
                run = _resume(self, (before, settings), data, verdicts)
            elif self.filled:
                _clear(self.folder)
            if self.latest is None:
                parents.record_parent(self.folder, parent)
            checkpoint.replace(self.folder / "config.yaml", config.dump(settings).encode("utf-8"))
            checkpoint.replace(self.folder / "data.json", checkpoint.render(data))
        contents = {name: part.get("fingerprint") for name, part in data.items() if isinstance(part, Mapping)}
        marks = {"config": checkpoint.fingerprint(settings), "data": checkpoint.fingerprint(contents)}
        learnt_from = provenance.collect_digests(recipe, run.latest or start)
        return replace(run, fingerprints=marks, learnt_from=learnt_from)

    def close(self) -> None:
        """Release the lock on the folder."""
        if self.lock is not None:
            self.lock.release()

    def show(self, step: int, samples: Sequence[Mapping[str, Any]]) -> None:
        """Save the model's sample answers at a step."""
        checkpoint.replace(self.folder / "samples" / f"step-{step}.json", checkpoint.render(list(samples)))


def read_begun_settings(folder: Path, kind: type | None = None) -> dict[str, Any]:
    """Return the settings that a run began with, by any version, under the names that its recipe has today."""
    settings = modernise_settings(config.read(folder / "config.yaml"))
    if kind is not None and is_dataclass(kind):
        settings = config.rename_former_settings(kind, settings)
    if isinstance(settings.get("tokenizer"), Mapping):
        settings["tokenizer"] = read_text_settings(settings["tokenizer"])
    return settings


def find_vacant_folder(folder: Path, *, resume: bool = False) -> Path:
    """Return an unused folder for a run, with a number if the name is taken; to resume, the last one in use."""
    names = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    last_taken = None
    for path in chain([folder], names):
        if not (path.is_file() or is_locked(path) or _is_filled(path)):
            return last_taken or path if resume else path
        last_taken = path
    raise AssertionError


def start(
    folder: str | Path,
    *,
    settings: Any,
    command: str = "",
    data: Mapping[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    team: Team = ALONE,
) -> Run:
    """Claim a folder and begin a run in it, for callers that already have settings and data."""
    run = claim(folder, command=command, resume=resume, overwrite=overwrite, team=team)
    try:
        return run.begin(settings, data or {})
    except BaseException:
        run.close()
        raise


def claim(
    folder: str | Path, *, command: str = "", resume: bool = False, overwrite: bool = False, team: Team = ALONE
) -> Run:
    """Open a folder for one run: a new or empty one, one to continue (`resume`), or one to replace (`overwrite`).

    It stays locked until the run's log is closed, or `close`. Nothing of an earlier run is touched before `begin`.
    Process 0 of a team does this; the others only read the checkpoint to resume from.
    """
    check_name(str(folder))
    run = Run(Path(folder), resumed=resume)
    if team.is_main:
        run = _claim_folder(run, command, anything=resume or overwrite)
    step = team.broadcast(run.latest and run.latest.step)
    if step is not None and not team.is_main:
        run = replace(run, latest=checkpoint.read(run.directory(step)))
    return replace(run, team=team)


def _claim_folder(run: Run, command: str, *, anything: bool) -> Run:
    folder = run.folder
    _admit(folder, anything=anything)
    try:
        new_folders = make_folder(folder)
        lock = Lock(folder)
    except OSError as error:
        raise ValueError(f"{folder} cannot be used, {error.strerror or error}") from error
    try:
        with _explain_disk_errors(folder):
            filled = _admit(folder, anything=anything)  # again, now that it is locked
            _recover(folder)
            latest, doubtful = _find_newest(folder) if run.resumed else (None, [])
            checkpoint.replace(folder / "env.json", checkpoint.render(describe_environment()))
            path = folder / "command.txt"
            commands = path.read_bytes() if run.resumed and path.exists() else b""
            checkpoint.replace(path, commands + f"{command}\n".encode("utf-8", "surrogateescape"))
    except BaseException:
        lock.release()
        raise
    return replace(run, latest=latest, doubtful=tuple(doubtful), filled=filled, lock=lock, made=new_folders)


@contextlib.contextmanager
def _explain_disk_errors(folder: Path) -> Iterator[None]:
    """Raise errors of the disk as a CheckpointError of one line."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be used, {error.strerror or error}") from error


def describe_environment() -> dict[str, Any]:
    """Return the versions and the hardware a result depends on; nothing that names a person or a machine."""
    packages = ("torch", "numpy", "tokenizers", "safetensors", "sacrebleu")
    versions = {name: _version(name) for name in packages}
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "regard": regard.__version__,
        "python": platform.python_version(),
        "packages": versions,
        "system": platform.system(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": distributed.processes(),
        "gpus": gpus,
    }


def _admit(folder: Path, *, anything: bool) -> bool:
    """Return True if the folder holds an earlier run, which is refused unless `anything` is allowed."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, name a folder for the run")
    filled = _is_filled(folder)
    if filled and not anything:
        ways = "resume it with --resume, name another folder with --out, or replace it with --overwrite"
        raise ValueError(f"{folder} is not empty: {ways}")
    return filled


def _is_filled(folder: Path) -> bool:
    return folder.is_dir() and any(path.name not in EARLY for path in folder.iterdir())


def _resume(
    run: Run,
    settings: tuple[Mapping[str, Any], Mapping[str, Any]],
    data: Mapping[str, Any],
    verdicts: Mapping[str, Verdict],
) -> Run:
    """Return the run to continue, or, with a note, one that starts from step 0 if there is no checkpoint.

    `settings` are those that the run began with, and the present ones.
    """
    folder = run.folder
    latest, damaged = run.latest, run.doubtful
    if latest is None:
        notes = [_quarantine(directory, error) for directory, error in damaged]
        notes.append(f"{folder} holds no checkpoint to resume from: starting from step 0")
        drop_records(folder / "metrics.jsonl", after=0)
        return replace(run, latest=None, notes=tuple(notes), damaged=len(damaged))
    judged = judge_changes(*settings, _read_data_report(folder), data, verdicts=verdicts)
    if fixed := judged.refused:
        shown = ", ".join(fixed[:8]) + (f" and {len(fixed) - 8} more" if len(fixed) > 8 else "")
        raise ValueError(f"{folder} cannot be resumed with these changes: {shown}; use another folder")
    notes = [_quarantine(directory, error) for directory, error in damaged]
    notes += [f"changed since the run began: {change}" for change in judged.warned]
    notes.append(f"resuming from step {latest.step}")
    drop_records(folder / "metrics.jsonl", after=latest.step)
    return replace(run, latest=latest, notes=tuple(notes), damaged=len(damaged))


def _read_data_report(folder: Path) -> Any:
    """Return the data report that the run wrote when it began."""
    try:
        return json.loads((folder / "data.json").read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder / 'data.json'} cannot be read, but is needed to resume: {error}") from None


def _find_newest(folder: Path) -> tuple[Checkpoint | None, list[tuple[Path, CheckpointError]]]:
    """Return the newest intact checkpoint and the damaged ones; raise an error if there are only damaged ones."""
    run, latest = Run(folder), None
    damaged: list[tuple[Path, CheckpointError]] = []
    for step in reversed(run.steps()):
        try:
            candidate = checkpoint.read(run.directory(step))
            if candidate.step != step or not {TENSORS, NUMBERS} <= set(candidate.files):
                raise CheckpointError(f"{candidate.directory}: is not the training state of step {step}")
            latest = candidate
            break
        except CheckpointError as error:
            damaged.append((run.directory(step), error))
    if latest is None and damaged:
        remedy = "put a sound copy in its place, or start anew with --overwrite"
        raise CheckpointError(f"{folder}: no checkpoint is left that can be trusted, {remedy}; {damaged[0][1]}")
    if run.best.exists():
        try:
            checkpoint.read(run.best)
        except CheckpointError as error:
            damaged.append((run.best, error))
    return latest, damaged


def _quarantine(directory: Path, error: CheckpointError) -> str:
    """Rename a damaged checkpoint to `damaged-...` and return a note on it."""
    aside = directory.with_name(f"damaged-{directory.name}")
    if aside.exists():
        checkpoint.disk.remove(aside)
    checkpoint.disk.rename(directory, aside)
    return f"skipped, and renamed to {aside.name}: {error}"


def _recover(folder: Path) -> None:
    """Clean up after killed writers of this folder, without touching files of others."""
    for name in OURS:
        checkpoint.recover(folder / name)
    for place in ("checkpoints", "samples", "traces"):
        for path in list((folder / place).glob(".step-*")):
            if match := UNFINISHED.fullmatch(path.name):
                checkpoint.recover(folder / place / match[1])


def _clear(folder: Path) -> None:
    """Remove the files of an earlier run, checkpoints first; the files of this run and of others stay."""
    for name in (name for name in OURS if name not in EARLY):
        if (folder / name).exists() or (folder / name).is_symlink():
            checkpoint.remove(folder / name)


@cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
