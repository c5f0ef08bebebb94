"""A trained model that chooses among answers in use: the likeliest one, scores on a file, where it looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.config.ranges import Count
from regard.interpret.items import Item
from regard.interpret.steps import Prediction
from regard.interpret.trace import Trace
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import mean_statistics
from regard.tasks.inputs import QUESTION, InputKind, Inputs, check_files, list_inputs
from regard.tasks.labels.choice_file import (
    QUESTION_REMEDY,
    ChoiceColumns,
    ChoiceFile,
    Question,
    pair_with_choices,
    parse_question,
    read_questions,
    settings_for_file,
)
from regard.tasks.labels.dataset import LabelledDataset
from regard.tasks.labels.evaluation import LabelResults, measure_labels
from regard.tasks.labels.examples import label_names
from regard.tasks.labels.files import read_examples
from regard.tasks.labels.input_format import EncodedText, encode_texts
from regard.tasks.labels.preparation import build_dataset
from regard.tasks.labels.scoring import label_calibration
from regard.tasks.labels.text_labeller import BATCH_TOKENS, LABEL_ITEMS, TextLabeller
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.supervised.calibration import describe_calibration
from regard.tasks.trained import chosen

MAX_SHOWN_CHARACTERS = 300  # characters of a text that are shown


@dataclass(frozen=True)
class Choice:
    """A question, the answer that was chosen, and how probable each of its answers is."""

    given: str
    choices: tuple[str, ...]
    probabilities: tuple[float, ...]
    """Of every answer, in the order in which they were given."""

    @property
    def number(self) -> int:
        """Which answer was chosen, counted from 1; of equal ones the first."""
        return 1 + self.probabilities.index(max(self.probabilities))

    @property
    def answer(self) -> str:
        """The text of the one that was chosen."""
        return self.choices[self.number - 1]

    @property
    def probability(self) -> float:
        """How probable that one is."""
        return max(self.probabilities)

    @property
    def ranking(self) -> list[tuple[str, float]]:
        """All answers, the likeliest first."""
        return sorted(zip(self.choices, self.probabilities, strict=True), key=lambda each: -each[1])

    def __str__(self) -> str:
        return f"{self.answer}\t{self.probability:.3f}"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "given": self.given,
            "choices": list(self.choices),
            "answer": self.answer,
            "number": self.number,
            "probability": round(self.probability, 6),
            "probabilities": [round(each, 6) for each in self.probabilities],
        }


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Which answer is read while the model is watched."""

    number: Count | None = None
    """The number of the answer, from 1; null: the one that is chosen."""


class Chooser(TextLabeller):
    """Says which of a few answers to a question is right."""

    file = ChoiceFile
    task: ClassVar[str] = "choice"
    verb: ClassVar[str] = "choose"
    kind: ClassVar[str] = "a model that chooses among answers"
    input_kind: ClassVar[InputKind] = QUESTION
    LookOptions: ClassVar[type] = AnswerOptions
    pairs: ClassVar[bool] = True

    @classmethod
    def pair_class(cls) -> Any:
        """It reads nothing else."""
        return cls

    @property
    def columns(self) -> ChoiceColumns:
        """Where everything stood in the training files."""
        file = self.data["file"]
        return ChoiceColumns(tuple(file["given"]), tuple(file["choices"]), file["label"])

    @property
    def inputs(self) -> Inputs:
        """Questions with their answers, of a file those in its columns."""
        return Inputs(kind=self.input_kind, parse=self.parse, read=self.read)

    def parse(self, text: str) -> Question:
        """A question as somebody types it."""
        return parse_question(text, self.columns)

    def read(self, path: Path) -> list[Question]:
        """The questions of a file."""
        return read_questions(path, self.columns)

    def answer(self, inputs: Sequence[Question], **options: Any) -> list[Choice]:
        """The likeliest answer to each question."""
        chosen(self, options)
        return self.choose(inputs)

    @torch.no_grad()
    def choose(self, given: Any) -> list[Choice]:
        """The likeliest answer to each question, which is a tuple of what is given and its answers, two at least."""
        listed: list[Question] = [tuple(question) for question in list_inputs(given, QUESTION, verb=self.verb)]
        for question in listed:
            if len(question) < 3:
                raise ValueError(f"{question!r} has fewer than two answers to choose from: {QUESTION_REMEDY}")
        laid = [self._encode(question) for question in listed]
        lengths = [sum(len(one.tokens) for one in ways) for ways in laid]
        answers = answer_by_length(
            lengths, lambda batch: self._choice_probabilities([laid[number] for number in batch]), budget=BATCH_TOKENS
        )
        return [Choice(question[0], question[1:], tuple(one)) for question, one in zip(listed, answers, strict=True)]

    def evaluate(self, *paths: str | Path, name: str | None = None, **changes: Any) -> Scores:
        """Scores on files of questions with their right answers; `changes` are settings of the files."""
        check_files(self, paths, "questions with choices")
        own = self.data["file"]
        settings = [{**settings_for_file(own, str(path)), **changes, "path": str(path)} for path in paths]
        read = [config.build(self.file, each, where="file") for each in settings]
        found = read_examples(read, {}, reject=0.0)
        classes = label_names(found)
        side = build_dataset(found, self.tokenizer, classes, self.style)
        measured = measure_labels(self.model, side, classes, tokens=BATCH_TOKENS)
        return score_choices(name or self.name, self.task, side, measured, self.temperature)

    def look(self, question: Question, *, number: int | None = None) -> Trace:
        """Choose, and keep where the model looked as it read the answer it chose, or that of a number from 1."""
        [choice] = self.choose([question])
        number = choice.number if number is None else number
        if not 0 < number < len(question):
            raise ValueError(f"there is no answer {number}: choose 1 to {len(choice.choices)}")
        laid = self._encode(question)[number - 1]
        _, weights = self._watch_attention(laid)
        items = {"source": self._items(laid.tokens, []), LABEL_ITEMS: [Item(question[number], word=0)]}
        facts = {
            "text": " | ".join(question),
            "answer": choice.answer,
            "probability": round(choice.probability, 6),
            "ranked": [[text, round(chance, 6)] for text, chance in choice.ranking],
        }
        return self._build_trace(laid, weights, items, facts)

    def _predictions(self, trace: Trace, probabilities: Any) -> list[Prediction]:
        """The answers that were chosen from; none where no attention looks from them."""
        if not any(one.query == LABEL_ITEMS for one in trace.weights):
            return []
        top = [(str(text), float(chance)) for text, chance in trace.facts["ranked"]]
        return [Prediction(top, *top[0], rank=0)]

    def _encode(self, question: Question) -> list[EncodedText]:
        """What is given with each answer, as the model reads them."""
        return encode_texts(self.tokenizer, self.format, pair_with_choices(question))

    def _choice_probabilities(self, questions: Sequence[Sequence[EncodedText]]) -> list[list[float]]:
        """How probable the answers of each question are; they are read together."""
        found: Float[Tensor, "answer 1"] = self._logits([one for ways in questions for one in ways])
        each = found[:, 0].float().div(self.temperature).cpu().split([len(ways) for ways in questions])
        return [scores.softmax(0).tolist() for scores in each]


def score_choices(name: str, task: str, side: LabelledDataset, found: LabelResults, temperature: float) -> Scores:
    """Accuracy beside chance, what probabilities are worth, and whether some places are preferred."""
    answers = [int(answer[0]) for answer in found.answers]
    truth = [int(label) for label in side.labels]
    right = [float(one == other) for one, other in zip(answers, truth, strict=True)]
    examples = [
        Judged(
            number + 1,
            words[0][:MAX_SHOWN_CHARACTERS],
            words[1 + truth[number]],
            words[1 + answers[number]],
            right[number],
        )
        for number, words in enumerate(side.texts)
    ]
    commonest = max(found.labels.labels, key=lambda label: label.count)
    calibrated = label_calibration(side, found, temperature)
    measures = {
        "chance": f"{1 / side.sequences_per_example:.2%}",
        "commonest place": f"{commonest.count / len(side):.2%} (answer {commonest.name})",
        "loss": f"{found.loss:.4f}",
        **describe_calibration(calibrated),
    }
    rows = [
        (one.name, f"{one.count:,}", f"{answers.count(place):,}", f"{one.precision:.1%}", f"{one.recall:.1%}")
        for place, one in enumerate(found.labels.labels)
    ]
    return Scores(
        name,
        task,
        {"accuracy, %": mean_statistics([100 * each for each in right])},
        examples,
        measures=measures,
        tables=[Table("By place", ("answer", "right", "chosen", "precision", "recall"), rows)],
        details={
            "loss": found.loss,
            "accuracy": found.labels.accuracy,
            "chance": 1 / side.sequences_per_example,
            "calibration": calibrated,
        },
        unit="question",
        counted="accuracy",
    )
