"""Where an attention may look: which keys each query can see, as a matrix and as a short description of it.

A description is plain data, so that it travels with a trace and its page: `{}` if every query sees every key,
`{"band": [low, high]}` if query q sees the keys from q + low to q + high (`None`: all there are on that side), which
covers the future that is hidden and windows, else `{"rows": [[count, start, end, ...], ...]}`: so many queries one
after the other that see the keys of these ranges, as in blocks, prefixes and neighbourhoods of a graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.interpret.words import Unit, merge

Description = Mapping[str, Any]
CAUSAL: Description = {"band": [None, 0]}
"""A query sees itself and what comes before it."""


def describe_visibility(visible: Bool[Tensor, "query key"]) -> dict[str, Any]:
    """Return a short description of which keys each query sees."""
    visible = visible.detach().cpu()
    if bool(visible.all()):
        return {}
    band = _find_band(visible)
    return {"rows": _list_rows(visible)} if band is None else {"band": list(band)}


def restore_visibility(description: Description, queries: int, keys: int) -> Bool[Tensor, "query key"]:
    """Return which keys each query sees, as a description has it."""
    visible = torch.zeros(queries, keys, dtype=torch.bool)
    if "rows" in description:
        row = 0
        for count, *ranges in description["rows"]:
            for start, end in zip(ranges[::2], ranges[1::2], strict=True):
                visible[row : row + count, start:end] = True
            row += count
        if row != queries:
            raise ValueError(f"a mask of {row} rows for {queries} items")
        return visible
    low, high = description.get("band", (None, None))
    distance = torch.arange(keys)[None] - torch.arange(queries)[:, None]
    return (distance >= (-queries if low is None else low)) & (distance <= (keys if high is None else high))


def merge_visibility(
    visible: Bool[Tensor, "query key"], queries: Sequence[Unit], keys: Sequence[Unit]
) -> Bool[Tensor, "row column"]:
    """Return which units see which: two words do if any piece of the one sees any piece of the other."""
    return merge(visible.float(), queries, keys) > 0


def _find_band(visible: Bool[Tensor, "query key"]) -> tuple[int | None, int | None] | None:
    """Return the least and the largest distance that is seen, if all between are seen and no other; else None."""
    queries, keys = visible.shape
    distance = torch.arange(keys)[None] - torch.arange(queries)[:, None]
    seen = distance[visible]
    if not len(seen):
        return None
    low, high = int(seen.min()), int(seen.max())
    if not bool((visible == ((distance >= low) & (distance <= high))).all()):
        return None
    return None if low == 1 - queries else low, None if high == keys - 1 else high


def _list_rows(visible: Bool[Tensor, "query key"]) -> list[list[int]]:
    """Return the ranges of keys that each query sees, with the number of queries that see the same."""
    rows: list[list[int]] = []
    edges = torch.nn.functional.pad(visible.byte(), (1, 1)).to(torch.int8).diff(dim=-1)
    for line in edges:
        ranges = line.nonzero()[:, 0].tolist()
        if rows and rows[-1][1:] == ranges:
            rows[-1][0] += 1
        else:
            rows.append([1, *ranges])
    return rows
