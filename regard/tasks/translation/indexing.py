"""The passes over a parallel corpus: survey every line, train tokenizers, write shards; memory use stays constant."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from regard.data.dedup import Keys, Marks, find_repeats, key, place
from regard.data.holdout import Choice, Held, share
from regard.data.line_report import HELD, LineReport, describe_reasons
from regard.data.packing import buckets
from regard.data.readers import Corpus, pairs
from regard.data.shards import Writer
from regard.data.tokenizers import Tokenizer, TokenizerConfig, default_vocab_size, train, units
from regard.data.tokenizers.units import UnitsConfig
from regard.tasks.translation.encoding import Batch, Encoder, Tokens

BATCH = 4096  # pairs tokenised at a time
WAITING = 1 << 20  # characters tokenised at a time, possibly of a single text
TEXTS, TALLIES = "texts.jsonl", "tallies.json"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules by which pairs are left out before they are tokenised."""

    reject: float
    held: int
    held_share: float
    ratio: float | None = None
    duplicates: Literal["keep", "drop"] = "keep"
    apart: Literal["both", "source"] = "both"

    def against(self, source: str, target: str) -> str | None:
        """Return why a pair is left out regardless of other pairs, or None."""
        if self.ratio is not None and ratio(source, target) > self.ratio:
            return f"over {self.ratio:g} times as long on one side"
        return None


def ratio(source: str, target: str) -> float:
    """Return the ratio of the longer to the shorter text, in characters."""
    shorter, longer = sorted((len(source), len(target)))
    return longer / shorter


@dataclass(frozen=True)
class Survey:
    """The result of one pass over every line of the corpora."""

    rules: Rules
    tallies: dict[str, list[LineReport]]
    """Of the training and the validation corpora."""
    pairs: int
    """Good training pairs that the rules leave."""
    characters: tuple[int, int]
    """Of either side of them."""
    held: Held
    """Pairs kept for validation; none if there is a validation corpus."""
    repeats: Marks | None
    """Pairs left out because they were there before; None if they stay."""

    def check(self, train: Sequence[Corpus], valid: Sequence[Corpus]) -> None:
        """Raise ValueError if too many lines are bad or no pair is left."""
        for name, corpora in (("train", train), ("valid", valid)):
            for tally, corpus in zip(self.tallies[name], corpora, strict=True):
                tally.check(self.rules.reject, corpus.files)
        if not self.pairs:
            raise no_pairs_error("train", self.tallies["train"], train, remedy="raise data.ratio")

    def against(self, corpus: int, line: int, source: str, target: str) -> str | None:
        """Return why a training pair is left out, or None."""
        if self.repeats is not None and self.repeats.has(corpus, line):
            return "repeating an earlier pair"
        return self.rules.against(source, target)


Watch = Callable[[str, int, int, str, str], None]  # train or valid, number of the corpus, line, source, target


def survey(
    train: Sequence[Corpus], valid: Sequence[Corpus], rules: Rules, *, scratch: Path, watch: Watch | None = None
) -> Survey:
    """Read every line of every corpus, apply the rules and choose what to hold out; `watch` sees each good pair."""
    choice = Choice(rules.held, targets=rules.apart == "both")
    good_count, characters = 0, [0, 0]
    tallies: dict[str, list[LineReport]] = {
        "train": [LineReport() for _ in train],
        "valid": [LineReport() for _ in valid],
    }
    with Keys(scratch, columns=4) as keys:
        for number, (corpus, tally) in enumerate(zip(train, tallies["train"], strict=True)):
            for line, source, target in _watch_pairs("train", number, corpus, tally, watch):
                if reason := rules.against(source, target):
                    tally.drop(reason, 0, line)
                    continue
                good_count += 1
                characters[0] += len(source)
                characters[1] += len(target)
                if rules.duplicates == "drop":
                    keys.add(key(corpus.tag or "", source, target), place(number, line), len(source), len(target))
                if not valid:
                    choice.offer(number, line, (source, target), corpus.tag)
        repeats = None
        if rules.duplicates == "drop":
            repeats = Marks([tally.read for tally in tallies["train"]])
            for rows in keys.parts():
                repeated_rows = rows[find_repeats(rows[:, 0])]
                repeats.add(repeated_rows[:, 1])
                good_count -= len(repeated_rows)
                characters = [total - int(repeated_rows[:, 2 + side].sum()) for side, total in enumerate(characters)]
    for number, (corpus, tally) in enumerate(zip(valid, tallies["valid"], strict=True)):
        deque(_watch_pairs("valid", number, corpus, tally, watch), maxlen=0)
    held_out = Held() if valid else choice.held(rules.held_share, of=good_count)
    return Survey(rules, tallies, good_count, (characters[0], characters[1]), held_out, repeats)


def _watch_pairs(
    name: str, number: int, corpus: Corpus, tally: LineReport, watch: Watch | None
) -> Iterator[tuple[int, str, str]]:
    for line, source, target in pairs(corpus, tally):
        if watch is not None:
            watch(name, number, line, source, target)
        yield line, source, target


def tokenizers(
    corpora: Sequence[Corpus], corpus_survey: Survey, config: TokenizerConfig
) -> tuple[Tokenizer, Tokenizer]:
    """Train the source and target tokenizer on the training texts; both are the same if joint."""
    tags = {corpus.tag for corpus in corpora if corpus.tag is not None}
    sample_share = config.sample / corpus_survey.pairs
    total = sum(corpus_survey.characters)
    if config.joint:
        joint = _train_tokenizer(
            _iterate_texts(corpora, corpus_survey, sample_share, (0, 1), config), config, characters=total, tags=tags
        )
        return joint, joint
    source, target = (_iterate_texts(corpora, corpus_survey, sample_share, (side,), config) for side in (0, 1))
    return (
        _train_tokenizer(source, config, characters=corpus_survey.characters[0], tags=tags),
        _train_tokenizer(
            target, replace(config, kind=config.target or config.kind), characters=corpus_survey.characters[1]
        ),
    )


def _train_tokenizer(
    texts: Iterable[str], config: TokenizerConfig, *, characters: int, tags: Iterable[str] = ()
) -> Tokenizer:
    """Train a tokenizer on these texts: of subwords, or of a closed vocabulary of words."""
    if config.spell:
        return train(texts, config, characters=characters, tags=tags)
    vocab, tag_names = default_vocab_size("words", characters), [f"<2{tag}>" for tag in sorted(tags)]
    closed = UnitsConfig(kind="words", vocab=config.vocab or vocab, min_frequency=config.min_frequency)
    return units.train(texts, closed, characters=characters, special=tag_names).with_text_config(config)


def _iterate_texts(
    corpora: Sequence[Corpus],
    corpus_survey: Survey,
    sample_share: float,
    sides: tuple[int, ...],
    config: TokenizerConfig,
) -> Iterator[str]:
    for number, corpus in enumerate(corpora):
        for line, *texts in pairs(corpus, LineReport()):
            if (number, line) in corpus_survey.held.lines or corpus_survey.against(number, line, *texts):
                continue
            if sample_share >= 1 or share(*texts) < sample_share:
                for side in sides:
                    yield config.normal(texts[side], written=side == 1)


@runtime_checkable
class Sink(Protocol):
    """A receiver of training or validation pairs."""

    def begin(self, corpus: Corpus) -> LineReport:
        """Start the next corpus, and return its line report."""

    def add(self, line: int, source: str, target: str) -> None:
        """Add a pair."""


class Split:
    """A writer of training or validation pairs to shards."""

    def __init__(
        self,
        place: Path,
        tokenizers: tuple[Tokenizer, Tokenizer],
        *,
        longest: int,
        cut: bool,
        texts: bool = False,
        processes: int = 1,
    ) -> None:
        self.place, self.longest, self.cut = place, longest, cut
        self.source, self.target = tokenizers
        self.encoder = Encoder(tokenizers, longest=longest, processes=processes)
        self.writer = Writer(place, (self.source.vocab, self.target.vocab))
        self.tallies: list[LineReport] = []
        self._texts = place / TEXTS if texts else None
        self._tag: str | None = None
        self._waiting: list[tuple[int, str, str]] = []
        self._characters = 0
        self._start: list[int] = []

    def begin(self, corpus: Corpus) -> LineReport:
        """Start the next corpus, and return its line report."""
        self.flush()
        self.writer.begin()
        self._tag = corpus.tag
        self._start = [self.source.tag(corpus.tag)] if corpus.tag is not None else []
        self.tallies.append(LineReport())
        return self.tallies[-1]

    def add(self, line: int, source: str, target: str) -> None:
        """Add a pair."""
        self._waiting.append((line, source, target))
        self._characters += len(source) + len(target)
        if len(self._waiting) >= BATCH or self._characters >= WAITING:
            self._encode()

    def flush(self) -> None:
        """Tokenise and write all waiting pairs."""
        self._encode()
        for batch, sides in self.encoder.rest():
            self._write(batch, *sides)

    def finish(self, corpora: Sequence[Corpus]) -> None:
        """Write the remaining pairs and the index; an empty split is an error."""
        self.flush()
        self.encoder.close()
        if not self.writer.examples:
            raise no_pairs_error(self.place.name, self.tallies, corpora)
        self.writer.finish(buckets(self.longest))
        plain = [tally.plain() for tally in self.tallies]
        (self.place / TALLIES).write_text(json.dumps(plain), encoding="utf-8")

    def close(self) -> None:
        """Stop writing; safe to call again."""
        self.encoder.close()
        self.writer.close()

    def _encode(self) -> None:
        if not self._waiting:
            return
        lines, *texts = zip(*self._waiting, strict=True)
        self._waiting, self._characters = [], 0
        for batch, sides in self.encoder.add(Batch(lines, (texts[0], texts[1]), self._start)):
            self._write(batch, *sides)

    def _write(self, batch: Batch, source: Tokens, target: Tokens) -> None:
        tally, lines = self.tallies[-1], np.array(batch.lines)
        over = np.maximum(source.lengths, target.lengths) > self.longest
        if over.any() and self.cut:
            for line in lines[over].tolist():
                tally.cut.add(0, line)
            source, target = source.cut(self.longest), target.cut(self.longest)
        elif over.any():
            for line in lines[over].tolist():
                tally.drop(f"longer than {self.longest} tokens", 0, line)
            source, target, lines = source.only(~over), target.only(~over), lines[~over]
        if len(lines):
            self.writer.add(source, target, lines=lines)
            tally.kept += len(lines)
            tally.tokens = (tally.tokens[0] + len(source.ids), tally.tokens[1] + len(target.ids))
        if self._texts:
            assert self.cut, "texts and examples have the same numbers only where nothing is dropped"
            with self._texts.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps([*pair, self._tag]) + "\n" for pair in zip(*batch.texts, strict=True))


def no_pairs_error(
    name: str,
    tallies: Sequence[LineReport],
    corpora: Sequence[Corpus],
    *,
    remedy: str = "give more pairs, name a validation corpus (data.valid) or raise data.max_length",
) -> ValueError:
    """Return the error for a set without any pair, with the reasons."""
    both = zip(tallies, corpora, strict=True)
    reasons = [
        text for tally, corpus in both for text in describe_reasons({**tally.refused, **tally.dropped}, corpus.files)
    ]
    return ValueError(f"no pair is left for {name}: {'; '.join(reasons) or 'the corpora are too small'}; {remedy}")


def index(corpora: Sequence[Corpus], corpus_survey: Survey, train: Sink, valid: Sink | None) -> None:
    """Write kept pairs to `train`, held-out ones to `valid`, and drop those that share a sentence with the latter."""
    for number, corpus in enumerate(corpora):
        tally = train.begin(corpus)
        valid_tally = valid.begin(corpus) if valid else LineReport()
        for line, source, target in pairs(corpus, tally):
            if reason := corpus_survey.against(number, line, source, target):
                tally.drop(reason, 0, line)
            elif valid and (number, line) in corpus_survey.held.lines:
                tally.drop(HELD, 0, line)
                valid_tally.read += 1
                valid.add(line, source, target)
            elif corpus_survey.held.touches(source, target):
                tally.drop("sharing a sentence with the validation set", 0, line)
            else:
                train.add(line, source, target)


def measure(corpora: Sequence[Corpus], valid: Sink) -> None:
    """Write every good pair of the validation corpora, without applying rules."""
    for corpus in corpora:
        for line, source, target in pairs(corpus, valid.begin(corpus)):
            valid.add(line, source, target)
