"""Training of taggers: models that label each word of a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from regard.config.resuming import Fingerprinted, Fixed
from regard.data.examples import sample_evenly
from regard.metrics.entities import are_entities
from regard.metrics.likelihood import IGNORE
from regard.tasks.text_encoders.dataset import LabelledDataset
from regard.tasks.text_labels.evaluation import LabelResults
from regard.tasks.text_labels.files import TagsConfig
from regard.tasks.text_labels.preparation import PreparedTexts
from regard.tasks.text_labels.recognition import recognise_tagged_words
from regard.tasks.text_labels.task import Labelling, LabellingRecipe


@dataclass(frozen=True, kw_only=True)
class TaggingRecipe(LabellingRecipe):
    """A training run of a tagger."""

    task: Fixed[Literal["tagging"]] = "tagging"
    """What is learnt."""
    data: Fingerprinted[TagsConfig]
    """Tagged sentences."""


class Tagging(Labelling):
    """The task of tagging each word of a sentence."""

    Recipe = TaggingRecipe
    usage: ClassVar[str] = 'regard tag {folder} "..."'
    title: ClassVar[str] = "A tagger"
    code: ClassVar[str] = 'tag(["a sentence"])'
    per_token = True
    has_temperature = False
    recognise = staticmethod(recognise_tagged_words)

    def __init__(self, recipe: Any, prepared: PreparedTexts, model: Any, *, fixed: bool = False) -> None:
        super().__init__(recipe, prepared, model, fixed=fixed)
        if are_entities(prepared.classes):
            self.goal = ("entity_f1", "max")

    def look_input(self, texts: tuple[str, ...]) -> str:
        """Return the words of a sentence as one text."""
        return " ".join(texts)

    def sample_answers(self, dataset: LabelledDataset, results: LabelResults) -> list[dict[str, Any]]:
        """Return a few sentences with the predicted tags of scored words, and the right tag beside a wrong one."""
        classes, samples = self.prepared.classes, []
        for number in sample_evenly(range(len(dataset)), self.recipe.objective.samples):
            numbers = zip(dataset.labels_of(number), results.answers[number], strict=True)
            true_and_answer = [(int(true_label), int(answer_texts)) for true_label, answer_texts in numbers]
            answer_texts = [
                classes[answer] if answer == true_label else f"{classes[answer]} (not {classes[true_label]})"
                for true_label, answer in true_and_answer
                if true_label != IGNORE
            ]
            samples.append({"sentence": " ".join(dataset.texts[number]), "answer": " ".join(answer_texts)})
        return samples
