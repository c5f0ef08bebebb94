"""GELU of features and their bias as Triton kernels, for steps that are compiled for a GPU.

A compiled error function takes longer than reading the features from memory, and compiled code reads all gradients once
more to sum them for the bias. Here the error function is exact to 2e-7, where half precision ends at 4e-3, and the sums
are computed in the same pass. Imported only where Triton is installed and a CUDA device is used.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 16, 256  # of a tile
LANES = 64  # programs that share the rows of a column of tiles in the backward pass


@torch.library.custom_op("regard::biased_gelu", mutates_args=())
def biased_gelu(x: Tensor, bias: Tensor, approximate: bool) -> Tensor:
    """Return the GELU of `x + bias` in the dtype of x; approximate: with tanh, as in GPT-2."""
    x, out = x.contiguous(), torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows, columns = x.numel() // x.shape[-1], x.shape[-1]
    grid = (triton.cdiv(rows, ROWS), triton.cdiv(columns, COLUMNS))
    _forward[grid](x, bias, out, rows, columns, APPROXIMATE=approximate, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4)
    return out


@biased_gelu.register_fake
def _(x: Tensor, bias: Tensor, approximate: bool) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@torch.library.custom_op("regard::biased_gelu_backward", mutates_args=())
def _biased_gelu_backward(slope: Tensor, x: Tensor, bias: Tensor, approximate: bool) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and of the bias."""
    slope, x, out = slope.contiguous(), x.contiguous(), torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows, columns = x.numel() // x.shape[-1], x.shape[-1]
    lanes = min(LANES, triton.cdiv(rows, ROWS))
    share = triton.cdiv(triton.cdiv(rows, ROWS), lanes) * ROWS
    sums = torch.empty(lanes, columns, device=x.device)
    sizes = {"APPROXIMATE": approximate, "ROWS": ROWS, "COLUMNS": COLUMNS}
    _backward[(lanes, triton.cdiv(columns, COLUMNS))](
        slope, x, bias, out, sums, rows, columns, share, **sizes, num_warps=4
    )
    return out, sums.sum(0).to(bias.dtype)


@_biased_gelu_backward.register_fake
def _(slope: Tensor, x: Tensor, bias: Tensor, approximate: bool) -> tuple[Tensor, Tensor]:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device), torch.empty_like(bias)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.approximate = inputs[2]


def _differentiate(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
    return *_biased_gelu_backward(slope, *ctx.saved_tensors, ctx.approximate), None


biased_gelu.register_autograd(_differentiate, setup_context=_save_for_backward)


@triton.jit
def _below(x, APPROXIMATE: tl.constexpr):
    """Return the normal distribution function at x, and its derivative."""
    if APPROXIMATE:
        below = 1.0 / (1.0 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
        return below, below * (1.0 - below) * 1.5957691216057308 * (1.0 + 0.134145 * x * x)
    bell = tl.exp(-0.5 * x * x)
    near = 1.0 / (1.0 + 0.23164188 * tl.abs(x))  # Abramowitz and Stegun, 7.1.26, whose argument is x / sqrt(2)
    powers = (
        (((1.061405429 * near - 1.453152027) * near + 1.421413741) * near - 0.284496736) * near + 0.254829592
    ) * near
    beyond = 0.5 * powers * bell
    return tl.where(x < 0, beyond, 1.0 - beyond), bell * 0.3989422804014327


@triton.jit
def _forward(
    x, bias, out, rows, columns, APPROXIMATE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Compute one tile."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    offsets = row.to(tl.int64)[:, None] * columns + column[None, :]
    there = (row < rows)[:, None] & (column < columns)[None, :]
    added = tl.load(bias + column, column < columns, 0.0).to(tl.float32)
    biased = tl.load(x + offsets, there, 0.0).to(tl.float32) + added[None, :]
    below, _ = _below(biased, APPROXIMATE)
    tl.store(out + offsets, (biased * below).to(out.dtype.element_ty), there)


@triton.jit
def _backward(
    slope, x, bias, out, sums, rows, columns, share,
    APPROXIMATE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute a column of tiles, one after the other, and the sums of their gradients."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    added = tl.load(bias + column, column < columns, 0.0).to(tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    first = tl.program_id(0) * share
    for start in range(0, share, ROWS):
        row = first + start + tl.arange(0, ROWS)
        offsets = row.to(tl.int64)[:, None] * columns + column[None, :]
        there = (row < rows)[:, None] & (column < columns)[None, :]
        biased = tl.load(x + offsets, there, 0.0).to(tl.float32) + added[None, :]
        below, density = _below(biased, APPROXIMATE)
        changed = tl.load(slope + offsets, there, 0.0).to(tl.float32) * (below + biased * density)
        tl.store(out + offsets, changed.to(out.dtype.element_ty), there)
        total += changed
    tl.store(sums + tl.program_id(0) * columns + column, tl.sum(total, 0), column < columns)
