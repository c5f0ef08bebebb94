"""A question and its context as a model reads them: in overlapping windows, each with the question in front of it."""

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
from regard.tasks.labels.dataset import LabelledDataset
from regard.tasks.labels.input_format import EncodedText, InputFormat, build_format
from regard.tasks.labels.text_tokenizer import TextTokenizerConfig, empty_text_tokens

QUESTIONS_PER_BLOCK = 1024  # questions tokenised at a time
START, END = 1, 2  # marks of the first and the last token of an answer; of a lone one, both


@dataclass(frozen=True, kw_only=True)
class PassageConfig(TextTokenizerConfig):
    """How questions and contexts become tokens."""

    longest: ClassVar[int] = 1 << 20  # type: ignore[misc]
    """All of a context is read, window by window."""
    keep: ClassVar[str] = "begin"  # type: ignore[misc]


class Window(NamedTuple):
    """What is read at a time: a question and a part of its context."""

    laid: EncodedText
    begin: int
    """Where the part begins in it."""
    first: int
    """Which token of the context that is."""
    size: int
    """How many of its tokens are there."""
    none: int
    """The place that stands for no answer: BERT's first token, GPT's last, else the one before the context."""

    def holds(self, span: tuple[int, int]) -> bool:
        """Whether these tokens of the context, from the first to the last, are all in it."""
        return self.first <= span[0] and span[1] < self.first + self.size

    def marks(self, answer: tuple[int, int] | None) -> list[int]:
        """For every place whether an answer may stand there, begins there, ends there.

        One that is not wholly in the window is not in it at all.
        """
        marks = [IGNORE] * len(self.laid.tokens)
        marks[self.begin : self.begin + self.size] = [0] * self.size
        marks[self.none] = 0
        shift, places = self.begin - self.first, (self.none, self.none)
        if answer is not None and self.holds(answer):
            places = (answer[0] + shift, answer[1] + shift)
        for place, mark in zip(places, (START, END), strict=True):
            marks[place] |= mark
        return marks


class Passage(NamedTuple):
    """A question with its context as tokens, and the windows that all of them are in."""

    question: Question
    located: Located
    windows: list[Window]

    @property
    def answer(self) -> tuple[int, int] | None:
        """The first and the last token of the answer that is learnt; None where there is none."""
        wanted = self.question.wanted
        return self.located.covering(wanted.start, wanted.end) if wanted.text else None

    @property
    def lost(self) -> bool:
        """Whether its answer has no token, and so cannot be learnt."""
        return bool(self.question.wanted.text) and self.answer is None


@dataclass(frozen=True)
class PassageEncoder:
    """Questions and contexts to windows of tokens."""

    own: Tokenizer
    style: str
    window: int
    stride: int
    locator: Locator = field(init=False)
    form: InputFormat = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "locator", Locator(self.own))
        object.__setattr__(self, "form", build_format(self.own, self.style, pairs=True))

    def passages(self, questions: Iterable[Question]) -> Iterator[Passage]:
        """Each question with its windows, in their order."""
        every = iter(questions)
        while block := list(islice(every, QUESTIONS_PER_BLOCK)):
            contexts = list(dict.fromkeys(each.context for each in block))
            known = dict(zip(contexts, self.locator.locate(contexts), strict=True))
            for each, ids in zip(block, self.own.encode_many([each.question for each in block]), strict=True):
                located = known[each.context]
                yield Passage(each, located, self._windows(each, ids or empty_text_tokens(self.own), located.ids))

    def _windows(self, question: Question, ids: list[int], context: list[int]) -> list[Window]:
        room = self.window - self.form.around(2) - len(ids)
        shared = self.stride if len(context) > room else 0
        if room <= shared:
            raise ValueError(
                f"{question.place}: the question has {len(ids):,} tokens, so that a window of {self.window} has room "
                f"for {max(room, 0)} of the context, of which {shared} are also in the one before: "
                "raise data.window, lower data.stride, or shorten the question"
            )
        begin = len(self.form.before) + len(ids) + len(self.form.between)
        found = []
        for first, last in window_bounds(len(context), room, shared):
            laid = self.form.lay(ids, context[first:last] or empty_text_tokens(self.own), longest=self.window)
            none = {"bert": 0, "gpt": len(laid.tokens) - 1}.get(self.style, begin - 1)
            found.append(Window(laid, begin, first, last - first, none))
        return found


def window_bounds(count: int, room: int, shared: int) -> list[tuple[int, int]]:
    """So many tokens in parts of at most `room`, each of which begins with the last `shared` ones of the one before."""
    ends = range(min(room, count), count + room - shared, room - shared)
    return [(max(0, end - room), min(end, count)) for end in ends] or [(0, 0)]


@dataclass(frozen=True)
class WindowDataset(LabelledDataset):
    """Windows as tokens, the shortest first, with a mark for each."""

    owner: Int[np.ndarray, "window"] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The question that each is of."""
    named: Sequence[str] = ()
    """Where each question stands."""

    def place(self, number: int) -> str:
        """Where the question of a window stands."""
        return self.named[int(self.owner[number])]


def index_windows(passages: Iterable[Passage], own: Tokenizer, style: str) -> dict[str, Any]:
    """All windows of some passages in order of their length, as arrays; how long answers are, and what has none."""
    laid, marks, owner, named = list[EncodedText](), list[np.ndarray](), list[int](), list[str]()
    longest, lost = 1, list[str]()
    for passage in passages:
        if passage.lost:
            lost.append(passage.question.place)
            continue
        answer = passage.answer
        longest = max(longest, answer[1] - answer[0] + 1) if answer is not None else longest
        for window in passage.windows:
            laid.append(window.laid)
            marks.append(np.array(window.marks(answer), np.int8))
            owner.append(len(named))
        named.append(passage.question.place)
    if not laid:
        raise ValueError(f"{lost[0]}: no answer has tokens that this tokenizer knows: use another one")
    order = sorted(range(len(laid)), key=lambda number: len(laid[number].tokens))
    return {
        "tokens": np.concatenate([np.array(laid[number].tokens, np.int32) for number in order]),
        "starts": np.cumsum([0, *(len(laid[number].tokens) for number in order)]),
        "labels": np.concatenate([marks[number] for number in order]),
        "seconds": np.array([laid[number].second for number in order], np.int64) if style == "bert" else None,
        "owner": np.array([owner[number] for number in order], np.int64),
        "named": named,
        "longest": longest,
        "lost": lost,
    }
