"""The temperature of a classifier: its entry in a checkpoint, and its effect on labelled examples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from regard.metrics.calibration import calibration_error, describe_error, probabilities

Logits = Float[np.ndarray, "example label"]
Truth = Int[np.ndarray, "example"]


def record_temperature(temperature: float) -> dict[str, float]:
    """Return the entry of a temperature in a checkpoint's config; none for 1, which changes no probability."""
    return {} if temperature == 1.0 else {"temperature": temperature}


def read_temperature(config: Mapping[str, Any]) -> float:
    """Return the temperature in a checkpoint's config, or 1."""
    temperature = config.get("temperature", 1.0)
    if not isinstance(temperature, int | float) or not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be a number above 0, not {temperature!r}")
    return float(temperature)


def measure_calibration(logits: Logits, truth: Truth, temperature: float) -> dict[str, float]:
    """Return the calibration error at temperature 1 and at the temperature of answers."""
    before, after = (calibration_error(probabilities(logits, heat), truth) for heat in (1.0, temperature))
    return {"before": before, "after": after, "temperature": temperature}


def describe_calibration(errors: Mapping[str, float]) -> dict[str, str]:
    """Return calibration errors as a measure to print; empty if nothing was measured."""
    return {"calibration error": describe_error(**errors)} if errors else {}
