"""Pairs of matching texts: read from files, and split so that training and validation share no text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import UInt64

from regard.config.ranges import Batch, Count, Part, Some
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data.examples import Splits
from regard.data.holdout import count_to_hold_out, hold_out, text_keys
from regard.data.line_report import HELD, LineReport
from regard.data.readers import Corpus, digest
from regard.data.readers import pairs as pairs_of

SHARED = "sharing a text with a held-out one"


@dataclass(frozen=True, kw_only=True)
class MatchingData:
    """Settings of the pairs and batches."""

    train: tuple[Corpus, ...]
    """Pairs to train on: two files line by line, or two columns or fields of one; a single one needs no list."""
    valid: tuple[Corpus, ...] = ()
    """Validation pairs; none: some of the training pairs are held out, and none of their texts is trained on."""
    validation_size: Count = 1000
    """Most pairs held out when there are no validation pairs."""
    validation_share: Some = 0.1
    """Share of the pairs held out then."""
    batch_size: Warned[Batch] = 64
    """Pairs in a batch; the texts of its other pairs are the negatives of a text (in-batch negatives)."""
    reject: Free[Part] = 0.01
    """Share of unusable lines above which nothing is trained."""

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train needs at least one file")
        if self.batch_size < 2:
            raise ValueError("batch_size must be 2 pairs at least, since pairs are told from one another")
        for corpus in (*self.train, *self.valid):
            if corpus.tag is not None or corpus.weight != 1.0:
                raise ValueError("tag and weight are of no use for matching: leave them out")


@dataclass(frozen=True)
class Pairs:
    """Pairs of texts, with the source of each pair."""

    texts: list[tuple[str, str]]
    origins: list[tuple[int, int]]
    """Number of the file and line."""
    files: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, number: int) -> str:
        """Return the source of a pair, as file:line."""
        file, line = self.origins[number]
        return f"{self.files[file]}:{line}"

    def select(self, numbers: Sequence[int]) -> Pairs:
        """Return the pairs of these numbers."""
        return replace(self, texts=[self.texts[n] for n in numbers], origins=[self.origins[n] for n in numbers])

    @property
    def alike(self) -> UInt64[np.ndarray, "pair 2"]:
        """A hash of every text, equal for texts that differ only in case, blanks and punctuation."""
        return text_keys([text for pair in self.texts for text in pair]).reshape(-1, 2)


def read(corpora: Sequence[Corpus], reject: float) -> tuple[Pairs, list[LineReport]]:
    """Read all pairs of these files, with a report on the lines of each file."""
    texts, origins, tallies = list[tuple[str, str]](), list[tuple[int, int]](), list[LineReport]()
    for number, corpus in enumerate(corpora):
        tally = LineReport()
        for line, first, second in pairs_of(corpus, tally):
            texts.append((first, second))
            origins.append((number, line))
        tally.check(reject, corpus.files)
        tallies.append(tally)
    return Pairs(texts, origins, tuple(" and ".join(corpus.files) for corpus in corpora)), tallies


def split_pairs(data: MatchingData) -> Splits[Pairs, Pairs]:
    """Split into training and validation pairs; the choice depends on the first texts only."""
    pairs, tallies = read(data.train, data.reject)
    alike = pairs.alike
    if data.valid:
        valid, others = read(data.valid, data.reject)
        is_valid = np.zeros(len(pairs), bool)
    else:
        is_valid = hold_out(
            alike[:, 0], count_to_hold_out(data.validation_share, len(pairs), most=data.validation_size), by_group=True
        )
        valid, others = pairs.select(np.flatnonzero(is_valid).tolist()), []
    shares_text = np.isin(alike, valid.alike).any(axis=1) & ~is_valid
    training_numbers = np.flatnonzero(~is_valid & ~shares_text)
    for number in np.flatnonzero(is_valid | shares_text):
        file, line = pairs.origins[number]
        tallies[file].drop(HELD if is_valid[number] else SHARED, 0, line)
    for number in training_numbers:
        tallies[pairs.origins[number][0]].kept += 1
    if len(training_numbers) < 2:
        raise ValueError(
            f"{pairs.files[0]}: {len(training_numbers)} pairs to train on, two at least are needed: give more"
        )
    for tally in others:
        tally.kept = tally.read
    train = pairs.select(training_numbers.tolist())
    corpora = [*zip(data.train, tallies, strict=True), *zip(data.valid, others, strict=True)]
    summary = [line for corpus, tally in corpora for line in tally.lines(corpus.files)]
    summary.append(f"{quantity(len(train), 'pair')} to train on, {len(valid):,} held out")
    digests = [[digest(name) for name in corpus.files] for corpus in (*data.train, *data.valid)]
    report: dict[str, Any] = {"pairs": {"train": len(train), "valid": len(valid)}, "digests": digests}
    return Splits(train=train, valid=valid, report=report, summary=summary)
