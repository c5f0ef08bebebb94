"""Where training runs and in which precision; what cannot be had is refused in one line."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Literal

import torch
from torch import nn

from regard.models.interface import traits_of

SMALL = 500_000  # features of a row below which threads cost more than they bring
Precision = Literal["auto", "float32", "bfloat16"]
Switch = Literal["auto", "on", "record", "off"]
ENOUGH = 1000  # steps, which save as much time as compiling takes (some 25 s) where they are of a middling size


def choose(name: str | torch.device = "auto") -> torch.device:
    """The device of that name; `auto` takes the first there is of cuda, mps, cpu."""
    name = str(name) if isinstance(name, torch.device) else name
    if name == "cpu":  # asking for others would wake CUDA, which takes a second
        return torch.device(name)
    there = _there()
    if name == "auto":
        return torch.device(there[0])
    if not isinstance(name, str):
        raise ValueError(f"device {name!r} is unknown, use auto or one of {', '.join(there)}")
    if name.lower() in ("gpu", "nvidia", "apple", "metal"):
        raise ValueError(f"device {name!r}: a GPU is called cuda or mps, and this machine has {' and '.join(there)}")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device {name!r} is unknown, use auto or one of {', '.join(there)}") from None
    too_many = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    if device.type not in there or too_many:
        raise ValueError(f"device {name!r} is not on this machine, use auto or one of {', '.join(there)}")
    return device


def precision(device: torch.device, setting: Precision = "auto") -> torch.dtype:
    """The dtype of matrix products: bfloat16 only where CUDA hardware computes with it."""
    capable = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8
    if setting == "bfloat16" and not capable:
        remedy = "use float32, or a CUDA device of capability 8.0 or more"
        raise ValueError(f"precision bfloat16 is not for {device}, where it is emulated and very slow: {remedy}")
    return torch.bfloat16 if capable and setting != "float32" else torch.float32


def autocast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[None]:
    """A context in which products are computed in `dtype`; float32 changes nothing."""
    if dtype is torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)


def seed(device: torch.device, value: int) -> None:
    """Start the randomness of the CPU and of this device; `torch.manual_seed` costs a millisecond where CUDA sleeps."""
    torch.default_generator.manual_seed(value)
    if device.type == "cuda":
        torch.cuda.manual_seed(value)
    elif device.type == "mps":
        torch.mps.manual_seed(value)


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that it was given, so that a clock tells how long that took."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def hash64(*numbers: int) -> int:
    """A seed for these numbers, unlike that of any others."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest(), "big") >> 1


def compiles(device: torch.device, setting: Switch = "auto", model: nn.Module | None = None) -> bool:
    """Whether steps are compiled, recorded, or both: on CUDA unless it is off; elsewhere it costs more than it brings.

    A model whose steps have no fixed shape, or that is only to be recorded, says so by its traits.
    """
    return device.type == "cuda" and setting != "off" and (model is None or traits_of(model).capturable)


def compile_mode(device: torch.device, setting: Switch, model: nn.Module, *, steps: int) -> Switch:
    """How so many steps are taken: compiled and recorded, recorded only where they are few, or as they are."""
    if not compiles(device, setting, model):
        return "off"
    if setting == "auto":
        return "on" if steps >= ENOUGH else "record"
    return setting


@contextlib.contextmanager
def limit_threads(requested: int | None, *, features: int) -> Iterator[None]:
    """As many CPU threads as rows of so many features are worth: small ones lose more by sharing than they gain."""
    before = torch.get_num_threads()
    torch.set_num_threads(requested or (1 if features < SMALL else before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _there() -> list[str]:
    cuda = ["cuda"] if torch.cuda.is_available() else []
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return [*cuda, *mps, "cpu"]
