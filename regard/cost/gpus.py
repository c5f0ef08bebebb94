"""GPUs and TPU chips by name, and what operations come to on them in time and money."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GPU:
    """The data sheet of a GPU: bytes of memory, and peak operations per second without sparsity."""

    memory: float
    fp32: float | None
    """None where the products of single precision have no published peak."""
    half: float


GPUS = {
    "P100": GPU(16e9, 10.6e12, 21.2e12),
    "V100": GPU(32e9, 15.7e12, 125e12),
    "T4": GPU(16e9, 8.1e12, 65e12),
    "RTX3090": GPU(24e9, 35.6e12, 71e12),
    "RTX4090": GPU(24e9, 82.6e12, 165.2e12),
    "L4": GPU(24e9, 30.3e12, 121e12),
    "A100": GPU(80e9, 19.5e12, 312e12),
    "H100": GPU(80e9, 67e12, 989e12),
    "H200": GPU(141e9, 67e12, 989e12),
    "TPUv2": GPU(16e9, None, 45e12),
    "TPUv3": GPU(32e9, None, 123e12),
    "TPUv4": GPU(32e9, None, 275e12),
}


def gpu(name: str) -> GPU:
    """Return the GPU of this name."""
    if name not in GPUS:
        raise ValueError(f"unknown GPU {name}: choose one of {', '.join(GPUS)}")
    return GPUS[name]


def peak(name: str, precision: str) -> float:
    """Return the peak operations per second of a GPU or TPU in half or single precision."""
    processor = gpu(name)
    rate = processor.half if precision == "half" else processor.fp32
    if rate is None:
        raise ValueError(
            f"{name} multiplies in half precision, its peak in single precision is not published: "
            "leave precision=fp32 out"
        )
    return rate


def known_gpu(device: str) -> str | None:
    """Return the GPU that a driver's name such as `NVIDIA H100 80GB HBM3` contains, or None."""
    words = device.replace("GeForce ", "").replace("RTX ", "RTX").replace("-", " ").split()
    return next((name for name in GPUS if name in words), None)


def duration(operations: float, *, rate: float, count: int = 1) -> float:
    """Return the seconds that `count` GPUs take, each at `rate` operations per second."""
    return operations / (rate * count)


def price(seconds: float, *, hourly: float, count: int = 1) -> float:
    """Return the price of `count` GPUs for this time."""
    return seconds / 3600 * hourly * count
