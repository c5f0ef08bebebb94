"""Predictions of a model that labels texts or tokens, compared with the true labels."""

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
from regard.tasks.runner import Runner
from regard.tasks.text_encoders.dataset import LabelledDataset
from regard.training.task import Spread, alone

TagNumbers = Int[np.ndarray, "_labels"]


@dataclass(frozen=True)
class LabelResults:
    """True and predicted labels of all texts of a dataset, in its order; tags are compared token by token."""

    labels: Labels
    loss: float
    answers: list[TagNumbers]
    """Predicted labels of each text: one, or one per token."""
    sentence_accuracy: float | None = None
    """Share of sentences in which all scored words have the right tag; None if texts have one label."""
    entity_scores: tuple[Statistics, list[EntityCounts]] | None = None
    """F1 of entities and the counts of each type; None if the tags are not those of entities."""
    logits: Float[np.ndarray, "text label"] | None = None
    """Logits of texts with one label; None for tags."""

    @property
    def metrics(self) -> dict[str, float]:
        """Loss, accuracy and F1, by the names in the log."""
        metrics = {"loss": self.loss, "accuracy": self.labels.accuracy, "f1": self.labels.f1}
        metrics |= {} if self.sentence_accuracy is None else {"sentences": self.sentence_accuracy}
        return metrics if self.entity_scores is None else {**metrics, "entity_f1": self.entity_scores[0].score / 100}


@torch.no_grad()
def measure_labels(
    runner: Runner, dataset: LabelledDataset, classes: list[str], *, tokens: int, spread: Spread = alone
) -> LabelResults:
    """Label all texts of a dataset in batches that are distributed over the processes."""

    def label_batch(numbers: list[int]) -> tuple[float, list[list[int]], list[list[float]]]:
        batch = dataset.batch(np.array(numbers)).to(runner.device)
        logits = batch.forward(runner)
        answers = logits.argmax(-1).split(dataset.lengths[numbers].tolist() if dataset.per_token else 1)
        text_logits = [] if dataset.per_token else logits.float().tolist()
        return float(cross_entropy(logits, batch.labels)), [answer.tolist() for answer in answers], text_logits

    batches = by_length(dataset.lengths.tolist(), budget=tokens)
    losses, batch_answers, batch_logits = zip(*spread(label_batch, batches), strict=True)
    answers = [np.array(answer) for answer in in_order(batches, batch_answers)]
    truth = [dataset.labels_of(number) for number in range(len(dataset))]
    all_truth, all_answers = np.concatenate(truth), np.concatenate(answers)
    is_judged = all_truth != IGNORE
    labels = judge(all_truth[is_judged], all_answers[is_judged], classes)
    loss = sum(losses) / max(int(is_judged.sum()), 1)
    if not dataset.per_token:
        return LabelResults(labels, loss, answers, logits=np.array(in_order(batches, batch_logits)))
    return LabelResults(
        labels, loss, answers, _sentence_accuracy(truth, answers), _compare_entities(truth, answers, classes)
    )


def _sentence_accuracy(truth: Sequence[TagNumbers], answers: Sequence[TagNumbers]) -> float:
    """Return the share of sentences in which all scored words have the right tag."""
    is_right = [((answer == tags) | (tags == IGNORE)).all() for tags, answer in zip(truth, answers, strict=True)]
    return sum(map(bool, is_right)) / len(is_right)


def _compare_entities(
    truth: Sequence[TagNumbers], answers: Sequence[TagNumbers], classes: Sequence[str]
) -> tuple[Statistics, list[EntityCounts]] | None:
    """Compare the entities of sentences over scored words; return None if the tags are not those of entities."""
    if not entities.are_entities(classes):
        return None
    judged = [tags != IGNORE for tags in truth]

    def name_tags(sentences: Sequence[TagNumbers]) -> list[list[str]]:
        return [[classes[number] for number in tags[mask]] for tags, mask in zip(sentences, judged, strict=True)]

    return entities.compare(name_tags(truth), name_tags(answers))
