"""A trained multiple-choice model in use."""

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
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.supervised.calibration import describe_calibration
from regard.tasks.text_encoders.dataset import LabelledDataset
from regard.tasks.text_encoders.examples import label_names, read_examples
from regard.tasks.text_encoders.input_format import EncodedText, encode_texts
from regard.tasks.text_encoders.trained_encoder import BATCH_TOKENS, LABEL_ITEMS
from regard.tasks.text_labels.choice_columns import ChoiceColumns
from regard.tasks.text_labels.choice_file import (
    QUESTION_REMEDY,
    ChoiceFile,
    Question,
    pair_with_choices,
    parse_question,
    read_questions,
    settings_for_file,
)
from regard.tasks.text_labels.evaluation import LabelResults, measure_labels
from regard.tasks.text_labels.preparation import build_dataset
from regard.tasks.text_labels.scoring import label_calibration
from regard.tasks.text_labels.text_labeller import TextLabeller
from regard.tasks.trained import resolve_options

MAX_SHOWN_CHARACTERS = 300  # characters of a text shown in a report


@dataclass(frozen=True)
class Choice:
    """A question, the chosen answer, and the probability of each answer."""

    given: str
    choices: tuple[str, ...]
    probabilities: tuple[float, ...]
    """Probability of each answer, in the order of the question."""

    @property
    def number(self) -> int:
        """Number of the chosen answer, from 1; ties go to the first."""
        return 1 + self.probabilities.index(max(self.probabilities))

    @property
    def answer(self) -> str:
        """The text of the chosen answer."""
        return self.choices[self.number - 1]

    @property
    def probability(self) -> float:
        """The probability of the chosen answer."""
        return max(self.probabilities)

    @property
    def ranking(self) -> list[tuple[str, float]]:
        """All answers, the most probable first."""
        return sorted(zip(self.choices, self.probabilities, strict=True), key=lambda answer: -answer[1])

    def __str__(self) -> str:
        return f"{self.answer}\t{self.probability:.3f}"

    def plain(self) -> dict[str, Any]:
        """Return the choice as JSON."""
        return {
            "given": self.given,
            "choices": list(self.choices),
            "answer": self.answer,
            "number": self.number,
            "probability": round(self.probability, 6),
            "probabilities": [round(probability, 6) for probability in self.probabilities],
        }


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Options of the explanation of an answer."""

    number: Count | None = None
    """The number of the answer, from 1; null: the one that is chosen."""


class Chooser(TextLabeller):
    """Chooses among the answers to a question."""

    file = ChoiceFile
    task: ClassVar[str] = "choice"
    verb: ClassVar[str] = "choose"
    kind: ClassVar[str] = "a model that chooses among answers"
    input_kind: ClassVar[InputKind] = QUESTION
    LookOptions: ClassVar[type] = AnswerOptions
    pairs: ClassVar[bool] = True

    @classmethod
    def pair_class(cls) -> Any:
        """Return this class, as questions with answers are its only input."""
        return cls

    @property
    def columns(self) -> ChoiceColumns:
        """The columns of the training files."""
        file = self.data["file"]
        return ChoiceColumns(tuple(file["given"]), tuple(file["choices"]), file["label"])

    @property
    def inputs(self) -> Inputs:
        """Questions with their answers; of a file, those in its columns."""
        return Inputs(kind=self.input_kind, parse=self.parse, read=self.read)

    def parse(self, text: str) -> Question:
        """Parse a question typed by a user."""
        return parse_question(text, self.columns)

    def read(self, path: Path) -> list[Question]:
        """Read the questions of a file."""
        return read_questions(path, self.columns)

    def answer(self, inputs: Sequence[Question], **options: Any) -> list[Choice]:
        """Choose an answer to each question."""
        resolve_options(self, options)
        return self.choose(inputs)

    @torch.no_grad()
    def choose(self, questions: Any) -> list[Choice]:
        """Choose the most probable answer to each question, a tuple of the question's text and at least two answers."""
        question_list: list[Question] = [
            tuple(question) for question in list_inputs(questions, QUESTION, verb=self.verb)
        ]
        for question in question_list:
            if len(question) < 3:
                raise ValueError(f"{question!r} has fewer than two answers to choose from: {QUESTION_REMEDY}")
        encoded_questions = [self._encode(question) for question in question_list]
        lengths = [sum(len(answer.tokens) for answer in answers) for answers in encoded_questions]

        def score_batch(batch: list[int]) -> list[list[float]]:
            return self._choice_probabilities([encoded_questions[number] for number in batch])

        probabilities = answer_by_length(lengths, score_batch, budget=BATCH_TOKENS)
        return [
            Choice(premise, tuple(answers), tuple(chances))
            for (premise, *answers), chances in zip(question_list, probabilities, strict=True)
        ]

    def evaluate(self, *paths: str | Path, name: str | None = None, **changes: Any) -> Scores:
        """Return scores on files of questions with their right answers; `changes` are settings of the files."""
        check_files(self, paths, "questions with choices")
        trained_settings = self.data["file"]
        settings = [{**settings_for_file(trained_settings, str(path)), **changes, "path": str(path)} for path in paths]
        question_files = [config.build(self.file, file_settings, where="file") for file_settings in settings]
        examples = read_examples(question_files, {}, reject=0.0)
        classes = label_names(examples)
        dataset = build_dataset(examples, self.tokenizer, classes, self.style)
        results = measure_labels(self.runner, dataset, classes, tokens=BATCH_TOKENS)
        return score_choices(name or self.name, self.task, dataset, results, self.temperature)

    def look(self, question: Question, *, number: int | None = None) -> Trace:
        """Answer a question and return the attention weights for the chosen answer, or for answer `number`, from 1."""
        [choice] = self.choose([question])
        number = choice.number if number is None else number
        if not 0 < number < len(question):
            raise ValueError(f"there is no answer {number}: choose 1 to {len(choice.choices)}")
        encoded = self._encode(question)[number - 1]
        _, weights = self._watch_attention(encoded)
        items = {"source": self._items(encoded.tokens, []), LABEL_ITEMS: [Item(question[number], word=0)]}
        facts = {
            "text": " | ".join(question),
            "answer": choice.answer,
            "probability": round(choice.probability, 6),
            "ranked": [[text, round(probability, 6)] for text, probability in choice.ranking],
        }
        return self._build_trace(encoded, weights, items, facts)

    def _rank_predictions(self, trace: Trace, outputs: Any) -> list[Prediction]:
        """Return all answers as predictions; none if no attention goes from the answer to the tokens."""
        if not any(attention.query == LABEL_ITEMS for attention in trace.weights):
            return []
        top = [(str(text), float(probability)) for text, probability in trace.facts["ranked"]]
        return [Prediction(top, *top[0], rank=0)]

    def count_tokens(self, item: Any) -> int | None:
        """Return the number of tokens of a question, which is read once with each answer."""
        return sum(len(encoded.tokens) for encoded in self._encode(item))

    def _encode(self, question: Question) -> list[EncodedText]:
        """Tokenise the question's text with each answer."""
        return encode_texts(self.tokenizer, self.format, pair_with_choices(question))

    def _choice_probabilities(self, questions: Sequence[Sequence[EncodedText]]) -> list[list[float]]:
        """Return the probabilities of the answers to one batch of questions."""
        logits: Float[Tensor, "answer 1"] = self._logits([answer for answers in questions for answer in answers])
        scores = logits[:, 0].float().div(self.temperature).cpu()
        return [part.softmax(0).tolist() for part in scores.split([len(answers) for answers in questions])]


def score_choices(name: str, task: str, dataset: LabelledDataset, results: LabelResults, temperature: float) -> Scores:
    """Return accuracy beside chance, calibration, and scores by position of the answer."""
    answers = [int(answer[0]) for answer in results.answers]
    truth = [int(label) for label in dataset.labels]
    is_right = [float(answer == label) for answer, label in zip(answers, truth, strict=True)]
    examples = [
        Judged(
            number + 1,
            texts[0][:MAX_SHOWN_CHARACTERS],
            texts[1 + truth[number]],
            texts[1 + answers[number]],
            is_right[number],
        )
        for number, texts in enumerate(dataset.texts)
    ]
    commonest_label = max(results.labels.labels, key=lambda label: label.count)
    calibration_errors = label_calibration(dataset, results, temperature)
    measures = {
        "chance": f"{1 / dataset.sequences_per_example:.2%}",
        "commonest place": f"{commonest_label.count / len(dataset):.2%} (answer {commonest_label.name})",
        "loss": f"{results.loss:.4f}",
        **describe_calibration(calibration_errors),
    }
    rows = [
        (
            label_scores.name,
            f"{label_scores.count:,}",
            f"{answers.count(index):,}",
            f"{label_scores.precision:.1%}",
            f"{label_scores.recall:.1%}",
        )
        for index, label_scores in enumerate(results.labels.labels)
    ]
    return Scores(
        name,
        task,
        {"accuracy, %": mean_statistics([100 * right for right in is_right])},
        examples,
        measures=measures,
        tables=[Table("By place", ("answer", "right", "chosen", "precision", "recall"), rows)],
        details={
            "loss": results.loss,
            "accuracy": results.labels.accuracy,
            "chance": 1 / dataset.sequences_per_example,
            "calibration": calibration_errors,
        },
        unit="question",
        counted="accuracy",
    )
