"""Inside a ViT: filters, positions and distances are those that numpy computes by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.interpret.draw import plots
from regard.interpret.measure import anatomy
from regard.models.resnet import ResNet, ResNetConfig
from regard.models.vit import ViT, ViTConfig

SMALL = {"classes": 3, "size": 12, "patch": 4, "width": 16, "heads": 2, "hidden": 16, "depth": 2}


def made(**more) -> ViT:
    torch.manual_seed(0)
    model = ViT(ViTConfig(**{**SMALL, **more})).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return model


def test_filters_are_the_principal_components_of_the_patch_embedding() -> None:
    model = made()
    found = anatomy.anatomy(model, torch.randn(1, 3, 12, 12))
    flat = model.patches.weight.detach().double().numpy()
    values, vectors = np.linalg.eigh(np.cov(flat.T, bias=True))
    values, vectors = values[::-1], vectors[:, ::-1].T
    strong = 15  # sixteen filters span fifteen directions around their mean
    assert found.filters.shape == (16, 3, 4, 4)
    for ours, theirs in zip(found.filters[:strong].flatten(1).double().numpy(), vectors[:strong], strict=True):
        assert abs(ours @ theirs) == pytest.approx(1, abs=1e-4)
        assert ours[np.abs(ours).argmax()] > 0
    np.testing.assert_allclose(found.explained[:strong], (values / values.sum())[:strong], atol=1e-5)
    pixels = torch.zeros(1, 3, 12, 12)
    pixels[0, :, 4:8, 8:] = found.filters[0]  # a filter is laid out as patches are
    seen = (model.patches(pixels)[0, 5] - model.patches.bias).detach().double().numpy()
    np.testing.assert_allclose(seen, flat @ found.filters[0].flatten().double().numpy(), atol=1e-4)


def test_likeness_is_the_cosine_of_positions_without_that_of_the_class_token() -> None:
    model = made()
    table = model.positions.embed(torch.arange(10)).detach().double().numpy()[1:]
    unit = table / np.sqrt((table**2).sum(1, keepdims=True))
    found = anatomy.anatomy(model, torch.randn(1, 3, 12, 12))
    np.testing.assert_allclose(found.likeness, unit @ unit.T, atol=1e-5)
    assert anatomy.anatomy(made(positions="rotary"), torch.randn(1, 3, 12, 12)).likeness is None


@pytest.mark.parametrize("pooling", ["class", "mean", "attention"])
def test_distances_are_those_of_the_weights_patch_by_patch(pooling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anatomy, "CHUNK", 2)
    model, pixels = made(pooling=pooling), torch.randn(3, 3, 12, 12)
    found = anatomy.anatomy(model, pixels)
    assert found.distances.shape == (2, 2)
    own = []
    with anatomy.watch(model) as seen, torch.no_grad():
        model(pixels)
    first = int(pooling == "class")
    for block in range(2):
        weights = torch.stack(seen[f"blocks.{block}.attention"]).double().numpy()
        for head in range(2):
            ways = []
            for picture in range(3):
                for query in range(9):
                    row = weights[picture, head, first + query, first:]
                    apart = [4 * math.hypot(query // 3 - key // 3, query % 3 - key % 3) for key in range(9)]
                    ways.append(sum(w * a for w, a in zip(row, apart, strict=True)) / sum(row))
            own.append(np.mean(ways))
    np.testing.assert_allclose(found.distances.flatten(), own, rtol=1e-5)
    even = np.mean([4 * math.hypot(a // 3 - b // 3, a % 3 - b % 3) for a in range(9) for b in range(9)])
    assert found.even == pytest.approx(even)
    assert found.pictures == 3


def test_a_head_that_looks_at_itself_goes_nowhere_and_an_even_one_as_far_as_all() -> None:
    apart = anatomy.steps((2, 3))
    assert anatomy.distance(torch.eye(6), apart).item() == 0
    assert anatomy.distance(torch.full((6, 6), 0.1), apart).item() == pytest.approx(float(apart.mean()))
    assert apart[0].tolist() == pytest.approx([0, 1, 2, 1, math.sqrt(2), math.sqrt(5)])


@pytest.mark.parametrize("more", [{}, {"positions": "none", "channels": 1}, {"channels": 2}])
def test_they_are_drawn(more: dict[str, object]) -> None:
    model = made(**more)
    found = anatomy.anatomy(model, torch.randn(1, model.config.channels, 12, 12))
    figure = plots.anatomy(found, title="a model")
    figure.canvas.draw()
    left, middle, right, *_ = figure.axes
    assert left.get_title().startswith("patch filters")
    assert bool(middle.images) == (found.likeness is not None)
    drawn = np.concatenate([each.get_offsets() for each in right.collections])
    np.testing.assert_allclose(drawn[:, 1], found.distances.flatten())
    if found.likeness is not None:
        mosaic = np.asarray(middle.images[0].get_array())
        assert mosaic.shape == (3 * 4 - 1, 3 * 4 - 1)
        np.testing.assert_allclose(mosaic[4:7, 8:11], found.likeness[5].reshape(3, 3), atol=1e-6)


def test_what_has_no_patches_has_no_such_anatomy() -> None:
    shape = ResNetConfig(classes=2, size=8, widths=(4,), depths=(1,), stem="small")
    with pytest.raises(ValueError, match="resnet reads no patches, and this is the anatomy of a ViT"):
        anatomy.anatomy(ResNet(shape), torch.randn(1, 3, 8, 8))
