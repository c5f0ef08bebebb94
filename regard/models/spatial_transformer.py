"""Spatial transformers: a small network selects a crop, and another one reads it (Jaderberg et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import attend
from regard.config.ranges import Range, Share, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, read_settings
from regard.models.parts.images import Channels, Convolutional, Convolved, Plane, Side, check, halvings

SPOTS = 4  # rows and columns to which a map is pooled before layers that read all of it
HIDDEN = 32  # features from which an affine map is predicted
HEADS = 4  # places that attention finds in parallel
FLAT = 1e-6  # share of a picture's area below which a crop is treated as a line
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class SpatialTransformerConfig(ModelConfig):
    """Spatial transformers that crop a picture by affine maps, and convolutions that read the crops."""

    name: Literal["spatial-transformer"] = "spatial-transformer"
    """Which model this is."""
    classes: Vocabulary = 0
    """Number of classes; filled in from the data. 0: no head, the pooled features are the answer."""
    channels: Channels = 3
    """Numbers of a pixel: 3 of colours, 1 of grey."""
    size: Side = 0
    """Pixels on each side of a picture; filled in from the data."""
    transformers: Annotated[int, Range(0, 8)] = 1
    """Spatial transformers in parallel, each with a crop of its own; 0: none, the picture is read as it is."""
    crop: Side = 0
    """Pixels on each side of a crop; 0: half of those of the picture."""
    points: Annotated[int, Range(1, 4)] = 1
    """Points on each side that a pixel of a crop is the mean of: several see what lies between where it is coarse."""
    searching: tuple[Width, ...] = (16, 32)
    """Features of each convolution that says where to look; each halves the sides, as pooling did once before, and with
    attention only the first does."""
    search: Literal["spots", "attention"] = "spots"
    """How their last map says where to look: by a layer over 4 x 4 spots of it, or by attention to its places, which
    gives the coordinates of what it finds."""
    widths: tuple[Width, ...] = (32, 64, 64)
    """Features of each convolution that reads; each but the first halves the sides."""
    rounds: Annotated[int, Range(1, 4)] = 1
    """How often each transformer looks: every further time at its own crop, enlarged to the size of the picture, to
    correct it by the same weights (Lin and Lucey 2017)."""
    pace: Annotated[float, Range(most=10, above=0)] = 0.2
    """How fast transformers learn to look elsewhere: what is added to the identity is multiplied by this."""
    hidden: Width = 128
    """Features of the layer below the head."""
    dropout: Warned[Share] = 0.0
    """Dropout rate before the head."""

    def __post_init__(self) -> None:
        if not self.widths or (self.transformers and not self.searching):
            raise ValueError("model.widths and model.searching need a width for one convolution at least")
        if self.size and self.size < 8:
            raise ValueError(f"a picture of {self.size} pixels is too small to look around in: give 8 or more")
        check_affordable(self.parameters, "lower widths, searching or hidden")

    @property
    def features(self) -> int:
        """Features of a region."""
        return self.widths[-1]

    @property
    def side(self) -> int:
        """Return the pixels on each side of the convolutions' input."""
        return (self.crop or max(self.size // 2, 1)) if self.transformers else self.size

    @property
    def inputs(self) -> int:
        """Return the channels of the convolutions' input, in which the crops are stacked."""
        return self.channels * max(self.transformers, 1)

    @property
    def plane(self) -> Plane:
        """Return the rows and columns of the last map."""
        side = halvings(self.side, len(self.widths) - 1)
        return side, side

    @property
    def field(self) -> Plane:
        """Return the rows and columns of the whole picture in regions, as if it were read without a crop."""
        side = halvings(self.size, len(self.widths) - 1)
        return side, side

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        features, places = (self.searching or (0,))[-1], 2 * HEADS * (self.search == "attention")
        search_inputs = HEADS * features + places if places else SPOTS**2 * features
        search = _convolutions(self.channels, self.searching) + (search_inputs + 1) * HIDDEN
        search += (HIDDEN + places + 1) * len(IDENTITY) + HEADS * features * (places > 0)
        read = _convolutions(self.inputs, self.widths) + (SPOTS**2 * self.features + 1) * self.hidden
        return self.transformers * search + read + (self.hidden + 1) * self.classes

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"A network of {len(self.widths)} convolutions behind {self.transformers} spatial transformers"

    @property
    def backbone(self) -> Backbone:
        """Everything but the head."""
        searching = ("transformers", "crop", "points", "searching", "search", "rounds", "pace")
        settings = {name: name for name in ("channels", "size", *searching, "widths", "hidden")}
        return Backbone(
            family="spatial-transformer",
            settings=settings,
            sizes=read_settings(self, settings),
            weights={name: name for name in ("transformers", "layers", "hidden")},
        )


def _convolutions(inputs: int, widths: Sequence[int]) -> int:
    """Return the number of parameters of 3 x 3 convolutions with batch norm."""
    return sum((9 * before + 2) * after for before, after in zip((inputs, *widths), widths, strict=False))


class Localiser(nn.Module):
    """A network that predicts the affine map from pixels of a crop to places of a picture, at first the identity.

    `(x, y)` of the picture is `map (x', y', 1)` of the crop, both from -1 at the left and top to 1.
    """

    identity: Tensor

    def __init__(self, channels: int, widths: Sequence[int], *, pace: float = 1.0, attention: bool = False):
        super().__init__()
        self.pace = pace
        self.register_buffer("identity", torch.tensor(IDENTITY), persistent=False)
        pairs = zip((channels, *widths), widths, strict=False)
        self.layers = nn.Sequential(*(Convolved(before, after, 3, activation=F.relu) for before, after in pairs))
        self.places = Places(widths[-1]) if attention else None
        self.hidden = nn.Linear(HEADS * (widths[-1] + 2) if attention else SPOTS**2 * widths[-1], HIDDEN)
        self.map = nn.Linear(HIDDEN + 2 * HEADS * attention, len(IDENTITY))
        nn.init.zeros_(self.map.weight)
        nn.init.zeros_(self.map.bias)

    def forward(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch 2 3"]:
        """Return the matrix of each picture, in the precision of its places."""
        x = F.avg_pool2d(pixels, 2)
        for number, layer in enumerate(self.layers):
            x = layer(x) if self.places and number else F.avg_pool2d(layer(x), 2, ceil_mode=True)
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(torch.promote_types(x.dtype, torch.float32))  # places need full precision
            if self.places is None:
                features = self._squash(F.adaptive_avg_pool2d(x, SPOTS))
            else:
                content, where = self.places(x)
                features = torch.cat([self._squash(torch.cat([content, where], -1)), where.flatten(1)], 1)
            return (self.identity + self.pace * self.map(features)).unflatten(1, (2, 3))

    def _squash(self, features: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch hidden"]:
        return self.hidden(features.flatten(1)).tanh()  # with a ReLU all units may die


class Places(nn.Module):
    """Attention of learned queries to a map, which gives features and their coordinates."""

    def __init__(self, features: int):
        super().__init__()
        self.query = nn.Parameter(torch.randn(HEADS, 1, features))

    def forward(
        self, maps: Float[Tensor, "batch features rows columns"]
    ) -> tuple[Float[Tensor, "batch head features"], Float[Tensor, "batch head 2"]]:
        """Return the features that each head finds, and their `(x, y)` from -1 to 1, both as means over the map."""
        rows, columns = ((2 * torch.arange(side, device=maps.device) + 1) / side - 1 for side in maps.shape[2:])
        where = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).to(maps).flatten(0, 1)
        keys = maps.flatten(2).transpose(1, 2)[:, None]
        values = torch.cat([keys, where.expand(len(keys), 1, -1, -1)], -1)
        attended = attend(self.query.expand(len(keys), -1, -1, -1), keys, values)
        return attended[:, :, 0, :-2], attended[:, :, 0, -2:]


def sample(
    pixels: Float[Tensor, "batch channels rows columns"], maps: Float[Tensor, "batch 2 3"], side: int
) -> Float[Tensor, "batch channels side side"]:
    """Sample pixels at the places of an affine map, by bilinear interpolation, with zeros outside the picture."""
    with torch.autocast(pixels.device.type, enabled=False):
        pixels = pixels.to(maps.dtype)
        grid = F.affine_grid(maps, [len(pixels), pixels.shape[1], side, side], align_corners=False)
        return F.grid_sample(pixels, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def compose_maps(
    first: Float[Tensor, "*batch 2 3"], second: Float[Tensor, "*batch 2 3"]
) -> Float[Tensor, "*batch 2 3"]:
    """Return the map of a crop of a crop: from places of the second crop to those of the picture."""
    matrix = first[..., :2]
    return torch.cat([matrix @ second[..., :2], matrix @ second[..., 2:] + first[..., 2:]], -1)


def corners(maps: Float[Tensor, "*batch 2 3"]) -> Float[Tensor, "*batch 4 2"]:
    """Return the corners of crops as shares of the sides (x, y): top left, top right, bottom right, bottom left."""
    ends = maps.new_tensor([[-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]])
    return (ends @ maps.transpose(-1, -2) + 1) / 2


def inverse(maps: Float[Tensor, "*batch 2 3"]) -> Float[Tensor, "*batch 2 3"]:
    """Return the inverse maps, from places of the picture to those of a crop; an area of zero is slightly enlarged."""
    (a, b, x), (c, d, y) = (row.unbind(-1) for row in maps.unbind(-2))
    area = a * d - b * c
    area = torch.where(area.abs() < FLAT, torch.full_like(area, FLAT), area)
    a, b, c, d = d / area, -b / area, -c / area, a / area
    return torch.stack([a, b, -a * x - b * y, c, d, -c * x - d * y], -1).unflatten(-1, (2, 3))


class SpatialTransformer(Convolutional):
    """An image classifier that reads the crops of one or more parallel spatial transformers."""

    def __init__(self, config: SpatialTransformerConfig):
        super().__init__()
        self.config = config
        search, channels = config.searching, config.channels
        self.transformers = nn.ModuleList(
            Localiser(channels, search, pace=config.pace, attention=config.search == "attention")
            for _ in range(config.transformers)
        )
        pairs = zip((config.inputs, *config.widths), config.widths, strict=False)
        self.layers = nn.ModuleList(Convolved(before, after, 3, activation=F.relu) for before, after in pairs)
        self.hidden = nn.Linear(SPOTS**2 * config.features, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.hidden, config.classes) if config.classes else nn.Identity()

    def looks(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch transformer 2 3"]:
        """Return the affine map of each transformer."""
        check(self.config, pixels)
        all_maps = []
        for transformer in self.transformers:
            maps = transformer(pixels)
            for _ in range(self.config.rounds - 1):
                maps = compose_maps(maps, transformer(sample(pixels, maps, self.config.size)))
            all_maps.append(maps)
        return torch.stack(all_maps, 1)

    def crops(
        self, pixels: Float[Tensor, "batch channels rows columns"]
    ) -> Float[Tensor, "batch transformer channels side side"]:
        """Return the crop of each transformer."""
        points, all_maps = self.config.points, self.looks(pixels).unbind(1)
        fine = torch.stack([sample(pixels, maps, points * self.config.side) for maps in all_maps], 1)
        return fine if points == 1 else F.avg_pool3d(fine, (1, points, points))

    def maps(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch features y x"]:
        """Return the last map of features of the crops."""
        x = self.crops(pixels).flatten(1, 2) if len(self.transformers) else pixels
        for number, layer in enumerate(self.layers):
            x = layer(F.max_pool2d(x, 2, ceil_mode=True) if number else x)
        return x

    def pool_features(self, maps: Float[Tensor, "batch features y x"]) -> Float[Tensor, "batch out"]:
        """Return the features of the whole map."""
        return F.relu(self.hidden(F.adaptive_avg_pool2d(maps, SPOTS).flatten(1)))

    @property
    def averages(self) -> bool:
        """Return False, as the head reads the positions of the regions, not their mean."""
        return False

    @property
    def field(self) -> Plane:
        """Return the rows and columns of the picture onto which maps are projected."""
        return self.config.field

    @torch.no_grad()
    def project_maps(
        self, maps: Float[Tensor, "batch rows columns"], pixels: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch y x"]:
        """Project maps onto the places of the picture that were read, with the same share for each of several crops."""
        if not len(self.transformers):
            return maps
        projected = [
            sample(maps[:, None], inverse(tensor), self.config.size) for tensor in self.looks(pixels).unbind(1)
        ]
        shares = [tensor / tensor.sum((1, 2, 3), keepdim=True).clamp(min=FLAT) for tensor in projected]
        return F.adaptive_avg_pool2d(torch.stack(shares).sum(0), self.field)[:, 0]
