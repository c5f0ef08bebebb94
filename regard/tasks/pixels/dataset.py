"""Images for a pixel model: decoded to one size, split into training and validation images, with a fitted palette."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.config.ranges import Batch, Count, Part, Range, Seed, Some
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data.examples import Splits, sample_evenly
from regard.data.images.album import ALLOWED, Shape, read_album, sample_headers, shape_of
from regard.data.images.decoding import Fit
from regard.data.images.labelled_images import LabelledImages, choose_training_images, hold_out_images
from regard.data.images.sources import ImageSource, PictureFile, shelve
from regard.tasks.pixels.tokenizer import PixelTokenizer, fit_palette

PALETTE_IMAGES = 2048  # images that a palette is fitted to
PALETTE_PIXELS = 1 << 17  # pixels of these images that a palette is fitted to
IMAGES_PER_CHUNK = 256  # images tokenized at a time


@dataclass(frozen=True, kw_only=True)
class PixelsConfig:
    """Settings of the images and their tokens."""

    train: tuple[PictureFile, ...]
    """Folders and files to train on; a single one may be written without a list."""
    valid: tuple[PictureFile, ...] = ()
    """Validation pictures; none: a share is held out."""
    validation_share: Some = 0.02
    """Share of the pictures held out when valid names none, chosen by content: equal pictures stay together."""
    max_images: Count | None = None
    """Learn from so many pictures only; null: from all."""
    size: Annotated[int, Range(4, 1024)] | None = None
    """Pixels on each side; null: about the median of the short sides, 224 at most."""
    channels: Annotated[int, Range(1, 3)] | None = None
    """3 of colours, 1 of grey; null: 1 where all pictures are grey."""
    fit: Fit = "crop"
    """How a picture of another size becomes a square of this one: its middle is cut out, or it is squeezed."""
    colours: Annotated[int, Range(2, 4096)] | None = None
    """Colours of a palette, found by k-means, the nearest of which a pixel becomes; null: bytes, as they are."""
    batch_size: Warned[Batch] = 64
    """Pictures in a row of training."""
    reject: Free[Part] = 0.01
    """Share of unusable pictures above which nothing is trained."""
    seed: Seed = 0
    """Random seed of the choice of held-out pictures, and of the palette."""

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train needs at least one folder or file of pictures")
        if self.channels == 2:
            raise ValueError("channels must be 3, of colours, or 1, of grey")


@dataclass(frozen=True, kw_only=True)
class PixelSplits(Splits[LabelledImages, LabelledImages]):
    """Images and the tokenizer of their pixels."""

    tokenizer: PixelTokenizer


def prepare(config: PixelsConfig, parent_config: Mapping[str, Any] | None = None) -> PixelSplits:
    """Read and decode all images, and hold some out for validation.

    `parent_config` is the config of the parent model; the size of its images and its palette are taken over.
    """
    parent_data: Any = (parent_config or {}).get("data") or {}
    shelves = [shelve(file, labelled=False) for file in config.train]
    sizes = {name: getattr(config, name) or parent_data.get(name) for name in ("size", "channels")}
    shape = shape_of(shelves, sizes["size"], sizes["channels"], config.fit)
    train = _load_images(shelves, shape, config.reject)
    if config.valid:
        valid = _load_images([shelve(file, part="test", labelled=False) for file in config.valid], shape, config.reject)
    else:
        train, valid = hold_out_images(train, config.validation_share, config.seed)
    train, shared_notes = choose_training_images(train, valid, config.max_images, seed=config.seed)
    palette = read_palette(parent_data)
    tokenizer = PixelTokenizer(shape.size, shape.channels, palette)
    if config.colours is not None and palette is None:
        tokenizer = PixelTokenizer(shape.size, shape.channels, _fit_palette(train, config))
    report = {"train": train.report(config.train), "valid": valid.report(config.valid or config.train)}
    images = quantity(len(train), f"{'grey' if shape.channels == 1 else 'colour'} picture")
    summary = [
        f"{images} of {shape.size} x {shape.size} to learn from, {len(valid):,} to measure on",
        f"a picture is {tokenizer.length:,} tokens, each of them {tokenizer.phrase}",
        *train.album.summary,
        *shared_notes,
    ]
    return PixelSplits(train=train, valid=valid, tokenizer=tokenizer, report=report, summary=summary)


def read(
    files: Sequence[PictureFile], tokenizer: PixelTokenizer, fit: Fit | None, *, part: Any, reject: float = 0.0
) -> LabelledImages:
    """Read images to evaluate on; without `fit`, those of another size or depth are an error."""
    shelves = [shelve(file, part=part, labelled=False) for file in files]
    for shelf in shelves if fit is None else ():
        for header in sample_headers(shelf, PALETTE_IMAGES):
            check_image_size(shelf.name, (header.width, header.height), grey=header.grey, tokenizer=tokenizer)
    shape = Shape(tokenizer.size, tokenizer.channels, fit or "crop")
    return _load_images(shelves, shape, reject, remedy=ALLOWED)


def check_image_size(
    name: str, sides: tuple[int, int], *, grey: bool, tokenizer: PixelTokenizer, remedy: str = ", or -s fit=crop"
) -> None:
    """Raise an error for an image of another size or depth than the model's."""
    size, model_kind = tokenizer.size, "grey" if tokenizer.channels == 1 else "colour"
    image_kind = "grey" if grey else "colour"
    if sides != (size, size) or image_kind != model_kind:
        raise ValueError(
            f"{name}: a {image_kind} picture of {sides[0]} x {sides[1]}, and the model knows {model_kind} ones of "
            f"{size} x {size}: give one like that{remedy}"
        )


def tokenize_images(images: LabelledImages, tokenizer: PixelTokenizer) -> Iterator[Int[Tensor, "batch place"]]:
    """Yield the tokens of all images, batch by batch."""
    for first in range(0, len(images), IMAGES_PER_CHUNK):
        pixels = images.pixels(np.arange(first, min(first + IMAGES_PER_CHUNK, len(images))))
        yield tokenizer.encode(torch.from_numpy(pixels))


def read_palette(data: Mapping[str, Any]) -> Tensor | None:
    """Return the palette of a checkpoint, written as hexadecimal colours."""
    hex_colours = data.get("palette")
    if hex_colours is None:
        return None
    try:
        colours = torch.tensor([list(bytes.fromhex(colour)) for colour in hex_colours], dtype=torch.uint8)
    except (TypeError, ValueError):
        raise ValueError("data.palette must be a list of colours such as ff8000") from None
    if colours.dim() != 2:
        raise ValueError("data.palette must be a list of colours such as ff8000")
    return colours


def format_palette(palette: Tensor) -> list[str]:
    """Return a palette as hexadecimal colours."""
    return [bytes(colour).hex() for colour in palette.tolist()]


def _fit_palette(train: LabelledImages, config: PixelsConfig) -> Tensor:
    """Fit a palette to the training images."""
    sample = torch.from_numpy(train.pixels(np.array(sample_evenly(range(len(train)), PALETTE_IMAGES))))
    pixels = sample.permute(0, 2, 3, 1).flatten(0, 2)
    assert config.colours is not None
    return fit_palette(
        pixels[torch.tensor(sample_evenly(range(len(pixels)), PALETTE_PIXELS))], config.colours, seed=config.seed
    )


def _load_images(
    shelves: Sequence[ImageSource], shape: Shape, reject: float, *, remedy: str = "raise data.reject"
) -> LabelledImages:
    """Load the images of these shelves, all with label 0; too many unusable images are an error."""
    album = read_album(shelves, shape, reject=reject, remedy=remedy)
    return LabelledImages(album, np.arange(len(album)), np.zeros(len(album), np.int64))
