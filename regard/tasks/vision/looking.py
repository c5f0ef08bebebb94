"""Where a classifier of pictures looked: maps of the evidence for the labels asked about, and all its attention."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from regard.attention.hardware import device_of
from regard.attention.tap import Tap
from regard.config.words import suggest_name
from regard.interpret import judging, maps
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.models.spatial_transformer import SpatialTransformer, corners

if TYPE_CHECKING:
    from regard.tasks.vision.classifier import PictureClassifier

SHOWN = 3  # of the likeliest labels, beside the one asked about
ANSWERS = 5


def traced(classifier: PictureClassifier, given: Any, about: str | None = None) -> Trace:
    """Classify a picture and keep where each method finds what speaks for a label, and every attention."""
    model, classes = classifier.model, classifier.classes
    if about is not None and about not in classes:
        raise ValueError(f"{about!r} is no label of {classifier.name}{suggest_name(about, classes)}")
    bytes_ = classifier.opened([given])
    [sight] = classifier.sights([given], bytes_)
    labels = list(dict.fromkeys([*([about] if about else []), *list(sight.all)[:SHOWN]]))
    pixels = classifier.scaled(bytes_.to(device_of(model)))
    asked = torch.tensor([classes.index(label) for label in labels], device=pixels.device)
    several = pixels.expand(len(asked), -1, -1, -1)
    patches = classifier.patches()
    pad = len(patches) - math.prod(maps.field(model))
    looks = _attention(model, pixels, len(patches))
    first = dict[str, torch.Tensor]()
    for method in maps.methods(model):
        found = maps.evidence_maps(model, several, asked, method)
        first[method] = found[:1]
        shares = torch.nn.functional.pad(found.flatten(1).cpu(), (pad, 0))
        looks.append(Weights(method, "asked", "source", shares[None]))
    curves = [{"label": labels[0]} | one for one in _curves(classifier, judging.MapExamples(pixels, asked[:1]), first)]
    items = {"source": patches, "asked": [Item(label, word=number) for number, label in enumerate(labels)]}
    if any(each.query == "label" for each in looks):
        items["label"] = [Item(sight.label, word=0)]
    told_of = dict.fromkeys([*list(sight.all)[:ANSWERS], *labels])
    facts = {
        "text": sight.picture,
        "answer": sight.label,
        "probability": round(sight.probability, 6),
        "answers": [[label, round(sight.all[label], 6)] for label in told_of],
        "curves": curves,
        **_crops(model, pixels),
    }
    picture = bytes_[0].permute(1, 2, 0)
    return Trace(classifier.name, classifier.task, items, looks, facts, pictures={"source": picture})


def _curves(
    classifier: PictureClassifier, asked: judging.MapExamples, found: Mapping[str, torch.Tensor]
) -> Iterator[dict[str, Any]]:
    """How probable the label is while regions go or come, as each map ranks them, and at random: the control."""
    like = next(iter(found.values()))
    random = torch.rand(judging.ORDERS, *like.shape[1:], generator=torch.Generator().manual_seed(0)).to(like)
    several = judging.MapExamples(asked.pixels.expand(judging.ORDERS, -1, -1, -1), asked.labels.expand(judging.ORDERS))
    heat = classifier.temperature

    def removed(some: judging.MapExamples, ranks: torch.Tensor, *, put: bool) -> torch.Tensor:
        return judging.measure_removal(classifier.model, some, ranks, put=put, temperature=heat).mean(1)

    control = {name: removed(several, random, put=put) for name, put in judging.REMOVALS.items()}
    for method, ranks in found.items():
        for name, put in judging.REMOVALS.items():
            yield {"method": method} | judging.curve(name, removed(asked, ranks, put=put), control[name])


def _crops(model: Any, pixels: torch.Tensor) -> dict[str, Any]:
    """The corners of what spatial transformers cut out, as shares of the sides: from the top left of each crop on."""
    if not isinstance(model, SpatialTransformer) or not len(model.transformers):
        return {}
    with torch.no_grad():
        found = corners(model.looks(pixels)[0].float().cpu())
    return {"crops": [[[round(x, 6), round(y, 6)] for x, y in one] for one in found.tolist()]}


def _attention(model: Any, pixels: torch.Tensor, patches: int) -> list[Weights]:
    """The weights of every attention of a model that has some."""
    if not any(isinstance(module, Tap) for module in model.modules()):
        return []
    with watch(model) as seen, torch.no_grad():
        model(pixels)
    own = {name: seen[name][0].cpu() for name in seen}
    return [
        Weights(name, "source" if values.shape[-2] == patches else "label", "source", values)
        for name, values in own.items()
    ]
