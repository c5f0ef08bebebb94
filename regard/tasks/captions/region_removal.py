"""Does a caption rest on where its writer looked? How probable its words stay while regions are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.interpret.measure.map_checks import ORDERS, STEPS, curve

IMAGES_PER_BATCH = 64  # images, with some of their regions deleted, that are read at a time


@torch.no_grad()
def measure_removal(
    model: Any,
    regions: Float[Tensor, "1 region features"],
    blank: Float[Tensor, "1 region features"],
    caption: Sequence[int],
    attention: Float[Tensor, "region"],
) -> list[dict[str, Any]]:
    """Return deletion and insertion curves, by where the model looked, highest first, and at random.

    A region that is deleted has the features that it has in a blank image. The caption begins with the token that opens
    it and ends with its end; its probability is the geometric mean over the tokens.
    """
    random = torch.rand(ORDERS, len(attention), generator=torch.Generator().manual_seed(0))
    orders = torch.cat([attention.cpu()[None], random]).argsort(dim=1, descending=True, stable=True)
    ranks = orders.argsort(dim=1) / len(attention)
    removed_first = torch.stack([ranks < step / STEPS for step in range(STEPS + 1)])
    is_kept = torch.stack([~removed_first, removed_first]).to(regions.device)
    chunks = is_kept.flatten(0, 2).split(IMAGES_PER_BATCH)
    mixed_regions = (torch.where(chunk[..., None], regions, blank) for chunk in chunks)
    probabilities = torch.cat([caption_probability(model, mixed, caption) for mixed in mixed_regions])
    deletion, insertion = probabilities.reshape(is_kept.shape[:-1])
    return [
        {**curve(name, values[:, 0], values[:, 1:].mean(1)), "each": True}
        for name, values in (("deletion", deletion), ("insertion", insertion))
    ]


def caption_probability(
    model: Any, regions: Float[Tensor, "image region features"], caption: Sequence[int]
) -> Float[Tensor, "image"]:
    """Return the probability of a token of the caption given each image, as the geometric mean over all tokens."""
    tokens = torch.tensor(caption, device=regions.device).expand(len(regions), -1)
    logits, state = model.start(regions, tokens[:, :1], limit=len(caption))
    total = _token_log_probability(logits, tokens[:, 1])
    for place in range(1, len(caption) - 1):
        logits, state = model.step(tokens[:, place : place + 1], state)
        total = total + _token_log_probability(logits, tokens[:, place + 1])
    return (total / (len(caption) - 1)).exp().cpu()


def _token_log_probability(logits: Float[Tensor, "image 1 vocab"], token: Tensor) -> Float[Tensor, "image"]:
    return logits[:, 0].float().log_softmax(-1).gather(1, token[:, None])[:, 0]
