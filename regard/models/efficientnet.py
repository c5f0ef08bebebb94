"""EfficientNet-Lite: inverted residuals, scaled in width and depth together (Tan and Le 2019).

As in TensorFlow's models: without squeeze-and-excitation, with ReLU6, and padded so that a stride of 2 halves a side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.config.ranges import Positive, Share, Vocabulary, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, read_settings
from regard.models.parts.images import Activation, Channels, Convolutional, Convolved, Plane, Side, halvings

STEM, HEAD = 32, 1280  # features of the first and the last convolution, in all sizes
STAGES = (  # expansion, features, blocks, stride, side of the kernel
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
EPS = 1e-3
Inverted = tuple[int, int, int, int, int]  # inputs, inside, outputs, stride, side of the kernel


def _lite(wide: float, deep: float, size: int, dropout: float) -> dict[str, Any]:
    return {"classes": 1000, "size": size, "width_factor": wide, "depth_factor": deep, "dropout": dropout}


@dataclass(frozen=True, kw_only=True)
class EfficientNetConfig(ModelConfig):
    """Inverted residual blocks with depthwise convolutions, then the mean over the picture."""

    name: Literal["efficientnet"] = "efficientnet"
    """Which model this is."""
    classes: Vocabulary = 0
    """Number of classes; filled in from the data. 0: no head, the pooled features are the answer."""
    channels: Channels = 3
    """Numbers of a pixel: 3 of colours, 1 of grey."""
    size: Side = 0
    """Pixels on each side of a picture; filled in from the data."""
    width_factor: Positive = 1.0
    """Features of every stage, as a multiple of Lite0's."""
    depth_factor: Positive = 1.0
    """Blocks of every stage but the first and the last, as a multiple of Lite0's."""
    dropout: Warned[Share] = 0.2
    """Dropout rate before the head."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "efficientnet-lite0": _lite(1.0, 1.0, 224, 0.2),
        "efficientnet-lite1": _lite(1.0, 1.1, 240, 0.2),
        "efficientnet-lite2": _lite(1.1, 1.2, 260, 0.3),
        "efficientnet-lite3": _lite(1.2, 1.4, 280, 0.3),
        "efficientnet-lite4": _lite(1.4, 1.8, 300, 0.3),
    }

    def __post_init__(self) -> None:
        if max(self.width_factor, self.depth_factor) > 100:
            raise ValueError("model.width_factor and model.depth_factor must be at most 100")
        check_affordable(self.parameters, "lower width_factor or depth_factor")

    @property
    def features(self) -> int:
        """Features of a region."""
        return HEAD

    @property
    def plane(self) -> Plane:
        """Rows and columns of the last map."""
        side = halvings(self.size, 5)
        return side, side

    @property
    def stages(self) -> list[list[Inverted]]:
        """The blocks of every stage."""
        all_stages, before = [], STEM
        for number, (growth, features, blocks, stride, side) in enumerate(STAGES):
            outer = number in (0, len(STAGES) - 1)
            after, stage = _round_features(features * self.width_factor), []
            for first in [True, *[False] * ((blocks if outer else math.ceil(blocks * self.depth_factor)) - 1)]:
                stage.append((before, before * growth, after, stride if first else 1, side))
                before = after
            all_stages.append(stage)
        return all_stages

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        total = (9 * self.channels + 2) * STEM
        for inputs, inside, outputs, _, side in (block for stage in self.stages for block in stage):
            total += (inputs + 2) * inside * (inputs != inside) + (side**2 + 2) * inside + (inside + 2) * outputs
        return total + (self.stages[-1][-1][2] + 2) * HEAD + (HEAD + 1) * self.classes

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"An EfficientNet-Lite of {sum(map(len, self.stages))} blocks, {HEAD} features"

    @property
    def backbone(self) -> Backbone:
        """Everything but the head."""
        settings = {name: name for name in ("channels", "size", "width_factor", "depth_factor")}
        return Backbone(
            family="efficientnet",
            settings=settings,
            sizes=read_settings(self, settings),
            weights={name: name for name in ("stem", "stages", "last")},
            resizable=("size",),
        )


def _round_features(features: float) -> int:
    """Round to a multiple of 8 that is at most a tenth below."""
    near = max(8, int(features + 4) // 8 * 8)
    return near + 8 if near < 0.9 * features else near


class Halving(Convolved):
    """A convolution padded as in TensorFlow: with a stride, more on the right and at the bottom."""

    def __init__(
        self, inputs: int, outputs: int, side: int, *, stride: int, groups: int = 1, activation: Activation | None
    ):
        super().__init__(inputs, outputs, side, stride=stride, groups=groups, eps=EPS, activation=activation)
        self.side, self.stride = side, stride
        self.convolution.padding = (0, 0) if stride > 1 else self.convolution.padding

    def forward(self, x: Float[Tensor, "batch inputs rows columns"]) -> Float[Tensor, "batch outputs y x"]:
        """Return a normalised map of features."""
        if self.stride == 1:
            return super().forward(x)
        rows, columns = (self._lacking(side) for side in x.shape[2:])
        return super().forward(F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)))

    def _lacking(self, side: int) -> int:
        return max((-(-side // self.stride) - 1) * self.stride + self.side - side, 0)


class InvertedBlock(nn.Module):
    """An inverted residual: widen, depthwise convolution, narrow; added to the input if the sizes are the same."""

    def __init__(self, shape: Inverted):
        super().__init__()
        inputs, inside, outputs, stride, side = shape
        self.adds = stride == 1 and inputs == outputs
        widen = [Convolved(inputs, inside, 1, eps=EPS, activation=F.relu6)] if inputs != inside else []
        look = Halving(inside, inside, side, stride=stride, groups=inside, activation=F.relu6)
        self.layers = nn.Sequential(*widen, look, Convolved(inside, outputs, 1, eps=EPS))

    def forward(self, x: Float[Tensor, "batch inputs rows columns"]) -> Float[Tensor, "batch outputs y x"]:
        """Return a map of features."""
        return x + self.layers(x) if self.adds else self.layers(x)


class EfficientNet(Convolutional):
    """An image classifier of inverted residual blocks."""

    def __init__(self, config: EfficientNetConfig):
        super().__init__()
        self.config = config
        self.stem = Halving(config.channels, STEM, 3, stride=2, activation=F.relu6)
        self.stages = nn.Sequential(
            *(nn.Sequential(*(InvertedBlock(block) for block in stage)) for stage in config.stages)
        )
        self.last = Convolved(config.stages[-1][-1][2], HEAD, 1, eps=EPS, activation=F.relu6)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(HEAD, config.classes) if config.classes else nn.Identity()

    def maps(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch features y x"]:
        """Return the last map of features."""
        return self.last(self.stages(self.stem(pixels)))
