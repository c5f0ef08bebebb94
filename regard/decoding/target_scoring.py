"""Scoring of given targets for an engine: many pairs in one pass by teacher forcing, or token by token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isnan
from typing import Any

from torch import Tensor

from regard.decoding.lane import NOT_NUMBERS, Failure
from regard.decoding.request import Request, Score
from regard.decoding.stepper import Hypothesis, Watcher
from regard.decoding.teacher_forcing import TargetScorer, TargetScores, Teacher, check_tokens

Answers = list[Hypothesis] | Failure
MakeWatcher = Callable[[tuple[str, ...] | None], Watcher]


@dataclass(frozen=True)
class _Pair:
    """The source of a request, the tokens the decoder is fed, and the target tokens that are scored."""

    source: list[int]
    fed: list[int]
    labels: Sequence[int]


class PairScoring:
    """The queue of scoring requests for a model that reads sources and targets side by side."""

    def __init__(self, teacher: Teacher, make_watcher: MakeWatcher | None) -> None:
        self.teacher, self._make_watcher = teacher, make_watcher
        self.waiting: dict[int, Request] = {}

    def advance(self) -> dict[int, Answers]:
        """Score the requests that have waited longest, as many as fit one packed row."""
        group: dict[int, Request] = {}
        size = 0
        for ticket, request in self.waiting.items():
            if group and request.weights != next(iter(group.values())).weights:
                continue
            size += sum(max(len(pair.source), len(pair.fed)) for pair in _split_pairs(request))
            if group and size > self.teacher.budget:
                break
            group[ticket] = request
        for ticket in group:
            del self.waiting[ticket]
        refused = {ticket: reason for ticket in group if (reason := self._refuse(group[ticket])) is not None}
        fitting = {ticket: request for ticket, request in group.items() if ticket not in refused}
        return {**refused, **(self._score(fitting) if fitting else {})}

    def _refuse(self, request: Request) -> Failure | None:
        """Return why the model cannot read the answers of a request; None if it can."""
        pairs, room = _split_pairs(request), self.teacher.model.config.context
        longest = max(max(len(pair.source), len(pair.fed)) for pair in pairs)
        if longest > room:
            return Failure(f"{longest} tokens to read at once, the model knows {room} positions: score a shorter text")
        try:
            check_tokens([[pair.labels for pair in pairs]], len(self.teacher.model.prediction))
        except ValueError as reason:
            return Failure(str(reason))
        return None

    def _score(self, group: Mapping[int, Request]) -> dict[int, Answers]:
        """Score requests together, or one by one if that fails, so that only those that cannot be read fail."""
        try:
            return dict(zip(group, self._score_together(list(group.values())), strict=True))
        except Exception as reason:  # an error in the model ends that request only
            if len(group) == 1:
                return dict.fromkeys(group, Failure(str(reason)))
            return {ticket: self._score({ticket: request})[ticket] for ticket, request in group.items()}

    def _score_together(self, requests: Sequence[Request]) -> list[Answers]:
        pairs = [pair for request in requests for pair in _split_pairs(request)]
        tops = [_how(request).top for request in requests for _ in _how(request).targets]
        answers: list[Hypothesis | None] = [None] * len(pairs)
        for batch in self.teacher.batches([pair.source for pair in pairs], [pair.fed[1:] for pair in pairs]):
            for number, answer in zip(batch, self._read(pairs, tops, batch, requests[0]), strict=True):
                answers[number] = answer
        ends = [0]
        for request in requests:
            ends.append(ends[-1] + len(_how(request).targets))
        return [check_numbers(answers[begin:end]) for begin, end in pairwise(ends)]

    def _read(
        self, pairs: Sequence[_Pair], tops: Sequence[int], batch: Sequence[int], request: Request
    ) -> list[Hypothesis]:
        """Return the answers of one packed row, whose requests ask for the same attention weights as this one."""
        rows = [pairs[number] for number in batch]
        watcher = None
        if request.weights:
            assert self._make_watcher is not None
            watcher = self._make_watcher(request.attention_names)
        with nullcontext() if watcher is None else watcher.collect():
            features = self.teacher.read_pairs([pair.source for pair in rows], [pair.fed for pair in rows])
        weights = {} if watcher is None else watcher.split_examples()
        answers = []
        for place, (number, example_features) in enumerate(
            zip(batch, features.split([len(row.fed) for row in rows]), strict=True)
        ):
            labels = rows[place].labels
            scores = self.teacher.score_labels(example_features[-len(labels) :], labels, tops[number])
            looks = {name: examples[place] for name, examples in weights.items()} if request.weights else None
            answers.append(_make_answer(labels, scores, looks))
        return answers


class TargetScoring:
    """Scoring of the targets of one request by any model, one token at a time."""

    def __init__(
        self, model: Any, inputs: Sequence[Tensor], how: Score, make_watcher: Callable[[], Watcher] | None = None
    ) -> None:
        self.answers: Answers | None = None
        self._targets = how.targets
        self._watcher = None if make_watcher is None else make_watcher()
        with self._collect():
            model = model if self._watcher is None else self._watcher.model
            self._scorer = TargetScorer(model, inputs, [how.targets], top=how.top)
        self._finish()

    def advance(self) -> None:
        """Score the next token of every answer."""
        with self._collect():
            self._scorer.advance()
        self._finish()

    def peek(self) -> Answers:
        """Return an empty list: only whole targets have scores."""
        return []

    def _collect(self) -> Any:
        return nullcontext() if self._watcher is None else self._watcher.collect()

    def _finish(self) -> None:
        if self._scorer.done:
            [scores] = self._scorer.scores()
            self.answers = check_numbers([self._make_answer(beam, scores[beam]) for beam in range(len(scores))])

    def _make_answer(self, beam: int, scores: list[float]) -> Hypothesis:
        tokens = list(self._targets[beam])
        choices, path = tuple(self._scorer.choices(0, beam)), [beam] * (len(tokens) - 1)
        answer = Hypothesis(tokens, sum(scores), path, False, sum(scores), None, tuple(scores), choices)
        return answer if self._watcher is None else replace(answer, weights=self._watcher.weights(answer))


def check_numbers(answers: Sequence[Hypothesis | None]) -> Answers:
    """Return the answers of a request, or a failure if their scores are not numbers."""
    scored = [answer for answer in answers if answer is not None]
    return NOT_NUMBERS if any(isnan(answer.score) for answer in scored) else scored


def _how(request: Request) -> Score:
    assert isinstance(request.how, Score)
    return request.how


def _split_pairs(request: Request) -> list[_Pair]:
    """Return the pairs of a request's source and each of its targets."""
    source, length, prompt = request.inputs
    read, begin = source[: int(length)].tolist(), prompt.tolist()
    return [_Pair(read, [*begin, *target[:-1]], target) for target in _how(request).targets]


def _make_answer(labels: Sequence[int], scores: TargetScores, weights: Mapping[str, Tensor] | None) -> Hypothesis:
    tokens = scores.tokens.tolist()
    total = sum(tokens)
    return Hypothesis(list(labels), total, [], False, total, weights, tuple(tokens), tuple(scores.choices))
