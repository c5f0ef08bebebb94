"""A BERT or a GPT as a body under a head that labels whole texts, or each of their tokens.

The body is all of the pre-trained model but its heads, so its weights are used unchanged. The features of a text are
pooled into one vector: BERT's first token, GPT's last one, the mean or the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import Grid, Row
from regard.config.ranges import Share, Vocabulary
from regard.config.resuming import Warned
from regard.models.bert import BERT, BERTConfig
from regard.models.gpt import GPT, GPTConfig
from regard.models.interface import Backbone, LabellerConfig, LabellerDefaults
from regard.models.parts.blocks import init_normal
from regard.models.parts.dropout import Dropout
from regard.models.parts.unpack import first, highest, last, mean

DEFAULTS = LabellerDefaults(
    tuning_learning_rate=1e-4,
    small_dataset_settings={
        "width": 64,
        "heads": 4,
        "hidden": 128,
        "depth": 2,
        "dropout": 0.3,
        "head_dropout": 0.3,
    },
)


@dataclass(frozen=True, kw_only=True)
class BERTEncoderConfig(BERTConfig, LabellerConfig):
    """A BERT that labels texts or their tokens."""

    name: Literal["bert-encoder"] = "bert-encoder"  # type: ignore[assignment]
    """Which model this is."""
    classes: Vocabulary = 0
    """Labels to choose from; filled in from the data."""
    per_token: bool = False
    """A label for each token, not for the text as a whole; filled in by the task."""
    pool: Literal["class", "mean", "max"] = "class"
    """Pooling of a text into one vector (tags need none); class takes its first token, through the pooler if it has
    one."""
    head_dropout: Warned[Share] = 0.1
    """Dropout rate of what labels are predicted from."""

    masked: ClassVar[bool] = False  # type: ignore[misc]
    next_sentence: ClassVar[bool] = False  # type: ignore[misc]
    span_boundary: ClassVar[bool] = False  # type: ignore[misc]
    input_style: ClassVar[Literal["plain", "bert", "gpt"]] = "bert"
    labeller_defaults: ClassVar[LabellerDefaults] = DEFAULTS
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}  # those of a BERT: start from one

    @property
    def bare(self) -> BERTEncoderConfig:
        """Return the same config, with a pooler only if it is used."""
        return replace(self, pooler=self.pools)

    @property
    def pools(self) -> bool:
        """True if the pooler is used."""
        return self.pooler and self.pool == "class" and not self.per_token

    @property
    def token_features(self) -> int:
        """Features of every position."""
        return self.width

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        layer = self.width * (self.width + 1)  # of the pooler
        return super().parameters + (self.pools - self.pooler) * layer + self.classes * (self.width + 1)

    @property
    def backbone(self) -> Backbone:
        """Return the BERT; its pooler is trained with the head, as not all models to start from have one."""
        backbone = super(BERTEncoderConfig, self.bare).backbone
        return replace(backbone, weights=_inside(backbone), trained_with_head=("reader.pooler",))


@dataclass(frozen=True, kw_only=True)
class GPTEncoderConfig(GPTConfig, LabellerConfig):
    """A GPT that labels texts or their tokens."""

    name: Literal["gpt-encoder"] = "gpt-encoder"  # type: ignore[assignment]
    """Which model this is."""
    classes: Vocabulary = 0
    """Labels to choose from; filled in from the data."""
    per_token: bool = False
    """A label for each token, not for the text as a whole; filled in by the task."""
    pool: Literal["last", "mean", "max"] = "last"
    """Pooling of a text into one vector (tags need none); last takes the token put after it, which has seen all."""
    head_dropout: Warned[Share] = 0.1
    """Dropout rate of what labels are predicted from."""

    tied: ClassVar[bool] = True  # type: ignore[misc]
    input_style: ClassVar[Literal["plain", "bert", "gpt"]] = "gpt"
    labeller_defaults: ClassVar[LabellerDefaults] = DEFAULTS
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}  # those of a GPT: start from one

    @property
    def token_features(self) -> int:
        """Features of every position."""
        return self.width

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        return super().parameters + self.classes * (self.width + 1)

    @property
    def backbone(self) -> Backbone:
        """Return the GPT."""
        backbone = super().backbone
        return replace(backbone, weights=_inside(backbone))


def _inside(backbone: Backbone) -> dict[str, str]:
    """Return the prefixes of a backbone's weights in a model that holds it as its reader."""
    return {part: f"reader.{prefix}" for part, prefix in backbone.weights.items()}


AnyBodyConfig = BERTEncoderConfig | GPTEncoderConfig


class BodyReader(nn.Module):
    """A body with a head that gives the logits of the labels of a text, or of each token.

    Texts are in a packed row or in a padded batch, with the same results.
    """

    def __init__(self, config: AnyBodyConfig):
        super().__init__()
        self.config = config
        self.reader: BERT | GPT = BERT(config.bare) if isinstance(config, BERTEncoderConfig) else GPT(config)
        self.dropout = Dropout(config.head_dropout)
        self.output = nn.Linear(config.width, config.classes)
        init_normal(self.output)

    @property
    def embedding(self) -> nn.Module:
        """Return the token embeddings."""
        return self.reader.embedding

    def forward(
        self, tokens: Int[Tensor, "*token"], layout: Row | Grid, segments: Int[Tensor, "*token"] | None = None
    ) -> Float[Tensor, "*label classes"]:
        """Return the logits of every token, or of every text (a row of fixed shape has its maximal number of them)."""
        read = self.features(tokens, layout, segments)
        return self.output(self.dropout(read if self.config.per_token else self.pool_features(read, layout)))

    def features(
        self, tokens: Int[Tensor, "*token"], layout: Row | Grid, segments: Int[Tensor, "*token"] | None = None
    ) -> Float[Tensor, "*token width"]:
        """Return the features of every token."""
        if isinstance(self.reader, GPT):
            return self.reader(tokens, layout=layout)
        segment_ids = (
            segments if self.reader.config.segments > 1 else None
        )  # RoBERTa has one kind of segments for both texts
        return self.reader(tokens, layout=layout, segments=segment_ids)

    def pool_features(self, features: Float[Tensor, "*token width"], layout: Row | Grid) -> Float[Tensor, "text width"]:
        """Return one vector for each text."""
        if self.config.pool == "class":
            assert isinstance(self.reader, BERT), "only a BERT has a token for the class"
            return self.reader.pool_features(features, layout) if self.reader.config.pooler else first(features, layout)
        return {"last": last, "mean": mean, "max": highest}[self.config.pool](features, layout)
