"""Interventions: heads ablated one by one, source words deleted one by one.

Attention weights alone do not explain an answer; the effect of removing a head or a word comes closer.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.multihead import MultiHead
from regard.attention.singlehead import SingleHead
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.patterns import rollout
from regard.interpret.trace import Trace
from regard.interpret.words import group_items, merge

SHUFFLES = 20
MEAN, ROLLED_OUT = "mean of all", "mean of all, rolled out"
Way = Literal["silent", "even", "permuted"]


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


@dataclass(frozen=True)
class Correlation:
    """Rank correlation of one method's scores with the effects of deletion in one input, beside its controls."""

    value: float
    controls: Mapping[str, float]


@contextmanager
def ablate_head(model: nn.Module, where: str, head: int, *, way: Way = "silent") -> Iterator[None]:
    """Set the weights of one head to zero or to uniform attention over the visible keys inside the block."""
    with change_heads(model, [(where, head)], way=way):
        yield


@contextmanager
def change_heads(
    model: nn.Module, heads: Sequence[tuple[str, int]], *, way: Way, generator: torch.Generator | None = None
) -> Iterator[None]:
    """Silence some heads inside the block, make them attend evenly, or permute every row of their weights.

    Permuted weights are another random order of the same weights over the visible keys (Jain and Wallace 2019).
    """
    modules, numbers = dict(model.named_modules()), dict[str, list[int]]()
    for where, head in heads:
        module = modules.get(where)
        if not isinstance(module, MultiHead | SingleHead):
            names = [name for name, child in modules.items() if isinstance(child, MultiHead | SingleHead)]
            raise ValueError(f"no attention called {where}; there are {', '.join(names)}")
        if not 0 <= head < module.heads:
            raise ValueError(f"{where} has heads 0 to {module.heads - 1}, not {head}")
        numbers.setdefault(where, []).append(head)
    # compiled code does not run hooks
    eager = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
    with ExitStack() as stack:
        for where, chosen in numbers.items():
            tap: Any = modules[where].weights
            stack.callback(tap.register_forward_hook(_make_edit(chosen, way, generator)).remove)
        stack.enter_context(eager)
        yield


def _make_edit(heads: Sequence[int], way: Way, generator: torch.Generator | None) -> Callable[..., Tensor]:
    """Return the hook that changes these heads of an attention."""

    def edit(_: nn.Module, arguments: tuple[Any, ...], weights: Tensor) -> Tensor:
        visible = visible_keys(weights, arguments[1])
        changed = list(weights.unbind(-3))
        for head in heads:
            changed[head] = change_weights(changed[head], visible.select(-3, head), way, generator)
        return torch.stack(changed, dim=-3)

    return edit


def visible_keys(weights: Float[Tensor, "*heads query key"], mask: Mask) -> Bool[Tensor, "*heads query key"]:
    """Return which keys the mask lets every query of these weights attend to."""
    allowed = mask.dense(weights.shape[-2], weights.shape[-1], weights.device)
    if allowed is None:
        return torch.ones_like(weights, dtype=torch.bool)
    return allowed.unsqueeze(-3).expand_as(weights)


def change_weights(
    weights: Float[Tensor, "*batch query key"],
    visible: Bool[Tensor, "*batch query key"],
    way: Way,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*batch query key"]:
    """Return zeros, uniform weights over the visible keys, or the weights of every row in a random order."""
    if way == "silent":
        return torch.zeros_like(weights)
    if way == "even":
        return visible.to(weights) / visible.sum(-1, keepdim=True).clamp(min=1)
    noise = torch.rand(weights.shape, generator=generator).to(weights.device).masked_fill(~visible, 2.0)
    origins, places = noise.argsort(-1), (~visible).long().argsort(dim=-1, stable=True)
    return torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, origins))


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
    words = reader.trained.source.words(read, source)
    numbers = dict.fromkeys(word for word in words if word is not None)
    without = [[id for id, token_word in zip(read, words, strict=True) if token_word != word] for word in numbers]
    whole, *parts = reader.scores([read, *without], [written] * (len(numbers) + 1))
    return [whole - part for part in parts]


def agreement(reader: ForcedReader, traces: Sequence[Trace], *, seed: int = 0) -> list[Agreement]:
    """Return the rank correlation of attention and deletion effects over source words, averaged over sentences."""
    shuffle = random.Random(seed)
    correlations: dict[str, list[Correlation]] = {}
    for trace in traces:
        effects = deletions(reader, trace.facts["text"], trace.facts["answer"])
        letters = [float(len(unit.text)) for unit in group_items(trace.items["source"])]
        for method, word_weights in attributions(trace).items():
            correlation = correlate(word_weights, effects, {"length": letters}, shuffle=shuffle)
            if correlation is not None:
                correlations.setdefault(method, []).append(correlation)
    return [
        Agreement(
            method,
            fmean(correlation.value for correlation in rows),
            fmean(correlation.controls["permuted"] for correlation in rows),
            fmean(correlation.controls["length"] for correlation in rows),
            len(rows),
        )
        for method, rows in correlations.items()
    ]


def correlate(
    scores: Sequence[float],
    effects: Sequence[float],
    rivals: Mapping[str, Sequence[float]],
    *,
    shuffle: random.Random,
) -> Correlation | None:
    """Return the rank correlation of a method's scores and the effects of deletion; None if one side is constant.

    Controls are the mean over random orders of the scores, and the correlations of rivals that know no model.
    """
    assert len(scores) == len(effects), "a word without a token of its own"
    tau = kendall(scores, effects)
    if tau is None:
        return None
    permuted = [kendall(shuffle.sample(list(scores), len(scores)), effects) or 0.0 for _ in range(SHUFFLES)]
    simple = {name: kendall(values, effects) or 0.0 for name, values in rivals.items()}
    return Correlation(tau, {"permuted": fmean(permuted), **simple})


def attributions(trace: Trace) -> dict[str, list[float]]:
    """Return each source word's weight over the answer: per cross-attention, for their mean, and by rollout."""
    return {method: sum_by_word(trace, weights) for method, weights in source_weights(trace).items()}


def source_weights(trace: Trace) -> dict[str, Float[Tensor, "target source"]]:
    """Return the weights of tokens read for tokens written: per cross-attention, for their mean, and by rollout."""
    crosses = {
        attention.name: attention.values.float().cpu().mean(0)
        for attention in trace.weights
        if attention.name.endswith("cross")
    }
    mean = torch.stack(list(crosses.values())).mean(0)
    by_method = {**crosses, MEAN: mean}
    if any(attention.name.startswith("encoder") for attention in trace.weights):
        by_method[ROLLED_OUT] = mean @ rollout(trace)
    return by_method


def sum_by_word(trace: Trace, weights: Float[Tensor, "target source"]) -> list[float]:
    """Return the weight of each source word over all words of the answer and its end."""
    source, target = group_items(trace.items["source"]), group_items(trace.items["target"], specials=True)
    return merge(weights, target, source).sum(0).tolist()


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
