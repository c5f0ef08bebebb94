"""The passes over a parallel corpus: look at every line, train tokenizers, write shards; memory stays flat in all."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.holdout import Choice, Held, share
from regard.data.packing import buckets
from regard.data.readers import Corpus, pairs
from regard.data.shards import Writer
from regard.data.tally import Tally, said
from regard.data.tokenizers import EOS, Tokenizer, TokenizerConfig, train

BATCH = 4096  # pairs tokenised at a time
TEXTS, TALLIES = "texts.jsonl", "tallies.json"


@dataclass(frozen=True)
class Survey:
    """What one look at every line of the training corpora tells."""

    pairs: int
    """Good pairs."""
    characters: tuple[int, int]
    """Of either side."""
    held: Held
    """Pairs kept for validation; none if there is a validation corpus."""


def survey(train: Sequence[Corpus], valid: Sequence[Corpus], *, reject: float, most: int, part: float) -> Survey:
    """Check every line of every corpus and choose what to hold out; too many bad lines are an error."""
    choice = Choice(most)
    good = sources = targets = 0
    for number, corpus in enumerate(train):
        tally = Tally()
        for line, source, target in pairs(corpus, tally):
            good += 1
            sources += len(source)
            targets += len(target)
            if not valid:
                choice.offer(number, line, (source, target), corpus.tag)
        tally.check(reject, corpus.files)
    for corpus in valid:
        tally = Tally()
        deque(pairs(corpus, tally), maxlen=0)
        tally.check(reject, corpus.files)
    return Survey(good, (sources, targets), Held() if valid else choice.held(part))


def tokenizers(corpora: Sequence[Corpus], found: Survey, config: TokenizerConfig) -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer trained on the training texts; one and the same if joint."""
    tags = {corpus.tag for corpus in corpora if corpus.tag is not None}
    part = config.sample / found.pairs
    total = sum(found.characters)
    if config.joint:
        joint = train(_texts(corpora, found.held, part, (0, 1)), config, characters=total, tags=tags)
        return joint, joint
    source, target = (_texts(corpora, found.held, part, (side,)) for side in (0, 1))
    return (
        train(source, config, characters=found.characters[0], tags=tags),
        train(target, config, characters=found.characters[1]),
    )


def _texts(corpora: Sequence[Corpus], held: Held, part: float, sides: tuple[int, ...]) -> Iterator[str]:
    for number, corpus in enumerate(corpora):
        for line, *texts in pairs(corpus, Tally()):
            if (number, line) not in held.lines and (part >= 1 or share(*texts) < part):
                for side in sides:
                    yield texts[side]


class Split:
    """Training or validation pairs on their way into shards."""

    def __init__(
        self, place: Path, tokenizers: tuple[Tokenizer, Tokenizer], *, longest: int, cut: bool, texts: bool = False
    ) -> None:
        self.place, self.longest, self.cut = place, longest, cut
        self.source, self.target = tokenizers
        self.writer = Writer(place, (self.source.vocab, self.target.vocab))
        self.tallies: list[Tally] = []
        self._texts = place / TEXTS if texts else None
        self._tag: str | None = None
        self._waiting: list[tuple[int, str, str]] = []
        self._start: list[int] = []

    def begin(self, corpus: Corpus) -> Tally:
        """What follows is from this corpus; its tally."""
        self.flush()
        self.writer.begin()
        self._tag = corpus.tag
        self._start = [self.source.tag(corpus.tag)] if corpus.tag is not None else []
        self.tallies.append(Tally())
        return self.tallies[-1]

    def add(self, line: int, source: str, target: str) -> None:
        """One more pair."""
        self._waiting.append((line, source, target))
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Tokenise and write what is waiting."""
        if not self._waiting:
            return
        numbers, *texts = zip(*self._waiting, strict=True)
        self._waiting = []
        sources, targets = self.source.encode_many(texts[0]), self.target.encode_many(texts[1])
        tally, kept = self.tallies[-1], []
        for line, source, target in zip(numbers, sources, targets, strict=True):
            source, target = [*self._start, *source, EOS], [*target, EOS]
            if max(len(source), len(target)) > self.longest:
                if not self.cut:
                    tally.drop(f"longer than {self.longest} tokens", 0, line)
                    continue
                tally.cut.add(0, line)
                source, target = self._shortened(source), self._shortened(target)
            kept.append((source, target, line))
        if kept:
            self._write(*map(list, zip(*kept, strict=True)))
        if self._texts:
            assert self.cut, "texts and examples have the same numbers only where nothing is dropped"
            with self._texts.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps([*pair, self._tag]) + "\n" for pair in zip(*texts, strict=True))

    def finish(self, corpora: Sequence[Corpus]) -> None:
        """Write what is left and the index; an empty split is an error."""
        self.flush()
        if not self.writer.examples:
            reasons = [
                text for tally, corpus in zip(self.tallies, corpora, strict=True) for text in _why(tally, corpus)
            ]
            raise ValueError(
                f"no pair is left for {self.place.name}: {'; '.join(reasons) or 'the corpora are too small'}; "
                "give more pairs, name a validation corpus (data.valid) or raise data.longest"
            )
        self.writer.finish(buckets(self.longest))
        plain = [tally.plain() for tally in self.tallies]
        (self.place / TALLIES).write_text(json.dumps(plain), encoding="utf-8")

    def _shortened(self, ids: list[int]) -> list[int]:
        return ids if len(ids) <= self.longest else [*ids[: self.longest - 1], EOS]

    def _write(self, sources: list[list[int]], targets: list[list[int]], lines: list[int]) -> None:
        tally = self.tallies[-1]
        self.writer.add(sources, targets, lines)
        tally.kept += len(lines)
        tally.tokens = (tally.tokens[0] + sum(map(len, sources)), tally.tokens[1] + sum(map(len, targets)))


def _why(tally: Tally, corpus: Corpus) -> list[str]:
    return said({**tally.refused, **tally.dropped}, corpus.files)


def index(corpora: Sequence[Corpus], held: Held, train: Split, valid: Split | None) -> None:
    """Tokenise every pair into `train`, but the held-out ones into `valid` and those akin to them nowhere."""
    for number, corpus in enumerate(corpora):
        tally = train.begin(corpus)
        apart = valid.begin(corpus) if valid else Tally()
        for line, source, target in pairs(corpus, tally):
            if valid and (number, line) in held.lines:
                tally.drop("held out for validation", 0, line)
                apart.read += 1
                valid.add(line, source, target)
            elif held.touches(source, target):
                tally.drop("sharing a sentence with the validation set", 0, line)
            else:
                train.add(line, source, target)
