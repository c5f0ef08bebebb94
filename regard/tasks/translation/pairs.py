"""Sentence pairs as packed rows: from files to datasets, and from a row number to tensors (collate)."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache as remembered
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.masks import Row
from regard.config.ranges import Batch, Count, Part, Range, Some
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data import cache as caches
from regard.data import languages, shards
from regard.data.line_report import LineReport
from regard.data.packing import buckets, pack
from regard.data.readers import Corpus
from regard.data.readers import pairs as pairs_of
from regard.data.tokenizers import Tokenizer, TokenizerConfig
from regard.metrics.likelihood import IGNORE
from regard.tasks.translation import indexing
from regard.tasks.translation.encoding import processes
from regard.tasks.translation.sources import Sources

GUESSED = 500  # pairs used to guess the language of a corpus
ROUND = 256  # sizes of rows fuller than planned are rounded up to multiples of it


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """The pairs to train a translator on, and how they are batched."""

    train: tuple[Corpus, ...]
    """Corpora to train on; a single one may be written without a list."""
    valid: tuple[Corpus, ...] | None = None
    """Validation corpora; null holds out some training pairs, none of whose sentences stays in training."""
    validation_size: Count = 1000
    """Most pairs held out when there is no validation corpus."""
    validation_share: Some = 0.02
    """Share of the pairs held out then, at least one."""
    batch_tokens: Warned[Batch] = 2048
    """Most tokens of a row on either side; a row is what is computed at once."""
    max_length: Annotated[int, Range(4, 2**20)] = 256
    """Most tokens of a text, its end and tag included."""
    overlong: Literal["drop", "cut"] = "drop"
    """What happens to longer training pairs; validation pairs are cut for the loss and kept whole for the score."""
    apart: Literal["both", "source"] = "both"
    """What of a held-out pair no training pair has: its source alone, where answers are few, or its target as well."""
    ratio: Annotated[float, Range(1)] | None = None
    """Leave out training pairs whose sides differ in length by more than this factor, in characters."""
    duplicates: Literal["keep", "drop"] = "keep"
    """What happens to repeated training pairs with the same tag; the first always stays."""
    reject: Free[Part] = 0.01
    """Share of unusable lines above which nothing is trained."""

    def __post_init__(self) -> None:
        if not self.train or self.valid == ():
            raise ValueError(f"{'valid' if self.train else 'train'} needs at least one corpus")
        if self.max_length > self.batch_tokens:
            raise ValueError(f"max_length must not exceed batch_tokens ({self.batch_tokens}), not {self.max_length}")
        if len({corpus.tag is None for corpus in (*self.train, *(self.valid or ()))}) > 1:
            raise ValueError("some corpora have a tag and some have none: tag all of them or none")

    @property
    def rules(self) -> indexing.Rules:
        """Return the rules by which pairs are left out before they are tokenised."""
        names = ("reject", "ratio", "duplicates", "apart")
        shared = {name: getattr(self, name) for name in names}
        return indexing.Rules(held=self.validation_size, held_share=self.validation_share, **shared)


@dataclass(frozen=True)
class PairBatch:
    """One packed row of pairs, with the layout of `Row` on each side."""

    source: Int[Tensor, "source"]
    source_row: Row
    target: Int[Tensor, "target"]
    """What the decoder reads: bos, then the translation."""
    target_row: Row
    labels: Int[Tensor, "target"]
    """What it should say: the translation, then eos; -100 on the tail."""
    examples: Int[Tensor, "pairs"]
    """Numbers of the pairs, to name their places."""

    def to(self, device: torch.device | str) -> PairBatch:
        """Return the batch on a device; the example numbers stay."""
        source, target, labels = (
            tensor.to(device, non_blocking=True) for tensor in (self.source, self.target, self.labels)
        )
        return PairBatch(source, self.source_row.to(device), target, self.target_row.to(device), labels, self.examples)


class Text(NamedTuple):
    """A validation pair as it was written."""

    source: str
    reference: str
    tag: str | None


class Pairs:
    """Tokenised pairs on disk; their row g is a pure function of (seed, g)."""

    def __init__(
        self,
        place: Path,
        corpora: Sequence[Corpus],
        digests: Sequence[Sequence[str]],
        tokenizers: tuple[Tokenizer, Tokenizer],
        *,
        tokens: int,
        seed: int,
        notes: Sequence[str] = (),
    ) -> None:
        self.place, self.corpora, self.tokens, self.seed = place, tuple(corpora), tokens, seed
        self.tokenizers = source, target = tokenizers
        self._begin, self._filler = target.opening, {"source": source.filler, "target": target.filler}
        self.digests = digests
        """SHA-256 of every file of every corpus."""
        self.notes = tuple(notes)
        self.shards = shards.Shards(place)
        weights = [corpus.weight for corpus in corpora]
        self.packing = pack(self.shards.cells, self.shards.bounds, weights=weights, tokens=tokens, seed=seed)
        self.fingerprint = self.shards.fingerprint
        """Of the examples, wherever their files lie; seed, tokens and weights decide their order."""

    def __len__(self) -> int:
        """Return the number of pairs, each counted once, whatever its weight."""
        return self.shards.examples

    @property
    def rows(self) -> int:
        """Return the number of rows per epoch."""
        return self.packing.rows

    def repack(self, tokens: int) -> Pairs:
        """Return the same pairs in rows of `tokens` tokens."""
        same = tokens == self.tokens
        if same:
            return self
        return Pairs(self.place, self.corpora, self.digests, self.tokenizers, tokens=tokens, seed=self.seed)

    def batch(self, row: int, *, fixed: bool = False) -> PairBatch:
        """Return the pairs of this row; rows count on across epochs.

        `fixed` pads every row to the token budget and to one number of segments, so that a compiled step fits all.
        """
        places, longest = self.packing.row(row)
        return self._pack_batch(self.shards.order[places], longest, fixed)

    def halves(self, batch: PairBatch, *, fixed: bool = False) -> list[PairBatch]:
        """Split a batch into two, or return it alone if it has only one pair."""
        examples = batch.examples.numpy()
        if len(examples) < 2:
            return [batch]
        middle = len(examples) // 2
        longest = batch.source_row.longest
        return [self._pack_batch(part, longest, fixed) for part in (examples[:middle], examples[middle:])]

    def _pack_batch(self, examples: Int[np.ndarray, "pairs"], longest: int, fixed: bool) -> PairBatch:
        source, source_row = self._side("source", examples, longest, fixed)
        labels, target_row = self._side("target", examples, longest, fixed)
        target = np.empty_like(labels)
        target[1:] = labels[:-1]
        target[target_row.offsets[: len(examples)].numpy()] = self._begin
        filled = int(target_row.offsets[len(examples)])
        target[filled:], labels[filled:] = self._filler["target"], IGNORE
        tensors = (torch.from_numpy(array) for array in (source, target, labels, examples))
        source_tokens, target_tokens, label_tokens, numbers = tensors
        return PairBatch(source_tokens, source_row, target_tokens, target_row, label_tokens, numbers)

    def places(self, examples: Sequence[int] | Int[Tensor, "pairs"] | Int[np.ndarray, "pairs"]) -> list[str]:
        """Return the places of these examples, as `train.fr:1042`."""
        origins = (self.shards.origin(int(example)) for example in examples)
        return [f"{self.corpora[corpus].files[0]}:{line}" for corpus, line in origins]

    def texts(self) -> list[Text]:
        """Return sources, references and tags of a validation set, uncut and in the order of its example numbers."""
        with (self.place / indexing.TEXTS).open(encoding="utf-8") as file:
            return [Text(*json.loads(line)) for line in file]

    @property
    def report(self) -> dict[str, Any]:
        """Return counts and first places of everything refused, left out or shortened, as JSON."""
        corpus_tallies = zip(self.tallies, self.corpora, self.digests, strict=True)
        corpora = [{**tally.report(corpus.files), "sha256": list(digests)} for tally, corpus, digests in corpus_tallies]
        return {"pairs": len(self), "fingerprint": self.fingerprint, "corpora": corpora}

    @property
    def summary(self) -> list[str]:
        """Return the report as lines of text."""
        corpus_tallies = zip(self.tallies, self.corpora, strict=True)
        return [*self.notes, *(line for tally, corpus in corpus_tallies for line in tally.lines(corpus.files))]

    @property
    def tallies(self) -> list[LineReport]:
        """Return the line report of each corpus."""
        return [
            LineReport.parse(plain) for plain in json.loads((self.place / indexing.TALLIES).read_text(encoding="utf-8"))
        ]

    def _side(
        self, side: str, examples: Int[np.ndarray, "pairs"], longest: int, fixed: bool
    ) -> tuple[Int[np.ndarray, "tokens"], Row]:
        tokens, lengths = self.shards.gather(side, examples)
        if not fixed:
            return tokens, Row.of(torch.from_numpy(lengths), longest=longest)
        full = len(tokens) > self.tokens  # rare enough to have a shape of its own
        size = -(-len(tokens) // ROUND) * ROUND if full else self.tokens
        shape = {"segments": self.packing.segments, "most": self.packing.most[longest]}
        row = Row.of(torch.from_numpy(lengths), longest=longest, size=size, **shape)
        return np.concatenate([tokens, np.full(size - len(tokens), self._filler[side])]), row


@dataclass(frozen=True)
class Prepared:
    """The data of a translation run: training and validation pairs, and tokenizers."""

    train: Pairs
    valid: Pairs
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    data: PairsConfig | None = None
    """The settings they were read with, tags that were guessed included."""
    notes: tuple[str, ...] = ()
    """What was guessed."""
    rows: int = 0
    """Tokens that a model to start from counts, of which its tokenizer may not know all."""

    @property
    def report(self) -> dict[str, Any]:
        """Return counts, refusals and fingerprints of both sets, as JSON."""
        vocab = {"source": self.source_tokenizer.vocab, "target": self.target_tokenizer.vocab}
        return {"train": self.train.report, "valid": self.valid.report, "vocab": vocab}

    @property
    def summary(self) -> list[str]:
        """Return the report as lines of text."""
        sizes = f"{quantity(len(self.train), 'pair')} to train on, {len(self.valid):,} held out"
        return [
            *self.notes,
            *self.train.summary,
            *self.valid.summary,
            f"{sizes}, {self.source_tokenizer.vocab:,} tokens",
        ]


def prepare(
    config: PairsConfig,
    tokenizer_config: TokenizerConfig,
    *,
    seed: int,
    cache: str | Path | None = None,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    opening: Literal["begin", "pad"] = "begin",
) -> Prepared:
    """Prepare training and validation pairs of these corpora, tokenised once and cached by content.

    Tokenizers are trained on the training texts unless those of a model are given; then `tokenizer_config` is ignored,
    and the language of corpora without a tag is guessed among those of the model. A target starts after the begin
    token, if the tokenizer has one, or after pad.
    """
    config, notes = (config, ()) if tokenizers is None else _with_tags(config, tokenizers[0])
    sources = Sources.find(config.train, config.valid or (), config.rules)
    home = caches.cache_folder(cache)

    @remembered
    def run_survey() -> indexing.Survey:
        survey = sources.survey(home)
        survey.check(sources.train, sources.valid)
        return survey

    if tokenizers is None:
        tokenizers = sources.tokenizers(tokenizer_config, home, run_survey)
    if opening == "pad":
        opened_tokenizers = [open_with_pad(tokenizer) for tokenizer in dict.fromkeys(tokenizers)]
        tokenizers = opened_tokenizers[0], opened_tokenizers[-1]
    _check_tags(config, tokenizers[0])

    def write_shards(place: Path) -> None:
        assert tokenizers is not None
        _write_shards(place, config, run_survey(), tokenizers)
        sources.check_unchanged()

    cutting = {"bounds": buckets(config.max_length), "overlong": config.overlong}
    made_with = [[tokenizer.how.normalise, tokenizer.json()] for tokenizer in tokenizers]
    recipe = caches.key(**sources.contents, **cutting, tokenizers=made_with)
    cached = caches.ensure_entry(home, f"pairs-{recipe}", write_shards)
    order: dict[str, Any] = {"tokens": config.batch_tokens, "seed": seed}
    rebuilt = (*sources.notes, *cached.notes)
    train = Pairs(cached.place / "train", config.train, sources.digests["train"], tokenizers, **order, notes=rebuilt)
    valid_corpora = [replace(corpus, weight=1.0) for corpus in config.valid or config.train]
    digests = sources.digests["valid" if config.valid else "train"]
    valid = Pairs(cached.place / "valid", valid_corpora, digests, tokenizers, **order)
    for pairs in (train, valid) if config.valid else (train,):
        for tally, corpus in zip(pairs.tallies, pairs.corpora, strict=True):
            tally.check(config.reject, corpus.files)  # an earlier run may have been less strict
    return Prepared(train, valid, *tokenizers, config, notes)


def open_with_pad(tokenizer: Tokenizer) -> Tokenizer:
    """Return the same tokenizer for a decoder that starts with pad, as a T5 does, even if it has a begin token."""
    padded = copy.copy(tokenizer)
    padded.begin = None
    return padded


def _check_tags(config: PairsConfig, tokenizer: Tokenizer) -> None:
    for corpus in (*config.train, *(config.valid or ())):
        if corpus.tag is not None:
            tokenizer.tag(corpus.tag)


def _with_tags(config: PairsConfig, tokenizer: Tokenizer) -> tuple[PairsConfig, tuple[str, ...]]:
    """Return the config with a language tag for each corpus, guessed from its translations if missing, and notes."""
    if not tokenizer.tags or config.train[0].tag is not None:
        return config, ()
    notes = []

    def add_tag(corpus: Corpus) -> Corpus:
        tag = _guess_language(corpus, list(tokenizer.tags))
        if len(tokenizer.tags) > 1:
            notes.append(f"{corpus.files[-1]}: translations into {tag}, guessed from the texts (--to chooses)")
        return replace(corpus, tag=tag)

    train = tuple(map(add_tag, config.train))
    valid = None if config.valid is None else tuple(map(add_tag, config.valid))
    return replace(config, train=train, valid=valid), tuple(dict.fromkeys(notes))


def _guess_language(corpus: Corpus, candidates: Sequence[str]) -> str:
    """Return the language of a corpus's translations, among those of a model."""
    texts = [target for _, _, target in islice(pairs_of(corpus, LineReport()), GUESSED)]
    tag = candidates[0] if len(candidates) == 1 else languages.guess("\n".join(texts), candidates)
    if tag is None:
        raise ValueError(
            f"{corpus.files[-1]}: the model translates into {', '.join(candidates)}, and which of them this is cannot "
            f"be guessed from the texts: give --to {candidates[0]}, or data.train.tag={candidates[0]}"
        )
    return tag


def _write_shards(
    place: Path, config: PairsConfig, survey: indexing.Survey, tokenizers: tuple[Tokenizer, Tokenizer]
) -> None:
    train = indexing.Split(
        place / "train",
        tokenizers,
        longest=config.max_length,
        cut=config.overlong == "cut",
        processes=processes(survey.pairs),
    )
    valid = indexing.Split(place / "valid", tokenizers, longest=config.max_length, cut=True, texts=True)
    try:
        if config.valid is None:
            indexing.index(config.train, survey, train, valid)
        else:
            indexing.index(config.train, survey, train, None)
            indexing.measure(config.valid, valid)
        train.finish(config.train)
        valid.finish(config.valid or config.train)
    finally:
        train.close()
        valid.close()
