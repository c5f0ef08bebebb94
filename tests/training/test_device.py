"""Devices and precisions: what cannot be had is refused in one line."""

import contextlib

import pytest
import torch

from regard.models.perceptron import Perceptron, PerceptronConfig
from regard.training import device

CPU = torch.device("cpu")


def test_auto_takes_the_best_there_is() -> None:
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert device.choose("auto").type == best
    assert device.choose("cpu") == CPU


def test_the_cpu_is_taken_without_waking_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("asked for CUDA"))
    assert device.choose("cpu") == CPU


@pytest.mark.parametrize("name", ["cuda:99", "xpu", "tpu:0"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(ValueError, match=f"device '{name}' is .*use auto or one of .*cpu"):
        device.choose(name)


@pytest.mark.parametrize("name", ["gpu", "GPU", "nvidia", "metal"])
def test_a_gpu_by_another_name_is_told_what_it_is_called(name: str) -> None:
    with pytest.raises(ValueError, match=f"device '{name}': a GPU is called cuda or mps, and this machine has .*cpu"):
        device.choose(name)


def test_bfloat16_on_a_cpu_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"precision bfloat16 is not for cpu.*use float32, or a CUDA device"):
        device.precision(CPU, "bfloat16")
    assert device.precision(CPU, "auto") is device.precision(CPU, "float32") is torch.float32


def test_seeding_is_that_of_torch() -> None:
    torch.manual_seed(2**63 - 1)
    expected = torch.rand(3)
    device.seed(CPU, 2**63 - 1)
    assert torch.equal(torch.rand(3), expected)


def test_nothing_is_cast_or_compiled_on_a_cpu() -> None:
    assert isinstance(device.autocast(CPU, torch.float32), contextlib.nullcontext)
    assert not device.compiles(CPU, "on")


def test_a_short_run_is_recorded_a_long_one_compiled_and_what_is_asked_for_is_done() -> None:
    model, gpu = torch.nn.Linear(2, 2), torch.device("cuda")
    few, many = device.ENOUGH - 1, device.ENOUGH
    assert [device.compile_mode(gpu, "auto", model, steps=steps) for steps in (few, many)] == ["record", "on"]
    assert [device.compile_mode(gpu, wanted, model, steps=few) for wanted in ("on", "record", "off")] == [
        "on",
        "record",
        "off",
    ]
    assert device.compile_mode(CPU, "on", model, steps=many) == "off"
    assert device.compile_mode(gpu, "on", Perceptron(PerceptronConfig(inputs=2, outputs=1)), steps=many) == "off"
