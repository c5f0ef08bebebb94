"""Importance of features, and a check of it: removing the most important ones should lower the AUC.

There are two methods. `gradient`: the gradient of the answer's log-odds times the feature, for any model. `along`, as
in the paper on MOMA: feature g moves module i of its omic by a vector of the plane, `x_g w_gi`, and counts by the part
of this vector along the module's direction, as a share of the module's length, times the attention to the module.
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

AT_ONCE = 16  # samples per batch
DRAWS, TOP = 20, 20
Way = Literal["gradient", "along"]


def importance(
    model: Any,
    values: Float[Tensor, "samples features"],
    present: Bool[Tensor, "samples omics"],
    way: Way = "gradient",
) -> Float[Tensor, "features"]:
    """Return the importance of every feature, averaged over samples and normalised to sum to 1."""
    device, method = device_of(model), {"gradient": gradient, "along": along}[way]
    total = torch.zeros(values.shape[1], dtype=torch.float64)
    for start in range(0, len(values), AT_ONCE):
        batch = slice(start, start + AT_ONCE)
        total += method(model, values[batch].to(device), present[batch].to(device)).double().sum(0).cpu()
    return (total / total.sum().clamp(min=1e-12)).float()


@torch.no_grad()
def along(
    model: MOMA, values: Float[Tensor, "samples features"], present: Bool[Tensor, "samples omics"]
) -> Float[Tensor, "samples features"]:
    """Return the contribution of each feature along the modules of its omic, weighted by the attention to them."""
    vectors = model.vectors(values)
    lengths = vectors.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    attended = module_attention(model, values, present)
    weights = []
    for omic, part in enumerate(values.split(model.config.inputs, -1)):
        unit_vectors = feature_vectors(model, omic)
        direction = vectors[:, omic] / lengths[:, omic].square()
        shares = torch.einsum("mfk,bmk->bmf", unit_vectors, direction).abs()
        weights.append(torch.einsum("bm,bmf->bf", attended[:, omic], shares) * part.abs())
    is_present = present.repeat_interleave(torch.tensor(model.config.inputs, device=present.device), 1)
    return torch.cat(weights, -1) * is_present


def feature_vectors(model: MOMA, omic: int) -> Float[Tensor, "modules features 2"]:
    """Return the vector by which one unit of each feature moves each module of an omic in the plane."""
    weight: Any = model.maps[omic].weight
    return weight.detach().unflatten(0, (-1, 2)).transpose(1, 2)


@torch.no_grad()
def module_attention(
    model: MOMA, values: Float[Tensor, "samples features"], present: Bool[Tensor, "samples omics"]
) -> Float[Tensor, "samples omics modules"]:
    """Return the mean attention weight that modules of other present omics give to each module."""
    with watch(model) as record:
        model(values, present)
    weights = torch.stack(record["attention"])  # (samples, omics, queries, modules)
    omics, modules = weights.shape[1], weights.shape[-1]
    by_omic = weights.unflatten(2, (omics, modules)).mean(3)  # (samples, omics, query omics, modules)
    others = present[:, None] & ~torch.eye(omics, dtype=torch.bool, device=present.device)
    count = others.sum(-1, keepdim=True).clamp(min=1)
    mean = (by_omic * others[..., None]).sum(2) / count
    return torch.where(others.any(-1)[..., None], mean, torch.full_like(mean, 1 / modules))  # alone: uniform


def gradient(
    model: Any, values: Float[Tensor, "samples features"], present: Bool[Tensor, "samples omics"]
) -> Float[Tensor, "samples features"]:
    """Return the absolute value of gradient times input, for the log-odds of each sample's answer."""
    inputs = values.clone().requires_grad_()
    with torch.enable_grad():
        chances = model(inputs, present).probabilities
        torch.logit(chances.max(-1).values, eps=1e-6).sum().backward(inputs=[inputs])
    assert inputs.grad is not None
    return (inputs.grad * values).abs()


@dataclass(frozen=True)
class Judgement:
    """AUC with all features, without the most important ones, and without as many random ones."""

    all_features: float
    without_top: float
    without_random: tuple[float, ...]

    @property
    def believable(self) -> bool:
        """True if the AUC without the most important features is below the mean of the random draws."""
        return self.without_top < float(np.mean(self.without_random))

    def __str__(self) -> str:
        mean, low, high = np.mean(self.without_random), min(self.without_random), max(self.without_random)
        random = f"random ones: {mean:.3f}, {low:.3f} to {high:.3f}"
        return f"{self.without_top:.3f} ({random}; all features: {self.all_features:.3f})"


def judge(
    model: Any, samples: Samples, omics: Omics, *, way: Way = "gradient", top: int = TOP, draws: int = DRAWS
) -> Judgement:
    """Measure the AUC with the top features replaced by their means, and with as many random ones replaced."""
    truths = samples.targets
    assert truths is not None
    values, present = torch.from_numpy(omics.scale(samples)), torch.from_numpy(samples.present)
    if top > values.shape[1]:
        raise ValueError(f"{top} features cannot be taken away from {values.shape[1]}: choose fewer")
    order = importance(model, values, present, way).argsort(descending=True).numpy()
    generator = np.random.default_rng(0)

    def score(removed: np.ndarray) -> float:
        values_left = values.clone()
        values_left[:, removed] = 0.0
        device = device_of(model)
        with torch.no_grad():
            probabilities = model(values_left.to(device), present.to(device)).probabilities
        return mean_auc(probabilities.cpu().numpy(), truths)

    random = tuple(score(generator.choice(values.shape[1], top, replace=False)) for _ in range(draws))
    return Judgement(score(np.array([], np.int64)), score(order[:top]), random)
