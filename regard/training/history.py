"""The state, last step and best scores of runs, and the differences between two runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard import checkpoint, config
from regard.models import modernise_settings
from regard.training.comparison import is_comparison, read_result

STATE = "state.json"
State = Literal["running", "finished", "interrupted", "killed", "failed", "unknown"]


@dataclass(frozen=True)
class Summary:
    """The state, last step and best scores of a run."""

    folder: Path
    state: State
    reason: str
    step: int
    best: Mapping[str, float]

    @property
    def name(self) -> str:
        """Return the name of the folder."""
        return self.folder.name


@dataclass(frozen=True)
class Point:
    """One evaluation of a run: its step, the seconds of training before it, and the score."""

    step: int
    seconds: float
    score: float


@dataclass
class Record:
    """The state of a run, kept on disk from `begin` to `end`."""

    folder: Path
    writes: bool = True
    """True if this process writes the files; one of several processes does."""
    begun: bool = False

    def begin(self) -> None:
        """Record that the run is running."""
        self.begun = True
        self._say("running")

    def end(self, state: State, reason: str) -> None:
        """Record how the run ended."""
        if self.begun:
            self._say(state, reason)

    def _say(self, state: State, reason: str = "") -> None:
        if self.writes:
            _write(self.folder, {"state": state, "reason": reason})


@contextmanager
def record_state(folder: Path, *, writes: bool = True) -> Iterator[Record]:
    """Record on disk how a run that begins in this block ends; without a beginning the state is left as it was."""
    record = Record(folder, writes)
    try:
        yield record
    except BaseException as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        stopped = isinstance(error, KeyboardInterrupt)
        with suppress(OSError, ValueError):  # the first error is the one to report
            record.end("interrupted" if stopped else "failed", "keyboard" if stopped else reason)
        raise


def summarise_run(folder: Path) -> Summary:
    """Return the state of a run; one recorded as running without holding its lock was killed."""
    from regard.training.lock import is_locked

    if is_comparison(folder):
        return _summarise_comparison(folder)
    if not (folder / "config.yaml").is_file():
        raise ValueError(f"{folder}: not a run folder, it has no config.yaml")
    state_record = _read(folder / STATE)
    state, reason = state_record.get("state", "unknown"), str(state_record.get("reason", ""))
    if state == "running" and not is_locked(folder):
        state, reason = "killed", "killed, or the machine went down"
    lone = (folder / "manifest.json").is_file()  # a checkpoint without a run: imported, or fitted in one step
    if lone and not state_record:
        state, reason = "finished", "made without steps"
    records = list(_records(folder / "metrics.jsonl"))
    step = max((record.get("step", 0) for record in records), default=0)
    best: Mapping[str, float] = {}
    place = folder if lone else folder / "best"
    if place.exists():
        try:
            best = checkpoint.peek(place).metrics  # the scores can be read without the weights
        except checkpoint.CheckpointError as error:
            reason = f"{reason}; {error}" if reason else str(error)
    return Summary(folder, state, reason, step, best)


def _summarise_comparison(folder: Path) -> Summary:
    """Return the state of a comparison: that of its first unfinished run, or once it has finished its best model."""
    result = read_result(folder)
    if not result:
        begun = [summarise_run(path) for path in sorted(folder.iterdir()) if (path / "config.yaml").is_file()]
        active = [run for run in begun if run.state != "finished"]
        state: State = active[0].state if active else "interrupted"
        return Summary(folder, state, f"compares models, {len(begun) - len(active)} trained", 0, {})
    try:
        best = checkpoint.peek(folder / "best")
    except checkpoint.CheckpointError as error:
        return Summary(folder, "finished", str(error), 0, {})
    reason = f"{len(result['entries'])} compared, the best is {result['best']}"
    return Summary(folder, "finished", reason, best.step, best.metrics)


def has_diverged(folder: Path) -> bool:
    """True if a run ended because training diverged."""
    return str(_read(folder / STATE).get("reason", "")).startswith("diverged")


def describe(folder: Path) -> dict[str, Any]:
    """Summarise a run in a few facts: state, step, scores, task, model, training data and command."""
    run_summary = summarise_run(folder)
    settings = config.read(folder / "config.yaml") if (folder / "config.yaml").is_file() else {}
    data, model = settings.get("data"), settings.get("model")
    command = (folder / "command.txt").read_text(errors="replace") if (folder / "command.txt").is_file() else ""
    best = ", ".join(f"{name} {value:.4g}" for name, value in run_summary.best.items())
    return {
        "run": str(folder),
        "state": run_summary.state,
        "why": run_summary.reason,
        "step": run_summary.step,
        "best": best,
        "task": settings.get("task", ""),
        "model": model.get("name", "") if isinstance(model, Mapping) else "",
        "trained on": ", ".join(_paths(data.get("train"))) if isinstance(data, Mapping) else "",
        "command": (command.splitlines() or [""])[0],
    }


def _paths(value: Any) -> list[str]:
    """Return the files that a setting names."""
    if isinstance(value, Mapping):
        return [str(value[name]) for name in ("path", "source", "target") if value.get(name)]
    if isinstance(value, list | tuple):
        return [path for inner in value for path in _paths(inner)]
    return [value] if isinstance(value, str) else []


def summaries(root: Path) -> list[Summary]:
    """Return the summaries of all runs in a folder, sorted by name."""
    if not root.is_dir():
        raise ValueError(f"{root}: no such folder, name one that holds runs")
    if (root / "config.yaml").is_file():
        return [summarise_run(root)]
    folders = [path for path in sorted(root.iterdir()) if (path / "config.yaml").is_file() or is_comparison(path)]
    if is_comparison(root):  # whose best model is a copy of one of its runs
        folders = [path for path in folders if path.name != "best"]
    return [summarise_run(path) for path in folders]


def learning_curve(folder: Path, metric: str) -> list[Point]:
    """Return a run's scores by a metric, with the step and the seconds of training of each evaluation."""
    records = [record for record in _records(folder / "metrics.jsonl") if record.get("kind") == "evaluation"]
    if not records:
        raise ValueError(f"{folder}: no evaluations in its metrics.jsonl, give a run folder that trained to its first")
    if not any(_numeric(record.get(metric)) for record in records):
        raise ValueError(f"{folder}: its evaluations have no {metric}, give a run that was measured by it")
    measured = [record for record in records if _numeric(record.get("seconds")) and _numeric(record.get(metric))]
    if not measured:
        raise ValueError(f"{folder}: its metrics.jsonl has no seconds, it was made before they were kept: train again")
    return [Point(record["step"], float(record["seconds"]), float(record[metric])) for record in measured]


def metrics(folder: Path) -> set[str]:
    """Return the names of the metrics of a run's evaluations."""
    records = (record for record in _records(folder / "metrics.jsonl") if record.get("kind") == "evaluation")
    return {name for record in records for name, value in record.items() if _numeric(value)} - {"step", "seconds"}


def difference(first: Path, second: Path) -> list[tuple[str, str, str]]:
    """Return the settings, data, environment and scores in which two runs differ: (name, first, second)."""
    facts = [_facts(folder) for folder in (first, second)]
    names = [*facts[0], *(name for name in facts[1] if name not in facts[0])]
    rows = ((name, facts[0].get(name, "-"), facts[1].get(name, "-")) for name in names)
    return [row for row in rows if row[1] != row[2]]


def _facts(folder: Path) -> dict[str, str]:
    """Return all known facts about a run as a flat dictionary."""
    run_summary = summarise_run(folder)
    facts: dict[str, Any] = {
        **modernise_settings(config.read(folder / "config.yaml")),
        "data.json": _read(folder / "data.json"),
        "env": _read(folder / "env.json"),
        "state": run_summary.state,
        "step": run_summary.step,
        "best": dict(run_summary.best),
    }
    return dict(_flat(facts))


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{number}]")
    else:
        yield name, f"{value:.4g}" if isinstance(value, float) else str(value)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a metrics file, skipping lines cut short by a crash."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write(folder: Path, state: Mapping[str, str]) -> None:
    checkpoint.replace(folder / STATE, checkpoint.render(dict(state)))
