"""A classifier of pictures that somebody else trained: what its checkpoint holds beside the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard import config
from regard.tasks.card import card


def imported(
    shape: Any, data: Mapping[str, Any], notes: Sequence[str] = (), *, labels: Sequence[str] | None = None
) -> dict[str, Any]:
    """The files of a checkpoint; classes that nobody names are numbered, as `transformers` does."""
    if labels is not None and len(labels) != shape.classes:
        raise ValueError(f"{len(labels)} labels were named, and the head has {shape.classes}: name as many")
    named = list(labels or (f"LABEL_{number}" for number in range(shape.classes)))
    if twice := next((label for number, label in enumerate(named) if label in named[:number]), None):
        named = [f"{label} ({number})" if named.count(label) > 1 else label for number, label in enumerate(named)]
        notes = (*notes, f"Several classes had the same name, such as {twice}, and are told apart by their numbers.")
    settings = {
        "format": 1,
        "task": "pictures",
        "model": config.plain(shape),
        "labels": named,
        "data": {"size": shape.size, "channels": shape.channels, **data, "file": {}},
    }
    what = f"It knows {len(named):,} classes." if named else "It has no head: it is there to start from."
    readme = card(
        "Says what a picture shows" if named else "Reads pictures",
        " ".join([f"{shape.phrase}, for pictures of {shape.size} x {shape.size} pixels. {what}", *notes]),
        command="regard classify DIRECTORY picture.png" if named else "regard train --pictures DIR --from DIRECTORY",
        code='classify(["picture.png"])' if named else "model.regions(pixels)",
    )
    return {"config.yaml": settings, "README.md": readme}
