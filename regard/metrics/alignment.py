"""Who translates whom: links between words against links drawn by hand, and what chance and the diagonal would score.

A link (3, 4) says that source word 3 and target word 4 translate each other. Hand alignments have sure links, written
`3-4`, and possible ones, `3p4`, which cost nothing and gain nothing (Och and Ney 2003).
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
    """What the scores are made of; the counts of many sentences add up to those of a corpus."""

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
        """`|A and P| / |A|`: how many links are not wrong."""
        return self.found_possible / self.links if self.links else 0.0

    @property
    def recall(self) -> float:
        """`|A and S| / |S|`: how many sure links were found."""
        return self.found_sure / self.sure if self.sure else 1.0

    @property
    def aer(self) -> float:
        """The alignment error rate, `1 - (|A and S| + |A and P|) / (|A| + |S|)`: 0 is perfect."""
        total = self.links + self.sure
        return 1.0 - (self.found_sure + self.found_possible) / total if total else 0.0


@dataclass(frozen=True)
class Phrase:
    """A word and its noun, as links: who they are in the source and in the target."""

    word: Link
    noun: Link


@dataclass(frozen=True)
class Gold:
    """One pair of sentences aligned by hand."""

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

    def turned(self) -> Gold:
        """The same pair in the other direction."""
        return replace(
            self,
            source_text=self.target_text,
            target_text=self.source_text,
            source=self.target,
            target=self.source,
            sure=_turn(self.sure),
            possible=_turn(self.possible),
            adjectives=tuple(Phrase(each.word[::-1], each.noun[::-1]) for each in self.adjectives),
            articles=tuple(Phrase(each.word[::-1], each.noun[::-1]) for each in self.articles),
        )


def parse(text: str) -> tuple[Links, Links]:
    """The sure links of `0-0 1p2`, and those at least possible."""
    sure, possible = set(), set()
    for written in text.split():
        found = WRITTEN.fullmatch(written)
        if not found:
            raise ValueError(f"{written!r} is no link: write 3-4 for a sure one, 3p4 for a possible one")
        link = int(found[1]), int(found[3])
        if link in possible:
            raise ValueError(f"{written!r} is linked twice: once is enough")
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return frozenset(sure), frozenset(possible)


def count(links: Iterable[Link], sure: Links, possible: Links) -> Counts:
    """The counts of one sentence; sure links count as possible, whether repeated there or not."""
    given = frozenset(links)
    return Counts(len(given), len(sure), len(given & sure), len(given & (possible | sure)))


def aer(links: Iterable[Link], sure: Links, possible: Links) -> float:
    """The alignment error rate of one sentence."""
    return count(links, sure, possible).aer


def precision(links: Iterable[Link], sure: Links, possible: Links) -> float:
    """How many links are at least possible."""
    return count(links, sure, possible).precision


def recall(links: Iterable[Link], sure: Links, possible: Links) -> float:
    """How many of the sure links are there."""
    return count(links, sure, possible).recall


def corpus(counts: Iterable[Counts]) -> Counts:
    """The counts of many sentences together, so that long ones weigh more."""
    return sum(counts, Counts())


def diagonal(sources: int, targets: int) -> Links:
    """Each target word linked with the source word at the same height: what needs no looking at all."""
    return frozenset((min(sources - 1, (2 * place + 1) * sources // (2 * targets)), place) for place in range(targets))


def uniform(gold: Gold) -> Counts:
    """What one random link per target word scores on average; exact, since the scores are linear in what is found."""
    sources = len(gold.source)
    return Counts(len(gold.target), len(gold.sure), len(gold.sure) / sources, len(gold.possible) / sources)


def permuted(links: Iterable[Link], gold: Gold) -> Counts:
    """What these links score on average when dealt to other target words: same source words, no knowledge of whom.

    Exact as well: a source word linked a times, with s sure partners among n target words, finds a * s / n of them.
    """
    given = list(links)
    partners = len(gold.target)
    found_sure = sum(1 for source, _ in given for own, _ in gold.sure if own == source) / partners
    found_possible = sum(1 for source, _ in given for own, _ in gold.possible if own == source) / partners
    return Counts(len(given), len(gold.sure), found_sure, found_possible)


def read(path: Path = SHIPPED) -> list[Gold]:
    """Hand alignments from a file of tab-separated columns, by default the English-French ones that come with Regard.

    Source text, target text, links, attribution, words of the source, words of the target, and pairs of source words:
    adjectives that change sides with their nouns, articles with theirs.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_gold(line.split("\t"), f"{path.name}:{number}") for number, line in enumerate(lines, start=1)]


def _gold(columns: Sequence[str], place: str) -> Gold:
    if len(columns) != 8:
        raise ValueError(f"{place}: {len(columns)} columns, hand alignments have 8: separate them by tabs")
    source_text, target_text, links, attribution, source, target, adjectives, articles = columns
    words = tuple(source.split(" ")), tuple(target.split(" "))
    for text, own in zip((source_text, target_text), words, strict=True):
        if "".join(text.split()) != "".join(own):
            raise ValueError(f"{place}: the words {' '.join(own)!r} are not those of {text!r}: correct one of them")
    try:
        sure, possible = parse(links)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    for one, other in sorted(possible):
        if one >= len(words[0]) or other >= len(words[1]):
            sizes = f"{len(words[0])} and {len(words[1])}"
            raise ValueError(f"{place}: no link {one}-{other} between {sizes} words: they are counted from 0")
    return Gold(
        source_text,
        target_text,
        *words,
        sure,
        possible,
        attribution,
        tuple(_phrase(pair, sure, place) for pair in adjectives.split()),
        tuple(_phrase(pair, sure, place) for pair in articles.split()),
    )


def _phrase(written: str, sure: Links, place: str) -> Phrase:
    """Two source words and those of their sure partners that stand nearest each other."""
    found = WRITTEN.fullmatch(written)
    word, noun = (int(found[1]), int(found[3])) if found else (-1, -1)
    pairs = [(one, other) for one in sorted(sure) if one[0] == word for other in sorted(sure) if other[0] == noun]
    if not pairs:
        raise ValueError(f"{place}: {written!r} names two source words, both with sure links, such as 3-4")
    return Phrase(*min(pairs, key=lambda pair: abs(pair[0][1] - pair[1][1])))


def _turn(links: Links) -> Links:
    return frozenset((target, source) for source, target in links)
