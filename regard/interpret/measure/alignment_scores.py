"""Attention compared with manual word alignments: the alignment error rate of every head, and tests of two claims.

A decoder's row can be read in two ways. With shift 0 it belongs to the word about to be written, with shift 1 to the
word just fed. Which of them aligns differs between models, and a plot labelled in the other way seems to look one word
ahead: so both are measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.pronoun_rule import find_antecedents
from regard.interpret.trace import Trace
from regard.interpret.words import group_items, merge
from regard.metrics.alignment import (
    Counts,
    Gold,
    Link,
    Links,
    Phrase,
    corpus,
    count_links,
    diagonal,
    permutation_baseline,
    uniform_baseline,
)

SHIFTS = (0, 1)
Cell = str | int | float | None


@dataclass(frozen=True)
class Example:
    """A sentence pair with its manual alignment, and the trace of a model reading it."""

    gold: Gold
    trace: Trace
    antecedents: tuple[Sequence[Link], Sequence[Link]] = ((), ())
    """Pronouns with the nouns they stand for, among the words of the source and of the target."""


@dataclass(frozen=True)
class View:
    """A selection of weights: one head, the mean of a layer (no head), or the mean of all layers (no name either)."""

    where: str | None = None
    head: int | None = None

    def __str__(self) -> str:
        """Return the description of the view."""
        if self.where is None:
            return "all layers, mean"
        return f"{self.where}, mean" if self.head is None else f"{self.where} head {self.head}"


@dataclass(frozen=True)
class Aligned:
    """The agreement of one view's links with the manual ones, and the scores of the controls."""

    view: View | str
    shift: int
    counts: Counts
    permuted: Counts
    diagonal: Counts
    uniform: Counts


@dataclass(frozen=True)
class Inverted:
    """The rate at which the weights follow adjectives that change sides, and the controls."""

    view: View
    shift: int
    share: float
    """Share of pairs whose adjective and noun attend to source words in inverse order, as their partners are."""
    exact: float
    """Share of pairs in which both attend to exactly their partners."""
    exchanged: float
    """Control: share of pairs whose order is right after exchanging the two words."""
    diagonal: float
    """Control: the diagonal, which never inverts the order."""
    uniform: float
    """Control: two random positions."""
    places: int


@dataclass(frozen=True)
class Ahead:
    """The attention of articles to their own partner and to that of the noun they announce."""

    view: View
    shift: int
    article: float
    """Attention weight from an article to its partner."""
    noun: float
    """Attention weight from an article to its noun's partner."""
    even: float
    """Control: the weight of a word under uniform attention."""
    share: float
    """Share of articles that attend to the noun's partner more than to their own."""
    others: float
    """Control: the same share for the other words of the sentence, with the same noun and article."""
    places: int


@dataclass(frozen=True)
class Table:
    """A table to print: title, columns, rows, a note on how to read them, and the finding."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    finding: str = ""
    """The main result, with its controls, as a sentence."""
    main: tuple[int, ...] = ()
    """Numbers of the most important rows."""


def examples(reader: ForcedReader, golds: Sequence[Gold]) -> list[Example]:
    """Return the examples with the traces of the model reading each pair."""
    return [Example(gold, reader.look(gold.source_text, gold.target_text)) for gold in golds]


def pronoun_examples(reader: ForcedReader, golds: Sequence[Gold]) -> list[Example]:
    """Return the examples of pairs in which a rule finds the nouns of the pronouns, on either side."""
    return [
        Example(gold, reader.look(gold.source_text, gold.target_text), antecedents)
        for gold in golds
        if any(antecedents := (find_antecedents(gold.source), find_antecedents(gold.target)))
    ]


def views(example: Example, *, shift: int = 0) -> Iterator[tuple[View, Float[Tensor, "target source"]]]:
    """Yield target-to-source word weights: of every cross-attention head, each layer's mean, and the mean of all."""
    trace, layers = example.trace, []
    for attention in trace.weights:
        if not attention.name.endswith("cross"):
            continue
        matrix = link_words(trace, example.gold, attention.values.float().cpu(), shift=shift)
        yield from ((View(attention.name, head), matrix[head]) for head in range(len(matrix)))
        yield View(attention.name), matrix.mean(0)
        layers.append(matrix.mean(0))
    if len(layers) > 1:
        yield View(), torch.stack(layers).mean(0)


def link_words(
    trace: Trace, gold: Gold, weights: Float[Tensor, "*heads query key"], *, shift: int = 0
) -> Float[Tensor, "*heads target source"]:
    """Merge weights between tokens into weights between the words that people aligned."""
    if shift not in SHIFTS:
        raise ValueError(f"shift {shift} means nothing: 0 is the word about to be written, 1 the word just fed")
    targets, sources = group_items(trace.items["fed" if shift else "target"]), group_items(trace.items["source"])
    traced = [unit.word for unit in targets], [unit.word for unit in sources]
    if traced != (list(range(len(gold.target))), list(range(len(gold.source)))):
        sizes = (
            f"{len(traced[0])} and {len(traced[1])} words, the hand alignment {len(gold.target)} and {len(gold.source)}"
        )
        raise ValueError(f"the trace of {gold.source_text!r} has {sizes}: look at the same two texts")
    return merge(weights, targets, sources)


def links(weights: Float[Tensor, "target source"]) -> Links:
    """Return one link per target word: to the source word with the highest weight."""
    return frozenset((source, target) for target, source in enumerate(weights.argmax(-1).tolist()))


def measure_alignments(examples: Sequence[Example], *, shift: int = 0) -> list[Aligned]:
    """Compare every view with the manual links."""
    golds = [example.gold for example in examples]
    controls = {
        "diagonal": corpus(count_links(diagonal(len(g.source), len(g.target)), g.sure, g.possible) for g in golds),
        "uniform": corpus(uniform_baseline(gold) for gold in golds),
    }
    return [
        Aligned(
            view,
            shift,
            corpus(
                count_links(sentence_links, gold.sure, gold.possible)
                for sentence_links, gold in zip(links_by_sentence, golds, strict=True)
            ),
            corpus(
                permutation_baseline(sentence_links, gold)
                for sentence_links, gold in zip(links_by_sentence, golds, strict=True)
            ),
            **controls,
        )
        for view, links_by_sentence in _links_by_view(examples, shift).items()
    ]


def best_head(examples: Sequence[Example], *, shift: int = 0) -> Aligned:
    """Return the head with the lowest alignment error, by two-fold cross-validation on the pairs."""
    if len(examples) < 2:
        raise ValueError(f"{len(examples)} pair cannot be halved: give at least 2")
    halves = examples[::2], examples[1::2]
    scored = []
    for chosen_on, scored_on in (halves, halves[::-1]):
        heads = [
            alignment
            for alignment in measure_alignments(chosen_on, shift=shift)
            if isinstance(alignment.view, View) and alignment.view.head is not None
        ]
        winner = min(heads, key=lambda alignment: alignment.counts.aer)
        scored += [
            alignment for alignment in measure_alignments(scored_on, shift=shift) if alignment.view == winner.view
        ]
    parts = {
        name: corpus(getattr(alignment, name) for alignment in scored)
        for name in ("counts", "permuted", "diagonal", "uniform")
    }
    return Aligned("best head, chosen on the other half", shift, **parts)


def measure_inversions(examples: Sequence[Example], *, shift: int = 0) -> list[Inverted]:
    """Measure for every view how often the weights reverse adjective and noun."""
    marked = [(example.gold, phrase) for example in examples for phrase in example.gold.adjectives]
    if not marked:
        return []
    sizes = [len(gold.source) for gold, _ in marked]
    straight = [dict(_by_target(diagonal(len(gold.source), len(gold.target)))) for gold, _ in marked]
    right = [_same_order(phrase, look) for (_, phrase), look in zip(marked, straight, strict=True)]
    inverted = []
    for view, linked in _links_by_view(examples, shift).items():
        looks = [
            dict(_by_target(sentence_links))
            for sentence_links, example in zip(linked, examples, strict=True)
            for _ in example.gold.adjectives
        ]
        pairs = [(phrase, look) for (_, phrase), look in zip(marked, looks, strict=True)]
        inverted.append(
            Inverted(
                view,
                shift,
                share=_mean([_same_order(phrase, look) for phrase, look in pairs]),
                exact=_mean([all(look[to] == at for at, to in (phrase.word, phrase.noun)) for phrase, look in pairs]),
                exchanged=_mean([_same_order(_exchange_targets(phrase), look) for phrase, look in pairs]),
                diagonal=_mean(right),
                uniform=_mean([(1 - 1 / size) / 2 for size in sizes]),
                places=len(marked),
            )
        )
    return inverted


def measure_articles(examples: Sequence[Example], *, shift: int = 0) -> list[Ahead]:
    """Measure for every view how much an article attends to its noun."""
    rows_by_view: dict[View, list[tuple[float, ...]]] = {}
    for example in examples:
        for view, weights in views(example, shift=shift) if example.gold.articles else ():
            rows_by_view.setdefault(view, []).extend(
                _article_weights(weights, phrase) for phrase in example.gold.articles
            )
    lookaheads = []
    for view, rows in rows_by_view.items():
        article, noun, even, share, others = (_mean(column) for column in zip(*rows, strict=True))
        lookaheads.append(Ahead(view, shift, article, noun, even, share, others, len(rows)))
    return lookaheads


def _article_weights(weights: Tensor, phrase: Phrase) -> tuple[float, float, float, float, float]:
    """Return weights on an article's partner, its noun's and any word, and noun above article here and elsewhere."""
    (article, row), (noun, noun_row) = phrase.word, phrase.noun
    row_weights = weights[row]
    ahead = weights[:, noun] > weights[:, article]
    others = [bool(ahead[place]) for place in range(len(weights)) if place not in (row, noun_row)]
    even = float(row_weights.sum()) / len(row_weights)
    return (
        float(row_weights[article]),
        float(row_weights[noun]),
        even,
        float(ahead[row]),
        _mean(others) if others else 0.5,
    )


def _links_by_view(examples: Sequence[Example], shift: int) -> dict[View, list[Links]]:
    """Return the links of each view, sentence by sentence."""
    links_by_view: dict[View, list[Links]] = {}
    for example in examples:
        for view, weights in views(example, shift=shift):
            links_by_view.setdefault(view, []).append(links(weights))
    return links_by_view


def _by_target(linked: Links) -> list[Link]:
    return [(target, source) for source, target in linked]


def _same_order(phrase: Phrase, look: dict[int, int]) -> bool:
    """Return True if the source words of a target adjective and its noun are in the order of their partners."""
    word, noun = look[phrase.word[1]], look[phrase.noun[1]]
    return (word < noun) if phrase.word[0] < phrase.noun[0] else (word > noun)


def _exchange_targets(phrase: Phrase) -> Phrase:
    """Return the phrase with the target words of adjective and noun exchanged."""
    return Phrase((phrase.word[0], phrase.noun[1]), (phrase.noun[0], phrase.word[1]))


def _mean(numbers: Sequence[float | bool]) -> float:
    return float(sum(numbers)) / len(numbers)
