"""Attention written out step by step: scores, division by the root of the depth, weights, weighted means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import AttentionSpec, attend, weigh
from regard.attention.scores import dot, scaled_dot
from regard.lab.demonstration import Demonstration, LabelledMatrix, Measurement

EXAMPLE_DEPTH = 64  # of the queries and keys of "Thinking Machines", whose root is 8


@dataclass(frozen=True)
class Steps:
    """Each step of scaled dot-product attention for a few vectors."""

    scores: Float[Tensor, "query key"]
    scaled: Float[Tensor, "query key"]
    weights: Float[Tensor, "query key"]
    unscaled_weights: Float[Tensor, "query key"]
    outputs: Float[Tensor, "query features"]


def compute_steps(
    query: Float[Tensor, "query depth"], key: Float[Tensor, "key depth"], value: Float[Tensor, "key features"]
) -> Steps:
    """Compute every step of attention: `softmax(Q K^T / sqrt(d)) V`."""
    scores, scaled = dot(query, key), scaled_dot(query, key)
    outputs = attend(query[None], key[None], value[None])[0]
    return Steps(scores, scaled, weigh(scaled), weigh(scores), outputs)


def thinking_machines() -> Demonstration:
    """Return the course's example of two words: scores 112 and 96, divided by 8, and weights .88 and .12."""
    words = ["Thinking", "Machines"]
    query = torch.ones(1, EXAMPLE_DEPTH, dtype=torch.float64)
    key = torch.tensor([[112.0], [96.0]], dtype=torch.float64).div(EXAMPLE_DEPTH).expand(2, EXAMPLE_DEPTH)
    steps = compute_steps(query, key, torch.eye(2, dtype=torch.float64))
    columns = torch.stack([steps.scores[0], steps.scaled[0], steps.weights[0], steps.unscaled_weights[0]], 1)
    matrix = LabelledMatrix(
        "The query of Thinking and the keys of both words",
        words,
        ["score", "divided by 8", "weight", "weight, undivided"],
        columns.tolist(),
    )
    shares = [share.reshape(-1, 1).tolist() for share in (steps.weights[0], steps.unscaled_weights[0])]
    drawn = [
        LabelledMatrix("Scores", words, ["score"], steps.scores.T.tolist(), digits=0),
        LabelledMatrix("Divided by 8", words, ["score"], steps.scaled.T.tolist(), digits=0),
        LabelledMatrix("Weights", words, ["weight"], shares[0]),
        LabelledMatrix("Undivided", words, ["weight"], shares[1]),
    ]
    measurement = Measurement(
        "weight of Machines",
        "scores divided by the root of 64",
        float(steps.weights[0, 1]),
        "not divided",
        float(steps.unscaled_weights[0, 1]),
    )
    return Demonstration("Thinking Machines", [measurement], tables=[matrix], matrices=drawn)


def big_dog() -> Demonstration:
    """Return the course's example of three words, with given attention weights."""
    words = ["The", "big", "dog"]
    vectors = torch.tensor([[0.50, -0.87], [-0.70, 0.70], [0.81, 0.59]], dtype=torch.float64)
    weights = torch.tensor([[0.50, 0.20, 0.30], [0.12, 0.45, 0.43], [0.15, 0.42, 0.43]], dtype=torch.float64)
    outputs, mean = mix_values(weights, vectors), mix_values(torch.full_like(weights, 1 / 3), vectors)
    matrices = [
        LabelledMatrix("Weights", words, words, weights.tolist()),
        LabelledMatrix("Vectors", words, ["x", "y"], vectors.tolist()),
        LabelledMatrix("Weights times vectors", words, ["x", "y"], outputs.tolist()),
    ]
    measurement = Measurement(
        "largest difference of two outputs", "these weights", _spread(outputs), "all weights a third", _spread(mean)
    )
    return Demonstration("The big dog", [measurement], matrices=matrices)


def mix_values(weights: Float[Tensor, "query key"], value: Float[Tensor, "key features"]) -> Tensor:
    """Return the weighted means of the values, computed by `attend` with log-weights as scores."""
    spec = AttentionSpec(score=lambda query, key: weights.log()[None])
    blank = weights.new_zeros(1, len(weights), 1)
    return attend(blank, weights.new_zeros(1, len(value), 1), value[None], way=spec)[0]


def _spread(outputs: Float[Tensor, "query features"]) -> float:
    return float((outputs[:, None] - outputs[None]).abs().max())


def columns_and_rows(*, seed: int = 0) -> Demonstration:
    """Return attention with tokens as columns, `V softmax(K^T Q / sqrt(d))`, beside tokens as rows."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 4, dtype=torch.float64, generator=generator)  # three features of four tokens
    to_query, to_key = (torch.randn(4, 3, dtype=torch.float64, generator=generator) for _ in range(2))
    to_value = torch.randn(2, 3, dtype=torch.float64, generator=generator)
    query, key, value = to_query @ x, to_key @ x, to_value @ x
    scores = key.T @ query / math.sqrt(len(key))
    by_column, by_row = scores.softmax(0), scores.softmax(1)
    rows = compute_steps(query.T, key.T, value.T)
    tokens = [f"x{number}" for number in range(1, 5)]
    matrices = [
        LabelledMatrix("X: a column is a token", ["1", "2", "3"], tokens, x.tolist()),
        LabelledMatrix("softmax(K'Q / 2): columns sum to 1", tokens, tokens, by_column.tolist()),
        LabelledMatrix("V softmax(K'Q / 2)", ["1", "2"], tokens, (value @ by_column).tolist()),
        LabelledMatrix("softmax(QK' / 2) V, tokens as rows", tokens, ["1", "2"], rows.outputs.tolist()),
    ]
    measurement = Measurement(
        "largest difference from rows, transposed",
        "softmax along the rows of K'Q, as a mistake",
        float((value @ by_row - rows.outputs.T).abs().max()),
        "softmax along the columns of K'Q",
        float((value @ by_column - rows.outputs.T).abs().max()),
    )
    return Demonstration("Tokens as columns", [measurement], matrices=matrices)


def attend_to_vectors(
    queries: Sequence[Sequence[float]],
    keys: Sequence[Sequence[float]],
    values: Sequence[Sequence[float]],
    *,
    words: Sequence[str] = (),
) -> Demonstration:
    """Return every step of attention for vectors that the user enters."""
    query, key, value = (torch.tensor(vectors, dtype=torch.float64) for vectors in (queries, keys, values))
    steps = compute_steps(query, key, value)
    even = compute_steps(query, key.mean(0, keepdim=True).expand_as(key), value)
    key_names = list(words) or [f"k{number}" for number in range(1, len(key) + 1)]
    query_names = (
        key_names if words and len(query) == len(key) else [f"q{number}" for number in range(1, len(query) + 1)]
    )
    features = [str(number) for number in range(1, value.shape[1] + 1)]
    matrices = [
        LabelledMatrix("Scores: queries times keys", query_names, key_names, steps.scores.tolist()),
        LabelledMatrix(f"Divided by the root of {query.shape[1]}", query_names, key_names, steps.scaled.tolist()),
        LabelledMatrix("Weights", query_names, key_names, steps.weights.tolist()),
        LabelledMatrix("Weighted means of the values", query_names, features, steps.outputs.tolist()),
    ]
    measurement = Measurement(
        "largest weight", "these keys", float(steps.weights.max()), "all keys alike", float(even.weights.max())
    )
    return Demonstration("Attention step by step", [measurement], matrices=matrices)


def _number_names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(1, count + 1)]
