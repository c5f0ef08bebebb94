"""Pairs of texts that belong together: read from files, some held out by content whose texts stay out of training."""

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
    """Where pairs come from, and how many are compared with one another."""

    train: tuple[Corpus, ...]
    """Pairs to train on: two files line by line, or two columns or fields of one; a single one needs no list."""
    valid: tuple[Corpus, ...] = ()
    """Validation pairs; none: some of the training pairs are held out, and none of their texts is trained on."""
    validation_size: Count = 1000
    """Most pairs held out when there are no validation pairs."""
    validation_share: Some = 0.1
    """Share of the pairs held out then."""
    batch_size: Warned[Batch] = 64
    """Pairs of a row: every text is told from those of the other pairs in it (in-batch negatives)."""
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
    """Texts in two columns, with the place of each pair."""

    texts: list[tuple[str, str]]
    origins: list[tuple[int, int]]
    """Number of the file and line."""
    files: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, number: int) -> str:
        """Where a pair stands, as file:line."""
        file, line = self.origins[number]
        return f"{self.files[file]}:{line}"

    def select(self, numbers: Sequence[int]) -> Pairs:
        """Some of them."""
        return replace(self, texts=[self.texts[n] for n in numbers], origins=[self.origins[n] for n in numbers])

    @property
    def alike(self) -> UInt64[np.ndarray, "pair 2"]:
        """A number for every text, the same for texts that differ in case, blanks and punctuation only."""
        return text_keys([text for pair in self.texts for text in pair]).reshape(-1, 2)


def read(corpora: Sequence[Corpus], reject: float) -> tuple[Pairs, list[LineReport]]:
    """All pairs of these files, and what became of their lines."""
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
    """Training and validation pairs; which are held out depends on their first texts alone."""
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
