"""The parts of a trace: items that attend or are attended to, and the weights between two lists of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Bool, Float
from torch import Tensor

if TYPE_CHECKING:
    from regard.data.tokenizers import Tokenizer

SIDES = {"source": "read", "target": "written", "fed": "already written", "asked": "asked about"}
"""Display names of lists of items; other lists are displayed by their own names."""


@dataclass(frozen=True)
class Item:
    """An item that attends or is attended to: a token, an image patch, a graph node."""

    text: str
    word: int | None = None
    box: tuple[float, float, float, float] | None = None
    special: bool = False


@dataclass(frozen=True)
class Weights:
    """The weights of one attention, with the names of the item lists on its axes."""

    name: str
    query: str
    key: str
    values: Float[Tensor, "heads query key"]
    visible: Bool[Tensor, "query key"] | None = None
    """Which keys each query could look at, the same for all heads; None if it is not known."""


def tokens(
    tokenizer: Tokenizer, ids: Sequence[int], text: str | None = None, *, shown: Collection[int] = ()
) -> list[Item]:
    """Convert token ids to items with the number of their word; special tokens have none.

    `text` is the text of the tokens, if it is known. Tokens in `shown`, such as gaps, are words of their own.
    """
    pieces, words = tokenizer.pieces(ids), tokenizer.words(ids, text)
    items, number, previous = list[Item](), -1, None
    for place, (id, piece, word) in enumerate(zip(ids, pieces, words, strict=True)):
        word_key = ("shown", place) if id in shown else word
        if word_key is None:
            items.append(Item(piece, special=True))
            continue
        number += word_key != previous if shown else 0
        previous = word_key
        items.append(Item(piece, word=number if shown else word))
    return items


def attention_axes(name: str) -> tuple[str, str]:
    """Return the names of the query and key items of an attention in an encoder-decoder model."""
    if name.startswith("encoder"):
        return "source", "source"
    return ("target", "source") if name.endswith("cross") else ("target", "fed")
