"""A trained image classifier in use: predictions, scores on labelled images, and explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.words import suggest_name
from regard.data.examples import sample_evenly
from regard.data.images import image_dataset
from regard.data.images.album import Shape, note_enlarged, note_learnt_pictures, scales_of
from regard.data.images.augmentation import Augment, AugmentConfig
from regard.data.images.labelled_images import LabelledImages
from regard.data.images.scattering import ScatterConfig
from regard.data.images.sources import PictureFile
from regard.interpret.items import Item
from regard.interpret.measure.maps import field, methods
from regard.interpret.trace import Trace
from regard.interpret.watch import attention_names
from regard.metrics.scores import Scores
from regard.models.vit import ViTConfig
from regard.tasks.image_inputs import (
    ImageInput,
    decode_images,
    expand_folder,
    input_name,
    patch_items,
    patch_size,
)
from regard.tasks.images.explain import explain_image
from regard.tasks.images.map_evaluation import MapEvaluation, MapEvaluationOptions, evaluate_maps
from regard.tasks.images.scoring import classification_scores, evaluate_logits
from regard.tasks.images.second_look import SecondLook, SecondLookOptions, look_again
from regard.tasks.images.shortcut_probe import ShortcutProbe, probe_shortcut
from regard.tasks.inputs import PICTURE, InputKind, Inputs, list_inputs
from regard.tasks.supervised.calibration import read_temperature
from regard.tasks.supervised.prediction import Prediction
from regard.tasks.trained import DirectAnswers, Extra, NoOptions, describe_model, load_model, resolve_options

if TYPE_CHECKING:
    from regard.interpret.measure.anatomy import Anatomy

IMAGES_PER_BATCH = 256  # images per batch
ANATOMY_IMAGES = 128  # images over which attention distances are averaged
CLASS_TOKEN = "<class>"
READ_AS_SCENES = "pictures as large as scenes are read as scenes: add -s scatter=true to make scenes of them"


@dataclass(frozen=True, kw_only=True)
class ImagePrediction(Prediction):
    """The label of an image."""

    picture: str

    @property
    def subject(self) -> dict[str, Any]:
        """The name of the image."""
        return {"picture": self.picture}


@dataclass(frozen=True, kw_only=True)
class ExplainOptions:
    """Options of the explanation of an image."""

    about: str | None = None
    """The label to show the evidence for; null: the likeliest ones."""


class ImageClassifier(DirectAnswers):
    """Classifies images with a trained model."""

    task: ClassVar[str] = "pictures"
    verb: ClassVar[str] = "classify"
    kind: ClassVar[str] = "a classifier of pictures"
    input_kind: ClassVar[InputKind] = PICTURE
    remembers: ClassVar[bool] = True
    Options: ClassVar[type] = NoOptions
    LookOptions: ClassVar[type] = ExplainOptions
    __repr__ = describe_model

    def __init__(
        self,
        model: Any,
        classes: list[str],
        data: Mapping[str, Any],
        name: str = "classifier",
        temperature: float = 1.0,
    ) -> None:
        self.model, self.classes, self.data, self.name, self.temperature = model, classes, data, name, temperature
        self.shape = Shape.of(model.config, data)
        self.patch = patch_size(model.config)
        self.normalise = Augment(AugmentConfig(), **scales_of(data), seed=0, device=device_of(model)).plain

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> ImageClassifier:
        """Load the classifier of a checkpoint directory."""
        settings = checkpoint.config
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best, so add the run's name
        labels, temperature = [str(label) for label in settings["labels"]], read_temperature(settings)
        return cls(load_model(checkpoint, device), labels, settings["data"], name, temperature)

    @property
    def inputs(self) -> Inputs:
        """Images of any size, and folders of them."""
        return Inputs(kind=self.input_kind, parse=self.parse, expand=expand_folder)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Evaluate its maps, probe it for a shortcut, and look inside a ViT."""
        extras = {
            "judge": Extra(self.judge_maps, MapEvaluationOptions, "How far each kind of map may be believed."),
            "probe": Extra(self.probe, NoOptions, "Whether a mark in a corner decides the answer."),
            "anatomy": Extra(self.anatomy, NoOptions, "Patch filters, likeness of positions and reach of heads."),
            "look_again": Extra(self.look_again, SecondLookOptions, "The answer to the brightest part, enlarged."),
        }
        if self.data.get("scatter"):
            extras["scenes"] = Extra(
                self.read_images, NoOptions, "The scenes of labelled pictures that it is scored on."
            )
        return extras

    def parse(self, text: str) -> Path:
        """Return the path of an image."""
        return Path(text)

    def answer(self, inputs: Sequence[ImageInput], **options: Any) -> list[ImagePrediction]:
        """Classify each image."""
        resolve_options(self, options)
        return self.classify(inputs)

    def classify(self, images: ImageInput | Sequence[ImageInput]) -> list[ImagePrediction]:
        """Classify images: files, folders of files, or arrays (height, width) or (height, width, 3)."""
        listed = _expand_inputs(images)
        predictions: list[ImagePrediction] = []
        for first in range(0, len(listed), IMAGES_PER_BATCH):
            batch = listed[first : first + IMAGES_PER_BATCH]
            predictions += self.predict_pixels(batch, self.decode_images(batch))
        return predictions

    def predict_pixels(
        self, names: Sequence[ImageInput], pixels: UInt8[Tensor, "image channels size size"]
    ) -> list[ImagePrediction]:
        """Classify decoded images."""
        probabilities = (self.logits(pixels) / self.temperature).softmax(-1).tolist()
        rows = zip(names, probabilities, strict=True)
        return [ImagePrediction.rank(self.classes, row, picture=input_name(name)) for name, row in rows]

    def evaluate(
        self,
        *paths: str | Path,
        name: str | None = None,
        reject: float = 0.0,
        scatter: bool | None = None,
        **changes: Any,
    ) -> Scores:
        """Return scores on labelled images; of a source with several parts, on its test images.

        Up to a share of `reject` may be unusable; `changes` are settings of the files, such as columns of a table. A
        model that was trained on scenes is scored on scenes made of the images, unless the images already have the
        size of scenes; `scatter` overrides this choice.
        """
        labelled = self.read_images(*paths, reject=reject, scatter=scatter, **changes)
        chunks = np.split(np.arange(len(labelled)), range(IMAGES_PER_BATCH, len(labelled), IMAGES_PER_BATCH))
        parts = [self.logits(torch.from_numpy(labelled.pixels(numbers))).tolist() for numbers in chunks]
        notes = note_enlarged(self.patch, labelled.album)
        notes += note_learnt_pictures(labelled.album, self.data.get("learnt"))
        results = evaluate_logits(labelled, self.classes, parts)
        return classification_scores(name or self.name, self.task, labelled, results, self.temperature, notes=notes)

    def read_images(
        self, *paths: str | Path, reject: float | None = None, scatter: bool | None = None, **changes: Any
    ) -> LabelledImages:
        """Read labelled images with the model's settings, or fixed scenes made of them."""
        if not paths:
            raise ValueError(f"{self.name} is measured on labelled pictures: name a folder or file of them")
        file_settings = {**(self.data.get("file") or {}), **changes}
        files = [config.build(PictureFile, {**file_settings, "path": str(path)}, where="file") for path in paths]
        if not (scatter_settings := self.data.get("scatter")) or scatter is False:
            return image_dataset.read(files, self.shape, self.classes, reject=reject)
        from regard.tasks.images import scattered_scenes

        how = config.build(ScatterConfig, scatter_settings, where="data.scatter")
        shape = self.shape._replace(size=int(self.data["size"]), channels=int(self.data["channels"]))
        if scatter is None and scattered_scenes.are_scenes(files, shape.size, how):
            scenes = image_dataset.read(files, self.shape, self.classes, reject=reject)
            return replace(scenes, album=replace(scenes.album, notes=(*scenes.album.notes, READ_AS_SCENES)))
        return scattered_scenes.read(files, shape, self.classes, how, reject=reject)

    def judge_maps(self, *paths: str | Path, **options: Any) -> MapEvaluation:
        """Evaluate each kind of map and controls; options are those of `MapEvaluationOptions`."""
        settings = config.build(MapEvaluationOptions, options, where="options")
        return evaluate_maps(self, self.read_images(*paths), settings)

    def probe(self, *paths: str | Path) -> ShortcutProbe:
        """Measure how much predictions depend on the mark of a shortcut, by adding it to images."""
        return probe_shortcut(self, self.read_images(*paths), self.data.get("shortcut"))

    def anatomy(self, images: ImageInput | Sequence[ImageInput]) -> Anatomy:
        """Return a ViT's patch filters, position similarities, and attention distances on a sample of images."""
        from regard.interpret.measure.anatomy import anatomy

        pixels = self.decode_images(sample_evenly(_expand_inputs(images), ANATOMY_IMAGES))
        return anatomy(self.model, self.normalise(pixels.to(self.runner.device)))

    def look_again(self, image: ImageInput, **options: Any) -> SecondLook:
        """Classify an image, then an enlarged crop of its evidence; options are those of `SecondLookOptions`."""
        return look_again(self, image, config.build(SecondLookOptions, options, where="options"))

    def look(self, image: ImageInput, *, about: str | Sequence[str] | None = None) -> Trace:
        """Classify an image and return the evidence for the most probable labels, after a label given in `about`.

        If `about` has several labels, return the evidence for these only.
        """
        questions = [about] if isinstance(about, str) else list(about or [])
        for label in questions:
            if label not in self.classes:
                raise ValueError(f"{label!r} is no label of {self.name}{suggest_name(label, self.classes)}")
        pixels = self.decode_images([image])
        [prediction] = self.predict_pixels([image], pixels)
        return explain_image(self, pixels, prediction, name=prediction.picture, questions=questions)

    def attention_names(self) -> list[str]:
        """Return the names of the weights that `look` returns: every attention, then every kind of map."""
        return [*attention_names(self.model), *methods(self.model)]

    def decode_images(self, images: Sequence[ImageInput]) -> UInt8[Tensor, "images channels size size"]:
        """Decode images for the model; an unreadable image is an error with its name."""
        return torch.from_numpy(decode_images(images, self.shape, patch=self.patch))

    @torch.no_grad()
    def logits(self, pixels: UInt8[Tensor, "batch channels size size"]) -> Float[Tensor, "batch classes"]:
        if not self.classes:
            remedy = "train one on labelled pictures with `regard train --pictures DIR --from` and this folder"
            raise ValueError(f"{self.name} reads pictures and has no head that would name them: {remedy}")
        return self.runner(self.normalise(pixels.to(self.runner.device))).float().cpu()

    def patch_items(self) -> list[Item]:
        """Return the model's patches as items, row by row, with their boxes as shares of the sides."""
        shape = self.model.config
        special_items = [Item(CLASS_TOKEN, special=True)] * (shape.before if isinstance(shape, ViTConfig) else 0)
        return special_items + patch_items(field(self.model))


def _expand_inputs(images: ImageInput | Sequence[ImageInput]) -> list[ImageInput]:
    """Return all images as a list: files, arrays, and the images in folders."""
    listed = list_inputs(images, PICTURE, verb="classify")
    return [
        image
        for listed_input in listed
        for image in (expand_folder(listed_input) if isinstance(listed_input, (str, Path)) else [listed_input])
    ]
