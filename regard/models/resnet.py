"""ResNet: convolutions with residual connections (He et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.config.ranges import Share, Small, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, read_settings
from regard.models.parts.images import Channels, Convolutional, Convolved, Plane, Side, halvings

GROWTH = {"basic": 1, "bottleneck": 4}  # output features of a block for each feature inside it


@dataclass(frozen=True, kw_only=True)
class ResNetConfig(ModelConfig):
    """Stages of residual blocks, each of which but the first halves the sides, then the mean over the picture."""

    name: Literal["resnet"] = "resnet"
    """Which model this is."""
    classes: Vocabulary = 0
    """Number of classes; filled in from the data. 0: no head, the pooled features are the answer."""
    channels: Channels = 3
    """Numbers of a pixel: 3 of colours, 1 of grey."""
    size: Side = 0
    """Pixels on each side of a picture; filled in from the data."""
    stem: Literal["large", "small"] = "large"
    """First layers: a 7 x 7 convolution and pooling, which quarter the sides, or a 3 x 3 one for small pictures."""
    block: Literal["basic", "bottleneck"] = "basic"
    """Two convolutions of 3 x 3, or one of 3 x 3 between two of 1 x 1, the last four times as wide."""
    depths: tuple[Small, ...] = (2, 2, 2, 2)
    """Blocks of each stage."""
    widths: tuple[Width, ...] = (64, 128, 256, 512)
    """Features inside the blocks of each stage."""
    dropout: Warned[Share] = 0.0
    """Dropout rate before the head."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "resnet18": {"classes": 1000, "size": 224},
        "resnet50": {"classes": 1000, "size": 224, "block": "bottleneck", "depths": (3, 4, 6, 3)},
    }

    def __post_init__(self) -> None:
        if len(self.depths) != len(self.widths) or not self.depths:
            raise ValueError(f"{len(self.depths)} model.depths and {len(self.widths)} model.widths: give one for each")
        check_affordable(self.parameters, "lower widths or depths")

    @property
    def features(self) -> int:
        """Features of a region."""
        return self.widths[-1] * GROWTH[self.block]

    @property
    def plane(self) -> Plane:
        """Rows and columns of the last map."""
        side = halvings(self.size, (2 if self.stem == "large" else 0) + len(self.widths) - 1)
        return side, side

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        kernel = 7 if self.stem == "large" else 3
        total = (kernel**2 * self.channels + 2) * self.widths[0]
        for _, inputs, layers, shortcut in _plan(self):
            outputs = layers[-1][1]
            total += sum((side**2 * before + 2) * after for before, after, side, _ in layers)
            total += (inputs + 2) * outputs * shortcut
        return total + (self.features + 1) * self.classes

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        layers = {"basic": 2, "bottleneck": 3}[self.block] * sum(self.depths) + 2
        return f"A ResNet of {layers} layers, {self.features} features"

    @property
    def backbone(self) -> Backbone:
        """Everything but the head."""
        settings = {name: name for name in ("channels", "size", "stem", "block", "depths", "widths")}
        return Backbone(
            family="resnet",
            settings=settings,
            sizes=read_settings(self, settings),
            weights={"stem": "stem", "stages": "stages"},
            resizable=("size",),
        )


Layer = tuple[int, int, int, int]  # inputs, outputs, side of the kernel, stride


def _plan(config: ResNetConfig) -> list[tuple[int, int, list[Layer], bool]]:
    """Return all blocks: stage, input features, convolutions, and whether the shortcut needs a convolution."""
    blocks, before = [], config.widths[0]
    for stage, (depth, width) in enumerate(zip(config.depths, config.widths, strict=True)):
        for number in range(depth):
            stride = 2 if stage and not number else 1
            after = width * GROWTH[config.block]
            layers: list[Layer] = [(before, width, 3, stride), (width, width, 3, 1)]
            if config.block == "bottleneck":
                layers = [(before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1)]
            blocks.append((stage, before, layers, stride > 1 or before != after))
            before = after
    return blocks


class Block(nn.Module):
    """`relu(x + f(x))`, where f is some convolutions, with x projected if f has other sizes."""

    def __init__(self, inputs: int, layers: Sequence[Layer], *, shortcut: bool):
        super().__init__()
        last = len(layers) - 1
        convolutions = [
            Convolved(before, after, side, stride=stride, activation=F.relu if number < last else None)
            for number, (before, after, side, stride) in enumerate(layers)
        ]
        nn.init.zeros_(convolutions[-1].norm.weight)  # residual branches begin at zero (Goyal et al. 2017)
        self.layers = nn.Sequential(*convolutions)
        stride = max(stride for *_, stride in layers)
        self.shortcut = Convolved(inputs, layers[-1][1], 1, stride=stride) if shortcut else nn.Identity()

    def forward(self, x: Float[Tensor, "batch inputs rows columns"]) -> Float[Tensor, "batch outputs y x"]:
        """Return a map of features."""
        return F.relu(self.shortcut(x) + self.layers(x))


class ResNet(Convolutional):
    """An image classifier of residual blocks."""

    def __init__(self, config: ResNetConfig):
        super().__init__()
        self.config = config
        large = config.stem == "large"
        self.stem = Convolved(
            config.channels, config.widths[0], 7 if large else 3, stride=2 if large else 1, activation=F.relu
        )
        stages: list[list[Block]] = [[] for _ in config.depths]
        for stage, inputs, layers, shortcut in _plan(config):
            stages[stage].append(Block(inputs, layers, shortcut=shortcut))
        self.stages = nn.Sequential(*(nn.Sequential(*blocks) for blocks in stages))
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.features, config.classes) if config.classes else nn.Identity()

    def maps(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch features y x"]:
        """Return the last map of features."""
        x = self.stem(pixels)
        return self.stages(F.max_pool2d(x, 3, stride=2, padding=1) if self.config.stem == "large" else x)
