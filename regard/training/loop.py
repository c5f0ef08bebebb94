"""The training loop: it knows rows, weights and time, and leaves what is learnt to the task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from regard import checkpoint
from regard.config.ranges import Count, Positive, Seed, Small, Whole
from regard.config.resuming import Free
from regard.training import device, resume
from regard.training.device import hash64
from regard.training.guard import Faults, Guard, recall
from regard.training.log import Log
from regard.training.meter import Meter
from regard.training.microbatch import MicroBatches
from regard.training.oom import Piece, fitted
from regard.training.optim import OptimConfig, Updates, build, rate_at, update
from regard.training.resume import Best, Progress, mean
from regard.training.run import Run
from regard.training.stopping import Signals, improves
from regard.training.task import Evaluation, Step, Task

__all__ = ["Evaluation", "Result", "Step", "Task", "TrainingConfig", "fit", "hash64", "mean"]

PLANNED = ("steps", "seconds", "patience")
AHEAD = 2  # steps whose rows are prepared in advance
OptimConfigs = OptimConfig | Mapping[str, OptimConfig]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, how often, where."""

    steps: Count = 10_000
    """Updates of the weights."""
    seconds: Free[Positive | None] = None
    """Stop after this long, whatever was reached; time before a resume counts."""
    accumulate: Count = 1
    """Rows of data behind every update; their gradients are added up before it."""
    clip: Positive | None = 1.0
    """Longest gradient; a longer one is scaled down to it. null: as long as it is."""
    seed: Seed = 0
    """Where the order of data and all dropout start."""
    log: Free[Count] = 50
    """Steps between lines of training loss."""
    evaluate: Free[Count] = 500
    """Steps between evaluations; there is always one at the end."""
    save: Free[Count] = 500
    """Steps between checkpoints; there is always one at the end."""
    keep: Free[Count] = 5
    """Newest checkpoints that are kept."""
    keep_every: Free[Count | None] = None
    """Keep, besides, each checkpoint whose step divides by this."""
    average: Free[Whole] = 0
    """Newest checkpoints whose mean is the last candidate for the best weights; it wins by score or loss (0: none)."""
    patience: Free[Count | None] = None
    """Stop after this many evaluations without a better one."""
    spike: Positive | None = 10.0
    """Deviations above its running mean at which a step's loss is a leap and not learnt from; null: never."""
    failures: Count = 5
    """Steps in a row without an update (not finite, or leaps) that send training back to the last good checkpoint."""
    retreats: Whole = 3
    """Times training goes back, and on with other rows, without getting any further before it stops."""
    device: Free[str] = "auto"
    """auto takes the first there is of cuda, mps, cpu."""
    threads: Small | None = None
    """CPU threads; null takes one for rows too small to share and otherwise all there are."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of matrix products; bfloat16 needs CUDA of capability 8.0 or more, where auto takes it."""
    compile: Free[Literal["auto", "on", "off"]] = "auto"
    """Compile the step; only on CUDA, where auto does."""
    tensorboard: Free[bool] = True
    """Write curves for TensorBoard into the run folder."""

    def __post_init__(self) -> None:
        if self.average > self.keep:
            raise ValueError(f"average {self.average} needs as many checkpoints, but keep is {self.keep}")


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
    def failed(self) -> bool:
        """Whether it ended neither as planned nor by request."""
        return self.reason not in (*PLANNED, "interrupted")


def fit(task: Task, config: TrainingConfig, optim: OptimConfigs, run: Run, *, log: Log) -> Result:
    """Train until steps, time or patience are spent or somebody interrupts; the model ends with its best weights.

    Going on from `run.latest` is exact to the bit. `optim` is one setting for all parts or one for each by name. Every
    process of the run's team does the same but for its rows; process 0 alone evaluates and writes.
    """
    with Signals() as signals:
        loop = _Loop(task, config, optim, run, log, signals)
        with loop.rows:
            return loop.run_through()


class _Loop:
    """What a training holds between two steps, and the things it does."""

    def __init__(self, task: Task, config: TrainingConfig, optim: Any, run: Run, log: Log, signals: Signals) -> None:
        self.task, self.config, self.run, self.log, self.signals = task, config, run, log, signals
        self.team = team = run.team
        self.device = team.device(device.choose(config.device))
        self.dtype = device.precision(self.device, config.precision)
        compiled = device.compiles(self.device, config.compile, task.model)
        task.model.to(self.device).train()
        self.rows = MicroBatches(task, self.device, self.dtype, seed=config.seed, compiled=compiled)
        parts = task.parts()
        self.optim = {part: optim[part] if isinstance(optim, Mapping) else optim for part in parts}
        self.optimizers = {part: build(parameters, self.optim[part]) for part, parameters in parts.items()}
        self.updates = self._updates()
        self.guard = Guard(task, config, log, self.device, team)
        self.progress, self.metrics, self.saved = Progress(), {}, -1
        for note in run.notes:
            log.note(note)
        if run.damaged:
            log.fault(run.latest.step if run.latest else 0, {"damaged": run.damaged})
        if run.latest is not None:
            self.progress = resume.restore(run.latest, task.model, self.optimizers)
            self.metrics, self.saved = run.latest.metrics, run.latest.step
            self.guard.adopt(recall(run.latest))
            self._prune()
            self._trust_best()
        size = sum(parameter.numel() for parameter in task.model.parameters())
        where = f"on {self.device} in {str(self.dtype).removeprefix('torch.')}"
        among = f", {config.accumulate} rows a step among {team.size} processes" if team.size > 1 else ""
        log.note(f"training {size:,} parameters {where}{among}")
        if config.compile == "on" and not compiled:
            log.note(f"compile: on is ignored on {self.device}: with this model it takes longer than it saves")
        self.began = time.monotonic() - self.progress.seconds
        self.window = Meter()
        team.align(task.model)
        team.wait()  # nobody may still be reading what process 0 is going to replace

    def run_through(self) -> Result:
        """All steps, with the reports, evaluations and checkpoints that are due."""
        if self.owes_evaluation:
            self.evaluate()
            self.save()
        while (reason := self.reason()) is None:
            self.step()
            done = self.progress.step
            if why := self.guard.lost(done):
                self.go_back(why)
                continue
            if self.owes_evaluation or done % self.config.log == 0 or done % self.config.save == 0:
                self.report()
            if self.owes_evaluation:
                self.evaluate()
            if done % self.config.save == 0:
                self.save()
        if self.window.steps:
            self.report()
        if reason in PLANNED and self.progress.evaluated != self.progress.step:
            if self.saved != self.progress.step and self.worth_saving:
                self.save()  # an evaluation may take long
            self.evaluate()
        if self.saved != self.progress.step and self.worth_saving:
            self.save()
        if reason in PLANNED and self.team.agree("interrupted" if self.signals.asked else None) is None:
            self.average()
        return self.result(reason)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def owes_evaluation(self) -> bool:
        """Whether an evaluation is due that was not made, be it because somebody interrupted it."""
        step = self.progress.step
        due = step % self.config.evaluate == 0 or step == self.config.steps
        return step > 0 and due and self.progress.evaluated != step

    def reason(self) -> str | None:
        """Why to stop now, if one of the processes has a reason."""
        return self.team.agree(self._reason())

    def _reason(self) -> str | None:
        config, progress = self.config, self.progress
        if self.guard.reason is not None:
            return self.guard.reason
        if self.signals.asked:
            return "interrupted"
        if progress.step >= config.steps:
            return "steps"
        if config.seconds is not None and self.seconds >= config.seconds:
            return "seconds"
        return "patience" if config.patience is not None and progress.stale >= config.patience else None

    def step(self) -> None:
        """For every part, its rows forward and backward and one update; randomness is that of the row."""
        first = self.progress.step * self.config.accumulate + self.guard.health.passed
        rows = self.team.shard(range(first, first + self.config.accumulate))
        then = self.team.shard(range(first + self.config.accumulate, first + (1 + AHEAD) * self.config.accumulate))
        pieces = self.rows.take(rows, then=then)
        self.progress.step += 1
        for number, part in enumerate(self.optimizers):
            self._update(part, number, pieces)
        self.window.steps += 1
        share = self.progress.step / self.config.steps
        self.log.advance(self.progress.step, max(share, self.seconds / (self.config.seconds or float("inf"))))

    def _update(self, part: str, number: int, pieces: list[Piece]) -> None:
        """One part's update, unless something in it is not finite or leaps; pieces that do not fit are split."""
        optimizer, now = self.optimizers[part], self.progress.step

        done = fitted(
            pieces,
            lambda piece: self.rows.backward(piece, part, number),
            start=lambda: self.rows.clear(optimizer),
            split=lambda piece: self.guard.split(now, piece),
        )
        loss = sum((step.loss for _, step in done), start=torch.zeros((), device=self.device))
        total = sum(step.weight for _, step in done)
        weights = (p for group in optimizer.param_groups for p in group["params"])
        loss, total = self.team.all_reduce(weights, loss, total)
        verdict = self.guard.judge(part, loss / total, total)
        broken = self.updates[part](total, rate=rate_at(self.optim[part], now, self.config.steps), veto=~verdict.sound)
        self.guard.saw(now, [(row, step.loss, step.weight) for row, step in done], verdict, broken)
        self.window.add(part, torch.where(broken, 0, loss), torch.where(broken, 0, total))
        if number == 0:
            self.window.count(step for _, step in done)

    def _updates(self) -> dict[str, Callable[..., torch.Tensor]]:
        """How each part is updated: recorded where rows are."""
        clip, optimizers = self.config.clip, self.optimizers.items()
        if self.rows.captured is None:
            return {part: partial(update, optimizer, clip=clip) for part, optimizer in optimizers}
        return {part: Updates(optimizer, clip=clip, device=self.device) for part, optimizer in optimizers}

    def report(self) -> None:
        """Read what gathered on the device since the last report, and say it."""
        self.guard.hear()
        values, counts = self.window.read(self.team)
        for name, count in counts.items():
            self.progress.counts[name] = self.progress.counts.get(name, 0.0) + count
        first = next(iter(self.optim.values()))
        rate = rate_at(first, self.progress.step, self.config.steps)
        self.log.step(self.progress.step, {**values, "rate": rate, **self.guard.news(self.progress.step)})
        self.window = Meter()

    def evaluate(self, kind: str = "evaluation") -> None:
        """Score the model as it is; the best so far goes to best/."""
        began, progress = time.monotonic(), self.progress
        spent = self.seconds - progress.evaluating
        self.task.model.eval()
        device.seed(self.device, self.config.seed)
        with torch.no_grad(), device.autocast(self.device, self.dtype):
            evaluation = self.signals.attempt(self.task.evaluate) if self.team.is_main else None
        self.task.model.train()
        found = self.team.broadcast(evaluation and dict(evaluation.metrics))
        if found is None:
            return
        evaluation = evaluation or Evaluation(found)
        metrics: dict[str, int | float | None] = found
        name, direction = self.task.goal
        best = progress.best.metrics if progress.best else {}
        better = improves(metrics[name], best.get(name), direction)
        if kind == "average" and improves(metrics[name], None, direction):  # a mean is less a matter of chance
            better = better or improves(metrics.get("loss"), best.get("loss"), "min")
        if kind == "evaluation":
            self.metrics, progress.evaluated, self.saved = metrics, progress.step, -1  # what was saved knows less
            progress.stale = 0 if better else progress.stale + 1
            if self.team.is_main:
                self.run.show(progress.step, evaluation.samples)
        if better:
            progress.best = Best(progress.step, metrics)
            self._write(self.run.best, lambda: {"model.safetensors": checkpoint.weights(self.task.model)}, metrics)
            self.team.wait()
            self.log.best(evaluation.metrics[name])
        found, samples = dict(evaluation.metrics), evaluation.samples
        self.log.evaluation(progress.step, found, samples, kind=kind, best=better, seconds=spent)
        self.window.began += time.monotonic() - began
        progress.evaluating += time.monotonic() - began

    def save(self) -> None:
        """A checkpoint to go on from."""
        began, progress = time.monotonic(), self.progress
        progress.seconds = self.seconds
        self.guard.saving(progress.step)
        directory = self.run.directory(progress.step)
        self._write(directory, self._state, self.metrics)
        self._prune()
        self.team.wait()
        self.saved = progress.step
        self.log.saved(progress.step, directory)
        self.window.began += time.monotonic() - began

    def _state(self) -> dict[str, Any]:
        """What a checkpoint must hold for training to go on from it."""
        files = resume.files(self.task.model, self.optimizers, self.progress)
        files[resume.NUMBERS]["health"] = asdict(self.guard.remembered())
        return files

    def _write(self, directory: Path, files: Callable[[], dict[str, Any]], metrics: Mapping[str, Any]) -> None:
        """A checkpoint, if this is the process that writes."""
        if self.team.is_main:
            contents = {**self.task.contents(), **files(), "metrics.json": metrics}
            checkpoint.write(directory, contents, facts=self.run.facts(self.progress.step))

    @property
    def worth_saving(self) -> bool:
        """Whether training could go on from here."""
        return self.guard.health.streak < self.config.failures and self.guard.unsound() is None

    def go_back(self, why: str) -> None:
        """Be again as at the last good checkpoint, but go on with the rows after those tried; or find a reason to stop.

        Nothing is written: killed from here on, the run replays its failure from that checkpoint and ends up the same.
        """
        guard, before = self.guard, self.progress
        found = self._good(guard.goals(self.run.steps()))
        if found is None:
            return guard.despair(before.step, why)
        for step in reversed(self.run.steps()):
            if step > found.step and self.team.is_main:
                checkpoint.remove(self.run.directory(step))
        self.progress = resume.restore(found, self.task.model, self.optimizers)
        self.updates = self._updates()  # what was recorded is about memory that is no more
        self.progress.best, self.progress.stale = before.best, before.stale  # its weights are safe in best/
        self.progress.evaluating = before.evaluating  # as the clock goes on, so does what is taken off it
        health = recall(found)
        guard.retreat(health, step=before.step, to=found.step, rows=self.config.accumulate)
        self.metrics, self.saved = found.metrics, found.step
        self.window = Meter()
        self.log.rewind(found.step, guard.health.faults.since(health.faults))
        self.log.note(f"step {before.step}: {why}: back to step {found.step}, and on with the rows after these")

    def _good(self, steps: Iterable[int]) -> checkpoint.Checkpoint | None:
        """The first of these checkpoints that is whole, as process 0 finds."""
        found = self.run.whole(steps, self.log.note) if self.team.is_main else None
        step = self.team.broadcast(found and found.step)
        return checkpoint.read(self.run.directory(step)) if found is None and step is not None else found

    def _prune(self) -> None:
        if self.team.is_main:
            self.run.prune(self.guard.health.saved, every=self.config.keep_every)

    def average(self) -> None:
        """Try the mean of the newest checkpoints as the last candidate."""
        steps = [step for step in self.run.steps() if step <= self.progress.step][-self.config.average :]
        if self.config.average > 1 and len(steps) > 1:  # the same everywhere, for nobody writes now
            checkpoint.fill(
                self.task.model, mean(checkpoint.read(self.run.directory(step)).tensors() for step in steps)
            )
            self.evaluate("average")

    def result(self, reason: str) -> Result:
        """The end: the model gets the best weights there are."""
        progress = self.progress
        if progress.best is not None:
            checkpoint.fill(self.task.model, checkpoint.read(self.run.best).tensors())
        best = "" if progress.best is None else f", best at step {progress.best.step}"
        self.log.note(f"stopped at step {progress.step} ({reason}) after {self.seconds:.0f} s{best}")
        faults = replace(self.guard.health.faults)
        return Result(progress.step, reason, self.seconds, progress.best, faults, dict(progress.counts))

    def _trust_best(self) -> None:
        """Hold what best/ contains against the saved progress: it may be damaged, or newer by an average."""
        progress, (name, direction) = self.progress, self.task.goal
        try:
            found = checkpoint.read(self.run.best)
        except checkpoint.CheckpointError as error:
            if progress.best is not None:
                self.log.note(f"the best so far is lost: {error}")
                progress.best = None
            return
        if found.step <= progress.step and improves(found.metrics.get(name), None, direction):
            progress.best = Best(found.step, found.metrics)
        score = progress.best.metrics.get(name) if progress.best is not None else None
        if score is not None:
            self.log.best(score)
