"""Word alignment by the cross-attention of a trained translator, for its own or given answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.teacher_forcing import Teacher
from regard.interpret.items import tokens
from regard.interpret.watch import AttentionRecord, watch
from regard.interpret.words import group_items, merge
from regard.tasks.translation.documents.tag_placement import strongest_links
from regard.tasks.translation.model_calls import CodedPair
from regard.tasks.translation.search import Searcher


def links(
    translator: Searcher,
    sources: Sequence[str],
    answers: Sequence[str],
    *,
    to: str | None = None,
    attention: str | None = None,
) -> list[list[tuple[int, int]]]:
    """Return for each pair the links (source word, answer word) by the highest attention weights.

    The heads of one attention are averaged: the last cross-attention, unless named. Words are counted as the tokenizers
    count them.
    """
    read = translator.encode_many(sources, to)
    written = translator.target.encode_many(answers, written=True)
    pairs: list[list[tuple[int, int]]] = [[] for _ in read]
    for number, weights in looks(translator, read, written, attention=attention):
        pairs[number] = link_words(translator, sources[number], read[number], written[number], weights)
    return pairs


def link_words(
    translator: Searcher, source: str, read: list[int], written: list[int], weights: Float[Tensor, "heads written read"]
) -> list[tuple[int, int]]:
    """Return the links (source word, answer word) of a pair from the weights of its tokens."""
    rows = group_items(tokens(translator.target, [*written, translator.end]))
    columns = group_items(tokens(translator.source, read, source))
    table = merge(weights.mean(0), rows, columns).tolist() if rows and columns else []
    return [(columns[s].word or 0, rows[t].word or 0) for s, t in strongest_links(table)]


def looks(
    translator: Searcher, read: Sequence[list[int]], written: Sequence[list[int]], *, attention: str | None = None
) -> Iterator[tuple[int, Float[Tensor, "heads written read"]]]:
    """Yield (number, cross-attention weights of every answer token and the end), in any order.

    Pairs longer than the model's context are skipped.
    """
    name = attention or last_crossing(translator)
    for numbers, watched in _watch_batches(translator.teacher, read, written, name):
        yield from zip(numbers, watched[name], strict=True)


def last_crossing(translator: Searcher) -> str:
    """Return the name of the last cross-attention."""
    if not translator.crossing:
        raise ValueError(f"{translator.name} has no attention from answers to sources: words cannot be linked")
    return translator.crossing[-1]


def _watch_batches(
    teaching: Teacher, read: Sequence[list[int]], written: Sequence[list[int]], name: str
) -> Iterator[tuple[list[int], AttentionRecord]]:
    """Yield (numbers of the pairs of a batch, their attention record), for one attention."""
    fitting = teaching.fitting(read, written)
    for batch in teaching.batches([read[i] for i in fitting], [written[i] for i in fitting]):
        numbers = [fitting[i] for i in batch]
        with watch(teaching.model, only=[name]) as watched:
            teaching.forward([read[i] for i in numbers], [written[i] for i in numbers])
        yield numbers, watched


class WordLooks(NamedTuple):
    """Weights between the words of some answers and their sources, possibly still being computed on a device."""

    numbers: list[int]
    means: Float[Tensor, "example word source_word"]
    shapes: list[tuple[int, int]]

    def collect(self) -> Iterator[tuple[int, Float[np.ndarray, "word source_word"]]]:
        """Yield (number, the weights of this example), as soon as the device has computed them."""
        for number, mean, (height, width) in zip(self.numbers, self.means.cpu().numpy(), self.shapes, strict=True):
            yield number, mean[:height, :width]


@torch.inference_mode()
def average_looks(translator: Searcher, pairs: Sequence[CodedPair], *, to: str | None = None) -> list[WordLooks]:
    """Return the weights between the words of answers and their sources, averaged over heads, batch by batch."""
    teaching, name = replace(translator.teacher, model=translator.ready.reader()), last_crossing(translator)
    read = read_sources(translator, pairs, to)
    return [
        merge_looks(pairs, read, numbers, watched.average_heads(name))
        for numbers, watched in _watch_batches(teaching, read, [pair.answer_ids for pair in pairs], name)
    ]


def read_sources(translator: Searcher, pairs: Sequence[CodedPair], to: str | None) -> list[list[int]]:
    """Return the token ids of the sources as the model reads them."""
    tag, end = translator.tag(to), translator.source.role("end")
    return [[*tag, *pair.source_ids, end] for pair in pairs]


def merge_looks(
    pairs: Sequence[CodedPair],
    read: Sequence[list[int]],
    numbers: list[int],
    weights: Float[Tensor, "example token source"],
) -> WordLooks:
    """Convert the weights between tokens to weights between words, for the pairs with these numbers."""
    rows, columns = ([pairs[n].answer_words for n in numbers], [pairs[n].source_words for n in numbers])
    skipped = len(read[numbers[0]]) - len(pairs[numbers[0]].source_ids) - 1  # the language tag
    return WordLooks(numbers, *merge_words(weights, rows, columns, skipped=skipped))


def merge_words(
    weights: Float[Tensor, "example token source"],
    rows: Sequence[Sequence[int]],
    columns: Sequence[Sequence[int]],
    *,
    skipped: int = 0,
) -> tuple[Float[Tensor, "example word source_word"], list[tuple[int, int]]]:
    """Merge token weights into word weights: the sum over a source word's tokens, the mean over an answer word's.

    Returned with the number of words of each example on both sides. `rows` and `columns` give the word of each token,
    after `skipped` tokens of the source; further tokens belong to no word. A word may have no token.
    """
    shape = [
        (max(row_words, default=-1) + 1, max(column_words, default=-1) + 1)
        for row_words, column_words in zip(rows, columns, strict=True)
    ]
    most_rows, most_columns = (max(sizes) for sizes in zip(*shape, strict=True))
    row_owners = _pad_owners(rows, weights.shape[1], most_rows).to(weights.device)
    column_owners = _pad_owners(columns, weights.shape[2], most_columns, skipped).to(weights.device)
    count, length, _ = weights.shape
    by_source = weights.new_zeros(count, length, most_columns + 1)
    by_source.scatter_add_(2, column_owners[:, None].expand(-1, length, -1), weights)
    sums = weights.new_zeros(count, most_rows + 1, most_columns + 1)
    sums.scatter_add_(1, row_owners[:, :, None].expand(-1, -1, most_columns + 1), by_source)
    tokens = weights.new_zeros(count, most_rows + 1).scatter_add_(1, row_owners, torch.ones_like(weights[:, :, 0]))
    return sums / tokens.clamp(min=1)[:, :, None], shape


def _pad_owners(
    owners: Sequence[Sequence[int]], length: int, nobody: int, skipped: int = 0
) -> Int[Tensor, "example token"]:
    """Return the word of each token, `nobody` where there is none."""
    padded = np.full((len(owners), length), nobody, dtype=np.int64)
    for row, words in zip(padded, owners, strict=True):
        row[skipped : skipped + len(words)] = words
    return torch.from_numpy(padded)
