"""What the machine can do at most: the rate of large matrix products and of copies in memory, measured."""

from __future__ import annotations

import statistics
import time

import torch

SIZE = 8192


def measure(device: str = "cuda") -> dict[str, float | str]:
    """bfloat16 TFLOP/s of a large product, and TB/s of a large copy (what is read and what is written)."""
    left = torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16)
    right = torch.randn_like(left)
    big = torch.randn(1 << 28, device=device)
    other = torch.empty_like(big)
    product = _seconds(lambda: left @ right)
    copy = _seconds(lambda: other.copy_(big))
    return {
        "device": torch.cuda.get_device_name(),
        "torch": str(torch.__version__),
        "tflops": round(2 * SIZE**3 / product / 1e12, 1),
        "terabytes_per_second": round(2 * big.nbytes / copy / 1e12, 2),
    }


def _seconds(action: object, repeats: int = 20) -> float:
    assert callable(action)
    for _ in range(3):
        action()
    spent = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        action()
        torch.cuda.synchronize()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)
