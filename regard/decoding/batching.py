"""Batching of examples for decoding, and restoring the order of their answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

Answer = TypeVar("Answer")


def by_length(lengths: Sequence[int], *, budget: int, size: int | None = None) -> list[list[int]]:
    """Return example indices in batches of similar length, the longest first, so that what does not fit fails at once.

    The size of a batch times its longest example stays within `budget` tokens, and a batch within `size` examples; an
    example longer than the budget is a batch of its own.
    """
    if budget < 1 or (size is not None and size < 1):
        raise ValueError(f"a batch of {budget} tokens and {size} examples holds nothing: give at least 1")
    batches: list[list[int]] = []
    for example in sorted(range(len(lengths)), key=lambda example: -lengths[example]):
        longest = lengths[batches[-1][0]] if batches else 0
        if not batches or (len(batches[-1]) + 1) * longest > budget or len(batches[-1]) == size:
            batches.append([])
        batches[-1].append(example)
    return batches


def by_width(lengths: Sequence[int], *, room: int, most: int, step: int = 16) -> list[list[int]]:
    """Split examples, longest first, into batches of few distinct shapes, so that CUDA graphs can be replayed.

    A batch has the width of its longest example, rounded up to a multiple of `step`, and as many rows as fit `room`
    tokens of that width: a power of two, at most `most`. Only the last batch may have fewer.
    """
    order = sorted(range(len(lengths)), key=lambda example: -lengths[example])
    batches: list[list[int]] = []
    while order:
        rows = min(most, max(1, room // max(1, round_up(lengths[order[0]], step))))
        rows = 1 << (rows.bit_length() - 1)
        batches.append(order[:rows])
        order = order[rows:]
    return batches


def round_up(length: int, step: int) -> int:
    """Round a length up to a multiple of `step`."""
    return -(-length // step) * step


def by_equal_length(lengths: Sequence[int], *, budget: int) -> list[list[int]]:
    """Split examples, the longest first, into batches of one length each, which need no padding and no mask.

    A batch holds `budget` tokens at most, or a single longer example. Examples left over that fill no batch of their
    length are batched with those of neighbouring lengths, so that there are few small batches.
    """
    batches: list[list[int]] = []
    rest: list[int] = []
    by_size = sorted(range(len(lengths)), key=lambda example: -lengths[example])
    for length, group in groupby(by_size, key=lambda example: lengths[example]):
        examples, fitting = list(group), max(1, budget // max(length, 1))
        full = len(examples) - len(examples) % fitting
        batches += [examples[start : start + fitting] for start in range(0, full, fitting)]
        rest += examples[full:]
    batches += [[rest[place] for place in batch] for batch in by_length([lengths[n] for n in rest], budget=budget)]
    return batches


def padded(
    texts: Sequence[Sequence[int]], value: int, longest: int | None = None
) -> tuple[Int[Tensor, "batch longest"], Int[Tensor, "batch"]]:
    """Return lists of tokens as one batch, padded with `value` to the longest or to `longest`, and their lengths."""
    lengths = [len(tokens) for tokens in texts]
    longest = max(lengths, default=0) if longest is None else longest
    rows = [[*tokens, *[value] * (longest - len(tokens))] for tokens in texts]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), longest), torch.tensor(lengths, dtype=torch.int64)


def in_order(batches: Sequence[Sequence[int]], answers: Iterable[Sequence[Answer]]) -> list[Answer]:
    """Return the answers of all batches in the order of the examples."""
    placed = {
        example: answer
        for batch, of_batch in zip(batches, answers, strict=True)
        for example, answer in zip(batch, of_batch, strict=True)
    }
    return [placed[example] for example in range(len(placed))]


def close_gaps(going: Sequence[bool]) -> list[int]:
    """Return the rows that go on: the last of them fill the places of finished rows, all others stay in place."""
    count = sum(going)
    last = (row for row in reversed(range(count, len(going))) if going[row])
    return [row if going[row] else next(last) for row in range(count)]
