"""What a model costs: parameters, operations, memory, time and money of training it, on paper.

Operations are floating-point operations of matrix products, two for each multiply-add, as profilers count them; a
training step costs three times its forward pass.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch

from regard import models
from regard.config.ranges import Amount, Count, Length, Range
from regard.models.transformer import TransformerConfig


def parameters(config: Any) -> int:
    """How many numbers the model of this config learns: built without memory, so it is exact and instant."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in models.build(config).parameters())


def flops(config: TransformerConfig, source: int, target: int) -> int:
    """Operations of one forward pass over a source and a target of so many tokens, logits included."""
    width, shared = config.width, config.width * (config.groups or config.heads) // config.heads

    def attention(queries: int, keys: int) -> int:
        return 4 * queries * width * width + 4 * keys * width * shared + 4 * queries * keys * width

    def feed_forward(tokens: int) -> int:
        return 4 * tokens * width * config.hidden

    encoder = attention(source, source) + feed_forward(source)
    decoder = attention(target, target) + attention(target, source) + feed_forward(target)
    logits = 2 * target * width * (config.target_vocab or config.vocab)
    return config.encoder * encoder + config.decoder * decoder + logits


def activations(config: TransformerConfig, source: int, target: int) -> int:
    """About how many numbers one training example keeps for the backward pass."""
    width = config.width
    inner = config.hidden if config.activation == "relu" else 2 * config.hidden
    encoder = source * (9 * width + inner)
    decoder = target * (14 * width + inner) + 2 * source * width
    return config.encoder * encoder + config.decoder * decoder + 2 * target * (config.target_vocab or config.vocab)


@dataclass(frozen=True)
class GPU:
    """A processor as its maker describes it: bytes of memory, peak operations a second without sparsity."""

    memory: float
    fp32: float
    half: float


GPUS = {
    "P100": GPU(16e9, 10.6e12, 21.2e12),
    "V100": GPU(32e9, 15.7e12, 125e12),
    "T4": GPU(16e9, 8.1e12, 65e12),
    "RTX3090": GPU(24e9, 35.6e12, 71e12),
    "RTX4090": GPU(24e9, 82.6e12, 165.2e12),
    "L4": GPU(24e9, 30.3e12, 121e12),
    "A100": GPU(80e9, 19.5e12, 312e12),
    "H100": GPU(80e9, 67e12, 989e12),
    "H200": GPU(141e9, 67e12, 989e12),
}


def gpu(name: str) -> GPU:
    """The GPU of that name."""
    if name not in GPUS:
        raise ValueError(f"unknown GPU {name}: choose one of {', '.join(GPUS)}")
    return GPUS[name]


def duration(operations: float, *, rate: float, count: int = 1) -> float:
    """Seconds that so many GPUs take, each reaching `rate` operations a second."""
    return operations / (rate * count)


def price(seconds: float, *, hourly: float, count: int = 1) -> float:
    """What so many GPUs cost for that long."""
    return seconds / 3600 * hourly * count


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A training run on paper."""

    source: Length = 25
    """Tokens of a source sentence, on average."""
    target: Length = 25
    """Tokens of a target sentence, on average."""
    pairs: Count = 1000
    """Sentence pairs in a step, over all GPUs."""
    steps: Count = 100_000
    """Updates."""
    gpu: str = "H100"
    """Which GPU; see GPUS."""
    count: Count = 1
    """How many of them."""
    precision: Literal["half", "fp32"] = "half"
    """Numbers the products are computed in: bf16 or fp16, or single precision."""
    share: Annotated[float, Range(above=0, most=1)] = 0.35
    """Part of the peak that training reaches."""
    hourly: Amount = 0.0
    """Price of one GPU for an hour."""


@dataclass(frozen=True)
class Estimate:
    """What a plan comes to; bytes are for each GPU."""

    parameters: int
    operations: int
    weights: int
    optimizer: int
    """Bytes of gradients and of Adam's two moments."""
    activations: int
    fits: bool
    seconds: float
    price: float

    @property
    def memory(self) -> int:
        """All bytes on each GPU."""
        return self.weights + self.optimizer + self.activations


def estimate(config: TransformerConfig, plan: Plan) -> Estimate:
    """Parameters, operations, memory, time and price of training a model as planned."""
    processor = gpu(plan.gpu)
    learned = parameters(config)
    operations = 3 * plan.steps * plan.pairs * flops(config, plan.source, plan.target)
    kept = training_memory(config, source=plan.source, target=plan.target, pairs=-(-plan.pairs // plan.count))
    if plan.precision == "half":
        kept["activations"] //= 2
    rate = plan.share * (processor.half if plan.precision == "half" else processor.fp32)
    seconds = duration(operations, rate=rate, count=plan.count)
    return Estimate(
        parameters=learned,
        operations=operations,
        **kept,
        fits=sum(kept.values()) < processor.memory,
        seconds=seconds,
        price=price(seconds, hourly=plan.hourly, count=plan.count),
    )


def training_memory(config: TransformerConfig, *, source: int, target: int, pairs: int) -> dict[str, int]:
    """Bytes held while training in single precision with Adam: weights, optimizer and about so much of activations."""
    learned = parameters(config)
    return {
        "weights": 4 * learned,
        "optimizer": 12 * learned,
        "activations": 4 * pairs * activations(config, source, target),
    }
