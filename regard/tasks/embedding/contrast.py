"""Contrastive tuning of a backbone: vectors of the same label become similar, those of different labels orthogonal.

The pairs are those of SetFit (Tunstall et al. 2022), but a step uses all pairs of the texts in its batch, so that each
text is encoded once for all its pairs, and pairs need not be listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.masks import Row
from regard.data.packing import number, permute
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.embedding.pooling import pool_tokens
from regard.training import optim
from regard.training.optim import OptimConfig
from regard.training.pace import round_between

TEXTS = 32  # texts per step
LEAST, MOST = 10, 40  # steps
PASSES = 10  # epochs, within these bounds
CLIP = 1.0  # highest norm of the gradient


@dataclass(frozen=True)
class PairSampler:
    """Sampler of the texts of each step, balanced over labels: a pure function of the seed and the step."""

    labels: Int[np.ndarray, "text"]
    size: int = TEXTS
    seed: int = 0

    def steps(self, count: int) -> Iterator[Int[np.ndarray, "chosen"]]:
        """Yield the numbers of each step's texts; the texts of a label are drawn without replacement, in rounds."""
        order = np.argsort(self.labels, kind="stable")
        counts = np.bincount(self.labels)
        starts = np.cumsum(counts) - counts
        present_labels = np.flatnonzero(counts)
        for step in range(count):
            present = present_labels[self._take_turn(len(present_labels), max(self.size // 2, 2), step, -1)]
            per_label = max(self.size // len(present), 2)
            turns = (
                starts[label] + self._take_turn(int(counts[label]), per_label, step, label)
                for label in present.tolist()
            )
            yield order[np.concatenate(list(turns))]

    def _take_turn(self, things: int, count: int, step: int, key: int) -> Int[np.ndarray, "chosen"]:
        """Draw `count` of `things` numbers without replacement within a round; each round has another random order."""
        count = min(count, things)
        turn, place = divmod(step, things // count)
        return permute(np.arange(place * count, (place + 1) * count), things, number(self.seed, turn, key))


def cosine_loss(vectors: Float[Tensor, "text width"], labels: Int[Tensor, "text"]) -> Float[Tensor, ""]:
    """Return the squared error of cosines, whose targets are 1 for pairs of one label and 0 for others.

    The means over both kinds of pairs have half of the weight each. Every vector must have length 1.
    """
    cosines = vectors @ vectors.T
    same_label = labels[:, None] == labels
    others = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    errors = (cosines - same_label.to(cosines.dtype)).square()
    kinds = (same_label & others, ~same_label)
    return 0.5 * sum(((errors * kind).sum() / kind.sum().clamp(min=1) for kind in kinds), errors.new_zeros(()))


def plan_steps(texts: int) -> int:
    """Return the default number of steps for this number of texts."""
    return round_between(LEAST, math.ceil(PASSES * texts / TEXTS), MOST)


def tune(
    embedder: Embedder,
    texts: Sequence[str],
    labels: Int[np.ndarray, "text"],
    *,
    steps: int,
    rate: float,
    seed: int = 0,
) -> None:
    """Fine-tune an embedder so that its vectors separate the labels; texts are tokenised step by step.

    There is no dropout: steps are few, and the same seed gives the same weights.
    """
    model = embedder.model.eval()
    how = OptimConfig(
        name="adamw",
        learning_rate=rate,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.01,
        warmup=steps // 10,
        schedule="linear",
    )
    learning = {weight: weight.requires_grad for weight in model.parameters()}
    for weight in learning:
        weight.requires_grad_(True)
    optimizer = optim.build(learning, how)
    for step, chosen in enumerate(PairSampler(labels, seed=seed).steps(steps), start=1):
        optimizer.zero_grad()
        vectors = _read(embedder, [texts[index] for index in chosen])
        cosine_loss(vectors, torch.from_numpy(labels[chosen]).to(vectors.device)).backward()
        optim.update(optimizer, 1.0, rate=optim.rate_at(how, step, steps), clip=CLIP)
    optimizer.zero_grad()
    for weight, required_grad in learning.items():
        weight.requires_grad_(required_grad)


def _read(embedder: Embedder, texts: Sequence[str]) -> Float[Tensor, "text width"]:
    """Return vectors of length 1, with gradients."""
    read = embedder.encode(texts, embedder.how)
    row = Row.of([len(ids) for ids in read]).to(embedder.device)
    tokens = torch.tensor([id for ids in read for id in ids], device=embedder.device)
    return F.normalize(pool_tokens(embedder.model(tokens, layout=row), row, embedder.how.pool).float(), dim=-1)
