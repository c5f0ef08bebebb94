"""How boxes overlap, against cases computed by hand."""

import pytest
import torch

from regard.metrics.boxes import giou_loss, iou


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((0, 0, 2, 2), (0, 0, 2, 2), 1.0),
        ((0, 0, 2, 2), (1, 1, 3, 3), 1 / 7),  # 1 of 4 + 4 - 1
        ((0, 0, 4, 4), (1, 1, 3, 3), 4 / 16),  # one inside the other
        ((0, 0, 2, 2), (1, 0, 3, 2), 2 / 6),
        ((0, 0, 2, 1), (0, 0, 1, 2), 1 / 3),  # a lying and a standing one
        ((0, 0, 1, 1), (1, 0, 2, 1), 0.0),  # they touch
        ((0, 0, 1, 1), (5, 5, 6, 6), 0.0),
        ((2, 2, 0, 0), (0, 0, 2, 2), 0.0),  # turned inside out
        ((1, 1, 1, 1), (1, 1, 1, 1), 0.0),  # nothing covers nothing
    ],
)
def test_the_overlap_is_intersection_over_union(one, other, expected):
    boxes = torch.tensor([one, other], dtype=torch.float32)
    assert iou(boxes[0], boxes[1]).item() == pytest.approx(expected, abs=1e-6)
    assert iou(boxes[1], boxes[0]).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((0, 0, 2, 2), (0, 0, 2, 2), 0.0),
        ((0, 0, 2, 2), (1, 1, 3, 3), 1 - 1 / 7 + 2 / 9),  # 7 of the 9 around both are covered
        ((0, 0, 1, 1), (3, 0, 4, 1), 1 + 2 / 4),
    ],
)
def test_apartness_adds_the_empty_share_of_the_rectangle_around_both(one, other, expected):
    boxes = torch.tensor([one, other], dtype=torch.float32)
    assert giou_loss(boxes[0], boxes[1]).item() == pytest.approx(expected, abs=1e-6)


def test_apartness_pulls_together_boxes_that_do_not_touch_where_overlap_does_not():
    box = torch.tensor([0.0, 0.0, 1.0, 1.0], requires_grad=True)
    other = torch.tensor([3.0, 0.0, 4.0, 1.0])
    iou(box, other).backward()
    assert not box.grad.any()
    box.grad = None
    giou_loss(box, other).backward()
    assert box.grad[2] < 0  # the right side should move to the right
    assert box.grad.isfinite().all()


def test_many_boxes_at_once_are_as_many_single_ones():
    one, other = torch.rand(2, 5, 3, 4).sort(-1).values
    whole = iou(one, other)
    assert whole.shape == (5, 3)
    torch.testing.assert_close(whole[2, 1], iou(one[2, 1], other[2, 1]))
    assert ((whole >= 0) & (whole <= 1)).all()
