"""Merging of attention weights between subwords into weights between words.

A word's query weights are the mean over its pieces, its key weights the sum over its pieces.
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
    """One unit of display: a word with the indices of its pieces and its number in the text, or a single piece."""

    text: str
    places: tuple[int, ...]
    word: int | None = None
    special: bool = False


def group_items(items: Sequence[Item], *, level: str = "word", specials: bool = False) -> list[Unit]:
    """Group items into words in order of first appearance, or one by one (`level="subword"`), without special ones."""
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
    """Return the weights between units: the mean over the query's pieces of the sum over the key's."""
    rows = _membership(queries, weights.shape[-2]).to(weights)
    columns = _membership(keys, weights.shape[-1]).to(weights)
    return (rows / rows.sum(-1, keepdim=True)) @ weights @ columns.mT


def normalise(weights: Float[Tensor, "*heads query key"]) -> Float[Tensor, "*heads query key"]:
    """Normalise rows to sum to one; rows of zeros stay zero."""
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total.clamp(min=torch.finfo(weights.dtype).tiny), weights)


def _membership(listed: Sequence[Unit], size: int) -> Float[Tensor, "unit place"]:
    """Return a matrix with 1 where a piece belongs to a unit."""
    table = torch.zeros(len(listed), size)
    rows = [row for row, unit in enumerate(listed) for _ in unit.places]
    table[rows, [place for unit in listed for place in unit.places]] = 1.0
    return table


def _unit_text(items: Sequence[Item], places: Sequence[int]) -> str:
    """Return the text of a unit, with byte pieces decoded to characters."""
    text = "".join(items[place].text for place in places)
    return SPELLED.sub(_letters, text).strip() or text or "·"


def _letters(spelled: re.Match[str]) -> str:
    try:
        return bytes.fromhex(spelled[0].replace("<0x", "").replace(">", "")).decode()
    except UnicodeDecodeError:
        return spelled[0]
