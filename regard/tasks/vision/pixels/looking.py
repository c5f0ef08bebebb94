"""Where a model of pixels looked while it predicted one row of a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from regard.attention.masks import Grid
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.interpret.watch import watch

if TYPE_CHECKING:
    from regard.tasks.vision.opening import Given
    from regard.tasks.vision.pixels.painter import Painter
    from regard.tasks.vision.pixels.tokens import Alphabet

NAMES = ("red", "green", "blue")


def traced(painter: Painter, given: Given, row: int | None, fit: Any) -> Trace:
    """Read a picture as far as a row, the middle one if nobody says, and keep where its tokens were predicted from."""
    alphabet, model = painter.alphabet, painter.model
    row = alphabet.size // 2 if row is None else row
    if not 1 <= row < alphabet.size:
        raise ValueError(f"row {row}: choose one from 1 to {alphabet.size - 1}, above which there is another")
    tokens = painter.opened(given, fit, fits="")  # `regard explain` has no settings
    columns = alphabet.size * alphabet.depth
    lined = model.config.name == "axial"  # it reads whole pictures, line by line
    fed = alphabet.shifted(tokens)[:, : None if lined else (row + 1) * columns]
    with watch(model) as seen, torch.no_grad():
        layout = Grid(torch.tensor([fed.shape[1]], device=fed.device), fed.shape[1])
        logits = model.logits(model(fed, layout=layout))[0].float().log_softmax(-1)
    own = slice(row * columns, (row + 1) * columns)
    bits = -logits[own].gather(1, tokens[0, own, None]).mean() / math.log(2)
    items = {"target": pixels(alphabet, row, row + 1)}
    if lined:
        items |= {"above": pixels(alphabet, row - 1, row), "left": pixels(alphabet, row, row + 1, shift=1)}
        items["row"] = [Item(f"row {number + 1}", word=number) for number in range(row)]
        weights = [_lined(name, seen[name], row) for name in seen]
    else:
        items["source"] = pixels(alphabet, 0, row + 1, shift=1)
        weights = [Weights(name, "target", "source", seen[name][0][:, own]) for name in seen]
    [picture] = painter.shown(tokens)
    facts = {"text": str(given), "answer": f"row {row + 1}: {float(bits):.3f} {alphabet.unit.name}", "row": row}
    shown = torch.from_numpy(picture if picture.ndim == 3 else picture[..., None].repeat(3, -1))
    return Trace(painter.name, painter.task, items, weights, facts, pictures={} if lined else {"source": shown})


def pixels(alphabet: Alphabet, first: int, last: int, *, shift: int = 0) -> list[Item]:
    """Tokens of these rows, or those that stand so many places before them, with the boxes of their pixels."""
    columns = alphabet.size * alphabet.depth
    return [_item(alphabet, place - shift) for place in range(first * columns, last * columns)]


def _item(alphabet: Alphabet, place: int) -> Item:
    if place < 0:
        return Item("<begin>", special=True)
    size, (pixel, channel) = alphabet.size, divmod(place, alphabet.depth)
    row, column = divmod(pixel, size)
    box = (column / size, row / size, (column + 1) / size, (row + 1) / size)
    name = f"{row + 1},{column + 1}" + (f" {NAMES[channel]}" if alphabet.depth == len(NAMES) else "")
    return Item(name, word=place, box=box)


def _lined(name: str, lines: Any, row: int) -> Weights:
    """The weights of an attention along lines, as far as they have to do with a row."""
    part, number, *_ = name.split(".")
    if part == "blocks":
        return Weights(name, "target", "left", lines[row])
    if int(number) % 2:  # along columns: each from the row above to those above it
        found = torch.stack([lines[column][:, row - 1, :row] for column in range(len(lines))], 1)
        return Weights(name, "above", "row", found)
    return Weights(name, "above", "above", lines[row - 1])
