"""Whole searches by the fast path with Triton's interpreter in place of a GPU, against the plain search."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

from regard.attention import attend, cache
from regard.attention.scores import dot
from regard.decoding import kernels, tables
from regard.decoding.beam import Beam, search
from regard.models.gpt import GPT, GPTConfig
from regard.models.inference import cuda, projection
from regard.models.t5 import T5, T5Config
from regard.models.transformer import Transformer, TransformerConfig

ASKING = (attend, cache, cuda, projection, tables)  # modules that ask whether kernels run
SHAPES: list[dict[str, Any]] = [
    {"positions": "sinusoidal", "norm": "post", "share": "all", "activation": "relu"},
    {"positions": "rotary", "norm": "pre", "groups": 1, "share": "target", "activation": "gelu"},
    {"positions": "alibi", "norm": "pre", "groups": 1},
    {"positions": "relative", "attention_bias": False},
]


TEXTS: list[dict[str, Any]] = [
    {"positions": "learned"},
    {"positions": "alibi", "embedding_norm": True, "norm": "post", "activation": "relu"},
    {"positions": "rotary", "normalisation": "rms", "eps": 1e-6, "activation": "silu", "gated": True, "groups": 1}
    | {"attention_bias": False, "mlp_bias": False, "tied": False},
    {"positions": "relative", "gated": True, "activation": "gelu"},
]


def kernels_run(answer: bool) -> None:
    """Let the modules believe that kernels run here, or that they do not."""
    for module in ASKING:
        module.kernels_run = lambda tensor: answer  # type: ignore[attr-defined]


def compare(model: Any, batch: int, beams: int, *, longest: int, limit: list[int]) -> None:
    """The same tokens, paths and endings, and the same scores but for rounding."""
    lengths = torch.randint(1, longest + 1, (batch,))
    lengths[0] = longest
    inputs = torch.randint(1, 41, (batch, longest)), lengths, torch.ones(batch, 1, dtype=torch.int64)
    beam = Beam(beams=beams, nbest=min(beams, 2))
    kernels_run(False)
    plain = search(model, inputs, beam, limit=limit, eos=0)
    kernels_run(True)
    fast = search(cuda.FusedDecoder(model), inputs, beam, limit=limit, eos=0)
    for ours, theirs in zip(fast, plain, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert (one.tokens, one.path, one.finished) == (other.tokens, other.path, other.finished)
            assert abs(one.score - other.score) < 1e-3


def drawn(shape: dict[str, Any], *, hidden: int = 24, decoder: int = 2, std: float = 0.5) -> Transformer:
    """A small model with weights that make it say something."""
    sizes = {"vocab": 41, "width": 16, "heads": 2, "hidden": hidden, "encoder": 1, "decoder": decoder, "context": 128}
    model = Transformer(TransformerConfig(**sizes, dropout=0.0, **shape)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    return model


def score_continuations(settings: dict[str, Any], batch: int, beams: int, limit: int) -> None:
    """A GPT says with kernels, step by step, what it says without them."""
    sizes = {"vocab": 41, "width": 24, "heads": 2, "hidden": 40, "depth": 1, "context": 64, "dropout": 0.0}
    model = GPT(GPTConfig(**sizes, **settings)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    prompts, lengths = torch.randint(41, (batch, 4)), torch.randint(1, 5, (batch,))
    fast = cuda.FusedDecoder(model)
    kernels_run(False)
    plain, past = model.start(prompts, lengths, beams=beams, limit=limit)
    _, fixed = fast.start(prompts, lengths, beams=beams, limit=limit)
    for _ in range(limit):
        tokens, parents = plain.argmax(-1), torch.randint(beams, (batch, beams))
        kernels_run(False)
        plain, past = model.step(tokens, past.reorder(parents))
        kernels_run(True)
        found, fixed = fast.step(tokens, fixed.reorder(parents))
        torch.testing.assert_close(found, plain, atol=1e-4, rtol=1e-4)


def run() -> None:
    """Every shape, and sizes that a kernel takes in several goes."""
    kernels.CHUNK, kernels.CHUNKS = 16, 4  # so that a small vocabulary has several chunks
    torch.manual_seed(0)
    for number, shape in enumerate(SHAPES):
        model = drawn(shape)
        if number == 2:
            for block in model.decoder:
                block.attention.score = block.cross.score = dot
        batch, beams = ((1, 4), (3, 2), (2, 2), (2, 2))[number]
        chance = random.Random(batch)
        compare(model, batch, beams, longest=6, limit=[chance.randint(1, 4) for _ in range(batch)])
    for number, settings in enumerate(TEXTS):
        score_continuations(settings, *((1, 1, 2), (2, 2, 1), (9, 2, 1), (1, 3, 1))[number])
    sizes = {"vocab": 41, "width": 16, "depth": 8, "heads": 4, "hidden": 24, "encoder": 1, "decoder": 2}
    reader = T5(T5Config(**sizes, buckets=8, furthest=6, gated=True, activation="gelu_tanh")).eval()
    for parameter in reader.parameters():
        nn.init.normal_(parameter, std=0.5)
    compare(reader, 2, 2, longest=5, limit=[2, 3])
    # More source, more features, more past than a kernel takes in one go.
    compare(drawn(SHAPES[0], decoder=1), 1, 2, longest=80, limit=[2])
    compare(drawn(SHAPES[1], hidden=600, decoder=1, std=0.2), 1, 8, longest=3, limit=[11])
