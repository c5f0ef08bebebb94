"""A trained model of question answering in use: the answer in a context, its place and its chances; where it looked."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.checkpoint import Checkpoint
from regard.config.ranges import Length
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
from regard.tasks.labels.input_format import EncodedText
from regard.tasks.labels.text_labeller import BATCH_TOKENS, LABEL_ITEMS, TextLabeller
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.trained import chosen, revived
from regard.training.task import Spread, alone

INPUT_REMEDY = 'write them with a tab between, or as {"question": "...", "context": "..."}'
NO_ANSWER = "(no answer)"
QUESTION_IN_CONTEXT = InputKind(
    "question-in-context",
    "a pair of a question and its context",
    "such pairs",
    lambda given: isinstance(given, Question) or PAIR.is_one(given),
    lambda given: True,  # one that is none is named with its number
    example="Where does Ann live?\tAnn lives in Rome.",
    schema=PAIR.schema,
)
GROUP_TOKENS = 8 * BATCH_TOKENS  # tokens of questions that are answered together


@dataclass(frozen=True, kw_only=True)
class AnsweringOptions:
    """What may be set when questions are answered."""

    answer: Length | None = None
    """Most tokens of an answer; null: as many as the longest one in training."""
    always: bool = False
    """Answer always, though no answer be likelier."""


@dataclass(frozen=True)
class Reply:
    """The answer to a question: a part of its context, from one character to the one before another; or none."""

    question: str
    answer: str | None
    start: int | None
    end: int | None
    probability: float
    no_answer: float
    """The probability that there is no answer."""

    def __str__(self) -> str:
        return f"{NO_ANSWER if self.answer is None else self.answer}\t{self.probability:.3f}"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        chances = {"probability": round(self.probability, 6), "no_answer": round(self.no_answer, 6)}
        where = {"answer": self.answer, "start": self.start, "end": self.end}
        return {"question": self.question, **where, **chances}


class Answerer(TextLabeller):
    """Finds the answer to a question in a text."""

    file = QuestionFile  # type: ignore[assignment]
    task: ClassVar[str] = "question-answering"
    verb: ClassVar[str] = "ask"
    kind: ClassVar[str] = "a model of question answering"
    input_kind: ClassVar[InputKind] = QUESTION_IN_CONTEXT
    Options: ClassVar[type] = AnsweringOptions
    pairs: ClassVar[bool] = True

    def __init__(self, model: Any, tokenizer: Tokenizer, data: dict[str, Any], name: str = "answerer") -> None:
        super().__init__(model, tokenizer, [], data, name)
        self.encoder = PassageEncoder(tokenizer, self.style, data["window"], data["stride"])

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Answerer:
        """The one a checkpoint directory holds."""
        known = checkpoint.config
        how = config.build(PassageConfig, read_text_settings(known["tokenizer"]), where="tokenizer")
        tokenizer = Tokenizer.parse(checkpoint.text("tokenizer.json"), how)
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        return cls(revived(checkpoint, device), tokenizer, known["data"], name)

    @property
    def inputs(self) -> Inputs:
        """Questions and their contexts, of a file all that it holds."""
        return Inputs(kind=self.input_kind, parse=self.parse, read=self.read)

    def parse(self, text: str) -> Question:
        """A question and its context with a tab between them, or an object of JSON."""
        return _parse_question(text, "the input")

    def read(self, path: Path) -> list[Question]:
        """The questions of a file: SQuAD's JSON, JSON lines, or a question and its context in each line."""
        name = str(path)
        if is_json(name) or suffix(name) == ".json":
            return read_questions([QuestionFile(path=name)], 0.0, told=False).questions
        if suffix(name) == ".csv" or (suffix(name) == ".tsv" and _has_heading(name)):
            return _read_table(name)
        every = enumerate(lines(name, longest=MAX_LINE_BYTES), start=1)
        found = [
            _parse_question(_decode_line(line, f"{name}:{n}"), f"{name}:{n}")
            for n, line in every
            if (line or b"").strip()
        ]
        if not found:
            raise ValueError(f"{name} is empty: give a file with at least one question")
        return found

    def answer(self, inputs: Sequence[Question], **options: Any) -> list[Reply]:
        """The answer to each question."""
        return self.ask(inputs, **options)

    def ask(self, questions: Any, **options: Any) -> list[Reply]:
        """The answer to each question, given as pairs of a question and its context."""
        listed = list_inputs(questions, QUESTION_IN_CONTEXT, verb=self.verb)
        every = [
            one if isinstance(one, Question) else _question_of_pair(one, f"question {n}")
            for n, one in enumerate(listed, 1)
        ]
        passages = list(self.encoder.encode(every))
        return [
            make_reply(passage, found)
            for passage, found in zip(passages, self.best_spans(passages, **options), strict=True)
        ]

    def best_spans(self, passages: Sequence[Passage], *, spread: Spread = alone, **options: Any) -> list[BestSpan]:
        """The likeliest answers, those to some questions by each of the processes."""
        how = chosen(self, options)
        most, always = how.answer or self.data["answer"], how.always

        def answered(group: list[int]) -> list[Any]:
            some = [passages[number] for number in group]
            return [
                best_span(told, one, most, always=always)
                for told, one in zip(self._window_logits(some), some, strict=True)
            ]

        sizes = [sum(len(window.encoded.tokens) for window in one.windows) for one in passages]
        found = answer_by_length(sizes, answered, budget=GROUP_TOKENS, spread=spread)
        return [BestSpan(None if span is None else (span[0], span[1]), *chances) for span, *chances in found]

    def evaluate(  # type: ignore[override]
        self,
        *paths: str | Path,
        name: str | None = None,
        answer: int | None = None,
        always: bool = False,
        first_occurrence: bool = False,
    ) -> Scores:
        """Exact match and F1 on files of questions; `always` for files in which every question has an answer.

        With `first_occurrence`, answers without answer_start that stand several times in their context are accepted.
        """
        check_files(self, paths, "questions about texts")
        named, setting = [QuestionFile(path=str(path)) for path in paths], "-s first_occurrence"
        read = read_questions(named, 0.0, first_occurrence=first_occurrence, setting=setting)
        found = read.questions
        passages = list(self.encoder.encode(found))
        every = self.best_spans(passages, answer=answer, always=always)
        answers = [make_reply(*each).answer or "" for each in zip(passages, every, strict=True)]
        scored = score_replies(name or self.name, self.task, found, answers, [one.loss for one in every])
        return replace(scored, notes=[*scored.notes, *(note for tally in read.reports for note in tally.notes)])

    def look(self, given: Question) -> Trace:
        """Answer a question and keep where the model looked, in the window that has the answer."""
        [passage] = self.encoder.encode([given])
        [found] = self.best_spans([passage])
        replied = make_reply(passage, found)
        window = passage.windows[self._find_answer_window(passage, found)]
        laid = window.encoded
        _, weights = self._watch_attention(laid)
        items = {"source": self._items(laid.tokens, []), LABEL_ITEMS: [Item(replied.answer or NO_ANSWER, word=0)]}
        facts = {
            "text": given.question,
            "answer": replied.answer or NO_ANSWER,
            "probability": round(replied.probability, 6),
            "no_answer": round(replied.no_answer, 6),
            "characters": [replied.start, replied.end],
        }
        return self._build_trace(laid, weights, items, facts)

    def _find_answer_window(self, passage: Passage, found: BestSpan) -> int:
        """The window that is surest of an answer; without one, the first."""
        if found.span is None:
            return 0
        first, last = found.span
        [told] = self._window_logits([passage])
        odds = list[float]()
        for window, said in zip(passage.windows, told, strict=True):
            one, other, inside = first - window.first_token, last - window.first_token, window.contains((first, last))
            odds.append(said.first[one] + said.last[other] - said.no_answer if inside else -math.inf)
        return max(range(len(odds)), key=odds.__getitem__)

    @torch.no_grad()
    def _window_logits(self, passages: Sequence[Passage]) -> list[list[WindowLogits]]:
        """What the model says of all windows; those of a length are read together, whichever questions they are of."""
        windows = [window for passage in passages for window in passage.windows]

        def answer(batch: list[int]) -> list[WindowLogits]:
            some = [windows[number] for number in batch]
            logits = self._probabilities([window.encoded for window in some])
            return [_context_logits(window, scores) for window, scores in zip(some, logits, strict=True)]

        every = iter(answer_by_length([len(window.encoded.tokens) for window in windows], answer, budget=BATCH_TOKENS))
        return [[next(every) for _ in passage.windows] for passage in passages]

    @torch.no_grad()
    def _probabilities(self, texts: Sequence[EncodedText]) -> list[Float[Tensor, "..."]]:
        """Logits of first and last at every token; a softmax is over tokens here."""
        return list(self._logits(texts).float().cpu().split([len(one.tokens) for one in texts]))

    def _predictions(self, trace: Trace, probabilities: Any) -> list[Any]:
        """There are no labels to choose from."""
        return []


def make_reply(passage: Passage, found: BestSpan) -> Reply:
    """An answer in the characters of its context."""
    question, context = passage.question.question, passage.question.context
    if found.span is None:
        return Reply(question, None, None, None, found.probability, found.no_answer)
    start, end = passage.located.characters(*found.span)
    return Reply(question, context[start:end], start, end, found.probability, found.no_answer)


def _context_logits(window: Window, scores: Float[Tensor, "token 2"]) -> WindowLogits:
    part = scores[window.context_start : window.context_start + window.size]
    return WindowLogits(part[:, 0].tolist(), part[:, 1].tolist(), float(scores[window.no_answer_position].sum()))


def _parse_question(text: str, place: str) -> Question:
    """A question and its context as somebody types them."""
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
    """True if the first line of a file names columns, between tabs, of questions and contexts."""
    first = (next(lines(name), b"") or b"").decode("utf-8", "replace")
    return {"question", "context"} <= {cell.strip().lower() for cell in first.split("\t")}


def _read_table(name: str) -> list[Question]:
    """The questions and contexts of a table, by the names of its columns or the only two that it has."""
    tally = LineReport()
    rows = list(read_rows(name, tally))
    tally.check(0.0, [name], unit="question")
    first = [cell.strip().lower() for cell in rows[0][1]] if rows else []
    headed = "question" in first and "context" in first
    if not headed and len(first) != 2:
        raise ValueError(f"{name} is a table of {len(first)} columns: call two of them question and context")
    places = (first.index("question"), first.index("context")) if headed else (0, 1)
    found = []
    for line, row in rows[headed:]:
        if not max(places) < len(row) <= len(first):
            raise ValueError(f"{name}:{line}: {describe_width(row, first)}")
        found.append(parse_question({"question": row[places[0]], "context": row[places[1]]}, f"{name}:{line}"))
    if not found:
        raise ValueError(f"{name} holds no question below its heading: give a file with at least one")
    return found


def _question_of_pair(given: Any, place: str) -> Question:
    try:
        question, context = given
    except (TypeError, ValueError):
        raise ValueError(f"{place}: give a pair of a question and its context, not {str(given)[:60]!r}") from None
    return parse_question({"question": question, "context": context}, place)


def _decode_line(line: bytes | None, place: str) -> str:
    try:
        return (line or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{place}: invalid UTF-8: convert the file first") from None
