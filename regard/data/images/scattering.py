"""Scattered scenes: pictures rotated, scaled and placed on a larger canvas, among scraps of other pictures.

A scene is a function of a seed and of its position in an order, on any device and in any batch: its pictures, the ones
torn to scraps, and the layout. Where pictures overlap, the brighter shade wins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from regard.config.ranges import Range, Seed
from regard.data.images.seeded_random import Draws

CHOICE, LAYING = 0x5CA77E4ED0D16175, 0xC1077E4ED5CE4E5A  # separate seeds for choosing and for placing pictures
TRIES = 16  # layouts tried for pictures that should not overlap
INK = 0.75  # central share of a picture's side that should not be covered; MNIST's digits have blank edges
EDGE = 8  # scraps are taken from a picture without an eighth at each edge
SUMS = 1000  # maximum number of labels of sums
COLOURS = 3  # red, green, blue


@dataclass(frozen=True, kw_only=True)
class ScatterConfig:
    """Scenes rendered from pictures during training."""

    size: Annotated[int, Range(8, 1024)] = 60
    """Pixels on each side of a scene."""
    count: Annotated[int, Range(1, 4)] = 1
    """Whole pictures in a scene, beside one another; the label of several is the sum of theirs."""
    colours: bool = False
    """Whether each whole picture has a colour of its own, red, green or blue, as scraps have in turn; pictures of
    other colours may lie on one another."""
    turn: Annotated[float, Range(0, 180)] = 45.0
    """Degrees by which a picture is turned at most, either way."""
    scale: tuple[Annotated[float, Range(0.1, 4)], Annotated[float, Range(0.1, 4)]] = (0.7, 1.2)
    """How much smaller or larger it becomes, from and to."""
    scraps: tuple[Annotated[int, Range(0, 64)], Annotated[int, Range(0, 64)]] = (6, 16)
    """How many scraps of other pictures lie about, from and to."""
    scrap: Annotated[int, Range(1, 256)] = 8
    """Pixels on each side of a scrap."""
    seed: Seed = 0
    """Random seed of the scenes that are measured on; those of training have that of the run."""

    def __post_init__(self) -> None:
        for name in ("scale", "scraps"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} goes from {low} to {high}: give the smaller number first")
        if self.scrap > self.size:
            raise ValueError(f"a scrap of {self.scrap} pixels is larger than a scene of {self.size}: give fewer")
        if self.colours and self.count > COLOURS:
            raise ValueError(
                f"count is {self.count}, and there are {COLOURS} colours: give fewer pictures, or no colours"
            )

    @property
    def others(self) -> int:
        """Return the number of other pictures that a scene may use."""
        return self.count - 1 + self.scraps[1]

    def channels(self, picture_channels: int) -> int:
        """Return the channels of a scene made of pictures with this many channels."""
        return COLOURS if self.colours else picture_channels

    def check(self, size: int, channels: int) -> None:
        """Raise ValueError if pictures of this size do not fit into a scene, or are in colour already."""
        if self.colours and channels != 1:
            raise ValueError("data.scatter.colours gives colours to grey pictures: give data.channels=1 as well")
        largest = math.ceil(size * self.scale[1])
        if largest > self.size:
            raise ValueError(
                f"data.scatter.size is {self.size}, and pictures of {size} become up to {largest} pixels: "
                f"give data.scatter.size={largest} or more, or a smaller data.scatter.scale"
            )
        if self.scraps[1] and self.scrap > size - 2 * (size // EDGE):
            most = size - 2 * (size // EDGE)
            raise ValueError(
                f"data.scatter.scrap is {self.scrap}, and pictures of {size} have {most} pixels to tear it from: "
                f"give {most} or fewer"
            )


def draw_companions(
    how: ScatterConfig, numbers: Int[Tensor, "scene"], places: Int[Tensor, "scene"], pictures: int, *, seed: int
) -> Int[Tensor, "scene picture"]:
    """Return the numbers of all pictures of each scene: its own, the whole ones beside it, and those of its scraps."""
    draws = Draws(seed ^ CHOICE, places)
    further = [(numbers + 1 + draws.whole(max(pictures - 1, 1))) % pictures for _ in range(how.others)]
    return torch.stack([numbers, *further], 1)


def scenes(
    how: ScatterConfig,
    pictures: UInt8[Tensor, "scene picture channels size size"],
    places: Int[Tensor, "scene"],
    *,
    seed: int,
) -> UInt8[Tensor, "scene shades side side"]:
    """Render the scenes at these positions of an order from these pictures."""
    draws = Draws(seed ^ LAYING, places)
    canvas = _scraps(how, pictures[:, how.count :], draws)
    layout = _layout(how, draws, pictures.shape[-1])
    colours = _colours(torch.arange(how.count, device=pictures.device))[:, :, None, None]
    for number, (picture, maps) in enumerate(zip(pictures.unbind(1), layout, strict=False)):
        grid = F.affine_grid(maps, [*canvas.shape], align_corners=False)
        laid = F.grid_sample(picture.float(), grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        canvas = torch.maximum(canvas, laid * colours[number] if how.colours else laid)
    return canvas.round().clamp(0, 255).to(torch.uint8)


def _colours(numbers: Int[Tensor, "*some"]) -> Float[Tensor, "*some colour"]:
    """Return the colours of numbered pictures, in turn."""
    colours = torch.arange(COLOURS, device=numbers.device)
    return (numbers[..., None] % COLOURS == colours).float()


def _layout(how: ScatterConfig, draws: Draws, size: int) -> list[Float[Tensor, "scene 2 3"]]:
    """Return for each whole picture the map from coordinates of the scene to its own, both from -1 to 1."""
    turns = [draws.uniform(-how.turn, how.turn) * (math.pi / 180) for _ in range(how.count)]
    halves = [draws.uniform(*how.scale) * (size / how.size) for _ in range(how.count)]  # of sides: the scene's is 1
    maps = []
    for turn, half, (x, y) in zip(turns, halves, _places(draws, halves, apart=not how.colours), strict=True):
        cos, sin = turn.cos() / half, turn.sin() / half
        maps.append(torch.stack([cos, sin, -cos * x - sin * y, -sin, cos, sin * x - cos * y], -1).unflatten(-1, (2, 3)))
    return maps


def _places(
    draws: Draws, halves: Sequence[Float[Tensor, "scene"]], *, apart: bool = True
) -> list[tuple[Tensor, Tensor]]:
    """Return the centres of pictures inside the scene; `apart` takes the first layout without overlap, or the best."""
    layouts = [
        [((1 - half) * draws.uniform(-1.0, 1.0), (1 - half) * draws.uniform(-1.0, 1.0)) for half in halves]
        for _ in range(TRIES if apart and len(halves) > 1 else 1)
    ]
    if len(layouts) == 1:
        return layouts[0]
    worth = []
    for turn, places in enumerate(layouts):
        gaps = [
            torch.maximum((x - a).abs(), (y - b).abs()) - INK * (half + other)
            for ((x, y), half), ((a, b), other) in combinations(zip(places, halves, strict=True), 2)
        ]
        gap = torch.stack(gaps).amin(0)
        worth.append(torch.where(gap >= 0, float(TRIES - turn), gap))
    best = torch.stack(worth).argmax(0, keepdim=True)
    chosen = [
        [torch.stack([places[number][axis] for places in layouts]).gather(0, best)[0] for axis in (0, 1)]
        for number in range(len(halves))
    ]
    return [(x, y) for x, y in chosen]


def _scraps(
    how: ScatterConfig, pictures: UInt8[Tensor, "scene scrap channels size size"], draws: Draws
) -> Float[Tensor, "scene shades side side"]:
    """Return a canvas with square scraps of pictures at random positions."""
    scenes, scraps, picture_channels, size, _ = pictures.shape
    channels = how.channels(picture_channels)
    canvas = torch.zeros(scenes, channels, how.size**2, device=pictures.device)
    few, most = how.scraps
    count = few + draws.whole(most - few + 1)
    if not scraps:
        return canvas.unflatten(2, (how.size, how.size))
    edge, side = size // EDGE, how.scrap
    places = [[draws.whole(size - 2 * edge - side + 1) + edge for _ in range(2)] for _ in range(scraps)]
    goals = [[draws.whole(how.size - side + 1) for _ in range(2)] for _ in range(scraps)]
    inside = torch.arange(side, device=pictures.device)

    def cells(corners: list[list[Tensor]], wide: int) -> Int[Tensor, "scene scrap 1 cell"]:
        rows, columns = (torch.stack([corner[axis] for corner in corners], 1)[:, :, None] + inside for axis in (0, 1))
        return (rows[:, :, :, None] * wide + columns[:, :, None, :]).flatten(2)[:, :, None]

    numbers = torch.arange(scraps, device=pictures.device)
    torn = pictures.flatten(3).gather(3, cells(places, size).expand(-1, -1, picture_channels, -1)).float()
    torn = torn * (numbers < count[:, None])[:, :, None, None]
    torn = torn * _colours(numbers)[:, :, None] if how.colours else torn
    goal = cells(goals, how.size).expand(-1, -1, channels, -1)
    flat = [part.transpose(1, 2).flatten(2) for part in (goal, torn)]
    return canvas.scatter_reduce(2, flat[0], flat[1], "amax").unflatten(2, (how.size, how.size))


def label_sums(classes: Sequence[str], count: int) -> list[str]:
    """Return the possible sums of `count` labels; a label that is not a whole number is an error."""
    if odd := [label for label in classes if not label.isdecimal()]:
        raise ValueError(
            f"data.scatter.count is {count}, whose labels are added up, and {odd[0]!r} is no whole number: "
            "give pictures labelled by numbers, or data.scatter.count=1"
        )
    totals = {0}
    for _ in range(count):
        totals = {total + int(label) for total in totals for label in classes}
        if len(totals) > SUMS:
            raise ValueError(f"data.scatter.count is {count}, with more than {SUMS:,} sums of labels: give fewer")
    return [str(total) for total in sorted(totals)]
