"""Traces of a translator: its attention weights while it translates, and the intermediate results of its attentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.attention.hardware import device_of
from regard.attention.masks import Grid
from regard.interpret.items import Weights, attention_axes, tokens
from regard.interpret.trace import Trace
from regard.interpret.watch import watch

if TYPE_CHECKING:
    from regard.interpret.steps import Steps
    from regard.tasks.translation.sentence_translator import SentenceTranslator


def trace_answer(translator: SentenceTranslator, text: str, to: str | None) -> Trace:
    """Translate one sentence, and trace the attention weights of all heads along the best hypothesis."""
    read = translator.encode(text, to)
    decoding = replace(translator.decoding, nbest=1, sample=False)
    with watch(translator.model) as watched:
        [[best, *_]] = translator.hypotheses([read], [0], decoding)
    along = watched.along([best])
    written = [*best.tokens, translator.end][: len(best.path) + 1]
    items = {
        "source": tokens(translator.source, read, text),
        "target": tokens(translator.target, written),
        "fed": tokens(translator.target, [translator.begin, *written[:-1]]),
    }
    weights = [Weights(name, *attention_axes(name), values=examples[0]) for name, examples in along.items()]
    facts = {"text": text, "answer": translator.target.decode(best.tokens), "score": best.score}
    facts |= {"read": read, "written": written}
    return Trace(translator.name, translator.task, items, weights, facts, again=partial(trace_steps, translator))


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
