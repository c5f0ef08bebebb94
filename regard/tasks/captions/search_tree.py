"""The beam search for a caption as a tree, and what else could stand in the place of each of its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizers import Tokenizer
from regard.decoding.search_tree import SearchTree, record_search
from regard.decoding.stepper import Hypothesis
from regard.decoding.teacher_forcing import read_written
from regard.interpret.candidates import list_candidates


def search_tree(
    search: Callable[[], Hypothesis], tokenizer: Tokenizer, prefix: str | Sequence[int], **words: str
) -> SearchTree:
    """Return the tree of the search that a function runs for one caption; `words` are its model and its image."""
    with record_search() as record:
        best = search()
    forced = [] if isinstance(prefix, str) else list(prefix)
    return record.tree(tokenizer.pieces, prefix=forced, answer=tokenizer.decode(best.tokens), **words)


def list_caption_candidates(
    model: Any, tokenizer: Tokenizer, regions: Float[Tensor, "image region features"], written: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the likeliest tokens in the place of every token of the caption of one image."""
    prompt = torch.full((1, 1), tokenizer.opening, device=regions.device)
    return list_candidates(read_written(model, (regions, prompt), written), written, tokenizer.pieces)
