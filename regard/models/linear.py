"""A linear model over words, pairs and triples of words, each with one weight per label.

It is the baseline that a network should beat. Pairs and triples share a table by hashing (Weinberger et al. 2009), so
they need no vocabulary, and unseen ones count nothing. A feature may be scaled by its log-count ratio as in naive Bayes
(Wang and Manning 2012), that is by how much more often it occurs in texts of a label than in others, so that a feature
that says little also learns little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.masks import Grid, Row
from regard.config.ranges import Share, Small, Vocabulary, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Backbone, LabellerConfig, LabellerDefaults, read_settings

FACTOR = 1_000_003  # of a hash: odd, and larger than most vocabularies
UNSEEN = 2.0  # smoothing: texts with every feature that are added to the real ones, in the proportions of the labels


@dataclass(frozen=True, kw_only=True)
class LinearConfig(LabellerConfig):
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
    """Longest n-gram that is a feature, in words: 1, words alone; 2, pairs as well; 3, triples as well, which training
    chooses for 20,000 texts and more when it is not set."""
    buckets: Vocabulary = 1 << 20
    """Places for pairs and triples; those that share one count together."""
    scaling: Literal["none", "ratio"] = "none"
    """Value of a feature: its count in the text (none), or 1 if the text has it, times its log-count ratio in the
    training texts (ratio), which training chooses when it is not set."""
    dropout: Warned[Share] = 0.3
    """Share of features left out in training."""

    labeller_defaults: ClassVar[LabellerDefaults] = LabellerDefaults(
        learning_rate=0.02,
        epochs=2,
        longest_text=4096,  # tokens cost little here, and reviews end with a verdict
        settings={"scaling": "ratio", "reach": 3, "buckets": 1 << 21},
        small_dataset_settings={"reach": 2, "buckets": 1 << 18},
    )

    def __post_init__(self) -> None:
        if self.per_token:
            raise ValueError("model.name=linear labels whole texts, not their words: choose another model for tags")
        if self.reach > 1 and not self.buckets:
            raise ValueError("model.buckets must be above 0 for pairs of words: set it, or reach=1")
        check_affordable(self.parameters, "lower buckets or the vocabulary")

    @property
    def width(self) -> int:
        """Features of a token: one for each label."""
        return max(self.classes, 1)

    @property
    def token_features(self) -> int:
        """Features of a token: one for each label."""
        return self.width

    @property
    def counts_labels(self) -> bool:
        """True if features are scaled by log-count ratios."""
        return self.scaling == "ratio"

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return self.vocab + (self.buckets if self.reach > 1 else 0)

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        return self.classes * (self.rows + 1)

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"A linear model over {['words', 'words and pairs'][self.reach > 1]}{' and more' * (self.reach > 2)}"

    @property
    def backbone(self) -> Backbone:
        """Return sizes without weights: the weights of words for some labels are of no use for others."""
        settings = {name: name for name in ("reach", "buckets", "classes")}
        return Backbone(family="words", settings=settings, sizes=read_settings(self, settings))


class Offset(nn.Module):
    """A bias for every label."""

    def __init__(self, classes: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Float[Tensor, "text classes"]) -> Float[Tensor, "text classes"]:
        """Add the biases."""
        return x + self.bias


class LinearText(nn.Module):
    """The sum of the weights of a text's features for each label, over the square root of their number."""

    scale: Tensor

    def __init__(self, config: LinearConfig):
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.rows, config.classes)
        nn.init.zeros_(self.table.weight)
        if config.scaling == "ratio":
            self.register_buffer("scale", torch.ones(config.rows, config.classes))
        self.output = Offset(config.classes)

    def forward(
        self, tokens: Int[Tensor, "*token"], layout: Row | Grid, segments: Int[Tensor, "*token"] | None = None
    ) -> Float[Tensor, "text classes"]:
        """Return the logits of the labels of every text (a row of fixed shape has its maximal number of texts)."""
        text, place, texts = _locate_tokens(layout, tokens.device)
        total, features = self._sum_features(tokens.flatten(), text, place, texts + 1)
        logits = self.output(total / features.clamp(min=1).sqrt()[:, None])
        most = layout.most if isinstance(layout, Row) and layout.most is not None else texts
        return logits[:most]

    @torch.no_grad()
    def weigh(self, batches: Iterable[tuple[Int[Tensor, "token"], Row, Int[Tensor, "text"]]]) -> None:
        """Set the scale of every feature to its log-count ratio for each label, from (tokens, row, labels) of texts."""
        rows, classes = self.scale.shape
        met, texts = self.scale.new_zeros(classes, rows), self.scale.new_zeros(classes)
        for tokens, row, labels in batches:
            text, place, _ = _locate_tokens(row, tokens.device)
            pairs = [(text * rows + ids)[there] for ids, there in self._features(tokens, place)]
            once = torch.cat(pairs).unique()  # a text counts once for a feature, however often it occurs
            owners = labels[once // rows]
            met.view(-1).index_add_(0, owners * rows + once % rows, met.new_ones(len(once)))
            texts += torch.bincount(labels, minlength=classes)
        for label in range(classes):
            share = texts[label] / texts.sum()
            with_label, without_label = met[label] + UNSEEN * share, met.sum(0) - met[label] + UNSEEN * (1 - share)
            self.scale[:, label] = (
                (with_label / without_label).log() - (share / (1 - share)).log() if 0 < share < 1 else 1.0
            )

    def _features(
        self, tokens: Int[Tensor, "token"], place: Int[Tensor, "token"]
    ) -> Iterator[tuple[Int[Tensor, "token"], Bool[Tensor, "token"]]]:
        """Yield the table rows of the words, pairs and triples that end at each token, and whether these exist."""
        key = tokens
        for reach in range(self.config.reach):
            if reach:
                before = torch.cat([key[:1], key[:-1]])
                key = before * FACTOR + tokens  # of the words up to here; overflow is deterministic
            ids = key if not reach else self.config.vocab + (key ^ (key >> 15)).remainder(self.config.buckets)
            yield ids, place >= reach

    def _sum_features(
        self, tokens: Int[Tensor, "token"], text: Int[Tensor, "token"], place: Int[Tensor, "token"], texts: int
    ) -> tuple[Float[Tensor, "text classes"], Float[Tensor, "text"]]:
        """Return the sums of the weights of each text's features, and the numbers of these features."""
        weight = self.table.weight
        total, features = weight.new_zeros(texts, weight.shape[1]), weight.new_zeros(texts)
        occurrences = list(self._features(tokens, place))
        if self.config.scaling == "ratio":
            occurrences = self._keep_first_occurrences(occurrences, text)
        for ids, real in occurrences:
            there = real.to(weight.dtype)
            if self.training and self.config.dropout:
                there = nn.functional.dropout(there, self.config.dropout)
            votes = self.table(ids)
            if self.config.scaling == "ratio":
                votes = votes * self.scale[ids]
            total = total.index_add(0, text, votes * there[:, None])
            features = features.index_add(0, text, there.ne(0).to(weight.dtype))
        return total, features

    def _keep_first_occurrences(
        self, occurrences: list[tuple[Int[Tensor, "token"], Bool[Tensor, "token"]]], text: Int[Tensor, "token"]
    ) -> list[tuple[Int[Tensor, "token"], Bool[Tensor, "token"]]]:
        """Return the features, each marked as existing only at its first occurrence in a text."""
        places = torch.cat([torch.where(there, text * self.config.rows + ids, -1) for ids, there in occurrences])
        ordered, order = places.sort(stable=True)
        first = torch.cat([ordered[:1] >= 0, (ordered[1:] != ordered[:-1])])
        first_only = torch.zeros_like(first).scatter(0, order, first).chunk(len(occurrences))
        return [(ids, there & again) for (ids, there), again in zip(occurrences, first_only, strict=True)]


def _locate_tokens(layout: Row | Grid, device: torch.device) -> tuple[Int[Tensor, "token"], Int[Tensor, "token"], int]:
    """Return the text of each token, its position there, and the number of texts; padding belongs to one more text."""
    if isinstance(layout, Row):
        return layout.segment, layout.place, len(layout.lengths)
    lines, longest = layout.filled.shape
    number = torch.arange(lines, device=device)[:, None].expand(lines, longest)
    place = torch.arange(longest, device=device).expand(lines, longest)
    return torch.where(layout.filled, number, lines).flatten(), place.flatten(), lines
