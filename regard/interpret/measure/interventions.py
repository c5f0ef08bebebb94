"""Interventions: heads ablated one by one, source words deleted one by one.

Attention weights alone do not explain an answer; the effect of removing a head or a word comes closer.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention.multihead import MultiHead
from regard.attention.singlehead import SingleHead
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.patterns import rollout
from regard.interpret.trace import Trace
from regard.interpret.words import group_items, merge

SHUFFLES = 20


@dataclass(frozen=True)
class Ablation:
    """The increase of the loss when one head is silenced, and when it attends uniformly."""

    where: str
    head: int
    silent: float
    even: float


@dataclass(frozen=True)
class Agreement:
    """Rank correlation between a source word's attribution and the effect of its deletion, with controls."""

    method: str
    value: float
    permuted: float
    letters: float
    sentences: int


@contextmanager
def ablate_head(
    model: nn.Module, where: str, head: int, *, way: Literal["silent", "even"] = "silent"
) -> Iterator[None]:
    """Set the weights of one head to zero or to uniform attention over the visible keys inside the block."""
    module = dict(model.named_modules()).get(where)
    if not isinstance(module, MultiHead | SingleHead):
        names = [name for name, child in model.named_modules() if isinstance(child, MultiHead | SingleHead)]
        raise ValueError(f"no attention called {where}; there are {', '.join(names)}")
    if not 0 <= head < module.heads:
        raise ValueError(f"{where} has heads 0 to {module.heads - 1}, not {head}")

    def edit(_: nn.Module, __: tuple[Any, ...], weights: Tensor) -> Tensor:
        head_weights = weights.select(-3, head)
        visible = (head_weights > 0).to(head_weights)
        instead = (
            torch.zeros_like(head_weights)
            if way == "silent"
            else visible / visible.sum(-1, keepdim=True).clamp(min=1.0)
        )
        return torch.cat([weights.narrow(-3, 0, head), instead.unsqueeze(-3), weights[..., head + 1 :, :, :]], dim=-3)

    # compiled code does not run hooks
    eager = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
    handle = module.weights.register_forward_hook(edit)
    try:
        with eager:
            yield
    finally:
        handle.remove()


def ablate_heads(model: nn.Module, loss: Callable[[], float]) -> list[Ablation]:
    """Return each head's effect on `loss`, any number that depends on the model and is better when smaller."""
    before = loss()
    ablations = []
    for where, module in model.named_modules():
        if not isinstance(module, MultiHead | SingleHead):
            continue
        for head in range(module.heads):
            with ablate_head(model, where, head):
                silent = loss() - before
            with ablate_head(model, where, head, way="even"):
                even = loss() - before
            ablations.append(Ablation(where, head, silent, even))
    return ablations


def answer_loss(reader: ForcedReader, pairs: Sequence[tuple[str, str]]) -> Callable[[], float]:
    """Return a function that computes the cross-entropy per token of these answers."""
    coded = [reader.encode(*pair) for pair in pairs]
    read, written = [source_ids for source_ids, _ in coded], [target_ids for _, target_ids in coded]
    tokens = sum(len(ids) + 1 for ids in written)
    return lambda: -sum(reader.scores(read, written)) / tokens


def deletions(reader: ForcedReader, source: str, target: str) -> list[float]:
    """Return by how much the log-probability of the answer falls when each source word is deleted."""
    read, written = reader.encode(source, target)
    words = reader.trained.source.words(read)
    count = 1 + max((word for word in words if word is not None), default=-1)
    without = [[id for id, token_word in zip(read, words, strict=True) if token_word != word] for word in range(count)]
    whole, *parts = reader.scores([read, *without], [written] * (count + 1))
    return [whole - part for part in parts]


def agreement(reader: ForcedReader, traces: Sequence[Trace], *, seed: int = 0) -> list[Agreement]:
    """Return the rank correlation of attention and deletion effects over source words, averaged over sentences."""
    shuffle = random.Random(seed)
    correlations: dict[str, list[tuple[float, float, float]]] = {}
    for trace in traces:
        effects = deletions(reader, trace.facts["text"], trace.facts["answer"])
        letters = [float(len(unit.text)) for unit in group_items(trace.items["source"])]
        for method, word_weights in attributions(trace).items():
            assert len(word_weights) == len(effects), "a word without a token of its own"
            tau = kendall(word_weights, effects)
            if tau is None:
                continue
            permuted_taus = [
                kendall(shuffle.sample(word_weights, len(word_weights)), effects) or 0.0 for _ in range(SHUFFLES)
            ]
            correlations.setdefault(method, []).append(
                (tau, sum(permuted_taus) / SHUFFLES, kendall(letters, effects) or 0.0)
            )
    agreements = []
    for method, rows in correlations.items():
        tau, mixed, longer = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        agreements.append(Agreement(method, tau, mixed, longer, len(rows)))
    return agreements


def attributions(trace: Trace) -> dict[str, list[float]]:
    """Return each source word's weight over the answer: per cross-attention, for their mean, and by rollout."""
    source, target = group_items(trace.items["source"]), group_items(trace.items["target"], specials=True)
    crosses = {
        attention.name: attention.values.float().cpu().mean(0)
        for attention in trace.weights
        if attention.name.endswith("cross")
    }
    mean = torch.stack(list(crosses.values())).mean(0)
    by_method = {**crosses, "mean of all": mean}
    if any(attention.name.startswith("encoder") for attention in trace.weights):
        by_method["mean of all, rolled out"] = mean @ rollout(trace)
    return {method: merge(weights, target, source).sum(0).tolist() for method, weights in by_method.items()}


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Kendall's rank correlation with ties (tau-b); None if one side is constant."""
    agree = ties_first = ties_second = 0
    pairs = len(first) * (len(first) - 1) // 2
    for i in range(len(first)):
        for j in range(i):
            first_difference, second_difference = first[i] - first[j], second[i] - second[j]
            ties_first += first_difference == 0
            ties_second += second_difference == 0
            agree += (first_difference * second_difference > 0) - (first_difference * second_difference < 0)
    scale = ((pairs - ties_first) * (pairs - ties_second)) ** 0.5
    return agree / scale if scale else None
