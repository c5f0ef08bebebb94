"""Single-head attention of recurrent decoders: score, softmax and weighted mean over a memory."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import AttentionSpec, attend, attention_weights
from regard.attention.cache import KeyValues
from regard.attention.masks import EVERYONE, Mask
from regard.attention.scores import Additive, Score
from regard.attention.tap import Tap


class SingleHead(nn.Module):
    """The mean of the memory vectors, weighted by how well each matches a query; only the score has parameters.

    Serves padded batches (batch, query, width) and decoding steps (batch, beam, width).
    """

    heads = 1

    def __init__(self, score: Score):
        super().__init__()
        self.score = score
        self.weights = Tap()

    def remember(self, memory: Float[Tensor, "batch key width"]) -> KeyValues:
        """Return the memory as keys and values; the part of the score that depends on keys alone is computed once."""
        values = memory[:, None]
        keys = self.score.project(values) if isinstance(self.score, Additive) else values
        return KeyValues(keys, values)

    def forward(
        self, x: Float[Tensor, "batch query depth"], memory: KeyValues, *, mask: Mask = EVERYONE
    ) -> Float[Tensor, "batch query width"]:
        """Attend from x to the memory."""
        return attend(x[:, None], *memory, mask=mask, way=self.way).squeeze(1)

    def attend_with_weights(
        self, x: Float[Tensor, "batch query depth"], memory: KeyValues, *, mask: Mask = EVERYONE
    ) -> tuple[Float[Tensor, "batch query width"], Float[Tensor, "batch query key"]]:
        """Attend and also return the weights, for a loss that needs them."""
        weights = attention_weights(x[:, None], memory.keys, mask=mask, way=self.way)
        return (weights @ memory.values).squeeze(1), weights.squeeze(1)

    @property
    def way(self) -> AttentionSpec:
        """Return the AttentionSpec for the keys of `remember`, with the tap for the weights."""
        compare = self.score.compare if isinstance(self.score, Additive) else self.score
        return AttentionSpec(score=compare, tap=self.weights)
