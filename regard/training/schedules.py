"""Learning-rate schedules: pure functions of the step (from 1) that return the share of the peak rate."""

from __future__ import annotations

import math


def inverse_root(step: int, *, warmup: int, steps: int) -> float:
    """A linear rise to 1 at `warmup`, then the inverse square root of the step (Vaswani et al. 2017, section 5.3).

    With the peak rate (width * warmup) ** -0.5 this is the paper's width ** -0.5 * min(s ** -0.5, s * warmup ** -1.5).
    """
    warmup = max(1, warmup)
    return min(step / warmup, math.sqrt(warmup / step))


def constant(step: int, *, warmup: int, steps: int) -> float:
    """A linear rise to 1 at `warmup`, then 1."""
    return _warmup_share(step, warmup)


def linear(step: int, *, warmup: int, steps: int) -> float:
    """A linear rise to 1 at `warmup`, then straight down to 0 just after the last step."""
    return _warmup_share(step, warmup) * (1 - _decay_share(step, warmup, steps))


def cosine(step: int, *, warmup: int, steps: int) -> float:
    """A linear rise to 1 at `warmup`, then half a cosine down to 0 just after the last step (Loshchilov 2017)."""
    return _warmup_share(step, warmup) * (1 + math.cos(math.pi * _decay_share(step, warmup, steps))) / 2


SCHEDULES = {"inverse_root": inverse_root, "constant": constant, "linear": linear, "cosine": cosine}


def _warmup_share(step: int, warmup: int) -> float:
    return min(1.0, step / max(1, warmup))


def _decay_share(step: int, warmup: int, steps: int) -> float:
    return min(1.0, max(0, step - warmup) / max(1, steps + 1 - warmup))
