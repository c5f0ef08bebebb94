"""A trained memory in use: what it answers, how many bits are wrong, and where its heads looked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from regard import config
from regard.attention.tap import Tap
from regard.checkpoint import Checkpoint
from regard.config.ranges import Count, Small
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.interpret.watch import attention_names, watch
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import mean_statistics
from regard.tasks.inputs import InputKind, Inputs, list_inputs
from regard.tasks.memory.sequences import LONGEST, TEST, Sequences, SequencesConfig, fresh, laid_out
from regard.tasks.memory.spelling import Asked, parse, spelled, typed
from regard.tasks.memory.task import errors, fits
from regard.tasks.trained import DirectAnswers, Extra, NoOptions, blind, chosen, described, revived

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHUNK = 64  # sequences read at a time
DIGITS = 4  # of a weight in JSON
HEADS = ("write", "read")
SEQUENCE = InputKind(
    "sequence", "a sequence", "sequences", lambda given: isinstance(given, (str, Asked)), example="1011 0110"
)


@dataclass(frozen=True, kw_only=True)
class SequenceOptions:
    """How many sequences are drawn."""

    count: Count = 1
    """Sequences of the length."""


@dataclass(frozen=True)
class Remembered:
    """What was answered, what would have been right, and where each head looked most at every step."""

    answer: str
    right: str
    errors: int
    bits: int
    looks: Mapping[str, Sequence[Sequence[tuple[int, float]]]] = field(default_factory=dict)
    """By the kind of heads, for each head and step: the place with the largest weight, and that weight."""

    def __str__(self) -> str:
        return self.answer

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        told = {"answer": self.answer, "right": self.right, "errors": self.errors, "bits": self.bits}
        looks = {
            kind: [[{"place": place, "weight": weight} for place, weight in steps] for steps in heads]
            for kind, heads in self.looks.items()
        }
        return told | looks


class Machine(DirectAnswers):
    """Answers with what it has read, by a trained model."""

    task: ClassVar[str] = "remembering"
    verb: ClassVar[str] = "remember"
    kind: ClassVar[str] = "a model that remembers sequences"
    input_kind: ClassVar[InputKind] = SEQUENCE
    Options: ClassVar[type] = NoOptions
    __repr__ = described

    def __init__(self, model: Any, data: SequencesConfig, name: str = "machine") -> None:
        self.model, self.data, self.name = model, data, name

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Machine:
        """The model that a checkpoint directory holds."""
        data = config.build(SequencesConfig, checkpoint.config["data"], where="data")
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        return cls(revived(checkpoint, device), data, name)

    @property
    def inputs(self) -> Inputs:
        """Sequences of bits, as it was trained on."""
        [example] = self.drawn(2)
        return Inputs(kind=self.input_kind, parse=self.parse, example=example, limits={"vectors": LONGEST})

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Sequences that it draws for itself, and pictures of where its heads looked."""
        return {
            "sequences": Extra(self.drawn, SequenceOptions, "Sequences of a length, none of them trained on."),
            "picture": Extra(self.picture, NoOptions, "What was read and answered, and where its heads looked."),
        }

    def parse(self, text: str) -> Asked:
        """An input as somebody types it: `10110011 00001111`, `... x3`, or `... / ... ? ...`."""
        asked = parse(text, self.data)
        fits(self.model.config, self.data, len(asked.bits) // self.data.held(1))
        return asked

    def drawn(self, length: int, *, count: int = 1) -> list[str]:
        """So many sequences of this length, as somebody would type them: none of them was trained on."""
        repeats = self._checked(length)
        bits, asked = fresh(self.data, TEST, length, count=count, repeats=repeats)
        return [typed(Asked(each, int(item), repeats), self.data) for each, item in zip(bits, asked, strict=True)]

    def answer(self, inputs: Sequence[Asked | str], **options: Any) -> list[Remembered]:
        """What is remembered of each sequence."""
        chosen(self, options)
        return self.remember(inputs)

    def remember(self, inputs: Sequence[Asked | str]) -> list[Remembered]:
        """What is remembered of each sequence, and where the heads looked meanwhile."""
        listed = list_inputs(inputs, SEQUENCE, verb=self.verb)
        return [self._remembered(self.parse(one) if isinstance(one, str) else one) for one in listed]

    def evaluate(
        self,
        *files: str | Path,
        length: int | None = None,
        repeats: Small | None = None,
        count: int = 100,
        name: str | None = None,
    ) -> Scores:
        """Wrong bits in so many freshly drawn sequences of one length, by default the longest it was trained on."""
        if files:
            raise ValueError(f"{self.name} is measured on sequences that are drawn for it: give no files")
        if count < 1:
            raise ValueError(f"count {count}: there is nothing to measure on, give 1 or more")
        length = self.data.longest if length is None else length
        usual = self._checked(length)
        if repeats is not None and self.data.kind != "repeat-copy":
            raise ValueError(f"repeats {repeats}: {self.name} was trained to {self.data.kind}, leave it out")
        times = usual if repeats is None else repeats
        batch = laid_out(self.data, *fresh(self.data, TEST, length, count=count, repeats=times), repeats=times)
        logits = self._logits(batch)
        wrong, each = errors(logits, batch).tolist(), int(batch.scored[0].sum()) * self.data.outputs
        metrics = {
            "bit errors, share": mean_statistics([one / each for one in wrong], lower=True),
            "bit errors a sequence": mean_statistics(wrong, lower=True),
            "sequences right, %": mean_statistics([100.0 * (one == 0) for one in wrong]),
        }
        given = self.drawn(length, count=count) if repeats is None else [f"{length} vectors x{times}"] * count
        examples = [
            Judged(i + 1, given[i], *self._told(batch, logits, i), float(each - wrong[i])) for i in range(len(batch))
        ]
        measures = {"length": str(length)} | ({"repeats": str(times)} if self.data.kind == "repeat-copy" else {})
        return Scores(
            name or self.name, self.task, metrics, examples, measures=measures, unit="sequence", counted="bits right"
        )

    def attention_names(self) -> list[str]:
        """Return the names of what `look` shows: the heads that write and those that read, if there are any."""
        return [*HEADS] if attention_names(self.model) else []

    def look(self, given: Asked | str, **options: Any) -> Trace:
        """Where every head looked at every step."""
        asked = self.parse(given) if isinstance(given, str) else given
        batch = asked.sequences(self.data)
        logits, looks = self._watched(batch)
        if not looks:
            raise blind(self)
        right, answer = self._told(batch, logits, 0)
        steps = [Item(text, word=at) for at, text in enumerate(self._steps(batch))]
        places = [Item(str(place), word=place) for place in range(self.model.config.places)]
        weights = [Weights(kind, "step", "place", values) for kind, values in looks.items()]
        facts = {"text": typed(asked, self.data), "answer": answer, "right": right}
        return Trace(self.name, self.task, {"step": steps, "place": places}, weights, facts)

    def picture(self, given: Asked | str) -> Figure:
        """What was read and answered, and where the heads wrote and read, over time."""
        from regard.interpret.memory import heads_over_time

        asked = self.parse(given) if isinstance(given, str) else given
        batch = asked.sequences(self.data)
        logits, looks = self._watched(batch)
        wrong, bits = int(errors(logits, batch)[0]), int(batch.scored.sum()) * self.data.outputs
        read, answer = (batch.inputs[0] + 1) / 2, logits[0].sigmoid()  # of -1 and 1; 0 is silence
        read = read.masked_fill(batch.inputs[0] == 0, float("nan"))
        shown = {"read in": read, "answer": answer.masked_fill(~batch.scored[0, :, None].bool(), float("nan"))}
        count = f"{wrong:,} wrong bits of {bits:,} (guessing: {bits // 2:,})"
        title = f"{self.name}: {self.data.kind}, {len(asked.bits)} vectors, {count}"
        return heads_over_time(shown, looks, title=title)

    def _remembered(self, asked: Asked) -> Remembered:
        batch = asked.sequences(self.data)
        logits, looks = self._watched(batch)
        right, answer = self._told(batch, logits, 0)
        peaks = {}
        for kind, values in looks.items():
            most, where = values.max(-1)
            rounded = [[round(one, DIGITS) for one in head] for head in most.tolist()]
            peaks[kind] = [list(zip(at, how, strict=True)) for at, how in zip(where.tolist(), rounded, strict=True)]
        bits = int(batch.scored.sum()) * self.data.outputs
        return Remembered(answer, right, int(errors(logits, batch)[0]), bits, peaks)

    def _watched(self, batch: Sequences) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits of one sequence, and the weights (heads, step, place) of write heads and read heads, if there are."""
        if not any(isinstance(module, Tap) for module in self.model.modules()):
            return self._logits(batch), {}
        with watch(self.model) as seen:
            logits = self._logits(batch)
        found = {name.rpartition(".")[2]: seen[name][0].cpu() for name in seen}
        return logits, {kind: found[kind] for kind in HEADS}

    @torch.no_grad()
    def _logits(self, batch: Sequences) -> Tensor:
        device = self.runner.device
        return torch.cat([self.runner(part.to(device)).float().cpu() for part in batch.inputs.split(CHUNK)])

    def _told(self, batch: Sequences, logits: Tensor, number: int) -> tuple[str, str]:
        """What is right and what was answered, as text."""
        where = batch.scored[number]
        pair = batch.targets[number, where], (logits[number, where] > 0).float()
        right, answer = (spelled(each, self.data.bits, ends=True) for each in pair)
        return right, answer

    def _steps(self, batch: Sequences) -> list[str]:
        """What is read at every step: bits, a mark, or nothing."""
        width = self.data.bits
        return [
            "·" if not step.any() else "mark" if step[width:].any() else spelled(step[None] > 0, width)
            for step in batch.inputs[0]
        ]

    def _checked(self, length: int) -> int:
        """Stop at lengths that cannot be; the repeats that are asked of a sequence of this length."""
        least = 2 if self.data.kind == "recall" else 1
        if not least <= length <= LONGEST:
            raise ValueError(f"length {length}: choose one from {least} to {LONGEST:,}, as far as the memory reaches")
        fits(self.model.config, self.data, length)
        return self.data.repeats if self.data.kind == "repeat-copy" else 1
