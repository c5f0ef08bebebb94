"""Costs of layers as computed equal costs as counted, and grow as the table says."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from regard.attention.attend import attend
from regard.attention.masks import window
from regard.cli import app
from regard.lab import complexity


def counted(run: Callable[[], Any]) -> int:
    """Operations as torch counts them; the plain kernel is made of products it knows."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def layer(name: str, *sizes: int, **more: int) -> complexity.Layer:
    """One row of the table."""
    return {row.name: row for row in complexity.table(*sizes, **more)}[name]


# The table.


@pytest.mark.parametrize("name", ["self-attention", "recurrent", "convolution"])
def test_the_operations_of_a_layer_are_those_torch_counts(name):
    run = complexity.layers(16, kernel=3, window=9, device="cpu")[name](40)
    assert counted(run) == layer(name, 40, 16, kernel=3, window=9).operations


def test_the_operations_of_cross_attention_are_those_torch_counts():
    query, key = torch.randn(1, 1, 24, 16), torch.randn(1, 1, 40, 16)
    assert counted(lambda: attend(query, key, key)) == layer("self-attention", 24, 16, keys=40).operations


def test_windowed_attention_really_costs_a_multiple_of_the_length():
    prepare = complexity.layers(16, kernel=3, window=9, device="cpu")["windowed"]
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
    plain, other = complexity.table(512, 64, kernel=3, window=16), complexity.table(512, 64, kernel=6, window=32)
    assert [b.operations // a.operations for a, b in zip(plain, other, strict=True)] == [1, 1, 2, 2]


def test_only_a_recurrent_layer_works_in_turn():
    assert [row.steps for row in complexity.table(100, 8)] == [1, 100, 1, 1]


def test_attention_holds_a_weight_for_every_pair_in_sight():
    assert [row.weights for row in complexity.table(100, 8, window=10, keys=70)] == [7000, 0, 0, 1000]


def test_the_parameters_are_those_of_the_layers():
    recurrent, convolution = nn.RNN(8, 8, bias=False), nn.Conv1d(8, 8, 5, bias=False)
    sizes = [sum(weight.numel() for weight in module.parameters()) for module in (recurrent, convolution)]
    assert [row.parameters for row in complexity.table(100, 8, kernel=5)] == [0, *sizes, 0]


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
    assert [row.path for row in complexity.table(length, 4)][:2] == [1, length]


def test_a_megapixel_has_a_trillion_pairs_of_pixels_and_few_of_patches():
    assert complexity.image_pairs(1024, 1024) == (2**20) ** 2
    assert f"{complexity.image_pairs(1024, 1024):.2e}" == "1.10e+12"
    assert f"{complexity.image_pairs(1024, 1024, patch=16):.2e}" == "1.68e+07"


def test_a_size_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="kernel is 1: choose 2 or more"):
        complexity.table(10, 10, kernel=1)


# Measuring.


@given(length=st.integers(1, 40), reach=st.integers(1, 12), heads=st.integers(1, 2))
def test_attention_in_blocks_equals_attention_through_a_window(length, reach, heads):
    query, key, value = torch.randn(3, heads, length, 8)
    torch.testing.assert_close(
        complexity.local(query, key, value, reach=reach), attend(query, key, value, mask=window(reach))
    )


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_growth_of_a_power_law_is_its_exponent(power):
    assert complexity.growth([1, 2, 5, 9], [3 * n**power for n in (1, 2, 5, 9)]) == pytest.approx(power)


def test_measured_times_grow_faster_for_attention_to_everything():
    timings = {timing.name: timing for timing in complexity.measure((512, 1024, 2048), width=16, repeats=5)}
    assert list(timings) == [row.name for row in complexity.table(8, 8)]
    attention, windowed = (
        complexity.growth(one.lengths, one.seconds) for one in (timings["self-attention"], timings["windowed"])
    )
    assert attention > windowed
    assert timings["self-attention"].operations == tuple(4 * n * n * 16 for n in (512, 1024, 2048))


def test_rounds_that_differ_by_more_than_a_tenth_show_no_growth(tmp_path, monkeypatch):
    lengths, noise = (64, 128, 256), {}

    def clock(run, *, repeats, device):
        number = noise["calls"] = noise.get("calls", -1) + 1
        length = lengths[number % len(lengths)]
        spoilt = noise["share"] if number < 12 else 0.0 if number < 24 else 2.0  # rounds: spoilt, quiet, far off
        return 1e-5 * length * (1 + spoilt)

    monkeypatch.setattr(complexity, "best", clock)
    noise |= {"calls": -1, "share": 0.05}
    assert [timing.exponent for timing in complexity.measure(lengths)] == pytest.approx([1.0] * 4)
    noise |= {"calls": -1, "share": 0.3}
    timings = complexity.measure(lengths)
    assert [timing.seconds for timing in timings] == [tuple(1e-5 * length for length in lengths)] * 4
    assert [timing.exponent for timing in timings] == [None] * 4
    assert [timing.noise for timing in timings] == pytest.approx([0.3] * 4)
    complexity.plot(timings, tmp_path / "cost.png")
    noise["calls"] = -1
    monkeypatch.setattr(complexity, "measure", lambda **_: timings)
    done = CliRunner().invoke(app, ["lab", "complexity"], env={"COLUMNS": "80"})
    assert "Rounds differ by up to 30%, which hides how times grow" in " ".join(done.output.split())
    assert "n^" not in done.output


def test_one_length_shows_no_growth():
    with pytest.raises(ValueError, match="two or more"):
        complexity.measure((64, 64))


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_plot_is_a_picture(tmp_path, ending, magic):
    lengths = (64, 128, 256)
    timings = [
        complexity.Timing(
            row.name, lengths, tuple(row.operations * n for n in lengths), tuple(1e-5 * n for n in lengths)
        )
        for row in complexity.table(64, 8)
    ]
    complexity.plot(timings, tmp_path / f"cost.{ending}")
    assert (tmp_path / f"cost.{ending}").read_bytes().startswith(magic)
