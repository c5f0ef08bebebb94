"""Sequences of random bits to copy, to repeat or to recall from, drawn on demand.

Each row is a pure function of a seed and its number. Inputs | answers, step by step (Graves et al. 2014, section 4):

    copy         x1 ... xn END        | x1 ... xn
    repeat-copy  x1 ... xn END times  | x1 ... xn x1 ... xn ... STOP
    recall       ITEM a ITEM b ... ASK a ASK | b

A bit is read as 1 or -1, and 0 means no input, so that a vector whose bits are all 0 differs from an empty step even
for a controller without a state. Copying needs addressing by location: read in the order of writing. Recall needs
addressing by content: find the queried item, then read the next one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.config import plain, restore_former_names
from regard.config.ranges import Batch, Count, Range
from regard.config.resuming import Warned
from regard.data.examples import TensorBatch

MAX_LENGTH = 1000
MAX_SHAPES = 16  # most different shapes of rows; each is captured once as a CUDA graph
TRAIN, VALID, TEST = 0, 1, 2  # part of the seed, so that the parts share no sequence
Bits = Int[np.ndarray, "batch length bits"]


@dataclass(frozen=True, kw_only=True)
class SequencesConfig:
    """Settings of the sequences."""

    kind: Literal["copy", "repeat-copy", "recall"] = "copy"
    """What must be answered: the same sequence, the same several times, or the item after the one asked about."""
    bits: Annotated[int, Range(1, 64)] = 8
    """Bits of a vector."""
    min_length: Annotated[int, Range(1, MAX_LENGTH)] = 1
    """Fewest vectors of a sequence; of recall, fewest items."""
    max_length: Annotated[int, Range(1, MAX_LENGTH)] = 20
    """Most vectors of a sequence; of recall, most items."""
    repeats: Annotated[int, Range(1, 100)] = 10
    """Of repeat-copy: most times that a sequence is repeated."""
    item: Annotated[int, Range(1, 100)] = 3
    """Of recall: vectors of an item."""
    batch_size: Warned[Batch] = 32
    """Sequences in a row, all of one length."""
    valid: Count = 500
    """Validation sequences; none of them is trained on."""
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    """Random seed."""

    def __post_init__(self) -> None:
        if self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} exceeds max_length {self.max_length}: lower it")
        if self.kind == "recall" and self.min_length < 2:
            raise ValueError(f"recall from {self.min_length} item has no next one to answer with: set min_length to 2")

    @property
    def inputs(self) -> int:
        """Number of inputs at every step: bits and marks."""
        return self.bits + (1 if self.kind == "copy" else 2)

    @property
    def outputs(self) -> int:
        """Number of outputs at every step: bits, and for repeat-copy a stop bit."""
        return self.bits + (self.kind == "repeat-copy")

    def num_vectors(self, length: int) -> int:
        """Return the number of vectors in a sequence of this length."""
        return length * (self.item if self.kind == "recall" else 1)

    def steps(self, length: int, repeats: int = 1) -> int:
        """Return the number of steps for input and answer."""
        if self.kind == "recall":
            return length * (self.item + 1) + 2 * (self.item + 1)
        return length + 1 + (length * repeats + 1 if self.kind == "repeat-copy" else length)

    @property
    def report(self) -> dict[str, Any]:
        """Fingerprint of the data for the run folder; the same fingerprint means the same sequences."""
        settings = restore_former_names(plain(self), where="data")  # keeps older fingerprints valid
        settings.pop("valid")
        return {"fingerprint": hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()}

    @property
    def summary(self) -> list[str]:
        """Description of the data, as lines for the log."""
        things = "items" if self.kind == "recall" else "vectors"
        return [f"drawn on demand to {self.kind}: {self.min_length} to {self.max_length} {things} of {self.bits} bits"]


@dataclass(frozen=True)
class Sequences(TensorBatch):
    """A batch of sequences: inputs, targets, and the steps whose answers are scored."""

    inputs: Float[Tensor, "batch time inputs"]
    targets: Float[Tensor, "batch time outputs"]
    scored: Bool[Tensor, "batch time"]

    def pad(self, time: int) -> Sequences:
        """Pad the sequences to `time` steps; added steps have no input and are not scored."""
        extra = time - self.inputs.shape[1]
        inputs, targets = (torch.nn.functional.pad(tensor, (0, 0, 0, extra)) for tensor in (self.inputs, self.targets))
        return Sequences(inputs, targets, torch.nn.functional.pad(self.scored, (0, extra)))


def training_batch(config: SequencesConfig, number: int) -> Sequences:
    """Return the sequences of a training row: all of one length and, for repeat-copy, one number of repeats.

    They are padded to one of a few numbers of steps, so that rows have few shapes.
    """
    rng = np.random.default_rng([config.seed, TRAIN, number])
    length = int(rng.integers(config.min_length, config.max_length + 1))
    repeats = int(rng.integers(1, config.repeats + 1)) if config.kind == "repeat-copy" else 1
    sequences = build_sequences(
        config, *draw_bits(config, rng, count=config.batch_size, length=length), repeats=repeats
    )
    unit = -(-config.steps(config.max_length, config.repeats) // MAX_SHAPES)
    return sequences.pad(-(-sequences.inputs.shape[1] // unit) * unit)


def draw_for_part(config: SequencesConfig, part: int, length: int, *, count: int, repeats: int = 1) -> tuple[Bits, Any]:
    """Draw evaluation sequences of one length: their bits, and the queried item of each."""
    return draw_bits(config, np.random.default_rng([config.seed, part, length, repeats]), count=count, length=length)


def draw_bits(
    config: SequencesConfig, rng: np.random.Generator, *, count: int, length: int
) -> tuple[Bits, Int[np.ndarray, "batch"]]:
    """Draw random bits, and for each sequence a random item other than the last."""
    bits = rng.integers(0, 2, (count, config.num_vectors(length), config.bits))
    return bits, rng.integers(0, max(1, length - 1), count)


def build_sequences(
    config: SequencesConfig, bits: Bits, queried_items: Int[np.ndarray, "batch"], *, repeats: int = 1
) -> Sequences:
    """Build inputs, targets and scored steps from bits."""
    count, vector_count, width = bits.shape
    length = vector_count // config.item if config.kind == "recall" else vector_count
    steps = config.steps(length, repeats)
    inputs = np.zeros((count, steps, config.inputs), np.float32)
    targets = np.zeros((count, steps, config.outputs), np.float32)
    if config.kind == "recall":
        answer = _fill_recall(config, bits.reshape(count, length, config.item, width), queried_items, inputs)
    else:
        inputs[:, :vector_count, :width], inputs[:, vector_count, width] = 2 * bits - 1, 1
        answer = np.tile(bits, (1, repeats, 1))
        if config.kind == "repeat-copy":
            inputs[:, vector_count, width + 1] = _standardise_repeats(repeats, config.repeats)
            targets[:, -1, -1] = 1
    answer_start = steps - answer.shape[1] - (config.kind == "repeat-copy")
    targets[:, answer_start : answer_start + answer.shape[1], :width] = answer
    scored = np.zeros((count, steps), bool)
    scored[:, answer_start:] = True
    return Sequences(*map(torch.from_numpy, (inputs, targets, scored)))


def _fill_recall(
    config: SequencesConfig, items: np.ndarray, queried_items: np.ndarray, inputs: np.ndarray
) -> Int[np.ndarray, "batch item bits"]:
    """Write items and query into `inputs` in place; return the answer, the item after the queried one."""
    count, length, item, width = items.shape
    block = item + 1
    listing = inputs[:, : length * block].reshape(count, length, block, -1)  # a view
    listing[:, :, 0, width], listing[:, :, 1:, :width] = 1, 2 * items - 1
    question = inputs[:, length * block :]
    question[:, 0, width + 1] = question[:, block, width + 1] = 1
    rows = np.arange(count)
    question[:, 1:block, :width] = 2 * items[rows, queried_items] - 1
    return items[rows, queried_items + 1]


def _standardise_repeats(repeats: int, most: int) -> float:
    """Return the number of repeats, scaled to mean 0 and variance 1 over training."""
    return (repeats - (most + 1) / 2) / (((most**2 - 1) / 12) ** 0.5 or 1.0)
