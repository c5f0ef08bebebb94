"""What a model of pixels must beat: tables that were counted, and know nothing of shapes.

    histogram        P(token) at every place by itself
    left neighbour   P(token | the same channel of the pixel to its left)

Both are counted in training pictures; every count is larger by one part in the number of tokens, so that nothing is
impossible.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.tasks.vision.pixels.tokens import Alphabet

Counts = Float[Tensor, "table token"]
LEFT = "the left neighbour"
PLACES = "a histogram of every pixel"


def counted(alphabet: Alphabet, pictures: Iterator[Int[Tensor, "batch place"]]) -> dict[str, Counts]:
    """Tables of log-probabilities, counted in pictures as tokens."""
    totals: dict[str, Tensor] = {}
    for tokens in pictures:
        for name, rows in _rows(alphabet, tokens).items():
            size = _sizes(alphabet)[name]
            cells = (rows * alphabet.begin + tokens).flatten().bincount(minlength=size * alphabet.begin)
            totals[name] = totals.get(name, torch.zeros_like(cells)) + cells
    smooth = 1 / alphabet.begin
    tables = {name: cells.unflatten(0, (-1, alphabet.begin)).double() + smooth for name, cells in totals.items()}
    return {name: (table / table.sum(1, keepdim=True)).log() for name, table in tables.items()}


def bits(
    alphabet: Alphabet, tables: Mapping[str, Counts], tokens: Int[Tensor, "batch place"]
) -> dict[str, Float[Tensor, "batch"]]:
    """Bits of each picture by each table."""
    rows = _rows(alphabet, tokens)
    return {name: -table[rows[name], tokens].sum(1) / math.log(2) for name, table in tables.items()}


def _sizes(alphabet: Alphabet) -> dict[str, int]:
    return {PLACES: alphabet.places, LEFT: alphabet.depth * alphabet.vocab}


def _rows(alphabet: Alphabet, tokens: Int[Tensor, "batch place"]) -> dict[str, Int[Tensor, "batch place"]]:
    """Which row of each table every token is looked up in; in the first column there is nothing to the left."""
    places = torch.arange(alphabet.places).expand_as(tokens)
    pixels = tokens.unflatten(1, (alphabet.size, alphabet.size, alphabet.depth))
    left = torch.nn.functional.pad(pixels[:, :, :-1], (0, 0, 1, 0), value=alphabet.begin).flatten(1)
    return {PLACES: places, LEFT: places % alphabet.depth * alphabet.vocab + left}
