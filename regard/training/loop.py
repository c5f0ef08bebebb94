"""The training loop: it knows rows, weights and time, and leaves what is learnt to the task."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard import checkpoint
from regard.training import device, resume
from regard.training.log import Log
from regard.training.optim import OptimConfig, build, rate_at, update
from regard.training.resume import Best, Progress
from regard.training.run import Run
from regard.training.stopping import Signals, improves

Reason = Literal["steps", "seconds", "patience", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, how often, where."""

    steps: int = 10_000
    """Updates of the weights."""
    seconds: float | None = None
    """Stop after this long, whatever was reached; time before a resume counts."""
    rows: int = 1
    """Rows of data behind every update; their gradients are added up before it."""
    clip: float | None = 1.0
    """Longest gradient; a longer one is scaled down to it. null: as long as it is."""
    seed: int = 0
    """Where the order of data and all dropout start."""
    log: int = 50
    """Steps between lines of training loss."""
    evaluate: int = 500
    """Steps between evaluations; there is always one at the end."""
    save: int = 500
    """Steps between checkpoints; there is always one at the end."""
    keep: int = 5
    """Newest checkpoints that are kept."""
    keep_every: int | None = None
    """Keep, besides, each checkpoint whose step divides by this."""
    average: int = 0
    """Newest checkpoints whose mean is tried as the last candidate for the best weights; 0 or 1: none."""
    patience: int | None = None
    """Stop after this many evaluations without a better one."""
    device: str = "auto"
    """auto takes the first there is of cuda, mps, cpu."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of matrix products; bfloat16 needs CUDA of capability 8.0 or more, where auto takes it."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the step; only on CUDA, where auto does."""
    tensorboard: bool = True
    """Write curves for TensorBoard into the run folder."""

    def __post_init__(self) -> None:
        for name in ("steps", "rows", "log", "evaluate", "save", "keep", "keep_every", "patience", "seconds", "clip"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        if self.average > self.keep:
            raise ValueError(f"average {self.average} needs as many checkpoints, but keep is {self.keep}")


@dataclass(frozen=True)
class Step:
    """What a task says of one row: the loss summed over what it counts, how much that is, and what to report."""

    loss: Tensor
    weight: int | float | Tensor
    counts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """Scores by name, and a few answers to look at."""

    metrics: Mapping[str, int | float]
    samples: list[dict[str, Any]] = field(default_factory=list)


@runtime_checkable
class Task(Protocol):
    """What the loop needs to know of something that can be learnt."""

    model: nn.Module
    goal: tuple[str, Literal["max", "min"]]
    rows: int

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """The parameters of each optimizer, stepped in this order."""

    def batch(self, row: int) -> Any:
        """The data of a row, a pure function of its number; rows count on across epochs."""

    def step(self, batch: Any, part: str) -> Step:
        """The loss that this part's parameters should lower."""

    def evaluate(self) -> Evaluation:
        """How good the model is now."""

    def contents(self) -> dict[str, Any]:
        """The files of a checkpoint beside weights, metrics and manifest."""


@dataclass(frozen=True)
class Result:
    """How a training ended."""

    step: int
    reason: Reason
    seconds: float
    best: Best | None
    skipped: int
    counts: dict[str, float]


def fit(
    task: Task, config: TrainingConfig, optim: OptimConfig | Mapping[str, OptimConfig], run: Run, *, log: Log
) -> Result:
    """Train until steps, time or patience are spent or somebody interrupts; the model ends with its best weights.

    Going on from `run.latest` is exact to the bit. `optim` is one setting for all parts or one for each by name.
    """
    with Signals() as signals:
        loop = _Loop(task, config, optim, run, log)
        while (reason := loop.reason(signals)) is None:
            loop.step()
            done = loop.progress.step
            if any(done % often == 0 for often in (config.log, config.evaluate, config.save)):
                loop.report()
            if done % config.evaluate == 0:
                loop.evaluate()
            if done % config.save == 0:
                loop.save()
        if loop.window.steps:
            loop.report()
        if reason != "interrupted" and loop.progress.evaluated != loop.progress.step:
            loop.evaluate()
        if loop.saved != loop.progress.step:
            loop.save()
        if not signals.asked:
            loop.average()
    return loop.result(reason)


class _Loop:
    """What a training holds between two steps, and the things it does."""

    def __init__(self, task: Task, config: TrainingConfig, optim: Any, run: Run, log: Log) -> None:
        self.task, self.config, self.run, self.log = task, config, run, log
        self.device = device.choose(config.device)
        self.dtype = device.precision(self.device, config.precision)
        compiled = device.compiles(self.device, config.compile)
        self.forward = torch.compile(task.step) if compiled else task.step
        task.model.to(self.device).train()
        parts = task.parts()
        self.optim = {part: optim[part] if isinstance(optim, Mapping) else optim for part in parts}
        self.optimizers = {part: build(parameters, self.optim[part]) for part, parameters in parts.items()}
        self.progress, self.metrics, self.saved = Progress(), {}, -1
        for note in run.notes:
            log.note(note)
        if run.latest is not None:
            self.progress = resume.restore(run.latest, task.model, self.optimizers)
            self.metrics, self.saved = run.latest.metrics, run.latest.step
            self._trust_best()
        size = sum(parameter.numel() for parameter in task.model.parameters())
        log.note(f"training {size:,} parameters on {self.device} in {str(self.dtype).removeprefix('torch.')}")
        if config.compile == "on" and not compiled:
            log.note(f"compile: on is ignored on {self.device}, where compiling takes longer than it saves")
        self.began = time.monotonic() - self.progress.seconds
        self.window = _Window(began=time.monotonic())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def reason(self, signals: Signals) -> Reason | None:
        """Why to stop now, if there is a reason."""
        config, progress = self.config, self.progress
        if signals.asked:
            return "interrupted"
        if progress.step >= config.steps:
            return "steps"
        if config.seconds is not None and self.seconds >= config.seconds:
            return "seconds"
        return "patience" if config.patience is not None and progress.stale >= config.patience else None

    def step(self) -> None:
        """For every part, its rows forward and backward and one update; randomness is that of the row."""
        first = self.progress.step * self.config.rows
        rows = range(first, first + self.config.rows)
        batches = [self.task.batch(row) for row in rows]
        for number, (part, optimizer) in enumerate(self.optimizers.items()):
            optimizer.zero_grad()
            total: Any = 0
            for row, batch in zip(rows, batches, strict=True):
                device.seed(self.device, hash64(self.config.seed, row, number))
                with device.autocast(self.device, self.dtype):
                    step = self.forward(batch, part)
                step.loss.backward()
                total = total + step.weight
                self.window.add(part, step, counted=number == 0)
            rate = rate_at(self.optim[part], self.progress.step + 1, self.config.steps)
            self.window.skipped += update(optimizer, total, rate=rate, clip=self.config.clip)
        self.window.steps += 1
        self.progress.step += 1
        share = self.progress.step / self.config.steps
        self.log.advance(self.progress.step, max(share, self.seconds / (self.config.seconds or float("inf"))))

    def report(self) -> None:
        """Read what gathered on the device since the last report, and say it."""
        window, progress = self.window, self.progress
        counts = {name: float(count) for name, count in window.counts.items()}
        for name, count in counts.items():
            progress.counts[name] = progress.counts.get(name, 0.0) + count
        skipped = int(window.skipped)
        progress.skipped += skipped
        single = len(window.losses) == 1
        values = {
            "loss" if single else f"{part}_loss": float(loss) / max(float(window.weights[part]), 1e-9)
            for part, loss in window.losses.items()
        }
        for name in list(counts)[:1]:
            values[f"{name}_per_second"] = counts[name] / max(time.monotonic() - window.began, 1e-9)
        first = next(iter(self.optim.values()))
        values |= {"rate": rate_at(first, progress.step, self.config.steps), "skipped": skipped}
        self.log.step(progress.step, values)
        self.window = _Window(began=time.monotonic())

    def evaluate(self, kind: str = "evaluation") -> None:
        """Score the model as it is; the best so far goes to best/."""
        began, progress = time.monotonic(), self.progress
        self.task.model.eval()
        device.seed(self.device, self.config.seed)
        with torch.no_grad(), device.autocast(self.device, self.dtype):
            evaluation = self.task.evaluate()
        self.task.model.train()
        name, direction = self.task.goal
        metrics: dict[str, int | float | None] = dict(evaluation.metrics)
        better = improves(metrics[name], progress.best.metrics[name] if progress.best else None, direction)
        if kind == "evaluation":
            self.metrics, progress.evaluated = metrics, progress.step
            progress.stale = 0 if better else progress.stale + 1
            self.run.show(progress.step, evaluation.samples)
        if better:
            progress.best = Best(progress.step, metrics)
            files = {"model.safetensors": checkpoint.weights(self.task.model), "metrics.json": metrics}
            checkpoint.write(self.run.best, {**self.task.contents(), **files}, facts={"step": progress.step})
            self.log.best(evaluation.metrics[name])
        self.log.evaluation(progress.step, evaluation.metrics, evaluation.samples, kind=kind, best=better)
        self.window.began += time.monotonic() - began

    def save(self) -> None:
        """A checkpoint to go on from."""
        began, progress = time.monotonic(), self.progress
        progress.seconds = self.seconds
        files = resume.files(self.task.model, self.optimizers, progress) | {"metrics.json": self.metrics}
        directory = self.run.directory(progress.step)
        checkpoint.write(directory, {**self.task.contents(), **files}, facts={"step": progress.step})
        self.run.prune(keep=self.config.keep, every=self.config.keep_every)
        self.saved = progress.step
        self.log.saved(progress.step, directory)
        self.window.began += time.monotonic() - began

    def average(self) -> None:
        """Try the mean of the newest checkpoints as the last candidate."""
        steps = [step for step in self.run.steps() if step <= self.progress.step][-self.config.average :]
        if self.config.average > 1 and len(steps) > 1:
            checkpoint.fill(
                self.task.model, mean(checkpoint.read(self.run.directory(step)).tensors() for step in steps)
            )
            self.evaluate("average")

    def result(self, reason: Reason) -> Result:
        """The end: the model gets the best weights there are."""
        progress = self.progress
        if progress.best is not None:
            checkpoint.fill(self.task.model, checkpoint.read(self.run.best).tensors())
        best = "" if progress.best is None else f", best at step {progress.best.step}"
        self.log.note(f"stopped at step {progress.step} ({reason}) after {self.seconds:.0f} s{best}")
        return Result(progress.step, reason, self.seconds, progress.best, progress.skipped, dict(progress.counts))

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
        best = progress.best.metrics[name] if progress.best else None
        if found.step <= progress.step and improves(found.metrics.get(name), best, direction):
            progress.best, best = Best(found.step, found.metrics), found.metrics[name]
        if best is not None:
            self.log.best(best)


@dataclass
class _Window:
    """Sums since the last report, left on the device until then."""

    began: float
    losses: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    skipped: Any = 0
    steps: int = 0

    def add(self, part: str, step: Step, *, counted: bool) -> None:
        self.losses[part] = self.losses.get(part, 0) + step.loss.detach()
        self.weights[part] = self.weights.get(part, 0) + step.weight
        for name, count in step.counts.items() if counted else ():
            self.counts[name] = self.counts.get(name, 0) + count


def mean(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights; what is not floating point is the last one's."""
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for state in states:
        count, last = count + 1, state
        for name, tensor in state.items():
            sums[name] = tensor.double() + sums.get(name, 0)
    return {
        name: (sums[name] / count).to(tensor.dtype) if tensor.is_floating_point() else tensor
        for name, tensor in last.items()
    }


def hash64(*numbers: int) -> int:
    """A seed for these numbers, unlike that of any others."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest(), "big") >> 1
