"""A trained model of pixels in use: it draws pictures, completes others, and counts the bits of those it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.ranges import Count, Whole
from regard.data.pictures.decoding import (
    Fit,
    PictureHeader,
    Unusable,
    decode_array,
    decode_picture,
    read_header,
    silence_pillow,
)
from regard.data.pictures.shelves import has_test_part
from regard.decoding.constraints import Forbid
from regard.decoding.generate import generate
from regard.interpret.trace import Trace
from regard.metrics.scores import Scores
from regard.metrics.significance import mean_statistics
from regard.models.inference import Ready
from regard.tasks.inputs import PICTURE, InputKind, Inputs, check_input
from regard.tasks.trained import DirectAnswers, Extra, describe_model, load_model, resolve_options
from regard.tasks.vision.opening import Given, called, unfolded
from regard.tasks.vision.pixels import controls, preparing
from regard.tasks.vision.pixels.task import as_file, chunks, nats
from regard.tasks.vision.pixels.tokens import Alphabet
from regard.tasks.vision.preparing import Side
from regard.tasks.writing import SamplingConfig

if TYPE_CHECKING:
    from PIL.Image import Image

KEPT = "upper"
SENTENCE = 32  # tokens of a text: a picture is worth a fast copy of the model as soon as so many texts are


@dataclass(frozen=True, kw_only=True)
class DrawingConfig(SamplingConfig):
    """How a picture is completed."""

    keep: str | Whole = KEPT
    """What is kept of a picture: upper, its upper half; or so many rows. Pixels are written row by row."""
    fit: Fit | None = None
    """How a picture of another size or depth becomes one that the model knows; null: it is refused."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """How a picture is read."""

    fit: Fit | None = None
    """How a picture of another size or depth becomes one that the model knows; null: it is refused."""


@dataclass(frozen=True, kw_only=True)
class RowOptions(FitOptions):
    """What is shown of a picture that is read."""

    row: Count | None = None
    """The row whose tokens were predicted while the heads looked, from 1; null: the middle one."""


@dataclass(frozen=True)
class Drawn:
    """A picture that was drawn, what was kept of another, and the log-probability of what was added."""

    pixels: UInt8[np.ndarray, "size size *channels"]
    kept: int
    """Rows that were given."""
    score: float
    bits: float
    """Of each token that was added, on average."""

    def __str__(self) -> str:
        size = len(self.pixels)
        return f"{size - self.kept} of {size} rows drawn, {self.bits:.3f} bits a token"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        told = {"kept": self.kept, "score": round(self.score, 6), "bits": round(self.bits, 6)}
        return {**told, "pixels": self.pixels.tolist()}


class Painter(DirectAnswers):
    """Writes pictures pixel by pixel."""

    task: ClassVar[str] = "pixels"
    verb: ClassVar[str] = "draw"
    kind: ClassVar[str] = "a model of pixels"
    input_kind: ClassVar[InputKind] = PICTURE
    Options: ClassVar[type] = DrawingConfig
    LookOptions: ClassVar[type] = RowOptions
    __repr__ = describe_model

    def __init__(self, model: Any, alphabet: Alphabet, file: Mapping[str, Any], name: str = "painter") -> None:
        self.model, self.alphabet, self.file, self.name = model, alphabet, dict(file), name
        self.ready = Ready(model)

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Painter:
        """The one a checkpoint directory holds."""
        data, model = checkpoint.config["data"], load_model(checkpoint, device)
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        alphabet = Alphabet(int(data["size"]), int(data["channels"]), preparing.read_palette(data))
        known = model.config
        if (known.vocab, known.size, known.channels) != (alphabet.vocab, alphabet.size, alphabet.depth):
            raise ValueError(f"the model has {known.vocab} tokens, its pictures {alphabet.vocab}")
        return cls(model, alphabet.to(device_of(model)), data.get("file") or {}, name)

    @property
    def inputs(self) -> Inputs:
        """Pictures to complete, and folders of them."""
        size = self.alphabet.size
        limits = {"height": size, "width": size}
        return Inputs(kind=self.input_kind, parse=self.parse, expand=unfolded, limits=limits)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Pictures that it draws, and all of them in one."""
        return {
            "draw": Extra(self.draw, DrawingConfig, "Pictures that begin as one does, or as the model likes."),
            "gallery": Extra(self.gallery, FitOptions, "Drawn pictures side by side, with the one that was given."),
        }

    def parse(self, text: str) -> Path:
        """An input is the path of a picture."""
        return Path(text)

    def answer(self, inputs: Sequence[Given], **options: Any) -> list[Drawn]:
        """Each picture completed once."""
        return [self.draw(one, **{**options, "samples": 1})[0] for one in inputs]

    def draw(self, given: Given | None = None, **options: Any) -> list[Drawn]:
        """Pictures that begin as this one does, or without one, as the model likes."""
        how = resolve_options(self, options)
        rows, kept = 0, list[int]()
        if given is not None:
            check_input(given, PICTURE, verb=self.verb)
            rows = self.rows(how.keep)
            kept = self.opened(given, how.fit)[0, : rows * self.alphabet.size * self.alphabet.depth].tolist()
        limit = self.alphabet.places - len(kept)
        prompt = torch.tensor([[self.alphabet.begin, *kept]], device=device_of(self.model))
        [found] = generate(
            self.ready(how.samples * max(1, limit // SENTENCE)),
            [prompt],
            limit=limit,
            eos=None,
            pick=how.sampler(),
            samples=how.samples,
            constraints=[Forbid([[self.alphabet.begin]])],
        )
        tokens = torch.tensor([[*kept, *one.tokens] for one in found], device=prompt.device)
        pictures = self.shown(tokens)
        bits = [-one.score / math.log(2) / limit for one in found]
        return [
            Drawn(*each) for each in zip(pictures, [rows] * len(found), [one.score for one in found], bits, strict=True)
        ]

    def rows(self, keep: str | int) -> int:
        """How many rows are kept."""
        size = self.alphabet.size
        rows = size // 2 if keep == KEPT else int(keep) if str(keep).isdecimal() else -1
        if not 0 <= rows < size:
            raise ValueError(
                f"keep {keep}: a picture is written row by row from above, so give upper, or rows from 0 to {size - 1}"
            )
        return rows

    def opened(self, given: Given, fit: Fit | None = None, *, fits: str = ", or -s fit=crop") -> Int[Tensor, "1 place"]:
        """A picture as tokens; one of another size or depth is refused, unless it is said how it becomes alike.

        `fits` is how the refusal says that this can be said.
        """
        alphabet = self.alphabet
        form: Any = {"size": alphabet.size, "channels": alphabet.channels, "fit": fit or "crop"}
        try:
            with silence_pillow():
                if fit is None:
                    seen = _look(given)
                    sides = seen.width, seen.height
                    preparing.alike(called(given), sides, grey=seen.grey, alphabet=alphabet, fits=fits)
                if isinstance(given, np.ndarray):
                    pixels = decode_array(given, **form)
                else:
                    pixels = decode_picture(Path(given), **form).pixels
        except Unusable as error:
            raise ValueError(f"{called(given)}: {error}") from None
        return alphabet.tokens(torch.from_numpy(np.stack([pixels])).to(device_of(self.model)))

    def shown(self, tokens: Int[Tensor, "batch place"]) -> list[UInt8[np.ndarray, "size size *channels"]]:
        """Pictures of tokens: shades as (row, column), colours with an axis of their own."""
        pixels = self.alphabet.pixels(tokens).permute(0, 2, 3, 1).cpu().numpy()
        return list(pixels[..., 0] if self.alphabet.channels == 1 else pixels)

    def gallery(self, given: Given | None, drawn: Sequence[Drawn], *, fit: Fit | None = None) -> Image:
        """Pictures side by side: the one that was given, what was kept of it, and those that were drawn."""
        from regard.tasks.vision.pixels.gallery import hung, veiled

        if given is None:
            return hung([one.pixels for one in drawn])
        [whole] = self.shown(self.opened(given, fit))
        return hung([whole, veiled(whole, drawn[0].kept), *(one.pixels for one in drawn)])

    def evaluate(
        self,
        *files: str | Path,
        name: str | None = None,
        most: Count | None = None,
        fit: Fit | None = None,
        train: str | None = None,
        reject: float = 0.0,
    ) -> Scores:
        """Bits of pictures, of those to test on where a source has some, beside tables that were counted.

        Tables are counted in the pictures of `train`, or in those to learn from of the same source. Only the first
        `most` are measured.
        """
        if not files:
            raise ValueError(f"{self.name} is measured on pictures: name a folder or file of them")
        sources = [as_file(str(path), self.file) for path in files]
        side = preparing.read(sources, self.alphabet, fit, part="test", reject=reject)
        side = side if most is None else side.kept(np.arange(min(most, len(side))))
        own = [n for chunk in chunks(side, self.alphabet, device_of(self.model)) for n in self._nats(side, chunk)]
        unit, places = self.alphabet.unit, self.alphabet.places
        each = {unit.name: [one / math.log(2) / places for one in own]}
        learnt = [str(train)] if train else [str(path) for path in files if has_test_part(str(path))]
        each |= self._controls(side, learnt, fit)
        statistics = {key: mean_statistics(values, lower=True) for key, values in each.items()}
        notes = [] if len(each) > 1 else ["No tables to compare with: name training pictures, -s train=FOLDER."]
        if self.alphabet.palette is not None:
            notes.append(f"Bits of {len(self.alphabet.palette)} colours: they are not bits per dimension.")
        details = {unit.key: statistics[unit.name].score, "tokens": places}
        return Scores(name or self.name, self.task, statistics, notes=notes, details=details, unit="picture")

    def look(self, given: Given, *, row: int | None = None, fit: Fit | None = None) -> Trace:
        """Read a picture and keep where every head looked while the tokens of one row were predicted."""
        from regard.tasks.vision.pixels.looking import traced

        return traced(self, given, row, fit)

    @torch.no_grad()
    def _nats(self, side: Side, chunk: range) -> list[float]:
        pixels = torch.from_numpy(side.pixels(np.array(chunk))).to(device_of(self.model))
        return nats(self.model, self.alphabet, self.alphabet.tokens(pixels)).tolist()

    def _controls(self, side: Side, learnt: Sequence[str], fit: Fit | None) -> dict[str, list[float]]:
        """Bits of every picture by tables that were counted in others, if there are any."""
        if not learnt:
            return {}
        alphabet = self.alphabet.to("cpu")
        counted = preparing.read([as_file(path, self.file) for path in learnt], alphabet, fit, part="train", reject=1.0)
        tables = controls.counted(alphabet, preparing.as_tokens(counted, alphabet))
        found: dict[str, list[float]] = {name: [] for name in tables}
        for tokens in preparing.as_tokens(side, alphabet):
            for name, bits in controls.bits(alphabet, tables, tokens).items():
                found[name] += (bits / alphabet.places).tolist()
        return found


def _look(given: Given) -> PictureHeader:
    """The sides of a picture and whether it is grey."""
    if not isinstance(given, np.ndarray):
        return read_header(Path(given))
    height, width, *rest = (*given.shape, 0)[: max(2, given.ndim)]
    return PictureHeader(width, height, rest in ([], [1]))
