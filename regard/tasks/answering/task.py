"""Training of models for extractive question answering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from regard.checkpoint import Checkpoint
from regard.config.ranges import Whole
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.data.examples import sample_evenly
from regard.models.text_classifier import TransformerEncoderConfig
from regard.tasks.answering.answerer import NO_ANSWER, Answerer, make_reply
from regard.tasks.answering.files import QuestionsConfig
from regard.tasks.answering.preparation import PreparedQuestions, prepare
from regard.tasks.answering.recognition import recognise_questions
from regard.tasks.answering.scoring import answer_metrics
from regard.tasks.answering.spans import span_loss
from regard.tasks.answering.windows import Passage, PassageConfig
from regard.tasks.runner import evaluation_runner
from regard.tasks.text_encoders.dataset import LabelBatch
from regard.tasks.text_encoders.encoder_task import EncoderConfig, EncoderTask
from regard.tasks.text_encoders.warm_start import parent_tokenizer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, TraceInput, alone
from regard.training.tuning import TuningConfig

STRIDE_DIVISOR = 3  # the default stride is at most this fraction of a short window
NUM_OUTPUTS = 2  # logits per token: first and last token of the answer


@dataclass(frozen=True, kw_only=True)
class AnsweringObjective:
    """Settings of the logged samples; the loss has none."""

    samples: Free[Whole] = 5
    """Held-out questions whose answers are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class AnsweringRecipe:
    """A training run of a question answering model."""

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
        context = self.model.context
        if context is not None and self.data.window > context:
            raise ValueError(
                f"data.window is {self.data.window} tokens, more than model.context, {context}: "
                "lower the one or raise the other"
            )


class Answering(EncoderTask):
    """The task of finding answers to questions in texts."""

    Recipe = AnsweringRecipe
    usage: ClassVar[str] = 'regard predict {folder} "..."'
    title: ClassVar[str] = "A model of question answering"
    code: ClassVar[str] = 'ask([("a question", "a text")])'
    per_token = True
    prepared: PreparedQuestions
    goal: Goal = ("f1", "max")
    recognise = staticmethod(recognise_questions)

    @staticmethod
    def prepare(recipe: Any, parent: Checkpoint | None = None) -> PreparedQuestions:
        """Read and tokenise the questions, with the tokenizer of a parent model if there is one."""
        return prepare(
            recipe.data, recipe.tokenizer, parent_tokenizer(parent, recipe.tokenizer), style=recipe.model.input_style
        )

    @staticmethod
    def limit_lengths(model: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that a parent model determines before texts are read: input format and window size."""
        settings: dict[str, Any] = {"model": {"name": model["name"]}}
        context = model.get("context", QuestionsConfig.window)
        if context >= QuestionsConfig.window:
            return settings
        return {
            **settings,
            "data": {"window": context, "stride": min(QuestionsConfig.stride, context // STRIDE_DIVISOR)},
        }

    @classmethod
    def fill_sizes(cls, recipe: Any, prepared: PreparedQuestions) -> Any:
        """Return the recipe with the sizes of vocabulary and outputs, and the maximum length of answers."""
        sizes = {"vocab": prepared.tokenizer.vocab, "classes": NUM_OUTPUTS, "per_token": True}
        data = replace(recipe.data, max_answer_length=recipe.data.max_answer_length or prepared.answer)
        return replace(recipe, data=data, model=replace(recipe.model, **sizes), tokenizer=prepared.tokenizer.how)

    def step(self, batch: LabelBatch, part: str) -> Step:
        """Return the summed loss of the first and last tokens of answers."""
        batch = batch.to(self.model.output.bias.device)
        loss = span_loss(batch.forward(self.model), batch.labels, batch.row)
        return Step(loss=loss, weight=batch.row.count, counts={"tokens": batch.row.filled})

    @cached_property
    def passages(self) -> list[Passage]:
        """The tokenised validation questions."""
        return list(self._answerer().encoder.encode(self.prepared.valid))

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Answer and score the validation questions."""
        with evaluation_runner(self.model):
            spans = self._answerer().best_spans(self.passages, spread=spread)
        questions = self.prepared.valid
        replies = [make_reply(passage, span) for passage, span in zip(self.passages, spans, strict=True)]
        accepted_answers = [[text or NO_ANSWER for text in question.accepted_answers] for question in questions]
        samples = [
            {
                "question": questions[number].question,
                "right": " | ".join(dict.fromkeys(accepted_answers[number])),
                "answer": replies[number].answer or NO_ANSWER,
            }
            for number in sample_evenly(range(len(questions)), self.recipe.objective.samples)
        ]
        answers, losses = [reply.answer or "" for reply in replies], [span.loss for span in spans]
        return Evaluation(answer_metrics(questions, answers, losses), samples)

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return validation questions about short texts."""
        questions = sorted(self.prepared.valid, key=lambda question: len(question.context))
        chosen = sample_evenly(questions[: max(count, len(questions) // 4)], count)
        return [TraceInput(question, f"{question.question} | {question.context}") for question in chosen]

    def contents(self) -> dict[str, Any]:
        """Return the settings, the tokenizer and the card of a checkpoint."""
        return {
            "config.yaml": {"format": 1, **self.recipe_sections(), "data": self._data},
            "tokenizer.json": self.prepared.tokenizer.json(),
            "README.md": self.card(),
        }

    @property
    def ability(self) -> str:
        """Description of what the model does, a sentence for its card."""
        return "It finds the answer to a question in a text, or says that there is none."

    @property
    def _data(self) -> dict[str, int]:
        data = self.recipe.data
        return {
            "window": data.window,
            "stride": data.stride,
            "max_answer_length": data.max_answer_length or self.prepared.answer,
        }

    def _answerer(self) -> Answerer:
        """Return the model with its current weights as an answerer."""
        return Answerer(self.model, self.prepared.tokenizer, self._data)
