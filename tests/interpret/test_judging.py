"""Checks of maps, on a network whose evidence is known: it says which colour a picture has most of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard import models
from regard.interpret.measure import map_checks
from regard.models.vit import ViT, ViTConfig
from tests.interpret.colours import Colours, ColoursConfig

COLOURS = 4


@pytest.fixture
def colours(monkeypatch: pytest.MonkeyPatch) -> Colours:
    """A trained one; whoever builds another gets one that is not."""
    monkeypatch.setattr(models, "build", lambda config: Colours(config, trained=False))
    return Colours(ColoursConfig())


def painted() -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures of one colour each."""
    labels = torch.arange(12) % COLOURS
    return torch.eye(COLOURS)[labels][:, :, None, None].repeat(1, 1, 8, 8), labels


def test_a_grid_has_one_picture_of_the_label_and_the_box_is_around_it() -> None:
    asked = map_checks.make_grids(*painted(), 20, seed=3)
    assert asked.pixels.shape == (12, COLOURS, 16, 16), "each of twelve pictures is asked about once"
    assert torch.equal(asked.labels.bincount(), painted()[1].bincount())
    assert asked.boxes is not None
    for pixels, label, box in zip(asked.pixels, asked.labels, asked.boxes, strict=True):
        left, top, right, bottom = (box * 16).int().tolist()
        assert pixels[label, top:bottom, left:right].all()
        assert pixels[label].sum() == 64
        assert pixels.sum() == 4 * 64
    assert len({tuple(box.tolist()) for box in asked.boxes}) == 4
    again = map_checks.make_grids(*painted(), 20, seed=3)
    assert torch.equal(asked.pixels, again.pixels)
    with pytest.raises(ValueError, match="pictures of several labels"):
        map_checks.make_grids(painted()[0][:2], torch.tensor([1, 1]), 1)


def test_what_is_known_is_found_and_controls_are_at_chance(colours: Colours) -> None:
    twice = Colours(ColoursConfig(16))
    asked = map_checks.make_grids(*(each.repeat(17, *[1] * (each.dim() - 1)) for each in painted()), 200)
    both = map_checks.judge_maps(twice, asked), map_checks.measure_localisation(twice, asked)
    found = {name: checks | both[1][name] for name, checks in both[0].items()}
    assert set(found) == {"cam", "gradcam", "centre", "uniform", "random", "untrained"}
    for method in ("cam", "gradcam"):
        assert found[method]["pointing"].mean() == 1
        assert found[method]["inside"].mean() == pytest.approx(1)
        assert found[method]["overlap"].mean() == pytest.approx(1)
        assert found[method]["deletion"].mean() < found["uniform"]["deletion"].mean()
        assert found[method]["insertion"].mean() > found["uniform"]["insertion"].mean()
        assert found[method]["change"].mean() > 0.1
    assert found["uniform"]["pointing"].mean() == 0.25
    assert found["centre"]["pointing"].mean() == pytest.approx(0.25)
    assert found["random"]["pointing"].mean() == pytest.approx(0.25, abs=0.1)
    assert found["random"]["inside"].mean() == pytest.approx(0.25, abs=0.02)


def test_deletion_takes_the_highest_first_and_insertion_puts_it_in(colours: Colours) -> None:
    pixels = torch.zeros(1, COLOURS, 8, 8)
    pixels[0, 1, :4, :4] = 1  # all that speaks for the label lies in a quarter
    asked = map_checks.MapExamples(pixels, torch.tensor([1]))
    maps = torch.zeros(1, 4, 4)
    maps[0, :2, :2] = 0.25
    lost = map_checks.measure_removal(colours, asked, maps)[:, 0]
    assert lost[0] == pytest.approx(colours(pixels).softmax(-1)[0, 1].item())
    assert lost[3:].tolist() == pytest.approx([0.25] * 8)  # nothing speaks for any colour any more
    won = map_checks.measure_removal(colours, asked, maps, put=True)[:, 0]
    assert won[0] == pytest.approx(0.25)
    assert won[3:].tolist() == pytest.approx([lost[0].item()] * 8)
    late = map_checks.measure_removal(colours, asked, 1 / 12 - maps / 3)[:, 0]
    assert late[7] == lost[0]


def test_chunks_change_nothing(colours: Colours, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = map_checks.make_grids(*painted(), 10)
    for how in (map_checks.judge_maps, map_checks.measure_localisation):
        monkeypatch.setattr(map_checks, "CHUNK", 64)
        whole = how(Colours(ColoursConfig(16)), asked)
        monkeypatch.setattr(map_checks, "CHUNK", 3)
        parts = how(Colours(ColoursConfig(16)), asked)
        for name in ("cam", "gradcam", "untrained"):
            for check, values in whole[name].items():
                np.testing.assert_allclose(values, parts[name][check], rtol=1e-5)


def test_a_model_for_twice_the_size_is_the_same_model() -> None:
    torch.manual_seed(0)
    shape = {"classes": 4, "width": 8, "heads": 2, "hidden": 16, "depth": 2, "patch": 4}
    model = ViT(ViTConfig(size=8, **shape))
    twice = map_checks.double_input_size(model)
    assert twice.grid == (4, 4)
    pictures = torch.randn(2, 3, 16, 16)
    assert twice(pictures).shape == (2, 4)
    assert torch.equal(twice.blocks[0].attention.query.weight, model.blocks[0].attention.query.weight)
    new = map_checks.reinitialise_model(model, seed=5)
    assert not torch.equal(new.head.weight, model.head.weight)
    assert torch.equal(map_checks.reinitialise_model(model, seed=5).head.weight, new.head.weight)
