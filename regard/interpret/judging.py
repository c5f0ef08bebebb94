"""May one believe a map? Checks with numbers, for every method beside controls that know nothing of the picture.

Pointing asks whether a map is highest where the thing is: in grids of four pictures, of which one is asked about, or in
boxes that are known. Deletion takes regions away, the highest first, and asks how soon the answer is lost; insertion
puts them into a blank picture. A map that stays as it is when the weights are made random says nothing about the model
(Adebayo et al. 2018). Controls are the centre of the picture, every place alike, chance, and an untrained copy.
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
from regard.interpret.maps import mapped, methods, shares
from regard.metrics import maps as measures

STEPS = 10  # in which regions are taken away or put in
ORDERS = 16  # random ones, in which they go or come to compare with
CHUNK = 64  # pictures looked at at a time
REMOVALS = {"deletion": False, "insertion": True}  # whether regions are put in
Checked = dict[str, Float[np.ndarray, "picture"]]


@dataclass(frozen=True)
class Asked:
    """Pictures, the label asked about in each, and the box in which it is, if that is known."""

    pixels: Float[Tensor, "picture channels height width"]
    labels: Int[Tensor, "picture"]
    boxes: Float[Tensor, "picture 4"] | None = None

    def chunks(self) -> list[Asked]:
        """Some at a time."""
        boxes = [None] * len(self.labels) if self.boxes is None else self.boxes.split(CHUNK)
        return [Asked(*each) for each in zip(self.pixels.split(CHUNK), self.labels.split(CHUNK), boxes, strict=False)]


def grids(pixels: Tensor, labels: Tensor, count: int, *, seed: int = 0) -> Asked:
    """Grids of two by two pictures, one of which, at a place drawn, alone has the label that is asked about.

    There are so many, or as many as pictures: each is asked about once at most, for grids are to be independent.
    """
    draw = torch.Generator().manual_seed(seed)
    kinds = labels.unique().tolist()
    if len(kinds) == 1:
        raise ValueError("a grid needs pictures of several labels that the model labels right: these have one alone")
    others = {kind: (labels != kind).nonzero()[:, 0].tolist() for kind in kinds}

    def drawn(most: int) -> int:
        return int(torch.randint(most, (), generator=draw))

    seen, asked, boxes = [], [], []
    for number in torch.randperm(len(labels), generator=draw)[:count].tolist():
        kind, place = int(labels[number]), drawn(4)
        four = [others[kind][drawn(len(others[kind]))] for _ in range(4)]
        four[place] = number
        top, bottom = (torch.cat([pixels[a], pixels[b]], -1) for a, b in (four[:2], four[2:]))
        seen.append(torch.cat([top, bottom], -2))
        asked.append(kind)
        left, up = place % 2 / 2, place // 2 / 2
        boxes.append([left, up, left + 0.5, up + 0.5])
    return Asked(
        torch.stack(seen), torch.tensor(asked, device=pixels.device), torch.tensor(boxes, device=pixels.device)
    )


def doubled(model: Any) -> Any:
    """The same model for pictures of twice the height and width."""
    twice: Any = models.build(replace(model.config, size=2 * model.config.size))
    tensors = model.state_dict()
    twice.load_state_dict(twice.resize_weights(tensors))
    weight = next(model.parameters())
    return twice.to(weight.device, weight.dtype).train(model.training)


def untrained(model: Any, *, seed: int = 0) -> Any:
    """A model of the same shape with new weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        new = models.build(model.config)
    weight = next(model.parameters())
    return new.to(weight.device, weight.dtype).eval()


def judged(model: Any, asked: Asked, names: Sequence[str] | None = None, *, seed: int = 0) -> dict[str, Checked]:
    """Deletion, insertion and change of each method and each control, for every picture."""
    other, names = untrained(model, seed=seed), names or methods(model)
    draw = torch.Generator().manual_seed(seed)
    found: dict[str, list[dict[str, Tensor]]] = {}
    for some in asked.chunks():
        own, new = (_mapped(each, some, names) for each in (model, other))
        for name, maps in (own | controls(own[names[0]], new[names[0]], draw)).items():
            checks = {check: measures.area(removal(model, some, maps, put=put)) for check, put in REMOVALS.items()}
            if name in own:
                checks["change"] = 1 - _alike(maps, new[name])
            found.setdefault(name, []).append(checks)
    return {
        name: {check: np.concatenate([part[check].cpu().numpy() for part in parts]) for check in parts[0]}
        for name, parts in found.items()
    }


def located(model: Any, asked: Asked, names: Sequence[str] | None = None, *, seed: int = 0) -> dict[str, Checked]:
    """Whether the maps of each method and each control lie in the boxes that are known, for every picture."""
    assert asked.boxes is not None
    other, names = untrained(model, seed=seed), names or methods(model)
    draw = torch.Generator().manual_seed(seed)
    found: dict[str, list[Tensor]] = {}
    for some in asked.chunks():
        own, new = _mapped(model, some, names), _mapped(other, some, names[:1])
        for name, maps in (own | controls(own[names[0]], new[names[0]], draw)).items():
            found.setdefault(name, []).append(maps.cpu())
    whole, boxes = {name: torch.cat(parts) for name, parts in found.items()}, asked.boxes.cpu()
    checks = {"pointing": measures.pointing, "inside": measures.inside, "overlap": measures.overlap}
    return {name: {check: how(maps, boxes).numpy() for check, how in checks.items()} for name, maps in whole.items()}


def _mapped(model: Any, asked: Asked, names: Sequence[str]) -> dict[str, Tensor]:
    return {name: mapped(model, asked.pixels, asked.labels, name) for name in names}


@torch.no_grad()
def removal(
    model: Any,
    asked: Asked,
    maps: Float[Tensor, "picture rows columns"],
    *,
    put: bool = False,
    temperature: float = 1.0,
) -> Float[Tensor, "step picture"]:
    """How probable the label is while regions go, the highest first, or come into a blank picture."""
    height, width = asked.pixels.shape[-2:]
    order = maps.flatten(1).argsort(dim=1, descending=True, stable=True).argsort(dim=1) / maps[0].numel()
    rank = torch.nn.functional.interpolate(order.reshape_as(maps)[:, None], (height, width))
    found = []
    for step in range(STEPS + 1):
        first = rank < step / STEPS
        pixels = torch.where(first if put else ~first, asked.pixels, 0)  # 0 is the mean of normalised pixels
        found.append((model(pixels).float() / temperature).softmax(-1).gather(1, asked.labels[:, None])[:, 0])
    return torch.stack(found)


def curve(name: str, values: Float[Tensor, "step"], control: Float[Tensor, "step"]) -> dict[str, Any]:
    """Deletion or insertion as a page draws it, beside its control in random orders."""
    areas = [round(float(measures.area(each[:, None])), 4) for each in (values, control)]
    lines = {"values": values.tolist(), "control": control.tolist()}
    return {"name": name, **lines, "area": areas[0], "control_area": areas[1]}


def controls(like: Tensor, untrained: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
    """Maps of the same shape by somebody who knows nothing of the picture, or whose weights know nothing."""
    rows, columns = ((torch.arange(size) + 0.5) / size - 0.5 for size in like.shape[1:])
    centre = (1 - (rows[:, None].square() + columns.square()).sqrt()).expand_as(like).to(like)
    return {
        "centre": centre / centre[0].sum(),
        "uniform": torch.full_like(like, 1 / like[0].numel()),
        "random": shares(torch.rand(like.shape, generator=draw).to(like)),
        "untrained": untrained,
    }


def _alike(maps: Tensor, others: Tensor) -> Float[Tensor, "picture"]:
    """Spearman's correlation of two maps, 0 where one is the same everywhere."""
    first, second = (_ranks(each.flatten(1)) for each in (maps, others))
    first, second = (each - each.mean(1, keepdim=True) for each in (first, second))
    size = (first.square().sum(1) * second.square().sum(1)).sqrt()
    return torch.where(size > 0, (first * second).sum(1) / size.clamp(min=1e-12), 0.0)


def _ranks(values: Float[Tensor, "picture cell"]) -> Float[Tensor, "picture cell"]:
    """Ranks, equal values sharing the mean of theirs."""
    below = (values[:, :, None] > values[:, None]).sum(-1)
    same = (values[:, :, None] == values[:, None]).sum(-1)
    return below + (same - 1) / 2
