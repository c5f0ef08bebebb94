"""From subword weights to word weights: what a reader's eye does with an attention matrix, done in numbers.

A word looks where its pieces look on average, and is looked at as much as its pieces together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.interpret.items import Item

SPELLED = re.compile(r"(?:<0x[0-9A-F]{2}>)+")


@dataclass(frozen=True)
class Unit:
    """What is shown as one: a word with the places of its pieces and its number in the text, or a single piece."""

    text: str
    places: tuple[int, ...]
    word: int | None = None
    special: bool = False


def group_items(items: Sequence[Item], *, level: str = "word", specials: bool = False) -> list[Unit]:
    """The items as words in order of first appearance, or one by one (`level="subword"`); special ones are left out."""
    if level not in ("word", "subword"):
        raise ValueError(f"unknown level {level}: choose word or subword")
    groups: dict[object, list[int]] = {}
    for place, item in enumerate(items):
        if item.special and not specials:
            continue
        alone = level == "subword" or item.special or item.word is None
        groups.setdefault(("place", place) if alone else ("word", item.word), []).append(place)
    return [
        Unit(_unit_text(items, places), tuple(places), items[places[0]].word, items[places[0]].special)
        for places in groups.values()
    ]


def merge(
    weights: Float[Tensor, "*heads query key"], queries: Sequence[Unit], keys: Sequence[Unit]
) -> Float[Tensor, "*heads row column"]:
    """Weights between units: the mean over a query's pieces of the sum over a key's."""
    rows = _membership(queries, weights.shape[-2]).to(weights)
    columns = _membership(keys, weights.shape[-1]).to(weights)
    return (rows / rows.sum(-1, keepdim=True)) @ weights @ columns.mT


def normalise(weights: Float[Tensor, "*heads query key"]) -> Float[Tensor, "*heads query key"]:
    """Rows that sum to one; a row of nothing stays nothing."""
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total.clamp(min=torch.finfo(weights.dtype).tiny), weights)


def _membership(listed: Sequence[Unit], size: int) -> Float[Tensor, "unit place"]:
    """One where a piece belongs to a unit."""
    table = torch.zeros(len(listed), size)
    for row, unit in enumerate(listed):
        table[row, list(unit.places)] = 1.0
    return table


def _unit_text(items: Sequence[Item], places: Sequence[int]) -> str:
    """The pieces as the reader knows them, letters spelled in bytes put together again."""
    text = "".join(items[place].text for place in places)
    return SPELLED.sub(_letters, text).strip() or text or "·"


def _letters(spelled: re.Match[str]) -> str:
    try:
        return bytes.fromhex(spelled[0].replace("<0x", "").replace(">", "")).decode()
    except UnicodeDecodeError:
        return spelled[0]
