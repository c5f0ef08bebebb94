"""Image augmentation on the device, a batch at a time: crops, flips, RandAugment, mixup, CutMix, random erasing.

All random numbers are functions of the seed and of a picture's position in the order of training, never of its batch;
pictures are mixed with their neighbours in that order, 2k with 2k + 1. Crop, flip and the geometric operations of
RandAugment are one affine map, resampled once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from regard.config.ranges import Amount, Part, Range
from regard.data.images.seeded_random import Draws, beta_quantiles

GEOMETRY = ("shear_x", "shear_y", "move_x", "move_y", "turn")
COLOURS = ("brightness", "contrast", "colour", "sharpness", "posterise", "solarise", "autocontrast")
OPERATIONS = ("none", *GEOMETRY, *COLOURS)
SHEAR, MOVE, TURN, BLEND, BITS = 0.3, 0.45, math.radians(30), 0.9, 4  # values at full magnitude
GREY = (0.299, 0.587, 0.114)
ASPECT = math.log(4 / 3)  # of a resized crop, at most
FLIPPED = 0.5  # share of the pictures
ERASED = (0.02, 1 / 3)  # share of the area
STRETCH = math.log(10 / 3)  # of an erased box, at most
Picture = Float[Tensor, "batch channels rows columns"]


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """Augmentation of training pictures; none by default."""

    shift: Part = 0.0
    """Random crop with padding: how far a picture moves at most, as a share of its side; 0.125 is 4 of 32 pixels."""
    scale: Annotated[float, Range(most=1, above=0)] = 1.0
    """Random resized crop: the smallest share of the area that is cut out and enlarged; 1: the whole picture."""
    flip: bool = False
    """Mirror every other picture, left to right."""
    operations: Annotated[int, Range(0, 16)] = 0
    """RandAugment: how many operations each picture goes through, drawn from shears, moves, turns and colours."""
    magnitude: Part = 0.3
    """Their strength, from 0 to 1, which is RandAugment's 30."""
    mixup: Amount = 0.0
    """Mixup: alpha of the Beta distribution of shares by which two pictures and their labels are added; 0: none."""
    cutmix: Amount = 0.0
    """CutMix: alpha of the distribution of areas that one picture takes from another; 0: none."""
    mixed: Part = 1.0
    """Share of pictures that are mixed, where mixup or cutmix is on; with both, each takes half."""
    erase: Part = 0.0
    """Random erasing: share of pictures of which a rectangle is blanked out."""

    @property
    def mixes(self) -> bool:
        """True if pictures are mixed."""
        return bool(self.mixed and (self.mixup or self.cutmix))

    @property
    def moves(self) -> bool:
        """True if pixels are moved."""
        turned = bool(self.operations and self.magnitude)
        return bool(self.shift or self.scale < 1 or self.flip or turned)


@dataclass(frozen=True)
class AugmentedBatch:
    """Augmented pictures, and their labels: `share` of the first and the rest of the second."""

    pixels: Picture
    labels: Int[Tensor, "batch"]
    others: Int[Tensor, "batch"]
    share: Float[Tensor, "batch"]


class Augment:
    """Conversion of bytes to normalised pixels, with or without augmentation."""

    def __init__(
        self,
        how: AugmentConfig,
        *,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.how, self.seed = how, seed
        self.mean, self.std = (torch.tensor(values, device=device).reshape(-1, 1, 1) for values in (mean, std))
        self.tables = {
            name: torch.from_numpy(beta_quantiles(alpha)).to(device)
            for name, alpha in (("mixup", how.mixup), ("cutmix", how.cutmix))
            if alpha
        }

    def plain(self, pixels: UInt8[Tensor, "batch channels rows columns"]) -> Picture:
        """Return normalised pixels."""
        return (pixels.float() / 255 - self.mean) / self.std

    def draw_flips(self, places: Int[Tensor, "batch"]) -> Bool[Tensor, "batch"]:
        """Return which pictures at these positions of the training order are mirrored, without other augmentation."""
        assert self.how == AugmentConfig(flip=True), "other variations draw before this one"
        return Draws(self.seed, places).uniform() < FLIPPED

    def __call__(
        self,
        pixels: UInt8[Tensor, "batch channels rows columns"],
        labels: Int[Tensor, "batch"],
        places: Int[Tensor, "batch"],
    ) -> AugmentedBatch:
        """Augment these pictures at these positions of the training order."""
        how, draws = self.how, Draws(self.seed, places)
        whole = torch.ones(len(labels), device=pixels.device)
        if how == AugmentConfig():
            return AugmentedBatch(self.plain(pixels), labels, labels, whole)
        x = pixels.float() / 255
        chosen = [(draws.whole(len(OPERATIONS)), draws.sign()) for _ in range(how.operations)]
        if how.moves:
            x = resample_affine(x, _affine(how, draws, chosen, size=x.shape[-1]))
        for operation, sign in chosen if how.magnitude else ():
            x = apply_colour_operation(x, operation, sign * how.magnitude)
        x = (x - self.mean) / self.std
        others, share = labels, whole
        if how.mixes:
            x, share = self._mix_pictures(x, draws)
            others = swap_neighbours(labels)
        if how.erase:
            x = torch.where(_random_box(x, draws, _erased_sides(draws, how.erase))[0][:, None], 0.0, x)
        return AugmentedBatch(x, labels, others, share)

    def _mix_pictures(self, x: Picture, draws: Draws) -> tuple[Picture, Float[Tensor, "batch"]]:
        """Mix each picture with its neighbour, and return the share of the picture itself."""
        how, near = self.how, swap_neighbours(x)
        none = draws.uniform() >= how.mixed
        cut = draws.uniform() < (0.5 if how.mixup and how.cutmix else float(bool(how.cutmix)))
        share = torch.ones_like(none, dtype=x.dtype)
        pixels = x
        if how.mixup:
            mixup_share = draws.beta(self.tables["mixup"])
            share = torch.where(none | cut, share, mixup_share)
            weight = share[:, None, None, None]
            pixels = weight * x + (1 - weight) * near
        if how.cutmix:
            area = 1 - draws.beta(self.tables["cutmix"])
            side = torch.where(none | ~cut, 0.0, area).sqrt()
            inside, covered = _random_box(x, draws, (side, side))
            pixels = torch.where(inside[:, None], near, pixels)
            share = torch.where(none | ~cut, share, 1 - covered)
        return pixels, share


def swap_neighbours(x: Tensor) -> Tensor:
    """Swap the examples 2k and 2k + 1; the last one of an odd batch stays."""
    even = len(x) // 2 * 2
    swapped = x[:even].unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
    return swapped if even == len(x) else torch.cat([swapped, x[even:]])


def resample_affine(x: Picture, affine: Float[Tensor, "batch 2 3"]) -> Picture:
    """Resample pictures such that the pixel at p is the one that was at A p; edges are mirrored."""
    grid = F.affine_grid(affine, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def _affine(
    how: AugmentConfig, draws: Draws, chosen: list[tuple[Tensor, Tensor]], *, size: int
) -> Float[Tensor, "batch 2 3"]:
    """Return the affine map from new to old coordinates, from -1 to 1."""
    chance = draws.uniform()
    unit, zero = torch.ones_like(chance), torch.zeros_like(chance)
    flip = torch.where(chance < FLIPPED, -unit, unit) if how.flip else unit
    width, height = _crop_sides(how, draws)
    right, down = ((1 - side) * draws.uniform(-1.0, 1.0) for side in (width, height))
    far = round(how.shift * size)  # shifts by whole pixels keep a picture sharp
    right, down = (at + 2 / size * (draws.whole(2 * far + 1) - far) for at in (right, down))
    matrix = _matrix(width * flip, zero, right, zero, height, down)
    for operation, sign in chosen:
        by = sign * how.magnitude
        shear_x, shear_y, move_x, move_y, turn = (
            torch.where(operation == OPERATIONS.index(name), by, 0.0) for name in GEOMETRY
        )
        cos, sin = (turn * TURN).cos(), (turn * TURN).sin()
        matrix = matrix @ _matrix(
            cos, SHEAR * shear_x - sin, 2 * MOVE * move_x, SHEAR * shear_y + sin, cos, 2 * MOVE * move_y
        )
    return matrix[:, :2]


def _crop_sides(how: AugmentConfig, draws: Draws) -> tuple[Tensor, Tensor]:
    """Return width and height of a resized crop, as shares of the sides."""
    area = draws.uniform(how.scale, 1.0)
    bent = (draws.uniform(-ASPECT, ASPECT) / 2).exp() if how.scale < 1 else torch.ones_like(area)
    return (area.sqrt() * bent).clamp(max=1.0), (area.sqrt() / bent).clamp(max=1.0)


def _matrix(*cells: Tensor) -> Float[Tensor, "batch 3 3"]:
    """Return the affine map with these two rows."""
    zero, unit = torch.zeros_like(cells[0]), torch.ones_like(cells[0])
    return torch.stack([*cells, zero, zero, unit], -1).unflatten(-1, (3, 3))


def apply_colour_operation(x: Picture, operation: Int[Tensor, "batch"], by: Float[Tensor, "batch"]) -> Picture:
    """Apply RandAugment's colour operations, each to the pictures that drew it."""
    by, strength = by[:, None, None, None], by.abs()[:, None, None, None]
    grey = _grey(x)
    blends = {
        "brightness": torch.zeros_like(grey),
        "contrast": grey.mean((1, 2, 3), keepdim=True),
        "colour": grey,
        "sharpness": _smooth(x),
    }
    pixels = x
    for name, other in blends.items():
        pixels = torch.where(_is(operation, name), (other + (1 + BLEND * by) * (x - other)).clamp(0, 1), pixels)
    step = torch.exp2((BITS * strength).round())
    level = (x * 255).round()
    pixels = torch.where(_is(operation, "posterise") & (step > 1), (level - level % step) / 255, pixels)
    pixels = torch.where(_is(operation, "solarise") & (x > 1 - strength), 1 - x, pixels)
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    wide = ((x - low) / (high - low).clamp(min=1 / 255)).clamp(0, 1)
    return torch.where(_is(operation, "autocontrast"), x + strength * (wide - x), pixels)


def _is(operation: Tensor, name: str) -> Tensor:
    return (operation == OPERATIONS.index(name))[:, None, None, None]


def _grey(x: Picture) -> Float[Tensor, "batch 1 rows columns"]:
    if x.shape[1] != len(GREY):
        return x.mean(1, keepdim=True)
    return sum(share * x[:, channel : channel + 1] for channel, share in enumerate(GREY))  # type: ignore[return-value]


def _smooth(x: Picture) -> Picture:
    """Average every pixel with its neighbours, its own weight being five times theirs."""
    around = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    return (9 * around + 4 * x) / 13


def _erased_sides(draws: Draws, share: float) -> tuple[Tensor, Tensor]:
    """Return height and width of the erased boxes, as shares of the sides; zero for most pictures."""
    area = torch.where(draws.uniform() < share, draws.uniform(*ERASED), 0.0)
    bent = (draws.uniform(-STRETCH, STRETCH) / 2).exp()
    return area.sqrt() * bent, area.sqrt() / bent


def _random_box(x: Picture, draws: Draws, sides: tuple[Tensor, Tensor]) -> tuple[Tensor, Float[Tensor, "batch"]]:
    """Return a mask of a box at a random position, and the share of the picture that it covers."""
    inside: list[Tensor] = []
    for side, length in zip(sides, x.shape[-2:], strict=True):
        long = (side * length).round()
        first = (draws.uniform() * length).floor() - (long / 2).floor()
        at = torch.arange(length, device=x.device)
        inside.append((at >= first[:, None]) & (at < (first + long)[:, None]))
    box = inside[0][:, :, None] & inside[1][:, None, :]
    return box, box.float().mean((1, 2))
