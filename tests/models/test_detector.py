"""Networks for pictures: what depends on what, and what the recurrent part adds."""

import pytest
import torch

from regard import config
from regard.models.detector import ClassAndBox, CounterConfig, CountPerFrame, LocatorConfig
from regard.training.device import compiles

SMALL = {"channels": (4, 8), "width": 12}


def locator(**changes) -> ClassAndBox:
    return ClassAndBox(LocatorConfig(**{"size": 16, "classes": 3, **SMALL, **changes}))


def counter(**changes) -> CountPerFrame:
    return CountPerFrame(CounterConfig(**{"size": 16, "most": 2, **SMALL, **changes}))


def test_a_picture_has_a_class_and_a_box_that_is_not_inside_out():
    logits, boxes = locator()(torch.rand(5, 16, 16))
    assert logits.shape == (5, 3)
    assert boxes.shape == (5, 4)
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    assert (((boxes[:, :2] + boxes[:, 2:]) / 2).clamp(0, 1) == (boxes[:, :2] + boxes[:, 2:]) / 2).all()


def test_a_picture_is_answered_the_same_whatever_lies_beside_it():
    pictures = torch.rand(4, 16, 16)
    for model in (locator().eval(), locator().train()):
        together, alone = model(pictures), model(pictures[1:2])
        for one, other in zip(together, alone, strict=True):
            torch.testing.assert_close(one[1:2], other)


def test_the_class_stays_when_the_ink_moves_and_the_box_does_not():
    """Moved by as much as a place of the map is wide, far from the edges, the brightest features are the same."""
    model = locator(size=32, channels=(8, 8), width=16)
    blot = torch.zeros(2, 32, 32)
    blot[0, 10:14, 9:15] = torch.rand(4, 6)
    blot[1, 14:18, 13:19] = blot[0, 10:14, 9:15]
    seen = model.convolutions.stages[0](blot[:, None])
    torch.testing.assert_close(seen[0, :, 3:10, 3:10], seen[1, :, 5:12, 5:12])  # norms aside, for they see the edge
    logits, boxes = model(blot)
    torch.testing.assert_close(logits[0], logits[1], atol=0.05, rtol=0.05)
    assert (boxes[0] - boxes[1]).abs().max() > 1e-4


@pytest.mark.parametrize("cell", ["rnn", "gru", "gru_before", "lstm"])
def test_a_frame_is_counted_in_the_light_of_those_before_it_and_of_none_after_it(cell):
    model, frames = counter(cell=cell).eval(), torch.rand(2, 5, 16, 16)
    whole, _ = model(frames)
    assert whole.shape == (2, 5, 3)
    torch.testing.assert_close(model(frames[:, :3])[0], whole[:, :3])
    other = frames.clone()
    other[:, 1] = 0
    changed, _ = model(other)
    assert torch.equal(changed[:, 0], whole[:, 0])
    assert not torch.isclose(changed[:, 4], whole[:, 4]).all()


def test_reading_on_from_a_state_is_reading_at_once():
    model, frames = counter().eval(), torch.rand(2, 6, 16, 16)
    whole, last = model(frames)
    first, state = model(frames[:, :4])
    then, end = model(frames[:, 4:], state)
    torch.testing.assert_close(torch.cat([first, then], 1), whole)
    torch.testing.assert_close(end, last)


def test_without_a_cell_every_frame_is_counted_by_itself():
    model, frames = counter(cell="none", depth=2).eval(), torch.rand(1, 4, 16, 16)
    whole, state = model(frames)
    assert state is None
    shuffled, _ = model(frames[:, [2, 0, 3, 1]])
    torch.testing.assert_close(shuffled, whole[:, [2, 0, 3, 1]])


def test_convolutions_are_those_of_torch_written_out():
    """One place of the map by hand: a square of 5 by 5 around every second pixel, times the weights."""
    model = locator()
    picture = torch.rand(1, 16, 16)
    convolution = model.convolutions.stages[0]
    seen = convolution(picture[:, None] - 0.5)
    square = picture[0, 2:7, 4:9] - 0.5  # around row 4, column 6
    by_hand = (convolution.weight[:, 0] * square).sum((1, 2)) + convolution.bias
    torch.testing.assert_close(seen[0, :, 2, 3], by_hand)


def test_small_networks_are_not_compiled():
    for model in (locator(), counter()):
        assert not compiles(torch.device("cuda"), "auto", model)


@pytest.mark.parametrize("size", [8, 15, 17, 48])
def test_sides_that_are_no_power_of_two_fit_as_well(size):
    assert locator(size=size)(torch.rand(1, size, size))[1].shape == (1, 4)


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (LocatorConfig, {"channels": ()}, "channels must be multiples of 4"),
        (LocatorConfig, {"channels": (6,)}, "channels must be multiples of 4"),
        (LocatorConfig, {"size": 8, "channels": (4,) * 5}, "leave nothing of 8 pixels"),
        (LocatorConfig, {"classes": 1}, "classes must be a whole number from 2"),
        (CounterConfig, {"depth": 0}, "depth must be a whole number from 1"),
        (CounterConfig, {"dropout": 1.0}, "dropout must be a number of at least 0 and below 1"),
    ],
)
def test_sizes_that_make_no_network_are_refused(kind, settings, said):
    with pytest.raises(ValueError, match=said):
        config.build(kind, settings)
