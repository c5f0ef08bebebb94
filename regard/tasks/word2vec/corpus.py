"""Text as a stream of word numbers on disk: what word2vec learns from.

The text is read once; numbers, phrases and the vocabulary are made from what was written then, piece by piece, so the
memory needed is that of the vocabulary.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Int

from regard.config.expressions import expressions
from regard.config.ranges import Count, Part, Positive, Range, Whole
from regard.config.resuming import Free
from regard.data import cache
from regard.data.encodings import find_file
from regard.data.line_report import LineReport
from regard.data.readers import LONGEST_TEXT, TextFile, digest, texts
from regard.tasks.word2vec import phrases
from regard.tasks.word2vec.phrases import Tokens

PIECE = 1 << 22  # tokens looked at at a time; a line has fewer
END, RARE = -1, -2  # of a text; a word that is left out
BLOCK = 10_000  # tokens that are learnt from at one rate, more where a text is longer


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """What word vectors are learnt from and tested on."""

    train: tuple[TextFile, ...]
    """Files to train on; a single one may be written without a list."""
    ignore: str | None = None
    """Regular expression of what is removed, such as the tags <[^>]+>; a blank takes its place."""
    pattern: str = r"[^\W_]+(?:['’][^\W_]+)*"
    """Regular expression of a word; \\S+ takes whatever is between spaces."""
    lowercase: bool = True
    """Whether capitals count as small letters."""
    min_count: Count = 5
    """Rarer words are left out, as if they were not in the text."""
    vocab: Annotated[int, Range(2, 10_000_000)] | None = None
    """The largest vocabulary; the most frequent words stay."""
    phrases: tuple[Positive, ...] = ()
    """Thresholds of the passes that join words to phrases such as new_york; [200, 100] makes two. None: no phrases."""
    discount: Whole = 5
    """Subtracted from the count of a word pair before it is scored, so that rare pairs do not become phrases."""
    similarity: Free[str | None] = None
    """File of word pairs judged by people, such as WordSim-353, evaluated after every epoch."""
    analogies: Free[str | None] = None
    """File of questions like questions-words.txt, evaluated after every epoch."""
    reject: Free[Part] = 0.01
    """Share of unusable lines above which nothing is trained."""

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train needs at least one file")
        expressions(self, "pattern", "ignore")


@dataclass(frozen=True)
class Words:
    """A vocabulary, most frequent words first, and the text as word indices, with -1 after each line."""

    words: list[str]
    counts: Int[np.ndarray, "vocab"]
    tokens: Tokens
    report: dict[str, Any]
    summary: list[str]

    @cached_property
    def bounds(self) -> Int[np.ndarray, "bound"]:
        """Return the offsets of the blocks and the end of the last; each has whole lines, of at least BLOCK tokens."""
        cuts = [0]
        for after in (start + np.flatnonzero(piece == END) + 1 for start, piece in _pieces(self.tokens)):
            while (place := int(np.searchsorted(after, cuts[-1] + BLOCK))) < len(after):
                cuts.append(int(after[place]))
        return np.array(cuts if cuts[-1] == len(self.tokens) else [*cuts, len(self.tokens)])

    @property
    def blocks(self) -> int:
        """Return the number of blocks."""
        return len(self.bounds) - 1

    def block(self, number: int) -> Tokens:
        """Return the tokens of a block."""
        return np.array(self.tokens[self.bounds[number] : self.bounds[number + 1]])


def prepare(config: WordsConfig) -> Words:
    """Read and count the files, or load the result from the cache."""
    names = [file.path for file in config.train]
    stamps = [_file_stamp(name) for name in names]
    digests = [digest(name) for name in names]
    reading_settings = {
        **{name: getattr(config, name) for name in ("ignore", "pattern", "lowercase")},
        "least": config.min_count,
        "most": config.vocab,
        "discount": config.discount,
    }
    fields = [file.field for file in config.train]
    key = cache.key(words=1, files=digests, fields=fields, **reading_settings, phrases=config.phrases)

    def build(place: Path) -> None:
        _build_cache(config, place)
        for name, stamp in zip(names, stamps, strict=True):
            if _file_stamp(name) != stamp:
                raise ValueError(f"{name} changed while it was read: start again once it is complete")

    cached = cache.ensure_entry(cache.cache_folder(), f"words-{key}", build)
    place = cached.place
    lines = (place / "vocabulary.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    words, counts = [line.split("\t")[0] for line in lines], [int(line.split("\t")[1]) for line in lines]
    tallies = [LineReport.parse(plain) for plain in json.loads((place / "tallies.json").read_text(encoding="utf-8"))]
    for name, tally in zip(names, tallies, strict=True):
        tally.check(config.reject, [name], unit="text")
    files_read = list(zip(names, tallies, digests, strict=True))
    corpora = [{**tally.report([name]), "sha256": [file_digest]} for name, tally, file_digest in files_read]
    report = {"train": {"fingerprint": key, "corpora": corpora, "words": sum(counts)}, "vocab": len(words)}
    summary = [*cached.notes, *(line for name, tally, _ in files_read for line in tally.lines([name], unit="text"))]
    summary.append(f"{sum(counts):,} words to train on, {len(words):,} different ones")
    return Words(words, np.array(counts, np.int64), _map_tokens(place / "tokens.bin"), report, summary)


def split_words(text: str, config: WordsConfig) -> list[str]:
    """Return the words of a text."""
    text = re.sub(config.ignore, " ", text) if config.ignore else text
    matches = re.finditer(config.pattern, text.lower() if config.lowercase else text)
    return [word for match in matches if (word := "_".join(match[0].split()))]  # a blank would end a word in files


def _build_cache(config: WordsConfig, place: Path) -> None:
    """Convert the text to word indices, join phrases, and restrict the words to the vocabulary."""
    path = place / "tokens.bin"
    words, tallies = _write_word_numbers(config, path)
    (place / "tallies.json").write_text(json.dumps([tally.plain() for tally in tallies]), encoding="utf-8")
    for file, tally in zip(config.train, tallies, strict=True):
        tally.check(config.reject, [file.path], unit="text")
    for threshold in config.phrases:
        words = _join_phrases(path, words, threshold, config.discount)
    vocabulary, numbers = _choose_vocabulary(words, _count_words(path, len(words)), config)
    _rewrite(path, lambda tokens: _renumber(tokens, numbers))
    lines = [f"{word}\t{count}\n" for word, count in vocabulary]
    (place / "vocabulary.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")


def _write_word_numbers(config: WordsConfig, path: Path) -> tuple[list[str], list[LineReport]]:
    """Write the text as word indices, numbered by first appearance; return the words in that order."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    tallies = []
    with path.open("wb") as file:
        for source in config.train:
            tally = LineReport()
            for _, text in texts(source.path, tally, field=source.field, longest=LONGEST_TEXT):
                tally.kept += 1
                word_numbers = [numbers[word] for word in split_words(text, config)]
                if word_numbers:
                    file.write(np.array([*word_numbers, END], np.int32).tobytes())
            tallies.append(tally)
    return list(numbers), tallies


def _choose_vocabulary(
    words: Sequence[str], counts: Int[np.ndarray, "vocab"], config: WordsConfig
) -> tuple[list[tuple[str, int]], Int[np.ndarray, "vocab"]]:
    """Return the words of the vocabulary with their counts, most frequent first, and the new index of every old one.

    Two phrases may read the same, one being a_b and c, the other a and b_c: they are one word.
    """
    totals: dict[str, int] = {}
    for word, count in zip(words, counts.tolist(), strict=True):
        totals[word] = totals.get(word, 0) + count
    frequent = [(word, count) for word, count in totals.items() if count >= config.min_count]
    ranked = sorted(frequent, key=lambda entry: (-entry[1], entry[0]))[: config.vocab]
    if len(ranked) < 2:
        raise ValueError(
            f"only {len(ranked)} words occur {config.min_count} times or more: lower data.min_count or add text"
        )
    order = {word: number for number, (word, _) in enumerate(ranked)}
    return ranked, np.array([order.get(word, RARE) for word in words], np.int32)


def _join_phrases(path: Path, words: list[str], threshold: float, discount: int) -> list[str]:
    """Join the phrases of a text; return its words, followed by the phrases."""
    counts, size = _count_words(path, len(words)), len(words)
    keys = phrases.find_phrases(_read_pieces(path), counts, threshold=threshold, discount=discount)
    _rewrite(path, lambda tokens: phrases.join_phrases(tokens, keys, size))
    return words + [f"{words[key // size]}_{words[key % size]}" for key in keys.tolist()]


def _renumber(tokens: Tokens, numbers: Int[np.ndarray, "vocab"]) -> Int[np.ndarray, "fewer"]:
    """Return the tokens with their new indices, without rare words."""
    changed = np.where(tokens >= 0, numbers[np.maximum(tokens, 0)], tokens)
    return changed[changed != RARE]


def _count_words(path: Path, size: int) -> Int[np.ndarray, "vocab"]:
    counts = np.zeros(size, np.int64)
    for tokens in _read_pieces(path):
        counts += np.bincount(tokens[tokens >= 0], minlength=size)
    return counts


def _rewrite(path: Path, change: Callable[[Tokens], Tokens]) -> None:
    """Replace the tokens in a file by those that `change` returns for each piece."""
    aside = path.with_name("next.bin")
    with aside.open("wb") as file:
        for tokens in _read_pieces(path):
            file.write(change(tokens).astype(np.int32).tobytes())
    aside.replace(path)


def _read_pieces(path: Path) -> Iterator[Tokens]:
    return (tokens for _, tokens in _pieces(_map_tokens(path)))


def _pieces(tokens: Tokens) -> Iterator[tuple[int, Tokens]]:
    """Yield the pieces of a text, which are whole lines, with their offsets."""
    start = 0
    while start < len(tokens):
        piece = np.array(tokens[start : start + PIECE])
        piece = piece[: int(np.flatnonzero(piece == END)[-1]) + 1]
        yield start, piece
        start += len(piece)


def _map_tokens(path: Path) -> Tokens:
    size = path.stat().st_size // 4
    return np.memmap(path, np.int32, "r", shape=(size,)) if size else np.zeros(0, np.int32)


def _file_stamp(name: str) -> tuple[int, int]:
    stat = find_file(name).stat()
    return stat.st_size, stat.st_mtime_ns
