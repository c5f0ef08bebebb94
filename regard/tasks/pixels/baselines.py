"""Baselines of a pixel model: tables of counted tokens.

    histogram        P(token) at each position
    left neighbour   P(token | the same channel of the pixel to its left)

Both are counted in training images; 1 / (number of tokens) is added to every count, so that no probability is zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.tasks.pixels.tokenizer import PixelTokenizer

LogTable = Float[Tensor, "table token"]
LEFT_NEIGHBOUR = "the left neighbour"
HISTOGRAM = "a histogram of every pixel"


def count_tables(tokenizer: PixelTokenizer, images: Iterator[Int[Tensor, "batch place"]]) -> dict[str, LogTable]:
    """Return tables of log-probabilities, counted in the tokens of images."""
    totals: dict[str, Tensor] = {}
    for tokens in images:
        for name, rows in _table_rows(tokenizer, tokens).items():
            size = _table_sizes(tokenizer)[name]
            counts = (rows * tokenizer.begin_token + tokens).flatten().bincount(minlength=size * tokenizer.begin_token)
            totals[name] = totals.get(name, torch.zeros_like(counts)) + counts
    smoothing = 1 / tokenizer.begin_token
    tables = {
        name: counts.unflatten(0, (-1, tokenizer.begin_token)).double() + smoothing for name, counts in totals.items()
    }
    return {name: (table / table.sum(1, keepdim=True)).log() for name, table in tables.items()}


def bits_per_image(
    tokenizer: PixelTokenizer, tables: Mapping[str, LogTable], tokens: Int[Tensor, "batch place"]
) -> dict[str, Float[Tensor, "batch"]]:
    """Return the bits of each image under each table."""
    rows = _table_rows(tokenizer, tokens)
    return {name: -table[rows[name], tokens].sum(1) / math.log(2) for name, table in tables.items()}


def _table_sizes(tokenizer: PixelTokenizer) -> dict[str, int]:
    return {HISTOGRAM: tokenizer.length, LEFT_NEIGHBOUR: tokenizer.tokens_per_pixel * tokenizer.vocab}


def _table_rows(tokenizer: PixelTokenizer, tokens: Int[Tensor, "batch place"]) -> dict[str, Int[Tensor, "batch place"]]:
    """Return the row of each table in which every token is looked up; the first column has no left neighbour."""
    positions = torch.arange(tokenizer.length).expand_as(tokens)
    pixels = tokens.unflatten(1, (tokenizer.size, tokenizer.size, tokenizer.tokens_per_pixel))
    left_tokens = torch.nn.functional.pad(pixels[:, :, :-1], (0, 0, 1, 0), value=tokenizer.begin_token).flatten(1)
    return {
        HISTOGRAM: positions,
        LEFT_NEIGHBOUR: positions % tokenizer.tokens_per_pixel * tokenizer.vocab + left_tokens,
    }
