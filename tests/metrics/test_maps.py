"""Maps held against boxes, by cases that can be counted by hand."""

from __future__ import annotations

import pytest
import torch

from regard.metrics import maps

BOX = torch.tensor([[0.0, 0.0, 0.5, 0.5]])


def one(*rows: list[float]) -> torch.Tensor:
    """A single map."""
    return torch.tensor([rows])


def test_the_highest_cell_points_and_several_share_the_point() -> None:
    assert maps.pointing_game(one([0.5, 0.1], [0.2, 0.2]), BOX).tolist() == [1]
    assert maps.pointing_game(one([0.1, 0.5], [0.2, 0.2]), BOX).tolist() == [0]
    assert maps.pointing_game(torch.full((1, 4, 4), 1 / 16), BOX).tolist() == [0.25]


def test_what_lies_inside_is_counted_by_area() -> None:
    assert maps.mass_inside(one([0.5, 0.1], [0.2, 0.2]), BOX).tolist() == [0.5]
    narrow = torch.tensor([[0.25, 0.0, 0.75, 0.5]])  # half of each of the upper cells
    assert maps.mass_inside(one([0.5, 0.1], [0.2, 0.2]), narrow).item() == pytest.approx(0.3)
    fine = torch.rand(3, 6, 10, generator=torch.Generator().manual_seed(0))
    everything = torch.tensor([[0.0, 0.0, 1.0, 1.0]]).expand(3, 4)
    torch.testing.assert_close(maps.mass_inside(fine, everything), fine.sum((1, 2)))


def test_a_box_is_around_the_largest_patch_that_hangs_together() -> None:
    drawn = one([9.0, 0, 0, 0], [0, 0, 8, 8], [0, 0, 0, 8], [8, 0, 0, 3])
    assert maps.bounding_boxes(drawn).tolist() == [[0.5, 0.25, 1.0, 0.75]]
    assert maps.bounding_boxes(drawn, level=1.0).tolist() == [[0.0, 0.0, 0.25, 0.25]]


def test_an_area_is_that_of_trapezoids() -> None:
    assert maps.area_under_curve(torch.tensor([[1.0, 0.0], [0.5, 0.0], [0.0, 1.0]])).tolist() == [0.5, 0.25]


def test_a_level_is_chosen_on_the_other_pictures() -> None:
    maps_ = torch.zeros(4, 4, 4)
    maps_[:, 0, 0], maps_[:, 0, 1] = 1.0, 0.25
    narrow, wide = [0.0, 0.0, 0.25, 0.25], [0.0, 0.0, 0.5, 0.25]
    assert maps.best_iou(maps_, torch.tensor([wide] * 4)).tolist() == [1, 1, 1, 1]  # any level up to a quarter
    assert maps.best_iou(maps_, torch.tensor([narrow] * 4)).tolist() == [1, 1, 1, 1]  # any level above it
    assert maps.best_iou(maps_, torch.tensor([narrow, wide] * 2)).tolist() == [0.5, 0.5, 0.5, 0.5]
    assert maps.best_iou(maps_[:1], torch.tensor([wide])).tolist() == [1]
