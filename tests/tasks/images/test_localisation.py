"""Learning a class and a box: losses are sums, stops change nothing, and a trained model finds digits in files."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regard
from regard import recipe
from regard.data import images
from regard.metrics.boxes import iou
from regard.models.detector import ClassAndBox, LocatorConfig
from regard.tasks.scenes import digit_scenes
from regard.tasks.scenes.digit_scenes import DigitImageConfig
from regard.tasks.scenes.localisation import BoxConfig, Localisation, LocalisationRecipe, Locator
from regard.training.task import Task
from tests.tasks.small import by_heart, halves_add_up

SETTINGS = {
    "task": "localisation",
    "data": {"size": 24, "smallest": 12, "largest": 18, "noise": 0.05, "clutter": 0, "batch_size": 16, "valid": 40},
    "model": {"channels": [8, 16, 16], "width": 32, "dropout": 0.1},
    "optim": {"learning_rate": 0.01, "warmup": 5, "schedule": "constant"},
    "training": {
        "steps": 20,
        "log_every": 10,
        "eval_every": 10,
        "save_every": 5,
        "device": "cpu",
        "tensorboard": False,
    },
}


def made(**objective) -> Localisation:
    torch.manual_seed(0)
    data = DigitImageConfig(size=24, smallest=12, largest=18, noise=0.05, clutter=0, batch_size=8, valid=40)
    shape = LocatorConfig(size=24, channels=(8, 16, 16), width=32)
    found = LocalisationRecipe(data=data, model=shape, objective=BoxConfig(**objective))
    return Localisation(found, Localisation.prepare(found), ClassAndBox(shape))


def test_a_row_holds_pictures_of_its_own():
    task = made()
    assert isinstance(task, Task)
    first, again, second = task.batch(0), task.batch(0), task.batch(1)
    assert list(first.numbers) == list(range(8))
    assert list(second.numbers) == list(range(8, 16))
    assert all(torch.equal(one, other) for one, other in zip(first.parts, again.parts, strict=True))
    assert not torch.equal(first.parts[0], second.parts[0])
    assert task.origins(second)[0] == "picture 8"


@pytest.mark.parametrize("loss", ["smooth_l1", "giou"])
def test_the_loss_is_that_of_class_and_box_summed(loss):
    task = made(loss=loss, weight=3.0)
    seen, labels, boxes = task.batch(2).parts
    logits, guesses = task.model(seen)
    far = (guesses - boxes).abs()
    if loss == "smooth_l1":  # squared below a tenth of the side, and there they meet
        off = torch.where(far < 0.1, far**2 / 0.2, far - 0.05).sum()
    else:
        off = sum(1 - generalised(*pair) for pair in zip(guesses, boxes, strict=True))
    wanted = F.cross_entropy(logits, labels, reduction="sum") + 3 * off
    step = task.step(task.batch(2), "model")
    assert step.weight == 8
    torch.testing.assert_close(step.loss, wanted)


def generalised(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The generalised overlap of two boxes, step by step."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    both = max(wide, torch.tensor(0.0)) * max(high, torch.tensor(0.0))
    either = sum((each[2] - each[0]) * (each[3] - each[1]) for each in (one, other)) - both
    around = (max(one[2], other[2]) - min(one[0], other[0])) * (max(one[3], other[3]) - min(one[1], other[1]))
    return both / either - (around - either) / around


@pytest.mark.parametrize("loss", ["smooth_l1", "giou"])
def test_halves_of_a_row_add_up(loss):
    halves_add_up(made(loss=loss))


@pytest.mark.unchecked
@pytest.mark.parametrize("loss", ["smooth_l1", "giou"])
def test_one_row_is_learnt_by_heart(loss):
    task = made(loss=loss, weight=1.0)
    assert by_heart(task, steps=120) < 0.25
    seen, labels, boxes = task.batch(0).parts
    logits, guesses = task.model(seen)
    assert (logits.argmax(-1) == labels).all()
    assert iou(guesses, boxes).min() > 0.6


def test_scores_are_counted_as_said():
    task = made()
    task.model.eval()
    seen, labels, boxes = task.valid.parts
    with torch.no_grad():
        logits, guesses = task.model(seen)
        metrics = task.evaluate().metrics
    right = logits.argmax(-1) == labels
    shared = iou(guesses, boxes)
    assert metrics["accuracy"] == pytest.approx(right.float().mean().item())
    assert metrics["iou"] == pytest.approx(shared.mean().item())
    assert metrics["found"] == pytest.approx((right & (shared >= 0.5)).float().mean().item())
    assert metrics["found"] <= metrics["accuracy"]


def test_looking_beats_the_mean_box_soon(tmp_path):
    outcome = recipe.train(recipe.settings(SETTINGS, "training.steps=60"), out=tmp_path / "run", quiet=True)
    task = made()
    assert outcome.metrics["iou"] > task.mean_box_iou() + 0.05
    log = (tmp_path / "run" / "train.log").read_text()
    assert "without looking: " in log


def test_a_trained_model_finds_digits_in_files_and_arrays(tmp_path):
    outcome = recipe.train(recipe.settings(SETTINGS), out=tmp_path / "run", quiet=True)
    assert f"regard locate {tmp_path / 'run'}" in outcome.summary
    card = (outcome.best / "README.md").read_text()
    assert "24 x 24 pixels" in card
    picture = digit_scenes.scene_dataset(made().recipe.data, "valid")[0].image
    images.write(tmp_path / "digit.png", picture)
    images.write(tmp_path / "paper.png", 1 - picture)
    locator = regard.load(tmp_path / "run", device="cpu")
    [here] = locator.locate([tmp_path / "digit.png"])
    [there] = locator.locate([picture])
    [inverted] = locator.locate([tmp_path / "paper.png"], invert=True)
    assert here.label == there.label == inverted.label
    assert here.box == there.box
    np.testing.assert_allclose(here.box, inverted.box, atol=0.11)
    assert 0 < here.probability <= 1
    assert len(locator.locate([picture] * 3)) == 3


def test_other_pictures_cannot_be_gone_on_with(tmp_path):
    recipe.train(recipe.settings(SETTINGS, "training.steps=5"), out=tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match=r"data\.noise: 0\.05 -> 0\.3"):
        recipe.train(recipe.settings(SETTINGS, "data.noise=0.3"), out=tmp_path / "run", resume=True, quiet=True)


def test_other_rows_of_the_same_pictures_can_be_gone_on_with_but_it_is_said(tmp_path):
    recipe.train(recipe.settings(SETTINGS, "training.steps=5"), out=tmp_path / "run", quiet=True)
    recipe.train(recipe.settings(SETTINGS, "data.batch_size=4"), out=tmp_path / "run", resume=True, quiet=True)
    assert "changed since the run began: data.batch_size: 16 -> 4" in (tmp_path / "run" / "train.log").read_text()


def test_what_cannot_be_located_is_said_in_one_line(tmp_path):
    locator = Locator(made().model)
    images.write(tmp_path / "large.png", np.zeros((30, 24), np.float32))
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "cut.png").write_bytes((tmp_path / "large.png").read_bytes()[:60])
    wrong = {
        "large.png": "24 x 30 pixels and the model reads 24 x 24: cut or resize it",
        "text.png": "is no picture that can be read: give a PNG",
        "cut.png": "cut.png",
        "nowhere.png": "no file .*nowhere.png",
    }
    for name, said in wrong.items():
        with pytest.raises(ValueError, match=said) as error:
            locator.locate([tmp_path / name])
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="shape \\(3, 3\\) is no picture"):
        locator.locate([np.zeros((3, 3), np.float32)])
    with pytest.raises(ValueError, match="no picture was given"):
        locator.locate([])
