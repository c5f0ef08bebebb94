"""Rows that do not fit into memory: halved and repeated, down to single examples, which are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

EXHAUSTED = ("can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


@dataclass(frozen=True)
class Piece:
    """A row of data, or a part of a split row: `path` has the number of the half at every split.

    Dropout is seeded by row and path. A split row therefore drops other features than the whole row would, but always
    the same ones.
    """

    row: int
    batch: Any
    path: tuple[int, ...] = ()


def run_within_memory(
    pieces: list[Piece],
    backward: Callable[[Piece], Any],
    *,
    start: Callable[[], None],
    split: Callable[[Piece], Sequence[Any]],
) -> list[Any]:
    """Return the results of `backward` on all pieces; `split` replaces, in `pieces`, those that do not fit.

    A failed `backward` has added some gradients and not others. So `start`, which clears all gradients, is called again
    and every piece is repeated: ordinary steps pay nothing for it.
    """
    while True:
        start()
        outputs, failed = [], None
        for number, piece in enumerate(pieces):
            try:
                outputs.append(backward(piece))
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                failed = number
                break
        if failed is None:
            return outputs
        outputs.clear()
        start()
        _free()  # outside the handler, where the error has released the tensors it held
        piece = pieces[failed]
        halves = split(piece)
        pieces[failed : failed + 1] = [
            Piece(piece.row, half, (*piece.path, number)) for number, half in enumerate(halves)
        ]


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error says that the memory of a device or of the machine is used up."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in EXHAUSTED)


def _free() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
