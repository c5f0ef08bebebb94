"""The default check of a task's data before training: the data are prepared exactly as for training."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Report:
    """The result of preparing the data; `problems` are what prevents training."""

    summary: list[str] = field(default_factory=list)
    """Summary, as lines for the log."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Counts and fingerprints, as in data.json."""
    problems: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Return one sentence on whether the data can be trained on."""
        return f"cannot be trained on: {'; '.join(self.problems)}" if self.problems else "can be trained on"

    def lines(self) -> list[tuple[str, str]]:
        """Return the report as rows of name and text, the verdict last."""
        return [*(("data", line) for line in self.summary), ("verdict", self.verdict)]

    def plain(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {"verdict": self.verdict, "problems": self.problems, "summary": self.summary, "data": self.facts}


def prepare_report(task: Any, recipe: Any) -> Report:
    """Prepare the data of a task and return a report on it."""
    try:
        data = task.prepare(recipe, None)
    except ValueError as error:
        return Report(_summarise_leniently(task, recipe), problems=[str(error)])
    return Report(list(data.summary), data.report)


def _summarise_leniently(task: Any, recipe: Any) -> list[str]:
    """Summarise data with too many unusable examples; empty if the data cannot be prepared for another reason."""
    if "reject" not in vars(recipe.data):
        return []
    try:
        return list(task.prepare(replace(recipe, data=replace(recipe.data, reject=1.0)), None).summary)
    except ValueError:
        return []
