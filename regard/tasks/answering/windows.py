"""Overlapping windows of a context, each combined with the question, as model inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int

from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.offsets import Located, Locator
from regard.metrics.likelihood import IGNORE
from regard.tasks.answering.questions import Question
from regard.tasks.text_encoders.dataset import TokenLabelledDataset
from regard.tasks.text_encoders.input_format import EncodedText, InputFormat, build_format
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig, empty_text_tokens

QUESTIONS_PER_BLOCK = 1024  # questions tokenised at a time
START, END = 1, 2  # marks of the first and last token of an answer; a single token has both


@dataclass(frozen=True, kw_only=True)
class PassageConfig(TextTokenizerConfig):
    """Settings of the tokenizer of questions and contexts."""

    max_length: ClassVar[int] = 1 << 20  # type: ignore[misc]
    """All of a context is read, window by window."""
    keep: ClassVar[str] = "begin"  # type: ignore[misc]


class Window(NamedTuple):
    """One model input: a question and a part of its context."""

    encoded: EncodedText
    context_start: int
    """Position of the first context token in the input."""
    first_token: int
    """Number of this token within the whole context."""
    size: int
    """Number of context tokens in the window."""
    no_answer_position: int
    """The position that represents no answer: the first in BERT, the last in GPT, else the one before the context."""

    def contains(self, span: tuple[int, int]) -> bool:
        """True if this span, given by its first and last context token, is entirely in the window."""
        return self.first_token <= span[0] and span[1] < self.first_token + self.size

    def answer_marks(self, answer: tuple[int, int] | None) -> list[int]:
        """Return a mark per position: not a candidate (ignored), candidate (0), start or end of the answer.

        An answer that is only partly in the window counts as no answer.
        """
        marks = [IGNORE] * len(self.encoded.tokens)
        marks[self.context_start : self.context_start + self.size] = [0] * self.size
        marks[self.no_answer_position] = 0
        offset, positions = self.context_start - self.first_token, (self.no_answer_position, self.no_answer_position)
        if answer is not None and self.contains(answer):
            positions = (answer[0] + offset, answer[1] + offset)
        for position, mark in zip(positions, (START, END), strict=True):
            marks[position] |= mark
        return marks


class Passage(NamedTuple):
    """A question with its tokenised context, and the windows that cover it."""

    question: Question
    located: Located
    windows: list[Window]

    @property
    def answer(self) -> tuple[int, int] | None:
        """The first and last token of the training answer, or None without an answer."""
        span = self.question.training_answer
        return self.located.covering(span.start, span.end) if span.text else None

    @property
    def has_lost_answer(self) -> bool:
        """True if the answer has no token, so that it cannot be trained on."""
        return bool(self.question.training_answer.text) and self.answer is None


@dataclass(frozen=True)
class PassageEncoder:
    """Encodes questions and their contexts as windows."""

    tokenizer: Tokenizer
    style: str
    window: int
    stride: int
    locator: Locator = field(init=False)
    format: InputFormat = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "locator", Locator(self.tokenizer))
        object.__setattr__(self, "format", build_format(self.tokenizer, self.style, pairs=True))

    def encode(self, questions: Iterable[Question]) -> Iterator[Passage]:
        """Yield each question with its windows, in the order of the questions."""
        remaining = iter(questions)
        while block := list(islice(remaining, QUESTIONS_PER_BLOCK)):
            contexts = list(dict.fromkeys(question.context for question in block))
            located_contexts = dict(zip(contexts, self.locator.locate(contexts), strict=True))
            token_ids = self.tokenizer.encode_many([question.question for question in block])
            for question, question_ids in zip(block, token_ids, strict=True):
                located = located_contexts[question.context]
                question_ids = question_ids or empty_text_tokens(self.tokenizer)
                yield Passage(question, located, self._windows(question, question_ids, located.ids))

    def _windows(self, question: Question, question_ids: list[int], context_ids: list[int]) -> list[Window]:
        room = self.window - self.format.num_special_tokens(2) - len(question_ids)
        shared = self.stride if len(context_ids) > room else 0
        if room <= shared:
            raise ValueError(
                f"{question.place}: the question has {len(question_ids):,} tokens, so that a window of {self.window} "
                f"has room for {max(room, 0)} of the context, of which {shared} are also in the one before: "
                "raise data.window, lower data.stride, or shorten the question"
            )
        context_start = len(self.format.before) + len(question_ids) + len(self.format.between)
        windows = []
        for first, last in window_bounds(len(context_ids), room, shared):
            part = context_ids[first:last] or empty_text_tokens(self.tokenizer)
            encoded = self.format.combine(question_ids, part, longest=self.window)
            no_answer_position = {"bert": 0, "gpt": len(encoded.tokens) - 1}.get(self.style, context_start - 1)
            windows.append(Window(encoded, context_start, first, last - first, no_answer_position))
        return windows


def window_bounds(count: int, room: int, shared: int) -> list[tuple[int, int]]:
    """Divide `count` tokens into windows of at most `room` tokens, each of which overlaps the previous by `shared`."""
    ends = range(min(room, count), count + room - shared, room - shared)
    return [(max(0, end - room), min(end, count)) for end in ends] or [(0, 0)]


@dataclass(frozen=True)
class WindowDataset(TokenLabelledDataset):
    """Tokenised windows, the shortest first, with a mark for each token."""

    question_numbers: Int[np.ndarray, "window"] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The question number of each window."""
    question_places: Sequence[str] = ()
    """The source of each question."""

    def place(self, number: int) -> str:
        """Return the source of a window's question."""
        return self.question_places[int(self.question_numbers[number])]


def index_windows(passages: Iterable[Passage], style: str) -> dict[str, Any]:
    """Return the windows of passages as arrays, the shortest first, and the questions whose answer has no token."""
    encoded, marks = list[EncodedText](), list[np.ndarray]()
    question_numbers, question_places = list[int](), list[str]()
    longest, lost = 1, list[str]()
    for passage in passages:
        if passage.has_lost_answer:
            lost.append(passage.question.place)
            continue
        answer = passage.answer
        longest = max(longest, answer[1] - answer[0] + 1) if answer is not None else longest
        for window in passage.windows:
            encoded.append(window.encoded)
            marks.append(np.array(window.answer_marks(answer), np.int8))
            question_numbers.append(len(question_places))
        question_places.append(passage.question.place)
    if not encoded:
        raise ValueError(f"{lost[0]}: no answer has tokens that this tokenizer knows: use another one")
    order = sorted(range(len(encoded)), key=lambda number: len(encoded[number].tokens))
    second_starts = np.array([encoded[number].second_start for number in order], np.int64)
    return {
        "tokens": np.concatenate([np.array(encoded[number].tokens, np.int32) for number in order]),
        "starts": np.cumsum([0, *(len(encoded[number].tokens) for number in order)]),
        "labels": np.concatenate([marks[number] for number in order]),
        "second_starts": second_starts if style == "bert" else None,
        "question_numbers": np.array([question_numbers[number] for number in order], np.int64),
        "question_places": question_places,
        "longest": longest,
        "lost": lost,
    }
