"""A linear model over words and what follows them: for every label a number beside each word, pair or triple.

It is what a network should beat (Wang and Manning 2012). Pairs and triples share a table by hashing (Weinberger et al.
2009), so nothing is listed and what was never met counts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import Grid, Row
from regard.config.ranges import Share, Small, Vocabulary, affordable
from regard.config.resuming import Warned

FACTOR = 1_000_003  # of a hash: odd, and larger than most vocabularies


@dataclass(frozen=True, kw_only=True)
class LinearConfig:
    """A linear model over words, pairs and triples of words."""

    name: Literal["linear"] = "linear"
    """Which model this is."""
    vocab: Vocabulary = 0
    """Tokens of the vocabulary; filled in from the tokenizer."""
    classes: Vocabulary = 0
    """Labels to choose from; filled in from the data."""
    per_token: bool = False
    """A label for each token, which this model has none for; filled in by the task."""
    reach: Small = 2
    """Words of a feature at most: 1 counts words alone, 2 pairs as well, 3 triples as well."""
    buckets: Vocabulary = 1 << 20
    """Places for pairs and triples; those that share one count together."""
    dropout: Warned[Share] = 0.3
    """Share of features left out in training."""

    FORMAT: ClassVar[str] = "plain"
    FEW: ClassVar[dict[str, Any]] = {"buckets": 1 << 18}
    RATE: ClassVar[float] = 0.02
    FAMILY: ClassVar[str] = "words"
    BODY: ClassVar[dict[str, str]] = {"reach": "reach", "buckets": "buckets", "classes": "classes"}

    def __post_init__(self) -> None:
        if self.per_token:
            raise ValueError("model.name=linear labels whole texts, not their words: choose another model for tags")
        if self.reach > 1 and not self.buckets:
            raise ValueError("model.buckets must be above 0 for pairs of words: set it, or reach=1")
        affordable(self.parameters, "lower buckets or the vocabulary")

    @property
    def width(self) -> int:
        """Features of a token: one for each label."""
        return max(self.classes, 1)

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return self.vocab + (self.buckets if self.reach > 1 else 0)

    @property
    def parameters(self) -> int:
        """How many numbers are learnt."""
        return self.classes * (self.rows + 1)

    @property
    def phrase(self) -> str:
        """What it is, in a few words."""
        return f"A linear model over {['words', 'words and pairs'][self.reach > 1]}{' and more' * (self.reach > 2)}"


class Offset(nn.Module):
    """One number for every label, whatever the text."""

    def __init__(self, classes: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Float[Tensor, "text classes"]) -> Float[Tensor, "text classes"]:
        """The same plus these."""
        return x + self.bias


class LinearText(nn.Module):
    """The sum of what a text's features say of each label, over the root of how many there are."""

    def __init__(self, config: LinearConfig):
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.rows, config.classes)
        nn.init.zeros_(self.table.weight)
        self.output = Offset(config.classes)

    def forward(
        self, tokens: Int[Tensor, "*token"], layout: Row | Grid, segments: Int[Tensor, "*token"] | None = None
    ) -> Float[Tensor, "text classes"]:
        """Logits of the labels of every text (of a row of fixed shape, of as many as there may be)."""
        if isinstance(layout, Grid):
            lines, longest = layout.filled.shape
            number = torch.arange(lines, device=tokens.device)[:, None].expand(lines, longest)
            text = torch.where(layout.filled, number, lines).flatten()
            place, texts = torch.arange(longest, device=tokens.device).expand(lines, longest).flatten(), lines
        else:
            text, place, texts = layout.segment, layout.place, len(layout.lengths)
        total, features = self._summed(tokens.flatten(), text, place, texts + 1)
        logits = self.output(total / features.clamp(min=1).sqrt()[:, None])
        most = layout.most if isinstance(layout, Row) and layout.most is not None else texts
        return logits[:most]

    def _summed(
        self, tokens: Int[Tensor, "token"], text: Int[Tensor, "token"], place: Int[Tensor, "token"], texts: int
    ) -> tuple[Float[Tensor, "text classes"], Float[Tensor, "text"]]:
        """What all features of each text say, and how many there are."""
        weight = self.table.weight
        total, features = weight.new_zeros(texts, weight.shape[1]), weight.new_zeros(texts)
        key = tokens
        for reach in range(self.config.reach):
            if reach:
                before = torch.cat([key[:1], key[:-1]])
                key = before * FACTOR + tokens  # of the words up to here; it may run over, always alike
            ids = key if not reach else self.config.vocab + (key ^ (key >> 15)).remainder(self.config.buckets)
            there = (place >= reach).to(weight.dtype)
            if self.training and self.config.dropout:
                there = nn.functional.dropout(there, self.config.dropout)
            total = total.index_add(0, text, self.table(ids) * there[:, None])
            features = features.index_add(0, text, there.ne(0).to(weight.dtype))
        return total, features
