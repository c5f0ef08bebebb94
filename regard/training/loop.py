"""The training loop of all tasks: steps over rows of data, within limits of steps and time; the task gives the loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, Literal

import torch
from torch import nn

from regard.config.ranges import Count, Positive, Seed, Share, Small, Whole
from regard.config.resuming import Free
from regard.config.words import quantity
from regard.models.parts import spectral_norm
from regard.models.parts.batch_norm import forget, norms, settle
from regard.models.weights import learned_tensors
from regard.training import device
from regard.training.bookkeeping import Bookkeeping, Result
from regard.training.device import hash64
from regard.training.ema import MovingAverage
from regard.training.guard import Guard
from regard.training.log import Log
from regard.training.meter import Meter
from regard.training.microbatch import MicroBatches
from regard.training.oom import Piece, run_within_memory
from regard.training.optim import OptimConfig, Updates, build, rate_at, rates, update
from regard.training.resume import mean
from regard.training.run import Run
from regard.training.stopping import Signals
from regard.training.task import Evaluation, Learner, Step
from regard.training.warmup import SpeedGauge, affordable_warmup

__all__ = ["Evaluation", "Learner", "Result", "Step", "TrainingConfig", "fit", "hash64", "mean"]

PLANNED = ("steps", "seconds", "patience")
AHEAD = 2  # steps whose rows are prepared in advance
OptimConfigs = OptimConfig | Mapping[str, OptimConfig]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Length of training, intervals of reports and checkpoints, and device."""

    steps: Count = 10_000
    """Updates of the weights."""
    epochs: Positive | None = None
    """Passes over the training data, in place of steps."""
    seconds: Free[Positive | None] = None
    """Stop after this many seconds; time before a resume counts."""
    accumulate: Count = 1
    """Gradient accumulation: rows of data whose gradients are summed before an update."""
    clip: Positive | None = 1.0
    """Gradient clipping: largest norm, to which larger gradients are scaled down; null: no clipping."""
    seed: Seed = 0
    """Random seed of the order of data and of dropout."""
    log_every: Free[Count] = 50
    """Steps between lines of training loss."""
    eval_every: Free[Count] = 500
    """Steps between evaluations; there is always one at the end."""
    save_every: Free[Count] = 500
    """Steps between checkpoints; there is always one at the end."""
    save_minutes: Free[Positive | None] = 10.0
    """Minutes after which a checkpoint is saved whatever the step; null: never."""
    keep: Free[Count] = 5
    """Newest checkpoints that are kept."""
    keep_every: Free[Count | None] = None
    """Also keep each checkpoint whose step is a multiple of this."""
    average: Free[Whole] = 0
    """Checkpoint averaging: the mean of this many newest checkpoints is kept if it scores best; 0: none."""
    ema: Share = 0.0
    """Exponential moving average of the weights: its decay, such as 0.999; scored and kept in their place. 0: none."""
    patience: Free[Count | None] = None
    """Early stopping: end after this many evaluations without a better one."""
    spike: Positive | None = 10.0
    """Standard deviations above the running mean at which a loss is a spike and its step skipped; null: never."""
    failures: Count = 5
    """Skipped steps in a row (not finite, or spikes) after which training returns to the last good checkpoint."""
    retreats: Whole = 3
    """Such returns without further progress before training stops."""
    device: Free[str] = "auto"
    """auto takes the first there is of cuda, mps, cpu."""
    threads: Small | None = None
    """CPU threads; null takes one for rows too small to share and otherwise all there are."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of matrix products; bfloat16 needs CUDA of capability 8.0 or more, where auto takes it."""
    compile: Free[Literal["auto", "on", "record", "off"]] = "auto"
    """Compile the step and record it as CUDA graphs, or record it only, which begins sooner; only on CUDA, where auto
    does both from 1,000 steps on and records fewer."""
    save_traces: Free[bool] = True
    """Save at every evaluation where the model looks in three held-out examples, if it has attention."""
    tensorboard: Free[bool] = True
    """Write curves for TensorBoard into the run folder."""

    def __post_init__(self) -> None:
        if self.average > self.keep:
            raise ValueError(f"average {self.average} needs as many checkpoints, but keep is {self.keep}")


def fit(task: Learner, config: TrainingConfig, optim: Any, run: Run, *, log: Log) -> Result:
    """Train until the limit of steps, time or patience or an interrupt; the model ends with its best weights.

    Resuming from `run.latest` is exact to the bit. `optim` is one setting for all parts, or one for each, by key or by
    attribute. All processes of the run's team do the same on different rows; only process 0 writes.
    """
    if config.epochs is not None:
        config = replace(config, steps=max(1, ceil(config.epochs * task.rows / config.accumulate)))
    with Signals() as signals:
        loop = _Loop(task, config, optim, run, log, signals)
        with loop.rows:
            return loop.run_through()


def part_settings(optim: Any, part: str) -> OptimConfig:
    """Return the optimizer settings of one part: its own if there are any, else those of all parts."""
    return optim[part] if isinstance(optim, Mapping) else vars(optim).get(part, optim)


def _frozen_parameters(model: nn.Module) -> list[torch.Tensor]:
    """Return the parameters that are not trained."""
    return [parameter for parameter in model.parameters() if not parameter.requires_grad]


class _Loop:
    """The steps of a training; evaluations and checkpoints between them are left to `Bookkeeping`."""

    def __init__(self, task: Any, config: TrainingConfig, optim: Any, run: Run, log: Log, signals: Signals) -> None:
        self.task, self.config, self.log, self.signals = task, config, log, signals
        self.team = team = run.team
        self.device = team.device(device.choose(config.device))
        self.dtype = device.precision(self.device, config.precision)
        way = device.compile_mode(self.device, config.compile, task.model, steps=config.steps)
        task.model.to(self.device).train()
        self.rows = MicroBatches(task, self.device, self.dtype, seed=config.seed, compiles=way)
        parts = task.parts()
        self.optim = {part: part_settings(optim, part) for part in parts}
        self.gauge = None if config.seconds is None else SpeedGauge(config.seconds)
        self.optimizers = {part: build(some, self.optim[part], task.model, task.tuning) for part, some in parts.items()}
        self.updates = self._updates()
        self.guard = Guard(task, config, log, self.device, team)
        self.ema = MovingAverage(task.model, config.ema)
        self.norms, self.spectra = norms(task.model), spectral_norm.spectra(task.model)
        optimizers = self.optimizers
        self.books = Bookkeeping(task, config, run, log, signals, guard=self.guard, optimizers=optimizers, ema=self.ema)
        self.window = Meter()
        self.books.open(precision=(self.device, self.dtype))
        tensors = learned_tensors(task.model)
        size, frozen = (sum(tensor.numel() for tensor in some) for some in (tensors, _frozen_parameters(task.model)))
        parameter_counts = f"{size - frozen:,} of {size:,}" if frozen else f"{size:,}"
        where = f"on {self.device} in {str(self.dtype).removeprefix('torch.')}"
        among = f", {config.accumulate} rows a step among {team.size} processes" if team.size > 1 else ""
        log.note(f"training {parameter_counts} parameters {where}{among}, {quantity(config.steps, 'step')} at most")
        if config.compile == "on" and way == "off":
            log.note(f"compile: on is ignored on {self.device}: with this model it takes longer than it saves")
        team.align(task.model)
        team.wait()  # process 0 must not replace files that another process still reads

    def run_through(self) -> Result:
        """Run all steps, with the reports, evaluations and checkpoints that are due."""
        books = self.books
        if books.owes_evaluation:
            self._pause(books.evaluate)
            self._pause(books.save)
        while (reason := self.reason()) is None:
            self.step()
            self._fit_warmup()
            step = books.progress.step
            if why := self.guard.lost(step):
                if books.go_back(why):
                    self.updates = self._updates()  # recorded updates refer to memory that has been replaced
                    self.window = Meter()
                continue
            if books.owes_evaluation or step % self.config.log_every == 0 or step % self.config.save_every == 0:
                self.report()
            if books.owes_evaluation:
                self._pause(books.evaluate)
            if books.owes_checkpoint:
                self._pause(books.save)
        if self.window.steps:
            self.report()
        if reason in PLANNED and books.progress.evaluated != books.progress.step:
            if not books.is_saved and books.worth_saving:
                self._pause(books.save)  # before the evaluation, which may take long
            self._pause(books.evaluate)
        if not books.is_saved and books.worth_saving:
            self._pause(books.save)
        if reason in PLANNED and self.team.agree("interrupted" if self.signals.asked else None) is None:
            books.average()
        if reason in PLANNED:
            reason = books.give_up_if_nothing_was_learnt() or reason
        if reason in PLANNED and books.progress.step < self._warmup():
            self.log.note(
                f"the learning rate was still warming up (step {books.progress.step:,} of {self._warmup():,}), so this "
                "model has hardly learnt: give it more steps or time, or a shorter optim.warmup"
            )
        return books.close(reason)

    def reason(self) -> str | None:
        """Return the reason to stop now, if one of the processes has one."""
        return self.team.agree(self._reason())

    def _reason(self) -> str | None:
        config, progress = self.config, self.books.progress
        if self.guard.reason is not None:
            return self.guard.reason
        if self.signals.asked:
            return "interrupted"
        if progress.step >= config.steps:
            return "steps"
        if config.seconds is not None and self.books.seconds >= config.seconds:
            return "seconds"
        return "patience" if config.patience is not None and progress.stale >= config.patience else None

    def step(self) -> None:
        """Run the rows forward and backward and make one update, for every part; random numbers depend on the row."""
        progress, count = self.books.progress, self.config.accumulate
        first = progress.step * count + self.guard.health.passed
        progress.step += 1
        if self.task.updates_itself:
            self._learn(range(first, first + count))
        else:
            rows = self.team.shard(range(first, first + count))
            then = self.team.shard(range(first + count, first + (1 + AHEAD) * count))
            pieces = self.rows.take(rows, then=then)
            for number, part in enumerate(self.optimizers):
                self._update(part, number, pieces)
        self.ema.follow(progress.step)
        self.window.steps += 1
        self.log.advance(progress.step, self.share)

    @property
    def share(self) -> float:
        """Return the completed fraction of the run, by steps or by time."""
        timed = self.books.seconds / (self.config.seconds or float("inf"))
        return max(self.books.progress.step / self.config.steps, timed)

    def _learn(self, rows: range) -> None:
        """Run a step of a task that updates its weights itself."""
        step = self.task.learn(rows, total=self.config.steps * self.config.accumulate)
        self.window.add("model", torch.as_tensor(step.loss), torch.as_tensor(step.weight))
        self.window.count([step])

    def _update(self, part: str, number: int, pieces: list[Piece]) -> None:
        """Update one part, unless its loss or gradient is not finite or spikes; pieces that do not fit are split."""
        optimizer, now = self.optimizers[part], self.books.progress.step

        row_steps = run_within_memory(
            pieces,
            lambda piece: self.rows.backward(piece, part, number),
            start=lambda: self._begin(optimizer),
            split=lambda piece: self.guard.split(now, piece),
        )
        loss = sum((step.loss for _, step in row_steps), start=torch.zeros((), device=self.device))
        total = sum(step.weight for _, step in row_steps)
        weights = (p for group in optimizer.param_groups for p in group["params"])
        loss, total = self.team.all_reduce(weights, loss, total)
        verdict = self.guard.judge(part, loss / total, total)
        rate = rates(optimizer, self._rate(part), now)
        broken = self.updates[part](total, rate=rate, veto=~verdict.sound)
        self.team.add([norm.seen for norm in self.norms])
        settle(self.norms, veto=broken)
        spectral_norm.settle(self.spectra, veto=broken)
        self.task.after_update(loss / total, veto=broken)
        self.guard.saw(now, [(row, step.loss, step.weight) for row, step in row_steps], verdict, broken)
        self.window.add(part, torch.where(broken, 0, loss), torch.where(broken, 0, total))
        if number == 0:
            self.window.count(step for _, step in row_steps)

    def _rate(self, part: str) -> float:
        """Return the learning rate of a part at this step."""
        optim, longest = self.optim[part], self.books.progress.longest_warmup
        if longest is not None and longest < optim.warmup:
            optim = replace(optim, warmup=longest)
        return rate_at(optim, self.books.progress.step, self.config.steps)

    def _warmup(self) -> int:
        """Return the steps of the longest warm-up of a part."""
        longest = max((optim.warmup for optim in self.optim.values()), default=0)
        decided = self.books.progress.longest_warmup
        return longest if decided is None else min(longest, decided)

    def _fit_warmup(self) -> None:
        """Shorten a warm-up, once, that would take up most of the time limit at the speed of the first steps."""
        progress, warmup = self.books.progress, self._warmup()
        if self.gauge is None or progress.longest_warmup is not None or progress.step >= warmup:
            return
        device.synchronise(self.device)
        steps = self.team.broadcast(self.gauge.estimate_steps(progress.step, self.books.seconds))
        if steps is None:
            return
        progress.longest_warmup = affordable_warmup(steps)
        if progress.longest_warmup < warmup:
            self.log.note(
                f"about {steps:,} steps fit into {self.gauge.limit:g} s: warm-up shortened from {warmup:,} steps to "
                f"{progress.longest_warmup:,}"
            )

    def _begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Clear all gradients, and what batch norms and spectral norms have gathered since the last update."""
        self.rows.clear(optimizer)
        forget(self.norms)
        spectral_norm.forget(self.spectra)

    def _updates(self) -> dict[str, Callable[..., torch.Tensor]]:
        """Return the update function of each part: recorded as a CUDA graph if rows are."""
        clip, optimizers = self.config.clip, self.optimizers.items()
        if self.rows.captured is None:
            return {part: partial(update, optimizer, clip=clip) for part, optimizer in optimizers}
        return {part: Updates(optimizer, clip=clip, device=self.device) for part, optimizer in optimizers}

    def report(self) -> None:
        """Read the measurements since the last report from the device and log them."""
        self.guard.hear()
        progress = self.books.progress
        values, counts = self.window.read(self.team)
        for name, count in counts.items():
            progress.counts[name] = progress.counts.get(name, 0.0) + count
        for part in list(self.optim)[:1]:
            values["rate"] = self._rate(part)
        total = self.config.steps if self.config.seconds is None else None
        self.log.step(
            progress.step, {**values, **self.guard.news(progress.step)}, total=total, seconds_left=self._left()
        )
        self.window = Meter()

    def _left(self) -> float | None:
        """Estimate the seconds left from the speed so far."""
        share = self.share
        return self.books.seconds * (1 - share) / share if 0 < share <= 1 else None

    def _pause(self, action: Callable[[], None]) -> None:
        """Run an action between two steps, with the meter stopped and the memory of gradients freed."""
        began = time.monotonic()
        self.rows.free_gradients(self.optimizers.values())
        action()
        self.window.began += time.monotonic() - began
