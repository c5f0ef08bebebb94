"""Captioning models: an encoder reads a picture as regions, and a decoder writes about them (Xu et al. 2015).

The decoder is recurrent, without attention (its state starts from the mean of the regions, or from the encoder's hidden
layers for the whole picture), with soft attention or with hard attention to the regions; or it is a Transformer
decoder, over the regions directly or after encoder blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.cache import DecoderState, KeyValues
from regard.attention.masks import EVERYONE, Grid, padded
from regard.attention.multihead import Heads
from regard.attention.plane import interpolate_positions
from regard.attention.positions import Learned, Positions, scheme
from regard.config.ranges import Length, Share, Small, Vocabulary, Whole, Width, check_affordable, check_divisible
from regard.config.resuming import Warned
from regard.models.efficientnet import EfficientNet, EfficientNetConfig
from regard.models.interface import Backbone, Model, ModelConfig, Traits
from regard.models.parts.blocks import BlockShape, DecoderBlock, Embedding, EncoderBlock, init_xavier
from regard.models.parts.dropout import Dropout
from regard.models.parts.encoder_decoder import EncoderDecoder
from regard.models.parts.images import check
from regard.models.parts.recurrent_decoders import (
    Bahdanau,
    Carried,
    Hard,
    Looks,
    Plain,
    RecurrentWriter,
    WriterShape,
    Writing,
    full_precision,
    table,
)
from regard.models.resnet import ResNet, ResNetConfig
from regard.models.vgg import VGG, VGGConfig
from regard.models.vit import ViT, ViTConfig

PACE = 0.1  # weight of a step in the baseline
ENCODER = "encoder."  # before the names of its weights
PLACES = "encoder_positions.table.weight"
EncoderConfig = ViTConfig | VGGConfig | ResNetConfig | EfficientNetConfig
ENCODERS: dict[type, Any] = {
    ViTConfig: ViT,
    VGGConfig: VGG,
    ResNetConfig: ResNet,
    EfficientNetConfig: EfficientNet,
}
Pixels = Float[Tensor, "batch channels rows columns"]
Regions = Float[Tensor, "batch region features"]


@dataclass(frozen=True, kw_only=True)
class Reading(ModelConfig):
    """The settings shared by all captioners: those of the model that reads the picture."""

    encoder: EncoderConfig = field(default_factory=ViTConfig)
    """The model that reads the picture, chosen by its name; `--from` starts from one."""
    tuned: bool = False
    """Whether the encoder is trained too; otherwise it is frozen, and its features of each picture are cached."""
    vocab: Vocabulary = 0
    """Tokens of the vocabulary; filled in from the tokenizer."""

    share: ClassVar[str] = "all"

    @property
    def backbone(self) -> Backbone:
        """The model that reads the picture."""
        parts = self.encoder.backbone.weights
        return Backbone(
            family="captioner",
            weights={part: f"{ENCODER}{prefix}" for part, prefix in parts.items()},
            inner="encoder",
        )

    @property
    def read(self) -> tuple[int, int]:
        """Return the number of regions of a picture, and of features of a region."""
        rows, columns = self.encoder.plane
        return rows * columns, self.encoder.features

    @property
    def reads(self) -> str:
        """Return a short description of the model that reads the picture."""
        return f"{self.encoder.phrase}, {'tuned' if self.tuned else 'frozen'}"


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(Reading):
    """A recurrent writer over the regions of a picture, with or without attention."""

    name: Literal["captioner"] = "captioner"
    """Which model this is."""
    attention: Literal["none", "soft", "hard"] = "soft"
    """Attention to the regions: none, a weighted mean of all (soft), or one that is sampled (hard)."""
    begins: Literal["mean", "hidden"] = "mean"
    """Initial state of a decoder without attention: from the mean of the regions, or from the hidden layer below the
    head of the encoder, such as the 4096 features of a whole VGG16."""
    use: Literal["likeliest", "mean"] = "likeliest"
    """What hard attention reads when captions are generated: the region of the largest weight, or the weighted mean."""
    softened: Share = 0.75
    """Share of training captions for which hard attention reads the weighted mean."""
    gated: bool = True
    """A gate on the attended features, computed from the state (beta)."""
    cell: Literal["rnn", "gru", "gru_before", "lstm"] = "lstm"
    """Recurrent cell."""
    width: Width = 512
    """Features of the state."""
    embedding: Width = 512
    """Features of a token, and of what tokens are predicted from."""
    decoder: Small = 1
    """Layers of cells."""
    dropout: Warned[Share] = 0.5
    """Dropout rate, applied to embeddings, between layers, and to what tokens are predicted from."""
    context: Length = 128
    """Longest caption, in tokens."""

    def __post_init__(self) -> None:
        check_affordable(self.parameters, "lower width, embedding or the vocabulary")
        if self.begins == "hidden" and self.attention != "none":
            looks = f"{self.attention} attention looks at regions"
            raise ValueError(
                f"model.begins=hidden is one vector, and {looks}: set model.attention=none, or begins=mean"
            )
        if self.begins == "hidden" and self.encoder.size and not self._whole:  # the encoder is known with its size
            need = "an encoder with hidden layers below its head, such as a whole VGG16"
            raise ValueError(
                f"model.begins=hidden needs {need}, and {_lower(self.encoder.phrase)}, has none: set model.begins=mean"
            )

    @property
    def _whole(self) -> int:
        """Return the number of features of the hidden layer below the encoder's head; 0 if there is none."""
        return self.encoder.hidden if isinstance(self.encoder, VGGConfig) else 0

    @property
    def read(self) -> tuple[int, int]:
        """Return the number of regions of a picture, one if it is read as a whole, and of features of a region."""
        return (1, self._whole) if self.begins == "hidden" else super().read

    @property
    def parameters(self) -> int:
        """Return the approximate number of parameters, including frozen ones."""
        cells = 4 * self.width * (self.embedding + 2 * self.decoder * self.width)
        return self.encoder.parameters + self.vocab * self.embedding + cells

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        looks = "without attention" if self.attention == "none" else f"with {self.attention} attention"
        return f"A recurrent captioner ({self.cell}), {self.width} wide, {looks}, over {_lower(self.reads)}"

    @property
    def backbone(self) -> Backbone:
        """The model that reads the picture; soft and hard attention have the same weights."""
        return replace(super().backbone, interchangeable={"attention": ("soft", "hard")})


@dataclass(frozen=True, kw_only=True)
class TransformerCaptionerConfig(Reading):
    """A Transformer's decoder over the regions of a picture."""

    name: Literal["transformer-captioner"] = "transformer-captioner"
    """Which model this is."""
    width: Width = 512
    """Features of every position."""
    heads: Small = 8
    """Attention heads; must divide the width."""
    hidden: Width = 2048
    """Features inside the feed-forward part."""
    reader: Whole = 0
    """Encoder blocks in which regions look at one another before the decoder looks at them; 0: none."""
    decoder: Small = 4
    """Decoder blocks."""
    positions: Literal["none", "sinusoidal", "learned", "rotary", "alibi", "relative"] = "sinusoidal"
    """Positional encoding of tokens; regions have a learned one."""
    activation: Literal["relu", "gelu", "silu"] = "relu"
    """Function inside the feed-forward part."""
    dropout: Warned[Share] = 0.1
    """Dropout rate."""
    context: Length = 128
    """Longest caption, in tokens."""

    def __post_init__(self) -> None:
        check_divisible(self.width, self.heads)
        check_affordable(self.parameters, "lower width, hidden, the blocks or the vocabulary")

    @property
    def parameters(self) -> int:
        """Return the approximate number of parameters, including frozen ones."""
        blocks = self.reader * (4 * self.width + 2 * self.hidden) + self.decoder * (8 * self.width + 2 * self.hidden)
        return self.encoder.parameters + (self.vocab + self.context + blocks) * self.width

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        sizes = f"{self.reader}+{self.decoder} blocks, {self.width} wide"
        return f"A Transformer captioner of {sizes}, over {_lower(self.reads)}"

    @property
    def shape(self) -> BlockShape:
        """Return the settings shared by all blocks."""
        return BlockShape(
            width=self.width,
            heads=Heads(self.heads),
            hidden=self.hidden,
            pre=True,
            activation=self.activation,
            dropout=self.dropout,
        )


class Reader(Model):
    """The base of both captioners: an encoder, frozen unless it is tuned, that reads a picture as regions."""

    config: Any
    encoder: Any

    def equip(self, config: Any) -> int:
        """Build the encoder and return the number of features of its regions."""
        self.config = config
        self.encoder = ENCODERS[type(config.encoder)](config.encoder)
        if not config.tuned:
            self.encoder.requires_grad_(False)
        return self.encoder.width

    def train(self, mode: bool = True) -> Any:
        """Set the training mode of the module, but keep a frozen encoder in evaluation mode."""
        super().train(mode)
        if not self.config.tuned:
            self.encoder.eval()
        return self

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of regions."""
        return self.encoder.grid

    def resize_weights(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of such a captioner, or of its encoder, resized for pictures of this one's size."""
        fit = self.encoder.resize_weights
        inner = {name.removeprefix(ENCODER): weight for name, weight in tensors.items() if name.startswith(ENCODER)}
        if not inner:
            return fit(tensors)
        return {**tensors, **{f"{ENCODER}{name}": weight for name, weight in fit(inner).items()}}

    def regions(self, pixels: Pixels) -> Regions:
        """Return the encoder's regions of normalised pixels."""
        with torch.set_grad_enabled(self.config.tuned and torch.is_grad_enabled()):
            return self.encoder.regions(pixels)


class Captioner(Reader, RecurrentWriter):
    """A recurrent captioner, which writes about the regions of a picture token by token."""

    traits = Traits(compilable=False, transient=("baseline",))
    baseline: Tensor
    """The baseline of hard attention: a moving average of the loss per token, initially 0."""

    def __init__(self, config: CaptionerConfig):
        super().__init__()
        self.equip(config)
        features = config.read[1]
        shape = WriterShape(
            config.cell, config.embedding, config.width, config.decoder, features, dropout=config.dropout
        )
        self.norm = nn.LayerNorm(features)
        self.embedding = table(config.vocab, config.embedding)
        writer = _writer(config, shape)
        self.decoder = nn.ModuleList([writer])
        self.bridge = nn.Linear(features, writer.layers.parts * config.width)
        self.dropout = nn.Dropout(config.dropout)
        if config.attention == "hard":  # not a weight, and unused after training
            self.register_buffer("baseline", torch.zeros(()))

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of regions; one where the picture is read as a whole."""
        return (1, 1) if self.config.begins == "hidden" else super().grid

    def regions(self, pixels: Pixels) -> Regions:
        """Return the encoder's regions of normalised pixels, or its hidden layer as the only region."""
        if self.config.begins == "mean":
            return super().regions(pixels)
        with torch.set_grad_enabled(self.config.tuned and torch.is_grad_enabled()):
            check(self.config.encoder, pixels)
            return self.encoder.pool_features(self.encoder.maps(pixels))[:, None]

    @property
    def expected_loss(self) -> Float[Tensor, ""]:
        """Return the expected loss of a token: the running baseline, or before the first step that of guessing."""
        return torch.where(self.baseline > 0, self.baseline, math.log(self.config.vocab))

    @torch.no_grad()
    def update_expected_loss(self, cost: Float[Tensor, ""], *, veto: Bool[Tensor, ""]) -> None:
        """Update the baseline with the loss per token of a step, unless the step is vetoed."""
        moved = torch.lerp(torch.where(self.baseline > 0, self.baseline, cost), cost.to(self.baseline), PACE)
        self.baseline.copy_(torch.where(veto, self.baseline, moved))

    def forward(
        self, regions: Regions, target: Int[Tensor, "batch target"], grid: Grid
    ) -> tuple[Float[Tensor, "batch target width"], Looks]:
        """Return the features of every target position, for `logits` to predict the next token, and the attention."""
        with full_precision(regions):
            memory, carried, sources = self._read(regions)
            x = self.embedded(target)
            study = self.writer.study if self.training else self._as_in_use
            context, looks = study(x, carried, memory, padded(sources, grid))
            return self.dropout(self.writer.features(x, context)), looks

    @torch.no_grad()
    def start(
        self, regions: Regions, prompt: Int[Tensor, "batch prompt"], *, beams: int = 1, limit: int
    ) -> tuple[Float[Tensor, "batch beam vocab"], Writing]:
        """Read the regions and the beginning of the caption; the regions are stored once for all beams."""
        with full_precision(regions):
            memory, carried, sources = self._read(regions)
            return self.begin(prompt, carried, memory, sources, beams=beams, limit=limit)

    def _as_in_use(self, *arguments: Any) -> tuple[Tensor, Looks]:
        """Read all target tokens at once as in evaluation, without sampling."""
        return self.writer.read(*arguments)[0], Looks()

    def _read(self, regions: Regions) -> tuple[KeyValues | None, Carried, Grid]:
        """Return the regions as the decoder attends to them, its initial state and the layout of the regions."""
        normed = self.norm(regions.float() if regions.dtype in (torch.float16, torch.bfloat16) else regions)
        first = torch.tanh(self.bridge(normed.mean(1))).unflatten(1, (self.writer.layers.parts, -1))[:, None]
        memory = None if isinstance(self.writer, Plain) else self.writer.cross.remember(normed)
        return memory, Carried(first, normed.new_zeros(len(normed), 1, 0)), everywhere(normed)


class TransformerCaptioner(Reader, EncoderDecoder):
    """A captioner with Transformer decoder blocks that attend to all regions of a picture."""

    def __init__(self, config: TransformerCaptionerConfig):
        super().__init__()
        features, shape, width = self.equip(config), config.shape, config.width
        self.norm = nn.LayerNorm(features)
        self.projection = nn.Linear(features, width)
        rows, columns = self.encoder.grid
        self.encoder_positions = Learned(rows * columns, width)
        self.reader = nn.ModuleList(EncoderBlock(shape) for _ in range(config.reader))
        self.reader_norm = nn.LayerNorm(width)
        self.region_dropout = Dropout(config.dropout)
        self.embedding = Embedding(config.vocab, width, dropout=config.dropout)
        places = {"width": width, "heads": config.heads, "context": config.context}
        self.decoder_positions = scheme(config.positions, causal=True, **places)
        self.decoder = nn.ModuleList(DecoderBlock(shape) for _ in range(config.decoder))
        self.decoder_norm = nn.LayerNorm(width)
        for module in (self.projection, *self.reader, *self.decoder):
            module.apply(init_xavier)

    def resize_weights(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the resized weights, with the positions of regions interpolated too."""
        weights = super().resize_weights(tensors)
        return {**weights, PLACES: interpolate_positions(weights[PLACES], self.grid)} if PLACES in weights else weights

    def forward(  # type: ignore[override]
        self, regions: Regions, target: Int[Tensor, "batch target"], grid: Grid
    ) -> tuple[Float[Tensor, "batch target width"], Looks]:
        """Return the features of every target position, from which `logits` predicts the next token."""
        memory = self.read(regions)
        return self.write(memory, target, layouts=(everywhere(memory), grid)), Looks()

    @torch.no_grad()
    def start(  # type: ignore[override]
        self, regions: Regions, prompt: Int[Tensor, "batch prompt"], *, beams: int = 1, limit: int
    ) -> tuple[Float[Tensor, "batch beam vocab"], DecoderState]:
        """Read the regions and the beginning of the caption; the regions are stored once for all beams."""
        memory = self.read(regions)
        return self.begin(memory, everywhere(memory), prompt, beams=beams, limit=limit)

    def read(self, regions: Regions) -> Float[Tensor, "batch region width"]:
        """Return the decoder's memory: the regions with their positions, after the reader's blocks if there are any."""
        whole = self.projection(self.norm(regions.to(self.norm.weight.dtype)))
        added = self.encoder_positions.embed(torch.arange(regions.shape[1], device=regions.device))
        x = self.region_dropout(whole + added.to(whole.dtype))
        for block in self.reader:
            x = block(x, mask=EVERYONE, positions=Positions())
        return self.reader_norm(x)


def everywhere(regions: Float[Tensor, "batch region width"]) -> Grid:
    """Return the layout of regions, of which every picture has the same number."""
    batch, count = regions.shape[:2]
    return Grid(torch.full((batch,), count, device=regions.device), count)


def _writer(config: CaptionerConfig, shape: WriterShape) -> Plain | Bahdanau:
    """Build the decoder with the attention of the config."""
    if config.attention == "none":
        return Plain(shape, fed=0)
    if config.attention == "soft":
        return Bahdanau(shape, gated=config.gated)
    return Hard(shape, gated=config.gated, soft=config.softened, expected=config.use == "mean")


def _lower(phrase: str) -> str:
    return phrase[:1].lower() + phrase[1:]
