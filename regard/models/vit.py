"""ViT: a Transformer encoder over the patches of a picture (Dosovitskiy et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import EVERYONE
from regard.attention.multihead import Heads, Merge
from regard.attention.plane import RotaryPlane, interpolate_positions, sinusoidal_plane
from regard.attention.positions import Learned, Positions, Table
from regard.config.ranges import Positive, Range, Share, Small, Vocabulary, Width, check_affordable, check_divisible
from regard.config.resuming import Warned
from regard.models.interface import Backbone, Model, ModelConfig, read_settings
from regard.models.parts.blocks import DEVIATION, BlockShape, EncoderBlock, init_xavier, to_autocast_dtype
from regard.models.parts.dropout import Dropout
from regard.models.parts.images import Channels, Plane, Side, check

TABLE = "positions.table.weight"


def _vit(width: int, depth: int, heads: int, patch: int) -> dict[str, Any]:
    """Return the settings of a ViT of the paper, or of Touvron et al. 2021, for ImageNet."""
    sizes = {"width": width, "heads": heads, "hidden": 4 * width, "depth": depth, "patch": patch}
    return {"classes": 1000, "size": 224, **sizes}


@dataclass(frozen=True, kw_only=True)
class ViTConfig(ModelConfig):
    """Encoder blocks over the patches of a picture."""

    name: Literal["vit"] = "vit"
    """Which model this is."""
    classes: Vocabulary = 0
    """Number of classes; filled in from the data. 0: no head, the pooled features are the answer."""
    channels: Channels = 3
    """Numbers of a pixel: 3 of colours, 1 of grey."""
    size: Side = 0
    """Pixels on each side of a picture; filled in from the data."""
    patch: Annotated[int, Range(1, 1024)] = 16
    """Pixels on each side of a patch; must divide the size."""
    width: Width = 384
    """Features of every patch."""
    heads: Small = 6
    """Attention heads; must divide the width."""
    merge: Merge = "concat"
    """How heads become one vector: side by side before the output projection (concat), or added up (add)."""
    hidden: Width = 1536
    """Features inside the feed-forward part."""
    depth: Small = 12
    """Blocks on top of one another."""
    pooling: Literal["class", "mean", "attention"] = "class"
    """Pooling into one vector per picture: a class token, the mean of the patches, or attention by a learned query."""
    pooler: bool = False
    """A layer with tanh between what stands for the picture and the head."""
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    """Positional encoding of patches: a learned table, or functions of row and column."""
    eps: Positive = 1e-6
    """What a norm adds to the variance."""
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    """Function inside the feed-forward part."""
    dropout: Warned[Share] = 0.0
    """Dropout rate."""
    attention_dropout: Warned[Share] = 0.0
    """Dropout rate of attention weights; above 0 the fastest kernels cannot be used."""
    stochastic_depth: Warned[Share] = 0.0
    """Share of pictures for which a sub-layer of the last block is left out in training; of those before it fewer."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "vit-ti16": _vit(192, 12, 3, 16),
        "vit-s16": _vit(384, 12, 6, 16),
        "vit-b16": _vit(768, 12, 12, 16),
        "vit-b32": _vit(768, 12, 12, 32),
        "vit-l16": _vit(1024, 24, 16, 16),
        "vit-l32": _vit(1024, 24, 16, 32),
        "vit-h14": _vit(1280, 32, 16, 14),
    }

    def __post_init__(self) -> None:
        if self.size:  # before that, heads may still be chosen for the width
            check_divisible(self.width, self.heads)
        if self.size % self.patch:
            remedy = f"set model.patch to a divisor of {self.size}, or data.size to a multiple of {self.patch}"
            raise ValueError(f"a picture of {self.size} pixels is no row of patches of {self.patch}: {remedy}")
        if self.positions == "sinusoidal" and self.width % 4:
            raise ValueError(f"2-D sinusoidal positions need a width that 4 divides, not {self.width}")
        if self.size and self.positions == "rotary" and self.width // self.heads % 4:
            depth = self.width // self.heads
            raise ValueError(f"2-D rotary positions turn features by fours, not {depth} per head: choose other heads")
        check_affordable(self.parameters, "lower width, hidden or depth")

    @property
    def features(self) -> int:
        """The number of features of a patch."""
        return self.width

    @property
    def plane(self) -> Plane:
        """Rows and columns of patches."""
        return self.size // self.patch, self.size // self.patch

    @property
    def before(self) -> int:
        """Return the number of tokens before the patches."""
        return int(self.pooling == "class")

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        width, hidden = self.width, self.hidden
        output = width if self.merge == "concat" else width // self.heads
        attention, mlp = (3 * width + output) * width + 4 * width, 2 * width * hidden + hidden + width
        patches = (self.channels * self.patch**2 + 1) * width
        places = (self.before + self.plane[0] * self.plane[1]) * width * (self.positions == "learned")
        pool = {"class": width, "mean": 0, "attention": width + attention + mlp + 2 * width}[self.pooling]
        heads = self.pooler * width * (width + 1) + self.classes * (width + 1)
        return patches + places + pool + self.depth * (attention + mlp + 4 * width) + 2 * width + heads

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"A ViT of {self.depth} blocks, {self.width} wide, {self.heads} heads, patches of {self.patch}"

    @property
    def backbone(self) -> Backbone:
        """Everything but the head."""
        names = ("channels", "size", "patch", "width", "heads", "hidden", "depth", "positions", "eps", "activation")
        settings = {name: name for name in (*names, "merge")}
        return Backbone(
            family="vit",
            settings=settings,
            sizes=read_settings(self, settings),
            weights={name: name for name in ("patches", "token", "positions", "blocks", "norm", "pool", "pooler")},
            resizable=("size",),
        )

    @property
    def shape(self) -> BlockShape:
        """Return the settings shared by all blocks."""
        return BlockShape(
            width=self.width,
            heads=Heads(self.heads, merge=self.merge),
            hidden=self.hidden,
            pre=True,
            activation=self.activation,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            eps=self.eps,
        )


class Patches(nn.Linear):
    """The embedding of patches: a convolution as wide as its stride, as one matrix product."""

    def __init__(self, channels: int, patch: int, width: int):
        super().__init__(channels * patch**2, width)
        self.patch = patch

    def forward(self, input: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch patch features"]:
        """Return the vectors of patches row by row; the weights are ordered by channel, row and column."""
        cut = input.unflatten(3, (-1, self.patch)).unflatten(2, (-1, self.patch))  # batch channel row y column x
        return super().forward(cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2))


class Pool(nn.Module):
    """Pooling by attention of a learned query to all tokens, and a feed-forward network (Zhai et al. 2022)."""

    def __init__(self, shape: BlockShape):
        super().__init__()
        self.query = nn.Parameter(torch.randn(shape.width) * DEVIATION)
        self.attention = shape.attention()
        self.norm = shape.normal()
        self.mlp = shape.feed_forward()

    def forward(self, tokens: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch width"]:
        """Return one vector for each picture."""
        summary = self.attention(self.query.to(tokens.dtype).expand(len(tokens), 1, -1), tokens)[:, 0]
        return summary + self.mlp(self.norm(summary))


class ViT(Model):
    """An image classifier of Transformer blocks over patches."""

    token: nn.Parameter | None
    pool: Pool | None
    pooler: nn.Linear | None

    def __init__(self, config: ViTConfig):
        super().__init__()
        assert config.size > 0, "the size of pictures is known before a model is made"
        self.config = config
        shape, width = config.shape, config.width
        self.patches = Patches(config.channels, config.patch, width)
        self.token = nn.Parameter(torch.randn(width) * DEVIATION) if config.pooling == "class" else None
        self.positions = _positions(config)
        self.dropout = Dropout(config.dropout)
        skipped = [config.stochastic_depth * n / max(config.depth - 1, 1) for n in range(config.depth)]
        self.blocks = nn.ModuleList(EncoderBlock(replace(shape, stochastic_depth=rate)) for rate in skipped)
        self.norm = shape.normal()
        self.pool = Pool(shape) if config.pooling == "attention" else None
        self.pooler = nn.Linear(width, width) if config.pooler else None
        self.head = nn.Linear(width, config.classes) if config.classes else nn.Identity()
        self.apply(init_xavier)  # as in the paper's code: with smaller weights a narrow ViT starts slowly

    @property
    def grid(self) -> Plane:
        """Rows and columns of regions."""
        return self.config.plane

    @property
    def width(self) -> int:
        """Features of a region."""
        return self.config.width

    def forward(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes, for normalised pixels."""
        return self.head(self.pool_features(self._last(self._through(self._embedded(pixels), self.blocks[:-1]))))

    def features(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch token width"]:
        """Return the normalised features of the class token, if there is one, and of the patches row by row."""
        return self.norm(self._through(self._embedded(pixels), self.blocks))

    @property
    def averages(self) -> bool:
        """True if the head reads the mean of the regions."""
        return self.config.pooling == "mean" and self.pooler is None

    def early(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch token width"]:
        """Return the last features that all contribute: those before the last block with a class token, else all."""
        if self.token is None:
            return self.features(pixels)
        return self._through(self._embedded(pixels), self.blocks[:-1])

    def late(self, tokens: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes from the features of `early`."""
        return self.head(self.pool_features(tokens if self.token is None else self._last(tokens)))

    def _embedded(self, pixels: Tensor) -> Tensor:
        """Return the patches with their positions, after the class token if there is one."""
        check(self.config, pixels)
        x = self.patches(pixels)
        if self.token is not None:
            x = torch.cat([self.token.to(x.dtype).expand(len(x), 1, -1), x], 1)
        places = torch.arange(x.shape[1], device=x.device)
        added = self.positions.embed(places)
        x = self.dropout(x if added is None else x + added.to(x.dtype))
        return to_autocast_dtype(x)

    def _through(self, x: Tensor, blocks: Iterable[nn.Module]) -> Tensor:
        for block in blocks:
            x = block(x, mask=EVERYONE, positions=self.positions)
        return x

    def _last(self, x: Tensor) -> Tensor:
        """Run the last block and the norm; with a class token the other tokens are not computed, as nothing reads them.

        They are computed if the attention is watched.
        """
        for block in self.blocks[-1:]:
            watched = cast(EncoderBlock, block).attention.weights.is_watched
            first = None if self.token is None or watched else self.config.before
            x = block(x, mask=EVERYONE, positions=self.positions, first=first)
        return self.norm(x)

    def pool_features(self, features: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch width"]:
        """Return one vector for each picture."""
        if self.pool is not None:
            whole = self.pool(features)
        else:
            whole = features[:, 0] if self.token is not None else features.mean(1)
        return whole if self.pooler is None else self.pooler(whole).tanh()

    def regions(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch region width"]:
        """Return the normalised features of the patches, row by row."""
        return self.features(pixels)[:, self.config.before :]

    def resize_weights(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of such a model for another size of pictures, with positions interpolated to this size."""
        table = tensors.get(TABLE)
        if table is None or self.config.positions != "learned":
            return dict(tensors)
        return {**tensors, TABLE: interpolate_positions(table, self.grid, before=self.config.before)}


def _positions(config: ViTConfig) -> Positions:
    """Build the positional encoding of a config."""
    plane, before = config.plane, config.before
    if config.positions == "learned":
        return Learned(before + plane[0] * plane[1], config.width)
    if config.positions == "sinusoidal":
        return Table(nn.functional.pad(sinusoidal_plane(plane, config.width), (0, 0, before, 0)))
    if config.positions == "rotary":
        return RotaryPlane(plane, config.width // config.heads, before=before)
    return Positions()
