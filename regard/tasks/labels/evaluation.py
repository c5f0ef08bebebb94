"""Answers of a model that labels texts, compared with the true labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from regard.decoding.batching import by_length, in_order
from regard.metrics import entities
from regard.metrics.entities import EntityCounts
from regard.metrics.labels import Labels, judge
from regard.metrics.likelihood import IGNORE, cross_entropy
from regard.metrics.significance import Statistics
from regard.tasks.labels.dataset import LabelledDataset, TextModel
from regard.training.task import Spread, alone


@dataclass(frozen=True)
class LabelResults:
    """Labels held against the truth, over all texts of a set in its order; for tags, over their tokens."""

    labels: Labels
    loss: float
    answers: list[Int[np.ndarray, "_labels"]]
    """Of every text: one answer, or one for each token."""
    sentence_accuracy: float | None = None
    """Share of sentences in which all words are told right, where words are judged."""
    entity_scores: tuple[Statistics, list[EntityCounts]] | None = None
    """How well entities are found, where tags are those of entities, and each type by itself."""
    logits: Float[np.ndarray, "text label"] | None = None
    """What labels of texts are told from."""

    @property
    def metrics(self) -> dict[str, float]:
        """By name, as they are logged."""
        found = {"loss": self.loss, "accuracy": self.labels.accuracy, "f1": self.labels.f1}
        found |= {} if self.sentence_accuracy is None else {"sentences": self.sentence_accuracy}
        return found if self.entity_scores is None else {**found, "entity_f1": self.entity_scores[0].score / 100}


@torch.no_grad()
def measure_labels(
    model: TextModel, side: LabelledDataset, classes: list[str], *, tokens: int, spread: Spread = alone
) -> LabelResults:
    """Label all texts of a set, batch by batch, each by one of the processes."""
    training = model.training
    model.eval()
    device = model.output.bias.device

    def labelled(chosen: list[int]) -> tuple[float, list[list[int]], list[list[float]]]:
        batch = side.batch(np.array(chosen)).to(device)
        scores = batch.forward(model)
        answers = scores.argmax(-1).split(side.lengths[chosen].tolist() if side.per_token else 1)
        kept = [] if side.per_token else scores.float().tolist()
        return float(cross_entropy(scores, batch.labels)), [answer.tolist() for answer in answers], kept

    batches = by_length(side.lengths.tolist(), budget=tokens)
    found = spread(labelled, batches)
    model.train(training)
    answers = [np.array(line) for line in in_order(batches, (lines for _, lines, _ in found))]
    truth = [side.labels_of(number) for number in range(len(side))]
    whole = named = logits = None
    if side.per_token:
        right = [bool(((one == other) | (other == IGNORE)).all()) for one, other in zip(answers, truth, strict=True)]
        whole = sum(right) / len(right)
        named = _compare_entities(truth, answers, classes) if entities.are_entities(classes) else None
    else:
        logits = np.array(in_order(batches, (kept for _, _, kept in found)))
    one, other = (np.concatenate(lines) for lines in (truth, answers))
    judged = one != IGNORE
    labels = judge(one[judged], other[judged], classes)
    loss = sum(lost for lost, _, _ in found) / max(int(judged.sum()), 1)
    return LabelResults(labels, loss, answers, whole, named, logits)


def _compare_entities(
    truth: Sequence[Int[np.ndarray, "_labels"]], answers: Sequence[Int[np.ndarray, "_labels"]], classes: Sequence[str]
) -> tuple[Statistics, list[EntityCounts]]:
    """How well the entities of sentences are found, by the words that are judged."""
    kept = [(one[one != IGNORE], other[one != IGNORE]) for one, other in zip(truth, answers, strict=True)]
    named = [[[classes[number] for number in side] for side in both] for both in kept]
    return entities.compare([right for right, _ in named], [said for _, said in named])
