"""What is asked of a tokenizer.json before the library sees it: its size, and that its parts fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regard.interop.fields import as_json
from regard.interop.special import content

MOST_MERGES = 2_000_000
MOST_ADDED = 100_000
WHOLE = "tokenizer.json"


def check_added_tokens(document: Mapping[str, Any]) -> None:
    """Refuse a list of added tokens that is too long or names a token twice."""
    listed = document.get("added_tokens") or []
    if not isinstance(listed, list) or not all(isinstance(token, dict) for token in listed):
        raise ValueError("added_tokens must be a list of objects")
    if len(listed) > MOST_ADDED:
        raise ValueError(f"added_tokens lists {len(listed):,} tokens, and {MOST_ADDED:,} are possible")
    names = set()
    for token in listed:
        name = content(token, WHOLE)
        if name in names:
            raise ValueError(f"added_tokens lists {as_json(name)} twice")
        names.add(name)


def check_merges(model: Any) -> None:
    """Refuse merges that are too many, or join pieces or make one that the vocabulary lacks."""
    merges = model.get("merges") if isinstance(model, dict) else None
    if not isinstance(merges, list) or not isinstance(model.get("vocab"), dict):
        return
    if len(merges) > MOST_MERGES:
        raise ValueError(f"the tokenizer has {len(merges):,} merges, and {MOST_MERGES:,} are possible")
    vocab, prefix = model["vocab"], model.get("continuing_subword_prefix") or ""
    for left, right in _pairs(merges):
        joined = left + right[len(prefix) :]
        if lacking := next((piece for piece in (left, right, joined) if piece not in vocab), None):
            pair = f"{as_json(left)} and {as_json(right)}"
            raise ValueError(f"a merge joins {pair}, and the vocabulary lacks {as_json(lacking)}")


def _pairs(merges: list[Any]) -> Iterator[tuple[str, str]]:
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(piece, str) for piece in pair):
            raise ValueError(f"a merge must name two pieces, not be {as_json(merge)}")
        yield pair[0], pair[1]
