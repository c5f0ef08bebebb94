"""Traces of a translator: its attention weights while it translates, what its attentions compute, and its search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention.hardware import device_of
from regard.attention.masks import Grid
from regard.decoding.search_tree import SearchTree, record_search
from regard.interpret.candidates import list_candidates
from regard.interpret.items import Weights, attention_axes, tokens
from regard.interpret.trace import Trace
from regard.interpret.watch import watch

if TYPE_CHECKING:
    from regard.interpret.steps import Steps
    from regard.tasks.translation.options import DecodingConfig
    from regard.tasks.translation.sentence_translator import SentenceTranslator


def trace_answer(translator: SentenceTranslator, text: str, to: str | None, prefix: Sequence[int] = ()) -> Trace:
    """Translate one sentence, and trace the attention weights of all heads along the best hypothesis.

    The sentence is read as it is and the answer is what the model writes, so nothing undoes a forced beginning.
    """
    read = translator.encode(text, to)
    decoding = _search_settings(translator, prefix)
    with watch(translator.model) as watched:
        [[best, *_]] = translator.hypotheses([read], [0], decoding)
    along, visible = watched.along([best]), watched.visible_along([best])
    written = [*best.tokens, translator.end][: len(best.path) + 1]
    items = {
        "source": tokens(translator.source, read, text),
        "target": tokens(translator.target, written),
        "fed": tokens(translator.target, [translator.begin, *written[:-1]]),
    }
    weights = [Weights(name, *attention_axes(name), along[name][0], visible[name][0]) for name in along]
    facts = {"text": text, "answer": translator.target.decode(best.tokens), "score": best.score}
    facts |= {"read": read, "written": written, "predictions": _list_candidates(translator, read, written)}
    return Trace(translator.name, translator.task, items, weights, facts, again=partial(trace_steps, translator))


def search_tree(
    translator: SentenceTranslator, text: str, to: str | None, *, prefix: Sequence[int] = (), **changes: Any
) -> SearchTree:
    """Translate one sentence, and return its search as a tree; `changes` are settings of the search."""
    decoding = _search_settings(translator, prefix, **changes)
    with record_search() as record:
        [[best, *_]] = translator.hypotheses([translator.encode(text, to)], [0], decoding)
    words = {"model": translator.name, "text": text, "answer": translator.target.decode(best.tokens)}
    return record.tree(translator.target.pieces, prefix=list(prefix), **words)


def _search_settings(translator: SentenceTranslator, prefix: Sequence[int], **changes: Any) -> DecodingConfig:
    """Return the settings of a beam search for the best answer."""
    decoding = replace(translator.decoding, nbest=1, sample=False, **changes)
    return replace(decoding, prefix=tuple(prefix)) if prefix else decoding


@torch.no_grad()
def _list_candidates(translator: SentenceTranslator, read: list[int], written: list[int]) -> list[dict[str, Any]]:
    """Return the likeliest tokens in the place of every token written, after one pass over the answer."""
    features = translator.teacher.read_pairs([read], [[translator.begin, *written[:-1]]])
    return list_candidates(translator.model.logits(features), written, translator.target.pieces)


def trace_steps(
    translator: SentenceTranslator, trace: Trace, *, names: Sequence[str] | None = None, top: int = 10
) -> Steps:
    """Return the intermediate results of attentions while a traced answer is read again in one pass."""
    from regard.interpret.steps import Steps, inside, predictions

    model, target = translator.model, translator.target
    read, written = trace.facts["read"], trace.facts["written"]
    device = device_of(model)
    inputs = torch.tensor([read], device=device), torch.tensor([[translator.begin, *written[:-1]]], device=device)
    layouts = tuple(Grid(torch.tensor([len(ids)], device=device), len(ids)) for ids in (read, written))
    names = names or [attention.name for attention in trace.weights if attention.name.startswith("decoder")]

    def read_again() -> Tensor:
        return model.logits(model(*inputs, layouts=layouts))[0]

    vectors, logits = inside(model, read_again, names=names)
    return Steps(vectors, predictions(logits, written, lambda token: target.pieces([token])[0], top=top))
