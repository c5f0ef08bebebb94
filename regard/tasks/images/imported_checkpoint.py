"""Files beside the weights in the checkpoints of image classifiers that were trained elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from regard import config
from regard.tasks.model_card import model_card


def imported_checkpoint_files(
    shape: Any, data: Mapping[str, Any], notes: Sequence[str] = (), *, labels: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return config and model card; classes without names are numbered, as `transformers` does."""
    if labels is not None and len(labels) != shape.classes:
        raise ValueError(f"{len(labels)} labels were named, and the head has {shape.classes}: name as many")
    label_names = list(labels or (f"LABEL_{number}" for number in range(shape.classes)))
    if duplicate := next((label for number, label in enumerate(label_names) if label in label_names[:number]), None):
        label_counts = Counter(label_names)
        label_names = [
            f"{label} ({number})" if label_counts[label] > 1 else label for number, label in enumerate(label_names)
        ]
        notes = (
            *notes,
            f"Several classes had the same name, such as {duplicate}, and are told apart by their numbers.",
        )
    settings = {
        "format": 1,
        "task": "pictures",
        "model": config.plain(shape),
        "labels": label_names,
        "data": {"size": shape.size, "channels": shape.channels, **data, "file": {}},
    }
    summary = f"It knows {len(label_names):,} classes." if label_names else "It has no head: it is there to start from."
    readme = model_card(
        "Says what a picture shows" if label_names else "Reads pictures",
        " ".join([f"{shape.phrase}, for pictures of {shape.size} x {shape.size} pixels. {summary}", *notes]),
        command="regard classify DIRECTORY picture.png"
        if label_names
        else "regard train --pictures DIR --from DIRECTORY",
        code='classify(["picture.png"])' if label_names else "model.regions(pixels)",
    )
    return {"config.yaml": settings, "README.md": readme}
