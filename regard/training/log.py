"""The log of a run: on the terminal, in train.log, in metrics.jsonl and for TensorBoard."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.checkpoint import render, replace
from regard.data.progress import Countdown
from regard.training.callbacks import Callback

Number = int | float
SHOWN = 2  # samples on the terminal; the run folder has them all


class Terminal(Console):
    """A terminal that may be closed; output after that is dropped without an error."""

    def on_broken_pipe(self) -> None:
        """Stop printing."""
        self.quiet = True


class Log:
    """The log of a training run: a progress bar on a terminal, plain lines elsewhere, files in the run folder."""

    def __init__(
        self,
        folder: Path,
        *,
        quiet: bool = False,
        tensorboard: bool = False,
        console: Console | None = None,
        step: int = 0,
        begun: bool = True,
    ) -> None:
        self.console = console or Terminal(stderr=True)
        self.folder, self.quiet = folder, quiet
        self._lines = open(folder / "train.log", "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self._first = self._lines.tell()
        self._records: TextIO | None = None  # opened at the first record: until then it may be an earlier run's
        self._writer = _writer(folder / "tensorboard", step) if tensorboard else None
        self._bar = _bar(self.console) if self.console.is_terminal and not quiet else None
        self._task = self._bar.add_task("", total=1.0, text="") if self._bar else None
        self._values = self._best = ""
        self._countdown: Countdown | None = None
        self._safe, self._begun = step, begun
        self.callbacks: Sequence[Callback] = ()

    def __enter__(self) -> Log:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()
        for file in (self._lines, self._records, self._writer):
            if file is not None:
                file.close()

    def begin(self, *, step: int, tensorboard: bool, anew: bool) -> None:
        """Start the log of a run at a step; with `anew`, discard what an earlier run wrote to train.log."""
        self._safe, self._begun = step, True
        if anew and self._first:
            self._lines.close()
            new_lines = (self.folder / "train.log").read_bytes()[self._first :]
            replace(self.folder / "train.log", new_lines)
            self._lines = open(self.folder / "train.log", "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        if tensorboard and self._writer is None:
            self._writer = _writer(self.folder / "tensorboard", step)

    def note(self, text: str) -> None:
        """Log one sentence."""
        self._say(text)

    def prepare(self, what: str, completed: int, total: int) -> None:
        """Show the progress of work before training: on the bar, or in a line now and then."""
        if self._bar and self._task is not None:
            text = f"{completed:,} of {total:,} {what}" if completed < total else ""
            self._bar.update(self._task, completed=completed / total if completed < total else 0.0, text=text)
        if self._countdown is None or self._countdown.what != what:
            self._countdown = Countdown(what)
        if (line := self._countdown.line(completed, total)) is not None:
            self._say(line, terminal=self._bar is None)
        if completed >= total:
            self._countdown = None

    def advance(self, step: int, share: float) -> None:
        """Update the progress bar after a step; `share` is the completed fraction of the run."""
        if self._bar and self._task is not None:
            text = f"step {step}{self._values}{self._best}"
            self._bar.update(self._task, completed=min(1.0, share), text=text)

    def step(
        self, step: int, values: Mapping[str, Number], *, total: int | None = None, seconds_left: float | None = None
    ) -> None:
        """Log the measurements since the last report, with the total number of steps and the estimated seconds left."""
        self._record(step, "training", values)
        self._values = "".join(f" {words}" for words in _words(values))
        rest = "" if seconds_left is None else f"  {_duration(seconds_left)} left"
        among = "" if total is None else f" of {total}"
        self._say(f"step {step}{among} {self._values}{rest}", terminal=self._bar is None)
        for callback in self.callbacks:
            callback.on_step(step, values)

    def evaluation(
        self,
        step: int,
        metrics: Mapping[str, Number],
        samples: Sequence[Mapping[str, Any]],
        *,
        kind: str,
        best: bool,
        seconds: float,
    ) -> None:
        """Log the scores of an evaluation after some seconds of training, with a few answers, wrong ones first."""
        self._record(step, kind, {**metrics, "seconds": round(seconds, 3)})
        shown = "  ".join(_words(metrics))
        self._say(f"step {step}  {kind}: {shown}{'  (best so far)' if best else ''}")
        for sample in sorted(samples, key=_is_right)[:SHOWN]:
            for name, text in sample.items():
                self._say(_cut(f"    {name:<10}{text}"))
        for callback in self.callbacks:
            callback.on_evaluation(step, metrics)

    def best(self, value: Number) -> None:
        """Show the best score so far on the progress bar."""
        self._best = f" best {_number(value)}"

    def note_checkpoint(self, step: int, directory: Path) -> None:
        """Log that a checkpoint has been saved."""
        self._safe = step
        self._say(f"step {step}  saved {directory.parent.name}/{directory.name}", terminal=False)
        for callback in self.callbacks:
            callback.on_checkpoint(directory)

    def note_failure(self, reason: str) -> None:
        """Log an error that ends the run, counted at the step from which the run can be resumed."""
        self.quiet = True  # the caller that catches the error prints it
        self._say(f"failed: {reason}")
        if self._begun:
            self.fault(self._safe, {"failed": 1})

    def fault(self, step: int, values: Mapping[str, Number]) -> None:
        """Record counts of faults that are not among the measurements of training."""
        self._record(step, "fault", values)

    def rewind(self, step: int, values: Mapping[str, Number]) -> None:
        """Discard the measurements after a step to which training went back; `values` are the faults since then."""
        if self._records is not None:
            self._records.close()
            self._records = None
        drop_records(self.folder / "metrics.jsonl", after=step)
        if self._writer:
            self._writer.close()
            self._writer = _writer(self.folder / "tensorboard", step)
        self.fault(step + 1, values)  # dropped when a run is resumed at the step, as it records this again

    def _say(self, text: str, *, terminal: bool = True) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
        _append(self._lines, f"{now} {text}\n")
        if terminal and not self.quiet:
            try:
                self.console.print(text, markup=False, highlight=False, soft_wrap=self._bar is None)
            except OSError:  # the terminal was closed, which is no reason to stop
                self.quiet = True

    def _record(self, step: int, kind: str, values: Mapping[str, Number]) -> None:
        record = json.loads(render({"step": step, "kind": kind, **values}))
        if self._records is None:
            self._records = open(self.folder / "metrics.jsonl", "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        _append(self._records, json.dumps(record) + "\n")
        if self._writer:
            for name, value in values.items():
                self._writer.add_scalar(f"{kind}/{name}", value, step)


class Silence(Log):
    """A log that writes nothing, for all processes but the main one."""

    def __init__(self) -> None:
        self.quiet, self._bar, self._task, self._values, self._best, self._safe = True, None, None, "", "", 0
        self.callbacks = ()

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, *, step: int, tensorboard: bool, anew: bool) -> None:
        """Write nothing."""

    def prepare(self, what: str, completed: int, total: int) -> None:
        """Show nothing."""

    def rewind(self, step: int, values: Mapping[str, Number]) -> None:
        """Discard nothing, as nothing was written."""

    def _say(self, text: str, *, terminal: bool = True) -> None:
        pass

    def _record(self, step: int, kind: str, values: Mapping[str, Number]) -> None:
        pass


def _append(file: TextIO, line: str) -> None:
    """Write a line and flush it, adding the file's name to an error of the disk."""
    try:
        file.write(line)
        file.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, file.name) from error


def drop_records(path: Path, *, after: int) -> None:
    """Drop the records after a step, those of a final average and lines cut short by a crash from a metrics file."""
    if not path.exists():
        return
    remaining = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            record = json.loads(line)
            if record["step"] <= after and record["kind"] != "average":
                remaining.append(line + "\n")
        except (ValueError, KeyError, TypeError):
            continue
    replace(path, "".join(remaining).encode("utf-8"))


def _bar(console: Console) -> Progress:
    """Return a progress bar with numbers and time left, which fits into 80 columns."""
    return Progress(
        BarColumn(bar_width=8), TextColumn("{task.fields[text]}", markup=False), TimeRemainingColumn(), console=console
    )


def _writer(folder: Path, step: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step + 1)


def _is_right(sample: Mapping[str, Any]) -> bool:
    """True if the answer equals the true label; False if it does not, or if the sample has no label."""
    truths = [sample[name] for name in ("truth", "label") if name in sample]
    return bool(truths) and sample.get("answer") == truths[0]


def _words(values: Mapping[str, Number]) -> list[str]:
    """Format numbers with their names, briefly enough for one line; a speed reads `12.3k tokens/s`.

    The losses of several parts read `loss 1.35/0.71`, in the order of the parts' updates.
    """
    suffix, loss_names = "_per_second", [name for name in values if name.endswith("_loss")]
    losses = "/".join(_number(values[name]) for name in loss_names)
    return [f"loss {losses}"] * bool(loss_names) + [
        f"{_number(value)} {name.removesuffix(suffix)}/s" if name.endswith(suffix) else f"{name} {_number(value)}"
        for name, value in values.items()
        if name not in loss_names and (name != "skipped" or value)  # the one fault that is always counted
    ]


def _number(value: Number | None) -> str:
    if value is None:
        return "-"
    if abs(value) >= 10_000:
        return f"{value / 1000:.1f}k" if abs(value) < 1_000_000 else f"{value / 1_000_000:.1f}M"
    return f"{value:.1e}" if 0 < abs(value) < 0.01 else f"{value:.4g}"


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if hours < 2 else f"{hours:.1f} h"


def _cut(text: str, width: int = 80) -> str:
    text = " ".join(text.splitlines())
    return text if len(text) <= width else f"{text[: width - 3]}..."
