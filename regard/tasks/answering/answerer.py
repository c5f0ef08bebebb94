"""A trained question answering model in use."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.checkpoint import Checkpoint
from regard.config.former_python_names import FormerName
from regard.config.ranges import Length
from regard.data.column_names import CONTEXTS, QUESTIONS
from regard.data.columns import ColumnSample, Role, choose_columns
from regard.data.line_report import LineReport
from regard.data.normalise import read_text_settings
from regard.data.readers import lines, suffix
from regard.data.tables import describe_width, is_json, read_rows
from regard.data.tokenizers import Tokenizer
from regard.interpret.items import Item
from regard.interpret.trace import Trace
from regard.metrics.scores import Scores
from regard.tasks.answering.files import MAX_LINE_BYTES, QuestionFile, read_questions
from regard.tasks.answering.questions import Question, parse_question
from regard.tasks.answering.scoring import score_replies
from regard.tasks.answering.spans import BestSpan, WindowLogits, best_span
from regard.tasks.answering.windows import Passage, PassageConfig, PassageEncoder, Window
from regard.tasks.inputs import PAIR, InputKind, Inputs, check_files, list_inputs
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.text_encoders.trained_encoder import BATCH_TOKENS, LABEL_ITEMS, TrainedEncoder
from regard.tasks.trained import load_model, resolve_options
from regard.training.task import Spread, alone

INPUT_REMEDY = 'write them with a tab between, or as {"question": "...", "context": "..."}'
COLUMN_ROLES = [
    Role(name=name, usual=usual, required=False, setting="call two columns question and context")
    for name, usual in (("question", QUESTIONS), ("context", CONTEXTS))
]
NO_ANSWER = "(no answer)"
QUESTION_IN_CONTEXT = InputKind(
    "question-in-context",
    "a pair of a question and its context",
    "such pairs",
    lambda value: isinstance(value, Question) or PAIR.is_one(value),
    lambda value: True,  # a wrong one is reported with its number
    example="Where does Ann live?\tAnn lives in Rome.",
    schema=PAIR.schema,
)
GROUP_TOKENS = 8 * BATCH_TOKENS  # tokens of questions per group


@dataclass(frozen=True, kw_only=True)
class AnsweringOptions:
    """Options of answering questions."""

    answer: Length | None = None
    """Most tokens of an answer; null: as many as the longest one in training."""
    always: bool = False
    """Answer always, though no answer be likelier."""


@dataclass(frozen=True)
class Reply:
    """The answer to a question, with its first character in the context and the end after its last; or no answer."""

    question: str
    answer: str | None
    start: int | None
    end: int | None
    probability: float
    no_answer: float
    """The probability of no answer."""
    none = FormerName("no_answer")

    def __str__(self) -> str:
        return f"{NO_ANSWER if self.answer is None else self.answer}\t{self.probability:.3f}"

    def plain(self) -> dict[str, Any]:
        """Return the reply as JSON."""
        probabilities = {"probability": round(self.probability, 6), "no_answer": round(self.no_answer, 6)}
        span = {"answer": self.answer, "start": self.start, "end": self.end}
        return {"question": self.question, **span, **probabilities}


class Answerer(TrainedEncoder):
    """Finds the answer to a question in a text."""

    task: ClassVar[str] = "question-answering"
    verb: ClassVar[str] = "ask"
    kind: ClassVar[str] = "a model of question answering"
    input_kind: ClassVar[InputKind] = QUESTION_IN_CONTEXT
    Options: ClassVar[type] = AnsweringOptions
    pairs: ClassVar[bool] = True

    def __init__(self, model: Any, tokenizer: Tokenizer, data: dict[str, Any], name: str = "answerer") -> None:
        super().__init__(model, tokenizer, data, name)
        self.encoder = PassageEncoder(tokenizer, self.style, data["window"], data["stride"])

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Answerer:
        """Load the model of a checkpoint directory."""
        settings = checkpoint.config
        tokenizer_config = config.build(PassageConfig, read_text_settings(settings["tokenizer"]), where="tokenizer")
        tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"), tokenizer_config)
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best, so add the run's name
        return cls(load_model(checkpoint, device), tokenizer, settings["data"], name)

    @property
    def inputs(self) -> Inputs:
        """Questions with their contexts."""
        return Inputs(kind=self.input_kind, parse=self.parse, read=self.read)

    def parse(self, text: str) -> Question:
        """Parse a question and its context with a tab between them, or a JSON object."""
        return _parse_question(text, "the input")

    def read(self, path: Path) -> list[Question]:
        """Read the questions of a file: SQuAD's JSON, JSON lines, or lines with a question and its context."""
        name = str(path)
        if is_json(name) or suffix(name) == ".json":
            return read_questions([QuestionFile(path=name)], 0.0, with_answers=False).questions
        if suffix(name) == ".csv" or (suffix(name) == ".tsv" and _has_heading(name)):
            return _read_table(name)
        numbered_lines = enumerate(lines(name, longest=MAX_LINE_BYTES), start=1)
        questions = [
            _parse_question(_decode_line(line, f"{name}:{n}"), f"{name}:{n}")
            for n, line in numbered_lines
            if (line or b"").strip()
        ]
        if not questions:
            raise ValueError(f"{name} is empty: give a file with at least one question")
        return questions

    def answer(self, inputs: Sequence[Question], **options: Any) -> list[Reply]:
        """Answer questions."""
        return self.ask(inputs, **options)

    def ask(self, questions: Any, **options: Any) -> list[Reply]:
        """Answer questions, given as pairs of a question and its context."""
        question_list = list_inputs(questions, QUESTION_IN_CONTEXT, verb=self.verb)
        parsed_questions = [
            pair if isinstance(pair, Question) else _question_of_pair(pair, f"question {number}")
            for number, pair in enumerate(question_list, 1)
        ]
        passages = list(self.encoder.encode(parsed_questions))
        return [
            make_reply(passage, span)
            for passage, span in zip(passages, self.best_spans(passages, **options), strict=True)
        ]

    def best_spans(self, passages: Sequence[Passage], *, spread: Spread = alone, **options: Any) -> list[BestSpan]:
        """Return the most probable answers; questions are distributed over the processes."""
        answer_options = resolve_options(self, options)
        max_length, always = answer_options.answer or self.data["max_answer_length"], answer_options.always

        def answer_group(group: list[int]) -> list[Any]:
            group_passages = [passages[number] for number in group]
            return [
                best_span(window_logits, passage, max_length, always=always)
                for window_logits, passage in zip(self._window_logits(group_passages), group_passages, strict=True)
            ]

        sizes = [sum(len(window.encoded.tokens) for window in passage.windows) for passage in passages]
        best_answers = answer_by_length(sizes, answer_group, budget=GROUP_TOKENS, spread=spread)
        return [
            BestSpan(None if tokens is None else (tokens[0], tokens[1]), *probabilities)
            for tokens, *probabilities in best_answers
        ]

    def evaluate(
        self,
        *paths: str | Path,
        name: str | None = None,
        answer: int | None = None,
        always: bool = False,
        first_occurrence: bool = False,
    ) -> Scores:
        """Return exact match and F1 on files of questions; `always` for files in which every question has an answer.

        With `first_occurrence`, answers without answer_start that occur several times in their context are accepted.
        """
        check_files(self, paths, "questions about texts")
        question_files, setting = [QuestionFile(path=str(path)) for path in paths], "-s first_occurrence"
        question_set = read_questions(question_files, 0.0, first_occurrence=first_occurrence, setting=setting)
        questions = question_set.questions
        passages = list(self.encoder.encode(questions))
        spans = self.best_spans(passages, answer=answer, always=always)
        answers = [make_reply(passage, span).answer or "" for passage, span in zip(passages, spans, strict=True)]
        scores = score_replies(name or self.name, self.task, questions, answers, [span.loss for span in spans])
        return replace(
            scores, notes=[*scores.notes, *(note for report in question_set.reports for note in report.notes)]
        )

    def look(self, question: Question) -> Trace:
        """Answer a question and return the weights of all attentions in the window of the answer."""
        [passage] = self.encoder.encode([question])
        [best_answer] = self.best_spans([passage])
        reply = make_reply(passage, best_answer)
        window = passage.windows[self._find_answer_window(passage, best_answer)]
        encoded = window.encoded
        _, weights = self._watch_attention(encoded)
        items = {"source": self._items(encoded.tokens, []), LABEL_ITEMS: [Item(reply.answer or NO_ANSWER, word=0)]}
        facts = {
            "text": question.question,
            "answer": reply.answer or NO_ANSWER,
            "probability": round(reply.probability, 6),
            "no_answer": round(reply.no_answer, 6),
            "characters": [reply.start, reply.end],
        }
        return self._build_trace(encoded, weights, items, facts)

    def _find_answer_window(self, passage: Passage, best_answer: BestSpan) -> int:
        """Return the number of the window with the highest odds of the answer; the first if there is no answer."""
        if best_answer.span is None:
            return 0
        first, last = best_answer.span
        [logits_of_windows] = self._window_logits([passage])
        odds = list[float]()
        for window, logits in zip(passage.windows, logits_of_windows, strict=True):
            if window.contains((first, last)):
                scores = logits.first[first - window.first_token], logits.last[last - window.first_token]
                odds.append(sum(scores) - logits.no_answer)
            else:
                odds.append(-math.inf)
        return max(range(len(odds)), key=odds.__getitem__)

    def _window_logits(self, passages: Sequence[Passage]) -> list[list[WindowLogits]]:
        """Return the logits of all windows, which are batched by length across questions."""
        windows = [window for passage in passages for window in passage.windows]
        logits = self._compute_outputs([window.encoded for window in windows])
        logits_of_windows = map(_context_logits, windows, logits)
        return [[next(logits_of_windows) for _ in passage.windows] for passage in passages]


def make_reply(passage: Passage, best_answer: BestSpan) -> Reply:
    """Return a span of tokens as an answer with character positions."""
    question, context = passage.question.question, passage.question.context
    if best_answer.span is None:
        return Reply(question, None, None, None, best_answer.probability, best_answer.no_answer)
    start, end = passage.located.characters(*best_answer.span)
    return Reply(question, context[start:end], start, end, best_answer.probability, best_answer.no_answer)


def _context_logits(window: Window, logits: Float[Tensor, "token 2"]) -> WindowLogits:
    context_part = logits[window.context_start : window.context_start + window.size]
    return WindowLogits(
        context_part[:, 0].tolist(), context_part[:, 1].tolist(), float(logits[window.no_answer_position].sum())
    )


def _parse_question(text: str, place: str) -> Question:
    """Parse a question and its context typed by a user."""
    if text.lstrip().startswith("{"):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(f"{place}: invalid JSON, {text.strip()[:60]!r}: {INPUT_REMEDY}") from None
        return parse_question(record, place)
    question, tab, context = text.partition("\t")
    if not tab:
        raise ValueError(f"{place}: {text.strip()[:60]!r} is a question without its context: {INPUT_REMEDY}")
    return parse_question({"question": question, "context": context}, place)


def _has_heading(name: str) -> bool:
    """True if the first line of a file has tab-separated names of question and context columns."""
    first = (next(lines(name), b"") or b"").decode("utf-8", "replace")
    return len(choose_columns(ColumnSample(name, tuple(first.split("\t"))), COLUMN_ROLES).places) == 2


def _read_table(name: str) -> list[Question]:
    """Read the questions and contexts of a table, by the names of its columns or as its only two columns."""
    report = LineReport()
    rows = list(read_rows(name, report))
    report.check(0.0, [name], unit="question")
    heading = tuple(cell.strip() for cell in rows[0][1]) if rows else ()
    positions = (1, 2) if len(heading) == 2 else (None, None)
    roles = [replace(role, required=True, position=n) for role, n in zip(COLUMN_ROLES, positions, strict=True)]
    choice = choose_columns(ColumnSample(name, heading), roles)
    if choice.left_out:
        warnings.warn(f"{name}: {choice.describe()}", stacklevel=1)
    question, context = choice.places.values()
    questions = []
    for line, row in rows[choice.by_name :]:
        if not max(question, context) < len(row) <= len(heading):
            raise ValueError(f"{name}:{line}: {describe_width(row, heading)}")
        questions.append(parse_question({"question": row[question], "context": row[context]}, f"{name}:{line}"))
    if not questions:
        raise ValueError(f"{name} holds no question below its heading: give a file with at least one")
    return questions


def _question_of_pair(pair: Any, place: str) -> Question:
    try:
        question, context = pair
    except (TypeError, ValueError):
        raise ValueError(f"{place}: give a pair of a question and its context, not {str(pair)[:60]!r}") from None
    return parse_question({"question": question, "context": context}, place)


def _decode_line(line: bytes | None, place: str) -> str:
    try:
        return (line or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{place}: invalid UTF-8: convert the file first") from None
