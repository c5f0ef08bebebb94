"""Protection against non-finite losses and spikes: failed steps change nothing, repeated failures are rolled back.

Nothing here waits for the device at every step: results are read when they are due. Decisions depend only on saved
numbers and on the step, so that a resumed run makes the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from regard import config
from regard.checkpoint import Checkpoint
from regard.training.distributed import ALONE, Team
from regard.training.log import Log
from regard.training.oom import Piece
from regard.training.resume import NUMBERS

MEMORY = 100  # steps that the running mean of losses covers; spikes are not detected before as many
FLOOR = 0.05  # share of the mean that is added to the deviation, for losses that hardly vary
LOOK = 50  # steps between checks of the weights, and between reads from a device that computes asynchronously
NAMED = 3  # examples of a row that the log names
TOLERATED = 10  # examples that may be left out even in a short run
REMEDY = "lower optim.learning_rate, raise optim.warmup, or look at the examples that train.log names"


History = tuple[int, Tensor, Tensor, Tensor]  # number of losses; their running mean, variance and weight


@dataclass
class Faults:
    """Counts of faults since the start of the run."""

    skipped: int = 0
    """Steps without an update because loss or gradient was not finite."""
    spikes: int = 0
    """Steps without an update because of a loss spike."""
    split: int = 0
    """Rows, or parts of rows, that did not fit into memory and were halved."""
    dropped: int = 0
    """Single examples that did not fit into memory and were left out."""
    rolled_back: int = 0
    """Number of times training returned to a checkpoint."""

    def since(self, before: Faults) -> dict[str, int]:
        """Return the counts since `before`."""
        return {fault.name: getattr(self, fault.name) - getattr(before, fault.name) for fault in fields(self)}


@dataclass
class Health:
    """The state of a guard, with which it decides as if the run had never stopped."""

    faults: Faults = field(default_factory=Faults)
    streak: int = 0
    """Number of consecutive failed steps."""
    passed: int = 0
    """Rows that were skipped, or whose updates were undone, by returning to checkpoints."""
    retreats: int = 0
    """Number of times training returned to a checkpoint without passing step `reached` since."""
    reached: int = 0
    """The furthest step from which training returned."""
    returned: int = 0
    """The step to which training last returned."""
    saved: list[int] = field(default_factory=list)
    """Steps of scheduled checkpoints saved without faults, which are kept and may be returned to."""
    losses: dict[str, tuple[int, float, float, float]] = field(default_factory=dict)
    """For each part: the number of losses, and running means of the loss, its variance and its weight."""


@dataclass(frozen=True)
class Verdict:
    """The guard's judgement of a loss, left on the device."""

    loss: Tensor
    """The loss per unit of weight."""
    limit: Tensor | None
    """A higher loss is a spike; None until there are enough losses to tell."""
    sound: Tensor
    """True if the update may be applied."""


@dataclass(frozen=True)
class PartUpdate:
    """The update of one part at one step."""

    step: int
    rows: Sequence[tuple[int, Tensor, Any]]
    """Row numbers with their losses and weights."""
    verdict: Verdict
    broken: Tensor
    """True if the update was skipped."""


class Guard:
    """Checks every step, counts and logs failures, and decides when to roll back or to stop.

    All processes judge the same sums and so agree; faults that only one of them had are sent to the others.
    """

    def __init__(self, task: Any, settings: Any, log: Log, device: torch.device, team: Team = ALONE) -> None:
        self.task, self.settings, self.log, self.device, self.team = task, settings, log, device, team
        self.every = LOOK if device.type == "cuda" else 1  # elsewhere results are available at once
        self.reason: str | None = None
        self.waiting: list[PartUpdate] = []
        self.torn: list[tuple[str, str]] = []  # faults not yet sent to the other processes, with their messages
        self.adopt(Health())

    def adopt(self, health: Health) -> None:
        """Continue from a saved state."""
        self.health, self.reported = health, replace(health.faults)
        self.history = {part: self._history(*values) for part, values in health.losses.items()}
        self.waiting.clear()

    def snapshot(self) -> Health:
        """Return the state to save, exact to the bit."""
        losses = {part: (count, *torch.stack(means).tolist()) for part, (count, *means) in self.history.items()}
        return replace(self.health, losses=losses)

    def judge(self, part: str, loss: Tensor, weight: Any) -> Verdict:
        """Judge a part's loss per unit of weight, and add it to the running statistics for later ones."""
        if self.settings.spike is None:
            return Verdict(loss, None, loss.isfinite())
        history = self.history.get(part) or self._history(0, 0.0, 0.0, 0.0)
        self.history[part], verdict = judge_loss(history, loss.to(history[1].dtype), weight, beyond=self.settings.spike)
        return verdict

    def saw(self, step: int, rows: Sequence[tuple[int, Tensor, Any]], verdict: Verdict, broken: Tensor) -> None:
        """Record the result of an update until it is read."""
        self.waiting.append(PartUpdate(step, rows, verdict, broken))

    def hear(self) -> None:
        """Read the recorded updates, count and log failures, and track how many failed in a row."""
        if not self.waiting:
            return
        flags = torch.stack([update.broken for update in self.waiting]).tolist()
        for step, group in groupby(zip(self.waiting, flags, strict=True), key=lambda pair: pair[0].step):
            failed = [update for update, broken in group if broken]
            self.health.streak = self.health.streak + 1 if failed else 0
            if failed:
                self._tell(failed[0])
            elif step > self.health.reached:
                self.health.retreats = 0
        self.waiting.clear()

    def lost(self, step: int) -> str | None:
        """Return the reason to roll back now, or None."""
        if step % self.every == 0:
            self.hear()
            if self.health.streak >= self.settings.failures:
                return f"{self.health.streak} updates in a row failed"
        due = step % LOOK == 0 or step % self.settings.save_every == 0 or step == self.settings.steps
        return self.find_non_finite() if due else None

    def find_non_finite(self) -> str | None:
        """Return a message naming a non-finite tensor, or None; a forward pass alone can spoil running means."""
        state = {name: tensor for name, tensor in self.task.model.state_dict().items() if tensor.is_floating_point()}
        finite = torch.stack([tensor.isfinite().all() for tensor in state.values()]).tolist()
        message = next((f"{name} is not finite" for name, sound in zip(state, finite, strict=True) if not sound), None)
        return self.team.agree(message)

    def goals(self, there: Sequence[int]) -> list[int]:
        """Return the existing checkpoints to roll back to, best first, further back each time it does not help."""
        if self.health.retreats >= self.settings.retreats:
            return []
        good = [step for step in self.health.saved if step in there]
        return [step for step in good if not self.health.retreats or step < self.health.returned][::-1] or good[:1]

    def saving(self, step: int) -> None:
        """Record a checkpoint about to be saved, if it is one to roll back to."""
        if step % self.settings.save_every == 0 and not self.health.streak and step not in self.health.saved:
            self.health.saved = [*self.health.saved, step][-self.settings.keep :]

    def despair(self, step: int, why: str) -> None:
        """Set the reason to stop: there is no checkpoint to roll back to, or rolling back has not helped."""
        tried = self.health.retreats
        vain = f"after going back {tried} times in vain" if tried else "with no checkpoint to go back to"
        self.reason = f"diverged: {why} at step {step}, {vain}: {REMEDY}"

    def give_up(self, step: int, why: str) -> None:
        """Set the reason to stop: the model is useless although its weights are finite; `why` names a remedy."""
        self.reason = f"diverged: at step {step} {why}"

    def retreat(self, saved: Health, *, step: int, to: int, rows: int) -> None:
        """Restore the state of the checkpoint `to`, but keep the counts of faults and skip the rows up to now."""
        now, faults = self.health, replace(self.health.faults, rolled_back=self.health.faults.rolled_back + 1)
        self.adopt(
            replace(
                saved,
                faults=faults,
                streak=0,
                passed=now.passed + (step - to) * rows,
                retreats=now.retreats + 1,
                reached=max(now.reached, step),
                returned=to,
            )
        )
        self.reported = replace(faults)

    def split(self, step: int, piece: Piece) -> Sequence[Any]:
        """Return the halves of a batch that does not fit into memory; none if it cannot be halved and is left out."""
        halves = self.task.split(piece.batch)
        place = f"step {step}: row {piece.row}{self._places(piece.batch)}"
        if len(halves) > 1:
            self._count(step, "split", f"{place} does not fit into memory: halved and redone")
            return halves
        self._count(step, "dropped", f"{place} does not fit into memory and cannot be halved: left out")
        return []

    def news(self, step: int) -> dict[str, int]:
        """Return the faults since the last call; those that never happened are left out, except `skipped`."""
        others = self.team.gather(self.torn or None)
        others[self.team.rank] = None
        for name, text in (fault for reports in others for fault in reports or ()):
            self._count(step, name, text)
        self.torn.clear()
        new = self.health.faults.since(self.reported)
        self.reported = replace(self.health.faults)
        return {name: count for name, count in new.items() if count or name == "skipped"}

    def _count(self, step: int, fault: str, text: str) -> None:
        """Count and log a row or example that did not fit, and stop if too many were left out."""
        faults = self.health.faults
        setattr(faults, fault, getattr(faults, fault) + 1)
        self.torn.append((fault, text))
        self.log.note(text)
        if faults.dropped > max(TOLERATED, step):
            count = f"{faults.dropped} examples in {step} steps do not fit alone"
            self.reason = f"out of memory: {count}: make rows or the longest examples shorter, or the model smaller"

    def _tell(self, update: PartUpdate) -> None:
        loss, limit = float(update.verdict.loss), update.verdict.limit
        spike = limit is not None and float(limit) < loss < math.inf
        if spike:
            self.health.faults.spikes += 1
            what = f"loss {loss:.4g} leaps beyond {limit:.4g}"
        else:
            self.health.faults.skipped += 1
            what = "the gradient is not finite" if math.isfinite(loss) else f"loss {loss} is not finite"
        losses = self.team.gather([(row, float(loss / weight)) for row, loss, weight in update.rows])
        suspects = _suspects(
            sorted(
                (row_loss for process_losses in losses for row_loss in process_losses), key=lambda row_loss: row_loss[0]
            ),
            spike,
        )
        rows = ", ".join(f"row {row}{self._places(self.task.batch(row))}" for row in suspects)
        self.log.note(f"step {update.step}: {what}, no update; {rows or 'nothing was left of its rows'}")

    def _places(self, batch: Any) -> str:
        """Return the places (file and line) of a batch's examples, for log messages."""
        places = self.task.origins(batch)
        if not places:
            return ""
        more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
        return f" ({', '.join(places[:NAMED])}{more})"

    def _history(self, count: int, *means: float) -> History:
        dtype = torch.float32 if self.device.type == "mps" else torch.float64  # MPS has no float64
        mean, variance, weight = torch.tensor(means, dtype=dtype, device=self.device)
        return count, mean, variance, weight


def judge_loss(history: History, loss: Tensor, weight: Any, *, beyond: float) -> tuple[History, Verdict]:
    """Return the history with this loss added, and whether the loss is over `beyond` deviations above the mean.

    The deviation is that of a step of usual weight; a lighter step may deviate more, as the mean of fewer numbers does.
    A spike enters the history as at most `2 * beyond` deviations, so that a single one is soon forgotten, but spikes
    that recur within forty steps widen the deviation until they are usual. Losses that are not finite do not count.
    """
    count, mean, variance, usual = history
    counted, limit = loss, None
    sound = finite = loss.isfinite()
    if count >= MEMORY:
        deviation = torch.addcmul(variance, mean, mean, value=FLOOR**2).mul((usual / weight).clamp(min=1)).sqrt()
        limit = torch.add(mean, deviation, alpha=beyond)
        sound = finite & (loss <= limit)
        counted = torch.minimum(loss, torch.add(mean, deviation, alpha=2 * beyond))
    share = 1 / min(count + 1, MEMORY)
    change = counted - mean
    moved = torch.add(mean, change, alpha=share)
    spread = torch.addcmul(variance, change, change, value=share) * (1 - share)
    common = usual + (weight - usual) * share
    pairs = (moved, mean), (spread, variance), (common, usual)
    mean, variance, usual = (torch.where(finite, after, before) for after, before in pairs)
    return (count + 1, mean, variance, usual), Verdict(loss, limit, sound)


def recall(saved: Checkpoint) -> Health:
    """Return the guard's state saved in a checkpoint."""
    return config.build(Health, saved.json(NUMBERS).get("health", {"saved": [saved.step]}), where=NUMBERS)


def _suspects(rows: Sequence[tuple[int, float]], spike: bool) -> list[int]:
    """Return the rows to blame: those with a non-finite loss, else the one with the largest for a spike, else all."""
    losses: dict[int, float] = {}
    for row, loss in rows:
        losses[row] = max(
            losses.get(row, -math.inf), loss, key=lambda loss_value: (loss_value != loss_value, loss_value)
        )
    broken = [row for row, loss in losses.items() if not math.isfinite(loss)]
    if spike and not broken:
        return [max(losses, key=lambda row: losses[row])]
    return broken or list(losses)
