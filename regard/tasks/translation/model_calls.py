"""Calls of a translator's text steps to its model; this module imports neither a model nor torch.

A text step is a generator: it yields calls, is sent the model's answer to each, and returns its result. The driver
decides how the model is run: directly (`Translator.run`), or by requests to a shared engine
(`Translator.exchange_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from regard.data.tokenizers import Tokenizer
    from regard.tasks.translation.options import DecodingConfig

Result = TypeVar("Result")
Span = tuple[int, int]


@runtime_checkable
class Hypothesis(Protocol):
    """An answer of a search, in tokens."""

    @property
    def tokens(self) -> list[int]:
        """Return the tokens without the end token."""

    @property
    def score(self) -> float:
        """Return its log-probability under the model."""

    @property
    def finished(self) -> bool:
        """Return True if it ended before the length limit."""


OnFinished = Callable[[Iterable[int], Sequence[Sequence[Any]]], None]


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchCall:
    """Search for answers to sources; the result is a list of hypotheses for each."""

    sources: Sequence[list[int]]
    decoding: DecodingConfig | None
    """How to search; None for the likeliest token at each place."""
    seeds: Sequence[int] | None = None
    """What each answer is drawn from."""
    prefixes: Sequence[list[int]] | None = None
    """Tokens that each answer begins with."""
    limits: Sequence[int] | None = None
    """The most tokens of each answer, where the settings do not say."""
    on_finished: OnFinished | None = None
    """Takes answers with the numbers of their sources, maybe while others are searched for; else they are returned."""


@dataclass(frozen=True, eq=False)
class ScoreCall:
    """Score targets; the result is a `TargetScore` for each, or None if it is longer than the model's context."""

    sources: Sequence[list[int]]
    targets: Sequence[list[int]]
    """Without the end, which is scored too."""
    top: int = 0
    """How many of the likeliest tokens to name at each place."""


class TargetScore(NamedTuple):
    """The log-probabilities of the tokens of a target and its end, and of the likeliest tokens at their positions."""

    tokens: Sequence[float]
    choices: Sequence[Sequence[tuple[int, float]]]


@dataclass(frozen=True, eq=False)
class LinkCall:
    """Link the words of answers to those of their sources; the result is a list of (source word, answer word) for each.

    Pairs that are longer than the model's context have no links.
    """

    sources: Sequence[str]
    answers: Sequence[str]
    to: str | None


class CodedPair(NamedTuple):
    """A source and an answer: their tokens, and the word index of each token."""

    source_ids: list[int]
    source_words: list[int]
    answer_ids: list[int]
    answer_words: list[int]


def encode_pairs(
    source: Tokenizer,
    target: Tokenizer,
    sources: Sequence[str],
    answers: Sequence[str],
    *,
    source_spans: Sequence[Sequence[Span]] | None = None,
    answer_spans: Sequence[Sequence[Span]] | None = None,
) -> list[CodedPair]:
    """Encode sources and given answers, without tags and ends.

    The spans are those of the words of each, if they are known.
    """
    read = source.encode_words(sources, spans=source_spans)
    written = target.encode_words(answers, written=True, spans=answer_spans)
    return [CodedPair(*one, *other) for one, other in zip(read, written, strict=True)]


@dataclass(frozen=True, eq=False)
class LookCall:
    """Compute the attention weights between the words of answers and sources; the result is a list of `WordLooks`."""

    pairs: Sequence[CodedPair]
    to: str | None


@runtime_checkable
class WordLooks(Protocol):
    """Weights between the words of some pairs, possibly still being computed on a device."""

    def collect(self) -> Iterator[tuple[int, Float[np.ndarray, "word source_word"]]]:
        """Yield (number of the pair, its weights), as soon as the device has computed them."""


ModelCall = SearchCall | ScoreCall | LinkCall | LookCall
Steps = Generator[ModelCall, Any, Result]
