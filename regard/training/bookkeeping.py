"""What is due between two steps: evaluations, checkpoints, the best so far, the way back, the average, the end."""

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
    """How a training ended."""

    step: int
    reason: str
    """steps, seconds, patience, interrupted, or a sentence that begins with `diverged:` or `out of memory:`."""
    seconds: float
    best: Best | None
    faults: Faults
    counts: dict[str, float]

    @property
    def has_failed(self) -> bool:
        """Whether it ended neither as planned nor by request."""
        return self.reason not in ("steps", "seconds", "patience", "interrupted")

    @property
    def state(self) -> Any:
        """The same in one word."""
        return "failed" if self.has_failed else "interrupted" if self.reason == "interrupted" else "finished"


class Abandoned(Exception):
    """An evaluation that somebody interrupted, in this process or in another."""


class Bookkeeping:
    """Where a run stands and what it leaves on disk."""

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
        """Be where the run stopped, if it did."""
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
        """Of training, before a resume too."""
        return time.monotonic() - self.began

    @property
    def owes_evaluation(self) -> bool:
        """Whether an evaluation is due that was not made, be it because somebody interrupted it."""
        step = self.progress.step
        due = step % self.config.eval_every == 0 or step == self.config.steps
        return step > 0 and due and self.progress.evaluated != step

    @property
    def owes_checkpoint(self) -> bool:
        """Whether one is due by steps or, looked at as often as something is logged, by minutes."""
        step, minutes = self.progress.step, self.config.save_minutes
        if step % self.config.save_every == 0:
            return True
        if minutes is None or step % self.config.log_every:
            return False
        late = time.monotonic() - self.written >= 60 * minutes
        return bool(self.team.broadcast(late if self.team.is_main else None)) and self.worth_saving  # reads all weights

    @property
    def is_saved(self) -> bool:
        """Whether the last step is safe on disk, with what its evaluation found."""
        return self.saved == self.progress.step

    @property
    def worth_saving(self) -> bool:
        """Whether training could go on from here."""
        return self.guard.health.streak < self.config.failures and self.guard.find_non_finite() is None

    def evaluate(self) -> None:
        """Score the model as it is, or the moving average of its weights where there is one."""
        with self.ema.apply():
            self._score("evaluation")

    def _score(self, kind: str) -> None:
        """Score the model as it is, shared by all processes; the best so far goes to best/."""
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
            self.metrics, progress.evaluated, self.saved = metrics, progress.step, -1  # what was saved knows less
            progress.stale = 0 if better else progress.stale + 1
            if self.team.is_main:
                self.run.show(progress.step, evaluation.samples)
        if better:
            progress.best = Best(progress.step, metrics)
            self._write(self.run.best, lambda: {"model.safetensors": resume.lasting(self.task.model)}, metrics)
            self.team.wait()
            self._say_best()
        scores, samples = dict(evaluation.metrics), evaluation.samples
        self.log.evaluation(progress.step, scores, samples, kind=kind, best=better, seconds=spent)
        progress.evaluating += time.monotonic() - began

    def _evaluation(self) -> Evaluation | None:
        """What the task says of its model now; None if somebody interrupted."""
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
        """The function of each thing, computed by the process it is dealt to and told to all, as JSON."""
        mine = self.signals.attempt(lambda: [function(thing) for thing in self.team.shard(things)])
        parts = self.team.gather(mine, patient=True)
        if any(part is None for part in parts):
            raise Abandoned
        return [parts[number % self.team.size][number // self.team.size] for number in range(len(things))]

    def _is_improvement(self, metrics: Mapping[str, Any], kind: str) -> bool:
        """Whether these are the best scores so far; without a goal the newest are. What is not finite never is."""
        if self._not_finite(metrics) is not None:
            return False
        if self.task.goal is None:
            return True
        (name, direction), best = self.task.goal, self.progress.best.metrics if self.progress.best else {}
        better = improves(metrics[name], best.get(name), direction)
        if kind == "average" and improves(metrics[name], None, direction):  # a mean is less a matter of chance
            better = better or improves(metrics.get("loss"), best.get("loss"), "min")
        return better

    def _not_finite(self, metrics: Mapping[str, Any]) -> str | None:
        """Which of the loss and the score to judge by is not finite, and so says that nothing was learnt."""
        names = ["loss"] if self.task.goal is None else ["loss", self.task.goal[0]]
        values = {name: metrics[name] for name in names if name in metrics}
        return next((name for name, value in values.items() if value is None or not math.isfinite(value)), None)

    def give_up_if_nothing_was_learnt(self) -> str | None:
        """The reason that a planned end was none, if no evaluation found scores that are finite."""
        if self.progress.best is not None or self.progress.evaluated < 0:
            return None
        name = self._not_finite(self.metrics) or "loss"
        self.guard.give_up(self.progress.step, f"no evaluation found a finite {name}: {REMEDY}")
        return self.guard.reason

    def save(self) -> None:
        """A checkpoint to resume from."""
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
        """What a checkpoint must hold for training to resume from it."""
        files = resume.files(self.task.model, self.optimizers, self.progress, self.ema.weights)
        files[resume.NUMBERS]["health"] = asdict(self.guard.snapshot())
        return files

    def _restore_progress(self, saved: checkpoint.Checkpoint) -> Progress:
        progress = resume.restore(saved, self.task.model, self.optimizers)
        self.ema.restore(resume.read_average(saved))
        return progress

    def _write(self, directory: Path, files: Callable[[], dict[str, Any]], metrics: Mapping[str, Any]) -> None:
        """A checkpoint, if this is the process that writes."""
        if self.team.is_main:
            contents = {**self.task.contents(), **files(), "metrics.json": metrics}
            checkpoint.write(directory, contents, facts=self.run.facts(self.progress.step))

    def go_back(self, why: str) -> bool:
        """Be again as at the last good checkpoint, but go on with the rows after those tried; False: a reason to stop.

        Nothing is written: killed from here on, the run replays its failure from that checkpoint and ends up the same.
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
        self.progress.best, self.progress.stale = before.best, before.stale  # its weights are safe in best/
        self.progress.evaluating = before.evaluating  # as the clock goes on, so does what is taken off it
        self.progress.longest_warmup = before.longest_warmup  # decided once
        health = recall(target)
        guard.retreat(health, step=before.step, to=target.step, rows=self.config.accumulate)
        self.metrics, self.saved = target.metrics, target.step
        self.log.rewind(target.step, guard.health.faults.since(health.faults))
        self.log.note(f"step {before.step}: {why}: back to step {target.step}, and on with the rows after these")
        return True

    def _find_good(self, steps: Iterable[int]) -> checkpoint.Checkpoint | None:
        """The first of these checkpoints that is whole, as process 0 finds."""
        candidate = self.run.whole(steps, self.log.note) if self.team.is_main else None
        step = self.team.broadcast(candidate and candidate.step)
        return checkpoint.read(self.run.directory(step)) if candidate is None and step is not None else candidate

    def _prune(self) -> None:
        if self.team.is_main:
            self.run.prune(self.guard.health.saved, every=self.config.keep_every)

    def average(self) -> None:
        """Try the mean of the newest checkpoints as the last candidate."""
        steps = [step for step in self.run.steps() if step <= self.progress.step][-self.config.average :]
        if self.config.average > 1 and len(steps) > 1:  # the same everywhere, for nobody writes now
            means = mean(checkpoint.read(self.run.directory(step)).tensors() for step in steps)
            resume.load_lasting(self.task.model, means)
            self._score("average")

    def close(self, reason: str) -> Result:
        """The end: the model gets the best weights there are."""
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
        """Hold what best/ contains against the saved progress: it may be damaged, or newer by an average."""
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
        """Tell the log the score to beat."""
        if self.task.goal is not None and self.progress.best is not None:
            score = self.progress.best.metrics.get(self.task.goal[0])
            if score is not None:
                self.log.best(score)
