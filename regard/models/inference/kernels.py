"""Triton kernels for the projection of a few rows together with its norm, bias, activation and residual.

`function(norm(x) W + b) + residual`: the weights are read once, and every program normalises the few rows itself, since
they are in the cache. Imported only where Triton is installed and a CUDA device is used; `projection` has the same in
plain PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

ROWS = 16  # minimum of a matrix product, and maximum of these kernels
WIDE = 4096  # a projection to more features than this is that to the vocabulary


def project(
    x: Tensor,
    projection: Any,
    *,
    norm: nn.Module | None = None,
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the projection of a few rows in the requested dtype, and the normalised rows."""
    wide, width = len(projection.weight) // (2 if projection.gated else 1), x.shape[-1]
    rows = x.numel() // width
    out = torch.empty(*x.shape[:-1], wide, dtype=dtype or x.dtype, device=x.device)
    normed = x if norm is None else torch.empty_like(x)
    few = triton.next_power_of_2(rows) if rows == 1 or (rows <= 4 and wide <= WIDE) else ROWS
    columns, warps = _shape(few, wide, width)
    block = max(16, triton.next_power_of_2(width))  # terms of a matrix product, at least 16
    if norm is None and few > 4:
        block = min(512, block)
    gain, shift, eps = _weights(norm)
    _project[(triton.cdiv(wide, columns),)](
        *(x, projection.weight, projection.bias, gain, shift, residual, normed, out),
        *(rows, wide, eps, projection.scale),
        ACTIVATION=projection.activation,
        GATED=projection.gated,
        CENTRED=isinstance(norm, nn.LayerNorm),
        WIDTH=width,
        BLOCK=block,
        COLUMNS=columns,
        ROWS=few,
        num_warps=warps,
        num_stages=3,
    )
    return out, normed


def normalise(x: Tensor, change: Tensor | None, bias: Tensor | None, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Return `norm(x + change + bias)` and the sum itself, for any number of rows."""
    width = x.shape[-1]
    normed = torch.empty_like(x)
    total = x if change is None else torch.empty_like(x)
    gain, shift, eps = _weights(norm)
    sizes = {"WIDTH": width, "BLOCK": triton.next_power_of_2(width), "CENTRED": isinstance(norm, nn.LayerNorm)}
    _normalise[(x.numel() // width,)](x, change, bias, gain, shift, total, normed, eps, **sizes)
    return normed, total


def _weights(norm: Any) -> tuple[Tensor | None, Tensor | None, float]:
    """Return the weight, the bias and the eps of a norm."""
    if norm is None:
        return None, None, 1.0
    return norm.weight, norm.bias if isinstance(norm, nn.LayerNorm) else None, norm.eps


def _shape(rows: int, wide: int, width: int) -> tuple[int, int]:
    """Return the columns and warps of a program: many small programs, since memory latency takes most time."""
    if rows == ROWS:
        return (16 if wide <= WIDE else 64), 4
    return (4 if wide <= WIDE else 16), (1 if wide <= WIDE and width <= 1024 else 4)


def embed(
    tokens: Tensor, weight: Tensor, table: Tensor, *, scale: float, places: tuple[Tensor, Tensor]
) -> Tensor:  # fmt: skip
    """Return the scaled vectors of the newest tokens plus the position table's rows for prompt and tokens so far."""
    (batch, beams), (prompt, token_counts) = tokens.shape, places
    width = weight.shape[1]
    out = torch.empty(batch, beams, width, dtype=weight.dtype, device=weight.device)
    sizes = {"WIDTH": width, "BLOCK": triton.next_power_of_2(width)}
    _embed[(batch * beams,)](tokens, weight, table, prompt, token_counts, out, beams, len(table) - 1, scale, **sizes)
    return out


@triton.jit
def _embed(
    tokens, weight, table, prompt, token_counts, out, beams, last, scale, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Embed one token; the position of an unused row may be beyond the table and is clamped."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    place = tl.minimum(tl.load(prompt + row // beams) + tl.load(token_counts + row // beams) - 1, last)
    vector = tl.load(weight + tl.load(tokens + row) * WIDTH + at, at < WIDTH).to(tl.float32) * scale
    vector += tl.load(table + place * WIDTH + at, at < WIDTH).to(tl.float32)
    tl.store(out + row * WIDTH + at, vector.to(out.dtype.element_ty), at < WIDTH)


@triton.jit
def _normal(values, gain, shift, at, there, eps, WIDTH: tl.constexpr, CENTRED: tl.constexpr):
    """Divide rows by their root mean square, or subtract the mean and divide by the deviation; then apply the weights.

    A block holds a whole row, with zeros beyond its end.
    """
    factor = tl.load(gain + at, there, 0.0).to(tl.float32)
    variance = tl.sum(values * values, 1) / WIDTH
    if CENTRED:
        mean = tl.sum(values, 1) / WIDTH
        variance = tl.maximum(variance - mean * mean, 0.0)
        values = values - mean[:, None]
    values = values * tl.rsqrt(variance + eps)[:, None] * factor[None, :]
    if shift is not None:
        values += tl.load(shift + at, there, 0.0).to(tl.float32)[None, :]
    return values


@triton.jit
def _normalise(
    x, change, bias, gain, shift, total, normed, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr, CENTRED: tl.constexpr
):  # fmt: skip
    """Add up and normalise one row."""
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    there = at < WIDTH
    values = tl.load(x + row * WIDTH + at, there, 0.0).to(tl.float32)
    if change is not None:
        values += tl.load(change + row * WIDTH + at, there, 0.0).to(tl.float32)
        if bias is not None:
            values += tl.load(bias + at, there, 0.0).to(tl.float32)
        tl.store(total + row * WIDTH + at, values.to(total.dtype.element_ty), there)
        values = values.to(total.dtype.element_ty).to(tl.float32)  # rounded like the stored sum
    normalised = _normal(values[None, :], gain, shift, at, there, eps, WIDTH, CENTRED)
    place = tl.zeros((1,), tl.int64)[:, None] + row * WIDTH + at[None, :]
    tl.store(normed + place, normalised.to(normed.dtype.element_ty), there[None, :])


@triton.jit
def _activate(x, ACTIVATION: tl.constexpr):
    """Apply the activation after a projection."""
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif ACTIVATION == "silu":
        x = x * tl.sigmoid(x)
    return x


@triton.jit
def _accumulate(total, inputs, weights, ROWS: tl.constexpr):
    """Add the products of some more input features; few rows are multiplied without matrix units."""
    if ROWS >= 16:
        return tl.dot(inputs, tl.trans(weights), total, input_precision="ieee")
    return total + tl.sum(inputs.to(tl.float32)[:, None, :] * weights.to(tl.float32)[None, :, :], 2)


@triton.jit
def _project(
    x, weight, bias, gain, shift, residual, normed, out, rows, wide, eps, scale,
    ACTIVATION: tl.constexpr, GATED: tl.constexpr, CENTRED: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Compute some columns of the result, for all rows."""
    row, column = tl.arange(0, ROWS), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    real, inside = row < rows, column < wide
    place = row[:, None].to(tl.int64) * wide + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    gated = tl.zeros((ROWS, COLUMNS), tl.float32)
    if bias is not None:  # loaded before it is needed, to hide memory latency
        offset = tl.load(bias + column, inside, 0.0)
        if GATED:
            other = tl.load(bias + wide + column, inside, 0.0)
    if residual is not None:
        carried = tl.load(residual + place, real[:, None] & inside[None, :], 0.0)
    for start in tl.static_range(0, WIDTH, BLOCK):
        at = start + tl.arange(0, BLOCK)
        there = at < WIDTH
        inputs = tl.load(x + row[:, None] * WIDTH + at[None, :], real[:, None] & there[None, :], 0.0)
        weights = tl.load(weight + column[:, None] * WIDTH + at[None, :], inside[:, None] & there[None, :], 0.0)
        if GATED:
            second = (column + wide)[:, None] * WIDTH + at[None, :]
            others = tl.load(weight + second, inside[:, None] & there[None, :], 0.0)
        if gain is not None:
            exact = _normal(inputs.to(tl.float32), gain, shift, at, there, eps, WIDTH, CENTRED)
            inputs = exact.to(x.dtype.element_ty)
            if tl.program_id(0) == 0:
                tl.store(normed + row[:, None] * WIDTH + at[None, :], inputs, real[:, None] & there[None, :])
        total = _accumulate(total, inputs, weights, ROWS)
        if GATED:
            gated = _accumulate(gated, inputs, others, ROWS)
    total *= scale
    if bias is not None:
        total += offset.to(tl.float32)[None, :]
    total = _activate(total, ACTIVATION)
    if GATED:
        total *= gated + other.to(tl.float32)[None, :] if bias is not None else gated
    if residual is not None:
        total += carried.to(tl.float32)
    tl.store(out + place, total.to(out.dtype.element_ty), real[:, None] & inside[None, :])
