"""Scattered pictures: functions of seed and place, laid as asked, among scraps that are pieces of others."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.data.images.scattering import ScatterConfig, draw_companions, label_sums, scenes

STILL: dict[str, Any] = {"turn": 0.0, "scale": (1.0, 1.0), "scraps": (0, 0)}
PLACES = torch.arange(40)


def noise(scenes: int, pictures: int, size: int = 28) -> torch.Tensor:
    shape = (scenes, pictures, 1, size, size)
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("count", [1, 2])
def test_a_scene_depends_on_seed_and_place_alone(count: int) -> None:
    how = ScatterConfig(count=count)
    pictures = noise(40, 1 + how.others)
    found = scenes(how, pictures, PLACES, seed=3)
    assert found.shape == (40, 1, 60, 60)
    some = torch.tensor([31, 4, 17])
    assert torch.equal(scenes(how, pictures[some], PLACES[some], seed=3), found[some])
    assert not torch.equal(scenes(how, pictures, PLACES, seed=4), found)
    assert not torch.equal(scenes(how, pictures, PLACES + 40, seed=3), found)


def test_companions_depend_on_seed_and_place_and_are_others() -> None:
    how = ScatterConfig(count=2)
    own = torch.arange(40) % 5
    found = draw_companions(how, own, PLACES, 5, seed=3)
    assert found.shape == (40, 18)
    assert torch.equal(found[:, 0], own)
    assert not (found[:, 1:] == own[:, None]).any()
    assert set(found.flatten().tolist()) == set(range(5))
    assert torch.equal(draw_companions(how, own[7:9], PLACES[7:9], 5, seed=3), found[7:9])


def test_a_picture_that_is_only_moved_keeps_its_light() -> None:
    pictures = noise(40, 1)
    found = scenes(ScatterConfig(**STILL), pictures, PLACES, seed=0)
    torch.testing.assert_close(found.float().sum((1, 2, 3)), pictures.float().sum((1, 2, 3, 4)), rtol=0.01, atol=0.0)
    middles = torch.stack([found.float().sum((1, 2)).argmax(-1), found.float().sum((1, 3)).argmax(-1)])
    assert middles.float().std(1).min() > 4, "they lie all over the scene"


def test_scale_and_turn_are_those_asked_for() -> None:
    dots = torch.zeros(40, 1, 1, 28, 28, dtype=torch.uint8)
    dots[..., 13:15, 6:8], dots[..., 13:15, 20:22] = 255, 120  # 14 apart, the brighter one on the left
    found = scenes(ScatterConfig(turn=45.0, scale=(0.8, 1.2), scraps=(0, 0)), dots, PLACES, seed=1).double()[:, 0]
    turns, lengths = [], []
    for scene in found:
        bright = (scene == scene.max()).nonzero()[0]
        rows, columns = torch.meshgrid(*[torch.arange(60.0)] * 2, indexing="ij")
        near = ((rows - bright[0]) ** 2 + (columns - bright[1]) ** 2) < 25
        ends = [
            torch.stack([(part * rows).sum(), (part * columns).sum()]) / part.sum()
            for part in (scene * near, scene * ~near)
        ]
        down, across = (ends[1] - ends[0]).tolist()
        turns.append(math.degrees(math.atan2(down, across)))
        lengths.append(math.hypot(down, across) / 14)
    assert max(map(abs, turns)) < 47
    assert min(turns) < -20 < 20 < max(turns)
    assert 0.77 < min(lengths) < 0.9 < 1.1 < max(lengths) < 1.23


def test_scraps_are_squares_of_other_pictures() -> None:
    how = ScatterConfig(scraps=(1, 1), turn=0.0)
    pictures = noise(20, 2).clamp(min=1)
    pictures[:, 0] = 0  # the whole one is black
    for scene, (_, other) in zip(scenes(how, pictures, PLACES[:20], seed=2)[:, 0], pictures[:, :, 0], strict=True):
        rows, columns = scene.nonzero().T
        torn = scene[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert torn.shape == (8, 8)
        windows = other.unfold(0, 8, 1).unfold(1, 8, 1)
        assert (windows == torn).all((2, 3)).sum() == 1
    several = scenes(ScatterConfig(scraps=(2, 5)), pictures[:, [0, 1, 1, 1, 1, 1]], PLACES[:20], seed=2)
    areas = (several > 0).sum((1, 2, 3))
    assert areas.min() > 64 * 1.2
    assert 64 * 3 < areas.max() <= 64 * 5


def test_two_pictures_lie_beside_each_other() -> None:
    how = ScatterConfig(count=2, turn=0.0, scale=(0.7, 1.0), scraps=(0, 0))
    pictures = torch.zeros(3, 500, 2, 1, 28, 28, dtype=torch.uint8)
    pictures[:2, ..., 5:-5, 5:-5] = 255  # ink, and blank edges
    pictures[0, :, 1], pictures[1, :, 0] = 0, 0
    pictures[2] = pictures[:2].amax(0)
    one, other, both = (scenes(how, each, torch.arange(500), seed=0).double().sum((1, 2, 3)) for each in pictures)
    assert ((one + other - both) / both < 0.01).double().mean() > 0.97, "hardly any covers another"


def test_sums_are_all_that_may_come_up() -> None:
    assert label_sums([str(digit) for digit in range(10)], 2) == [str(total) for total in range(19)]
    assert label_sums(["1", "10"], 3) == ["3", "12", "21", "30"]
    with pytest.raises(ValueError, match="'cat' is no whole number: give pictures labelled by numbers"):
        label_sums(["0", "cat"], 2)
    with pytest.raises(ValueError, match="more than 1,000 sums of labels: give fewer"):
        label_sums([str(2**n) for n in range(50)], 2)


@pytest.mark.parametrize(
    ("settings", "size", "line"),
    [
        (
            {"size": 30},
            28,
            "data.scatter.size is 30, and pictures of 28 become up to 34 pixels: give data.scatter.size=34",
        ),
        ({"scrap": 30}, 28, "data.scatter.scrap is 30, and pictures of 28 have 22 pixels to tear it from: give 22"),
        ({"scale": (1.2, 0.7)}, 28, "scale goes from 1.2 to 0.7: give the smaller number first"),
        ({"scraps": (9, 3)}, 28, "scraps goes from 9 to 3: give the smaller number first"),
        ({"size": 20, "scrap": 21}, 8, "a scrap of 21 pixels is larger than a scene of 20: give fewer"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(settings: dict[str, Any], size: int, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        ScatterConfig(**settings).check(size, 1)


def test_pictures_in_colours_of_their_own_lie_as_single_ones_would() -> None:
    """In each channel nothing but its picture, wherever the others lie; scraps take the colours in turn."""
    how = ScatterConfig(count=2, colours=True, scraps=(0, 0))
    pictures = noise(40, 2)
    found = scenes(how, pictures, PLACES, seed=3)
    assert found.shape == (40, 3, 60, 60)
    assert not found[:, 2].any()
    for number in (0, 1):
        alone = pictures.clone()
        alone[:, 1 - number] = 0
        torch.testing.assert_close(scenes(how, alone, PLACES, seed=3)[:, number], found[:, number], rtol=0, atol=0)
        assert not scenes(how, alone, PLACES, seed=3)[:, 1 - number].any()
    both = ((found[:, 0] > 0) & (found[:, 1] > 0)).flatten(1).any(1)
    assert both.any(), "they may lie on one another"
    torn = scenes(
        ScatterConfig(colours=True, scraps=(3, 3)), noise(40, 17).index_fill(1, torch.tensor(0), 0), PLACES, seed=3
    )
    assert (torn.flatten(2).amax(2) > 0).all()


def test_colours_need_grey_pictures_and_are_three() -> None:
    with pytest.raises(ValueError, match="there are 3 colours"):
        ScatterConfig(count=4, colours=True)
    with pytest.raises(ValueError, match=r"data\.channels=1"):
        ScatterConfig(colours=True).check(28, 3)
