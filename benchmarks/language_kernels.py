"""Attention alone, forward and backward: which kernel is the fastest for a row, and with which tiles ours is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from regard.attention import attend as module
from regard.attention.attend import AttentionSpec, attend
from regard.attention.masks import Row, causal, packed
from regard.attention.positions import ALiBi, Relative

SHAPES = {  # windows, context, heads, whether the future is hidden
    "gpt2": (32, 1024, 12, True),
    "bert": (256, 128, 12, False),
    "t5 encoder": (64, 512, 12, False),
}
HELD, TAKEN, WARPS, STAGES = (64, 128), (32, 64, 128), (4, 8), (2, 3)


def measure(*, small: bool) -> dict[str, Any]:
    """Milliseconds of every way, and the best tiles of each of our kernels."""
    found: dict[str, Any] = {}
    for name, (windows, context, heads, hidden) in SHAPES.items():
        shape = (2, 32, 2, hidden) if small else (windows, context, heads, hidden)
        found[name] = _ways(*shape, small=small)
    if not small:
        found["tiles"] = {name: _tiles(name) for name in ("gpt2", "bert")}
    return found


def _ways(windows: int, context: int, heads: int, hidden: bool, *, small: bool) -> dict[str, Any]:
    place, dtype = ("cpu", torch.float32) if small else ("cuda", torch.bfloat16)
    even = Row.of([context] * windows).to(place)
    uneven = Row(even.offsets, even.longest, even.segment, even.place, even.count, windows)
    alibi, relative = ALiBi(heads).to(place), Relative(heads, causal=hidden).to(place)
    ways: dict[str, tuple[Row, AttentionSpec, int, list[Any]]] = {
        "varlen": (uneven, AttentionSpec(), 0, module.BATCH_BACKENDS),
        "our rows": (uneven, AttentionSpec(), 1 << 20, module.BATCH_BACKENDS),
        "batch, cuDNN": (even, AttentionSpec(), 512, [SDPBackend.CUDNN_ATTENTION]),
        "batch, flash": (even, AttentionSpec(), 512, [SDPBackend.FLASH_ATTENTION]),
        "ALiBi": (even, AttentionSpec(bias=alibi.bias, slopes=alibi.slopes), 512, module.BATCH_BACKENDS),
        "relative": (even, AttentionSpec(bias=relative.bias), 512, module.BATCH_BACKENDS),
    }
    vectors = torch.randn(len(even.segment), 3 * heads, 64, device=place, dtype=dtype, requires_grad=True)
    found: dict[str, Any] = {}
    for name, (row, way, short, order) in ways.items():
        module.SHORT, before, module.BATCH_BACKENDS = short, (module.SHORT, module.BATCH_BACKENDS), order
        mask = packed(row) & causal() if hidden else packed(row)
        try:
            found[name] = _times(lambda mask=mask, way=way: _attended(vectors, mask, way), small)
        except RuntimeError as error:
            found[name] = str(error)[:100]
        finally:
            module.SHORT, module.BATCH_BACKENDS = before
    return found


def _attended(vectors: torch.Tensor, mask: Any, way: AttentionSpec) -> torch.Tensor:
    return attend(*vectors.transpose(0, 1).chunk(3), mask=mask, way=way)


def _times(work: Callable[[], torch.Tensor], small: bool) -> dict[str, float]:
    """Of the way there, and of both ways."""
    slope = torch.randn_like(work())

    def both() -> None:
        work().backward(slope)

    if small:
        both()
        return {}
    from triton.testing import do_bench

    timed = {"forward": work, "both": both}
    return {
        name: round(float(do_bench(each, warmup=10, rep=50, return_mode="median")), 3) for name, each in timed.items()
    }


def _tiles(name: str) -> dict[str, Any]:
    """The three best tiles of each kernel for a shape, the others being what they are."""
    from regard.attention.kernels import rows
    from regard.attention.kernels.rows import Tiles

    windows, context, heads, hidden = SHAPES[name]
    row, alibi = Row.of([context] * windows).to("cuda"), ALiBi(heads).cuda()
    row = Row(row.offsets, row.longest, row.segment, row.place, row.count, windows)  # not known to be even
    vectors = torch.randn(len(row.segment), 3 * heads, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    mask = packed(row) & causal() if hidden else packed(row)
    way = AttentionSpec(bias=alibi.bias, slopes=alibi.slopes) if hidden else AttentionSpec()
    table = rows.OWN if context >= rows.LONG else rows.SHARED
    found: dict[str, Any] = {}
    for kernel, chosen in table.items():
        every = {}
        for tiles in itertools.starmap(Tiles, itertools.product(HELD, TAKEN, WARPS, STAGES)):
            if tiles.loaded_tokens > tiles.resident_tokens or (tiles.resident_tokens == 64 and tiles.warps == 8):
                continue
            table[kernel] = tiles
            try:
                every[str(tuple(tiles))] = _on_the_device(lambda: _attended(vectors, mask, way), kernel)
            except Exception as error:  # a tile may need more than a multiprocessor has
                every[str(tuple(tiles))] = float("inf")
                print(kernel, tiles, str(error)[:80], flush=True)
        table[kernel] = chosen
        found[kernel] = {"now": every.get(str(tuple(chosen)))} | dict(
            sorted(every.items(), key=lambda item: item[1])[:3]
        )
    return found


def _on_the_device(work: Callable[[], torch.Tensor], kernel: str) -> float:
    """Milliseconds of one of our kernels, by the profiler: others and the host do not count."""
    from torch.profiler import ProfilerActivity, profile

    slope = torch.randn_like(work())
    work().backward(slope)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(5):
            work().backward(slope)
        torch.cuda.synchronize()
    name = "forward" if kernel == "forward" else f"backward_{kernel}"
    return round(sum(event.device_time for event in seen.events() if event.name == name) / 5 / 1000, 4)
