"""What else could stand where a token was written: the likeliest tokens there, which come with every trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.interpret.steps import predictions

CANDIDATES = 8  # tokens listed for each place


def list_candidates(
    logits: Float[Tensor, "query vocab"], written: Sequence[int], pieces: Callable[[Sequence[int]], list[str]]
) -> list[dict[str, Any]]:
    """Return the likeliest tokens at every place with their ids and probabilities, as JSON for the facts of a trace."""
    ranked = predictions(logits.detach(), written, lambda token: pieces([token])[0], top=CANDIDATES)
    return [prediction.plain() for prediction in ranked]
