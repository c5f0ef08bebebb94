"""Answering the calls of text steps: directly by the model, or by requests to a shared engine."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch.nn import functional as F

from regard.decoding.exchange import Exchange
from regard.tasks.translation.alignment import (
    WordLooks,
    average_looks,
    last_crossing,
    link_words,
    links,
    merge_looks,
    read_sources,
)
from regard.tasks.translation.model_calls import (
    LinkCall,
    LookCall,
    ModelCall,
    ScoreCall,
    SearchCall,
    Steps,
    TargetScore,
)
from regard.tasks.translation.search import Searcher
from regard.tasks.translation.teacher_forcing import score_targets

Result = TypeVar("Result")


def run_steps(translator: Searcher, steps: Steps[Result]) -> Result:
    """Run text steps to their end with the model, and return their result."""
    answer = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = _answer_call(translator, call)


def exchange_steps(translator: Searcher, steps: Steps[Result]) -> Exchange[Result]:
    """Run text steps to their end with an engine: yield requests, and return the result of the steps."""
    answer = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = yield from _exchange_call(translator, call)


def _answer_call(translator: Searcher, call: ModelCall) -> Any:
    if isinstance(call, SearchCall):
        return translator.search(call)
    if isinstance(call, ScoreCall):
        return score_targets(translator, call)
    if isinstance(call, LinkCall):
        return links(translator, call.sources, call.answers, to=call.to)
    return average_looks(translator, call.pairs, to=call.to)


def _exchange_call(translator: Searcher, call: ModelCall) -> Exchange[Any]:
    if isinstance(call, SearchCall):
        return (yield from _exchange_search(translator, call))
    if isinstance(call, ScoreCall):
        return (yield from _exchange_scores(translator, call))
    if isinstance(call, LinkCall):
        return (yield from _exchange_links(translator, call))
    return (yield from _exchange_looks(translator, call))


def _exchange_search(translator: Searcher, call: SearchCall) -> Exchange[Any]:
    hypotheses = yield translator.make_requests(call)
    if call.on_finished is None:
        return hypotheses
    call.on_finished(range(len(hypotheses)), hypotheses)
    return []


def _exchange_scores(translator: Searcher, call: ScoreCall) -> Exchange[list[TargetScore | None]]:
    fitting = translator.teacher.fitting(call.sources, call.targets)
    sources, targets = ([side[number] for number in fitting] for side in (call.sources, call.targets))
    answers = yield translator.make_score_requests(sources, targets, top=call.top)
    scores: list[TargetScore | None] = [None] * len(call.sources)
    for number, [answer] in zip(fitting, answers, strict=True):
        scores[number] = TargetScore(answer.token_scores, answer.choices)
    return scores


def _exchange_links(translator: Searcher, call: LinkCall) -> Exchange[list[list[tuple[int, int]]]]:
    read = translator.encode_many(call.sources, call.to)
    written = translator.target.encode_many(call.answers, written=True)
    weights = yield from _exchange_weights(translator, read, written)
    pairs: list[list[tuple[int, int]]] = [[] for _ in read]
    for number, table in weights.items():
        pairs[number] = link_words(translator, call.sources[number], read[number], written[number], table)
    return pairs


def _exchange_looks(translator: Searcher, call: LookCall) -> Exchange[list[WordLooks]]:
    read = read_sources(translator, call.pairs, call.to)
    weights = yield from _exchange_weights(translator, read, [pair.answer_ids for pair in call.pairs])
    means = {number: table.float().mean(0) for number, table in weights.items()}
    height, width = (max((table.shape[axis] for table in means.values()), default=0) for axis in (0, 1))
    padded = [F.pad(table, (0, width - table.shape[1], 0, height - table.shape[0])) for table in means.values()]
    return [merge_looks(call.pairs, read, list(means), torch.stack(padded))] if padded else []


def _exchange_weights(
    translator: Searcher, read: list[list[int]], written: list[list[int]]
) -> Exchange[dict[int, torch.Tensor]]:
    """Return the weights of the last cross-attention by the numbers of the pairs that fit the model's context."""
    name, fitting = last_crossing(translator), translator.teacher.fitting(read, written)
    sources, targets = ([side[number] for number in fitting] for side in (read, written))
    answers = yield translator.make_score_requests(sources, targets, weights=(name,))
    weights = {}
    for number, [answer] in zip(fitting, answers, strict=True):
        assert answer.weights is not None
        weights[number] = answer.weights[name]
    return weights
