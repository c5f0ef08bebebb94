"""Estimates of a training run: what is planned, and its cost."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from regard.config.ranges import Amount, Count, Length, Part, Range, Small
from regard.cost import memory, sizes
from regard.cost.gpus import duration, gpu, peak, price
from regard.cost.memory import Memory, Optimizer
from regard.cost.trace import Lengths, Precision, operations, trace
from regard.models.interface import Model

SENTENCE = 25  # tokens of an average sentence
STEP = 1 << 15  # tokens in a step if the number of sequences is not set
MASKED = 0.15  # share of tokens that a masked language model predicts


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a training run."""

    length: Length | None = None
    """Tokens of a sequence, on average; not given: the context, or 25 where a source is read and a target written."""
    target: Length | None = None
    """Tokens of a target, where there is one; not given: as many as the source has."""
    batch: Count | None = None
    """Sequences in a step, over all GPUs; not given: as many as make 32,768 tokens."""
    steps: Count = 100_000
    """Updates."""
    tokens: Count | None = None
    """Tokens read in all, in place of steps."""
    predicted: Part | None = None
    """Part of the tokens that is predicted; not given: all, of masked language models 0.15."""
    optimizer: Optimizer = "adamw"
    """What the weights are trained with: adamw, muon, sgd, or adamw on LoRA's adapters alone."""
    rank: Small = 8
    """Rank of LoRA's adapters, which go beside the projections of queries and values."""
    gpu: str = "H100"
    """Which GPU; see GPUS."""
    count: Count = 1
    """How many of them."""
    precision: Precision = "half"
    """Numbers the products are computed in: bf16 or fp16, or single precision."""
    share: Annotated[float, Range(above=0, most=1)] = 0.35
    """Part of the peak that training reaches."""
    hourly: Amount = 0.0
    """Price of one GPU for an hour."""


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a plan; bytes are for each GPU."""

    parts: dict[str, int]
    """Parameters of each part."""
    lengths: Lengths
    tokens: int
    """Tokens of a sequence, source and target together; 1 of what is no sequence."""
    batch: int
    """Sequences in a step."""
    forward: float
    """Operations for a token, of the model only reading; a model that reads no tokens: for an example."""
    training: float
    """The same in training, forward and backward, with logits of what is predicted alone."""
    operations: float
    """Of the whole training."""
    memory: dict[str, Memory]
    """While training, by the optimizer."""
    use: dict[str, dict[int, int]]
    """Bytes while the model is used, by precision and context."""
    fits: bool
    seconds: float
    price: float
    rule_operations: float
    """Of the whole training by the rule of thumb, without attention; so are the two below."""
    rule_seconds: float
    rule_price: float

    @property
    def parameters(self) -> int:
        """The number of all parameters."""
        return sum(self.parts.values())

    @property
    def rule(self) -> int:
        """Training operations per token by the rule of thumb: six for every parameter (Kaplan et al. 2020)."""
        return 6 * self.parameters


def estimate(config: Any, plan: Plan) -> Estimate:
    """Return parameters, operations, memory, time and price of a model and of its training as planned."""
    processor = gpu(plan.gpu)
    model = sizes.build_without_weights(config)
    lengths = lengths_of(model, plan)
    tokens = tokens_of(model, lengths)
    batch = plan.batch or max(1, STEP // tokens)
    traced = trace(config, lengths, plan.precision)
    share = plan.predicted if plan.predicted is not None else MASKED if config.predicts_masked else 1.0
    per_sequence = traced.body + share * traced.head
    sequences = plan.steps * batch if plan.tokens is None else plan.tokens / tokens
    total = 3 * sequences * per_sequence
    batch_per_gpu = -(-batch // plan.count)
    load = memory.Load(batch_per_gpu, round(share * batch_per_gpu * lengths.target), plan.precision, plan.rank)
    memory_by_optimizer = {how: memory.training(model, traced, load, how) for how in get_args(Optimizer)}
    rate = plan.share * peak(plan.gpu, plan.precision)
    seconds = duration(total, rate=rate, count=plan.count)
    parts = {name: sizes.count(tensors) for name, tensors in sizes.parts(model).items()}
    by_rule = 6 * sum(parts.values()) * sequences * tokens
    rule_seconds = duration(by_rule, rate=rate, count=plan.count)
    return Estimate(
        parts=parts,
        lengths=lengths,
        tokens=tokens,
        batch=batch,
        forward=(traced.body + traced.head) / tokens,
        training=3 * per_sequence / tokens,
        operations=total,
        memory=memory_by_optimizer,
        use=_use(model, config, lengths),
        fits=memory_by_optimizer[plan.optimizer].total < processor.memory,
        seconds=seconds,
        price=price(seconds, hourly=plan.hourly, count=plan.count),
        rule_operations=by_rule,
        rule_seconds=rule_seconds,
        rule_price=price(rule_seconds, hourly=plan.hourly, count=plan.count),
    )


def flops(config: Any, length: int, target: int | None = None) -> int:
    """Return the operations of one forward pass over a sequence, or over a source and a target, logits included."""
    return sum(operations(config, Lengths(length, length if target is None else target)))


def forward(config: Any, length: int) -> float:
    """Return the operations per token of a forward pass over sequences of this length; without sequences, per example.

    For a model that always reads its whole context, the length is that context.
    """
    length = config.context if config.reads_whole else length
    return flops(config, length) / tokens_of(sizes.build_without_weights(config), Lengths(length, length))


def lengths_of(model: Any, plan: Plan) -> Lengths:
    """Return the sequence lengths: planned ones, or else the model's context, or an average sentence."""
    pairs = "target" in inspect.signature(model.forward).parameters
    usual = SENTENCE if pairs else model.config.context or SENTENCE
    length = plan.length or usual
    return Lengths(length, plan.target or length if pairs else length)


def tokens_of(model: Any, lengths: Lengths) -> int:
    """Return the tokens of one sequence, source and target together; 1 if the input is no sequence."""
    inputs = inspect.signature(model.forward).parameters
    if "target" in inputs:
        return lengths.source + lengths.target
    return lengths.source if {"tokens", "words", "frames"} & set(inputs) else 1


def units_of(config: Any, length: int | None, target: int | None) -> int:
    """Return the tokens of one sequence of a model, source and target together; 1 if the input is no sequence."""
    model = sizes.build_without_weights(config)
    return tokens_of(model, lengths_of(model, Plan(length=length, target=target)))


def sequences_in(config: Any, tokens: int, plan: Plan) -> int:
    """Return how many sequences of the planned length make a row of so many tokens, source and target side by side."""
    lengths = lengths_of(sizes.build_without_weights(config), plan)
    return max(1, tokens // max(lengths.source, lengths.target))


def _use(model: Any, config: Any, lengths: Lengths) -> dict[str, dict[int, int]]:
    """Return the memory for inference in bytes, by precision and by context length."""
    longest = config.context or lengths.target
    writes = isinstance(model, Model) and model.stack is not None
    contexts = sorted({max(1, longest // 16), max(1, longest // 4), longest}) if writes else [0]
    return {
        stored: {
            context: memory.use(model, context=context, source=lengths.source, precision=stored) for context in contexts
        }
        for stored in memory.STORED
    }
