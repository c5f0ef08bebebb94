"""Learning a count for every frame: losses of frames are summed, and a memory is of use where digits hide."""

import pytest
import torch
from torch.nn import functional as F

import regard
from regard import recipe
from regard.data import images
from regard.models.detector import CounterConfig, CountPerFrame
from regard.tasks.scenes.counting import Counting, CountingRecipe, sum_losses
from regard.tasks.scenes.digit_scenes import DigitFramesConfig
from regard.training.task import Task
from tests.tasks.small import by_heart, halves_add_up

DATA = {"size": 16, "smallest": 5, "largest": 6, "noise": 0.02, "frames": 5, "max_digits": 2}
DATA |= {"hidden": 0.5, "batch_size": 16, "valid": 60}
SETTINGS = {
    "task": "counting",
    "data": DATA,
    "model": {"channels": [8, 8], "width": 32, "dropout": 0.1},
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


def made(batch: int = 6, **model) -> Counting:
    torch.manual_seed(0)
    shape = CounterConfig(size=16, most=2, channels=(8, 8), width=24, **model)
    found = CountingRecipe(data=DigitFramesConfig(**{**DATA, "batch_size": batch}), model=shape)
    return Counting(found, Counting.prepare(found), CountPerFrame(shape))


def test_the_loss_of_a_sequence_is_the_sum_over_its_frames():
    task = made()
    assert isinstance(task, Task)
    frames, counts, _ = task.batch(0).parts
    logits, _ = task.model(frames)
    single = [F.cross_entropy(logits[row, place], counts[row, place]) for row in range(6) for place in range(5)]
    step = task.step(task.batch(0), "model")
    torch.testing.assert_close(step.loss, sum(single))
    assert step.weight == 30


@pytest.mark.parametrize("cell", ["gru", "none"])
def test_the_gradient_of_the_summed_loss_is_the_sum_of_the_frames_gradients(cell):
    task = made(cell=cell)
    frames, counts, _ = task.batch(0).parts
    parameters = list(task.model.parameters())
    whole = torch.autograd.grad(sum_losses(task.model(frames)[0], counts), parameters)
    added = [torch.zeros_like(each) for each in parameters]
    for place in range(5):
        logits, _ = task.model(frames)
        alone = torch.autograd.grad(sum_losses(logits[:, place : place + 1], counts[:, place : place + 1]), parameters)
        added = [one + other for one, other in zip(added, alone, strict=True)]
    for one, other in zip(whole, added, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_halves_of_a_row_add_up():
    halves_add_up(made())


@pytest.mark.unchecked
@pytest.mark.parametrize("cell", ["rnn", "gru", "gru_before", "lstm"])
def test_every_cell_learns_one_row_by_heart(cell):
    assert by_heart(made(batch=4, cell=cell), steps=120) < 0.1


def test_scores_are_counted_as_said():
    task = made()
    task.model.eval()
    frames, counts, seen = task.valid.parts
    with torch.no_grad():
        right = task.model(frames)[0].argmax(-1) == counts
        found = task.evaluate()
    assert found.metrics["accuracy"] == pytest.approx(right.float().mean().item())
    assert found.metrics["sequences"] == pytest.approx(right.all(1).float().mean().item())
    assert found.metrics["hidden"] == pytest.approx(right[seen < counts].float().mean().item())
    assert set(found.samples[0]) == {"there", "seen", "answer"}


@pytest.mark.unchecked
@pytest.mark.slow
def test_a_memory_beats_frames_counted_one_by_one_and_even_perfect_eyes_without_one(tmp_path):
    scores = {}
    for cell in ("gru", "none"):
        settings = recipe.settings(SETTINGS, "training.steps=120", "training.eval_every=120", f"model.cell={cell}")
        settings["optim"]["schedule"] = "cosine"
        scores[cell] = recipe.train(settings, out=tmp_path / cell, quiet=True).metrics
    _, counts, seen = made().valid.parts
    eyes = (seen == counts).float().mean().item()
    assert scores["gru"]["accuracy"] > scores["none"]["accuracy"] + 0.05
    assert scores["gru"]["accuracy"] > eyes
    assert scores["gru"]["hidden"] > 0.5 > scores["none"]["hidden"] + 0.3
    log = (tmp_path / "gru" / "train.log").read_text()
    assert "counting what is seen, without a mistake" in log


def test_a_trained_model_counts_in_files(tmp_path):
    outcome = recipe.train(recipe.settings(SETTINGS), out=tmp_path / "run", quiet=True)
    assert "regard count" in outcome.summary
    assert "5 frames" in (outcome.best / "README.md").read_text()
    frames = made().splits.valid[0].images
    for number, frame in enumerate(frames):
        images.write(tmp_path / f"{number}.png", frame)
    counter = regard.load(tmp_path / "run", device="cpu")
    found = counter.count([tmp_path / f"{number}.png" for number in range(5)])
    assert found == counter.count(list(frames))
    assert all(0 <= each.count <= 2 and 0 < each.probability <= 1 for each in found)
    assert [each.count for each in counter.count(list(frames[:2]))] == [each.count for each in found[:2]]
    with pytest.raises(ValueError, match="no picture was given"):
        counter.count([])


def test_another_highest_count_cannot_be_gone_on_with(tmp_path):
    recipe.train(recipe.settings(SETTINGS, "training.steps=5"), out=tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match=r"most: 2 -> 3"):
        recipe.train(recipe.settings(SETTINGS, "data.max_digits=3"), out=tmp_path / "run", resume=True, quiet=True)
