"""Evidence maps: which regions of an image speak for a label, by five methods on one scale.

CAM (Zhou et al. 2016) weights the last features by the label's weights in the head, where the head reads their average
over the image (global average pooling), so that the logit is the mean of the map. Grad-CAM (Selvaraju et al. 2017) uses
the label's gradient instead, at the last features that all influence the answer: with a class token those before the
last block, since after it the patches are not used. Attention is that of the last block, from the image's token, a
learned query or the mean of all tokens; rollout (Abnar and Zuidema 2020) multiplies it through all blocks;
gradient-weighted attention (Chefer et al. 2021) first multiplies each weight by its positive gradient for the label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.tap import Tap
from regard.interpret.measure.patterns import rollout_layers
from regard.models.spatial_transformer import SpatialTransformer

Maps = Float[Tensor, "picture rows columns"]
Pixels = Float[Tensor, "picture channels height width"]
Labels = Int[Tensor, "picture"]
HEAD_AXES = 4  # axes of weights: pictures, heads, queries, keys


@runtime_checkable
class RegionClassifier(Protocol):
    """An image classifier that can be split at the last features of all regions."""

    @property
    def grid(self) -> tuple[int, int]:
        """Return rows and columns of regions."""

    def early(self, pixels: Tensor) -> Float[Tensor, "picture token width"]:
        """Return the last features that all influence the answer; those of the regions are at the end."""

    def late(self, tokens: Tensor) -> Float[Tensor, "picture classes"]:
        """Return the logits of these features."""


@runtime_checkable
class AveragesRegions(Protocol):
    """An image classifier whose head may read the mean of the regions."""

    @property
    def averages(self) -> bool:
        """Return True if the head reads the mean of the regions."""


def evidence_maps(model: Any, pixels: Pixels, labels: Labels, method: str = "gradcam") -> Maps:
    """Return the share of each region of an image in the evidence for its label; shares sum to 1."""
    if method not in METHODS:
        raise ValueError(f"{method!r} is no method: choose one of {', '.join(METHODS)}")
    if method not in methods(model):
        fitting = ", ".join(methods(model))
        raise ValueError(f"{method} does not fit this model, which has {MISSING[method]}: choose one of {fitting}")
    training = model.training
    model.eval()
    try:
        maps = METHODS[method](model, pixels, labels).detach().float().unflatten(1, model.grid)
        if isinstance(model, SpatialTransformer):  # the maps are of crops and are projected to the image
            maps = model.project_maps(maps, pixels)
    finally:
        model.train(training)
    return shares(maps)


def field(model: Any) -> tuple[int, int]:
    """Return rows and columns of a map: those of the regions, or of the image if the model reads crops."""
    return model.field if isinstance(model, SpatialTransformer) else model.grid


def methods(model: Any) -> list[str]:
    """Return the names of the methods that a model supports."""
    looks = bool(_taps(model))
    fits = {"cam": isinstance(model, AveragesRegions) and model.averages, "gradcam": True}
    return [name for name in METHODS if fits.get(name, looks)]


def shares(maps: Maps) -> Maps:
    """Normalise the positive values to sum to 1; uniform if there are none."""
    above = maps.clamp(min=0)
    total = above.sum((1, 2), keepdim=True)
    cells = maps.shape[1] * maps.shape[2]
    return torch.where(total > 0, above / total.clamp(min=torch.finfo(maps.dtype).tiny), 1 / cells)


def cam(model: Any, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """Return the contribution of each region to the logit of the label."""
    with torch.no_grad():
        return torch.einsum("brw,bw->br", model.regions(pixels), model.head.weight[labels])


def gradcam(model: RegionClassifier, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """Return the last features weighted by the label's gradient, averaged over the regions."""
    with torch.no_grad():
        tokens = model.early(pixels)
    with torch.enable_grad():
        tokens = tokens.detach().requires_grad_()
        [slopes] = torch.autograd.grad(_logits(model.late(tokens), labels), tokens)
    regions = model.grid[0] * model.grid[1]
    tokens, slopes = tokens[:, -regions:], slopes[:, -regions:]
    return torch.einsum("brw,bw->br", tokens.detach(), slopes.mean(1)).clamp(min=0)


def attention(model: Any, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """Return the last attention of the image's token, averaged over heads; the same for every label."""
    with torch.no_grad():
        weights, _ = _weights(model, pixels)
    return _from_answer(model, weights[-1:], None)


def rollout(model: Any, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """Return attention multiplied through all blocks, mixed equally with the identity; the same for every label."""
    with torch.no_grad():
        weights, _ = _weights(model, pixels)
    blocks = [block_weights.mean(1) for block_weights in weights if block_weights.shape[-1] == block_weights.shape[-2]]
    return _from_answer(model, weights, rollout_layers(blocks))


def gradient(model: Any, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """Return attention times its positive gradient for the label, accumulated through all blocks."""
    with torch.enable_grad():
        weights, logits = _weights(model, pixels)
        slopes = torch.autograd.grad(_logits(logits, labels), weights)
    weighed = [(slope * weight).clamp(min=0).mean(1).detach() for slope, weight in zip(slopes, weights, strict=True)]
    blocks = [layer for layer in weighed if layer.shape[-1] == layer.shape[-2]]
    identity = torch.eye(blocks[0].shape[-1], dtype=blocks[0].dtype, device=blocks[0].device)
    total = identity.expand_as(blocks[0])
    for block in blocks:
        total = total + block @ total
    return _from_answer(model, weighed, total - identity)


METHODS: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "cam": cam,
    "gradcam": gradcam,
    "attention": attention,
    "rollout": rollout,
    "gradient": gradient,
}
MISSING = {"cam": "no mean of regions under its head"} | dict.fromkeys(
    ("attention", "rollout", "gradient"), "no attention"
)


def _from_answer(model: Any, weights: Sequence[Tensor], total: Tensor | None) -> Tensor:
    """Return the row of the image's token, of a learned query, or the mean of all rows, without other tokens."""
    regions = model.grid[0] * model.grid[1]
    last = weights[-1].mean(1) if weights[-1].dim() == HEAD_AXES else weights[-1]
    if last.shape[-2] != last.shape[-1]:  # a learned query attends to the tokens
        return (last if total is None else last @ total)[:, 0, -regions:]
    total = last if total is None else total
    return total[:, 0, -regions:] if total.shape[-1] > regions else total.mean(1)


def _weights(model: nn.Module, pixels: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the weights of every attention, (picture, heads, query, key), in order of computation, and the logits."""
    with _capture_weights(model) as weights:
        logits = model(pixels)
    return weights, logits


@contextmanager
def _capture_weights(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the weights as they are computed, with their gradients attached."""
    captured: list[Tensor] = []
    handles = [tap.register_forward_hook(lambda _, __, weights: captured.append(weights)) for tap in _taps(model)]
    try:
        with torch.compiler.set_stance("force_eager"):
            yield captured
    finally:
        for handle in handles:
            handle.remove()


def _taps(model: nn.Module) -> list[Tap]:
    return [module for module in model.modules() if isinstance(module, Tap)]


def _logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the sum of the labels' logits; images are independent, so each has its own gradient."""
    return logits.gather(1, labels[:, None]).sum()
