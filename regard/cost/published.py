"""Published models that Regard does not build: their sizes and operations, from their equations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """The size and the operations of a published model."""

    parameters: int
    forward: int | None = None
    """Operations for one picture, of the model only reading; None where only the size is known."""


@dataclass(frozen=True)
class Convolution:
    """A convolution whose output has sides of length `side`."""

    inputs: int
    outputs: int
    size: int
    side: int
    bias: bool = False

    @property
    def parameters(self) -> int:
        """The parameters of all filters."""
        return self.inputs * self.outputs * self.size**2 + self.bias * self.outputs

    @property
    def operations(self) -> int:
        """The operations, two for each multiply-add."""
        return 2 * self.inputs * self.outputs * self.size**2 * self.side**2


def resnet(blocks: tuple[int, int, int, int], *, factor: int, image: int = 224, classes: int = 1000) -> Published:
    """Return a pre-activation bottleneck ResNet of `factor` times the width (He et al. 2016, Kolesnikov et al. 2020).

    Every bottleneck has three norms of two numbers per feature; the last norm is before the head.
    """
    side, channels, norms = image // 2, 64 * factor, 0
    layers = [Convolution(3, channels, 7, side)]
    side //= 2
    for stage, count in enumerate(blocks):
        middle = 64 * factor * 2**stage
        for number in range(count):
            before = side
            side = side // 2 if stage and not number else side
            if not number:
                layers.append(Convolution(channels, 4 * middle, 1, side))
            layers += [
                Convolution(channels, middle, 1, before),
                Convolution(middle, middle, 3, side),
                Convolution(middle, 4 * middle, 1, side),
            ]
            norms += 2 * (channels + 2 * middle)
            channels = 4 * middle
    totals = _sum_layers([*layers, Convolution(channels, classes, 1, 1, bias=True)])
    return Published(totals.parameters + norms + 2 * channels, totals.forward)


def xlnet(width: int, depth: int, *, vocab: int = 32000) -> Published:
    """Return XLNet (Yang et al. 2019), size only: with a fifth projection, for distances, and two more biases."""
    hidden = 4 * width
    attention = 5 * width**2 + 3 * width + 2 * width
    block = attention + hidden * (width + 1) + width * (hidden + 1) + 4 * width
    return Published(vocab * width + width + depth * block)


def _sum_layers(layers: Iterable[Convolution]) -> Published:
    layers = list(layers)
    return Published(sum(layer.parameters for layer in layers), sum(layer.operations for layer in layers))


PUBLISHED = {
    "bit-r50x1": resnet((3, 4, 6, 3), factor=1),
    "bit-r152x4": resnet((3, 8, 36, 3), factor=4),
    "xlnet-base": xlnet(768, 12),
    "xlnet-large": xlnet(1024, 24),
}
