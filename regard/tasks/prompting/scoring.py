"""From the log-probabilities of answers to labels, plain and corrected by those of an input without content.

A label's score is the log-probability of its words: the sum over their tokens, or the mean where that is asked for; of
several words the log of their mean probability, so that a label does not gain by having many. Plain probabilities are
the softmax of the scores over the labels. A model prefers some words whatever the text; contextual calibration (Zhao et
al. 2021) divides by what it says of an input without content, p(label | text) / p(label | empty), and normalises.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

LabelScores = Float[np.ndarray, "text label"]


def score_labels(
    tokens: Sequence[Sequence[Sequence[float]]], words: Sequence[int], *, per_token: bool = False
) -> Float[np.ndarray, "text label"]:
    """Return the score of each label for each text, from the token log-probabilities of its words."""
    word_scores = np.array(
        [[np.mean(log_probs) if per_token else np.sum(log_probs) for log_probs in text] for text in tokens]
    )
    parts = np.split(word_scores, np.cumsum(words)[:-1], axis=1)
    return np.column_stack([np.logaddexp.reduce(part, axis=1) - np.log(part.shape[1]) for part in parts])


def probabilities(label_scores: Float[np.ndarray, "text label"]) -> Float[np.ndarray, "text label"]:
    """Return the softmax over the labels."""
    shifted = np.exp(label_scores - label_scores.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def calibrate(
    label_scores: Float[np.ndarray, "text label"], empty: Float[np.ndarray, "input label"]
) -> Float[np.ndarray, "text label"]:
    """Return label probabilities divided by their mean over content-free inputs, and normalised."""
    prior = probabilities(empty).mean(0)
    return probabilities(label_scores - np.log(np.maximum(prior, np.finfo(np.float64).tiny)))
