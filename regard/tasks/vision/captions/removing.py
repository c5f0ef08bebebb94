"""Does a caption rest on where its writer looked? How probable its words stay while regions go, or come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.interpret.judging import ORDERS, STEPS, curve

CHUNK = 64  # pictures, with some of their regions gone, that are read at a time


@torch.no_grad()
def curves(
    model: Any,
    regions: Float[Tensor, "1 region features"],
    blank: Float[Tensor, "1 region features"],
    written: Sequence[int],
    seen: Float[Tensor, "region"],
) -> list[dict[str, Any]]:
    """Deletion and insertion by where it looked, highest first, and at random: the geometric mean over the words.

    A region that is not there has the features that it has in a blank picture. What is written begins with what opens
    a caption and ends with its end.
    """
    random = torch.rand(ORDERS, len(seen), generator=torch.Generator().manual_seed(0))
    orders = torch.cat([seen.cpu()[None], random]).argsort(dim=1, descending=True, stable=True)
    ranks = orders.argsort(dim=1) / len(seen)
    first = torch.stack([ranks < step / STEPS for step in range(STEPS + 1)])
    there = torch.stack([~first, first]).to(regions.device)
    mixed = (torch.where(some[..., None], regions, blank) for some in there.flatten(0, 2).split(CHUNK))
    chances = torch.cat([probable(model, rows, written) for rows in mixed]).reshape(there.shape[:-1])
    lines = zip(("deletion", "insertion"), chances, strict=True)
    return [{**curve(name, line[:, 0], line[:, 1:].mean(1)), "each": True} for name, line in lines]


def probable(
    model: Any, regions: Float[Tensor, "picture region features"], written: Sequence[int]
) -> Float[Tensor, "picture"]:
    """How probable a token of a caption is of each picture, as the geometric mean over all."""
    tokens = torch.tensor(written, device=regions.device).expand(len(regions), -1)
    logits, state = model.start(regions, tokens[:, :1], limit=len(written))
    total = _chance(logits, tokens[:, 1])
    for place in range(1, len(written) - 1):
        logits, state = model.step(tokens[:, place : place + 1], state)
        total = total + _chance(logits, tokens[:, place + 1])
    return (total / (len(written) - 1)).exp().cpu()


def _chance(logits: Float[Tensor, "picture 1 vocab"], token: Tensor) -> Float[Tensor, "picture"]:
    return logits[:, 0].float().log_softmax(-1).gather(1, token[:, None])[:, 0]
