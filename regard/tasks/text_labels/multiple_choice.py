"""Training of multiple-choice models: one score per answer, and a softmax over them (Radford et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from regard.checkpoint import Checkpoint
from regard.config.resuming import Fingerprinted, Fixed
from regard.data.examples import sample_evenly
from regard.models.text_classifier import TransformerEncoderConfig
from regard.tasks.text_encoders.dataset import LabelledDataset, TextModel
from regard.tasks.text_encoders.encoder_task import EncoderConfig
from regard.tasks.text_labels.evaluation import LabelResults
from regard.tasks.text_labels.files import ChoicesConfig
from regard.tasks.text_labels.preparation import PreparedTexts
from regard.tasks.text_labels.recognition import recognise_choice_questions
from regard.tasks.text_labels.task import Labelling, LabellingRecipe
from regard.training import transfer
from regard.training.task import Evaluation, Spread, alone

MAX_SHOWN_CHARACTERS = 300  # characters of a question shown in a sample


@dataclass(frozen=True, kw_only=True)
class ChoiceRecipe(LabellingRecipe):
    """A training run of a multiple-choice model."""

    task: Fixed[Literal["choice"]] = "choice"
    """What is learnt."""
    data: Fingerprinted[ChoicesConfig]
    """Questions with answers to choose from."""
    model: EncoderConfig = field(default_factory=TransformerEncoderConfig, metadata={"resume": "refused"})
    """The network, chosen by its name; sizes that nobody names follow from the number of questions."""


class MultipleChoice(Labelling):
    """The task of choosing the right answer to a question.

    The question's text is read with each answer separately, so that the score of an answer does not depend on the
    others; the label is the number of the right answer, from 1.
    """

    Recipe = ChoiceRecipe
    usage: ClassVar[str] = 'regard predict {folder} "... | ... | ..."'
    title: ClassVar[str] = "A model that chooses among answers"
    code: ClassVar[str] = 'choose([("what is given", "one answer", "another")])'
    per_token = False
    single_output = True
    recognise = staticmethod(recognise_choice_questions)

    @classmethod
    def holds(cls, shape: Any) -> bool:
        """False: models of other libraries do not declare themselves as multiple-choice models."""
        return False

    @staticmethod
    def adopt(model: TextModel, parent: Checkpoint, prepared: PreparedTexts) -> list[str]:
        """Load all weights of a multiple-choice model; otherwise only the backbone, under a new head."""
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == ChoiceRecipe.task)

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Score the validation questions, without F1, which is meaningless for positions of answers."""
        evaluation = super().evaluate(spread)
        return replace(evaluation, metrics={name: value for name, value in evaluation.metrics.items() if name != "f1"})

    def sample_answers(self, dataset: LabelledDataset, results: LabelResults) -> list[dict[str, Any]]:
        """Return a few questions with the right and the chosen answer."""
        return [
            {
                "read": dataset.texts[number][0][:MAX_SHOWN_CHARACTERS],
                "label": dataset.texts[number][1 + int(dataset.labels[number])],
                "answer": dataset.texts[number][1 + int(results.answers[number][0])],
            }
            for number in sample_evenly(range(len(dataset)), self.recipe.objective.samples)
        ]

    @property
    def ability(self) -> str:
        """Description of what the model does, a sentence for its card."""
        return f"It chooses the right one of several answers; in training there were {len(self.prepared.classes)}."
