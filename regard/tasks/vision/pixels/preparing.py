"""Pictures to learn pixels from: read, brought to one size, some held out, their colours put in a palette."""

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
from regard.data.examples import Splits
from regard.data.pictures.album import ALLOWED, Shape, first_looks, read_album, shape_of
from regard.data.pictures.decoding import Fit
from regard.data.pictures.shelves import PictureFile, Shelf, shelve
from regard.tasks.vision.pixels.tokens import Alphabet, fitted
from regard.tasks.vision.preparing import Side, choose_training_pictures, held_out
from regard.training.task import sample_evenly

SAMPLED = 2048  # pictures that a palette is fitted to
POINTS = 1 << 17  # pixels of them
CHUNK = 256  # pictures made tokens at a time


@dataclass(frozen=True, kw_only=True)
class PixelsConfig:
    """Pictures to learn from, and what a token of them is."""

    train: tuple[PictureFile, ...]
    """Folders and files to train on; a single one may be written without a list."""
    valid: tuple[PictureFile, ...] = ()
    """Validation pictures; none: a share is held out."""
    held: Some = 0.02
    """Share of the pictures held out when valid names none, chosen by content: equal pictures stay together."""
    most: Count | None = None
    """Learn from so many pictures only; null: from all."""
    size: Annotated[int, Range(4, 1024)] | None = None
    """Pixels on each side; null: about the median of the short sides, 224 at most."""
    channels: Annotated[int, Range(1, 3)] | None = None
    """3 of colours, 1 of grey; null: 1 where all pictures are grey."""
    fit: Fit = "crop"
    """How a picture of another size becomes a square of this one: its middle is cut out, or it is squeezed."""
    colours: Annotated[int, Range(2, 4096)] | None = None
    """Colours of a palette, found by k-means, the nearest of which a pixel becomes; null: bytes, as they are."""
    batch: Warned[Batch] = 64
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
class Prepared(Splits[Side, Side]):
    """Pictures, and what a token of them is."""

    alphabet: Alphabet


def prepare(config: PixelsConfig, known: Mapping[str, Any] | None = None) -> Prepared:
    """Read and decode all pictures, and choose those that are held out.

    `known` is the config of a model to go on from: the size of its pictures and its palette.
    """
    before: Any = (known or {}).get("data") or {}
    shelves = [shelve(file, labelled=False) for file in config.train]
    asked = {name: getattr(config, name) or before.get(name) for name in ("size", "channels")}
    shape = shape_of(shelves, asked["size"], asked["channels"], config.fit)
    train = _side(shelves, shape, config.reject)
    if config.valid:
        valid = _side([shelve(file, part="test", labelled=False) for file in config.valid], shape, config.reject)
    else:
        train, valid = held_out(train, config.held, config.seed)
    train, shared = choose_training_pictures(train, valid, config.most, seed=config.seed)
    palette = read_palette(before)
    alphabet = Alphabet(shape.size, shape.channels, palette)
    if config.colours is not None and palette is None:
        alphabet = Alphabet(shape.size, shape.channels, _palette(train, config))
    report = {"train": train.report(config.train), "valid": valid.report(config.valid or config.train)}
    pictures = quantity(len(train), f"{'grey' if shape.channels == 1 else 'colour'} picture")
    summary = [
        f"{pictures} of {shape.size} x {shape.size} to learn from, {len(valid):,} to measure on",
        f"a picture is {alphabet.places:,} tokens, each of them {alphabet.phrase}",
        *train.album.summary,
        *shared,
    ]
    return Prepared(train=train, valid=valid, alphabet=alphabet, report=report, summary=summary)


def read(files: Sequence[PictureFile], alphabet: Alphabet, fit: Fit | None, *, part: Any, reject: float = 0.0) -> Side:
    """Pictures to measure on, as they are; of another size or depth only where `fit` says how they become alike."""
    shelves = [shelve(file, part=part, labelled=False) for file in files]
    for shelf in shelves if fit is None else ():
        for look in first_looks(shelf, SAMPLED):
            alike(shelf.name, (look.width, look.height), grey=look.grey, alphabet=alphabet)
    shape = Shape(alphabet.size, alphabet.channels, fit or "crop")
    return _side(shelves, shape, reject, remedy=ALLOWED)


def alike(name: str, sides: tuple[int, int], *, grey: bool, alphabet: Alphabet, fits: str = ", or -s fit=crop") -> None:
    """Stop at a picture of another size or depth than those that a model knows."""
    size, kind = alphabet.size, "grey" if alphabet.channels == 1 else "colour"
    own = "grey" if grey else "colour"
    if sides != (size, size) or own != kind:
        raise ValueError(
            f"{name}: a {own} picture of {sides[0]} x {sides[1]}, and the model knows {kind} ones of {size} x {size}: "
            f"give one like that{fits}"
        )


def as_tokens(side: Side, alphabet: Alphabet) -> Iterator[Int[Tensor, "batch place"]]:
    """All pictures as tokens, some at a time."""
    for first in range(0, len(side), CHUNK):
        pixels = side.pixels(np.arange(first, min(first + CHUNK, len(side))))
        yield alphabet.tokens(torch.from_numpy(pixels))


def read_palette(data: Mapping[str, Any]) -> Tensor | None:
    """The palette that a checkpoint has, as hexadecimal numbers of bytes."""
    told = data.get("palette")
    if told is None:
        return None
    try:
        colours = torch.tensor([list(bytes.fromhex(each)) for each in told], dtype=torch.uint8)
    except (TypeError, ValueError):
        raise ValueError("data.palette must be a list of colours such as ff8000") from None
    if colours.dim() != 2:
        raise ValueError("data.palette must be a list of colours such as ff8000")
    return colours


def written_palette(palette: Tensor) -> list[str]:
    """The same for a file."""
    return [bytes(colour).hex() for colour in palette.tolist()]


def _palette(train: Side, config: PixelsConfig) -> Tensor:
    """Colours that stand for those of the training pictures."""
    some = torch.from_numpy(train.pixels(np.array(sample_evenly(range(len(train)), SAMPLED))))
    points = some.permute(0, 2, 3, 1).flatten(0, 2)
    assert config.colours is not None
    return fitted(points[torch.tensor(sample_evenly(range(len(points)), POINTS))], config.colours, seed=config.seed)


def _side(shelves: Sequence[Shelf], shape: Shape, reject: float, *, remedy: str = "raise data.reject") -> Side:
    """The pictures of these shelves, all of one class; too many bad ones are an error."""
    found = read_album(shelves, shape, reject=reject, remedy=remedy)
    return Side(found, np.arange(len(found)), np.zeros(len(found), np.int64))
