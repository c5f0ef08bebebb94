"""Optimizers: their groups, and updates that divide, clip and skip."""

import pytest
import torch
from torch import nn

from regard import config
from regard.training.optim import LARGEST, OptimConfig, build, update


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1))


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_biases_and_norms_do_not_decay(name: str) -> None:
    network = model()
    optimizer = build(network.parameters(), OptimConfig(name=name, weight_decay=0.1))
    decayed = {id(p) for group in optimizer.param_groups if group["weight_decay"] for p in group["params"]}
    assert decayed == {id(network[0].weight), id(network[2].weight)}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 6


def test_frozen_parameters_are_left_out() -> None:
    network = model()
    network[0].requires_grad_(False)
    optimizer = build(network.parameters(), OptimConfig())
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 4


def test_settings_reach_the_optimizer() -> None:
    adam = build(model().parameters(), OptimConfig(betas=(0.5, 0.6), eps=1e-5, learning_rate=2.0))
    assert (adam.defaults["betas"], adam.defaults["eps"], adam.defaults["lr"]) == ((0.5, 0.6), 1e-5, 2)
    assert OptimConfig().betas == (0.9, 0.98)
    assert OptimConfig().eps == 1e-9
    assert build(model().parameters(), OptimConfig(name="sgd", momentum=0.5)).defaults["momentum"] == 0.5


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": 0.0},
        {"eps": -1.0},
        {"warmup": -1},
        {"weight_decay": -0.1},
        {"betas": (0.9, 1.0)},
        {"momentum": 1.0},
    ],
)
def test_senseless_settings_are_refused(settings: dict) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(settings))}.* must"):
        config.build(OptimConfig, settings)


def weight_with(gradient: list[float]) -> nn.Parameter:
    weight = nn.Parameter(torch.zeros(len(gradient)))
    weight.grad = torch.tensor(gradient)
    return weight


@pytest.mark.parametrize("total", [10, 10.0, torch.tensor(10)])
def test_an_update_divides_then_clips(total: object) -> None:
    weight = weight_with([30.0, 40.0])
    skipped = update(build([weight], OptimConfig(name="sgd", learning_rate=9.0)), total, rate=1.0, clip=1.0)
    assert not skipped
    assert torch.allclose(weight, torch.tensor([-0.6, -0.8]), atol=1e-5)


def test_without_clipping_a_gradient_stays_as_long_as_it_is() -> None:
    weight = weight_with([30.0, 40.0])
    update(build([weight], OptimConfig(name="sgd")), 1, rate=1.0, clip=None)
    assert torch.equal(weight, torch.tensor([-30.0, -40.0]))


@pytest.mark.parametrize("clip", [1.0, None])
@pytest.mark.parametrize(("gradient", "total"), [(float("nan"), 1), (float("inf"), 1), (0.0, 0)])
def test_a_gradient_that_is_not_finite_changes_nothing(gradient: float, total: int, clip: float | None) -> None:
    weight = weight_with([gradient, 1.0])
    optimizer = build([weight], OptimConfig())
    assert update(optimizer, total, rate=1.0, clip=clip)
    assert torch.equal(weight, torch.zeros(2))
    assert not optimizer.state


def test_a_fused_optimizer_skips_on_the_device() -> None:
    weight = weight_with([float("nan"), 1.0])
    optimizer = torch.optim.Adam([weight], fused=True)
    assert update(optimizer, 1, rate=1.0, clip=1.0)
    assert torch.equal(weight, torch.zeros(2))
    weight.grad = torch.ones(2)
    assert not update(optimizer, 1, rate=1.0, clip=1.0)
    assert torch.allclose(weight, torch.full((2,), -1.0))


@pytest.mark.parametrize("fused", [False, True])
def test_a_veto_changes_nothing(fused: bool) -> None:
    weight = weight_with([1.0, 1.0])
    optimizer = torch.optim.Adam([weight], fused=fused)
    for veto in (True, torch.tensor(True)):
        assert update(optimizer, 1, rate=1.0, clip=1.0, veto=veto)
    assert torch.equal(weight, torch.zeros(2))
    assert not update(optimizer, 1, rate=1.0, clip=1.0, veto=torch.tensor(False))
    assert not torch.equal(weight, torch.zeros(2))


@pytest.mark.parametrize("config", [OptimConfig(), OptimConfig(name="adamw"), OptimConfig(name="sgd", momentum=0.9)])
@pytest.mark.parametrize("length", [LARGEST / 2, LARGEST * 10, 3e38])
def test_no_finite_gradient_is_too_long_for_weights_and_averages(config: OptimConfig, length: float) -> None:
    weight = weight_with([length, 1.0])
    optimizer = build([weight], config)
    assert bool(update(optimizer, 1, rate=1.0, clip=None)) == (length > LARGEST)
    weight.grad = torch.ones(2)
    assert not update(optimizer, 1, rate=1.0, clip=None)
    assert all(tensor.isfinite().all() for state in optimizer.state.values() for tensor in (weight, *state.values()))


def test_without_any_gradient_nothing_changes() -> None:
    weight = nn.Parameter(torch.zeros(2))
    assert update(build([weight], OptimConfig()), 0, rate=1.0, clip=1.0)


def test_fused_momentum_is_at_rest_after_a_first_step_that_was_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.Parameter, "is_cuda", True)  # so that the fused one is built
    empty = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda tensor: empty(tensor).fill_(float("nan")))  # as memory may be
    weight = weight_with([float("nan"), 1.0])
    optimizer = build([weight], OptimConfig(name="sgd", momentum=0.5, learning_rate=1.0))
    assert optimizer.defaults["fused"]
    assert update(optimizer, 1, rate=1.0, clip=None)
    for expected in (-1.0, -2.5):
        weight.grad = torch.ones(2)
        assert not update(optimizer, 1, rate=1.0, clip=None)
        assert torch.equal(weight, torch.full((2,), expected))


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_a_fused_update_shows_in_the_version_of_a_weight(kind: type) -> None:
    weight = weight_with([30.0, 40.0])
    before = weight._version
    update(kind([weight], lr=0.1, fused=True), 1, rate=0.1, clip=None)
    assert weight._version > before, "what keeps a copy of the weights, as fast generating does, would keep an old one"
