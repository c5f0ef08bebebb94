"""Albums: images decoded once to bytes of one size, on all cores, and cached as memory-mapped arrays."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, get_args

import numpy as np
from jaxtyping import Int, UInt8

from regard.config.words import quote
from regard.data import cache as caches
from regard.data.findings import Finding, describe_finding
from regard.data.images.decoding import (
    Fit,
    PictureHeader,
    Resample,
    Unusable,
    decode_array,
    decode_picture,
    describe_enlarged,
    read_header,
    silence_pillow,
)
from regard.data.images.sources import ImageSource
from regard.data.progress import report

VERSION = 4  # version of the decoding and of its report
PIECE = 256  # pictures decoded at a time
SAMPLED = 256  # pictures whose headers are read to choose a size
MARGIN = 4  # largest ratio of the resized picture to the size before a centre crop
LARGEST = 224  # largest default size in pixels
FINE = 64  # up to this size, pictures keep their size by default
RAISED = "raise data.reject"  # the remedy for training
REMEMBERED = 64  # digests of training pictures stored with a model
ALLOWED = "allow a share of them: -s reject=0.05"  # the remedy for evaluation


class Shape(NamedTuple):
    """The size and format of all pictures of an album."""

    size: int
    channels: int
    fit: Fit = "crop"
    resample: Resample | None = None
    """How pixels are interpolated; None: bicubic."""
    margin: float | None = None
    """Of what is cropped: the short side is made so many times `size` first; None: `size`, in one step."""

    @classmethod
    def of(cls, model: Any, data: Mapping[str, Any]) -> Shape:
        """Return the shape in the config and data section of a checkpoint."""
        resample, margin = data.get("resample"), data.get("margin")
        if resample is not None and resample not in get_args(Resample):
            raise ValueError(f"data.resample must be one of {', '.join(get_args(Resample))}, not {quote(resample)}")
        if margin is not None and not (isinstance(margin, int | float) and 1 <= margin <= MARGIN):
            raise ValueError(f"data.margin must be a number from 1 to {MARGIN}, not {quote(margin)}")
        return cls(model.size, model.channels, data.get("fit", "crop"), resample, margin)


PREPARATION = (*Shape._fields, "mean", "std")
"""Settings of how pictures are prepared for a model, which go with its weights."""


class Stacks:
    """Several arrays of pictures, concatenated without copying."""

    def __init__(self, parts: Sequence[UInt8[np.ndarray, "pictures channels size size"]]) -> None:
        self.parts, self.ends = parts, np.cumsum([len(part) for part in parts])
        self.shape = (int(self.ends[-1]), *parts[0].shape[1:])

    def __getitem__(self, numbers: Int[np.ndarray, "some"]) -> UInt8[np.ndarray, "some channels size size"]:
        """Return copies of these pictures."""
        copies = np.empty((len(numbers), *self.shape[1:]), np.uint8)
        within = np.searchsorted(self.ends, numbers, side="right")
        for number in np.unique(within):
            in_part, part = within == number, self.parts[number]
            copies[in_part] = part[numbers[in_part] - (self.ends[number] - len(part))]
        return copies


@dataclass(frozen=True)
class Album:
    """Pictures of one size, with their places and columns."""

    pixels: UInt8[np.ndarray, "pictures channels size size"] | Stacks
    marks: Int[np.ndarray, "pictures"]
    """A digest of the pixels of each: equal pictures have equal ones."""
    places: list[str]
    columns: dict[str, list[Any]]
    sides: Int[np.ndarray, "pictures"]
    """Pixels on the short side of each before it was decoded."""
    read: int = 0
    """Pictures that were named, good or bad."""
    refused: dict[str, Finding] = field(default_factory=dict)
    """Bad ones by reason; too many of them stop a run."""
    odd: dict[str, Finding] = field(default_factory=dict)
    """Good ones that were changed, by how."""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.places)

    def check(self, share: float, name: str, *, remedy: str = RAISED) -> None:
        """Raise ValueError if no picture is usable, or if more than this share of the pictures is bad."""
        bad = sum(finding.count for finding in self.refused.values())
        reasons = "; ".join(describe_finding(finding, reason) for reason, finding in self.refused.items())
        if not len(self):
            raise ValueError(f"{name}: no usable picture: {reasons}")
        if bad > share * self.read:
            raise ValueError(
                f"{name}: {bad:,} of {self.read:,} pictures are refused, more than the allowed {share:.2%}: {reasons}; "
                f"mend them, or {remedy}"
            )

    @property
    def parts(self) -> Sequence[UInt8[np.ndarray, "pictures channels size size"]]:
        """Return the arrays that hold its pictures."""
        return self.pixels.parts if isinstance(self.pixels, Stacks) else [self.pixels]

    @property
    def summary(self) -> list[str]:
        """Describe what was left out or changed, line by line."""
        refused = [f"refused: {describe_finding(finding, reason)}" for reason, finding in self.refused.items()]
        return [*refused, *(describe_finding(finding, how) for how, finding in self.odd.items()), *self.notes]


def scales_of(data: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return mean and deviation of each channel from the data section of a checkpoint, or raise ValueError.

    A deviation of 0 would make every answer NaN.
    """
    scales = {name: tuple(map(float, data[name])) for name in ("mean", "std")}
    for name, values in scales.items():
        for value in values:
            if not math.isfinite(value) or (name == "std" and value <= 0):
                allowed = "above 0" if name == "std" else "finite"
                raise ValueError(f"data.{name} must hold numbers that are {allowed}, not {quote(list(values))}")
    return scales


def shape_of(
    shelves: Sequence[ImageSource],
    size: int | None,
    channels: int | None,
    fit: Fit | None = None,
    resample: Resample | None = None,
    margin: float | None = None,
) -> Shape:
    """Return the shape for these pictures; missing values are chosen from the headers of a sample."""
    fit = fit or "crop"
    if size is not None and channels is not None:
        return Shape(size, channels, fit, resample, margin)
    faults = dict[str, Finding]()
    looks = [header for shelf in shelves for header in sample_headers(shelf, SAMPLED // len(shelves), faults)]
    if not looks:
        for place, reason in (refusal for shelf in shelves for refusal in shelf.refused):
            faults.setdefault(reason, Finding()).add(place)
        reasons = "; ".join(describe_finding(finding, reason) for reason, finding in faults.items())
        raise ValueError(f"{shelves[0].name}: no usable picture: {reasons}")
    side = int(median(min(header_look.width, header_look.height) for header_look in looks))
    coarse = min(side, LARGEST) // 16 * 16
    grey = all(header_look.grey for header_look in looks)
    size = size or (coarse if side > FINE else max(8, side // 4 * 4))
    return Shape(size, channels or (1 if grey else 3), fit, resample, margin)


def load_album(shelf: ImageSource, shape: Shape, *, cache: str | Path | None = None) -> Album:
    """Return the pictures of a shelf in this shape, cached or decoded now."""
    contents = {"pictures": shelf.digest(), "shape": list(shape), "version": VERSION}
    arrays = caches.cached_arrays("pictures", contents, lambda builder: _build(builder, shelf, shape), cache=cache)
    refused, odd = (_findings_by_reason(shelf, arrays.facts[name]) for name in ("refused", "odd"))
    for place, reason in shelf.refused:
        refused.setdefault(reason, Finding()).add(place)
    numbers = arrays["numbers"].tolist()
    return Album(
        arrays["pixels"],
        arrays["marks"],
        [shelf.places[number] for number in numbers],
        {name: [column[number] for number in numbers] for name, column in shelf.columns.items()},
        arrays["sides"],
        read=len(shelf) + len(shelf.refused),
        refused=refused,
        odd=odd,
        notes=(*shelf.notes, *arrays.notes),
    )


def read_album(shelves: Sequence[ImageSource], shape: Shape, *, reject: float, remedy: str = RAISED) -> Album:
    """Read the pictures of all these shelves in this shape; too many bad ones are an error with this remedy."""
    albums = [load_album(shelf, shape) for shelf in shelves]
    for shelf, pictures in zip(shelves, albums, strict=True):
        pictures.check(reject, shelf.name, remedy=remedy)
    return join_albums(albums)


def join_albums(albums: Sequence[Album]) -> Album:
    """Join several albums of one shape."""
    if len(albums) == 1:
        return albums[0]
    names = dict.fromkeys(name for part_album in albums for name in part_album.columns)
    return Album(
        Stacks([part for part_album in albums for part in part_album.parts]),
        np.concatenate([part_album.marks for part_album in albums]),
        [place for part_album in albums for place in part_album.places],
        {
            name: [cell for part_album in albums for cell in part_album.columns.get(name, [None] * len(part_album))]
            for name in names
        },
        np.concatenate([part_album.sides for part_album in albums]),
        read=sum(part_album.read for part_album in albums),
        refused=_merge_findings([part_album.refused for part_album in albums]),
        odd=_merge_findings([part_album.odd for part_album in albums]),
        notes=tuple(note for part_album in albums for note in part_album.notes),
    )


def note_enlarged(patch: int, *albums: Album) -> list[str]:
    """Return a note on pictures smaller than a patch of the model; `patch` is 0 for models without patches."""
    finding = Finding()
    for checked in {id(checked): checked for checked in albums}.values():
        for picture in np.flatnonzero(checked.sides < patch):
            finding.add(checked.places[picture])
    return [describe_finding(finding, describe_enlarged(patch))] if finding.count else []


def sample_digests(marks: Int[np.ndarray, "pictures"]) -> str:
    """Return the smallest digests of the training pictures: a random sample that does not depend on their order."""
    return " ".join(sorted(set(_short_digests(marks)))[:REMEMBERED])


def note_learnt_pictures(pictures: Album, learnt: Any) -> list[str]:
    """Return a note if evaluation pictures are among those that the model was trained on."""
    remembered_marks = set(learnt.split()) if isinstance(learnt, str) else set[str]()
    there = {
        mark: place
        for mark, place in zip(_short_digests(pictures.marks), pictures.places, strict=True)
        if mark in remembered_marks
    }
    if not there:
        return []
    share = f"{len(there)} of {len(remembered_marks)} that it remembers"
    return [
        f"{next(iter(there.values()))}: it has learnt from pictures that are here ({share}), and scores of new "
        "ones will be lower: measure on others"
    ]


def _short_digests(marks: Int[np.ndarray, "pictures"]) -> list[str]:
    return [f"{mark & 0xFFFFFFFF:08x}" for mark in marks.tolist()]


def sample_headers(shelf: ImageSource, count: int, faults: dict[str, Finding] | None = None) -> Iterator[PictureHeader]:
    """Yield the image headers of a sample of the shelf; files that cannot be read go into `faults` by reason."""
    if isinstance(shelf.pictures, np.ndarray):
        _, height, width, *channels = shelf.pictures.shape
        yield PictureHeader(width, height, channels in ([], [1]))
        return
    step = max(1, len(shelf) // max(count, 1))
    with silence_pillow():
        for path, place in zip(shelf.pictures[::step], shelf.places[::step], strict=True):
            try:
                yield read_header(path)
            except Unusable as error:
                if faults is not None:
                    faults.setdefault(str(error), Finding()).add(place)


def _build(builder: caches.Builder, shelf: ImageSource, shape: Shape) -> None:
    """Decode all pictures on all cores, and record which of them are good."""
    refused, odd = dict[str, list[int]](), dict[str, list[int]]()
    builder.facts.update(refused=refused, odd=odd)
    builder.add("pixels", np.empty((0, shape.channels, shape.size, shape.size), np.uint8))
    builder.add("marks", np.empty(0, np.int64))
    builder.add("numbers", np.empty(0, np.int64))
    builder.add("sides", np.empty(0, np.int64))

    def decode_one(number: int) -> tuple[np.ndarray, int] | str:
        picture = shelf.pictures[number]
        try:
            if isinstance(picture, np.ndarray):
                return decode_array(picture, **shape._asdict()), min(picture.shape[:2])
            pixels, side, oddity = decode_picture(picture, **shape._asdict())
        except Unusable as error:
            return str(error)
        if oddity:
            odd.setdefault(oddity, []).append(number)
        return pixels, side

    with silence_pillow(), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for first in range(0, len(shelf), PIECE):
            numbers = range(first, min(first + PIECE, len(shelf)))
            decoded_pictures = list(zip(numbers, pool.map(decode_one, numbers), strict=True))
            for number, why in decoded_pictures:
                if isinstance(why, str):
                    refused.setdefault(why, []).append(number)
            good = [
                (number, *decoded_picture)
                for number, decoded_picture in decoded_pictures
                if not isinstance(decoded_picture, str)
            ]
            if good:
                builder.add("pixels", np.stack([pixels for _, pixels, _ in good]))
                builder.add("marks", np.array([_pixel_digest(pixels) for _, pixels, _ in good], np.int64))
                builder.add("numbers", np.array([number for number, _, _ in good], np.int64))
                builder.add("sides", np.array([side for _, _, side in good], np.int64))
            report("pictures read", numbers.stop, len(shelf))
    for places in odd.values():
        places.sort()  # threads finish in any order


def _pixel_digest(pixels: np.ndarray) -> int:
    return int.from_bytes(hashlib.blake2b(pixels.tobytes(), digest_size=8).digest(), "little", signed=True)


def _findings_by_reason(shelf: ImageSource, groups: dict[str, list[int]]) -> dict[str, Finding]:
    findings: dict[str, Finding] = {}
    for reason, numbers in groups.items():
        findings[reason] = Finding()
        for number in numbers:
            findings[reason].add(shelf.places[number])
    return findings


def _merge_findings(parts: Sequence[dict[str, Finding]]) -> dict[str, Finding]:
    findings: dict[str, Finding] = {}
    for reason, finding in ((reason, finding) for part in parts for reason, finding in part.items()):
        both = findings.setdefault(reason, Finding())
        both.count, both.places = both.count + finding.count, [*both.places, *finding.places][:5]
    return findings
