"""The work between training steps: evaluations, checkpoints, the best weights, roll-backs and the end of training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard import checkpoint
from regard.training import device, resume
from regard.training.ema import MovingAverage
from regard.training.guard import REMEDY, Faults, Guard, recall
from regard.training.log import Log
from regard.training.resume import Best, Progress, mean
from regard.training.run import Run
from regard.training.stopping import Signals, improves
from regard.training.task import Evaluation


@dataclass(frozen=True)
class Result:
    """The outcome of a training run."""

    step: int
    reason: str
    """`steps`, `seconds`, `patience`, `interrupted`, or a sentence that begins with `diverged:` or `out of memory:`."""
    seconds: float
    best: Best | None
    faults: Faults
    counts: dict[str, float]

    @property
    def has_failed(self) -> bool:
        """True if training ended neither as planned nor on request."""
        return self.reason not in ("steps", "seconds", "patience", "interrupted")

    @property
    def state(self) -> Any:
        """Return the outcome in one word: failed, interrupted or finished."""
        return "failed" if self.has_failed else "interrupted" if self.reason == "interrupted" else "finished"


class Abandoned(Exception):
    """Raised when an evaluation is interrupted, in this process or in another."""


class Bookkeeping:
    """The progress of a run and the files it writes."""

    def __init__(
        self,
        task: Any,
        config: Any,
        run: Run,
        log: Log,
        signals: Signals,
        *,
        guard: Guard,
        optimizers: Mapping[str, Any],
        ema: MovingAverage,
    ) -> None:
        self.task, self.config, self.run, self.log, self.signals = task, config, run, log, signals
        self.team, self.guard, self.optimizers, self.ema = run.team, guard, optimizers, ema
        self.progress, self.saved = Progress(), -1
        self.metrics: Mapping[str, Any] = {}
        self.began = self.written = time.monotonic()
        self.precision: tuple[torch.device, torch.dtype] = torch.device("cpu"), torch.float32

    def open(self, *, precision: tuple[torch.device, torch.dtype]) -> None:
        """Log the run's notes and restore its newest checkpoint, if there is one."""
        self.precision, run = precision, self.run
        for note in run.notes:
            self.log.note(note)
        if run.damaged:
            self.log.fault(run.latest.step if run.latest else 0, {"damaged": run.damaged})
        if run.latest is not None:
            self.progress = self._restore_progress(run.latest)
            self.metrics, self.saved = run.latest.metrics, run.latest.step
            self.guard.adopt(recall(run.latest))
            self._prune()
            self._trust_best()
        self.began = time.monotonic() - self.progress.seconds
        self.written = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds of training, including those before a resume."""
        return time.monotonic() - self.began

    @property
    def owes_evaluation(self) -> bool:
        """True if an evaluation is due at this step and has not been completed."""
        step = self.progress.step
        due = step % self.config.eval_every == 0 or step == self.config.steps
        return step > 0 and due and self.progress.evaluated != step

    @property
    def owes_checkpoint(self) -> bool:
        """True if a checkpoint is due by steps, or by minutes, which are checked at every logging step."""
        step, minutes = self.progress.step, self.config.save_minutes
        if step % self.config.save_every == 0:
            return True
        if minutes is None or step % self.config.log_every:
            return False
        late = time.monotonic() - self.written >= 60 * minutes
        return bool(self.team.broadcast(late if self.team.is_main else None)) and self.worth_saving  # reads all weights

    @property
    def is_saved(self) -> bool:
        """True if the last step is saved, with the metrics of its evaluation."""
        return self.saved == self.progress.step

    @property
    def worth_saving(self) -> bool:
        """True if training could continue from the current state."""
        return self.guard.health.streak < self.config.failures and self.guard.find_non_finite() is None

    def evaluate(self) -> None:
        """Evaluate the model, or the moving average of its weights if there is one."""
        with self.ema.apply():
            self._score("evaluation")

    def _score(self, kind: str) -> None:
        """Evaluate the model, with the work shared by all processes, and save it to best/ if it is the best so far."""
        began, progress = time.monotonic(), self.progress
        spent = self.seconds - progress.evaluating
        evaluation = self._evaluation()
        if evaluation is None:
            return
        metrics: dict[str, int | float | None] = dict(evaluation.metrics)
        better = evaluation.failed is None and self._is_improvement(metrics, kind)
        if evaluation.failed is not None:
            self.guard.give_up(progress.step, evaluation.failed)
        if kind == "evaluation":
            self.metrics, progress.evaluated, self.saved = metrics, progress.step, -1  # the checkpoint lacks these
            progress.stale = 0 if better else progress.stale + 1
            if self.team.is_main:
                self.run.show(progress.step, evaluation.samples)
                if self.task.tracer is not None:
                    self.task.tracer.record(progress.step)
        if better:
            progress.best = Best(progress.step, metrics)
            self._write(self.run.best, lambda: {"model.safetensors": resume.lasting(self.task.model)}, metrics)
            self.team.wait()
            self._say_best()
        scores, samples = dict(evaluation.metrics), evaluation.samples
        self.log.evaluation(progress.step, scores, samples, kind=kind, best=better, seconds=spent)
        progress.evaluating += time.monotonic() - began

    def _evaluation(self) -> Evaluation | None:
        """Return the task's evaluation of its model; None if it was interrupted."""
        self.task.model.eval()
        device.seed(self.precision[0], self.config.seed)
        try:
            with torch.no_grad(), device.autocast(*self.precision):
                if self.team.size == 1:
                    return self.signals.attempt(self.task.evaluate)
                return self.task.evaluate(self._spread)
        except Abandoned:
            return None
        finally:
            self.task.model.train()

    def _spread(self, function: Callable[[Any], Any], things: Sequence[Any]) -> list[Any]:
        """Apply a function to all items, divided among the processes, and return all results (JSON data)."""
        mine = self.signals.attempt(lambda: [function(thing) for thing in self.team.shard(things)])
        parts = self.team.gather(mine, patient=True)
        if any(part is None for part in parts):
            raise Abandoned
        return [parts[number % self.team.size][number // self.team.size] for number in range(len(things))]

    def _is_improvement(self, metrics: Mapping[str, Any], kind: str) -> bool:
        """True if these are the best scores so far; without a goal the newest are. Non-finite scores never are."""
        if self._not_finite(metrics) is not None:
            return False
        if self.task.goal is None:
            return True
        (name, direction), best = self.task.goal, self.progress.best.metrics if self.progress.best else {}
        better = improves(metrics[name], best.get(name), direction)
        if kind == "average" and improves(metrics[name], None, direction):  # averaged weights depend less on chance
            better = better or improves(metrics.get("loss"), best.get("loss"), "min")
        return better

    def _not_finite(self, metrics: Mapping[str, Any]) -> str | None:
        """Return the name of the loss or goal metric if it is not finite, which means that nothing was learnt."""
        names = ["loss"] if self.task.goal is None else ["loss", self.task.goal[0]]
        values = {name: metrics[name] for name in names if name in metrics}
        return next((name for name, value in values.items() if value is None or not math.isfinite(value)), None)

    def give_up_if_nothing_was_learnt(self) -> str | None:
        """Return the reason to count a planned end as a failure, if no evaluation gave finite scores."""
        if self.progress.best is not None or self.progress.evaluated < 0:
            return None
        name = self._not_finite(self.metrics) or "loss"
        self.guard.give_up(self.progress.step, f"no evaluation found a finite {name}: {REMEDY}")
        return self.guard.reason

    def save(self) -> None:
        """Save a checkpoint to resume from."""
        progress = self.progress
        progress.seconds = self.seconds
        self.guard.saving(progress.step)
        directory = self.run.directory(progress.step)
        self._write(directory, self._state, self.metrics)
        self._prune()
        self.team.wait()
        self.saved, self.written = progress.step, time.monotonic()
        self.log.note_checkpoint(progress.step, directory)

    def _state(self) -> dict[str, Any]:
        """Return the files that a checkpoint needs for training to resume."""
        files = resume.files(self.task.model, self.optimizers, self.progress, self.ema.weights)
        files[resume.NUMBERS]["health"] = asdict(self.guard.snapshot())
        return files

    def _restore_progress(self, saved: checkpoint.Checkpoint) -> Progress:
        progress = resume.restore(saved, self.task.model, self.optimizers)
        self.ema.restore(resume.read_average(saved))
        return progress

    def _write(self, directory: Path, files: Callable[[], dict[str, Any]], metrics: Mapping[str, Any]) -> None:
        """Write a checkpoint, in the main process only."""
        if self.team.is_main:
            contents = {**self.task.contents(), **files(), "metrics.json": metrics}
            checkpoint.write(directory, contents, facts=self.run.facts(self.progress.step))

    def go_back(self, why: str) -> bool:
        """Restore the last good checkpoint and continue with the rows after those tried; return False to stop instead.

        No checkpoint is written: if the run is killed after this and resumed, it repeats the failure and ends the same.
        """
        guard, before = self.guard, self.progress
        target = self._find_good(guard.goals(self.run.steps()))
        if target is None:
            guard.despair(before.step, why)
            return False
        for step in reversed(self.run.steps()):
            if step > target.step and self.team.is_main:
                checkpoint.remove(self.run.directory(step))
        self.progress = self._restore_progress(target)
        self.progress.best, self.progress.stale = before.best, before.stale  # its weights are in best/
        self.progress.evaluating = before.evaluating  # the clock is not set back, so neither is this
        self.progress.longest_warmup = before.longest_warmup  # decided once
        health = recall(target)
        guard.retreat(health, step=before.step, to=target.step, rows=self.config.accumulate)
        self.metrics, self.saved = target.metrics, target.step
        self.log.rewind(target.step, guard.health.faults.since(health.faults))
        self.log.note(f"step {before.step}: {why}: back to step {target.step}, and on with the rows after these")
        return True

    def _find_good(self, steps: Iterable[int]) -> checkpoint.Checkpoint | None:
        """Return the first of these checkpoints that is intact, as chosen by process 0."""
        candidate = self.run.whole(steps, self.log.note) if self.team.is_main else None
        step = self.team.broadcast(candidate and candidate.step)
        return checkpoint.read(self.run.directory(step)) if candidate is None and step is not None else candidate

    def _prune(self) -> None:
        if self.team.is_main:
            self.run.prune(self.guard.health.saved, every=self.config.keep_every)

    def average(self) -> None:
        """Evaluate the mean of the newest checkpoints as a last candidate for the best model."""
        steps = [step for step in self.run.steps() if step <= self.progress.step][-self.config.average :]
        if self.config.average > 1 and len(steps) > 1:  # the same in every process, as none writes now
            means = mean(checkpoint.read(self.run.directory(step)).tensors() for step in steps)
            resume.load_lasting(self.task.model, means)
            self._score("average")

    def close(self, reason: str) -> Result:
        """Load the best weights into the model at the end of training and return the result."""
        progress = self.progress
        if progress.best is not None:
            resume.load_lasting(self.task.model, checkpoint.read(self.run.best).tensors())
        best = "" if progress.best is None else f", best at step {progress.best.step}"
        kind, sentence, _ = reason.partition(":")
        if sentence:
            self.log.note(reason)
        self.log.note(f"stopped at step {progress.step} ({kind}) after {self.seconds:.0f} s{best}")
        faults = replace(self.guard.health.faults)
        return Result(progress.step, reason, self.seconds, progress.best, faults, dict(progress.counts))

    def _trust_best(self) -> None:
        """Compare best/ with the saved progress: it may be damaged, or newer because of an averaging."""
        progress = self.progress
        try:
            best_checkpoint = checkpoint.read(self.run.best)
        except checkpoint.CheckpointError as error:
            if progress.best is not None:
                self.log.note(f"the best so far is lost: {error}")
                progress.best = None
            return
        if best_checkpoint.step <= progress.step and (self.task.goal is None or self._sound(best_checkpoint.metrics)):
            progress.best = Best(best_checkpoint.step, best_checkpoint.metrics)
        self._say_best()

    def _sound(self, metrics: Mapping[str, Any]) -> bool:
        name, direction = self.task.goal
        return improves(metrics.get(name), None, direction)

    def _say_best(self) -> None:
        """Pass the best score so far to the log."""
        if self.task.goal is not None and self.progress.best is not None:
            score = self.progress.best.metrics.get(self.task.goal[0])
            if score is not None:
                self.log.best(score)
