"""Masks drawn as the weights that they leave: both directions, causal, windows and padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import attend, weigh
from regard.attention.masks import EVERYONE, Grid, Mask, causal, padded, window
from regard.attention.scores import scaled_dot
from regard.lab.attention.permutation import embed_words
from regard.lab.demonstration import Demonstration, LabelledMatrix, Measurement

WORDS = ("I", "am", "trying", "to", "understand")
PADDING = "·"
WINDOW = 1
SCALE = 0.5  # of vectors, so that words look at others than themselves


def compare_masks(words: Sequence[str] = WORDS, *, seed: int = 0) -> Demonstration:
    """Compare the attention weights of the same words under every mask."""
    length = len(words)
    masks = {
        "both directions": EVERYONE,
        "causal": causal(),
        f"window of {WINDOW}": window(WINDOW),
        f"causal window of {WINDOW}": causal() & window(WINDOW),
    }
    vectors = SCALE * embed_words([*words, PADDING, PADDING], seed=seed)
    grid = padded(Grid(torch.tensor([length]), length + 2))
    matrices = [
        LabelledMatrix(name, words, words, masked_weights(vectors[:length], mask).tolist())
        for name, mask in masks.items()
    ]
    extended = [*words, PADDING, PADDING]
    padding_weights = masked_weights(vectors, grid)[:length]
    matrices.append(LabelledMatrix("padding", words, extended, padding_weights.tolist()))
    unmasked = masked_weights(vectors, EVERYONE)[:length]
    measurements = [
        Measurement(
            f"change of the output of {words[0]!r} when {words[-1]!r} changes",
            "both directions",
            change_of_first(vectors[:length], EVERYONE),
            "causal",
            change_of_first(vectors[:length], causal()),
        ),
        Measurement(
            "largest weight on padding",
            "no mask",
            float(unmasked[:, length:].max()),
            "mask of padding",
            float(padding_weights[:, length:].max()),
        ),
    ]
    return Demonstration("Masks", measurements, matrices=matrices)


def masked_weights(vectors: Float[Tensor, "word width"], mask: Mask) -> Float[Tensor, "word word"]:
    """Return the self-attention weights of some vectors under a mask."""
    dense = mask.dense(len(vectors), len(vectors))
    visible = None if dense is None else dense.squeeze(0) if dense.dim() == 3 else dense
    return weigh(scaled_dot(vectors, vectors), visible)


def change_of_first(vectors: Float[Tensor, "word width"], mask: Mask) -> float:
    """Return the largest change in the first output when the last vector is negated."""
    changed = torch.cat([vectors[:-1], -vectors[-1:]])
    first, second = (attend(x[None], x[None], x[None], mask=mask)[0, 0] for x in (vectors, changed))
    return float((first - second).abs().max())
