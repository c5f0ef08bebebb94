"""From the first and last token of an answer to a loss, and from logits of both to the likeliest answer.

In every window a token is the first of the answer with one softmax and the last with another; a place of its own stands
for no answer (Devlin et al. 2019). Over several windows of a context, a span is held against no answer in the window
that is surest of it: its odds are comparable from window to window, bare logits are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.masks import Row
from regard.metrics.likelihood import IGNORE
from regard.models.spread import spread
from regard.tasks.answering.windows import END, START, Passage

MIN_PROBABILITY = 1e-9  # the probability of an answer that cannot be given, in the loss


def span_loss(logits: Float[Tensor, "token 2"], marks: Int[Tensor, "token"], row: Row) -> Float[Tensor, ""]:
    """The surprise at the first and at the last token of every window's answer, half of each, summed over windows."""
    lines, grid, _ = spread(logits.float(), row)
    told, _, _ = spread(marks, row)
    told = told.masked_fill(~grid.filled, IGNORE)
    open_, total = told != IGNORE, lines.new_zeros(())
    for side, mark in enumerate((START, END)):
        scores = lines[..., side].masked_fill(~open_, torch.finfo(lines.dtype).min)
        right = open_ & (told & mark != 0)
        lost = scores.logsumexp(1) - scores.masked_fill(~right, 0.0).sum(1)
        total = total + lost.where(right.any(1), 0.0).sum()
    return total / 2


class WindowLogits(NamedTuple):
    """What a model says of one window: logits of first and last token, and those of no answer."""

    first: list[float]
    last: list[float]
    no_answer: float


class BestSpan(NamedTuple):
    """The likeliest answer, as the first and last token of the context, and its chances; None where there is none."""

    span: tuple[int, int] | None
    probability: float
    """That of the span, or of no answer if that is the answer."""
    no_answer: float
    """The probability of no answer."""
    loss: float
    """The surprise at the answer that was wanted."""


def span_log_odds(told: Sequence[WindowLogits], passage: Passage, most: int) -> Float[np.ndarray, "token length"]:
    """The log-odds, against no answer, of every span of a context: by its first token and its length less one."""
    count, context = len(passage.located.ids), passage.question.context
    hidden = np.array([not context[begin:end].strip() for begin, end in passage.located.spans], bool)
    found = np.full((count, min(most, max(count, 1))), -np.inf)
    for window, said in zip(passage.windows, told, strict=True):
        if not window.size:
            continue
        blank = hidden[
            window.first_token : window.first_token + window.size
        ]  # where characters are tokens, blanks are too
        starts, ends = (np.where(blank, -np.inf, each) for each in (said.first, said.last))
        ends = np.concatenate([ends, np.full(found.shape[1] - 1, -np.inf)])
        spans = np.lib.stride_tricks.sliding_window_view(ends, found.shape[1])
        odds = starts[:, None] + spans - said.no_answer
        part = found[window.first_token : window.first_token + window.size]
        np.maximum(part, odds, out=part)
    return found


def best_span(told: Sequence[WindowLogits], passage: Passage, most: int, *, always: bool = False) -> BestSpan:
    """The likeliest span of at most so many tokens, or no answer, by a softmax over all of them."""
    odds = span_log_odds(told, passage, most)
    flat = np.concatenate([[0.0], odds.ravel()])
    top = float(flat.max())
    total = top + float(np.log(np.exp(flat - top).sum()))
    wanted = passage.answer
    right = 0.0
    if wanted is not None:
        length = wanted[1] - wanted[0]
        right = float(odds[wanted[0], length]) if length < odds.shape[1] else -np.inf
    loss, none = min(total - right, -float(np.log(MIN_PROBABILITY))), float(np.exp(-total))
    chosen = int(odds.argmax()) if odds.size else -1
    if chosen < 0 or odds.flat[chosen] <= (-np.inf if always else 0):
        return BestSpan(None, none, none, loss)
    first, length = divmod(chosen, odds.shape[1])
    return BestSpan((first, first + length), float(np.exp(odds.flat[chosen] - total)), none, loss)
