"""Sampling of the next token: pure functions on logits, where -inf means removed.

They are applied in the order temperature, top-k, top-p, min-p; whatever the settings, the best token survives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Logits = Float[Tensor, "*batch vocab"]


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The distribution that tokens are drawn from; without settings, the model's own."""

    temperature: float = 1.0
    """Values above 1 flatten the distribution, values below 1 sharpen it."""
    top_k: int | None = None
    """Keep only the `top_k` most probable tokens."""
    top_p: float | None = None
    """Keep only the smallest set of most probable tokens with at least this total probability."""
    min_p: float | None = None
    """Keep only tokens with at least this probability, relative to the most probable one."""

    def __post_init__(self) -> None:
        """Check that the settings are in range."""
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature} is not above 0: decode greedily to take the best token")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k {self.top_k} keeps no token: give at least 1, or leave it out")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p {self.top_p} is not a probability above 0: leave it out to keep every token")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p {self.min_p} is not between 0 and 1: leave it out to keep every token")

    @property
    def warping(self) -> tuple[float, int | None, float | None, float | None]:
        """The settings that define the distribution."""
        return self.temperature, self.top_k, self.top_p, self.min_p

    def warp(self, logits: Logits, rows: Int[Tensor, "batch"] | None = None) -> Logits:
        """Return the logits of the distribution to sample from, which is the same for all rows."""
        logits = logits if self.temperature == 1 else temperature(logits, self.temperature)
        logits = logits if self.top_k is None else top_k(logits, self.top_k)
        logits = logits if self.top_p is None else top_p(logits, self.top_p)
        return logits if self.min_p is None else min_p(logits, self.min_p)


@dataclass(frozen=True, kw_only=True)
class Sampler(Distribution):
    """A distribution with the random generators to draw from it; without settings, the model's own."""

    generator: torch.Generator | Sequence[torch.Generator]
    """One generator for a batch, or one per example, whose answers then do not depend on the batch."""

    def noise(self, room: Sequence[int], samples: int) -> Float[Tensor, "batch beam longest"]:
        """Return uniform random numbers for examples of these limits, each example's from its own stream."""
        generators = self.generator
        if isinstance(generators, torch.Generator):
            seeds = torch.randint(2**63 - 1, (len(room),), generator=generators, device=generators.device)
            generators = [torch.Generator().manual_seed(seed) for seed in seeds.tolist()]
        return noise(generators, room, samples)


def noise(
    generators: Sequence[torch.Generator], room: Sequence[int], samples: int
) -> Float[Tensor, "batch beam longest"]:
    """Return uniform random numbers for every token of every sample, each example's from its own generator."""
    if len(generators) != len(room):
        raise ValueError(f"{len(generators)} generators for {len(room)} examples: give one each, or one for all")
    numbers = torch.zeros(len(room), samples, max(room, default=0))
    for row, (generator, length) in enumerate(zip(generators, room, strict=True)):
        numbers[row, :, :length] = torch.rand(length, samples, generator=generator, device=generator.device).T
    return numbers


def temperature(logits: Logits, value: float) -> Logits:
    """Divide by the temperature; the maximum is shifted to 0 first, so that no low temperature overflows."""
    return (logits - logits.amax(-1, keepdim=True)) / max(value, torch.finfo(logits.dtype).tiny)


def top_k(logits: Logits, count: int) -> Logits:
    """Keep only the `count` best tokens, and all that equal the last of them."""
    least = logits.topk(min(count, logits.shape[-1])).values[..., -1:]
    return logits.masked_fill(logits < least, float("-inf"))


def top_p(logits: Logits, mass: float) -> Logits:
    """Keep only the fewest best tokens whose probabilities reach `mass` (Holtzman et al. 2020)."""
    if mass >= 1:
        return logits
    probabilities, vocab = logits.softmax(-1), logits.shape[-1]
    count = vocab if logits.is_cuda else min(64, vocab)  # checking whether fewer suffice would wait for the device
    best, tokens = probabilities.sort(descending=True) if count == vocab else probabilities.topk(count)
    while count < vocab and bool((best.sum(-1) < mass).any()):  # sorting a whole vocabulary costs more than the model
        count = min(8 * count, vocab)
        best, tokens = probabilities.topk(count)
    before = best.cumsum(-1).roll(1, -1)
    before[..., 0] = 0.0
    kept_logits = logits.gather(-1, tokens).masked_fill(before >= mass, float("-inf"))
    return torch.full_like(logits, float("-inf")).scatter(-1, tokens, kept_logits)


def min_p(logits: Logits, share: float) -> Logits:
    """Keep only tokens at least `share` times as probable as the best one (Nguyen et al. 2024)."""
    probabilities = logits.softmax(-1)
    return logits.masked_fill(probabilities < share * probabilities.amax(-1, keepdim=True), float("-inf"))


def sample(logits: Float[Tensor, "*batch vocab"], generator: torch.Generator | None = None) -> Int[Tensor, "*batch"]:
    """Draw one token from the distribution of these logits."""
    return draw(logits, torch.rand(logits.shape[:-1], generator=generator, device=logits.device))


def draw(logits: Float[Tensor, "*batch vocab"], noise: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """Return the token that a uniform number falls on when the probabilities are laid end to end on [0, 1)."""
    reached = logits.float().softmax(-1).cumsum(-1)
    total = reached[..., -1]
    # Rounding may move a number beyond the last token: then the last probable token is taken.
    place = torch.minimum(noise.to(total) * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(reached, place[..., None], right=True).squeeze(-1).clamp(max=logits.shape[-1] - 1)
