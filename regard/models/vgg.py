"""VGG: stacked 3 x 3 convolutions (Simonyan and Zisserman 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.config.ranges import Range, Share, Small, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, read_settings
from regard.models.parts.images import Channels, Convolutional, Plane, Side

SPOTS = 7  # rows and columns of the map that goes to the hidden layers


@dataclass(frozen=True, kw_only=True)
class VGGConfig(ModelConfig):
    """Stages of convolutions, each of which but the first halves the sides, then hidden layers."""

    name: Literal["vgg"] = "vgg"
    """Which model this is."""
    classes: Vocabulary = 0
    """Number of classes; filled in from the data. 0: no head, the pooled features are the answer."""
    channels: Channels = 3
    """Numbers of a pixel: 3 of colours, 1 of grey."""
    size: Side = 0
    """Pixels on each side of a picture; filled in from the data."""
    depths: tuple[Small, ...] = (2, 2, 3, 3, 3)
    """Convolutions of each stage."""
    widths: tuple[Width, ...] = (64, 128, 256, 512, 512)
    """Features of each stage."""
    hidden: Annotated[int, Range(0, 2**18)] = 4096
    """Features of each of the two layers below the head; 0: none, the mean of the last map goes to the head."""
    dropout: Warned[Share] = 0.5
    """Dropout rate of the hidden layers, or before the head."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {"vgg16": {"classes": 1000, "size": 224}}

    def __post_init__(self) -> None:
        if len(self.depths) != len(self.widths) or not self.depths:
            raise ValueError(f"{len(self.depths)} model.depths and {len(self.widths)} model.widths: give one for each")
        if self.size and self.size < 2 ** len(self.widths):
            least = 2 ** len(self.widths)
            raise ValueError(
                f"a picture of {self.size} pixels is halved {len(self.widths)} times: give {least} or more"
            )
        check_affordable(self.parameters, "lower widths, depths or hidden")

    @property
    def features(self) -> int:
        """Features of a region."""
        return self.widths[-1]

    @property
    def plane(self) -> Plane:
        """Return the rows and columns of the last map, before the last pooling."""
        side = self.size // 2 ** (len(self.widths) - 1)
        return side, side

    @property
    def convolutions(self) -> list[list[tuple[int, int]]]:
        """Return the inputs and outputs of every convolution, stage by stage."""
        before = (self.channels, *self.widths)
        return [
            [(before[n] if first else width, width) for first in [True, *[False] * (depth - 1)]]
            for n, (depth, width) in enumerate(zip(self.depths, self.widths, strict=True))
        ]

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        body = sum((9 * inputs + 1) * outputs for stage in self.convolutions for inputs, outputs in stage)
        hidden = (SPOTS**2 * self.features + 1 + self.hidden + 1) * self.hidden
        return body + hidden + ((self.hidden or self.features) + 1) * self.classes

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        count = sum(self.depths)
        return f"A VGG of {count} convolution{'s' if count > 1 else ''}, {self.features} features"

    @property
    def backbone(self) -> Backbone:
        """Return the backbone: all but the classification head."""
        settings = {name: name for name in ("channels", "size", "depths", "widths")}
        return Backbone(
            family="vgg",
            settings=settings,
            sizes=read_settings(self, settings),
            weights={"stages": "stages", **({"hidden": "hidden"} if self.hidden else {})},
            resizable=("size",),
        )


class VGG(Convolutional):
    """An image classifier of 3 x 3 convolutions; its regions are those before the last pooling."""

    def __init__(self, config: VGGConfig):
        super().__init__()
        self.config = config
        self.stages = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(inputs, outputs, 3, padding=1) for inputs, outputs in stage)
            for stage in config.convolutions
        )
        spots, hidden = SPOTS**2 * config.features, config.hidden
        self.hidden = nn.ModuleList([nn.Linear(spots, hidden), nn.Linear(hidden, hidden)] if hidden else [])
        self.dropout = nn.Dropout(config.dropout)
        width = hidden or config.features
        self.head = nn.Linear(width, config.classes) if config.classes else nn.Identity()
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
                _init_he(module)

    def maps(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch features y x"]:
        """Return the last map of features, before the last pooling."""
        x = pixels
        for number, stage in enumerate(self.stages):
            x = F.max_pool2d(x, 2) if number else x
            for convolution in stage:  # type: ignore[attr-defined]
                x = F.relu(convolution(x))
        return x

    @property
    def averages(self) -> bool:
        """True if the head reads the mean of the regions."""
        return not len(self.hidden)

    def pool_features(self, maps: Float[Tensor, "batch features y x"]) -> Float[Tensor, "batch out"]:
        """Return the output of the last hidden layer, or the mean over the map if there is none."""
        if not len(self.hidden):
            return super().pool_features(maps)
        x = F.adaptive_avg_pool2d(F.max_pool2d(maps, 2), SPOTS).flatten(1)
        first, second = self.hidden
        return F.relu(second(self.dropout(F.relu(first(x)))))


def _init_he(module: nn.Conv2d | nn.Linear) -> None:
    """Initialise with weights that keep the variance through ReLU layers (He et al. 2015), and zero biases."""
    nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    assert module.bias is not None
    nn.init.zeros_(module.bias)
