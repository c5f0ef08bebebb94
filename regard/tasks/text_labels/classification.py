"""Training of classifiers of texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from regard.config.resuming import Fingerprinted, Fixed
from regard.data.examples import spread_over_classes
from regard.models.encoder_with_head import BERTEncoderConfig, GPTEncoderConfig
from regard.models.linear import LinearConfig
from regard.models.text_classifier import (
    ConvolutionEncoderConfig,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
)
from regard.tasks.text_encoders.dataset import LabelledDataset
from regard.tasks.text_labels.comparison_split import split_for_comparison
from regard.tasks.text_labels.evaluation import LabelResults
from regard.tasks.text_labels.files import LabelsConfig
from regard.tasks.text_labels.recognition import recognise_labelled_texts
from regard.tasks.text_labels.task import Labelling, LabellingRecipe

MAX_SHOWN_CHARACTERS = 300  # characters of a text shown in a sample


@dataclass(frozen=True, kw_only=True)
class ClassificationRecipe(LabellingRecipe):
    """A training run of a text classifier."""

    task: Fixed[Literal["classification"]] = "classification"
    """What is learnt."""
    data: Fingerprinted[LabelsConfig]
    """Labelled texts."""
    model: (
        ConvolutionEncoderConfig
        | RecurrentEncoderConfig
        | TransformerEncoderConfig
        | BERTEncoderConfig
        | GPTEncoderConfig
        | LinearConfig
    ) = field(default_factory=ConvolutionEncoderConfig, metadata={"resume": "refused"})
    """The network, chosen by its name; sizes that nobody names follow from the number of texts."""


class Classification(Labelling):
    """The task of classifying texts."""

    Recipe = ClassificationRecipe
    usage: ClassVar[str] = 'regard classify {folder} "..."'
    title: ClassVar[str] = "A classifier"
    code: ClassVar[str] = 'classify(["a text"])'
    per_token = False
    recognise = staticmethod(recognise_labelled_texts)
    divides: ClassVar[bool] = True
    divide = staticmethod(split_for_comparison)

    def sample_answers(self, dataset: LabelledDataset, results: LabelResults) -> list[dict[str, Any]]:
        """Return a few texts with label and predicted label."""
        classes = self.prepared.classes
        return [
            {
                "read": " | ".join(dataset.texts[number])[:MAX_SHOWN_CHARACTERS],
                "label": classes[int(dataset.labels[number])],
                "answer": classes[int(results.answers[number][0])],
            }
            for number in spread_over_classes(dataset.labels.tolist(), self.recipe.objective.samples)
        ]
