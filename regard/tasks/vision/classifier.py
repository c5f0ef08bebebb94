"""A trained picture classifier in use: what a picture shows, scores on labelled pictures, where it looked."""

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
from regard.data.pictures.album import Shape, note_enlarged, note_learnt_pictures, scales_of
from regard.data.pictures.augment import Augment, AugmentConfig
from regard.data.pictures.scatter import ScatterConfig
from regard.data.pictures.shelves import PictureFile
from regard.interpret.items import Item
from regard.interpret.maps import field, methods
from regard.interpret.trace import Trace
from regard.interpret.watch import attention_names
from regard.metrics.scores import Scores
from regard.models.vit import ViTConfig
from regard.tasks.inputs import PICTURE, InputKind, Inputs, list_inputs
from regard.tasks.supervised.calibration import read_temperature
from regard.tasks.supervised.prediction import Prediction
from regard.tasks.trained import DirectAnswers, Extra, NoOptions, describe_model, load_model, resolve_options
from regard.tasks.vision import preparing
from regard.tasks.vision.judgement import Judgement, JudgementOptions, judge
from regard.tasks.vision.opening import Given, called, opened, patch_size, patches, unfolded
from regard.tasks.vision.scoring import measured, scores
from regard.training.task import sample_evenly

if TYPE_CHECKING:
    from regard.interpret.anatomy import Anatomy
    from regard.tasks.vision.probing import Probe

CHUNK = 256  # pictures looked at at a time
LOOKED = 128  # pictures over which distances of attention are averaged
CLASS = "<class>"
AS_SCENES = "pictures as large as scenes are read as scenes: add -s scatter=true to make scenes of them"


@dataclass(frozen=True, kw_only=True)
class PicturePrediction(Prediction):
    """What a picture shows."""

    picture: str

    @property
    def subject(self) -> dict[str, Any]:
        """The name of the picture."""
        return {"picture": self.picture}


@dataclass(frozen=True, kw_only=True)
class EvidenceOptions:
    """What may be set when evidence in a picture is shown."""

    about: str | None = None
    """The label to show the evidence for; null: the likeliest ones."""


class PictureClassifier(DirectAnswers):
    """Says what a picture shows."""

    task: ClassVar[str] = "pictures"
    verb: ClassVar[str] = "classify"
    kind: ClassVar[str] = "a classifier of pictures"
    input_kind: ClassVar[InputKind] = PICTURE
    remembers: ClassVar[bool] = True
    Options: ClassVar[type] = NoOptions
    LookOptions: ClassVar[type] = EvidenceOptions
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
        self.scaled = Augment(AugmentConfig(), **scales_of(data), seed=0, device=device_of(model)).plain

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> PictureClassifier:
        """The one a checkpoint directory holds."""
        known = checkpoint.config
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        labels, temperature = [str(label) for label in known["labels"]], read_temperature(known)
        return cls(load_model(checkpoint, device), labels, known["data"], name, temperature)

    @property
    def inputs(self) -> Inputs:
        """Pictures of any size, and folders of them."""
        return Inputs(kind=self.input_kind, parse=self.parse, expand=unfolded)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """How far its maps may be believed, whether it learnt a shortcut, and what is inside a ViT."""
        extras = {
            "judge": Extra(self.judge_maps, JudgementOptions, "How far each kind of map may be believed."),
            "probe": Extra(self.probe, NoOptions, "Whether a mark in a corner decides the answer."),
            "anatomy": Extra(self.anatomy, NoOptions, "Patch filters, likeness of positions and reach of heads."),
        }
        if self.data.get("scatter"):
            extras["scenes"] = Extra(self.side, NoOptions, "The scenes of labelled pictures that it is scored on.")
        return extras

    def parse(self, text: str) -> Path:
        """An input is the path of a picture."""
        return Path(text)

    def answer(self, inputs: Sequence[Given], **options: Any) -> list[PicturePrediction]:
        """What each picture shows."""
        resolve_options(self, options)
        return self.classify(inputs)

    def classify(self, pictures: Given | Sequence[Given]) -> list[PicturePrediction]:
        """What each picture shows: files, folders of them, or arrays (height, width) or (height, width, 3)."""
        spread = _spread(pictures)
        found: list[PicturePrediction] = []
        for first in range(0, len(spread), CHUNK):
            some = spread[first : first + CHUNK]
            found += self.sights(some, self.opened(some))
        return found

    def sights(
        self, names: Sequence[Given], pixels: UInt8[Tensor, "picture channels size size"]
    ) -> list[PicturePrediction]:
        """What pictures show that are open already."""
        chances = (self.logits(pixels) / self.temperature).softmax(-1).tolist()
        rows = zip(names, chances, strict=True)
        return [PicturePrediction.rank(self.classes, row, picture=called(name)) for name, row in rows]

    def evaluate(
        self,
        *paths: str | Path,
        name: str | None = None,
        reject: float = 0.0,
        scatter: bool | None = None,
        **changes: Any,
    ) -> Scores:
        """Scores on labelled pictures; of a source with parts, on those to test on.

        Up to a share of `reject` may be unusable; `changes` are settings of the files, such as columns of a table. A
        model that was trained on scenes is scored on scenes made of the pictures, unless they are as large as scenes,
        or `scatter` says otherwise.
        """
        side = self.side(*paths, reject=reject, scatter=scatter, **changes)
        parts = [
            self.logits(torch.from_numpy(side.pixels(np.arange(first, min(first + CHUNK, len(side)))))).tolist()
            for first in range(0, len(side), CHUNK)
        ]
        notes = note_enlarged(self.patch, side.album) + note_learnt_pictures(side.album, self.data.get("learnt"))
        found = measured(side, self.classes, parts)
        return scores(name or self.name, self.task, side, found, self.temperature, notes=notes)

    def side(
        self, *paths: str | Path, reject: float | None = None, scatter: bool | None = None, **changes: Any
    ) -> preparing.Side:
        """Labelled pictures, read as the model reads them, or scenes made of them, the same every time."""
        if not paths:
            raise ValueError(f"{self.name} is measured on labelled pictures: name a folder or file of them")
        own = {**(self.data.get("file") or {}), **changes}
        files = [config.build(PictureFile, {**own, "path": str(path)}, where="file") for path in paths]
        if not (known := self.data.get("scatter")) or scatter is False:
            return preparing.read(files, self.shape, self.classes, reject=reject)
        from regard.tasks.vision import scattering

        how = config.build(ScatterConfig, known, where="data.scatter")
        shape = self.shape._replace(size=int(self.data["size"]), channels=int(self.data["channels"]))
        if scatter is None and scattering.are_scenes(files, shape.size, how):
            found = preparing.read(files, self.shape, self.classes, reject=reject)
            return replace(found, album=replace(found.album, notes=(*found.album.notes, AS_SCENES)))
        return scattering.read(files, shape, self.classes, how, reject=reject)

    def judge_maps(self, *paths: str | Path, **options: Any) -> Judgement:
        """How far each kind of map may be believed, beside controls; options are those of `JudgementOptions`."""
        return judge(self, paths, config.build(JudgementOptions, options, where="options"))

    def probe(self, *paths: str | Path) -> Probe:
        """Whether answers depend on the mark of a shortcut: accuracy without it, and with it on other pictures."""
        from regard.tasks.vision.probing import probed

        return probed(self, paths)

    def anatomy(self, pictures: Given | Sequence[Given]) -> Anatomy:
        """Inside a ViT: patch filters, likeness of positions, and how far heads look in some of these pictures."""
        from regard.interpret.anatomy import anatomy

        some = self.opened(sample_evenly(_spread(pictures), LOOKED))
        return anatomy(self.model, self.scaled(some.to(self.runner.device)))

    def look(self, given: Given, *, about: str | None = None) -> Trace:
        """Classify a picture and keep where the evidence lies for the likeliest labels, or one that is asked about."""
        from regard.tasks.vision.looking import traced

        return traced(self, given, about)

    def attention_names(self) -> list[str]:
        """Return the names of what `look` shows: every attention, then every kind of map."""
        return [*attention_names(self.model), *methods(self.model)]

    def opened(self, pictures: Sequence[Given]) -> UInt8[Tensor, "pictures channels size size"]:
        """Pictures as the model's bytes; one that is none is named."""
        return torch.from_numpy(opened(pictures, self.shape, patch=self.patch))

    @torch.no_grad()
    def logits(self, pixels: UInt8[Tensor, "batch channels size size"]) -> Float[Tensor, "batch classes"]:
        if not self.classes:
            remedy = "train one on labelled pictures with `regard train --pictures DIR --from` and this folder"
            raise ValueError(f"{self.name} reads pictures and has no head that would name them: {remedy}")
        return self.runner(self.scaled(pixels.to(self.runner.device))).float().cpu()

    def patches(self) -> list[Item]:
        """What is read, row by row, with its box as shares of the sides."""
        shape = self.model.config
        before = [Item(CLASS, special=True)] * (shape.before if isinstance(shape, ViTConfig) else 0)
        return before + patches(field(self.model))


def _spread(pictures: Given | Sequence[Given]) -> list[Given]:
    """One by one: files, arrays, and what lies in folders."""
    listed = list_inputs(pictures, PICTURE, verb="classify")
    return [one for each in listed for one in (unfolded(each) if isinstance(each, (str, Path)) else [each])]
