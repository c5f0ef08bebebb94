"""Translations with the links between their words and those of the texts."""

from __future__ import annotations

from dataclasses import replace

from regard.data.tokenizers import WORD
from regard.tasks.translation.answers import Answer, WordAlignment
from regard.tasks.translation.model_calls import LinkCall, Steps
from regard.tasks.translation.pipeline import Pipeline


def translate_aligned(pipeline: Pipeline) -> Steps[list[Answer]]:
    """Translate the texts of a pipeline, and link the words of each to those of its translation, by cross-attention."""
    answers = yield from pipeline.translate()
    links = iter((yield LinkCall(pipeline.sentences, pipeline.translations, pipeline.to)))
    sentences = iter(zip(pipeline.sentences, pipeline.translations, strict=True))
    aligned = []
    for answer, plan in zip(answers, pipeline.plans, strict=True):
        source, target = list[str](), list[str]()
        pairs: list[tuple[int, int]] = []
        for _ in filter(None, (piece.text for piece in plan)):
            read, written = next(sentences)
            pairs += [(len(source) + s, len(target) + t) for s, t in next(links)]
            source += WORD.findall(read)
            target += WORD.findall(written)
        aligned.append(replace(answer, alignment=WordAlignment(source, target, pairs)))
    return aligned
