"""Sequences of random bits to copy, to repeat or to recall from: drawn when asked for, never kept.

Each row is a pure function of a seed and its number. What is read, and what must be answered, step by step
(Graves et al. 2014, section 4):

    copy         x1 ... xn END        | x1 ... xn
    repeat-copy  x1 ... xn END times  | x1 ... xn x1 ... xn ... STOP
    recall       ITEM a ITEM b ... ASK a ASK | b

A bit is read as 1 or -1, and 0 where there is none: a vector whose bits are all 0 is not taken for silence, though a
controller without a state sees nothing but the step. Copying needs places alone: read them in the order in which they
were written. Recall needs contents: find the item that was asked about, then read the next one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.config import plain
from regard.config.ranges import Batch, Count, Range
from regard.config.resuming import Warned
from regard.data.examples import TensorBatch

LONGEST = 1000
BUCKETS = 16  # shapes that rows have at most, each recorded once on a GPU
TRAIN, VALID, TEST = 0, 1, 2  # what rows are for, so that none is drawn for two purposes
Bits = Int[np.ndarray, "batch length bits"]


@dataclass(frozen=True, kw_only=True)
class SequencesConfig:
    """What is drawn."""

    kind: Literal["copy", "repeat-copy", "recall"] = "copy"
    """What must be answered: the same sequence, the same several times, or the item after the one asked about."""
    bits: Annotated[int, Range(1, 64)] = 8
    """Bits of a vector."""
    shortest: Annotated[int, Range(1, LONGEST)] = 1
    """Fewest vectors of a sequence; of recall, fewest items."""
    longest: Annotated[int, Range(1, LONGEST)] = 20
    """Most vectors of a sequence; of recall, most items."""
    repeats: Annotated[int, Range(1, 100)] = 10
    """Of repeat-copy: most times that a sequence is repeated."""
    item: Annotated[int, Range(1, 100)] = 3
    """Of recall: vectors of an item."""
    batch: Warned[Batch] = 32
    """Sequences in a row, all of one length."""
    valid: Count = 500
    """Validation sequences; none of them is trained on."""
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    """Random seed."""

    def __post_init__(self) -> None:
        if self.shortest > self.longest:
            raise ValueError(f"shortest {self.shortest} exceeds longest {self.longest}: lower it")
        if self.kind == "recall" and self.shortest < 2:
            raise ValueError(f"recall from {self.shortest} item has no next one to answer with: set shortest to 2")

    @property
    def inputs(self) -> int:
        """Numbers read at every step: bits, and marks."""
        return self.bits + (1 if self.kind == "copy" else 2)

    @property
    def outputs(self) -> int:
        """Numbers answered at every step: bits, and where repeats must be counted, the end."""
        return self.bits + (self.kind == "repeat-copy")

    def held(self, length: int) -> int:
        """Vectors that must be remembered of a sequence of this length."""
        return length * (self.item if self.kind == "recall" else 1)

    def steps(self, length: int, repeats: int = 1) -> int:
        """Steps that reading and answering take."""
        if self.kind == "recall":
            return length * (self.item + 1) + 2 * (self.item + 1)
        return length + 1 + (length * repeats + 1 if self.kind == "repeat-copy" else length)

    @property
    def report(self) -> dict[str, Any]:
        """What is drawn, for the run folder; the same fingerprint means the same sequences."""
        settings = {name: value for name, value in plain(self).items() if name != "valid"}
        return {"fingerprint": hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()}

    @property
    def summary(self) -> list[str]:
        """The same for a person."""
        things = "items" if self.kind == "recall" else "vectors"
        return [f"drawn on demand to {self.kind}: {self.shortest} to {self.longest} {things} of {self.bits} bits"]


@dataclass(frozen=True)
class Sequences(TensorBatch):
    """Sequences side by side: what is read, what must be answered, and where that counts."""

    inputs: Float[Tensor, "batch time inputs"]
    targets: Float[Tensor, "batch time outputs"]
    scored: Bool[Tensor, "batch time"]

    def padded(self, time: int) -> Sequences:
        """The same with steps after the end, in which nothing is read and no answer counts."""
        more = time - self.inputs.shape[1]
        inputs, targets = (torch.nn.functional.pad(each, (0, 0, 0, more)) for each in (self.inputs, self.targets))
        return Sequences(inputs, targets, torch.nn.functional.pad(self.scored, (0, more)))


def row(config: SequencesConfig, number: int) -> Sequences:
    """A row to learn from: one length, and of repeat-copy one number of repeats, drawn for all of it.

    Steps are filled up to one of a few numbers, so that rows have few shapes.
    """
    chance = np.random.default_rng([config.seed, TRAIN, number])
    length = int(chance.integers(config.shortest, config.longest + 1))
    repeats = int(chance.integers(1, config.repeats + 1)) if config.kind == "repeat-copy" else 1
    found = laid_out(config, *drawn(config, chance, count=config.batch, length=length), repeats=repeats)
    unit = -(-config.steps(config.longest, config.repeats) // BUCKETS)
    return found.padded(-(-found.inputs.shape[1] // unit) * unit)


def fresh(config: SequencesConfig, part: int, length: int, *, count: int, repeats: int = 1) -> tuple[Bits, Any]:
    """So many sequences of one length to measure on: the bits, and which item of each is asked about."""
    return drawn(config, np.random.default_rng([config.seed, part, length, repeats]), count=count, length=length)


def drawn(
    config: SequencesConfig, chance: np.random.Generator, *, count: int, length: int
) -> tuple[Bits, Int[np.ndarray, "batch"]]:
    """Random bits, and a random item that is not the last."""
    bits = chance.integers(0, 2, (count, config.held(length), config.bits))
    return bits, chance.integers(0, max(1, length - 1), count)


def laid_out(config: SequencesConfig, bits: Bits, asked: Int[np.ndarray, "batch"], *, repeats: int = 1) -> Sequences:
    """Bits as they are read and must be answered."""
    count, held, width = bits.shape
    length = held // config.item if config.kind == "recall" else held
    steps = config.steps(length, repeats)
    inputs = np.zeros((count, steps, config.inputs), np.float32)
    targets = np.zeros((count, steps, config.outputs), np.float32)
    if config.kind == "recall":
        answer = _recall(config, bits.reshape(count, length, config.item, width), asked, inputs)
    else:
        inputs[:, :held, :width], inputs[:, held, width] = 2 * bits - 1, 1
        answer = np.tile(bits, (1, repeats, 1))
        if config.kind == "repeat-copy":
            inputs[:, held, width + 1] = _centred(repeats, config.repeats)
            targets[:, -1, -1] = 1
    first = steps - answer.shape[1] - (config.kind == "repeat-copy")
    targets[:, first : first + answer.shape[1], :width] = answer
    scored = np.zeros((count, steps), bool)
    scored[:, first:] = True
    return Sequences(*map(torch.from_numpy, (inputs, targets, scored)))


def _recall(
    config: SequencesConfig, items: np.ndarray, asked: np.ndarray, inputs: np.ndarray
) -> Int[np.ndarray, "batch item bits"]:
    """Write items and the question; the answer is the item after the one asked about."""
    count, length, item, width = items.shape
    block = item + 1
    told = inputs[:, : length * block].reshape(count, length, block, -1)  # a view
    told[:, :, 0, width], told[:, :, 1:, :width] = 1, 2 * items - 1
    question = inputs[:, length * block :]
    question[:, 0, width + 1] = question[:, block, width + 1] = 1
    each = np.arange(count)
    question[:, 1:block, :width] = 2 * items[each, asked] - 1
    return items[each, asked + 1]


def _centred(repeats: int, most: int) -> float:
    """How often, with a mean of 0 and a variance of 1 over what is trained on."""
    return (repeats - (most + 1) / 2) / (((most**2 - 1) / 12) ** 0.5 or 1.0)
