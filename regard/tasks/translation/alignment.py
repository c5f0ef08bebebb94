"""Which words of a source a trained translator looks at while it writes those of an answer, its own or another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from regard.interpret.items import tokens
from regard.interpret.watch import watch
from regard.interpret.words import merge, units
from regard.tasks.translation.documents.tag_placement import strongest
from regard.tasks.translation.teacher_forcing import teacher

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Translator


def links(
    translator: Translator,
    sources: Sequence[str],
    answers: Sequence[str],
    *,
    to: str | None = None,
    attention: str | None = None,
) -> list[list[tuple[int, int]]]:
    """For each pair, (source word, answer word) where the model looks most when it writes the answer.

    All heads of one attention are averaged: the last that looks at the source, unless named. Words are counted as the
    tokenizers count them.
    """
    read = [translator.encode(source, to) for source in sources]
    written = translator.target.encode_many(answers, written=True)
    found: list[list[tuple[int, int]]] = [[] for _ in read]
    for number, weights in looks(translator, read, written, attention=attention):
        rows = units(tokens(translator.target, [*written[number], translator.end]))
        columns = units(tokens(translator.source, read[number], sources[number]))
        table = merge(weights.mean(0), rows, columns).tolist() if rows and columns else []
        found[number] = [(columns[s].word or 0, rows[t].word or 0) for s, t in strongest(table)]
    return found


def looks(
    translator: Translator, read: Sequence[list[int]], written: Sequence[list[int]], *, attention: str | None = None
) -> Iterator[tuple[int, Float[Tensor, "heads written read"]]]:
    """(number, where each head looks in the source as it writes each token and the end), in any order."""
    told = teacher(translator)
    for batch in told.batches(read, written):
        with watch(translator.model) as seen:
            told.forward([read[i] for i in batch], [written[i] for i in batch])
        crossing = [name for name in seen if name.endswith("cross")]
        if not crossing and attention is None:
            raise ValueError(f"{translator.name} has no attention from answers to sources: words cannot be linked")
        yield from zip(batch, seen[attention or crossing[-1]], strict=True)
