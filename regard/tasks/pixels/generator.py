"""A trained pixel model in use: it generates images, completes images, and measures their bits."""

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
from regard.data.images.decoding import (
    Fit,
    PictureHeader,
    Unusable,
    decode_array,
    decode_picture,
    read_header,
    silence_pillow,
)
from regard.data.images.labelled_images import LabelledImages
from regard.data.images.sources import has_test_part
from regard.decoding.constraints import Forbid
from regard.decoding.generate import generate
from regard.interpret.trace import Trace
from regard.metrics.scores import Scores
from regard.metrics.significance import mean_statistics
from regard.models.inference.fast_path import FastPath
from regard.tasks.image_inputs import ImageInput, expand_folder, input_name
from regard.tasks.inputs import PICTURE, InputKind, Inputs, check_input
from regard.tasks.pixels import baselines, dataset
from regard.tasks.pixels.explain import choose_row, explain_row
from regard.tasks.pixels.task import evaluation_chunks, nats_per_image, picture_file
from regard.tasks.pixels.tokenizer import PixelTokenizer
from regard.tasks.trained import DirectAnswers, Extra, describe_model, load_model, resolve_options
from regard.tasks.writing import SamplingConfig

if TYPE_CHECKING:
    from PIL.Image import Image

UPPER_HALF = "upper"
TOKENS_PER_TEXT = 32  # tokens counted as one text when deciding whether a fast copy of the model pays off


@dataclass(frozen=True, kw_only=True)
class CompletionOptions(SamplingConfig):
    """Options of the completion of an image."""

    keep: str | Whole = UPPER_HALF
    """What is kept of a picture: upper, its upper half; or so many rows. Pixels are written row by row."""
    fit: Fit | None = None
    """How a picture of another size or depth becomes one that the model knows; null: it is refused."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of reading an image."""

    fit: Fit | None = None
    """How a picture of another size or depth becomes one that the model knows; null: it is refused."""


@dataclass(frozen=True, kw_only=True)
class RowOptions(FitOptions):
    """Options of the explanation of an image."""

    row: Count | None = None
    """The row whose tokens were predicted while the heads looked, from 1; null: the middle one."""


@dataclass(frozen=True)
class CompletedImage:
    """A generated image, the number of its rows that were given, and the log-probability of the others."""

    pixels: UInt8[np.ndarray, "size size *channels"]
    kept_rows: int
    """Rows that were given."""
    score: float
    bits: float
    """Mean bits per generated token."""

    def __str__(self) -> str:
        size = len(self.pixels)
        return f"{size - self.kept_rows} of {size} rows drawn, {self.bits:.3f} bits a token"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        facts = {"kept": self.kept_rows, "score": round(self.score, 6), "bits": round(self.bits, 6)}
        return {**facts, "pixels": self.pixels.tolist()}


class PixelGenerator(DirectAnswers):
    """Generates images pixel by pixel with a trained model."""

    task: ClassVar[str] = "pixels"
    verb: ClassVar[str] = "draw"
    kind: ClassVar[str] = "a model of pixels"
    input_kind: ClassVar[InputKind] = PICTURE
    Options: ClassVar[type] = CompletionOptions
    LookOptions: ClassVar[type] = RowOptions
    __repr__ = describe_model

    def __init__(self, model: Any, tokenizer: PixelTokenizer, file: Mapping[str, Any], name: str = "painter") -> None:
        self.model, self.tokenizer, self.file, self.name = model, tokenizer, dict(file), name
        self.ready = FastPath(model)

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> PixelGenerator:
        """Load the model of a checkpoint directory."""
        data, model = checkpoint.config["data"], load_model(checkpoint, device)
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best, so add the run's name
        tokenizer = PixelTokenizer(int(data["size"]), int(data["channels"]), dataset.read_palette(data))
        sizes = model.config.vocab, model.config.size, model.config.channels
        if sizes != (tokenizer.vocab, tokenizer.size, tokenizer.tokens_per_pixel):
            raise ValueError(f"the model has {model.config.vocab} tokens, its pictures {tokenizer.vocab}")
        return cls(model, tokenizer.to(device_of(model)), data.get("file") or {}, name)

    @property
    def inputs(self) -> Inputs:
        """Images to complete, and folders of them."""
        size = self.tokenizer.size
        limits = {"height": size, "width": size}
        return Inputs(kind=self.input_kind, parse=self.parse, expand=expand_folder, limits=limits)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Draw images, and show all of them in one picture."""
        return {
            "draw": Extra(self.draw, CompletionOptions, "Pictures that begin as one does, or as the model likes."),
            "gallery": Extra(self.gallery, FitOptions, "Drawn pictures side by side, with the one that was given."),
        }

    def parse(self, text: str) -> Path:
        """Return the path of an image."""
        return Path(text)

    def answer(self, inputs: Sequence[ImageInput], **options: Any) -> list[CompletedImage]:
        """Complete each image once."""
        return [self.draw(image, **{**options, "samples": 1})[0] for image in inputs]

    def draw(self, image: ImageInput | None = None, **options: Any) -> list[CompletedImage]:
        """Draw images that continue the kept rows of an image, or without one, whole images."""
        settings = resolve_options(self, options)
        rows, prompt_tokens = 0, list[int]()
        if image is not None:
            check_input(image, PICTURE, verb=self.verb)
            rows = self.count_kept_rows(settings.keep)
            prompt_length = rows * self.tokenizer.size * self.tokenizer.tokens_per_pixel
            prompt_tokens = self.encode_image(image, settings.fit)[0, :prompt_length].tolist()
        limit = self.tokenizer.length - len(prompt_tokens)
        prompt = torch.tensor([[self.tokenizer.begin_token, *prompt_tokens]], device=device_of(self.model))
        [hypotheses] = generate(
            self.ready(settings.samples * max(1, limit // TOKENS_PER_TEXT)),
            [prompt],
            limit=limit,
            eos=None,
            pick=settings.sampler(),
            samples=settings.samples,
            constraints=[Forbid([[self.tokenizer.begin_token]])],
        )
        tokens = torch.tensor([[*prompt_tokens, *hypothesis.tokens] for hypothesis in hypotheses], device=prompt.device)
        images = self.to_arrays(tokens)
        return [
            CompletedImage(pixels, rows, hypothesis.score, bits=-hypothesis.score / math.log(2) / limit)
            for pixels, hypothesis in zip(images, hypotheses, strict=True)
        ]

    def count_kept_rows(self, keep: str | int) -> int:
        """Return the number of rows to keep."""
        size = self.tokenizer.size
        rows = size // 2 if keep == UPPER_HALF else int(keep) if str(keep).isdecimal() else -1
        if not 0 <= rows < size:
            raise ValueError(
                f"keep {keep}: a picture is written row by row from above, so give upper, or rows from 0 to {size - 1}"
            )
        return rows

    def encode_image(
        self, image: ImageInput, fit: Fit | None = None, *, remedy: str = ", or -s fit=crop"
    ) -> Int[Tensor, "1 place"]:
        """Return the tokens of an image; one of another size or depth is an error unless `fit` is set.

        `remedy` ends the error message.
        """
        tokenizer = self.tokenizer
        shape: Any = {"size": tokenizer.size, "channels": tokenizer.channels, "fit": fit or "crop"}
        try:
            with silence_pillow():
                if fit is None:
                    header = _read_header(image)
                    sides = header.width, header.height
                    dataset.check_image_size(
                        input_name(image), sides, grey=header.grey, tokenizer=tokenizer, remedy=remedy
                    )
                if isinstance(image, np.ndarray):
                    pixels = decode_array(image, **shape)
                else:
                    pixels = decode_picture(Path(image), **shape).pixels
        except Unusable as error:
            raise ValueError(f"{input_name(image)}: {error}") from None
        return tokenizer.encode(torch.from_numpy(np.stack([pixels])).to(device_of(self.model)))

    def to_arrays(self, tokens: Int[Tensor, "batch place"]) -> list[UInt8[np.ndarray, "size size *channels"]]:
        """Return the images of tokens as arrays: (row, column) of shades, or with a third axis of colours."""
        pixels = self.tokenizer.decode(tokens).permute(0, 2, 3, 1).cpu().numpy()
        return list(pixels[..., 0] if self.tokenizer.channels == 1 else pixels)

    def gallery(self, image: ImageInput | None, drawn: Sequence[CompletedImage], *, fit: Fit | None = None) -> Image:
        """Return images side by side: the input image, its kept rows, and the generated images."""
        from regard.tasks.pixels.image_grid import grey_out_rows, make_grid

        if image is None:
            return make_grid([completed.pixels for completed in drawn])
        [original] = self.to_arrays(self.encode_image(image, fit))
        prompt = grey_out_rows(original, drawn[0].kept_rows)
        return make_grid([original, prompt, *(completed.pixels for completed in drawn)])

    def evaluate(
        self,
        *files: str | Path,
        name: str | None = None,
        most: Count | None = None,
        fit: Fit | None = None,
        train: str | None = None,
        reject: float = 0.0,
    ) -> Scores:
        """Measure the bits of images (the test images of a source that has some), beside count-table baselines.

        Tables are counted in the images of `train`, or in the training images of the same source. Only the first `most`
        images are measured.
        """
        if not files:
            raise ValueError(f"{self.name} is measured on pictures: name a folder or file of them")
        sources = [picture_file(str(path), self.file) for path in files]
        images = dataset.read(sources, self.tokenizer, fit, part="test", reject=reject)
        images = images if most is None else images.select(np.arange(min(most, len(images))))
        chunks = evaluation_chunks(images, self.tokenizer, device_of(self.model))
        nats = [image_nats for chunk in chunks for image_nats in self._measure_nats(images, chunk)]
        unit, length = self.tokenizer.unit, self.tokenizer.length
        bits_by_name = {unit.name: [image_nats / math.log(2) / length for image_nats in nats]}
        training_files = [str(train)] if train else [str(path) for path in files if has_test_part(str(path))]
        bits_by_name |= self._measure_baselines(images, training_files, fit)
        statistics = {key: mean_statistics(values, lower=True) for key, values in bits_by_name.items()}
        notes = [] if len(bits_by_name) > 1 else ["No tables to compare with: name training pictures, -s train=FOLDER."]
        if self.tokenizer.palette is not None:
            notes.append(f"Bits of {len(self.tokenizer.palette)} colours: they are not bits per dimension.")
        details = {unit.key: statistics[unit.name].score, "tokens": length}
        return Scores(name or self.name, self.task, statistics, notes=notes, details=details, unit="picture")

    def look(self, image: ImageInput, *, row: int | None = None, fit: Fit | None = None) -> Trace:
        """Read an image and return the attention of every head while the tokens of one row were predicted."""
        row = choose_row(self.tokenizer, row)
        tokens = self.encode_image(image, fit, remedy="")  # `regard explain` has no settings
        return explain_row(self, tokens, row, name=str(image))

    @torch.no_grad()
    def _measure_nats(self, images: LabelledImages, chunk: range) -> list[float]:
        pixels = torch.from_numpy(images.pixels(np.array(chunk))).to(device_of(self.model))
        return nats_per_image(self.model, self.tokenizer, self.tokenizer.encode(pixels)).tolist()

    def _measure_baselines(
        self, images: LabelledImages, training_files: Sequence[str], fit: Fit | None
    ) -> dict[str, list[float]]:
        """Return the bits of every image under tables counted in the training images, if there are any."""
        if not training_files:
            return {}
        tokenizer = self.tokenizer.to("cpu")
        sources = [picture_file(path, self.file) for path in training_files]
        training_images = dataset.read(sources, tokenizer, fit, part="train", reject=1.0)
        tables = baselines.count_tables(tokenizer, dataset.tokenize_images(training_images, tokenizer))
        bits_by_table: dict[str, list[float]] = {name: [] for name in tables}
        for tokens in dataset.tokenize_images(images, tokenizer):
            for name, bits in baselines.bits_per_image(tokenizer, tables, tokens).items():
                bits_by_table[name] += (bits / tokenizer.length).tolist()
        return bits_by_table


def _read_header(image: ImageInput) -> PictureHeader:
    """Return the sides of an image and whether it is grey."""
    if not isinstance(image, np.ndarray):
        return read_header(Path(image))
    height, width, *channel_axis = (*image.shape, 0)[: max(2, image.ndim)]
    return PictureHeader(width, height, channel_axis in ([], [1]))
