"""A warm-up that fits into a time limit, whose number of steps is unknown until some have been made.

The speed of the first steps decides, once; the decision is saved with the run's progress, so that a resumed run has the
learning rates of an uninterrupted one.
"""

from __future__ import annotations

LARGEST_SHARE = 0.25  # of a run: a longer warm-up would leave too little time at the highest rate
STEPS = 20  # after which the speed is known well enough
EARLY_SHARE = 0.05  # of the time limit, after which fewer steps must be enough


class SpeedGauge:
    """Measures how many steps a time limit allows, ignoring the first one, which may include compilation."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._first: tuple[int, float] | None = None

    def estimate_steps(self, step: int, elapsed: float) -> int | None:
        """Return how many steps the run will have made at its limit; None while that is not known.

        Call it after every step with its number and the seconds of training so far.
        """
        if self._first is None or step <= self._first[0]:
            self._first = step, elapsed
            return None
        first_step, first_elapsed = self._first
        steps_done = step - first_step
        if steps_done < STEPS and elapsed < EARLY_SHARE * self.limit:
            return None
        seconds_per_step = max((elapsed - first_elapsed) / steps_done, 1e-9)
        return step + int(max(0.0, self.limit - elapsed) / seconds_per_step)


def affordable_warmup(steps: int) -> int:
    """Return the longest warm-up for a run of this many steps."""
    return max(1, round(LARGEST_SHARE * steps))
