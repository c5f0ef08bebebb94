"""Links between external tensors and Regard's tensors with the same values, and their exact conversion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.checkpoint.tensors import is_finite
from regard.interop.fields import quote_name

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Link:
    """One external tensor and the one or several Regard tensors that hold the same values."""

    theirs: str
    ours: tuple[str, ...]
    split: Callable[[Tensor], Sequence[Tensor]]
    """Theirs to ours."""
    join: Callable[[Sequence[Tensor]], Tensor]
    """Ours to theirs."""
    transposed: bool = False
    """Whether a matrix of theirs has a row for each input."""


def identity_link(theirs: str, ours: str) -> Link:
    """Link the same tensor under two names."""
    return Link(theirs, (ours,), lambda tensor: [tensor], lambda parts: parts[0])


def transposed_link(theirs: str, ours: str) -> Link:
    """Link a matrix to its transpose."""
    return Link(theirs, (ours,), lambda tensor: [tensor.t()], lambda parts: parts[0].t(), transposed=True)


def reshaped_link(theirs: str, ours: str, there: tuple[int, ...], here: tuple[int, ...]) -> Link:
    """Link the same values in the same order with another shape."""
    return Link(theirs, (ours,), lambda tensor: [tensor.reshape(here)], lambda parts: parts[0].reshape(there))


def stacked_link(theirs: str, ours: Sequence[str], *, transposed: bool = False) -> Link:
    """Link several Regard tensors of one size to one external tensor, stacked, or transposed and side by side."""
    axis = -1 if transposed else 0

    def split(tensor: Tensor) -> list[Tensor]:
        return [part.t() if transposed else part for part in tensor.chunk(len(ours), dim=axis)]

    def join(parts: Sequence[Tensor]) -> Tensor:
        return torch.cat([part.t() if transposed else part for part in parts], dim=axis)

    return Link(theirs, tuple(ours), split, join, transposed=transposed)


def interleaved_link(theirs: str, ours: Sequence[str], *, heads: int) -> Link:
    """Link several Regard tensors of one size to an external one that interleaves them head by head."""

    def split(tensor: Tensor) -> list[Tensor]:
        return [part.flatten(0, 1) for part in tensor.unflatten(0, (heads, len(ours), -1)).unbind(1)]

    def join(parts: Sequence[Tensor]) -> Tensor:
        return torch.stack([part.unflatten(0, (heads, -1)) for part in parts], dim=1).flatten(0, 2)

    return Link(theirs, tuple(ours), split, join)


def ours(
    links: Iterable[Link],
    theirs: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    tied_weights: Mapping[str, str],
    doubt: str = "its config.json is another model's",
) -> dict[str, Tensor]:
    """Convert external tensors to Regard's; errors name missing, superfluous, misshapen and non-finite tensors.

    `expected` are Regard tensors with the right shapes; `tied_weights` maps external names that may repeat another
    tensor to that tensor; `doubt` is the likely reason of a mismatch, for the error message.
    """
    links = list(links)
    shapes = {link.theirs: link.join([expected[name] for name in link.ours]).shape for link in links}
    assert {name for link in links for name in link.ours} == set(expected), "a table must name every tensor"
    if missing := [name for name in shapes if name not in theirs]:
        why = f"they are incomplete, or {doubt}"
        raise ValueError(f"{missing[0]} is missing from the weights ({len(missing):,} in all): {why}")
    if superfluous := [name for name in theirs if name not in shapes and name not in tied_weights]:
        why = f"it has a head or blocks that are not known here, or {doubt}"
        which = f"{quote_name(superfluous[0])}, for which the model has no place ({len(superfluous):,} in all)"
        raise ValueError(f"the weights have {which}: {why}")
    for name, shape in shapes.items():
        check_tensor(name, theirs[name], shape)
    for name, original in tied_weights.items():
        if name in theirs and not _equal(theirs[name], theirs[original]):
            raise ValueError(f"{name} must repeat {original}, which config.json says is the same, and differs from it")
    return {name: part for link in links for name, part in zip(link.ours, link.split(theirs[link.theirs]), strict=True)}


def theirs(links: Iterable[Link], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert Regard's tensors to external ones."""
    return {link.theirs: link.join([ours[name] for name in link.ours]) for link in links}


def check_tensor(name: str, tensor: Tensor, shape: torch.Size) -> None:
    """Raise ValueError for a tensor with the wrong shape, no float type, or values that are not finite."""
    if tensor.shape != shape:
        expectation = f"should be {tuple(shape)} by the sizes of the model"
        raise ValueError(f"{name} is {tuple(tensor.shape)} and {expectation}: it is damaged, or another model's")
    if tensor.dtype not in FLOATS:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise ValueError(f"{name} is of {kind}, and only floats can be read: save it as float32")
    if not is_finite(tensor):
        raise ValueError(f"{name} holds numbers that are not finite: it is damaged, or its training failed")


def _equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and torch.equal(first, second)
