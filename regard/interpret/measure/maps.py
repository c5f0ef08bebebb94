"""Where in a picture the evidence for a label lies: five methods on one scale, for any label that is asked about.

CAM (Zhou et al. 2016) weighs the last features by the label's weights in the head, behind global average pooling: the
head reads the mean of the features over the picture, so the logit is the mean of the map. Grad-CAM (Selvaraju et al.
2017) takes the label's gradient in their place, at the last features that all count: with a class token those before
the last block, since behind it the patches are not read any more. Attention is that of the last block, from what stands
for the picture; rollout (Abnar and Zuidema 2020) multiplies it through all blocks; gradient-weighted attention (Chefer
et al. 2021) first keeps of each weight what speaks for the label.
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
    """A picture classifier that can be taken apart at the last features of all regions."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of regions."""

    def early(self, pixels: Tensor) -> Float[Tensor, "picture token width"]:
        """The last features of which each still counts for the answer; those of the regions stand at the end."""

    def late(self, tokens: Tensor) -> Float[Tensor, "picture classes"]:
        """The answer from them."""


@runtime_checkable
class AveragesRegions(Protocol):
    """A picture classifier whose head may read the mean of the regions."""

    @property
    def averages(self) -> bool:
        """True if it does."""


def evidence_maps(model: Any, pixels: Pixels, labels: Labels, method: str = "gradcam") -> Maps:
    """How much of the evidence for its label lies in each region of a picture: shares of 1."""
    if method not in METHODS:
        raise ValueError(f"{method!r} is no method: choose one of {', '.join(METHODS)}")
    if method not in methods(model):
        fitting = ", ".join(methods(model))
        raise ValueError(f"{method} does not fit this model, which has {MISSING[method]}: choose one of {fitting}")
    training = model.training
    model.eval()
    try:
        maps = METHODS[method](model, pixels, labels).detach().float().unflatten(1, model.grid)
        if isinstance(model, SpatialTransformer):  # it reads crops, and a map is to lie on the picture
            maps = model.project_maps(maps, pixels)
    finally:
        model.train(training)
    return shares(maps)


def field(model: Any) -> tuple[int, int]:
    """Rows and columns of a map, which are those of the regions unless they are of a crop."""
    return model.field if isinstance(model, SpatialTransformer) else model.grid


def methods(model: Any) -> list[str]:
    """The methods that fit a model."""
    looks = bool(_taps(model))
    fits = {"cam": isinstance(model, AveragesRegions) and model.averages, "gradcam": True}
    return [name for name in METHODS if fits.get(name, looks)]


def shares(maps: Maps) -> Maps:
    """What is above 0 as shares of 1; where nothing is, every region has the same."""
    above = maps.clamp(min=0)
    total = above.sum((1, 2), keepdim=True)
    cells = maps.shape[1] * maps.shape[2]
    return torch.where(total > 0, above / total.clamp(min=torch.finfo(maps.dtype).tiny), 1 / cells)


def cam(model: Any, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """What each region adds to the logit of the label."""
    with torch.no_grad():
        return torch.einsum("brw,bw->br", model.regions(pixels), model.head.weight[labels])


def gradcam(model: RegionClassifier, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """The last features, each weighed by the mean gradient of the label's logit over the regions."""
    with torch.no_grad():
        tokens = model.early(pixels)
    with torch.enable_grad():
        tokens = tokens.detach().requires_grad_()
        [slopes] = torch.autograd.grad(_logits(model.late(tokens), labels), tokens)
    regions = model.grid[0] * model.grid[1]
    tokens, slopes = tokens[:, -regions:], slopes[:, -regions:]
    return torch.einsum("brw,bw->br", tokens.detach(), slopes.mean(1)).clamp(min=0)


def attention(model: Any, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """Where what stands for the picture looked last, mean of the heads; the same for every label."""
    with torch.no_grad():
        weights, _ = _weights(model, pixels)
    return _from_answer(model, weights[-1:], None)


def rollout(model: Any, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """Attention multiplied through all blocks, half of each what a token keeps of itself; the same for every label."""
    with torch.no_grad():
        weights, _ = _weights(model, pixels)
    blocks = [block_weights.mean(1) for block_weights in weights if block_weights.shape[-1] == block_weights.shape[-2]]
    return _from_answer(model, weights, rollout_layers(blocks))


def gradient(model: Any, pixels: Pixels, labels: Labels) -> Float[Tensor, "picture region"]:
    """Attention times its gradient for the label where that is above 0, added up through all blocks."""
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
    """The row of what stands for the picture: its token, a learned query, or the mean of all; without other tokens."""
    regions = model.grid[0] * model.grid[1]
    last = weights[-1].mean(1) if weights[-1].dim() == HEAD_AXES else weights[-1]
    if last.shape[-2] != last.shape[-1]:  # a learned query has looked at the tokens
        return (last if total is None else last @ total)[:, 0, -regions:]
    total = last if total is None else total
    return total[:, 0, -regions:] if total.shape[-1] > regions else total.mean(1)


def _weights(model: nn.Module, pixels: Tensor) -> tuple[list[Tensor], Tensor]:
    """The weights of every attention, (picture, heads, query, key), in the order they were made, and the logits."""
    with _capture_weights(model) as weights:
        logits = model(pixels)
    return weights, logits


@contextmanager
def _capture_weights(model: nn.Module) -> Iterator[list[Tensor]]:
    """Weights as they are made, not cut off from what they were made of."""
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
    """The sum of what was asked about; pictures do not meet, so each has its own gradient."""
    return logits.gather(1, labels[:, None]).sum()
