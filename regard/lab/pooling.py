"""Global average pooling, and the class activation maps (CAM) that rest on it (Lin et al. 2014, Zhou et al. 2016)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.lab.demonstration import Demonstration, LabelledMatrix, Measurement

SIDE, OBJECT = 12, 4  # pixels of a picture and of the bright square in it
CHANNELS, CLASSES = 8, 3
CORNER, MOVED = (1, 1), (7, 6)  # where the square stands


def make_picture(corner: tuple[int, int]) -> Float[Tensor, "1 1 height width"]:
    """Return a dark picture with a textured square."""
    picture = torch.zeros(1, 1, SIDE, SIDE, dtype=torch.float64)
    rows, columns = torch.meshgrid(torch.arange(OBJECT), torch.arange(OBJECT), indexing="ij")
    top, left = corner
    picture[0, 0, top : top + OBJECT, left : left + OBJECT] = 1.0 + ((rows + columns) % 2)
    return picture


class PooledClassifier(nn.Module):
    """A convolution with two linear heads, one on pooled features (as in CAM), one on all features."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, CHANNELS, 3, padding="same", bias=False)
        self.head = nn.Linear(CHANNELS, CLASSES)
        self.flat_head = nn.Linear(CHANNELS * SIDE * SIDE, CLASSES)

    def features(self, picture: Float[Tensor, "1 1 height width"]) -> Float[Tensor, "channel height width"]:
        """Return the feature maps."""
        return F.relu(self.convolution(picture))[0]

    def activation_map(self, picture: Float[Tensor, "1 1 height width"], label: int) -> Float[Tensor, "height width"]:
        """Return the class activation map: the feature maps weighted by the head's weights for the class."""
        return torch.einsum("c,chw->hw", self.head.weight[label], self.features(picture))

    def average(self, picture: Float[Tensor, "1 1 height width"]) -> Float[Tensor, "classes"]:
        """Return the logits with global average pooling."""
        return self.head(self.features(picture).mean((1, 2)))

    def maximum(self, picture: Float[Tensor, "1 1 height width"]) -> Float[Tensor, "classes"]:
        """Return the logits with global max pooling."""
        return self.head(self.features(picture).amax((1, 2)))

    def flat(self, picture: Float[Tensor, "1 1 height width"]) -> Float[Tensor, "classes"]:
        """Return the logits of a linear layer on the flattened feature maps, without pooling."""
        return self.flat_head(self.features(picture).flatten())


@torch.no_grad()
def compare_pooling(*, seed: int = 0) -> Demonstration:
    """Compare logits with the means of their activation maps, and logits before and after the object moves."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PooledClassifier().double()
    picture, moved = make_picture(CORNER), make_picture(MOVED)
    maps = torch.stack([model.activation_map(picture, label) for label in range(CLASSES)])
    means = maps.mean((1, 2)) + model.head.bias
    label = int(maps.mean((1, 2)).argmax())
    classes = [f"class {number}" for number in range(1, CLASSES + 1)]
    rows = [model.average(picture), means, model.maximum(picture)]
    table = LabelledMatrix(
        "Logits",
        ["global average pooling", "mean of the CAM, plus bias", "global max pooling"],
        classes,
        [row.tolist() for row in rows],
        digits=4,
    )
    ticks = [""] * SIDE
    matrices = [
        LabelledMatrix(title, ticks, ticks, values.tolist())
        for title, values in (
            ("The picture", picture[0, 0]),
            (f"CAM of class {label + 1}", maps[label]),
            ("The object moved", moved[0, 0]),
            (f"CAM of class {label + 1}", model.activation_map(moved, label)),
        )
    ]
    differences = [float((row - means).abs().max()) for row in (rows[2], rows[0])]
    changes = [float((way(moved) - way(picture)).abs().max()) for way in (model.flat, model.average)]
    measurements = [
        Measurement(
            "difference of the logits from the means of their CAM",
            "global max pooling",
            differences[0],
            "global average pooling",
            differences[1],
        ),
        Measurement(
            "change of the logits when the object moves",
            "not pooled",
            changes[0],
            "global average pooling",
            changes[1],
        ),
    ]
    return Demonstration("Global average pooling", measurements, matrices=matrices, tables=[table])
