"""A check of data before training, for tasks without a closer look of their own: prepared exactly as training would."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Report:
    """What preparing the data found; `problems` are what stops a training."""

    summary: list[str] = field(default_factory=list)
    """What there is to say, in lines."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Counts and fingerprints, as a run writes them to data.json."""
    problems: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """One sentence: whether this can be trained on."""
        return f"cannot be trained on: {'; '.join(self.problems)}" if self.problems else "can be trained on"

    def lines(self) -> list[tuple[str, str]]:
        """In words: a name and what there is to say of it, row by row, the verdict last."""
        return [*(("data", line) for line in self.summary), ("verdict", self.verdict)]

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"verdict": self.verdict, "problems": self.problems, "summary": self.summary, "data": self.facts}


def prepare_report(task: Any, recipe: Any) -> Report:
    """Return what preparing the data of a task says."""
    try:
        data = task.prepare(recipe, None)
    except ValueError as error:
        return Report(_summarise_leniently(task, recipe), problems=[str(error)])
    return Report(list(data.summary), data.report)


def _summarise_leniently(task: Any, recipe: Any) -> list[str]:
    """What else there is to say of data of which more is unusable than may be, if that is all that stops it."""
    if "reject" not in vars(recipe.data):
        return []
    try:
        return list(task.prepare(replace(recipe, data=replace(recipe.data, reject=1.0)), None).summary)
    except ValueError:
        return []
