"""Muon follows a reference of a few lines, leaves all but the matrices of blocks to AdamW, and goes on exactly."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.training.muon import MOMENTUM, SIZE, Muon, matrices, orthogonalise
from regard.training.optim import OptimConfig, build, update

CONFIG = OptimConfig(name="muon", learning_rate=0.03, weight_decay=0.1, betas=(0.9, 0.95), eps=1e-8)


class Blocks(nn.Module):
    """Tokens in, two blocks of a tall and a wide matrix, tokens out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 4, bias=False)) for _ in range(2))
        self.output = nn.Linear(4, 7)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.output(x)


def make(seed: int = 0) -> tuple[Blocks, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = Blocks()
    return model, build(model.parameters(), CONFIG, model)


def learn(model: Blocks, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        tokens = torch.randint(7, (9,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens), tokens.flip(0), reduction="sum").backward()
        update(optimizer, 9, rate=CONFIG.learning_rate, clip=None)


def nearest(matrix: np.ndarray) -> np.ndarray:
    """Five rounds of the polynomial on singular values, by their decomposition."""
    left, values, right = np.linalg.svd(matrix / np.linalg.norm(matrix), full_matrices=False)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return left * values @ right


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3)])
def test_what_is_made_orthogonal_keeps_its_singular_vectors(shape: tuple[int, int]) -> None:
    matrix = torch.randn(2, *shape, dtype=torch.float64)
    found = orthogonalise(matrix, torch.float64).numpy()
    for ours, given in zip(found, matrix.numpy(), strict=True):
        np.testing.assert_allclose(ours, nearest(given), atol=1e-5)
    assert np.linalg.svd(found, compute_uv=False).min() > 0.3


def test_only_matrices_inside_blocks_are_made_orthogonal() -> None:
    model, optimizer = make()
    inside = {id(model.blocks[n][k].weight) for n in (0, 1) for k in (0, 1)}
    assert {id(weight) for weight in matrices(model)} == inside
    chosen = {id(weight) for group in optimizer.param_groups if group["orthogonal"] for weight in group["params"]}
    assert chosen == inside
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


def test_steps_are_those_of_the_reference_and_of_adamw() -> None:
    model, optimizer = make()
    weight = model.blocks[1][0].weight
    expected, mean = weight.detach().double().numpy().copy(), np.zeros(weight.shape)
    other, _ = make()
    rest = torch.optim.AdamW(
        other.output.parameters(), CONFIG.learning_rate, CONFIG.betas, CONFIG.eps, weight_decay=0.1
    )
    rest.param_groups[0]["params"] = [other.output.weight]
    for step in range(3):
        learn(model, optimizer, range(step, step + 1))
        gradient = weight.grad.double().numpy()
        mean = MOMENTUM * mean + (1 - MOMENTUM) * gradient
        ahead = (1 - MOMENTUM) * gradient + MOMENTUM * mean
        expected = expected * (1 - CONFIG.learning_rate * 0.1) - CONFIG.learning_rate * SIZE * 6**0.5 * nearest(ahead)
        other.output.weight.grad = model.output.weight.grad.clone()
        rest.step()
    np.testing.assert_allclose(weight.detach().numpy(), expected, atol=1e-5)
    torch.testing.assert_close(model.output.weight, other.output.weight)


def test_saved_and_resumed_it_goes_on_to_the_bit() -> None:
    model, optimizer = make()
    learn(model, optimizer, range(6))
    half, before = make()
    learn(half, before, range(3))
    again, after = make(seed=1)
    again.load_state_dict(half.state_dict())
    after.load_state_dict(before.state_dict())
    learn(again, after, range(3, 6))
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("gradient", [float("nan"), float("inf"), 1.0])
def test_told_on_the_device_it_changes_nothing(gradient: float) -> None:
    model, optimizer = make()
    assert isinstance(optimizer, Muon)
    learn(model, optimizer, range(2))
    weights = [weight.clone() for weight in model.parameters()]
    states = {name: value.clone() for name, value in named(optimizer)}
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, gradient)
    optimizer.defaults["fused"] = True  # as on a GPU: nobody waits for the verdict
    for group in optimizer.param_groups:
        group["fused"], group["foreach"] = True, False
    assert update(optimizer, 1, rate=torch.tensor(0.1), clip=1.0, veto=torch.tensor(True))
    assert all(torch.equal(one, other) for one, other in zip(weights, model.parameters(), strict=True))
    assert all(torch.equal(value, states[name]) for name, value in named(optimizer))


def named(optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.Tensor]]:
    held = optimizer.state_dict()["state"]
    return [(f"{index} {name}", value) for index, entries in held.items() for name, value in entries.items()]
