"""A check of parallel corpora before training, which reads them exactly as training does."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import cache as caches
from regard.data.dedup import Keys, Marks, find_conflicts, find_repeats, key, origin, place
from regard.data.findings import Finding, Lengths
from regard.data.holdout import sentence
from regard.data.line_report import REMEMBERED, LineReport, places
from regard.data.readers import HEADING, Corpus
from regard.data.shards import SIDES
from regard.data.tokenizers import EXCERPT, Tokenizer, TokenizerConfig
from regard.tasks.translation import indexing
from regard.tasks.translation.findings import OVER, Report
from regard.tasks.translation.indexing import BATCH, WAITING, Survey, ratio
from regard.tasks.translation.pairs import PairsConfig
from regard.tasks.translation.sources import Sources

VALID = 1 << 63  # the bit that marks places of validation pairs


def check(config: PairsConfig, tokenizer: TokenizerConfig | None = None, *, cache: str | Path | None = None) -> Report:
    """Check every line of the corpora, and what training on them would leave out; memory use stays constant.

    With the settings of a tokenizer, one is trained (and cached, as in training) and lengths are also in tokens;
    otherwise pairs longer than `config.max_length` are not detected.
    """
    home = caches.cache_folder(cache)
    report = Report()
    sources = Sources.find(config.train, config.valid or (), config.rules)
    with ExitStack() as stack:
        watcher = _Watcher(sources, report, *(stack.enter_context(Keys(home, columns)) for columns in (3, 2)))
        try:
            survey = sources.survey(home, watcher.see)
        except ValueError as error:  # files of different lengths, or a damaged one
            report.problems.append(str(error))
            return report
        watcher.finish(survey)
    try:
        survey.check(sources.train, sources.valid)
        tokenizers = sources.tokenizers(tokenizer, home, lambda: survey) if tokenizer else None
        _sift_pairs(config, survey, tokenizers, report)
    except ValueError as error:
        report.problems.append(str(error))
    return report


class _Watcher:
    """A collector of the report from every good pair."""

    def __init__(self, sources: Sources, report: Report, pairs: Keys, sentences: Keys) -> None:
        self.sources, self.report = sources, report
        self.corpora = {"train": sources.train, "valid": sources.valid}
        self.lengths = {(side, unit): Lengths() for side in SIDES for unit in ("characters", "words")}
        self._pairs, self._sentences = pairs, sentences
        self._extreme: list[tuple[float, int, str]] = []

    def see(self, name: str, number: int, line: int, source: str, target: str) -> None:
        """Record a good pair."""
        corpus = self.corpora[name][number]
        if corpus.tag is not None:
            self.report.tags.setdefault(corpus.tag, dict.fromkeys(self.corpora, 0))[name] += 1
        here = place(number, line)
        if self.sources.valid:
            aside = VALID if name == "valid" else 0
            for text in (source, target):
                self._sentences.add(sentence(text), here | aside)
        if name == "train":
            self._learn(corpus, here, source, target)

    def _learn(self, corpus: Corpus, here: int, source: str, target: str) -> None:
        tag, at = corpus.tag or "", f"{corpus.files[0]}:{origin(here)[1]}"
        self._pairs.add(key(tag, source), key(tag, source, target), here)
        for side, text in zip(SIDES, (source, target), strict=True):
            self.lengths[side, "characters"].counts[len(text)] += 1
            self.lengths[side, "words"].counts[len(text.split())] += 1
        if source == target:
            self.report.copies.add(at)
        times = ratio(source, target)
        for bound in OVER:
            self.report.over[bound] += times > bound
        if times > OVER[0]:
            entry = (times, -here, at)  # the first of equal ratios stays
            (heapq.heappush if len(self._extreme) < REMEMBERED else heapq.heappushpop)(self._extreme, entry)

    def finish(self, survey: Survey) -> None:
        """Complete the report with what is only known at the end."""
        report = self.report
        report.extreme = [(times, at) for times, _, at in sorted(self._extreme, reverse=True)]
        for (side, unit), lengths in self.lengths.items():
            report.lengths.setdefault(side, {})[unit] = lengths
        for name, corpora in self.corpora.items():
            for corpus, tally in zip(corpora, survey.tallies[name], strict=True):
                report.corpora.append(_describe_corpus(name, corpus, tally))
        lines = {name: [tally.read for tally in tallies] for name, tallies in survey.tallies.items()}
        repeated = Marks(lines["train"])
        first: list[int] = []
        for rows in self._pairs.parts():
            repeated.add(rows[find_repeats(rows[:, 1]), 2])
            several = rows[find_conflicts(rows[:, 0], rows[:, 1]), 2]
            report.several.count += len(several)
            first = heapq.nsmallest(REMEMBERED, [*first, *several.tolist()])
        report.several.places = [_format_place(self.sources.train, *origin(packed_place)) for packed_place in first]
        report.repeated = _make_finding(repeated, self.sources.train)
        if self.sources.valid:
            shared = {name: Marks(lines[name]) for name in self.corpora}
            for rows in self._sentences.parts():
                valid = rows[:, 1] >= VALID
                common = np.intersect1d(rows[valid, 0], rows[~valid, 0])
                met = np.isin(rows[:, 0], common)
                shared["train"].add(rows[met & ~valid, 1])
                shared["valid"].add(rows[met & valid, 1] - np.uint64(VALID))
            report.overlap = {name: _make_finding(marks, self.corpora[name]) for name, marks in shared.items()}


def _describe_corpus(name: str, corpus: Corpus, tally: LineReport) -> dict[str, Any]:
    refused = {
        why: {"count": finding.count, "places": places(finding, corpus.files)} for why, finding in tally.refused.items()
    }
    headings = tally.dropped[HEADING].count if HEADING in tally.dropped else 0
    good = tally.read - headings - sum(finding.count for finding in tally.refused.values())
    return {
        "set": name,
        "files": list(corpus.files),
        "tag": corpus.tag,
        "read": tally.read,
        "good": good,
        "refused": refused,
    }


def _format_place(corpora: Sequence[Corpus], number: int, line: int) -> str:
    return f"{corpora[number].files[0]}:{line}"


def _make_finding(marks: Marks, corpora: Sequence[Corpus]) -> Finding:
    return Finding(len(marks), [_format_place(corpora, *position) for position in marks.first(REMEMBERED)])


def _sift_pairs(
    config: PairsConfig, survey: Survey, tokenizers: tuple[Tokenizer, Tokenizer] | None, report: Report
) -> None:
    """Record what training would use and leave out."""
    train, valid = (_Sieve(config, tokenizers, drop) for drop in (config.overlong == "drop", False))
    indexing.index(config.train, survey, train, None if config.valid else valid)
    indexing.measure(config.valid or (), valid)
    for sieve in (train, valid):
        sieve.flush()
    for corpus, tally in zip(config.train, train.tallies, strict=True):
        for reason, finding in tally.dropped.items():
            _extend_finding(report.dropped.setdefault(reason, Finding()), finding.count, places(finding, corpus.files))
        _extend_finding(report.cut, tally.cut.count, places(tally.cut, corpus.files))
    for side, lengths in zip(SIDES, train.lengths, strict=True) if tokenizers else ():
        report.lengths[side]["tokens"] = lengths
    sets = {"train": (train, config.train), "valid": (valid, config.valid or config.train)}
    for name, (sieve, corpora) in sets.items():
        if not sum(tally.kept for tally in sieve.tallies):
            raise indexing.no_pairs_error(name, sieve.tallies, corpora)
    report.kept = {name: sum(tally.kept for tally in sieve.tallies) for name, (sieve, _) in sets.items()}


def _extend_finding(finding: Finding, count: int, new_places: list[str]) -> None:
    finding.count += count
    finding.places += new_places[: REMEMBERED - len(finding.places)]


class _Sieve:
    """A counterpart of `Split` that only counts pairs."""

    def __init__(self, config: PairsConfig, tokenizers: tuple[Tokenizer, Tokenizer] | None, drop: bool) -> None:
        self.config, self.tokenizers, self.drop = config, tokenizers, drop
        self.tallies: list[LineReport] = []
        self.lengths = (Lengths(), Lengths())
        self._waiting: list[tuple[int, str, str]] = []
        self._characters = self._tag = 0

    def begin(self, corpus: Corpus) -> LineReport:
        """Start the next corpus, and return its line report."""
        self.flush()
        self._tag = int(corpus.tag is not None)
        self.tallies.append(LineReport())
        return self.tallies[-1]

    def add(self, line: int, source: str, target: str) -> None:
        """Add a pair."""
        if self.tokenizers is None:
            self.tallies[-1].kept += 1
            return
        self._waiting.append((line, source, target))
        self._characters += len(source) + len(target)
        if len(self._waiting) >= BATCH or self._characters >= WAITING:
            self.flush()

    def flush(self) -> None:
        """Count the tokens of the waiting pairs, including ends and tags."""
        if not self._waiting or self.tokenizers is None:
            return
        numbers, *texts = zip(*self._waiting, strict=True)
        self._waiting, self._characters = [], 0
        coded = [
            tokenizer.encode_many(side, most=self._most(tokenizer), written=number == 1)
            for number, (tokenizer, side) in enumerate(zip(self.tokenizers, texts, strict=True))
        ]
        tally = self.tallies[-1]
        for line, source, target in zip(numbers, *coded, strict=True):
            sizes = len(source) + self._tag + 1, len(target) + 1
            for lengths, size in zip(self.lengths, sizes, strict=True):
                lengths.counts[size] += 1
            if max(sizes) > self.config.max_length and self.drop:
                tally.drop(f"longer than {self.config.max_length} tokens", 0, line)
                continue
            if max(sizes) > self.config.max_length:
                tally.cut.add(0, line)
            tally.kept += 1

    def _most(self, tokenizer: Tokenizer) -> int:
        """Return a number of tokens that is surely too long; only the beginning of a huge text is examined."""
        return max(self.config.max_length, EXCERPT // tokenizer.reach)
