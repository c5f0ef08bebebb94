"""Explanation of an image classification: maps of the evidence for some labels, and all attention weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.attention.hardware import device_of
from regard.attention.tap import Tap
from regard.interpret.items import Item, Weights
from regard.interpret.measure import map_checks, maps
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.models.spatial_transformer import SpatialTransformer, corners
from regard.tasks.image_model import ImageModel
from regard.tasks.supervised.prediction import Prediction

EXPLAINED_LABELS = 3  # most probable labels, beside a requested one
LISTED_ANSWERS = 5


def explain_image(
    classifier: ImageModel,
    image_bytes: UInt8[Tensor, "1 channels size size"],
    prediction: Prediction,
    *,
    name: str,
    questions: Sequence[str] = (),
) -> Trace:
    """Return the prediction with the evidence maps of each method for some labels, and all attention weights."""
    model, classes = classifier.model, classifier.classes
    likeliest = list(prediction.all)
    labels = list(dict.fromkeys([*questions, *(likeliest[:EXPLAINED_LABELS] if len(questions) < 2 else [])]))
    pixels = classifier.normalise(image_bytes.to(device_of(model)))
    class_numbers = torch.tensor([classes.index(label) for label in labels], device=pixels.device)
    copies = pixels.expand(len(class_numbers), -1, -1, -1)
    patches = classifier.patch_items()
    special_count = len(patches) - math.prod(maps.field(model))
    weights = _watch_attention(model, pixels, len(patches))
    first_maps = dict[str, Tensor]()
    for method in maps.methods(model):
        evidence = maps.evidence_maps(model, copies, class_numbers, method)
        first_maps[method] = evidence[:1]
        shares = torch.nn.functional.pad(evidence.flatten(1).cpu(), (special_count, 0))
        weights.append(Weights(method, "asked", "source", shares[None]))
    example = map_checks.MapExamples(pixels, class_numbers[:1])
    curves = [{"label": labels[0]} | curve for curve in _removal_curves(classifier, example, first_maps)]
    items = {"source": patches, "asked": [Item(label, word=number) for number, label in enumerate(labels)]}
    if any(attention.query == "label" for attention in weights):
        items["label"] = [Item(prediction.label, word=0)]
    listed = dict.fromkeys([*likeliest[:LISTED_ANSWERS], *labels])
    facts = {
        "text": name,
        "answer": prediction.label,
        "probability": round(prediction.probability, 6),
        "answers": [[label, round(prediction.all[label], 6)] for label in listed],
        "curves": curves,
        **_crop_corners(model, pixels),
        **({"questions": labels} if len(questions) > 1 else {}),
    }
    source = image_bytes[0].permute(1, 2, 0)
    return Trace(classifier.name, classifier.task, items, weights, facts, pictures={"source": source})


def _removal_curves(
    classifier: ImageModel, example: map_checks.MapExamples, first_maps: Mapping[str, Tensor]
) -> Iterator[dict[str, Any]]:
    """Measure the label's probability while regions are deleted or inserted, as ranked by each map and at random."""
    any_map = next(iter(first_maps.values()))
    random = torch.rand(map_checks.ORDERS, *any_map.shape[1:], generator=torch.Generator().manual_seed(0)).to(any_map)
    copies = map_checks.MapExamples(
        example.pixels.expand(map_checks.ORDERS, -1, -1, -1), example.labels.expand(map_checks.ORDERS)
    )

    def measure(examples: map_checks.MapExamples, ranks: Tensor, *, put: bool) -> Tensor:
        temperature = classifier.temperature
        return map_checks.measure_removal(classifier.model, examples, ranks, put=put, temperature=temperature).mean(1)

    controls = {name: measure(copies, random, put=put) for name, put in map_checks.REMOVALS.items()}
    for method, ranks in first_maps.items():
        for name, put in map_checks.REMOVALS.items():
            yield {"method": method} | map_checks.curve(name, measure(example, ranks, put=put), controls[name])


def _crop_corners(model: Any, pixels: Float[Tensor, "1 channels size size"]) -> dict[str, Any]:
    """Return the corners of a spatial transformer's crops as shares of the sides, starting at the top left."""
    if not isinstance(model, SpatialTransformer) or not len(model.transformers):
        return {}
    with torch.no_grad():
        crops = corners(model.looks(pixels)[0].float().cpu())
    return {"crops": [[[round(x, 6), round(y, 6)] for x, y in crop] for crop in crops.tolist()]}


def _watch_attention(model: Any, pixels: Float[Tensor, "1 channels size size"], patch_count: int) -> list[Weights]:
    """Return the weights of every attention, if the model has any."""
    if not any(isinstance(module, Tap) for module in model.modules()):
        return []
    with watch(model) as seen_weights, torch.no_grad():
        model(pixels)
    weights = {name: (seen_weights[name][0].cpu(), seen_weights.visible(name)[0].cpu()) for name in seen_weights}
    return [
        Weights(name, "source" if values.shape[-2] == patch_count else "label", "source", values, visible)
        for name, (values, visible) in weights.items()
    ]
