"""The loss of answer spans, and the most probable span from logits of its first and last token.

In each window there is one softmax for the first token of the answer and one for the last, both with a separate
position for no answer (Devlin et al. 2019). A span in several windows of a context has the highest of their odds
against no answer: such odds are comparable between windows, logits are not.
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
from regard.models.parts.unpack import spread
from regard.tasks.answering.windows import END, START, Passage

MIN_PROBABILITY = 1e-9  # lower bound in the loss, for answers that are not among the candidates


def span_loss(logits: Float[Tensor, "token 2"], marks: Int[Tensor, "token"], row: Row) -> Float[Tensor, ""]:
    """Return the mean cross-entropy of the first and last token of answers, summed over windows."""
    padded_logits, grid, _ = spread(logits.float(), row)
    padded_marks, _, _ = spread(marks, row)
    padded_marks = padded_marks.masked_fill(~grid.filled, IGNORE)
    is_candidate, total = padded_marks != IGNORE, padded_logits.new_zeros(())
    for side, mark in enumerate((START, END)):
        scores = padded_logits[..., side].masked_fill(~is_candidate, torch.finfo(padded_logits.dtype).min)
        is_answer = is_candidate & (padded_marks & mark != 0)
        loss = scores.logsumexp(1) - scores.masked_fill(~is_answer, 0.0).sum(1)
        total = total + loss.where(is_answer.any(1), 0.0).sum()
    return total / 2


class WindowLogits(NamedTuple):
    """Logits in one window: of each token as the first and as the last of the answer, and of no answer."""

    first: list[float]
    last: list[float]
    no_answer: float


class BestSpan(NamedTuple):
    """The most probable answer, as its first and last token in the context; None if no answer is more probable."""

    span: tuple[int, int] | None
    probability: float
    """The probability of the span, or of no answer if the span is None."""
    no_answer: float
    """The probability of no answer."""
    loss: float
    """The negative log-likelihood of the true answer."""


def span_log_odds(
    window_logits: Sequence[WindowLogits], passage: Passage, max_length: int
) -> Float[np.ndarray, "token length"]:
    """Return the log-odds of every span against no answer, indexed by first token and length minus one."""
    count, context = len(passage.located.ids), passage.question.context
    # tokens may be blanks, and no answer begins or ends with one
    is_blank = np.array([not context[begin:end].strip() for begin, end in passage.located.spans], bool)
    log_odds = np.full((count, min(max_length, max(count, 1))), -np.inf)
    for window, logits in zip(passage.windows, window_logits, strict=True):
        if not window.size:
            continue
        part = slice(window.first_token, window.first_token + window.size)
        starts, ends = (np.where(is_blank[part], -np.inf, scores) for scores in (logits.first, logits.last))
        ends = np.concatenate([ends, np.full(log_odds.shape[1] - 1, -np.inf)])
        spans = np.lib.stride_tricks.sliding_window_view(ends, log_odds.shape[1])
        window_odds = starts[:, None] + spans - logits.no_answer
        np.maximum(log_odds[part], window_odds, out=log_odds[part])
    return log_odds


def best_span(
    window_logits: Sequence[WindowLogits], passage: Passage, max_length: int, *, always: bool = False
) -> BestSpan:
    """Return the most probable span of at most `max_length` tokens, or no answer, by a softmax over all spans."""
    odds = span_log_odds(window_logits, passage, max_length)
    flat = np.concatenate([[0.0], odds.ravel()])
    top = float(flat.max())
    total = top + float(np.log(np.exp(flat - top).sum()))
    true_span = passage.answer
    true_odds = 0.0
    if true_span is not None:
        length = true_span[1] - true_span[0]
        true_odds = float(odds[true_span[0], length]) if length < odds.shape[1] else -np.inf
    loss, no_answer = min(total - true_odds, -float(np.log(MIN_PROBABILITY))), float(np.exp(-total))
    best = int(odds.argmax()) if odds.size else -1
    if best < 0 or odds.flat[best] <= (-np.inf if always else 0):
        return BestSpan(None, no_answer, no_answer, loss)
    first, length = divmod(best, odds.shape[1])
    return BestSpan((first, first + length), float(np.exp(odds.flat[best] - total)), no_answer, loss)
