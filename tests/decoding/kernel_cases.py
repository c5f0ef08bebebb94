"""Whole searches by the fast path with Triton's interpreter in place of a GPU, against the plain search."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

from regard.attention import attend, cache
from regard.decoding import kernels, rounds
from regard.decoding.beam import Beam, search
from regard.models import lean
from regard.models.transformer import Transformer, TransformerConfig

ASKING = (attend, cache, lean, rounds)  # modules that ask whether kernels run
SHAPES: list[dict[str, Any]] = [
    {"positions": "sinusoidal", "norm": "post", "share": "all", "activation": "relu"},
    {"positions": "rotary", "norm": "pre", "groups": 1, "share": "target", "activation": "gelu"},
]


def kernels_run(answer: bool) -> None:
    """Let the modules believe that kernels run here, or that they do not."""
    for module in ASKING:
        module.kernels_run = lambda tensor: answer  # type: ignore[attr-defined]


def compare(model: Transformer, batch: int, beams: int, chance: random.Random) -> None:
    """The same tokens, paths and endings, and the same scores but for rounding."""
    inputs = torch.randint(41, (batch, 6)), torch.randint(1, 7, (batch,)), torch.ones(batch, 1, dtype=torch.int64)
    beam, limit = Beam(beams=beams, nbest=min(beams, 2)), [chance.randint(1, 5) for _ in range(batch)]
    kernels_run(False)
    plain = search(model, inputs, beam, limit=limit, eos=0)
    kernels_run(True)
    fast = rounds.search(lean.Lean(model), inputs, beam, limit=limit, eos=0)
    for ours, theirs in zip(fast, plain, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert (one.tokens, one.path, one.finished) == (other.tokens, other.path, other.finished)
            assert abs(one.score - other.score) < 1e-3


if __name__ == "__main__":
    kernels.CHUNK, kernels.CHUNKS = 16, 4  # so that a small vocabulary has several chunks
    torch.manual_seed(0)
    for shape in SHAPES:
        sizes = {"vocab": 41, "width": 16, "heads": 2, "hidden": 24, "encoder": 1, "decoder": 2, "context": 64}
        model = Transformer(TransformerConfig(**sizes, dropout=0.0, **shape)).eval()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
        for batch, beams in ((1, 4), (3, 2)):
            compare(model, batch, beams, random.Random(batch))
