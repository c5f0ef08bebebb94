"""Hard attention: one place is drawn from the weights and looked at alone (Xu et al. 2015).

A draw has no gradient. What the weights learn comes from the score function: the log-probability of the places that
were drawn, times what the rest of the text cost more than expected (Williams 1992). Its expectation over all draws is
the exact gradient of the expected cost, with any baseline that does not depend on the draw.
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
    """What was seen at the places drawn, how probable they were, and how undecided the weights are."""

    value: Float[Tensor, "*batch query features"]
    log_probability: Float[Tensor, "*batch query"]
    entropy: Float[Tensor, "*batch query"]
    """In nats."""


def sample_positions(weights: Float[Tensor, "*batch query key"]) -> Int[Tensor, "*batch query"]:
    """A place for each query, drawn with its weight as probability: the first of exponential clocks to ring.

    Chance is that of torch's generator, as dropout's is, and nothing is asked of the device, so that a recorded step
    can draw too.
    """
    return (weights.detach() / torch.empty_like(weights).exponential_()).argmax(-1)


def most_likely_positions(weights: Float[Tensor, "*batch query key"]) -> Int[Tensor, "*batch query"]:
    """The place with the largest weight, the first of equals."""
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
    """The value at one place for each query, chosen by the weights; examples that are `soft` see the mean instead.

    A query that may look nowhere sees zeros, for sure. The tap of `way` sees the weights, `chosen` those of 0 and 1.
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
    """What is added to the costs of all steps, so that their gradient becomes, over all draws, that of the mean cost.

    `(costs from step t on, less the baseline) * log p(draw t)`: the draw of a step touches its cost and later ones.
    """
    ahead = costs.detach().flip(-1).cumsum(-1).flip(-1)
    return (ahead - baseline) * log_probability


class HardHead(SingleHead):
    """A look at one vector of the memory: drawn from the weights in training, the likeliest or the mean in use.

    `expected` says which: False looks at the place with the largest weight, True at the weighted mean, which is soft
    attention with weights that were trained to be drawn from.
    """

    def __init__(self, score: Score, *, expected: bool = False):
        super().__init__(score)
        self.expected = expected
        self.chosen = Tap()

    def forward(
        self, x: Float[Tensor, "batch query depth"], memory: KeyValues, *, mask: Mask = EVERYONE
    ) -> Float[Tensor, "batch query width"]:
        """What is seen in use, where nothing is left to chance."""
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
        """What is seen in training: one place for each query, drawn, or the mean where an example is `soft`."""
        keys, values = memory
        drawn = attend_hard(
            x[:, None], keys, values, mask=mask, way=self.way, choose=choose, soft=soft, chosen=self.chosen
        )
        return Drawn(*(part.squeeze(1) for part in drawn))
