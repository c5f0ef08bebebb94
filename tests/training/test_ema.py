"""The moving average of the weights: right, resumed to the bit, scored and kept in place of the weights."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from regard import checkpoint, recipe
from regard.training.ema import EARLY, MovingAverage
from tests.tasks.every import pretraining

STEPS = 6
OPTIM = {"name": "adamw", "learning_rate": 0.01, "schedule": "constant", "warmup": 1}  # whatever the length of the run


def test_it_is_the_recursion_by_hand():
    model = nn.Linear(3, 2)
    average = MovingAverage(model, 0.8)
    by_hand = {name: weight.detach().double().numpy().copy() for name, weight in model.named_parameters()}
    for step in range(1, 60):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight))
        average.follow(step)
        decay = min(0.8, step / (EARLY + step))
        for name, weight in model.named_parameters():
            by_hand[name] = decay * by_hand[name] + (1 - decay) * weight.detach().double().numpy()
    for name, expected in by_hand.items():
        np.testing.assert_allclose(average.weights[name].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_it_stands_in_for_the_weights_only_inside_the_block():
    model = nn.Linear(3, 2)
    average = MovingAverage(model, 0.9)
    place, before = model.weight.data_ptr(), model.weight.detach().clone()
    average.weights["weight"].zero_()
    with average.apply():
        assert model.weight.abs().sum() == 0
        assert model.weight.data_ptr() == place  # captured graphs go on reading there
    assert torch.equal(model.weight, before)


def test_without_a_decay_nothing_is_kept():
    average = MovingAverage(nn.Linear(3, 2), 0.0)
    assert average.weights == {}
    average.follow(1)
    with average.apply():
        pass


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict:
    text = tmp_path_factory.mktemp("text") / "text.txt"
    text.write_text("masse masse\n" * 40, encoding="utf-8")
    line = pretraining(str(text), pairs="")["causal-lm"]
    training = {
        "steps": STEPS,
        "eval_every": 2,
        "save_every": 1,
        "keep": STEPS,
        "ema": 0.9,
        "device": "cpu",
        "threads": 1,
    }
    return {"task": "causal-lm", **line.settings, "optim": OPTIM, "training": training}


@pytest.mark.unchecked
def test_a_resumed_run_has_the_same_average_and_best_holds_it(settings: dict, tmp_path: Path):
    whole = recipe.train(settings, out=tmp_path / "whole", quiet=True)
    half = {**settings, "training": {**settings["training"], "steps": STEPS // 2}}
    recipe.train(half, out=tmp_path / "parts", quiet=True)
    resumed = recipe.train(settings, out=tmp_path / "parts", resume=True, quiet=True)
    last = [tensors(run.folder / "checkpoints" / f"step-{STEPS}", "training.safetensors") for run in (whole, resumed)]
    kept = [name for name in last[0] if name.startswith("ema/")]
    assert kept
    best = checkpoint.read(whole.best)
    raw = tensors(whole.folder / "checkpoints" / f"step-{best.step}")
    held = tensors(whole.folder / "checkpoints" / f"step-{best.step}", "training.safetensors")
    for name, tensor in best.tensors().items():
        assert torch.equal(tensor, held[f"ema/{name}"])
    assert not torch.equal(best.tensors()["embedding.weight"], raw["embedding.weight"])
    changed = [name for name in kept if not torch.equal(last[0][name], last[1][name])]
    assert changed == []


def tensors(directory: Path, name: str = "model.safetensors") -> dict[str, torch.Tensor]:
    return checkpoint.read(directory).tensors(name)
