"""Scores of generated images beside real ones: distance, agreement with the label, variety, nearest neighbours.

The distance is the Fréchet distance in the features of a classifier trained on such images. Only distances measured
with the same classifier can be compared: published ones are measured in the features of another network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard import checkpoint, config
from regard.attention.hardware import device_of
from regard.data.examples import sample_evenly
from regard.data.images import image_dataset
from regard.data.images.album import FINE, Shape, shape_of
from regard.data.images.labelled_images import LabelledImages
from regard.data.images.sources import PictureFile, has_test_part, shelve
from regard.metrics.made import frechet_distance, nearest_neighbours, variety
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import mean_statistics
from regard.tasks import FACES
from regard.tasks.gan.task import mean_shades
from regard.tasks.image_model import IMAGE_CLASSIFICATION, ImageModel
from regard.training.run import Run

IMAGES_PER_BATCH = 256  # images per batch
NEIGHBOUR_IMAGES = 500  # generated images for which the nearest training image is searched
NEIGHBOURS_SHOWN = 5
Bytes = UInt8[Tensor, "images channels size size"]


@runtime_checkable
class Generator(Protocol):
    """A trained generator of labelled images."""

    task: ClassVar[str]
    name: str
    model: Any
    classes: list[str]
    data: Mapping[str, Any]
    shape: Shape

    def noise(self, count: int, seed: int) -> Tensor:
        """Return the noise of `count` images."""

    def pixels(self, noise: Tensor, labels: Tensor) -> Bytes:
        """Return the bytes of the images of this noise and these classes."""


@dataclass(frozen=True)
class ImageFeatures:
    """Features of images and the labels predicted by a classifier."""

    features: Float[np.ndarray, "images features"]
    labels: list[str]
    """Predicted label of each image; empty without a classifier."""


def score_generator(
    generator: Generator,
    files: Sequence[str | Path],
    *,
    classifier: str | Path | None,
    train: str | Path | None,
    count: int,
    seed: int,
    name: str,
) -> Scores:
    """Compare generated images, with their classes in the proportions of the real images, with those of the files."""
    real, training = _read_real_images(generator, files, train)
    extract = _feature_extractor(generator, classifier)
    numbers = np.resize(real.labels[np.argsort(real.marks, kind="stable")], count)  # in random order, by digest
    labels = [generator.classes[number] for number in numbers]
    pixels = generator.pixels(generator.noise(count, seed), torch.from_numpy(numbers))
    generated, reference = extract(pixels), extract(_sample_pixels(real, count))
    if training is None:
        lowest_distance = _distance_of_halves(reference)
    else:
        lowest_distance = frechet_distance(extract(_sample_pixels(training, count)).features, reference.features)
    real_labels = real.labels[np.array(sample_evenly(range(len(real)), count))]
    generated_variety = variety(_shade_features(pixels), numbers)
    real_variety = variety(_shade_features(_sample_pixels(real, count)), real_labels)
    metrics = {
        "Frechet distance": mean_statistics([frechet_distance(generated.features, reference.features)], lower=True),
        "real against real": mean_statistics([lowest_distance], lower=True),
    }
    if generated.labels:
        pairs = zip(labels, generated.labels, strict=True)
        metrics["asked class, %"] = mean_statistics([100.0 * (label == predicted) for label, predicted in pairs])
    metrics["variety"] = mean_statistics([generated_variety / max(real_variety, 1e-6)])
    measures, tables = {"made pictures": f"{count:,}"}, list[Table]()
    if training is not None:
        neighbour_measures, tables = _nearest_neighbours(pixels[:NEIGHBOUR_IMAGES], labels, real, training)
        measures |= neighbour_measures
    features = "mean shades of regions" if classifier is None else f"features of {classifier}"
    against = "two halves of the real pictures" if training is None else "training pictures"
    notes = [f"Frechet distance in {features}, not comparable with others.", f"Real against real: {against}."]
    examples = [
        Judged(index, f"{label}, seed {seed}", label, predicted, float(label == predicted))
        for index, (label, predicted) in enumerate(zip(labels, generated.labels, strict=False), start=1)
    ]
    return Scores(
        name, generator.task, metrics, examples, measures=measures, tables=tables, notes=notes,
        unit="picture" if examples else "comparison", counted="right",
    )  # fmt: skip


def _read_real_images(
    generator: Generator, files: Sequence[str | Path], train: str | Path | None
) -> tuple[LabelledImages, LabelledImages | None]:
    """Return the images to compare with, and the training images if they are known."""
    if not files:
        raise ValueError(f"{generator.name} is measured beside real pictures: name a folder or file of them")
    file_settings = {name: value for name, value in (generator.data.get("file") or {}).items() if name != "path"}
    sources = [config.build(PictureFile, {**file_settings, "path": str(path)}, where="file") for path in files]
    if train is None and not all(has_test_part(str(path)) for path in files):
        return _read_images(generator, sources, "test"), None
    training_sources = sources
    if train is not None:
        training_sources = [config.build(PictureFile, {**file_settings, "path": str(train)}, where="train")]
    return _read_images(generator, sources, "test"), _read_images(generator, training_sources, "train")


def _read_images(generator: Generator, files: Sequence[PictureFile], part: Any) -> LabelledImages:
    """Read labelled images; raise an error for another size or depth than in training, as resizing changes them."""
    shelves = [shelve(file, part=part) for file in files]
    shape = shape_of(shelves, None, None, generator.shape.fit)[:2]
    trained_shape = tuple(generator.data.get("natural", generator.shape[:2]))
    are_resized = min(shape[0], trained_shape[0]) > FINE  # both are resized photographs
    if shape[1] != trained_shape[1] or (shape != trained_shape and not are_resized):
        raise ValueError(
            f"{shelves[0].name} has pictures of {_describe_shape(shape)}, and {generator.name} was trained on "
            f"{_describe_shape(trained_shape)}: compare with pictures like those"
        )
    return image_dataset.load_labelled_images(shelves, generator.shape, generator.classes)


def _describe_shape(shape: Sequence[Any]) -> str:
    size, channels, *_ = shape
    return f"{size} x {size} {'grey' if channels == 1 else 'colour'} pixels"


def _feature_extractor(generator: Generator, path: str | Path | None) -> Callable[[Bytes], ImageFeatures]:
    """Return a function that computes features: the input of the classifier's head, or mean shades without one."""
    if path is None:
        return lambda pixels: ImageFeatures(_shade_features(pixels), [])
    folder = Path(path)
    directory = folder if (folder / "manifest.json").exists() else Run(folder).usable
    if directory is None:
        raise ValueError(f"classifier={path} is no trained model: train one on such pictures with `regard train`")
    saved = checkpoint.read(directory)
    if saved.config.get("task") != IMAGE_CLASSIFICATION:
        raise ValueError(
            f"classifier={path} is no classifier of pictures: it was trained for {saved.config.get('task')}"
        )
    scorer = FACES[IMAGE_CLASSIFICATION].load(saved, device=device_of(generator.model))
    if scorer.shape[:2] != generator.shape[:2]:
        raise ValueError(
            f"classifier={path} reads pictures of {_describe_shape(scorer.shape)}, and {generator.name} makes some "
            f"of {_describe_shape(generator.shape)}: train one on such pictures"
        )
    if unknown_labels := [label for label in generator.classes if label not in scorer.classes]:
        raise ValueError(
            f"classifier={path} does not know {unknown_labels[0]!r}: train one on the labels of {generator.name}"
        )
    return lambda pixels: _classifier_features(scorer, pixels)


def _classifier_features(scorer: ImageModel, pixels: Bytes) -> ImageFeatures:
    """Return the inputs of a classifier's head and its predicted labels."""
    head_inputs: list[Tensor] = []

    def keep_input(_: Any, inputs: tuple[Tensor, ...]) -> None:
        head_inputs.append(inputs[0].float().cpu())

    handle = scorer.model.head.register_forward_pre_hook(keep_input)
    try:
        logits = torch.cat([scorer.logits(chunk) for chunk in pixels.split(IMAGES_PER_BATCH)])
    finally:
        handle.remove()
    labels = [scorer.classes[number] for number in logits.argmax(-1).tolist()]
    return ImageFeatures(torch.cat(head_inputs).flatten(1).numpy(), labels)


def _sample_pixels(images: LabelledImages, count: int) -> Bytes:
    """Return `count` images, evenly spaced over the dataset."""
    return torch.from_numpy(images.pixels(np.array(sample_evenly(range(len(images)), count))))


def _shade_features(pixels: Bytes) -> Float[np.ndarray, "images features"]:
    """Return mean shades, as in the evaluation during training."""
    return mean_shades(pixels.float() / 127.5 - 1).numpy()


def _distance_of_halves(images: ImageFeatures) -> float:
    """Return the distance between two halves of the images; with half as many images it is biased upwards."""
    if len(images.features) < 4:
        return 0.0
    return frechet_distance(images.features[::2], images.features[1::2])


def _nearest_neighbours(
    pixels: Bytes, labels: Sequence[str], real: LabelledImages, training: LabelledImages
) -> tuple[dict[str, str], list[Table]]:
    """Measure distances from generated images to their nearest training images, and the same for unseen real images."""
    training_pixels = _flat_shades(torch.from_numpy(training.pixels(np.arange(len(training)))))
    nearest, distances = nearest_neighbours(_flat_shades(pixels), training_pixels)
    _, real_distances = nearest_neighbours(_flat_shades(_sample_pixels(real, len(pixels))), training_pixels)
    names = [training.place(int(number)).rsplit("/", 1)[-1] for number in nearest]
    rows = [
        (str(number + 1), labels[number], names[number], f"{distances[number]:.3f}")
        for number in np.argsort(distances, kind="stable")[:NEIGHBOURS_SHOWN].tolist()
    ]
    medians = f"{np.median(distances):.3f} from made, {np.median(real_distances):.3f} from real pictures"
    title = f"Nearest training pictures, the nearest {len(rows)} of {len(distances)}"
    measures = {"nearest training picture": f"{medians} (median, RMS of shades)"}
    return measures, [Table(title, ("made", "asked", "training picture", "RMS"), rows)]


def _flat_shades(pixels: Bytes) -> Float[np.ndarray, "images values"]:
    """Return the pixels of each image as a vector of values from 0 to 1."""
    return pixels.flatten(1).float().numpy() / 255
