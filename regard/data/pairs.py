"""Pairs of texts as packed rows, ready for a translator: from files to datasets, and from a row number to tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache as remembered
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import tokenizers as library
import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.masks import Row
from regard.data import indexing, shards
from regard.data.packing import buckets, pack
from regard.data.readers import Corpus, digest, locate
from regard.data.tally import Tally
from regard.data.tokenizers import BOS, PAD, Tokenizer, TokenizerConfig

IGNORE = -100  # the label of a token that is not learnt


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """What a translator learns from and how its batches are cut."""

    train: tuple[Corpus, ...]
    """Corpora to learn from; a single one may be written without a list."""
    valid: tuple[Corpus, ...] | None = None
    """Corpora to measure on; null holds out some training pairs, none of whose sentences stays in training."""
    held: int = 1000
    """Most pairs held out when there is no validation corpus."""
    held_share: float = 0.02
    """Share of the pairs held out then, at least one."""
    tokens: int = 2048
    """Most tokens of a row on either side; a row is what is computed at once."""
    longest: int = 256
    """Most tokens of a text, its end and tag included."""
    overlong: Literal["drop", "cut"] = "drop"
    """What happens to longer training pairs; validation pairs are cut for the loss and kept whole for the score."""
    reject: float = 0.01
    """Share of unusable lines above which nothing is trained."""

    def __post_init__(self) -> None:
        if not self.train or self.valid == ():
            raise ValueError(f"{'valid' if self.train else 'train'} needs at least one corpus")
        if not 4 <= self.longest <= self.tokens:
            raise ValueError(f"longest must lie between 4 and tokens ({self.tokens}), not {self.longest}")
        if not 0 <= self.reject <= 1:
            raise ValueError(f"reject is a share and must lie between 0 and 1, not {self.reject}")
        if self.held < 1 or not 0 < self.held_share < 1:
            raise ValueError(
                f"held must be at least 1 and held_share between 0 and 1, not {self.held} and {self.held_share}"
            )
        if len({corpus.tag is None for corpus in (*self.train, *(self.valid or ()))}) > 1:
            raise ValueError("some corpora have a tag and some have none: tag all of them or none")


@dataclass(frozen=True)
class PairBatch:
    """One packed row of pairs; row and tail as `Row` lays them out."""

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
        """The same batch elsewhere; the example numbers stay."""
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
    """Tokenised pairs on disk; row g of them is a pure function of (seed, g)."""

    def __init__(self, place: Path, corpora: Sequence[Corpus], *, tokens: int, seed: int) -> None:
        self.place, self.corpora, self.tokens, self.seed = place, tuple(corpora), tokens, seed
        self.shards = shards.Shards(place)
        weights = [corpus.weight for corpus in corpora]
        self.packing = pack(self.shards.cells, self.shards.bounds, weights=weights, tokens=tokens, seed=seed)
        self.fingerprint = shards.key(shards=[place.parent.name, place.name], weights=weights, tokens=tokens)

    def __len__(self) -> int:
        """Pairs, each counted once whatever its weight."""
        return self.shards.examples

    @property
    def rows(self) -> int:
        """Rows in an epoch."""
        return self.packing.rows

    def batch(self, row: int, *, fixed: bool = False) -> PairBatch:
        """The pairs of this row, counted on across epochs.

        `fixed` fills every row up to the token budget and to one number of segments, so that a compiled step fits all.
        """
        places, longest = self.packing.row(row)
        examples = self.shards.order[places]
        source, source_row = self._side("source", examples, longest, fixed)
        labels, target_row = self._side("target", examples, longest, fixed)
        target = np.empty_like(labels)
        target[1:] = labels[:-1]
        target[target_row.offsets[: len(examples)].numpy()] = BOS
        filled = int(target_row.offsets[len(examples)])
        target[filled:], labels[filled:] = PAD, IGNORE
        tensors = (torch.from_numpy(each) for each in (source, target, labels, examples))
        source_tokens, target_tokens, label_tokens, numbers = tensors
        return PairBatch(source_tokens, source_row, target_tokens, target_row, label_tokens, numbers)

    def places(self, examples: Sequence[int] | Int[Tensor, "pairs"] | Int[np.ndarray, "pairs"]) -> list[str]:
        """Where these examples come from, as `train.fr:1042`."""
        origins = (self.shards.origin(int(example)) for example in examples)
        return [f"{self.corpora[corpus].files[0]}:{line}" for corpus, line in origins]

    def texts(self) -> list[Text]:
        """Sources, references and tags of a validation set, whole and in the order of its example numbers."""
        with (self.place / indexing.TEXTS).open(encoding="utf-8") as file:
            return [Text(*json.loads(line)) for line in file]

    @property
    def report(self) -> dict[str, Any]:
        """Counts and first places of everything that was refused, left out or shortened, as JSON."""
        corpora = [tally.report(corpus.files) for tally, corpus in zip(self._tallies(), self.corpora, strict=True)]
        return {"pairs": len(self), "rows": self.rows, "fingerprint": self.fingerprint, "corpora": corpora}

    @property
    def summary(self) -> list[str]:
        """The report in words."""
        tallies = zip(self._tallies(), self.corpora, strict=True)
        return [line for tally, corpus in tallies for line in tally.lines(corpus.files)]

    def _tallies(self) -> list[Tally]:
        return [Tally.parse(plain) for plain in json.loads((self.place / indexing.TALLIES).read_text(encoding="utf-8"))]

    def _side(
        self, side: str, examples: Int[np.ndarray, "pairs"], longest: int, fixed: bool
    ) -> tuple[Int[np.ndarray, "tokens"], Row]:
        tokens, lengths = self.shards.gather(side, examples)
        if not fixed:
            return tokens, Row.of(lengths.tolist(), longest=longest)
        row = Row.of(lengths.tolist(), longest=longest, size=self.tokens, segments=self.packing.segments)
        return np.concatenate([tokens, np.full(self.tokens - len(tokens), PAD)]), row


@dataclass(frozen=True)
class Prepared:
    """Everything a translator needs of its data."""

    train: Pairs
    valid: Pairs
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def report(self) -> dict[str, Any]:
        """Counts, refusals and fingerprints of both sets, as JSON."""
        vocab = {"source": self.source_tokenizer.vocab, "target": self.target_tokenizer.vocab}
        return {"train": self.train.report, "valid": self.valid.report, "vocab": vocab}


def prepare(
    config: PairsConfig,
    tokenizer_config: TokenizerConfig,
    *,
    seed: int,
    cache: str | Path | None = None,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
) -> Prepared:
    """Training and validation pairs of these corpora, tokenised once and cached by content.

    Tokenizers are trained on the training texts unless those of a model are given, in which case
    `tokenizer_config` plays no part.
    """
    corpora = {"train": config.train, "valid": config.valid or ()}
    before = _stamps(corpora)
    contents = _contents(corpora, config)
    found = remembered(
        lambda: indexing.survey(
            config.train, corpora["valid"], reject=config.reject, most=config.held, part=config.held_share
        )
    )

    def train_tokenizers(place: Path) -> None:
        trained = indexing.tokenizers(config.train, found(), tokenizer_config)
        for side, tokenizer in zip(shards.SIDES, trained, strict=True):
            (place / f"{side}.json").write_text(tokenizer.json(), encoding="utf-8")
        _unchanged(corpora, before)

    def write_shards(place: Path) -> None:
        assert tokenizers is not None
        _write_shards(place, config, found(), tokenizers)
        _unchanged(corpora, before)

    home = shards.folder(cache)
    if tokenizers is None:
        recipe = shards.key(**contents, tokenizer=asdict(tokenizer_config), library=library.__version__)
        tokenizers = _parsed(shards.entry(home, f"tokenizers-{recipe}", train_tokenizers), tokenizer_config.joint)
    _check_tags(config, tokenizers[0])
    cutting = {"bounds": buckets(config.longest), "overlong": config.overlong}
    recipe = shards.key(**contents, **cutting, tokenizers=[tokenizer.json() for tokenizer in tokenizers])
    place = shards.entry(home, f"pairs-{recipe}", write_shards)
    train = Pairs(place / "train", config.train, tokens=config.tokens, seed=seed)
    measured = [replace(corpus, weight=1.0) for corpus in config.valid or config.train]
    valid = Pairs(place / "valid", measured, tokens=config.tokens, seed=seed)
    return Prepared(train, valid, *tokenizers)


def _contents(corpora: dict[str, tuple[Corpus, ...]], config: PairsConfig) -> dict[str, Any]:
    """What decides which texts are used: bytes of files and how they are read, never their names."""

    def described(corpus: Corpus) -> dict[str, Any]:
        digests = [digest(name) for name in corpus.files]
        read = {"form": corpus.form, "columns": corpus.columns, "fields": corpus.fields, "tag": corpus.tag}
        return {"files": digests, **read}

    held = None if config.valid else [config.held, config.held_share]
    sets = {name: [described(corpus) for corpus in group] for name, group in corpora.items()}
    return {**sets, "held": held, "reject": config.reject}


def _stamps(corpora: dict[str, tuple[Corpus, ...]]) -> dict[str, tuple[int, int]]:
    names = {name for group in corpora.values() for corpus in group for name in corpus.files}
    stats = {name: locate(name).stat() for name in names}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def _unchanged(corpora: dict[str, tuple[Corpus, ...]], before: dict[str, tuple[int, int]]) -> None:
    for name, stamp in _stamps(corpora).items():
        if stamp != before[name]:
            raise ValueError(f"{name} changed while it was read: start again once it is complete")


def _parsed(place: Path, joint: bool) -> tuple[Tokenizer, Tokenizer]:
    source = Tokenizer.parse((place / "source.json").read_text(encoding="utf-8"))
    return source, source if joint else Tokenizer.parse((place / "target.json").read_text(encoding="utf-8"))


def _check_tags(config: PairsConfig, tokenizer: Tokenizer) -> None:
    for corpus in (*config.train, *(config.valid or ())):
        if corpus.tag is not None:
            tokenizer.tag(corpus.tag)
        elif tokenizer.tags:
            known = ", ".join(tokenizer.tags)
            raise ValueError(f"{corpus.files[0]} has no tag but the tokenizer knows {known}: set tag in its corpus")


def _write_shards(
    place: Path, config: PairsConfig, found: indexing.Survey, tokenizers: tuple[Tokenizer, Tokenizer]
) -> None:
    train = indexing.Split(place / "train", tokenizers, longest=config.longest, cut=config.overlong == "cut")
    valid = indexing.Split(place / "valid", tokenizers, longest=config.longest, cut=True, texts=True)
    try:
        if config.valid is None:
            indexing.index(config.train, found.held, train, valid)
        else:
            indexing.index(config.train, found.held, train, None)
            indexing.index(config.valid, found.held, valid, None)
        train.finish(config.train)
        valid.finish(config.valid or config.train)
    finally:
        train.writer.close()
        valid.writer.close()
