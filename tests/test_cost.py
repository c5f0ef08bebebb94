"""Costs as computed equal costs as counted, and grow as the table says."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard import cost
from regard.attention.attend import attend
from regard.attention.masks import Grid, Row, window
from regard.attention.multihead import MultiHead
from regard.config import build
from regard.models.transformer import Transformer, TransformerConfig

TINY = TransformerConfig(vocab=50, width=32, heads=4, hidden=48, encoder=2, decoder=1)


def counted(run: Callable[[], Any]) -> int:
    """Operations as torch counts them; the plain kernel is made of products it knows."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def layer(name: str, *sizes: int, **more: int) -> cost.Layer:
    """One row of the table."""
    return {row.name: row for row in cost.table(*sizes, **more)}[name]


# The table.


@pytest.mark.parametrize("name", ["self-attention", "recurrent", "convolution"])
def test_the_operations_of_a_layer_are_those_torch_counts(name):
    run = cost.layers(16, kernel=3, window=9, device="cpu")[name](40)
    assert counted(run) == layer(name, 40, 16, kernel=3, window=9).operations


def test_the_operations_of_cross_attention_are_those_torch_counts():
    query, key = torch.randn(1, 1, 24, 16), torch.randn(1, 1, 40, 16)
    assert counted(lambda: attend(query, key, key)) == layer("self-attention", 24, 16, keys=40).operations


def test_windowed_attention_really_costs_a_multiple_of_the_length():
    prepare = cost.layers(16, kernel=3, window=9, device="cpu")["windowed"]
    assert counted(prepare(512)) == 8 * counted(prepare(64))
    assert counted(prepare(512)) < 1.5 * layer("windowed", 512, 16, window=9).operations


@pytest.mark.parametrize(
    ("name", "in_length", "in_width"),
    [("self-attention", 4, 2), ("recurrent", 2, 4), ("convolution", 2, 4), ("windowed", 2, 2)],
)
def test_twice_the_length_and_twice_the_width_cost_what_the_table_says(name, in_length, in_width):
    once = layer(name, 512, 64).operations
    assert layer(name, 1024, 64).operations == in_length * once
    assert layer(name, 512, 128).operations == in_width * once


def test_kernel_and_window_multiply_their_own_row_only():
    plain, other = cost.table(512, 64, kernel=3, window=16), cost.table(512, 64, kernel=6, window=32)
    assert [b.operations // a.operations for a, b in zip(plain, other, strict=True)] == [1, 1, 2, 2]


def test_only_a_recurrent_layer_works_in_turn():
    assert [row.steps for row in cost.table(100, 8)] == [1, 100, 1, 1]


def test_attention_holds_a_weight_for_every_pair_in_sight():
    assert [row.weights for row in cost.table(100, 8, window=10, keys=70)] == [7000, 0, 0, 1000]


def test_the_parameters_are_those_of_the_layers():
    recurrent, convolution = nn.RNN(8, 8, bias=False), nn.Conv1d(8, 8, 5, bias=False)
    sizes = [sum(weight.numel() for weight in module.parameters()) for module in (recurrent, convolution)]
    assert [row.parameters for row in cost.table(100, 8, kernel=5)] == [0, *sizes, 0]


@given(length=st.integers(1, 300), step=st.integers(2, 9))
def test_a_path_is_as_long_as_a_stack_must_be_to_see_everything(length, step):
    field, layers = 1, 0
    while field < length or layers == 0:  # each layer adds the window to what one position has seen
        field, layers = field + step - 1, layers + 1
    assert layer("windowed", length, 4, window=step).path == layers
    field, layers = 1, 0
    while field < length or layers == 0:  # and a dilated convolution multiplies it by the kernel
        field, layers = field * step, layers + 1
    assert layer("convolution", length, 4, kernel=step).path == layers
    assert [row.path for row in cost.table(length, 4)][:2] == [1, length]


def test_a_megapixel_has_a_trillion_pairs_of_pixels_and_few_of_patches():
    assert cost.image_pairs(1024, 1024) == (2**20) ** 2
    assert f"{cost.image_pairs(1024, 1024):.2e}" == "1.10e+12"
    assert f"{cost.image_pairs(1024, 1024, patch=16):.2e}" == "1.68e+07"


def test_a_size_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="kernel is 1: choose 2 or more"):
        cost.table(10, 10, kernel=1)


# Measuring.


@given(length=st.integers(1, 40), reach=st.integers(1, 12), heads=st.integers(1, 2))
def test_attention_in_blocks_equals_attention_through_a_window(length, reach, heads):
    query, key, value = torch.randn(3, heads, length, 8)
    torch.testing.assert_close(
        cost.local(query, key, value, reach=reach), attend(query, key, value, mask=window(reach))
    )


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_growth_of_a_power_law_is_its_exponent(power):
    assert cost.growth([1, 2, 5, 9], [3 * n**power for n in (1, 2, 5, 9)]) == pytest.approx(power)


def test_measured_times_grow_faster_for_attention_to_everything():
    timings = {timing.name: timing for timing in cost.measure((512, 1024, 2048), width=16, repeats=5)}
    assert list(timings) == [row.name for row in cost.table(8, 8)]
    assert timings["self-attention"].exponent > timings["windowed"].exponent
    assert timings["self-attention"].operations == tuple(4 * n * n * 16 for n in (512, 1024, 2048))


def test_one_length_shows_no_growth():
    with pytest.raises(ValueError, match="two or more"):
        cost.measure((64, 64))


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_plot_is_a_picture(tmp_path, ending, magic):
    lengths = (64, 128, 256)
    timings = [
        cost.Timing(row.name, lengths, tuple(row.operations * n for n in lengths), tuple(1e-5 * n for n in lengths))
        for row in cost.table(64, 8)
    ]
    cost.plot(timings, tmp_path / f"cost.{ending}")
    assert (tmp_path / f"cost.{ending}").read_bytes().startswith(magic)


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


def test_a_config_of_no_model_is_refused():
    with pytest.raises(ValueError, match="no model is configured by Plan"):
        cost.parameters(cost.Plan())


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
