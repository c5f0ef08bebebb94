"""Captions from the files of a recipe to numbers: pictures in the cache, captions as tokens, rows of like lengths."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from jaxtyping import Int, UInt8

from regard.config.ranges import Batch, Length, Part, Positive, Range, Seed, Some
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data.examples import Splits, order_examples
from regard.data.holdout import count_to_hold_out, hold_out, leave_out_measured
from regard.data.packing import buckets, number, permute
from regard.data.pictures.album import PREPARATION, Album, Shape, read_album, shape_of
from regard.data.pictures.decoding import Fit, Resample
from regard.data.tokenizers import Tokenizer, TokenizerConfig
from regard.data.tokenizers import train as train_tokenizer
from regard.metrics.captions import words
from regard.tasks.vision.captions.files import CAPTION, NAME, CaptionFile, shelve
from regard.tasks.vision.preparing import Size, scales

BLOCK = 16  # rows that are shuffled together and sorted by length, so that captions of a row are alike


@dataclass(frozen=True, kw_only=True)
class CaptionsConfig:
    """Pictures with captions to learn from, and what they are brought to."""

    train: tuple[CaptionFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[CaptionFile, ...] = ()
    """Files to measure on; none: a share of the pictures is held out."""
    held: Some = 0.1
    """Share of the pictures held out when valid names none, chosen by content: equal pictures stay together."""
    plain: bool = True
    """Learn captions as they are compared: in lower case, without punctuation."""
    longest: Length = 40
    """Most tokens of a caption, its end included; longer ones are cut."""
    size: Size | None = None
    """Pixels on each side after decoding; null: the encoder's, or about the median of the short sides, 224 at most."""
    channels: Annotated[int, Range(1, 3)] | None = None
    """3 of colours, 1 of grey; null: the encoder's, or 1 where all pictures are grey."""
    fit: Fit | None = None
    """How a picture becomes a square: its middle is cut out, or it is squeezed; null: the encoder's, or cut out."""
    resample: Resample | None = None
    """How pixels are interpolated; null: as for a model to start from, or bicubic."""
    margin: Annotated[float, Range(1, 4)] | None = None
    """Where the middle is cut out: the short side is first made so many times the size; null: as for a model to start
    from, or the size."""
    mean: tuple[Part, ...] | None = None
    """Mean of each channel, from 0 to 1, taken off every pixel; null: the encoder's, or that of the pictures."""
    std: tuple[Positive, ...] | None = None
    """Deviation of each channel, by which pixels are divided; null: the encoder's, or that of the pictures."""
    batch: Warned[Batch] = 64
    """Captions in a row of training."""
    reject: Free[Part] = 0.01
    """Share of unusable pictures above which nothing is trained."""
    seed: Seed = 0
    """Random seed of the choice of held-out pictures."""

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train needs at least one file of pictures with captions")


@dataclass(frozen=True)
class Captioned:
    """Some pictures of an album with their captions, written and as tokens."""

    album: Album
    numbers: Int[np.ndarray, "pictures"]
    """Which pictures of the album."""
    texts: list[list[str]]
    """The captions of each."""

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, picture: int) -> str:
        """Where a picture is named."""
        return self.album.places[self.numbers[picture]]

    def name(self, picture: int) -> str:
        """What a picture is called there."""
        return self.album.columns[NAME][self.numbers[picture]]

    def pixels(self, pictures: Int[np.ndarray, "some"]) -> UInt8[np.ndarray, "some channels size size"]:
        """The bytes of these, copied out of the cache."""
        return self.album.pixels[self.numbers[pictures]]

    @property
    def marks(self) -> Int[np.ndarray, "pictures"]:
        """Digests of the pixels."""
        return self.album.marks[self.numbers]

    def kept(self, chosen: np.ndarray) -> Captioned:
        """Only pictures that are chosen by a mask."""
        texts = [own for own, one in zip(self.texts, chosen, strict=True) if one]
        return Captioned(self.album, self.numbers[chosen], texts)

    @cached_property
    def fingerprint(self) -> str:
        """What tells these pictures and captions from others."""
        return hashlib.sha256(self.marks.tobytes() + json.dumps(self.texts).encode()).hexdigest()


@dataclass(frozen=True)
class Lines:
    """Every caption of some pictures as tokens, the end included, and which picture it is about."""

    tokens: list[list[int]]
    picture: Int[np.ndarray, "captions"]
    bounds: list[int]
    """Lengths that rows are filled up to, so that there are few shapes."""

    def __len__(self) -> int:
        return len(self.tokens)

    def row(self, row: int, *, batch: int, seed: int) -> Int[np.ndarray, "some"]:
        """The captions of a row of training, alike in length: a pure function of seed and row.

        Places count on across epochs; a block of rows is sorted by length, and its rows are shuffled.
        """
        block, own = divmod(row, BLOCK)
        places = np.arange(block * BLOCK * batch, (block + 1) * BLOCK * batch)
        chosen = order_examples(places, len(self), seed=seed)
        alike = chosen[np.argsort(self.lengths[chosen], kind="stable")]
        [at] = permute(np.array([own]), BLOCK, number(seed, block, 1))
        return alike[at * batch : (at + 1) * batch]

    @cached_property
    def lengths(self) -> Int[np.ndarray, "captions"]:
        """Tokens of each."""
        return np.array([len(each) for each in self.tokens], np.int64)

    def bound(self, chosen: Int[np.ndarray, "some"]) -> int:
        """What captions of a row are filled up to."""
        longest = int(self.lengths[chosen].max())
        return next(each for each in self.bounds if each >= longest)


@dataclass(frozen=True, kw_only=True)
class Prepared(Splits[Captioned, Captioned]):
    """Pictures with captions, their scales, and the tokenizer."""

    tokenizer: Tokenizer
    shape: Shape
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def lines(self, side: Captioned, config: CaptionsConfig) -> Lines:
        """The captions of a side as tokens."""
        texts = [said(text, config.plain) for own in side.texts for text in own]
        end, most = self.tokenizer.role("end"), config.longest - 1
        tokens = [[*ids[:most], end] for ids in self.tokenizer.encode_many(texts, written=True)]
        picture = np.repeat(np.arange(len(side)), [len(own) for own in side.texts])
        return Lines(tokens, picture, buckets(config.longest))


def said(text: str, plain: bool) -> str:
    """A caption as it is learnt."""
    return " ".join(words(text)) if plain else text


def prepare(
    config: CaptionsConfig,
    tokenizer_config: TokenizerConfig,
    *,
    parent_config: Mapping[str, Any] | None = None,
    tokenizer: Tokenizer | None = None,
    size: int | None = None,
) -> Prepared:
    """Read and decode all pictures, choose those held out, and learn a tokenizer from the captions of the others.

    `known` is the config of a model to go on from: the size and scales of its pictures, unless others are named.
    """
    before: Any = (parent_config or {}).get("data") or {}
    given = {name: getattr(config, name) or before.get(name) for name in PREPARATION}
    shelves = [shelve(file) for file in config.train]
    given["size"] = given["size"] or size
    shape = shape_of(shelves, *(given[name] for name in Shape._fields))
    train = read(config.train, shape, config.reject)
    if config.valid:
        valid = read(config.valid, shape, config.reject)
    else:
        train, valid = _held_out(train, config)
    fresh, notes = leave_out_measured(train.marks, valid.marks, train.place)
    train = train.kept(fresh)
    if tokenizer is None:
        texts = [said(text, config.plain) for own in train.texts for text in own]
        normal = [tokenizer_config.normal(text, written=True) for text in texts]
        tokenizer = train_tokenizer(normal, tokenizer_config, characters=sum(map(len, normal)))
    mean, std = scales(train, given["mean"], given["std"])
    sides = {"train": train, "valid": valid}
    report = {
        name: {"pictures": len(side), "captions": sum(map(len, side.texts)), "fingerprint": side.fingerprint}
        for name, side in sides.items()
    }
    captions = quantity(sum(map(len, train.texts)), "caption")
    counts = f"{quantity(len(train), 'picture')} with {captions} to learn from"
    head = f"{counts}, {len(valid):,} to measure on, {tokenizer.vocab:,} tokens"
    more = [] if valid.album is train.album else valid.album.summary
    lines = [head, *train.album.summary, *more, *notes]
    return Prepared(
        train=train,
        valid=valid,
        tokenizer=tokenizer,
        report=report,
        summary=lines,
        fresh=parent_config is None,
        shape=shape,
        mean=mean,
        std=std,
    )


def read(files: Sequence[CaptionFile], shape: Shape, reject: float, *, remedy: str = "raise data.reject") -> Captioned:
    """The pictures of some files with their captions; too many bad ones are an error."""
    found = read_album([shelve(file) for file in files], shape, reject=reject, remedy=remedy)
    return Captioned(found, np.arange(len(found)), found.columns[CAPTION])


def _held_out(side: Captioned, config: CaptionsConfig) -> tuple[Captioned, Captioned]:
    """The pictures to learn from and those held out, chosen by content."""
    keys = np.array([number(config.seed, int(mark)) for mark in side.marks], np.uint64)
    held = hold_out(keys, count_to_hold_out(config.held, len(side)))
    if held.all():
        raise ValueError(f"{side.place(0)}: too few different pictures to hold some out: give more, or data.valid")
    return side.kept(~held), side.kept(held)
