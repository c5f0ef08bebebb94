"""Costs as computed equal costs as counted, and grow as the table says."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard import cost
from regard.attention.masks import Grid, Row
from regard.attention.multihead import MultiHead
from regard.config import build
from regard.models.transformer import Transformer, TransformerConfig

TINY = TransformerConfig(vocab=50, width=32, heads=4, hidden=48, encoder=2, decoder=1)


def counted(run: Callable[[], Any]) -> int:
    """Operations as torch counts them; the plain kernel is made of products it knows."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


# Multi-head attention.


@pytest.mark.parametrize("heads", [2, 4, 8])
def test_many_small_heads_cost_what_one_large_head_costs(heads):
    x = torch.randn(2, 10, 32)
    one, many = MultiHead(32, 1), MultiHead(32, heads)
    assert counted(lambda: many(x)) == counted(lambda: one(x)) == 2 * (8 * 10 * 32 * 32 + 4 * 10 * 10 * 32)
    assert [p.numel() for p in many.parameters()] == [p.numel() for p in one.parameters()]


# Whole models.


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"preset": "base"}, 63_082_496),
        ({"preset": "base", "attention_bias": False}, 63_045_632),
        ({"preset": "big"}, 214_245_376),
    ],
)
def test_the_presets_have_exactly_the_papers_parameters(settings, count):
    assert cost.parameters(build(TransformerConfig, {"vocab": 37_000, **settings})) == count


def test_parameters_are_those_of_the_built_model():
    assert cost.parameters(TINY) == sum(parameter.numel() for parameter in Transformer(TINY).parameters())


def loss(model: Transformer, source: int, target: int) -> torch.Tensor:
    """A forward pass over one pair, on the device where the model is."""
    device = next(model.parameters()).device
    layouts = tuple(Grid(torch.full((1,), length, device=device), length) for length in (source, target))
    tokens = [torch.zeros(1, length, dtype=torch.int64, device=device) for length in (source, target)]
    return model.logits(model(*tokens, layouts=layouts)).sum()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"groups": 2, "norm": "pre"},
        {"share": "none", "target_vocab": 70},
        {"encoder": 4, "decoder": 2, "activation": "gelu"},
    ],
)
def test_the_operations_of_a_model_are_those_torch_counts(settings):
    config = TransformerConfig(
        **{"vocab": 50, "width": 32, "heads": 4, "hidden": 48, "encoder": 1, "decoder": 1} | settings
    )
    model = Transformer(config)
    assert counted(lambda: loss(model, 9, 7)) == cost.flops(config, 9, 7)


def test_a_training_step_costs_three_forward_passes():
    model = Transformer(TINY)
    assert counted(lambda: loss(model, 9, 7).backward()) == 3 * cost.flops(TINY, 9, 7)


def kept(config: TransformerConfig, source: int, target: int, *, pairs: int) -> int:
    """Bytes that a training step really keeps for the backward pass, weights aside."""
    model = Transformer(config)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    storages = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage
        return tensor

    tokens = [torch.zeros(pairs * length, dtype=torch.int64) for length in (source, target)]
    layouts = Row.of([source] * pairs), Row.of([target] * pairs)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        F.cross_entropy(model.logits(model(*tokens, layouts=layouts)), tokens[1])
    return sum(storage.nbytes() for address, storage in storages.items() if address not in own)


@pytest.mark.parametrize(
    "settings",
    [{}, {"vocab": 2000, "encoder": 3}, {"width": 64, "hidden": 64, "decoder": 3, "activation": "gelu", "norm": "pre"}],
)
def test_the_memory_of_activations_is_about_what_autograd_keeps(settings):
    config = TransformerConfig(
        **{"vocab": 100, "width": 64, "heads": 4, "hidden": 256, "encoder": 2, "decoder": 1} | settings
    )
    memory = cost.training_memory(config, source=24, target=20, pairs=40)  # many, for some weights are kept as well
    assert 0.75 < kept(config, 24, 20, pairs=40) / memory["activations"] < 1.33
    assert memory["weights"] + memory["optimizer"] == 16 * cost.parameters(config)


# Time and money.


def test_the_paper_trained_for_as_long_as_its_operations_say():
    hour, day = 3600, 86400
    assert f"{12 * hour * 8 * 9.5e12:.1e}" == "3.3e+18"
    assert cost.duration(3.3e18, rate=9.5e12, count=8) / hour == pytest.approx(12, rel=0.01)
    assert cost.duration(2.3e19, rate=9.5e12, count=8) / day == pytest.approx(3.5, rel=0.01)


def test_a_gpt3_takes_a_v100_356_years_and_4_7_million():
    seconds = cost.duration(3.15e23, rate=28e12)
    assert seconds / (365.25 * 86400) == pytest.approx(356, abs=1)
    assert cost.price(seconds, hourly=1.5) / 1e6 == pytest.approx(4.7, abs=0.05)


def test_a_plan_comes_to_its_parts():
    plan = cost.Plan(source=9, target=7, pairs=10, steps=100, gpu="A100", precision="fp32", share=0.5, hourly=2.0)
    answer = cost.estimate(TINY, plan)
    assert answer.operations == 3 * 100 * 10 * cost.flops(TINY, 9, 7)
    assert answer.seconds == pytest.approx(answer.operations / (0.5 * 19.5e12))
    assert answer.price == pytest.approx(answer.seconds / 1800)
    assert answer.memory == sum(cost.training_memory(TINY, source=9, target=7, pairs=10).values())
    assert answer.fits


def test_more_gpus_take_less_time_for_the_same_money():
    base = build(TransformerConfig, {"preset": "base", "vocab": 37_000})
    one, eight = (cost.estimate(base, cost.Plan(gpu="P100", count=count, hourly=1.0)) for count in (1, 8))
    assert one.seconds == pytest.approx(8 * eight.seconds)
    assert one.price == pytest.approx(eight.price)
    assert eight.activations == one.activations // 8


def test_a_model_too_large_for_a_gpu_does_not_fit():
    big = build(TransformerConfig, {"preset": "big", "vocab": 37_000})
    assert not cost.estimate(big, cost.Plan(gpu="T4", pairs=4000)).fits
    assert cost.estimate(big, cost.Plan(gpu="H200", pairs=400)).fits


def test_an_unknown_gpu_answers_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown GPU H1000: choose one of P100"):
        cost.gpu("H1000")
