"""Maps of evidence: held against CAM, finite differences and products written out in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention.tap import Tap
from regard.interpret.measure import maps
from regard.models.vit import ViT, ViTConfig

POOLINGS = ("class", "mean", "attention")
SHAPE: dict[str, Any] = {"classes": 3, "size": 12, "patch": 4, "width": 8, "heads": 2, "hidden": 16, "depth": 3}


def vit(pooling: str = "class") -> ViT:
    """A small one in double precision whose weights say something."""
    torch.manual_seed(0)
    model = ViT(ViTConfig(**SHAPE, pooling=pooling)).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def pictures(count: int = 2) -> torch.Tensor:
    """The same at every call."""
    return torch.randn(count, 3, 12, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def watched(model: ViT, change: Callable[[int, torch.Tensor], torch.Tensor] | None = None) -> tuple[list[Any], Any]:
    """The weights of all attentions and the logits, the weights changed on the way if that is asked for."""
    found: list[torch.Tensor] = []

    def look(_: Any, __: Any, weights: torch.Tensor) -> torch.Tensor:
        weights = weights if change is None else change(len(found), weights)
        found.append(weights.detach())
        return weights

    handles = [each.register_forward_hook(look) for each in model.modules() if isinstance(each, Tap)]
    with torch.no_grad():
        logits = model(pictures())
    for handle in handles:
        handle.remove()
    return found, logits


def answering(pooling: str, total: np.ndarray, query: np.ndarray) -> np.ndarray:
    """What stands for the picture has of each patch."""
    if pooling == "attention":
        return (query @ total)[0]
    return total[0, 1:] if pooling == "class" else total.mean(0)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_model_taken_apart_answers_as_a_whole(pooling: str) -> None:
    model = vit(pooling)
    torch.testing.assert_close(model.late(model.early(pictures())), model(pictures()))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("method", maps.METHODS)
def test_a_map_is_shares_of_one_and_leaves_nothing_behind(method: str, pooling: str) -> None:
    model = vit(pooling).train()
    if method == "cam" and pooling != "mean":
        pytest.skip("needs a mean of regions")
    found = maps.evidence_maps(model, pictures(), torch.tensor([0, 2]), method)
    assert found.shape == (2, 3, 3)
    assert found.min() >= 0
    torch.testing.assert_close(found.sum((1, 2)), torch.ones(2))
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())
    assert not any(each._forward_hooks for each in model.modules())


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_picture_has_the_same_map_alone_and_among_others(pooling: str) -> None:
    model, seen, labels = vit(pooling), pictures(4), torch.tensor([0, 1, 2, 0])
    for method in maps.methods(model):
        whole = maps.evidence_maps(model, seen, labels, method)
        alone = torch.cat([maps.evidence_maps(model, seen[[i]], labels[[i]], method) for i in range(4)])
        torch.testing.assert_close(whole, alone)


def test_the_map_moves_with_the_question_where_the_method_hears_it() -> None:
    model = vit("mean")
    first, second = (
        {name: maps.evidence_maps(model, pictures(), torch.full((2,), label), name) for name in maps.METHODS}
        for label in (0, 1)
    )
    moved = {name for name in maps.METHODS if not torch.allclose(first[name], second[name])}
    assert moved == {"cam", "gradcam", "gradient"}


def test_under_a_mean_grad_cam_is_cam_up_to_a_factor() -> None:
    model, labels = vit("mean"), torch.tensor([1, 2])
    cam = maps.cam(model, pictures(), labels)
    torch.testing.assert_close(maps.gradcam(model, pictures(), labels), cam.clamp(min=0) / 9)
    bias = model.head.bias[labels]
    torch.testing.assert_close(cam.mean(1) + bias, model(pictures())[range(2), labels])


class Apart(nn.Module):
    """A model whose regions pass through a layer of their own, as the channels, rows and columns of a convolution."""

    def __init__(self, model: ViT) -> None:
        super().__init__()
        self.model, self.layer = model, nn.Identity()

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        tokens = self.model.early(pixels)
        others, regions = tokens.split([tokens.shape[1] - 9, 9], 1)
        passed = self.layer(regions.mT.unflatten(2, self.model.grid))
        return self.model.late(torch.cat([others, passed.flatten(2).mT], 1))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_grad_cam_is_captums(pooling: str) -> None:
    captum = pytest.importorskip("captum.attr", reason="captum is not installed")
    model, labels = vit(pooling), torch.tensor([2, 0])
    whole = Apart(model)
    theirs = captum.LayerGradCam(whole, whole.layer).attribute(pictures(), labels, relu_attributions=True)
    ours = maps.gradcam(model, pictures(), labels)
    torch.testing.assert_close(ours, theirs.detach().flatten(1), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_rollout_is_the_product_of_all_blocks(pooling: str) -> None:
    model = vit(pooling)
    weights, _ = watched(model)
    blocks = [each.numpy().mean(1) for each in weights[:3]]
    for picture in range(2):
        total = np.eye(blocks[0].shape[-1])
        for block in blocks:
            total = (block[picture] + np.eye(len(total))) / 2 @ total
        row = answering(pooling, total, weights[-1].numpy().mean(1)[picture])
        found = maps.rollout(model, pictures(), torch.tensor([0, 0]))[picture]
        np.testing.assert_allclose(found.numpy(), row, rtol=1e-12)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradient_weighted_attention_is_that_of_finite_differences(pooling: str) -> None:
    model, label, small = vit(pooling), 1, 1e-6
    model.blocks = model.blocks[1:]  # every weight is nudged by itself: two blocks are enough
    weights, _ = watched(model)
    slopes = [torch.zeros_like(each) for each in weights]
    for layer, each in enumerate(weights):
        for place in np.ndindex(*each.shape[1:]):

            def nudged(number: int, given: torch.Tensor, by: float, layer: int = layer, place: Any = place) -> Any:
                given = given.clone()
                if number == layer:
                    given[:, *place] += by
                return given

            up, down = (watched(model, lambda n, w, by=by: nudged(n, w, by))[1][:, label] for by in (small, -small))
            slopes[layer][:, *place] = (up - down) / (2 * small)
    weighed = [(a * b).clamp(min=0).mean(1).numpy() for a, b in zip(weights, slopes, strict=True)]
    found = maps.gradient(model, pictures(), torch.full((2,), label))
    for picture in range(2):
        total = np.eye(weighed[0].shape[-1])
        for block in weighed[:2]:
            total = total + block[picture] @ total
        total = total - np.eye(len(total))
        row = answering(pooling, total, weighed[-1][picture])
        np.testing.assert_allclose(found[picture].numpy(), row, rtol=1e-4, atol=1e-9)


def test_nothing_anywhere_is_the_same_everywhere() -> None:
    found = maps.shares(torch.tensor([[[-1.0, -2.0], [-3.0, -4.0]], [[1.0, -1.0], [3.0, 0.0]]]))
    assert found.tolist() == [[[0.25, 0.25], [0.25, 0.25]], [[0.25, 0.0], [0.75, 0.0]]]


def test_a_method_that_does_not_fit_is_named_with_those_that_do() -> None:
    with pytest.raises(
        ValueError, match=r"cam does not fit.*no mean of regions.*gradcam, attention, rollout, gradient"
    ):
        maps.evidence_maps(vit(), pictures(), torch.tensor([0, 0]), "cam")
    with pytest.raises(ValueError, match="'lime' is no method: choose one of cam"):
        maps.evidence_maps(vit(), pictures(), torch.tensor([0, 0]), "lime")
