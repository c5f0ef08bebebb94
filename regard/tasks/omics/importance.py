"""Which features an answer rests on, and whether that may be believed: without the first ones it should be worse.

Two ways. `gradient`: the gradient of the answer's log-odds times the feature, for any model. `along`, as MOMA's authors
have it: feature g pulls module i of its omic along a vector of the plane, `x_g w_gi`, and counts by the part of this
vector along the module's direction, as a share of the module's length, times the attention that the module gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.hardware import device_of
from regard.interpret.watch import watch
from regard.metrics.auc import mean_auc
from regard.models.omics import MOMA
from regard.tasks.omics.samples import Omics, Samples

AT_ONCE = 16  # samples whose vectors are held together
DRAWS, TOP = 20, 20
Way = Literal["gradient", "along"]


def importance(
    model: Any,
    values: Float[Tensor, "samples features"],
    present: Bool[Tensor, "samples omics"],
    way: Way = "gradient",
) -> Float[Tensor, "features"]:
    """The importance of every feature in the mean over samples; all add up to one."""
    device, of = device_of(model), {"gradient": gradient, "along": along}[way]
    total = torch.zeros(values.shape[1], dtype=torch.float64)
    for start in range(0, len(values), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        total += of(model, values[some].to(device), present[some].to(device)).double().sum(0).cpu()
    return (total / total.sum().clamp(min=1e-12)).float()


@torch.no_grad()
def along(
    model: MOMA, values: Float[Tensor, "samples features"], present: Bool[Tensor, "samples omics"]
) -> Float[Tensor, "samples features"]:
    """What each feature adds to the modules of its omic along their directions, by the attention they get."""
    vectors = model.vectors(values)
    lengths = vectors.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    attended = attention(model, values, present)
    found = []
    for omic, part in enumerate(values.split(model.config.inputs, -1)):
        pulls = feature_vectors(model, omic)
        direction = vectors[:, omic] / lengths[:, omic].square()
        shares = torch.einsum("mfk,bmk->bmf", pulls, direction).abs()
        found.append(torch.einsum("bm,bmf->bf", attended[:, omic], shares) * part.abs())
    there = present.repeat_interleave(torch.tensor(model.config.inputs, device=present.device), 1)
    return torch.cat(found, -1) * there


def feature_vectors(model: MOMA, omic: int) -> Float[Tensor, "modules features 2"]:
    """How one unit of each feature moves each module of an omic in the plane."""
    weight: Any = model.maps[omic].weight
    return weight.detach().unflatten(0, (-1, 2)).transpose(1, 2)


@torch.no_grad()
def attention(
    model: MOMA, values: Float[Tensor, "samples features"], present: Bool[Tensor, "samples omics"]
) -> Float[Tensor, "samples omics modules"]:
    """The weight that modules of other omics give to each module, in the mean over those that look."""
    with watch(model) as seen:
        model(values, present)
    weights = torch.stack(seen["attention"])  # (samples, omics, looking, modules)
    omics, modules = weights.shape[1], weights.shape[-1]
    by_omic = weights.unflatten(2, (omics, modules)).mean(3)  # (samples, omics, looking omics, modules)
    others = present[:, None] & ~torch.eye(omics, dtype=torch.bool, device=present.device)
    count = others.sum(-1, keepdim=True).clamp(min=1)
    mean = (by_omic * others[..., None]).sum(2) / count
    return torch.where(others.any(-1)[..., None], mean, torch.full_like(mean, 1 / modules))  # alone: all alike


def gradient(
    model: Any, values: Float[Tensor, "samples features"], present: Bool[Tensor, "samples omics"]
) -> Float[Tensor, "samples features"]:
    """The size of gradient times input, of the log-odds of each sample's answer."""
    given = values.clone().requires_grad_()
    with torch.enable_grad():
        chances = model(given, present).probabilities
        torch.logit(chances.max(-1).values, eps=1e-6).sum().backward(inputs=[given])
    assert given.grad is not None
    return (given.grad * values).abs()


@dataclass(frozen=True)
class Judgement:
    """The AUC with all features, without the most important ones, and without as many chosen at random."""

    whole: float
    without: float
    drawn: tuple[float, ...]

    @property
    def believable(self) -> bool:
        """Whether the AUC falls more than it does in the mean of the random draws."""
        return self.without < float(np.mean(self.drawn))

    def __str__(self) -> str:
        mean, low, high = np.mean(self.drawn), min(self.drawn), max(self.drawn)
        return f"{self.without:.3f} (random ones: {mean:.3f}, {low:.3f} to {high:.3f}; all features: {self.whole:.3f})"


def judge(
    model: Any, samples: Samples, omics: Omics, *, way: Way = "gradient", top: int = TOP, draws: int = DRAWS
) -> Judgement:
    """Take the top features away, which means putting their mean in their place, and as many random ones."""
    truths = samples.targets
    assert truths is not None
    values, present = torch.from_numpy(omics.scaled(samples)), torch.from_numpy(samples.present)
    if top > values.shape[1]:
        raise ValueError(f"{top} features cannot be taken away from {values.shape[1]}: choose fewer")
    order = importance(model, values, present, way).argsort(descending=True).numpy()
    generator = np.random.default_rng(0)

    def score(removed: np.ndarray) -> float:
        left = values.clone()
        left[:, removed] = 0.0
        device = device_of(model)
        with torch.no_grad():
            found = model(left.to(device), present.to(device)).probabilities
        return mean_auc(found.cpu().numpy(), truths)

    random = tuple(score(generator.choice(values.shape[1], top, replace=False)) for _ in range(draws))
    return Judgement(score(np.array([], np.int64)), score(order[:top]), random)
