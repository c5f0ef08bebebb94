"""Attention of a pixel model while it predicts one row of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from regard.attention.masks import Grid
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.tasks.pixels.tokenizer import PixelTokenizer

COLOUR_NAMES = ("red", "green", "blue")


@runtime_checkable
class PixelModel(Protocol):
    """A pixel model with its tokenizer."""

    task: ClassVar[str]
    name: str
    model: Any
    tokenizer: PixelTokenizer

    def to_arrays(self, tokens: Int[Tensor, "batch place"]) -> list[UInt8[np.ndarray, "size size *channels"]]:
        """Return the images of tokens as arrays."""


def choose_row(tokenizer: PixelTokenizer, row: int | None) -> int:
    """Return the row to explain, by default the middle one; the first row has none above it and is refused."""
    row = tokenizer.size // 2 if row is None else row
    if not 1 <= row < tokenizer.size:
        raise ValueError(f"row {row}: choose one from 1 to {tokenizer.size - 1}, above which there is another")
    return row


def explain_row(generator: PixelModel, tokens: Int[Tensor, "1 place"], row: int, *, name: str) -> Trace:
    """Read an image up to a row and return the attention from which the tokens of this row were predicted."""
    tokenizer, model = generator.tokenizer, generator.model
    columns = tokenizer.size * tokenizer.tokens_per_pixel
    is_axial = model.config.name == "axial"  # reads whole images, line by line
    inputs = tokenizer.shift_right(tokens)[:, : None if is_axial else (row + 1) * columns]
    with watch(model) as attention, torch.no_grad():
        layout = Grid(torch.tensor([inputs.shape[1]], device=inputs.device), inputs.shape[1])
        log_probabilities = model.logits(model(inputs, layout=layout))[0].float().log_softmax(-1)
    in_row = slice(row * columns, (row + 1) * columns)
    bits = -log_probabilities[in_row].gather(1, tokens[0, in_row, None]).mean() / math.log(2)
    items = {"target": pixel_items(tokenizer, row, row + 1)}
    if is_axial:
        items |= {
            "above": pixel_items(tokenizer, row - 1, row),
            "left": pixel_items(tokenizer, row, row + 1, shift=1),
        }
        items["row"] = [Item(f"row {number + 1}", word=number) for number in range(row)]
        weights = [_line_weights(layer, attention[layer], attention.visible(layer), row) for layer in attention]
    else:
        items["source"] = pixel_items(tokenizer, 0, row + 1, shift=1)
        weights = [
            Weights(layer, "target", "source", attention[layer][0][:, in_row], attention.visible(layer)[0][in_row])
            for layer in attention
        ]
    [image] = generator.to_arrays(tokens)
    facts = {"text": name, "answer": f"row {row + 1}: {float(bits):.3f} {tokenizer.unit.name}", "row": row}
    colours = torch.from_numpy(image if image.ndim == 3 else image[..., None].repeat(3, -1))
    pictures = {} if is_axial else {"source": colours}
    return Trace(generator.name, generator.task, items, weights, facts, pictures=pictures)


def pixel_items(tokenizer: PixelTokenizer, first: int, last: int, *, shift: int = 0) -> list[Item]:
    """Return the tokens of these rows, or the tokens `shift` positions before them, with the boxes of their pixels."""
    columns = tokenizer.size * tokenizer.tokens_per_pixel
    return [_pixel_item(tokenizer, place - shift) for place in range(first * columns, last * columns)]


def _pixel_item(tokenizer: PixelTokenizer, place: int) -> Item:
    if place < 0:
        return Item("<begin>", special=True)
    size, (pixel, channel) = tokenizer.size, divmod(place, tokenizer.tokens_per_pixel)
    row, column = divmod(pixel, size)
    box = (column / size, row / size, (column + 1) / size, (row + 1) / size)
    colour = f" {COLOUR_NAMES[channel]}" if tokenizer.tokens_per_pixel == len(COLOUR_NAMES) else ""
    return Item(f"{row + 1},{column + 1}{colour}", word=place, box=box)


def _line_weights(name: str, lines: Sequence[Tensor], visible: Sequence[Tensor], row: int) -> Weights:
    """Return the weights of an axial attention for one row, from those of all rows or columns and their masks."""
    part, number, *_ = name.split(".")
    if part == "blocks":
        return Weights(name, "target", "left", lines[row], visible[row])
    if int(number) % 2:  # along columns: from the row above to all rows before it
        by_column = torch.stack([lines[column][:, row - 1, :row] for column in range(len(lines))], 1)
        return Weights(name, "above", "row", by_column)
    return Weights(name, "above", "above", lines[row - 1], visible[row - 1])
