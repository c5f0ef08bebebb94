"""Captions from the files of a recipe to numbers: images in the cache, captions as tokens, rows of similar lengths."""

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
from regard.data.images.album import PREPARATION, Album, Shape, read_album, shape_of
from regard.data.images.decoding import Fit, Resample
from regard.data.images.image_dataset import Size
from regard.data.images.labelled_images import channel_statistics
from regard.data.packing import buckets, number, permute
from regard.data.tokenizers import Tokenizer, TokenizerConfig
from regard.data.tokenizers import train as train_tokenizer
from regard.metrics.captions import words
from regard.tasks.captions.files import CAPTION, NAME, CaptionFile, shelve

ROWS_PER_BLOCK = 16  # rows that are shuffled together and sorted by length, so that captions of a row are alike


@dataclass(frozen=True, kw_only=True)
class CaptionsConfig:
    """Pictures with captions to learn from, and what they are brought to."""

    train: tuple[CaptionFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[CaptionFile, ...] = ()
    """Files to evaluate on; null: a share of the pictures is held out."""
    validation_share: Some = 0.1
    """Share of the pictures held out when valid names none, chosen by content: equal pictures stay together."""
    plain: bool = True
    """Train on captions as they are scored: in lower case, without punctuation."""
    max_length: Length = 40
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
    batch_size: Warned[Batch] = 64
    """Captions in a row of training."""
    reject: Free[Part] = 0.01
    """Share of unusable pictures above which nothing is trained."""
    seed: Seed = 0
    """Random seed of the choice of held-out pictures."""

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train needs at least one file of pictures with captions")


@dataclass(frozen=True)
class CaptionedImages:
    """Some images of an album with their captions."""

    album: Album
    numbers: Int[np.ndarray, "images"]
    """Which pictures of the album."""
    texts: list[list[str]]
    """The captions of each."""

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, image: int) -> str:
        """Return where an image is named, as messages say it."""
        return self.album.places[self.numbers[image]]

    def name(self, image: int) -> str:
        """Return the name of an image in its file."""
        return self.album.columns[NAME][self.numbers[image]]

    def pixels(self, images: Int[np.ndarray, "some"]) -> UInt8[np.ndarray, "some channels size size"]:
        """Return copies of the bytes of these images."""
        return self.album.pixels[self.numbers[images]]

    @property
    def marks(self) -> Int[np.ndarray, "images"]:
        """Digests of the pixels, one for each image."""
        return self.album.marks[self.numbers]

    def select(self, mask: np.ndarray) -> CaptionedImages:
        """Return the images that a mask chooses."""
        texts = [captions for captions, is_chosen in zip(self.texts, mask, strict=True) if is_chosen]
        return CaptionedImages(self.album, self.numbers[mask], texts)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the digests of the images and their captions."""
        return hashlib.sha256(self.marks.tobytes() + json.dumps(self.texts).encode()).hexdigest()


@dataclass(frozen=True)
class TokenizedCaptions:
    """Every caption of some images as tokens, the end included, and the image that it is about."""

    tokens: list[list[int]]
    image_numbers: Int[np.ndarray, "captions"]
    padded_lengths: list[int]
    """Lengths that rows are filled up to, so that there are few shapes."""

    def __len__(self) -> int:
        return len(self.tokens)

    def training_row(self, row: int, *, batch: int, seed: int) -> Int[np.ndarray, "some"]:
        """Return the captions of a row of training, alike in length: a pure function of seed and row.

        Places count on across epochs; a block of rows is sorted by length, and its rows are shuffled.
        """
        block, row_in_block = divmod(row, ROWS_PER_BLOCK)
        places = np.arange(block * ROWS_PER_BLOCK * batch, (block + 1) * ROWS_PER_BLOCK * batch)
        captions = order_examples(places, len(self), seed=seed)
        by_length = captions[np.argsort(self.lengths[captions], kind="stable")]
        [shuffled_row] = permute(np.array([row_in_block]), ROWS_PER_BLOCK, number(seed, block, 1))
        return by_length[shuffled_row * batch : (shuffled_row + 1) * batch]

    @cached_property
    def lengths(self) -> Int[np.ndarray, "captions"]:
        """Tokens of each caption."""
        return np.array([len(token_ids) for token_ids in self.tokens], np.int64)

    def padded_length(self, captions: Int[np.ndarray, "some"]) -> int:
        """Return the length to which captions of a row are padded."""
        longest = int(self.lengths[captions].max())
        return next(length for length in self.padded_lengths if length >= longest)


@dataclass(frozen=True, kw_only=True)
class CaptionSplits(Splits[CaptionedImages, CaptionedImages]):
    """Images with captions, the statistics of their channels, and the tokenizer."""

    tokenizer: Tokenizer
    shape: Shape
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def tokenize_captions(self, images: CaptionedImages, config: CaptionsConfig) -> TokenizedCaptions:
        """Return the captions of these images as tokens."""
        texts = [normalise_caption(text, config.plain) for captions in images.texts for text in captions]
        end, max_tokens = self.tokenizer.role("end"), config.max_length - 1
        tokens = [[*ids[:max_tokens], end] for ids in self.tokenizer.encode_many(texts, written=True)]
        image_numbers = np.repeat(np.arange(len(images)), [len(captions) for captions in images.texts])
        return TokenizedCaptions(tokens, image_numbers, buckets(config.max_length))


def normalise_caption(text: str, plain: bool) -> str:
    """Return a caption as it is learnt: if `plain`, in lower case without punctuation."""
    return " ".join(words(text)) if plain else text


def prepare(
    config: CaptionsConfig,
    tokenizer_config: TokenizerConfig,
    *,
    parent_config: Mapping[str, Any] | None = None,
    tokenizer: Tokenizer | None = None,
    size: int | None = None,
) -> CaptionSplits:
    """Read and decode all images, choose those held out, and learn a tokenizer from the captions of the others.

    `parent_config` is the config of a model to start from: the size and statistics of its images, unless others are
    named.
    """
    parent_data: Any = (parent_config or {}).get("data") or {}
    preparation = {name: getattr(config, name) or parent_data.get(name) for name in PREPARATION}
    shelves = [shelve(file) for file in config.train]
    preparation["size"] = preparation["size"] or size
    shape = shape_of(shelves, *(preparation[name] for name in Shape._fields))
    train = read(config.train, shape, config.reject)
    if config.valid:
        valid = read(config.valid, shape, config.reject)
    else:
        train, valid = _hold_out_images(train, config)
    is_unseen, notes = leave_out_measured(train.marks, valid.marks, train.place)
    train = train.select(is_unseen)
    if tokenizer is None:
        texts = [normalise_caption(text, config.plain) for captions in train.texts for text in captions]
        normalised = [tokenizer_config.normal(text, written=True) for text in texts]
        tokenizer = train_tokenizer(normalised, tokenizer_config, characters=sum(map(len, normalised)))
    mean, std = channel_statistics(train, preparation["mean"], preparation["std"])
    splits = {"train": train, "valid": valid}
    report = {
        name: {"pictures": len(images), "captions": sum(map(len, images.texts)), "fingerprint": images.fingerprint}
        for name, images in splits.items()
    }
    caption_count = quantity(sum(map(len, train.texts)), "caption")
    counts = f"{quantity(len(train), 'picture')} with {caption_count} to learn from"
    head = f"{counts}, {len(valid):,} to measure on, {tokenizer.vocab:,} tokens"
    valid_summary = [] if valid.album is train.album else valid.album.summary
    lines = [head, *train.album.summary, *valid_summary, *notes]
    return CaptionSplits(
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


def read(
    files: Sequence[CaptionFile], shape: Shape, reject: float, *, remedy: str = "raise data.reject"
) -> CaptionedImages:
    """Read the images of some files with their captions; too many bad ones are an error."""
    album = read_album([shelve(file) for file in files], shape, reject=reject, remedy=remedy)
    return CaptionedImages(album, np.arange(len(album)), album.columns[CAPTION])


def _hold_out_images(images: CaptionedImages, config: CaptionsConfig) -> tuple[CaptionedImages, CaptionedImages]:
    """Split off a share of the images, chosen by content."""
    keys = np.array([number(config.seed, int(mark)) for mark in images.marks], np.uint64)
    is_held_out = hold_out(keys, count_to_hold_out(config.validation_share, len(images)))
    if is_held_out.all():
        raise ValueError(f"{images.place(0)}: too few different pictures to hold some out: give more, or data.valid")
    return images.select(~is_held_out), images.select(is_held_out)
