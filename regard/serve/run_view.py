"""A run folder as a page shows it, while it trains and after: its state, its curves, its samples and traces."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import checkpoint, config
from regard.interpret.small_traces import SmallTrace, read_traces
from regard.serve.calls import ABSOLUTE_PATH
from regard.serve.catalogue import public_name
from regard.serve.refusal import Refusal
from regard.serve.run_records import RecordFile, thin
from regard.training.comparison import is_comparison
from regard.training.history import summarise_run
from regard.training.run import Run

CURVE_POINTS = 500
SAMPLE_STEPS = 40
TRACE_STEPS = 500
TEXT_LETTERS = 400  # of a sample
LOG_BYTES = 1 << 16  # read of each end of a log
LOG_LINES = 12
PLAN = re.compile(r"training .*?([\d,]+) steps? at most")
RESUMED = re.compile(r"resuming from step (\d+)")
TRACE_FILE = re.compile(r"step-(\d+)\.safetensors")


class RunView:
    """What is shown of one run; everything that is read is looked up by numbers that the folder itself lists."""

    def __init__(self, folder: Path) -> None:
        if is_comparison(folder):
            raise ValueError(f"{folder} compares several runs: name one of the folders in it")
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file: name the folder of a run")
        self.folder, self.name = folder, public_name(folder)
        self._records = RecordFile(folder / "metrics.jsonl")
        self._samples: dict[int, tuple[int, list[dict[str, str]]]] = {}
        self._lock = threading.Lock()

    def describe(self) -> dict[str, Any]:
        """Return everything but the traces, as JSON of bounded size."""
        with self._lock:
            self._records.refresh()
            settings = self._read_settings()
            evaluated = self._records.steps("evaluation")
            traced = self.trace_steps()
            return {
                "name": self.name,
                "task": settings.get("task", ""),
                "state": self._describe_state(settings),
                "settings": _hide_folders(settings),
                "goal": self._goal(),
                "curves": self._records.curves(CURVE_POINTS),
                "samples": [self._read_samples(step) for step in thin(evaluated, SAMPLE_STEPS)],
                "traces": {"steps": thin(traced, TRACE_STEPS), "of": len(traced), "inputs": self._read_inputs()},
                "log": [_hide_folders(line) for line in self._read_log()[1][-LOG_LINES:]],
            }

    def summary(self) -> dict[str, Any]:
        """Return the name, the task and the state alone."""
        settings = self._read_settings()
        with self._lock:
            self._records.refresh()
            return {"name": self.name, "task": settings.get("task", ""), "state": self._describe_state(settings)}

    def trace_steps(self) -> list[int]:
        """Return the steps whose traces are saved, in order; those after a roll-back are left out."""
        try:
            names = [path.name for path in (self.folder / "traces").iterdir()]
        except OSError:
            return []
        saved = {int(match[1]) for name in names if (match := TRACE_FILE.fullmatch(name))}
        return sorted(saved & set(self._records.steps("evaluation")))

    def read_trace(self, step: int, number: int) -> SmallTrace:
        """Return the trace of one input at a step; what is not listed is refused before any file is looked for."""
        with self._lock:
            self._records.refresh()
            steps = self.trace_steps()
        if step not in steps:
            raise Refusal(404, f"no traces of step {step} are saved: see the list in /v1/run", "not_found")
        try:
            traces = read_traces(self.folder / "traces" / f"step-{step}.safetensors")
        except ValueError:
            raise Refusal(410, f"the traces of step {step} are damaged: look at another step", "damaged") from None
        if not 0 <= number < len(traces):
            raise Refusal(404, f"there are {len(traces)} traces of step {step}, from 0: none is {number}", "not_found")
        return traces[number]

    def _describe_state(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the run stands: its state, why, its steps, and what was lost."""
        if not (self.folder / "config.yaml").is_file():
            state, reason, best = "preparing", "", {}
        else:
            summary = summarise_run(self.folder)
            state, reason, best = summary.state, summary.reason, dict(summary.best)
        head, tail = self._read_log()
        return {
            "state": state,
            "reason": _hide_folders(reason),
            "step": self._records.step,
            "steps": self._planned_steps(settings, [*head, *tail]),
            "best": best,
            "best_step": self._best_step(),
            "resumed": sum(1 for line in tail if RESUMED.search(line)),
            "resumed_from": next((int(match[1]) for line in reversed(tail) if (match := RESUMED.search(line))), None),
            "damaged": self._damaged(),
            "faults": self._records.count_faults(),
            "unreadable": self._records.unreadable,
        }

    def _damaged(self) -> list[str]:
        """Return the names of checkpoints that are damaged, or were moved aside because they were."""
        try:
            places = [self.folder, *(path for path in (self.folder / "checkpoints",) if path.is_dir())]
            aside = [path.name for place in places for path in place.glob("damaged-*")]
        except OSError:
            return []
        checkpoints = [path for path in (self.folder / "best", *self._checkpoint_folders()) if path.exists()]
        return sorted({*aside, *(path.name for path in checkpoints if not _is_complete(path))})

    def _checkpoint_folders(self) -> list[Path]:
        run = Run(self.folder)
        return [run.directory(step) for step in run.steps()]

    def _best_step(self) -> int | None:
        try:
            return checkpoint.peek(self.folder / "best").step
        except (checkpoint.CheckpointError, OSError):
            return None

    def _goal(self) -> str | None:
        """Return the measure whose best value chooses the weights, if the task has one."""
        from regard.tasks import TASKS

        try:
            goal = TASKS[str(self._read_settings().get("task"))].task.goal
        except (KeyError, AttributeError):
            return None
        return goal[0] if isinstance(goal, tuple) else None

    def _planned_steps(self, settings: Mapping[str, Any], lines: list[str]) -> int | None:
        """Return the steps at which the run ends at the latest, as its log says, or its settings."""
        for line in reversed(lines):
            if match := PLAN.search(line):
                return int(match[1].replace(",", ""))
        training = settings.get("training")
        steps = training.get("steps") if isinstance(training, Mapping) else None
        return steps if isinstance(steps, int) else None

    def _read_settings(self) -> dict[str, Any]:
        try:
            return config.read(self.folder / "config.yaml")
        except (OSError, ValueError):
            return {}

    def _read_samples(self, step: int) -> dict[str, Any]:
        """Return the sample answers of a step, read once for each version of their file."""
        path = self.folder / "samples" / f"step-{step}.json"
        try:
            changed = path.stat().st_mtime_ns
            if self._samples.get(step, (None,))[0] != changed:
                self._samples[step] = changed, _plain_samples(json.loads(path.read_bytes()))
            return {"step": step, "answers": self._samples[step][1]}
        except (OSError, ValueError):
            return {"step": step, "answers": []}

    def _read_inputs(self) -> list[str]:
        """Return the inputs whose traces are saved, in words."""
        try:
            listed = json.loads((self.folder / "traces" / "inputs.json").read_bytes())
            return [str(item["text"])[:TEXT_LETTERS] for item in listed]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def _read_log(self) -> tuple[list[str], list[str]]:
        """Return the first and the last lines of the log."""
        try:
            with (self.folder / "train.log").open("rb") as file:
                size = file.seek(0, 2)
                file.seek(0)
                head = file.read(LOG_BYTES) if size > LOG_BYTES else b""
                file.seek(max(0, size - LOG_BYTES))
                tail = file.read(LOG_BYTES)
        except OSError:
            return [], []
        return head.decode("utf-8", "replace").splitlines(), tail.decode("utf-8", "replace").splitlines()


def _is_complete(directory: Path) -> bool:
    """True if a checkpoint has all its files in their sizes, which is seen without reading them."""
    try:
        checkpoint.peek(directory)
        return True
    except (checkpoint.CheckpointError, OSError):
        return not directory.exists()  # it was pruned meanwhile


def _plain_samples(listed: Any) -> list[dict[str, str]]:
    """Return samples as short texts by name."""
    samples = [sample for sample in listed if isinstance(sample, dict)] if isinstance(listed, list) else []
    return [
        {str(name): _hide_folders(str(value))[:TEXT_LETTERS] for name, value in sample.items()} for sample in samples
    ]


def _hide_folders(value: Any) -> Any:
    """Return settings or a text with the names of files in place of their paths."""
    if isinstance(value, str):
        return ABSOLUTE_PATH.sub(lambda match: Path(match[0]).name, value)
    if isinstance(value, Mapping):
        return {str(name): _hide_folders(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hide_folders(inner) for inner in value]
    return value if isinstance(value, int | float | type(None)) else str(value)
