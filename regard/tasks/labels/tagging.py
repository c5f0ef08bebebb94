"""Learning to tag: what each word of a sentence is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from regard.config.resuming import Fingerprinted, Fixed
from regard.metrics.entities import are_entities
from regard.metrics.likelihood import IGNORE
from regard.tasks.labels.dataset import LabelledDataset
from regard.tasks.labels.evaluation import LabelResults
from regard.tasks.labels.files import TagsConfig
from regard.tasks.labels.preparation import PreparedTexts
from regard.tasks.labels.recognition import recognise_tagged_words
from regard.tasks.labels.task import Labelling, LabellingRecipe
from regard.training.task import sample_evenly


@dataclass(frozen=True, kw_only=True)
class TaggingRecipe(LabellingRecipe):
    """One run that learns to tag words."""

    task: Fixed[Literal["tagging"]] = "tagging"
    """What is learnt."""
    data: Fingerprinted[TagsConfig]
    """Tagged sentences."""


class Tagging(Labelling):
    """The task of learning what each word of a sentence is."""

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

    def sample_answers(self, side: LabelledDataset, found: LabelResults) -> list[dict[str, Any]]:
        """A few sentences, and what is said of their judged words; where that is wrong, also the truth."""
        names, samples = self.prepared.classes, []
        for number in sample_evenly(range(len(side)), self.recipe.objective.samples):
            both = zip(side.labels_of(number), found.answers[number], strict=True)
            pairs = [(int(right), int(said)) for right, said in both]
            said = [
                names[answer] if answer == right else f"{names[answer]} (not {names[right]})"
                for right, answer in pairs
                if right != IGNORE
            ]
            samples.append({"sentence": " ".join(side.texts[number]), "answer": " ".join(said)})
        return samples
