"""Sparse features: dropout and the product with a matrix, on the non-zero values only."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.edges import gather_sum


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix: its non-zero numbers row by row, and their order column by column for gradients."""

    offsets: Int[Tensor, "bounds"]
    """Offset of each row, and the end of the last one."""
    columns: Int[Tensor, "number"]
    values: Float[Tensor, "number"]
    width: int
    """Number of columns."""
    rows: Int[Tensor, "number"]
    """The row of each non-zero number, in column order."""
    back: Int[Tensor, "number"]
    """Indices that sort the non-zero numbers by column."""
    back_offsets: Int[Tensor, "others"]

    @classmethod
    def of(
        cls, offsets: Int[Tensor, "bounds"], columns: Int[Tensor, "number"], values: Float[Tensor, "number"], width: int
    ) -> Sparse:
        """Build the matrix from compressed sparse rows (CSR)."""
        offsets, columns = offsets.long(), columns.long()
        rows = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
        back = torch.argsort(columns, stable=True)
        bounds = torch.cat([offsets.new_zeros(1), torch.bincount(columns, minlength=width).cumsum(0)])
        return cls(offsets.int(), columns.int(), values, width, rows[back].int(), back.int(), bounds.int())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def to(self, device: torch.device | str) -> Sparse:
        """Return the matrix on another device."""
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {
            name: part.to(device) if isinstance(part, Tensor) else part for name, part in parts.items()
        }
        return Sparse(**moved)

    def dropout(self, rate: float) -> Sparse:
        """Return the matrix after dropout, which leaves zeros unchanged."""
        return replace(self, values=F.dropout(self.values, rate)) if rate else self

    def dense(self) -> Float[Tensor, "row column"]:
        """Return the dense matrix, with all its zeros."""
        rows = torch.repeat_interleave(torch.arange(len(self), device=self.columns.device), self.offsets.diff())
        zeros = self.values.new_zeros(len(self), self.width)
        return zeros.index_put((rows, self.columns.long()), self.values, accumulate=True)

    def product(self, weight: Float[Tensor, "out column"]) -> Float[Tensor, "row out"]:
        """Return the product with a projection."""
        return _Product.apply(weight, self)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        return gather_sum(weight.t().contiguous(), matrix.columns, matrix.offsets, matrix.values.to(weight.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        matrix = ctx.matrix
        values = matrix.values.index_select(0, matrix.back).to(gradient.dtype)
        return gather_sum(gradient.contiguous(), matrix.rows, matrix.back_offsets, values).t(), None
