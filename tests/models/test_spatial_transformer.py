"""Spatial transformers: the identity at the start, sampling by the sum it stands for, and looks that are learnt."""

from __future__ import annotations

import math
from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard import cost
from regard.models.parts.batch_norm import norms, settle
from regard.models.spatial_transformer import (
    Localiser,
    Places,
    SpatialTransformer,
    SpatialTransformerConfig,
    compose_maps,
    corners,
    sample,
)

TINY: dict[str, Any] = {"classes": 4, "channels": 1, "size": 20, "searching": (4, 6), "widths": (4, 8), "hidden": 12}
every = pytest.mark.parametrize("count", [0, 1, 2])
both = pytest.mark.parametrize("search", ["spots", "attention"])


def build(**settings: Any) -> SpatialTransformer:
    return SpatialTransformer(SpatialTransformerConfig(**{**TINY, **settings}))


def bilinear(picture: np.ndarray, maps: np.ndarray, side: int) -> np.ndarray:
    """`sum over all pixels of U(n, m) max(0, 1 - |x - m|) max(0, 1 - |y - n|)`, equation 5 of the paper, in float64."""
    channels, rows, columns = picture.shape
    out = np.zeros((channels, side, side))
    for i, j in product(range(side), range(side)):
        x, y = maps @ ((2 * j + 1) / side - 1, (2 * i + 1) / side - 1, 1.0)
        x, y = ((x + 1) * columns - 1) / 2, ((y + 1) * rows - 1) / 2
        near = np.maximum(0, 1 - abs(y - np.arange(rows)))[:, None] * np.maximum(0, 1 - abs(x - np.arange(columns)))
        out[:, i, j] = (picture * near).sum((1, 2))
    return out


def test_sampling_is_the_bilinear_sum():
    torch.manual_seed(0)
    pixels = torch.randn(4, 2, 7, 9, dtype=torch.float64)
    maps = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=torch.float64) + 0.6 * torch.randn(4, 2, 3, dtype=torch.float64)
    found = sample(pixels, maps, 6).numpy()
    for n in range(4):
        np.testing.assert_allclose(found[n], bilinear(pixels[n].numpy(), maps[n].numpy(), 6), rtol=1e-10, atol=1e-12)


def test_its_gradient_is_that_of_the_sum():
    torch.manual_seed(1)
    pixels = torch.randn(2, 1, 5, 5, dtype=torch.float64, requires_grad=True)
    maps = (0.8 * torch.eye(2, 3, dtype=torch.float64) + 0.05).repeat(2, 1, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: sample(a, b, 4), (pixels, maps))


@pytest.mark.parametrize("rounds", [1, 3])
@torch.no_grad()
def test_it_begins_with_the_identity(rounds):
    model = build(transformers=2, crop=20, rounds=rounds).eval()
    pixels = torch.randn(3, 1, 20, 20)
    crops = model.crops(pixels)
    assert crops.shape == (3, 2, 1, 20, 20)
    for number in range(2):
        torch.testing.assert_close(crops[:, number], pixels, rtol=1e-4, atol=1e-5)
    whole = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    torch.testing.assert_close(corners(model.looks(pixels)), whole.expand(3, 2, 4, 2))


@torch.no_grad()
def test_a_second_look_is_at_the_first_crop_and_corrects_it():
    torch.manual_seed(0)
    once, twice = (build(search="attention", rounds=rounds).double().eval() for rounds in (1, 2))
    torch.nn.init.normal_(once.transformers[0].map.weight, std=0.1)
    twice.load_state_dict(once.state_dict())
    pixels = torch.randn(3, 1, 20, 20, dtype=torch.float64)
    first = once.looks(pixels)[:, 0]
    second = once.looks(sample(pixels, first, 20))[:, 0]
    assert (second - first).abs().max() > 1e-3
    whole = [np.vstack([one, [0, 0, 1]]) @ np.vstack([two, [0, 0, 1]]) for one, two in zip(first, second, strict=True)]
    np.testing.assert_allclose(twice.looks(pixels)[:, 0], np.array(whole)[:, :2], atol=1e-12)
    torch.testing.assert_close(compose_maps(first, second), twice.looks(pixels)[:, 0])


@torch.no_grad()
def test_a_coarse_pixel_of_several_points_is_the_mean_of_what_it_covers():
    torch.manual_seed(2)
    pixels = torch.randn(3, 1, 20, 20)
    whole = build(crop=10, points=2).eval().crops(pixels)  # the identity: the whole picture, half as fine
    assert torch.allclose(whole[:, 0], F.avg_pool2d(pixels, 2), atol=1e-6)


@torch.no_grad()
def test_a_map_cuts_out_turns_and_moves():
    pixels = torch.arange(16.0).view(1, 1, 4, 4)
    corner = torch.tensor([[[0.5, 0, -0.5], [0, 0.5, -0.5]]])  # the upper left quarter
    torch.testing.assert_close(sample(pixels, corner, 2), pixels[:, :, :2, :2])
    torch.testing.assert_close(corners(corner)[0], torch.tensor([[0.0, 0], [0.5, 0], [0.5, 0.5], [0, 0.5]]))
    turn = torch.tensor([[[math.cos(math.pi / 2), -1.0, 0], [1.0, 0, 0]]])
    torch.testing.assert_close(sample(pixels, turn, 4), pixels.rot90(1, (2, 3)), rtol=1e-4, atol=1e-4)


@both
@every
@torch.no_grad()
def test_sizes_are_those_of_the_config(count, search):
    model = build(transformers=count, search=search).eval()
    pixels = torch.randn(2, 1, 20, 20)
    assert sum(each.numel() for each in model.parameters()) == model.config.parameters == cost.parameters(model.config)
    assert model(pixels).shape == (2, 4)
    rows, columns = model.grid
    assert model.regions(pixels).shape == (2, rows * columns, model.width)
    torch.testing.assert_close(model(pixels[1:]), model(pixels)[1:])


def test_attention_says_where_it_finds_something():
    places = Places(3).double()
    maps = torch.zeros(2, 3, 5, 8, dtype=torch.float64)
    maps[0, 1, 4, 2] = maps[1, 1, 0, 7] = 1.0
    with torch.no_grad():
        places.query.copy_(torch.tensor([0.0, 200.0, 0.0]).expand(4, 1, 3))
    found, where = places(maps)
    torch.testing.assert_close(found, torch.tensor([0.0, 1, 0]).double().expand(2, 4, 3))
    expected = [[2 * 2.5 / 8 - 1, 2 * 4.5 / 5 - 1], [2 * 7.5 / 8 - 1, 2 * 0.5 / 5 - 1]]
    torch.testing.assert_close(where, torch.tensor(expected).double()[:, None].expand(2, 4, 2))


def marks(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A cross or a ring somewhere on an empty picture."""
    generator = torch.Generator().manual_seed(seed)
    cross = torch.tensor([[1.0, 0, 1], [0, 1, 0], [1, 0, 1]])
    shapes = torch.stack([cross, 1 - cross])
    labels = torch.randint(2, (count,), generator=generator)
    places = torch.randint(17, (count, 2), generator=generator)
    pixels = torch.zeros(count, 1, 20, 20)
    for picture, label, (row, column) in zip(pixels, labels, places, strict=True):
        picture[0, row : row + 3, column : column + 3] = shapes[label]
    return pixels, labels


@both
@every
def test_it_learns_and_every_weight_is_asked(count, search):
    torch.manual_seed(2)
    model = build(transformers=count, classes=2, search=search).train()
    pixels, labels = marks(64, 0)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(60):
        loss = F.cross_entropy(model(pixels), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        settle(norms(model), veto=torch.tensor(False))
    assert loss < 0.3
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
    looks = [module for module in model.modules() if isinstance(module, Localiser)]
    assert len(looks) == count
    assert all(each.map.weight.abs().sum() > 0 for each in looks), "nobody has learnt where to look"
    if count:
        assert model.looks(pixels).std(0).amax() > 1e-3, "it looks at the same place in every picture"
    if count == 2:
        first, second = looks
        assert not torch.equal(first.map.bias, second.map.bias), "two transformers look to the same places"


def test_what_a_body_is_made_of_is_taken_over_with_it():
    free = {"classes", "name", "dropout"}  # what another model may have otherwise
    assert (
        set(SpatialTransformerConfig().backbone.settings)
        == {each.name for each in fields(SpatialTransformerConfig)} - free
    )


def test_bad_sizes_are_refused_in_a_line():
    with pytest.raises(ValueError, match="a picture of 4 pixels is too small to look around in"):
        build(size=4)
    with pytest.raises(ValueError, match="need a width for one convolution at least"):
        build(widths=())
    assert build(transformers=0, searching=()).config.side == 20


def test_units_that_are_far_below_zero_for_every_picture_still_learn_where_to_look():
    finder = Localiser(1, (4,))
    torch.nn.init.normal_(finder.map.weight)
    torch.nn.init.constant_(finder.hidden.bias, -3.0)
    torch.nn.init.normal_(finder.hidden.weight, std=1e-3)
    finder(torch.rand(5, 1, 20, 20)).square().sum().backward()
    assert finder.hidden.weight.grad.abs().amax() > 0, "no unit learns any more"
