"""A dictionary made soft, and sharpened until it is a lookup again."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.attention.attend import AttentionSpec, attend, weigh
from regard.attention.scores import dot
from regard.lab.demonstration import Chart, Demonstration, Measurement

WEIGHTS_OF_ANIMALS: Mapping[str, float] = {"cat": 4.0, "dog": 30.0, "wolf": 40.0, "horse": 500.0}  # kilograms
KEYS: Mapping[str, tuple[float, float, float]] = {  # directions: small, like a dog, large
    "cat": (1.0, 0.3, 0.0),
    "dog": (0.5, 1.0, 0.2),
    "wolf": (0.2, 1.0, 0.4),
    "horse": (0.0, 0.1, 1.0),
}
SHARPNESS = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0)
ASKED = "wolf"


def look_up(word: str, sharpness: float) -> tuple[Tensor, float]:
    """Return the softmax weights of the keys and the weighted mean of the values, for a word as query."""
    key = torch.nn.functional.normalize(torch.tensor(list(KEYS.values()), dtype=torch.float64), dim=-1)
    query = key[list(KEYS).index(word)][None]
    value = torch.tensor(list(WEIGHTS_OF_ANIMALS.values()), dtype=torch.float64)[:, None]

    def sharpened(query: Tensor, key: Tensor) -> Tensor:
        return sharpness * dot(query, key)

    answer = attend(query[None], key[None], value[None], way=AttentionSpec(score=sharpened))
    return weigh(sharpened(query, key))[0], float(answer)


def soften_dictionary(word: str = ASKED) -> Demonstration:
    """Look up one word by attention with increasing sharpness, from uniform weights to a hard lookup."""
    results = [look_up(word, sharpness) for sharpness in SHARPNESS]
    curves = {name: [float(weights[place]) for weights, _ in results] for place, name in enumerate(KEYS)}
    plain = WEIGHTS_OF_ANIMALS[word]
    answers = {"answer": [answer for _, answer in results], f"dictionary[{word!r}]": [plain] * len(results)}
    charts = [
        Chart("Weight of each key", "sharpness", "weight", SHARPNESS, curves, x_scale="symlog", digits=3),
        Chart(
            f"Answer to {word!r}, in kilograms",
            "sharpness",
            "kilograms",
            SHARPNESS,
            answers,
            x_scale="symlog",
            digits=3,
        ),
    ]
    measurement = Measurement(
        f"distance of the answer from dictionary[{word!r}]",
        f"sharpness {SHARPNESS[-1]:,.0f}",
        abs(results[-1][1] - plain),
        "sharpness 0, the mean of all values",
        abs(results[0][1] - plain),
    )
    return Demonstration("A soft dictionary", [measurement], charts=charts)
