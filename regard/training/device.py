"""Choice of device, precision, compilation and CPU threads; what is unavailable is refused in one line."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Literal

import torch
from torch import nn

from regard.models.interface import traits_of

SMALL = 500_000  # features of a row below which one thread is faster than several
Precision = Literal["auto", "float32", "bfloat16"]
Switch = Literal["auto", "on", "record", "off"]
ENOUGH = 1000  # steps from which compiling (about 25 s) pays off if they are of medium size


def choose(name: str | torch.device = "auto") -> torch.device:
    """Return the device of that name; `auto` takes the first available of cuda, mps, cpu."""
    name = str(name) if isinstance(name, torch.device) else name
    if name == "cpu":  # looking for others would initialise CUDA, which takes a second
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
    """Return the dtype of matrix products: bfloat16 only on CUDA hardware that supports it."""
    capable = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8
    if setting == "bfloat16" and not capable:
        remedy = "use float32, or a CUDA device of capability 8.0 or more"
        raise ValueError(f"precision bfloat16 is not for {device}, where it is emulated and very slow: {remedy}")
    return torch.bfloat16 if capable and setting != "float32" else torch.float32


def autocast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[None]:
    """Return a context in which matrix products are computed in `dtype`; float32 changes nothing."""
    if dtype is torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)


def seed(device: torch.device, value: int) -> None:
    """Seed the CPU and this device only; `torch.manual_seed` takes a millisecond where CUDA is not initialised."""
    torch.default_generator.manual_seed(value)
    if device.type == "cuda":
        torch.cuda.manual_seed(value)
    elif device.type == "mps":
        torch.mps.manual_seed(value)


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished all queued work, so that it can be timed."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def hash64(*numbers: int) -> int:
    """Hash these numbers to a 63-bit seed."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest(), "big") >> 1


def compiles(device: torch.device, setting: Switch = "auto", model: nn.Module | None = None) -> bool:
    """True if steps are compiled, recorded, or both: on CUDA unless it is off; elsewhere it does not pay off.

    Models whose steps cannot be captured are excluded by their traits.
    """
    return device.type == "cuda" and setting != "off" and (model is None or traits_of(model).capturable)


def compile_mode(device: torch.device, setting: Switch, model: nn.Module, *, steps: int) -> Switch:
    """Return how steps are run: compiled and recorded, only recorded if there are few of them, or neither."""
    if not compiles(device, setting, model):
        return "off"
    if setting == "auto":
        return "on" if steps >= ENOUGH else "record"
    return setting


@contextlib.contextmanager
def limit_threads(requested: int | None, *, features: int) -> Iterator[None]:
    """Set the number of CPU threads within the block; the default is one for small rows, which several slow down."""
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
