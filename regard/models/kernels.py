"""A projection of a few rows with all that surrounds it as one Triton kernel: what is read is the weights, once.

`function(norm(x) W + b) + residual`: every program normalises the few rows for itself, since they are in the cache.
Imported only where Triton is installed and a CUDA device is asked; `inference` has the same in plain PyTorch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

ROWS = 16  # the fewest a matrix product has, and the most these kernels are for
WIDE = 4096  # what gives more features than this is a vocabulary


def project(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    norm: nn.LayerNorm | None = None,
    residual: Tensor | None = None,
    activation: str = "none",
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """The projection in the type asked for, and the normalised rows it was made from."""
    wide, width = weight.shape
    rows = x.numel() // width
    out = torch.empty(*x.shape[:-1], wide, dtype=dtype or x.dtype, device=x.device)
    normed = x if norm is None else torch.empty_like(x)
    few = triton.next_power_of_2(rows) if rows == 1 or (rows <= 4 and wide <= WIDE) else ROWS
    columns, warps = _shape(few, wide, width)
    block = triton.next_power_of_2(width) if norm is not None or few <= 4 else min(512, triton.next_power_of_2(width))
    _project[(triton.cdiv(wide, columns),)](
        *(x, weight, bias, *((None, None) if norm is None else (norm.weight, norm.bias)), residual, normed, out),
        *(rows, wide, 1e-5 if norm is None else norm.eps),
        ACTIVATION=activation,
        WIDTH=width,
        BLOCK=block,
        COLUMNS=columns,
        ROWS=few,
        num_warps=warps,
        num_stages=3,
    )
    return out, normed


def _shape(rows: int, wide: int, width: int) -> tuple[int, int]:
    """Columns of a program and its warps: many small programs, since the wait for memory is what takes time."""
    if rows == ROWS:
        return (16 if wide <= WIDE else 64), 4
    return (4 if wide <= WIDE else 16), (1 if wide <= WIDE and width <= 1024 else 4)


def embed(tokens: Tensor, weight: Tensor, table: Tensor, *, scale: float, prompt: Tensor, taken: Tensor) -> Tensor:
    """Vectors of the newest tokens, scaled, plus the table's row of where they stand."""
    batch, beams = tokens.shape
    width = weight.shape[1]
    out = torch.empty(batch, beams, width, dtype=weight.dtype, device=weight.device)
    sizes = {"WIDTH": width, "BLOCK": triton.next_power_of_2(width)}
    _embed[(batch * beams,)](tokens, weight, table, prompt, taken, out, beams, len(table) - 1, scale, **sizes)
    return out


@triton.jit
def _embed(
    tokens, weight, table, prompt, taken, out, beams, last, scale, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One token; a row that nobody has may have gone on beyond the table."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    place = tl.minimum(tl.load(prompt + row // beams) + tl.load(taken + row // beams) - 1, last)
    vector = tl.load(weight + tl.load(tokens + row) * WIDTH + at, at < WIDTH).to(tl.float32) * scale
    vector += tl.load(table + place * WIDTH + at, at < WIDTH).to(tl.float32)
    tl.store(out + row * WIDTH + at, vector.to(out.dtype.element_ty), at < WIDTH)


@triton.jit
def _project(
    x, weight, bias, gain, shift, residual, normed, out, rows, wide, eps,
    ACTIVATION: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Some columns of the result, for all rows."""
    row, column = tl.arange(0, ROWS), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    real, inside = row < rows, column < wide
    place = row[:, None].to(tl.int64) * wide + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    if bias is not None:  # what is needed last is asked for first: every wait for memory counts
        offset = tl.load(bias + column, inside, 0.0)
    if residual is not None:
        carried = tl.load(residual + place, real[:, None] & inside[None, :], 0.0)
    for start in tl.static_range(0, WIDTH, BLOCK):
        at = start + tl.arange(0, BLOCK)
        there = at < WIDTH
        given = tl.load(x + row[:, None] * WIDTH + at[None, :], real[:, None] & there[None, :], 0.0)
        weights = tl.load(weight + column[:, None] * WIDTH + at[None, :], inside[:, None] & there[None, :], 0.0)
        if gain is not None:
            factor, shifted = tl.load(gain + at, there, 0.0), tl.load(shift + at, there, 0.0)
            exact = given.to(tl.float32)
            middle = tl.sum(exact, 1) / WIDTH
            spread = tl.sum(exact * exact, 1) / WIDTH - middle * middle
            exact = (exact - middle[:, None]) * tl.rsqrt(tl.maximum(spread, 0.0) + eps)[:, None]
            given = (exact * factor.to(tl.float32)[None, :] + shifted.to(tl.float32)[None, :]).to(x.dtype.element_ty)
            if tl.program_id(0) == 0:
                tl.store(normed + row[:, None] * WIDTH + at[None, :], given, real[:, None] & there[None, :])
        if ROWS >= 16:
            total = tl.dot(given, tl.trans(weights), total, input_precision="ieee")
        else:
            total += tl.sum(given.to(tl.float32)[:, None, :] * weights.to(tl.float32)[None, :, :], 2)
    if bias is not None:
        total += offset.to(tl.float32)[None, :]
    if ACTIVATION == "relu":
        total = tl.maximum(total, 0.0)
    elif ACTIVATION == "gelu":
        total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    elif ACTIVATION == "silu":
        total = total * tl.sigmoid(total)
    if residual is not None:
        total += carried.to(tl.float32)
    tl.store(out + place, total.to(out.dtype.element_ty), real[:, None] & inside[None, :])
