"""Hard attention: one position is sampled from the weights and attended to alone (Xu et al. 2015).

A sample has no gradient. The weights learn from the score function instead: the log-probability of the sampled
positions, times the cost of the rest of the text minus a baseline (Williams 1992). Its expectation over all samples is
the exact gradient of the expected cost, with any baseline that does not depend on the sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.attend import PLAIN, AttentionSpec, attention_weights
from regard.attention.cache import KeyValues
from regard.attention.masks import EVERYONE, Mask
from regard.attention.scores import Score
from regard.attention.singlehead import SingleHead
from regard.attention.tap import Tap

Choose = Callable[[Tensor], Tensor]


class Drawn(NamedTuple):
    """The values at the sampled positions, their log-probabilities, and the entropy of the weights."""

    value: Float[Tensor, "*batch query features"]
    log_probability: Float[Tensor, "*batch query"]
    entropy: Float[Tensor, "*batch query"]
    """In nats."""


def sample_positions(weights: Float[Tensor, "*batch query key"]) -> Int[Tensor, "*batch query"]:
    """Sample a position for each query with its weights as probabilities, by the first of exponential clocks to ring.

    It uses torch's generator, as dropout does, and does not wait for the device, so that a captured step can sample
    too.
    """
    return (weights.detach() / torch.empty_like(weights).exponential_()).argmax(-1)


def most_likely_positions(weights: Float[Tensor, "*batch query key"]) -> Int[Tensor, "*batch query"]:
    """Return the position with the largest weight, the first of equals."""
    return weights.argmax(-1)


def attend_hard(
    query: Float[Tensor, "*q heads query depth"],
    key: Float[Tensor, "*k heads key other"],
    value: Float[Tensor, "*k heads key features"],
    *,
    mask: Mask = EVERYONE,
    way: AttentionSpec = PLAIN,
    choose: Choose = sample_positions,
    soft: Bool[Tensor, "batch"] | None = None,
    chosen: Tap | None = None,
) -> Drawn:
    """Return the value at one position for each query, chosen by the weights, or the mean where examples are `soft`.

    A query that may attend to nothing gets zeros, with probability 1. The tap of `way` sees the weights, `chosen` the
    weights of 0 and 1.
    """
    weights = attention_weights(query, key, mask=mask, way=way)
    position = choose(weights)[..., None]
    probability = weights.gather(-1, position)
    visible = probability > 0
    one_hot = torch.zeros_like(weights).scatter(-1, position, visible.to(weights.dtype))
    log = torch.where(visible, probability, 1.0).log().squeeze(-1)
    if soft is not None:
        is_soft = soft.reshape(-1, *[1] * (weights.dim() - 1))
        one_hot, log = torch.where(is_soft, weights, one_hot), torch.where(is_soft[..., 0], 0.0, log)
    one_hot = one_hot if chosen is None else chosen(one_hot, mask)
    entropy = -(weights * weights.clamp(min=torch.finfo(weights.dtype).tiny).log()).sum(-1)
    return Drawn(one_hot @ value, log, entropy)


def score_function(
    costs: Float[Tensor, "*batch step"],
    log_probability: Float[Tensor, "*batch step"],
    *,
    baseline: Float[Tensor, "*_ step"] | float = 0.0,
) -> Float[Tensor, "*batch step"]:
    """Return the term to add to the costs of all steps so that their expected gradient is that of the expected cost.

    `(costs from step t on, less the baseline) * log p(draw t)`: the sample of a step affects its cost and later ones.
    """
    ahead = costs.detach().flip(-1).cumsum(-1).flip(-1)
    return (ahead - baseline) * log_probability


class HardHead(SingleHead):
    """Attention to one vector of the memory: sampled from the weights in training, the likeliest or the mean in use.

    If `expected` is False, the position with the largest weight is used; if True, the weighted mean, which is soft
    attention with weights that were trained for sampling.
    """

    def __init__(self, score: Score, *, expected: bool = False):
        super().__init__(score)
        self.expected = expected
        self.chosen = Tap()

    def forward(
        self, x: Float[Tensor, "batch query depth"], memory: KeyValues, *, mask: Mask = EVERYONE
    ) -> Float[Tensor, "batch query width"]:
        """Attend deterministically, as at inference."""
        if self.expected:
            return super().forward(x, memory, mask=mask)
        return self.look(x, memory, mask=mask, choose=most_likely_positions).value

    def look(
        self,
        x: Float[Tensor, "batch query depth"],
        memory: KeyValues,
        *,
        mask: Mask = EVERYONE,
        choose: Choose = sample_positions,
        soft: Bool[Tensor, "batch"] | None = None,
    ) -> Drawn:
        """Attend as in training: to one sampled position for each query, or to the mean where an example is `soft`."""
        keys, values = memory
        drawn = attend_hard(
            x[:, None], keys, values, mask=mask, way=self.way, choose=choose, soft=soft, chosen=self.chosen
        )
        return Drawn(*(part.squeeze(1) for part in drawn))
