"""What the text steps of a translator ask of its model; they import no model themselves, and no torch.

A text step is a generator: it yields calls, is sent what the model answers to each, and returns its own result. Whoever
drives it decides how the model is run: at once (`Translator.run`), or by requests to an engine that many share
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
        """What was written, without the end token."""

    @property
    def score(self) -> float:
        """Its log-probability under the model."""

    @property
    def finished(self) -> bool:
        """Whether it ended by itself."""


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
    """Score targets; the result is a `TargetScore` for each, or None if it is longer than the model reads."""

    sources: Sequence[list[int]]
    targets: Sequence[list[int]]
    """Without the end, which is scored too."""
    top: int = 0
    """How many of the likeliest tokens to name at each place."""


class TargetScore(NamedTuple):
    """The log-probabilities of the tokens of a target and of its end, and of the likeliest tokens in their places."""

    tokens: Sequence[float]
    choices: Sequence[Sequence[tuple[int, float]]]


@dataclass(frozen=True, eq=False)
class LinkCall:
    """Link the words of answers to those of their sources; the result is a list of (source word, answer word) for each.

    Nothing is linked in a pair that is longer than the model reads.
    """

    sources: Sequence[str]
    answers: Sequence[str]
    to: str | None


class CodedPair(NamedTuple):
    """A source and an answer to it: their tokens, and which word each token belongs to."""

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
    """Encode sources and answers that were written elsewhere, without tags and ends.

    The spans are those of the words of each, where they are known.
    """
    read = source.encode_words(sources, spans=source_spans)
    written = target.encode_words(answers, written=True, spans=answer_spans)
    return [CodedPair(*one, *other) for one, other in zip(read, written, strict=True)]


@dataclass(frozen=True, eq=False)
class LookCall:
    """Compute where the words of answers look among those of their sources; the result is a list of `WordLooks`."""

    pairs: Sequence[CodedPair]
    to: str | None


@runtime_checkable
class WordLooks(Protocol):
    """Weights between the words of some pairs, maybe still being computed by a device."""

    def collect(self) -> Iterator[tuple[int, Float[np.ndarray, "word source_word"]]]:
        """(number of the pair, its weights), as soon as the device has them."""


ModelCall = SearchCall | ScoreCall | LinkCall | LookCall
Steps = Generator[ModelCall, Any, Result]
