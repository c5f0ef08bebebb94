"""Characters, words and pieces of words compared: how many there are against how long a text becomes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from regard.config.words import quantity
from regard.data import testset
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import CLOSED, Kind, UnitsConfig
from regard.lab.demonstration import Measurement

KINDS: tuple[Kind, ...] = ("characters", "words", "bpe", "unigram")
SIZES = (500, 1000, 2000, 4000, 8000)
MIN_VOCABULARY = 300  # tokens that byte pairs need: the 256 bytes and some more
WORDS = ("grand", "grande", "grandement")
HELD = 0.1  # of the lines; which ones is decided by their letters


@dataclass(frozen=True)
class TokenizerResult:
    """One tokenization of a text, measured on held-out text."""

    kind: Kind
    vocab: int
    """Tokens of the vocabulary, special ones included."""
    per_line: float
    """Tokens of a line, on average."""
    per_token: float
    """Characters of a token, on average."""
    unknown: float
    """Share of the tokens that are unknown."""
    words: Mapping[str, tuple[str, ...]]
    """Some words, in pieces."""

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return asdict(self)


def read(name: str, *, column: int | None = None) -> list[str]:
    """Return the texts in the lines of a file, or in one of its tab-separated columns, without empty ones."""
    texts = []
    for number, line in testset.read_numbered_lines(name):
        cells = [line] if column is None else line.split("\t")
        if column is not None and len(cells) < column:
            raise ValueError(f"{name}:{number}: {quantity(len(cells), 'column')}, wanted column {column}")
        if text := cells[(column or 1) - 1].strip():
            texts.append(text)
    return texts


def hold_out(lines: Sequence[str], share: float = HELD) -> tuple[list[str], list[str]]:
    """Split lines into training and held-out lines; equal lines are on the same side."""
    sides: tuple[list[str], list[str]] = [], []
    for line in lines:
        place = int.from_bytes(hashlib.sha256(line.encode()).digest()[:8], "big") / 2**64
        sides[place < share].append(line)
    if not all(sides):
        raise ValueError(f"{len(lines)} lines are too few to hold some out: give more text, or another file by --held")
    return sides


def compare(
    train: Sequence[str], held_out: Sequence[str], *, sizes: Iterable[int] = SIZES, words: Sequence[str] = WORDS
) -> list[TokenizerResult]:
    """Measure characters, words and subwords at several vocabulary sizes, characters and words also in full."""
    characters = sum(map(len, train))
    results: list[TokenizerResult] = []
    for kind in KINDS:
        vocab_sizes: list[int | None] = [] if kind == "characters" else [*sizes]
        for size in [*vocab_sizes, *([None] if kind in CLOSED else [])]:
            tokenizer = units.train(train, UnitsConfig(kind=kind, vocab=size), characters=characters)
            result = measure(tokenizer, held_out, words)
            before = results[-1] if results else None
            if before is None or (before.kind, before.vocab) != (kind, result.vocab):  # the text has no more to give
                results.append(result)
    return results


def compare_with_shuffled(
    results: Sequence[TokenizerResult], train: Sequence[str], held_out: Sequence[str]
) -> Measurement:
    """Compare the smallest vocabulary of byte pairs with one of the same text with its letters in random order.

    Where no letters come together more often than by chance, pairs of them save little.
    """
    smallest = next(result for result in results if result.kind == "bpe")
    random = Random(0)
    sides = [["".join(random.sample(line, len(line))) for line in side] for side in (train, held_out)]
    config = UnitsConfig(kind="bpe", vocab=max(MIN_VOCABULARY, smallest.vocab))
    tokenizer = units.train(sides[0], config, characters=sum(map(len, sides[0])))
    shuffled = measure(tokenizer, sides[1], ())
    quantity = f"characters a token, of {smallest.vocab:,} byte pairs"
    return Measurement(quantity, "this text", smallest.per_token, "its letters shuffled", shuffled.per_token)


def measure(tokenizer: Tokenizer, held_out: Sequence[str], words: Sequence[str]) -> TokenizerResult:
    """Measure a tokenizer on held-out lines and on single words."""
    assert isinstance(tokenizer.how, UnitsConfig)
    lines = tokenizer.encode_many(held_out)
    tokens = sum(map(len, lines))
    if not tokens:
        raise ValueError("the held-out text is empty: give some lines to measure on")
    unknown = sum(token == tokenizer.unknown for line in lines for token in line)
    pieces = {word: tuple(tokenizer.pieces(ids)) for word, ids in zip(words, tokenizer.encode_many(words), strict=True)}
    if not tokenizer.closed:  # the blank in front of a word is part of its first piece
        pieces = {word: _bare(cut) for word, cut in pieces.items()}
    return TokenizerResult(
        tokenizer.how.kind,
        tokenizer.vocab,
        tokens / len(held_out),
        sum(map(len, held_out)) / tokens,
        unknown / tokens,
        pieces,
    )


def _bare(pieces: tuple[str, ...]) -> tuple[str, ...]:
    first, *rest = pieces or ("",)
    return (*([first.lstrip()] if first.strip() else []), *rest)
