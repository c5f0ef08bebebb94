"""Word alignment: the error rate of links against hand-aligned sentences, with chance and diagonal baselines.

A link (3, 4) says that source word 3 and target word 4 translate each other. Hand alignments have sure links, written
`3-4`, and possible ones, `3p4`, which are not errors and do not count towards recall (Och and Ney 2003).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

Link = tuple[int, int]
Links = frozenset[Link]
WRITTEN = re.compile(r"(\d+)([-p])(\d+)")
SHIPPED = Path(__file__).parent.parent / "samples" / "alignments" / "tatoeba-eng-fra.tsv"


@dataclass(frozen=True)
class Counts:
    """The counts behind the scores; those of sentences add up to those of a corpus."""

    links: int | float = 0
    sure: int | float = 0
    found_sure: int | float = 0
    """Links that are sure: `|A and S|`."""
    found_possible: int | float = 0
    """Links that are sure or possible: `|A and P|`."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.links + other.links,
            self.sure + other.sure,
            self.found_sure + other.found_sure,
            self.found_possible + other.found_possible,
        )

    @property
    def precision(self) -> float:
        """`|A and P| / |A|`: the share of links that are sure or possible."""
        return self.found_possible / self.links if self.links else 0.0

    @property
    def recall(self) -> float:
        """`|A and S| / |S|`: the share of sure links that were found."""
        return self.found_sure / self.sure if self.sure else 1.0

    @property
    def aer(self) -> float:
        """The alignment error rate, `1 - (|A and S| + |A and P|) / (|A| + |S|)`: 0 is perfect."""
        total = self.links + self.sure
        return 1.0 - (self.found_sure + self.found_possible) / total if total else 0.0


@dataclass(frozen=True)
class Phrase:
    """A word and its noun, as links between source and target."""

    word: Link
    noun: Link


@dataclass(frozen=True)
class Gold:
    """A hand-aligned pair of sentences."""

    source_text: str
    target_text: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: Links
    possible: Links
    """Sure ones included."""
    attribution: str = ""
    adjectives: tuple[Phrase, ...] = ()
    """Adjectives that stand on the other side of their noun in the other language."""
    articles: tuple[Phrase, ...] = ()
    """Articles that are words of their own on both sides, with the noun they announce."""

    def swap_languages(self) -> Gold:
        """Return the same pair in the other direction."""
        return replace(
            self,
            source_text=self.target_text,
            target_text=self.source_text,
            source=self.target,
            target=self.source,
            sure=_transpose(self.sure),
            possible=_transpose(self.possible),
            adjectives=tuple(Phrase(phrase.word[::-1], phrase.noun[::-1]) for phrase in self.adjectives),
            articles=tuple(Phrase(phrase.word[::-1], phrase.noun[::-1]) for phrase in self.articles),
        )


def parse_links(text: str) -> tuple[Links, Links]:
    """Return the sure links of a text such as `0-0 1p2`, and all links."""
    sure, possible = set(), set()
    for token in text.split():
        match = WRITTEN.fullmatch(token)
        if not match:
            raise ValueError(f"{token!r} is no link: write 3-4 for a sure one, 3p4 for a possible one")
        link = int(match[1]), int(match[3])
        if link in possible:
            raise ValueError(f"{token!r} is linked twice: once is enough")
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return frozenset(sure), frozenset(possible)


def count_links(links: Iterable[Link], sure: Links, possible: Links) -> Counts:
    """Return the counts of one sentence; sure links count as possible, whether repeated there or not."""
    predicted = frozenset(links)
    return Counts(len(predicted), len(sure), len(predicted & sure), len(predicted & (possible | sure)))


def aer(links: Iterable[Link], sure: Links, possible: Links) -> float:
    """Return the alignment error rate of one sentence."""
    return count_links(links, sure, possible).aer


def precision(links: Iterable[Link], sure: Links, possible: Links) -> float:
    """Return the share of links that are sure or possible."""
    return count_links(links, sure, possible).precision


def recall(links: Iterable[Link], sure: Links, possible: Links) -> float:
    """Return the share of sure links that are there."""
    return count_links(links, sure, possible).recall


def corpus(counts: Iterable[Counts]) -> Counts:
    """Return the summed counts of many sentences, so that long ones weigh more."""
    return sum(counts, Counts())


def diagonal(sources: int, targets: int) -> Links:
    """Return links of each target word to the source word at the same relative position: a baseline without a model."""
    return frozenset(
        (min(sources - 1, (2 * target + 1) * sources // (2 * targets)), target) for target in range(targets)
    )


def uniform_baseline(gold: Gold) -> Counts:
    """Return the expected counts of one random link per target word; exact, since the scores are linear in them."""
    sources = len(gold.source)
    return Counts(len(gold.target), len(gold.sure), len(gold.sure) / sources, len(gold.possible) / sources)


def permutation_baseline(links: Iterable[Link], gold: Gold) -> Counts:
    """Return the expected counts of these links when their target words are permuted at random.

    Exact as well: a source word linked a times, with s sure partners among n target words, hits a * s / n of them.
    """
    predicted = list(links)
    partners = len(gold.target)
    found_sure = sum(1 for source, _ in predicted for gold_source, _ in gold.sure if gold_source == source) / partners
    found_possible = (
        sum(1 for source, _ in predicted for gold_source, _ in gold.possible if gold_source == source) / partners
    )
    return Counts(len(predicted), len(gold.sure), found_sure, found_possible)


def read(path: Path = SHIPPED) -> list[Gold]:
    """Return hand alignments from a file of tab-separated columns, by default Regard's English-French ones.

    The columns are source text, target text, links, attribution, words of the source, words of the target, and pairs of
    source words: adjectives that change sides with their nouns, articles with theirs.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_parse_line(line.split("\t"), f"{path.name}:{number}") for number, line in enumerate(lines, start=1)]


def _parse_line(columns: Sequence[str], location: str) -> Gold:
    if len(columns) != 8:
        raise ValueError(f"{location}: {len(columns)} columns, hand alignments have 8: separate them by tabs")
    source_text, target_text, links, attribution, source, target, adjectives, articles = columns
    words = tuple(source.split(" ")), tuple(target.split(" "))
    for text, tokens in zip((source_text, target_text), words, strict=True):
        if "".join(text.split()) != "".join(tokens):
            raise ValueError(
                f"{location}: the words {' '.join(tokens)!r} are not those of {text!r}: correct one of them"
            )
    try:
        sure, possible = parse_links(links)
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from None
    for source_word, target_word in sorted(possible):
        if source_word >= len(words[0]) or target_word >= len(words[1]):
            sizes = f"{len(words[0])} and {len(words[1])}"
            raise ValueError(
                f"{location}: no link {source_word}-{target_word} between {sizes} words: they are counted from 0"
            )
    return Gold(
        source_text,
        target_text,
        *words,
        sure,
        possible,
        attribution,
        tuple(_find_phrase(pair, sure, location) for pair in adjectives.split()),
        tuple(_find_phrase(pair, sure, location) for pair in articles.split()),
    )


def _find_phrase(text: str, sure: Links, location: str) -> Phrase:
    """Return two source words with those of their sure partners that are nearest each other."""
    match = WRITTEN.fullmatch(text)
    word, noun = (int(match[1]), int(match[3])) if match else (-1, -1)
    pairs = [
        (word_link, noun_link)
        for word_link in sorted(sure)
        if word_link[0] == word
        for noun_link in sorted(sure)
        if noun_link[0] == noun
    ]
    if not pairs:
        raise ValueError(f"{location}: {text!r} names two source words, both with sure links, such as 3-4")
    return Phrase(*min(pairs, key=lambda pair: abs(pair[0][1] - pair[1][1])))


def _transpose(links: Links) -> Links:
    return frozenset((target, source) for source, target in links)
