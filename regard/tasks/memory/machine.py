"""A trained memory model in use: its answers, its scores, and the attention of its heads."""

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
from regard.tasks.memory.notation import SequenceInput, format_bits, format_input, parse_input
from regard.tasks.memory.sequences import MAX_LENGTH, TEST, Sequences, SequencesConfig, build_sequences, draw_for_part
from regard.tasks.memory.task import check_memory_size, count_wrong_bits
from regard.tasks.trained import (
    DirectAnswers,
    Extra,
    NoOptions,
    describe_model,
    load_model,
    no_attention_error,
    resolve_options,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHUNK = 64  # sequences per batch
DIGITS = 4  # decimals of a weight in JSON
HEADS = ("write", "read")
SEQUENCE = InputKind(
    "sequence", "a sequence", "sequences", lambda value: isinstance(value, (str, SequenceInput)), example="1011 0110"
)


@dataclass(frozen=True, kw_only=True)
class SequenceOptions:
    """Options of drawing sequences."""

    count: Count = 1
    """Sequences of the length."""


@dataclass(frozen=True)
class MemoryAnswer:
    """The model's answer to a sequence, the right answer, and the most attended place of each head at every step."""

    answer: str
    right: str
    errors: int
    bits: int
    looks: Mapping[str, Sequence[Sequence[tuple[int, float]]]] = field(default_factory=dict)
    """By kind of head, for each head and step: the place with the largest weight, and this weight."""

    def __str__(self) -> str:
        return self.answer

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        counts = {"answer": self.answer, "right": self.right, "errors": self.errors, "bits": self.bits}
        looks = {
            kind: [[{"place": place, "weight": weight} for place, weight in steps] for steps in heads]
            for kind, heads in self.looks.items()
        }
        return counts | looks


class Machine(DirectAnswers):
    """Answers sequences of bits with a trained model."""

    task: ClassVar[str] = "remembering"
    verb: ClassVar[str] = "remember"
    kind: ClassVar[str] = "a model that remembers sequences"
    input_kind: ClassVar[InputKind] = SEQUENCE
    Options: ClassVar[type] = NoOptions
    __repr__ = describe_model

    def __init__(self, model: Any, data: SequencesConfig, name: str = "machine") -> None:
        self.model, self.data, self.name = model, data, name

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Machine:
        """Load the model of a checkpoint directory."""
        data = config.build(SequencesConfig, checkpoint.config["data"], where="data")
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best, so add the run's name
        return cls(load_model(checkpoint, device), data, name)

    @property
    def inputs(self) -> Inputs:
        """Sequences of bits like those of training."""
        [example] = self.draw_inputs(2)
        return Inputs(kind=self.input_kind, parse=self.parse, example=example, limits={"vectors": MAX_LENGTH})

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Draw new sequences, and plot the attention of the heads over time."""
        return {
            "sequences": Extra(self.draw_inputs, SequenceOptions, "Sequences of a length, none of them trained on."),
            "picture": Extra(self.picture, NoOptions, "What was read and answered, and where its heads looked."),
        }

    def parse(self, text: str) -> SequenceInput:
        """Return an input from text: `10110011 00001111`, `... x3`, or `... / ... ? ...`."""
        sequence = parse_input(text, self.data)
        check_memory_size(self.model.config, self.data, len(sequence.bits) // self.data.num_vectors(1))
        return sequence

    def draw_inputs(self, length: int, *, count: int = 1) -> list[str]:
        """Draw sequences of this length as text; none of them was trained on."""
        repeats = self._check_length(length)
        bits, items = draw_for_part(self.data, TEST, length, count=count, repeats=repeats)
        return [
            format_input(SequenceInput(vectors, int(item), repeats), self.data)
            for vectors, item in zip(bits, items, strict=True)
        ]

    def answer(self, inputs: Sequence[SequenceInput | str], **options: Any) -> list[MemoryAnswer]:
        """Return the answer to each sequence."""
        resolve_options(self, options)
        return self.remember(inputs)

    def remember(self, inputs: Sequence[SequenceInput | str]) -> list[MemoryAnswer]:
        """Return the answer to each sequence, with the most attended place of each head at every step."""
        items = list_inputs(inputs, SEQUENCE, verb=self.verb)
        return [self._answer_input(self.parse(item) if isinstance(item, str) else item) for item in items]

    def evaluate(
        self,
        *files: str | Path,
        length: int | None = None,
        repeats: Small | None = None,
        count: int = 100,
        name: str | None = None,
    ) -> Scores:
        """Count wrong bits in newly drawn sequences of one length, by default the longest of training."""
        if files:
            raise ValueError(f"{self.name} is measured on sequences that are drawn for it: give no files")
        if count < 1:
            raise ValueError(f"count {count}: there is nothing to measure on, give 1 or more")
        length = self.data.max_length if length is None else length
        default_repeats = self._check_length(length)
        if repeats is not None and self.data.kind != "repeat-copy":
            raise ValueError(f"repeats {repeats}: {self.name} was trained to {self.data.kind}, leave it out")
        times = default_repeats if repeats is None else repeats
        batch = build_sequences(
            self.data, *draw_for_part(self.data, TEST, length, count=count, repeats=times), repeats=times
        )
        logits = self._logits(batch)
        wrong, bits_per_sequence = (
            count_wrong_bits(logits, batch).tolist(),
            int(batch.scored[0].sum()) * self.data.outputs,
        )
        metrics = {
            "bit errors, share": mean_statistics(
                [count_wrong / bits_per_sequence for count_wrong in wrong], lower=True
            ),
            "bit errors a sequence": mean_statistics(wrong, lower=True),
            "sequences right, %": mean_statistics([100.0 * (count_wrong == 0) for count_wrong in wrong]),
        }
        texts = self.draw_inputs(length, count=count) if repeats is None else [f"{length} vectors x{times}"] * count
        examples = [
            Judged(i + 1, texts[i], *self._format_answer(batch, logits, i), float(bits_per_sequence - wrong[i]))
            for i in range(len(batch))
        ]
        measures = {"length": str(length)} | ({"repeats": str(times)} if self.data.kind == "repeat-copy" else {})
        return Scores(
            name or self.name, self.task, metrics, examples, measures=measures, unit="sequence", counted="bits right"
        )

    def attention_names(self) -> list[str]:
        """Return the kinds of heads whose attention `look` returns: write and read heads, if the model has any."""
        return [*HEADS] if attention_names(self.model) else []

    def look(self, sequence: SequenceInput | str, **options: Any) -> Trace:
        """Answer a sequence and return the attention of every head at every step."""
        parsed = self.parse(sequence) if isinstance(sequence, str) else sequence
        batch = parsed.to_batch(self.data)
        logits, looks = self._forward_with_weights(batch)
        if not looks:
            raise no_attention_error(self)
        right, answer = self._format_answer(batch, logits, 0)
        steps = [Item(text, word=step) for step, text in enumerate(self._steps(batch))]
        places = [Item(str(place), word=place) for place in range(self.model.config.places)]
        weights = [Weights(kind, "step", "place", values) for kind, values in looks.items()]
        facts = {"text": format_input(parsed, self.data), "answer": answer, "right": right}
        return Trace(self.name, self.task, {"step": steps, "place": places}, weights, facts)

    def picture(self, sequence: SequenceInput | str) -> Figure:
        """Plot the input, the answer, and the attention of the write and read heads over time."""
        from regard.interpret.draw.memory import heads_over_time

        parsed = self.parse(sequence) if isinstance(sequence, str) else sequence
        batch = parsed.to_batch(self.data)
        logits, looks = self._forward_with_weights(batch)
        wrong, bits = int(count_wrong_bits(logits, batch)[0]), int(batch.scored.sum()) * self.data.outputs
        read, answer = (batch.inputs[0] + 1) / 2, logits[0].sigmoid()  # inputs are -1 or 1; 0 means no input
        read = read.masked_fill(batch.inputs[0] == 0, float("nan"))
        panels = {"read in": read, "answer": answer.masked_fill(~batch.scored[0, :, None].bool(), float("nan"))}
        count = f"{wrong:,} wrong bits of {bits:,} (guessing: {bits // 2:,})"
        title = f"{self.name}: {self.data.kind}, {len(parsed.bits)} vectors, {count}"
        return heads_over_time(panels, looks, title=title)

    def _answer_input(self, sequence: SequenceInput) -> MemoryAnswer:
        batch = sequence.to_batch(self.data)
        logits, looks = self._forward_with_weights(batch)
        right, answer = self._format_answer(batch, logits, 0)
        peaks = {}
        for kind, values in looks.items():
            largest, where = values.max(-1)
            rounded = [[round(weight, DIGITS) for weight in head] for head in largest.tolist()]
            peaks[kind] = [
                list(zip(places, weights, strict=True)) for places, weights in zip(where.tolist(), rounded, strict=True)
            ]
        bits = int(batch.scored.sum()) * self.data.outputs
        return MemoryAnswer(answer, right, int(count_wrong_bits(logits, batch)[0]), bits, peaks)

    def _forward_with_weights(self, batch: Sequences) -> tuple[Tensor, dict[str, Tensor]]:
        """Return logits, and the weights (heads, step, place) of write and read heads, if there are any."""
        if not any(isinstance(module, Tap) for module in self.model.modules()):
            return self._logits(batch), {}
        with watch(self.model) as record:
            logits = self._logits(batch)
        weights = {name.rpartition(".")[2]: record[name][0].cpu() for name in record}
        return logits, {kind: weights[kind] for kind in HEADS}

    @torch.no_grad()
    def _logits(self, batch: Sequences) -> Tensor:
        device = self.runner.device
        return torch.cat([self.runner(part.to(device)).float().cpu() for part in batch.inputs.split(CHUNK)])

    def _format_answer(self, batch: Sequences, logits: Tensor, number: int) -> tuple[str, str]:
        """Return the right answer and the answer of the model, as text."""
        where = batch.scored[number]
        pair = batch.targets[number, where], (logits[number, where] > 0).float()
        right, answer = (format_bits(bits, self.data.bits, ends=True) for bits in pair)
        return right, answer

    def _steps(self, batch: Sequences) -> list[str]:
        """Return the input at every step as text: bits, a mark, or a dot for nothing."""
        width = self.data.bits
        return [
            "·" if not step.any() else "mark" if step[width:].any() else format_bits(step[None] > 0, width)
            for step in batch.inputs[0]
        ]

    def _check_length(self, length: int) -> int:
        """Return the default number of repeats; raise an error for a length that the task or the memory excludes."""
        least = 2 if self.data.kind == "recall" else 1
        if not least <= length <= MAX_LENGTH:
            raise ValueError(
                f"length {length}: choose one from {least} to {MAX_LENGTH:,}, as far as the memory reaches"
            )
        check_memory_size(self.model.config, self.data, length)
        return self.data.repeats if self.data.kind == "repeat-copy" else 1
