"""Alternatives to a translation: other words at every position of an answer, and other whole answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.tasks.translation.model_calls import ScoreCall, SearchCall, Steps, TargetScore

if TYPE_CHECKING:
    from regard.tasks.translation.options import DecodingConfig
    from regard.tasks.translation.text_side import TextSide
    from regard.tasks.translation.translator import Translator

END = "(end)"
REST = 8  # maximum number of tokens to complete an alternative word


@dataclass(frozen=True)
class Choice:
    """An alternative word at a position, with the probability that the text continues with these letters.

    An empty text is the end of the answer.
    """

    text: str
    probability: float
    joined: bool = False
    """Whether it goes on with the word before instead of beginning one."""

    def __str__(self) -> str:
        return f"{'+' * self.joined}{self.text or END} {self.probability:.0%}"


@dataclass(frozen=True)
class Place:
    """A word of the answer, and its alternatives, the likeliest first."""

    text: str
    probability: float
    others: tuple[Choice, ...] = ()


@dataclass(frozen=True)
class Considered:
    """A sentence with its answer word by word, the end last, and the other whole answers."""

    source: str
    answer: str
    score: float
    places: tuple[Place, ...]
    others: tuple[tuple[str, float], ...] = ()
    """Other answers of the search and the logarithms of their probabilities."""

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return {**asdict(self), "others": [{"text": text, "score": score} for text, score in self.others]}

    def lines(self) -> list[tuple[str, str]]:
        """Return a two-column table: each word with its alternatives, then the whole answers with their scores.

        Answers that differ only in white space, as French ones do before a question mark, are shown once.
        """
        word_rows = [
            (f"{place.text or END} {place.probability:.0%}", ", ".join(map(str, place.others))) for place in self.places
        ]
        answer_rows: dict[str, tuple[str, str]] = {}
        for text, score in ((self.answer, self.score), *self.others):
            answer_rows.setdefault(" ".join(text.split()), (f"{score:.3f}", text))
        return [*word_rows, *answer_rows.values()]


def consider(translator: Translator, text: str, *, to: str | None = None, **settings: Any) -> list[Considered]:
    """Translate a text, and return the alternatives of every sentence.

    Settings are those of `consider_stepwise`.
    """
    return translator.run(consider_stepwise(translator, text, to=to, **settings))


def consider_stepwise(
    translator: TextSide,
    text: str,
    *,
    to: str | None = None,
    top: int = 5,
    nbest: int = 4,
    least: float = 0.01,
    **settings: Any,
) -> Steps[list[Considered]]:
    """Translate a text as `consider` does.

    Up to `top` other words of at least the probability `least` are shown at each position. Settings are those of
    `translate`.
    """
    if top < 1 or nbest < 1 or not 0 < least < 1:
        raise ValueError(
            f"{top} words of probability {least} and {nbest} answers: ask for at least 1, between 0 and 1, at least 1"
        )
    wanted = {"beams": max(nbest, translator.decoding.beams), **settings, "nbest": nbest, "sample": False}
    decoding = translator.settings(**wanted)
    to = translator.language([text], to)
    pieces = [piece.text for piece in translator.plan(text, decoding) if piece.text]
    sentences = []
    for piece in pieces:
        read = translator.encode(piece, to)
        sentences.append((yield from _consider_sentence(translator, piece, read, decoding, _Threshold(top, least))))
    return sentences


def _consider_sentence(
    translator: TextSide, text: str, read: list[int], decoding: DecodingConfig, ask: _Threshold
) -> Steps[Considered]:
    [[best, *rest]] = yield SearchCall(sources=[read], decoding=decoding)
    places = yield from _find_rivals(translator, read, best.tokens, ask)
    answers: dict[str, float] = {}
    for hypothesis in (best, *rest):  # the same text in other tokens counts once
        answers.setdefault(translator.target.decode(hypothesis.tokens), hypothesis.score)
    answer, *others = answers
    return Considered(text, answer, best.score, places, tuple((other, answers[other]) for other in others))


def _find_rivals(
    translator: TextSide, read: list[int], written: list[int], ask: _Threshold
) -> Steps[tuple[Place, ...]]:
    """Return the words of an answer with their alternatives: every likely other token, completed to a whole word."""
    spans = [*_word_spans(translator, written), (len(written), len(written) + 1)]
    [score] = yield ScoreCall([read], [written], top=ask.top + 1)
    end = translator.end
    branches = _find_branches(spans, [*written, end], score, ask)
    rivals: list[dict[tuple[str, bool], float]] = [{} for _ in spans]
    words = yield from _complete_words(translator, read, [branch for branch in branches if branch.tokens[-1] != end])
    ends = [(branch, ("", False, branch.chance)) for branch in branches if branch.tokens[-1] == end]
    for branch, (text, continues, chance) in (*words, *ends):
        rival_chances = rivals[branch.word]
        rival_chances[text, continues] = max(
            chance, rival_chances.get((text, continues), 0.0)
        )  # the same word in other tokens: the likelier
    places = []
    for (begin, end), word_rivals in zip(spans, rivals, strict=True):
        word = translator.target.decode(written[begin:end]).strip()
        word_rivals.pop((word, False), None)
        others = sorted(word_rivals.items(), key=lambda pair: -pair[1])[: ask.top]
        chance = math.exp(sum(score.tokens[begin:end]))
        places.append(
            Place(word, chance, tuple(Choice(text, chance, continues) for (text, continues), chance in others))
        )
    return tuple(places)


class _Threshold(NamedTuple):
    """The maximum number of alternatives, and their minimum probability."""

    top: int
    least: float


class _Branch(NamedTuple):
    """An alternative beginning of a word: the number of the word, its start, all tokens so far, and its probability."""

    word: int
    begin: int
    tokens: list[int]
    chance: float


def _find_branches(
    spans: Sequence[tuple[int, int]], written: Sequence[int], score: TargetScore, ask: _Threshold
) -> list[_Branch]:
    """Return all alternative beginnings of words that differ from the answer in one token and are probable enough."""
    branches = []
    for number, (begin, end) in enumerate(spans):
        before = 1.0
        for position in range(begin, end):
            for token, log_probability in score.choices[position]:
                chance = math.exp(log_probability)
                ends_early = token == written[-1] and position > begin  # that is an alternative at the next position
                if token != written[position] and before * chance >= ask.least and not ends_early:
                    branches.append(_Branch(number, begin, [*written[:position], token], before * chance))
            before *= math.exp(score.tokens[position])
    return branches


def _complete_words(
    translator: TextSide, read: list[int], branches: Sequence[_Branch]
) -> Steps[list[tuple[_Branch, tuple[str, bool, float]]]]:
    """Complete each branch greedily; return its word, whether it joins the previous one, and its probability."""
    if not branches:
        return []
    sources, prefixes = [read] * len(branches), [branch.tokens for branch in branches]
    limits = [min(len(prefix) + REST, translator.context - 1) for prefix in prefixes]
    completions = yield SearchCall(sources=sources, decoding=None, prefixes=prefixes, limits=limits)
    cut, joins = [], []
    for branch, [answer] in zip(branches, completions, strict=True):
        newest = len(branch.tokens) - 1
        start, end = next(span for span in _word_spans(translator, answer.tokens) if span[0] <= newest < span[1])
        cut.append(answer.tokens[:end])
        joins.append(start < branch.begin)
    scores = yield ScoreCall(sources, cut)
    words = [
        (
            translator.target.decode(tokens[branch.begin :]).strip(),
            continues,
            math.exp(sum(score.tokens[branch.begin : len(tokens)])),
        )
        for branch, tokens, continues, score in zip(branches, cut, joins, scores, strict=True)
    ]
    return list(zip(branches, words, strict=True))


def _word_spans(translator: TextSide, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Return the span of tokens of each word."""
    spans: list[tuple[int, int]] = []
    last: object = None
    for place, word in enumerate(translator.target.words(tokens)):
        if spans and word == last:
            spans[-1] = (spans[-1][0], place + 1)
        else:
            spans.append((place, place + 1))
        last = word
    return spans
