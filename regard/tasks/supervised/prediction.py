"""The prediction of a classifier for one input: the most probable label, and the probabilities of all labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound="Prediction")


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A label with its probability, and the probabilities of all labels, the highest first."""

    label: str
    probability: float
    all: dict[str, float]

    @classmethod
    def rank(cls: type[Kind], classes: Sequence[str], probabilities: Sequence[float], **subject: Any) -> Kind:
        """Return the prediction for these probabilities; ties go to the first class."""
        order = sorted(range(len(classes)), key=lambda number: -probabilities[number])
        ranked = {classes[number]: probabilities[number] for number in order}
        return cls(label=classes[order[0]], probability=probabilities[order[0]], all=ranked, **subject)

    @property
    def subject(self) -> dict[str, Any]:
        """The input that was classified, as JSON."""
        return {}

    def __str__(self) -> str:
        return f"{self.label}\t{self.probability:.3f}"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        rounded = {label: round(probability, 6) for label, probability in self.all.items()}
        return {**self.subject, "label": self.label, "probability": round(self.probability, 6), "all": rounded}


@dataclass(frozen=True, kw_only=True)
class TextPrediction(Prediction):
    """The label of a text or of a pair of texts."""

    text: str | tuple[str, ...]

    @property
    def subject(self) -> dict[str, Any]:
        """The text, or both texts of a pair."""
        return {"text": self.text} if isinstance(self.text, str) else {"texts": list(self.text)}
