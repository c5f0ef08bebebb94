"""Checks of evidence maps, for every method and for controls that know nothing about the image.

Pointing tests if the highest value of a map is on the object: in grids of four images, of which one has the label, or
in known boxes. Deletion removes regions, the highest first, and measures how soon the answer is lost; insertion adds
them to a blank image. A map that does not change when the weights are random says nothing about the model (Adebayo et
al. 2018). Controls are the centre of the image, a uniform map, a random map, and an untrained copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard import models
from regard.interpret.measure.maps import evidence_maps, methods, shares
from regard.metrics import maps as measures

STEPS = 10  # in which regions are removed or added
ORDERS = 16  # random orders, for the control
CHUNK = 64  # images per batch
REMOVALS = {"deletion": False, "insertion": True}  # whether regions are added
Checked = dict[str, Float[np.ndarray, "picture"]]


@dataclass(frozen=True)
class MapExamples:
    """Images, the label to explain in each, and the bounding box of its object, if known."""

    pixels: Float[Tensor, "picture channels height width"]
    labels: Int[Tensor, "picture"]
    boxes: Float[Tensor, "picture 4"] | None = None

    def chunks(self) -> list[MapExamples]:
        """Split the examples into batches."""
        boxes = [None] * len(self.labels) if self.boxes is None else self.boxes.split(CHUNK)
        return [
            MapExamples(*chunk)
            for chunk in zip(self.pixels.split(CHUNK), self.labels.split(CHUNK), boxes, strict=False)
        ]


def make_grids(pixels: Tensor, labels: Tensor, count: int, *, seed: int = 0) -> MapExamples:
    """Make grids of two by two images, of which one, at a random position, has the label to explain.

    There are `count` grids, or as many as images: each is the target at most once, so that the grids are independent.
    """
    draw = torch.Generator().manual_seed(seed)
    kinds = labels.unique().tolist()
    if len(kinds) == 1:
        raise ValueError("a grid needs pictures of several labels that the model labels right: these have one alone")
    others = {kind: (labels != kind).nonzero()[:, 0].tolist() for kind in kinds}

    def random_index(most: int) -> int:
        return int(torch.randint(most, (), generator=draw))

    grid_pixels, target_labels, boxes = [], [], []
    for number in torch.randperm(len(labels), generator=draw)[:count].tolist():
        kind, place = int(labels[number]), random_index(4)
        four = [others[kind][random_index(len(others[kind]))] for _ in range(4)]
        four[place] = number
        top, bottom = (torch.cat([pixels[a], pixels[b]], -1) for a, b in (four[:2], four[2:]))
        grid_pixels.append(torch.cat([top, bottom], -2))
        target_labels.append(kind)
        x, y = place % 2 / 2, place // 2 / 2
        boxes.append([x, y, x + 0.5, y + 0.5])
    return MapExamples(
        torch.stack(grid_pixels),
        torch.tensor(target_labels, device=pixels.device),
        torch.tensor(boxes, device=pixels.device),
    )


def double_input_size(model: Any) -> Any:
    """Return the same model for images of twice the height and width."""
    twice: Any = models.build(replace(model.config, size=2 * model.config.size))
    tensors = model.state_dict()
    twice.load_state_dict(twice.resize_weights(tensors))
    weight = next(model.parameters())
    return twice.to(weight.device, weight.dtype).train(model.training)


def reinitialise_model(model: Any, *, seed: int = 0) -> Any:
    """Return a model of the same shape with new random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        new = models.build(model.config)
    weight = next(model.parameters())
    return new.to(weight.device, weight.dtype).eval()


def judge_maps(
    model: Any, examples: MapExamples, names: Sequence[str] | None = None, *, seed: int = 0
) -> dict[str, Checked]:
    """Return deletion, insertion and change of each method and each control, for every image."""
    untrained_model, names = reinitialise_model(model, seed=seed), names or methods(model)
    draw = torch.Generator().manual_seed(seed)
    checks_by_method: dict[str, list[dict[str, Tensor]]] = {}
    for chunk in examples.chunks():
        model_maps, untrained_maps = (_maps_by_method(network, chunk, names) for network in (model, untrained_model))
        for name, maps in (model_maps | control_maps(model_maps[names[0]], untrained_maps[names[0]], draw)).items():
            checks = {
                check: measures.area_under_curve(measure_removal(model, chunk, maps, put=put))
                for check, put in REMOVALS.items()
            }
            if name in model_maps:
                checks["change"] = 1 - _rank_correlation(maps, untrained_maps[name])
            checks_by_method.setdefault(name, []).append(checks)
    return {
        name: {check: np.concatenate([part[check].cpu().numpy() for part in parts]) for check in parts[0]}
        for name, parts in checks_by_method.items()
    }


def measure_localisation(
    model: Any, examples: MapExamples, names: Sequence[str] | None = None, *, seed: int = 0
) -> dict[str, Checked]:
    """Return for every image how well the maps of each method and each control agree with the known boxes."""
    assert examples.boxes is not None
    untrained_model, names = reinitialise_model(model, seed=seed), names or methods(model)
    draw = torch.Generator().manual_seed(seed)
    maps_by_method: dict[str, list[Tensor]] = {}
    for chunk in examples.chunks():
        model_maps, untrained_maps = (
            _maps_by_method(model, chunk, names),
            _maps_by_method(untrained_model, chunk, names[:1]),
        )
        for name, maps in (model_maps | control_maps(model_maps[names[0]], untrained_maps[names[0]], draw)).items():
            maps_by_method.setdefault(name, []).append(maps.cpu())
    whole, boxes = {name: torch.cat(parts) for name, parts in maps_by_method.items()}, examples.boxes.cpu()
    checks = {"pointing": measures.pointing_game, "inside": measures.mass_inside, "overlap": measures.best_iou}
    return {name: {check: how(maps, boxes).numpy() for check, how in checks.items()} for name, maps in whole.items()}


def _maps_by_method(model: Any, examples: MapExamples, names: Sequence[str]) -> dict[str, Tensor]:
    return {name: evidence_maps(model, examples.pixels, examples.labels, name) for name in names}


@torch.no_grad()
def measure_removal(
    model: Any,
    examples: MapExamples,
    maps: Float[Tensor, "picture rows columns"],
    *,
    put: bool = False,
    temperature: float = 1.0,
) -> Float[Tensor, "step picture"]:
    """Return the label's probability while regions are removed, the highest first, or added to a blank image."""
    height, width = examples.pixels.shape[-2:]
    order = maps.flatten(1).argsort(dim=1, descending=True, stable=True).argsort(dim=1) / maps[0].numel()
    rank = torch.nn.functional.interpolate(order.reshape_as(maps)[:, None], (height, width))
    probabilities = []
    for step in range(STEPS + 1):
        first = rank < step / STEPS
        pixels = torch.where(first if put else ~first, examples.pixels, 0)  # 0 is the mean of normalised pixels
        probabilities.append(
            (model(pixels).float() / temperature).softmax(-1).gather(1, examples.labels[:, None])[:, 0]
        )
    return torch.stack(probabilities)


def curve(name: str, values: Float[Tensor, "step"], control: Float[Tensor, "step"]) -> dict[str, Any]:
    """Return a deletion or insertion curve for the page, with its control in random orders."""
    areas = [round(float(measures.area_under_curve(series[:, None])), 4) for series in (values, control)]
    lines = {"values": values.tolist(), "control": control.tolist()}
    return {"name": name, **lines, "area": areas[0], "control_area": areas[1]}


def control_maps(like: Tensor, untrained_maps: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
    """Return control maps of the same shape: centre, uniform, random, and those of an untrained model."""
    rows, columns = ((torch.arange(size) + 0.5) / size - 0.5 for size in like.shape[1:])
    centre = (1 - (rows[:, None].square() + columns.square()).sqrt()).expand_as(like).to(like)
    return {
        "centre": centre / centre[0].sum(),
        "uniform": torch.full_like(like, 1 / like[0].numel()),
        "random": shares(torch.rand(like.shape, generator=draw).to(like)),
        "untrained": untrained_maps,
    }


def _rank_correlation(maps: Tensor, others: Tensor) -> Float[Tensor, "picture"]:
    """Return Spearman's correlation of two maps per image, 0 if one is constant."""
    first, second = (_ranks(scores.flatten(1)) for scores in (maps, others))
    first, second = (scores - scores.mean(1, keepdim=True) for scores in (first, second))
    size = (first.square().sum(1) * second.square().sum(1)).sqrt()
    return torch.where(size > 0, (first * second).sum(1) / size.clamp(min=1e-12), 0.0)


def _ranks(values: Float[Tensor, "picture cell"]) -> Float[Tensor, "picture cell"]:
    """Return the ranks; equal values get their mean rank."""
    below = (values[:, :, None] > values[:, None]).sum(-1)
    same = (values[:, :, None] == values[:, None]).sum(-1)
    return below + (same - 1) / 2
