"""Labelled texts as packed rows: from files to tokens in the cache, and from a row number to tensors (collate)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Num
from torch import Tensor

from regard import config as settings
from regard.attention.masks import Row
from regard.data import cache as caches
from regard.data.examples import Splits
from regard.data.line_report import LineReport
from regard.data.packing import Cell, Packing, buckets, pack
from regard.data.readers import digest, suffix
from regard.data.tokenizers import Tokenizer
from regard.data.training_sample import warn_of_shared
from regard.metrics.likelihood import IGNORE
from regard.tasks.labels import files as labels
from regard.tasks.labels import formats, reading
from regard.tasks.labels.choices import readings, unordered
from regard.tasks.labels.files import ChoicesConfig, Found, LabelsConfig, RatingsConfig, TagsConfig
from regard.tasks.labels.formats import Format, Laid, Texts
from regard.tasks.labels.pairs import orders
from regard.tasks.labels.pieces import cut
from regard.tasks.labels.reading import ReadingConfig
from regard.tasks.labels.tagged import Example

AnyConfig = LabelsConfig | TagsConfig | RatingsConfig | ChoicesConfig
SHOWN = 5  # places named of many
SHARED = "texts measured on are also trained on"
BLOCK = 4096  # texts tokenised at a time
ROUND = 256  # what the size of a row that is fuller than planned is rounded up to
ARRAYS = ("tokens", "starts", "labels", "origins", "seconds")


@dataclass(frozen=True)
class LabelBatch:
    """One packed row of texts with their labels: one for each, or one for each token."""

    examples: Int[Tensor, "text"]
    """Numbers of the texts, to name their places."""
    tokens: Int[Tensor, "token"]
    row: Row
    labels: Num[Tensor, "label"]
    """Of every text or of every token; -100, or no number, on the tail and for texts that a fixed row has room for."""
    segments: Int[Tensor, "token"] | None = None
    """Of which text of a pair each token is, where the model is told."""
    choices: int = 0
    """How many sequences after one another are answers to choose from; 0 where each has labels of its own."""

    def to(self, device: torch.device | str) -> LabelBatch:
        """The same on a device; the numbers of the texts stay."""
        tokens, labels = (each.to(device, non_blocking=True) for each in (self.tokens, self.labels))
        segments = None if self.segments is None else self.segments.to(device, non_blocking=True)
        return LabelBatch(self.examples, tokens, self.row.to(device), labels, segments, self.choices)

    def read(self, model: Any) -> Tensor:
        """What a model says of it: logits for every sequence, for every token, or for the choices of every question."""
        found = model(self.tokens, self.row, *(() if self.segments is None else (self.segments,)))
        return found.reshape(-1, self.choices) if self.choices else found


@dataclass(frozen=True)
class Labelled:
    """Texts as tokens, the shortest first, with a label for each text or for each token."""

    tokens: Int[np.ndarray, "token"]
    starts: Int[np.ndarray, "bound"]
    labels: Num[np.ndarray, "label"]
    origins: Int[np.ndarray, "text 2"]
    """File and line of each text; one that was too long for one row stands here several times."""
    files: tuple[str, ...]
    per_token: bool
    """Whether each token has a label, if only that it is not judged."""
    written: np.ndarray | list[tuple[str, ...]]
    """The texts as they were written, or the bytes of a line of JSON for each."""
    filler: int = 0
    """The token that fills up a row."""
    seconds: Int[np.ndarray, "sequence"] | None = None
    """Where the second text of each pair begins, if the model is told which text a token is of."""
    ways: int = 1
    """Sequences that are read of each example, one after the other."""
    chosen: bool = False
    """Whether these are answers to choose from, of which the label is one."""

    def __len__(self) -> int:
        return (len(self.starts) - 1) // self.ways

    @cached_property
    def bounds(self) -> Int[np.ndarray, "bound"]:
        """Where the tokens of each example begin, and where the last one ends."""
        return self.starts[:: self.ways]

    @cached_property
    def lengths(self) -> Int[np.ndarray, "text"]:
        """Tokens of each text, of all that is read of it."""
        return np.diff(self.bounds)

    @cached_property
    def sizes(self) -> Int[np.ndarray, "text way"]:
        """Tokens of each sequence that is read of a text."""
        return np.diff(self.starts).reshape(-1, self.ways)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return int(self.sizes.max())

    @cached_property
    def words(self) -> list[tuple[str, ...]]:
        """Each text as it was written: as a whole, or word by word."""
        if isinstance(self.written, list):
            return self.written
        return [tuple(json.loads(line)) for line in self.written.tobytes().splitlines()]

    def packing(self, tokens: int, seed: int, *, padded: bool = False) -> Packing:
        """Which texts are in which row of at most so many tokens; `padded` counts each as its bucket's longest."""
        bounds = buckets(int(self.lengths[-1]))
        ends = np.searchsorted(self.lengths, bounds, side="right")
        sums = [np.concatenate([[0], np.cumsum(self.lengths.astype(float) ** power)]) for power in (1, 2)]
        cells: list[list[Cell | int]] = []
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            total, squares = ((float(of[last] - of[first]),) for of in sums)
            cells.append([int(last - first) if padded else Cell(int(last - first), total, squares)])
        return pack(cells, bounds, weights=[1.0], tokens=max(tokens, bounds[-1]), seed=seed)

    def batch(
        self, chosen: Int[np.ndarray, "text"], longest: int | None = None, *, fixed: Packing | None = None
    ) -> LabelBatch:
        """These texts in a row, none of them over `longest` tokens; `fixed` fills it up to the shape of all rows.

        Where several sequences are read of a text, the bound of each is that of the longest one there is: no token, not
        even of the tail, stands beyond the places that a model knows.
        """
        lengths = self.lengths[chosen]
        ends = np.cumsum(lengths)
        places = np.arange(int(ends[-1])) + np.repeat(self.bounds[chosen] - ends + lengths, lengths)
        tokens = self.tokens[places].astype(np.int64)
        marks = self.labels[places] if self.per_token else self.labels[chosen]
        marks = marks.astype(np.float32 if marks.dtype.kind == "f" else np.int64)
        sizes = self.sizes[chosen].ravel()
        segments = self._segments(chosen, sizes)
        shape: dict[str, int] = {}
        bound = None if longest is None else min(longest, self.longest)
        if fixed is not None:
            assert longest is not None, "a row of fixed shape needs a bound"
            over = len(tokens) > fixed.tokens  # so rare that it may have a shape of its own
            size = -(-len(tokens) // ROUND) * ROUND if over else fixed.tokens
            most = fixed.most[longest]
            more = (self.ways - 1) * (max(fixed.most.values()) + -(-size // self.longest))
            shape = {"size": size, "segments": fixed.segments + more, "most": most * self.ways}
            room = (size if self.per_token else most) - len(marks)
            tokens = np.concatenate([tokens, np.full(size - len(tokens), self.filler)])
            nothing = IGNORE if marks.dtype.kind == "i" else np.nan
            marks = np.concatenate([marks, np.full(room, nothing, marks.dtype)])
            segments = None if segments is None else np.pad(segments, (0, size - len(segments)))
        row = Row.of(torch.from_numpy(sizes), longest=bound, **shape)
        numbers, ids, labels = (torch.from_numpy(part) for part in (np.asarray(chosen, np.int64), tokens, marks))
        parts = None if segments is None else torch.from_numpy(segments)
        return LabelBatch(numbers, ids, row, labels, parts, self.ways if self.chosen else 0)

    def _segments(
        self, chosen: Int[np.ndarray, "text"], sizes: Int[np.ndarray, "sequence"]
    ) -> Int[np.ndarray, "token"] | None:
        """Of which text of its pair each token of these examples is."""
        if self.seconds is None:
            return None
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        seconds = self.seconds.reshape(-1, self.ways)[chosen].ravel()
        return (within >= np.repeat(seconds, sizes)).astype(np.int64)

    def halves(self, batch: LabelBatch) -> list[LabelBatch]:
        """The same texts as two batches; the batch itself when it has only one."""
        chosen, longest = batch.examples.numpy(), batch.row.longest
        half = len(chosen) // 2
        return [self.batch(some, longest) for some in (chosen[:half], chosen[half:])] if half else [batch]

    def truth(self, number: int) -> Num[np.ndarray, "label"]:
        """The label of a text, or those of its tokens."""
        first, last = (self.starts[number], self.starts[number + 1]) if self.per_token else (number, number + 1)
        return self.labels[first:last]

    def counts(self, classes: int) -> Int[np.ndarray, "class"]:
        """How often each label occurs."""
        return np.bincount(self.labels[self.labels != IGNORE], minlength=classes)

    def place(self, number: int) -> str:
        """Where a text stands, as file:line."""
        file, line = self.origins[number].tolist()
        return f"{self.files[file]}:{line}"


@dataclass(frozen=True, kw_only=True)
class Prepared(Splits[Labelled, Labelled]):
    """Texts as tokens, and the tokenizer."""

    tokenizer: Tokenizer
    pairs: bool = False
    """Whether every text is a pair of texts."""


def prepare(
    config: AnyConfig,
    how: ReadingConfig,
    known: Tokenizer | None = None,
    told: list[str] | None = None,
    *,
    style: str = "plain",
    cache: str | Path | None = None,
) -> Prepared:
    """Texts of these files as tokens, read once and cached by content.

    Tokens that are `known` are used as they are, and labels that are `told` if there are no others in the files;
    `style` is that of the model, which wants some tokens around texts.
    """
    digests = {name: [digest(file.path) for file in getattr(config, name)] for name in ("train", "valid")}
    contents = {
        "labels": 6,
        "files": {
            name: list(zip(map(_like, getattr(config, name)), one, strict=True)) for name, one in digests.items()
        },
        "rules": [config.names, config.held, config.reject],
        "how": settings.plain(how),
        "known": None if known is None else [settings.plain(known.how), known.json()],
        "told": told,
        "style": style,
    }
    kept = caches.cached_arrays(
        "labels", contents, lambda builder: _write(builder, config, how, known, told, style), cache=cache
    )
    facts = kept.facts
    own = Tokenizer.parse(facts["tokenizer"], settings.build(ReadingConfig, facts["how"], where="tokenizer"))
    sides = {name: _opened(kept, config, name, own.filler, style) for name in ("train", "valid")}
    classes, held = facts["classes"], "named" if config.valid else config.held
    found = {name: _read_before(config, name, facts) for name in facts["tallies"]}
    report: dict[str, Any] = {name: _report(each, digests[name], held) for name, each in found.items()}
    report |= {"vocab": own.vocab, "labels": classes, "texts": {name: len(side) for name, side in sides.items()}}
    report["tokens"] = {name: int(side.lengths.sum()) for name, side in sides.items()}
    measured, (both, places) = config.valid or config.train, facts["both"]
    summary = [
        *kept.notes,
        *(line for each in found.values() for line in each.summary),
        *warn_of_shared(both, [f"{measured[file].path}:{line}" for file, line in places], SHARED),
    ]
    unit, kinds = ("questions", "choices") if sides["train"].chosen else ("texts", "labels")
    summary.append(
        f"{len(sides['train']):,} {unit} to train on, {len(sides['valid']):,} held out, "
        f"{f'{len(classes)} {kinds}, ' if classes else ''}{own.vocab:,} tokens"
    )
    return Prepared(
        train=sides["train"],
        valid=sides["valid"],
        classes=classes,
        report=report,
        summary=summary,
        fresh=known is None,
        tokenizer=own,
        pairs=facts["pairs"],
    )


def _write(
    builder: caches.Builder,
    config: AnyConfig,
    how: ReadingConfig,
    known: Tokenizer | None,
    told: list[str] | None,
    style: str,
) -> None:
    """Read and tokenise the files, and leave everything that training needs in the cache."""
    found = labels.read(config.train, config.names, config.reject)
    if config.valid:
        train, valid = found, labels.read(config.valid, config.names, config.reject)
    else:
        train, valid = labels.hold(found, config.held)
    own, classes = known or learnt(train, how), labels.classes(found, told)
    own = formats.fitted(own, style, pairs=found.pairs)
    same = unordered if found.choices else tuple
    met = {same(example.words) for example in train.examples}
    both = [example.place for example in valid.examples if same(example.words) in met]
    for name, side in (("train", train), ("valid", valid)):
        indexed = index(side, own, classes, style)
        for array in ARRAYS:
            part = getattr(indexed, array)
            builder.add(f"{name}-{array}", np.zeros(0, np.int64) if part is None else part)
        lines = (json.dumps(words, ensure_ascii=False) + "\n" for words in indexed.words)
        builder.add(f"{name}-written", np.frombuffer("".join(lines).encode(), np.uint8))
    sets = {"train": found, **({"valid": valid} if config.valid else {})}
    builder.facts |= {
        "classes": classes,
        "how": settings.plain(own.how),
        "tokenizer": own.json(),
        "tallies": {name: [tally.plain() for tally in each.tallies] for name, each in sets.items()},
        "notes": {name: each.notes for name, each in sets.items()},
        "pairs": found.pairs,
        "ways": indexed.ways,
        "both": [len(both), both[:SHOWN]],
    }


def _read_before(config: AnyConfig, name: str, facts: Mapping[str, Any]) -> Found:
    """What became of the lines of some files when they were read, without their examples."""
    paths = tuple(file.path for file in getattr(config, name))
    tallies = [LineReport.parse(tally) for tally in facts["tallies"][name]]
    return Found(paths, [], tallies, isinstance(config, TagsConfig), tuple(facts["notes"][name]))


def _opened(kept: caches.Arrays, config: AnyConfig, name: str, filler: int, style: str) -> Labelled:
    arrays: dict[str, Any] = {array: kept[f"{name}-{array}"] for array in (*ARRAYS, "written")}
    arrays |= {} if kept.facts["pairs"] and style == "bert" else {"seconds": None}
    paths = tuple(file.path for file in (config.valid if name == "valid" and config.valid else config.train))
    arrays |= {"per_token": isinstance(config, TagsConfig), "chosen": isinstance(config, ChoicesConfig)}
    return Labelled(**arrays, files=paths, filler=filler, ways=kept.facts["ways"])


def _like(file: Any) -> dict[str, Any]:
    """What decides how a file is read, but for where it lies."""
    return {**settings.plain(file), "path": suffix(file.path)}


def index(found: Found, own: Tokenizer, classes: Sequence[str], style: str = "plain") -> Labelled:
    """Examples as tokens, in order of their length."""
    numbers = labels.numbered(found, classes)
    form = formats.of(own, style, pairs=found.pairs)
    both = found.rated and style == "gpt"  # which sees the second text from the first in one order only
    read = readings if found.choices else orders if both else lambda words: [words]
    parts = _pieces(found, numbers, own, form) if found.per_token else _whole(found, numbers, own, form, read)
    pieces = sorted(parts, key=lambda piece: sum(len(one.tokens) for one in piece[0]))
    ways, marks, examples = zip(*pieces, strict=True)
    laid = [one for some in ways for one in some]
    return Labelled(
        np.concatenate([np.array(one.tokens, np.int32) for one in laid]),
        np.cumsum([0, *(len(one.tokens) for one in laid)]),
        np.concatenate([np.array(mark, np.float32 if found.rated else np.int32) for mark in marks]),
        np.array([example.place for example in examples], np.int64).reshape(-1, 2),
        found.files,
        found.per_token,
        [example.words for example in examples],
        own.filler,
        np.array([one.second for one in laid], np.int64) if found.pairs and style == "bert" else None,
        len(ways[0]),
        bool(found.choices),
    )


Read = Callable[[Texts], list[Texts]]
Piece = tuple[list[Laid], list[Any], Example]  # tokens, a label for all or for each, and what they were read from


def _whole(found: Found, numbers: list[list[Any]], own: Tokenizer, form: Format, read: Read) -> Iterator[Piece]:
    """Texts that have one label, each as what is `read` of it."""
    every = iter(zip(found.examples, numbers, strict=True))
    while block := list(islice(every, BLOCK)):
        given = [read(example.words) for example, _ in block]
        laid = iter(formats.lay(own, form, [texts for some in given for texts in some]))
        for (example, label), some in zip(block, given, strict=True):
            yield list(islice(laid, len(some))), label, example


def _pieces(found: Found, numbers: list[list[Any]], own: Tokenizer, form: Format) -> Iterator[Piece]:
    """Sentences whose words have labels, in pieces that are not too long."""
    both = iter(zip(found.examples, numbers, strict=True))
    while block := list(islice(both, BLOCK)):
        pieces = cut(own, [example.words for example, _ in block], form)
        for (example, of_words), sentence in zip(block, pieces, strict=True):
            for words, ids in sentence:
                marks = [IGNORE] * len(ids)
                for word, place in words:
                    label = of_words[word]
                    marks[place] = IGNORE if label is None else label
                yield [Laid(ids, len(ids))], marks, example


def learnt(train: Found, how: ReadingConfig) -> Tokenizer:
    """The tokens of the texts to learn from."""
    if not train.per_token:
        texts = [text for example in train.examples for text in example.words]
        how = reading.settled(how, texts)
        return reading.learn(map(how.normal, texts), how)
    return reading.learn((" ".join(map(how.normal_word, example.words)) for example in train.examples), how)


def _report(found: Found, digests: Sequence[str], held: float | str) -> dict[str, Any]:
    """What is known of some files, for data.json."""
    both = zip(found.files, found.tallies, digests, strict=True)
    corpora = [{**tally.report([name]), "sha256": [one]} for name, tally, one in both]
    return {"fingerprint": caches.key(labels=1, files=list(digests), held=held), "corpora": corpora}
