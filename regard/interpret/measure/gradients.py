"""Gradient times input: how much every token that is read sways what is answered, to first order.

For a token with embedding x and an answer with log-probability p it is the norm of x * dp/dx, feature by feature
(Denil et al. 2014, Shrikumar et al. 2016). Positions are added to embeddings and count as constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.words import normalise
from regard.models.parts.blocks import Embedding

ROOM = 4096  # tokens of a pass with gradients


def gradient_times_input(
    table: nn.Module, tokens: Int[Tensor, "token"], run: Callable[[], Float[Tensor, "answer"]]
) -> Float[Tensor, "token"]:
    """Return for every token the norm of its embedding times the gradient of the sum of what `run` returns.

    `run` looks the tokens up in `table` before it looks up anything else there.
    """
    with torch.enable_grad(), _split_off(table) as leaves, torch.backends.cudnn.flags(enabled=False):
        total = run().sum()
        [slopes] = torch.autograd.grad(total, leaves[:1])
    weight: Any = table.weight
    vectors = F.embedding(tokens, weight.detach()) * (table.scale if isinstance(table, Embedding) else 1.0)
    return (slopes.reshape_as(vectors) * vectors).norm(dim=-1)


@contextmanager
def _split_off(table: nn.Module) -> Iterator[list[Tensor]]:
    """Cut the graph of gradients after every look into a table inside the block, and collect what it returned."""
    leaves: list[Tensor] = []

    def split(_: nn.Module, __: tuple[Any, ...], vectors: Tensor) -> Tensor:
        leaves.append(vectors.detach().requires_grad_())
        return leaves[-1]

    handle = table.register_forward_hook(split)
    try:
        yield leaves
    finally:
        handle.remove()


def source_gradients(
    reader: ForcedReader, read: Sequence[int], written: Sequence[int]
) -> Float[Tensor, "target source"]:
    """Return the share of every token read in the gradients of every token written and of the end; rows sum to 1."""
    model, teacher = reader.model, reader.teacher
    labels, fed = [*written, teacher.end], [teacher.begin, *written]

    def compute_rows(places: Sequence[int]) -> Float[Tensor, "place source"]:
        inputs, layouts = teacher.pack_pairs([list(read)] * len(places), [fed] * len(places))
        rows, chosen = torch.arange(len(places)), torch.tensor(places)

        def run() -> Tensor:
            features = model(*inputs, layouts=layouts).unflatten(0, (len(places), len(fed)))[rows, chosen]
            scores = model.logits(features).log_softmax(-1)
            return scores[rows, [labels[place] for place in places]]

        return gradient_times_input(model.embedding, inputs[0], run).unflatten(0, (len(places), len(read)))

    return in_chunks(compute_rows, len(labels), max(len(read), len(fed)))


def in_chunks(
    compute_rows: Callable[[Sequence[int]], Float[Tensor, "place token"]], count: int, length: int
) -> Float[Tensor, "answer token"]:
    """Return rows of gradients as shares that sum to 1, as many in one pass as fit; each reads a whole input anew."""
    size = max(1, ROOM // length)
    chunks = [list(range(first, min(first + size, count))) for first in range(0, count, size)]
    return normalise(torch.cat([compute_rows(chunk).float().cpu() for chunk in chunks]))
