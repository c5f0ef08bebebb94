"""The surprisal (negative log-likelihood) of texts under a language model: nats, perplexity, bits per byte."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from regard.metrics.likelihood import perplexity
from regard.metrics.scores import Scores
from regard.metrics.significance import mean_statistics


@dataclass(frozen=True)
class Surprisal:
    """The negative log-likelihood of a text in nats, and the size of the text in four units."""

    nats: float
    tokens: int
    characters: int
    words: int
    bytes: int = 0
    """Size of the text in UTF-8 bytes; 0 if unknown."""

    def __add__(self, other: Surprisal) -> Surprisal:
        return Surprisal(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def per_character(self) -> float:
        """Nats per character, line ends included."""
        return self.nats / max(self.characters, 1)

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte of UTF-8, the compressed size of the text under the model, independent of its tokens."""
        return self.nats / log(2) / max(self.bytes, 1)

    @property
    def perplexity(self) -> float:
        """Perplexity per word, line ends counting as words: exp of the nats per word."""
        return perplexity(self.nats, max(self.words, 1))

    def scores(self, name: str, task: str, spans: Sequence[tuple[float, int]]) -> Scores:
        """Return the scores of a model, with an interval from the nats and tokens of each span of the text."""
        measures = {
            "nats per character": f"{self.per_character:.4f}",
            "bits per byte": f"{self.bits_per_byte:.4f}",
            "perplexity per word": f"{self.perplexity:.4g}",
            "perplexity per token": f"{perplexity(self.nats, self.tokens):.4g}",
            "tokens": f"{self.tokens:,}",
            "characters": f"{self.characters:,}",
        }
        details = {
            "loss": self.loss,
            "nats_per_character": self.per_character,
            "bits_per_byte": self.bits_per_byte,
            "perplexity": self.perplexity,
        }
        loss = {
            "nats per token": mean_statistics([nats for nats, _ in spans], [count for _, count in spans], lower=True)
        }
        return Scores(name, task, loss, measures=measures, details=details, unit="span")


def total_surprisal(parts: Iterable[Surprisal]) -> Surprisal:
    """Return the surprisal of several texts together."""
    return sum(parts, start=Surprisal(0.0, 0, 0, 0))
