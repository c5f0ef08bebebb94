"""Learning to answer questions: where in a text the answer begins and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from regard import config
from regard.checkpoint import Checkpoint
from regard.config.ranges import Whole
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.data.normalise import read_text_settings
from regard.data.tokenizers import Tokenizer
from regard.models.text_classifier import TransformerEncoderConfig
from regard.tasks.answering.answerer import NO_ANSWER, Answerer, make_reply
from regard.tasks.answering.files import QuestionsConfig
from regard.tasks.answering.preparation import PreparedQuestions, prepare
from regard.tasks.answering.recognition import recognise_questions
from regard.tasks.answering.scoring import answer_metrics
from regard.tasks.answering.spans import span_loss
from regard.tasks.answering.windows import Passage, PassageConfig
from regard.tasks.labels.dataset import LabelBatch
from regard.tasks.labels.task import EncoderConfig, Labelling
from regard.training import checking, transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, alone, sample_evenly
from regard.training.tuning import TuningConfig

STRIDE_DIVISOR = 3  # a third of a short window, at most, is also in the one before
NUM_OUTPUTS = 2  # how likely a token is the first of an answer, and the last


@dataclass(frozen=True, kw_only=True)
class AnsweringObjective:
    """What is shown of it; the loss has nothing to set."""

    samples: Free[Whole] = 5
    """Held-out questions whose answers are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class AnsweringRecipe:
    """One run that learns to answer questions."""

    task: Fixed[Literal["question-answering"]] = "question-answering"
    """What is learnt."""
    data: Fingerprinted[QuestionsConfig]
    """Questions about texts."""
    tokenizer: Fixed[PassageConfig] = field(default_factory=PassageConfig)
    """What a token is."""
    model: EncoderConfig = field(default_factory=TransformerEncoderConfig, metadata={"resume": "refused"})
    """The network, chosen by its name; sizes that nobody names follow from the number of windows."""
    objective: AnsweringObjective = field(default_factory=AnsweringObjective)
    """How checkpoints are scored."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    tuning: Fixed[TuningConfig] = field(default_factory=TuningConfig)
    """What of a model to start from learns."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""

    def __post_init__(self) -> None:
        context = getattr(self.model, "context", None)
        if context is not None and self.data.window > context:
            raise ValueError(
                f"data.window is {self.data.window} tokens, more than model.context, {context}: "
                "lower the one or raise the other"
            )


class Answering(Labelling):
    """The task of learning where answers stand."""

    Recipe = AnsweringRecipe
    usage: ClassVar[str] = 'regard predict {folder} "..."'
    title: ClassVar[str] = "A model of question answering"
    code: ClassVar[str] = 'ask([("a question", "a text")])'
    per_token = True
    prepared: PreparedQuestions  # type: ignore[assignment]
    goal: Goal = ("f1", "max")
    ability: ClassVar[str] = "It finds the answer to a question in a text, or says that there is none."  # type: ignore[misc]
    recognise = staticmethod(recognise_questions)

    @staticmethod
    def prepare(recipe: Any, known: Checkpoint | None = None) -> PreparedQuestions:  # type: ignore[override]
        """Read and tokenise the questions, with the tokenizer of a model to start from."""
        return prepare(recipe.data, recipe.tokenizer, _parent_tokenizer(known, recipe), style=recipe.model.FORMAT)

    @staticmethod
    def check(recipe: Any, *, tokens: bool = False) -> checking.Report:  # type: ignore[override]
        """What there is to say of the data before anything is trained on it, tokens and windows included."""
        return checking.prepare_report(Answering, recipe)

    @staticmethod
    def limit_lengths(model: Mapping[str, Any]) -> dict[str, Any]:
        """What a model to start from decides before texts are read: their format, and windows that it can hold."""
        named: dict[str, Any] = {"model": {"name": model["name"]}}
        context = model.get("context", QuestionsConfig.window)
        if context >= QuestionsConfig.window:
            return named
        return {**named, "data": {"window": context, "stride": min(QuestionsConfig.stride, context // STRIDE_DIVISOR)}}

    @classmethod
    def holds(cls, shape: Any) -> bool:
        """No model that somebody else trained says of itself that it answers questions."""
        return False

    @classmethod
    def fill_sizes(cls, recipe: Any, prepared: PreparedQuestions) -> Any:  # type: ignore[override]
        """The recipe with the number of tokens, two outputs for each, and how long answers are."""
        sizes = {"vocab": prepared.tokenizer.vocab, "classes": NUM_OUTPUTS, "per_token": True}
        data = replace(recipe.data, answer=recipe.data.answer or prepared.answer)
        return replace(recipe, data=data, model=replace(recipe.model, **sizes), tokenizer=prepared.tokenizer.how)

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, prepared: PreparedQuestions) -> list[str]:  # type: ignore[override]
        """Weights of a model that answers questions, or only the body of another under a new head."""
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == AnsweringRecipe.task)

    def step(self, batch: LabelBatch, part: str) -> Step:
        """The surprise at where every answer begins and ends, summed."""
        batch = batch.to(self.model.output.bias.device)
        loss = span_loss(batch.forward(self.model), batch.labels, batch.row)
        return Step(loss=loss, weight=batch.row.count, counts={"tokens": batch.row.filled})

    @cached_property
    def passages(self) -> list[Passage]:
        """The held-out questions as tokens."""
        return list(self._face().encoder.encode(self.prepared.valid))

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """How the held-out questions are answered, and a few of them to look at."""
        training = self.model.training
        self.model.eval()
        found = self._face().best_spans(self.passages, spread=spread)
        self.model.train(training)
        asked, replies = self.prepared.valid, [make_reply(*each) for each in zip(self.passages, found, strict=True)]
        samples = [
            {
                "question": asked[number].question,
                "right": " | ".join(dict.fromkeys(each or NO_ANSWER for each in asked[number].accepted_answers)),
                "answer": replies[number].answer or NO_ANSWER,
            }
            for number in sample_evenly(range(len(asked)), self.recipe.objective.samples)
        ]
        return Evaluation(
            answer_metrics(asked, [one.answer or "" for one in replies], [one.loss for one in found]), samples
        )

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics."""
        recipe = config.plain(self.recipe)
        recipe["model"] = {name: None if name == "vectors" else value for name, value in recipe["model"].items()}
        kept = {name: recipe[name] for name in ("task", "model", "tokenizer")}
        return {
            "config.yaml": {"format": 1, **kept, "data": self._data},
            "tokenizer.json": self.prepared.tokenizer.json(),
            "README.md": self.card(),
        }

    @property
    def _data(self) -> dict[str, int]:
        data = self.recipe.data
        return {"window": data.window, "stride": data.stride, "answer": data.answer or self.prepared.answer}

    def _face(self) -> Answerer:
        """The model as it is now, ready to use."""
        return Answerer(self.model, self.prepared.tokenizer, self._data)


def _parent_tokenizer(found: Checkpoint | None, recipe: Any) -> Tokenizer | None:
    """The tokens of a model to start from."""
    if found is None:
        return None
    names = {each.name for each in config.describe(PassageConfig)}
    kept = {
        name: value for name, value in read_text_settings(found.config.get("tokenizer", {})).items() if name in names
    }
    how = config.build(PassageConfig, {**config.plain(recipe.tokenizer), **kept}, where="tokenizer")
    return Tokenizer.parse(found.text("tokenizer.json"), how)
