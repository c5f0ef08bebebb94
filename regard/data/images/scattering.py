"""Scattered pictures: turned, scaled and laid somewhere on a larger canvas, among scraps of others.

A scene is a function of a seed and of its place in an order, on any device and in any batch: which pictures it is made
of, which of them are torn to scraps, and where everything lies. What overlaps keeps the brighter shade.
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

CHOICE, LAYING = 0x5CA77E4ED0D16175, 0xC1077E4ED5CE4E5A  # seeds apart: which pictures are drawn, and where they lie
TRIES = 16  # layouts that are tried of pictures that should lie beside one another
INK = 0.75  # share of a picture's side that should not be covered; MNIST's digits have blank edges
EDGE = 8  # scraps are torn from all but an eighth of a picture at each edge
SUMS = 1000  # labels that sums may have
COLOURS = 3  # red, green, blue


@dataclass(frozen=True, kw_only=True)
class ScatterConfig:
    """Scenes that are made of pictures while a model learns."""

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
        """Pictures that a scene may take something of, beside the one it is named after."""
        return self.count - 1 + self.scraps[1]

    def channels(self, picture_channels: int) -> int:
        """Numbers of a pixel of a scene, made of pictures that have so many."""
        return COLOURS if self.colours else picture_channels

    def check(self, size: int, channels: int) -> None:
        """Stop where pictures of this size do not fit into a scene, or have colours already."""
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
    """Numbers of all pictures that scenes are made of: their own, those beside it, and those that scraps are of."""
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
    """The scenes at these places of an order, made of these pictures."""
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
    """The colours of numbered pictures, in turn."""
    colours = torch.arange(COLOURS, device=numbers.device)
    return (numbers[..., None] % COLOURS == colours).float()


def _layout(how: ScatterConfig, draws: Draws, size: int) -> list[Float[Tensor, "scene 2 3"]]:
    """For each whole picture the map from the scene's places to its own, both from -1 to 1."""
    turns = [draws.uniform(-how.turn, how.turn) * (math.pi / 180) for _ in range(how.count)]
    halves = [draws.uniform(*how.scale) * (size / how.size) for _ in range(how.count)]  # of sides: the scene's has 1
    maps = []
    for turn, half, (x, y) in zip(turns, halves, _places(draws, halves, apart=not how.colours), strict=True):
        cos, sin = turn.cos() / half, turn.sin() / half
        maps.append(torch.stack([cos, sin, -cos * x - sin * y, -sin, cos, sin * x - cos * y], -1).unflatten(-1, (2, 3)))
    return maps


def _places(
    draws: Draws, halves: Sequence[Float[Tensor, "scene"]], *, apart: bool = True
) -> list[tuple[Tensor, Tensor]]:
    """Middles of pictures inside the scene; `apart`, the first draw in which they lie so, else the farthest."""
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
    """A canvas with squares torn from pictures, somewhere on it."""
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
    """The labels that so many pictures together may have; what is no whole number cannot be added up."""
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
