"""What the tests of GPT, BERT and T5 share: exact sizes, weights that every path feels, texts packed and padded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regard import config
from regard.attention.masks import Grid, Row
from regard.models import MODELS
from regard.models.weights import Unfilled


def parameters(name: str, preset: str, **settings: Any) -> tuple[int, int]:
    """How many parameters the model of a preset has, without holding them, and how many its config says."""
    model, kind = MODELS[name]
    shape = config.build(kind, {"preset": preset, **settings})
    with Unfilled():
        built = model(shape)
    assert all(weight.is_meta for weight in built.parameters() if weight.numel() > 10**6)
    return sum(weight.numel() for weight in built.parameters()), shape.parameters


def shaken(model: nn.Module, *, std: float = 0.4) -> Any:
    """The model with weights large enough for every path to be felt, norms and biases too; ready to be used."""
    for weight in model.parameters():
        nn.init.normal_(weight, std=std) if weight.dim() > 1 else nn.init.uniform_(weight, 0.3, 1.3)
    return model.eval()


def texts(lengths: list[int], vocab: int) -> list[Tensor]:
    """Random sequences of tokens."""
    return [torch.randint(4, vocab, (length,)) for length in lengths]


def padded(texts: list[Tensor], filler: int = 0) -> tuple[Tensor, Grid]:
    """Texts as the lines of a batch."""
    lengths = torch.tensor([*map(len, texts)])
    return pad_sequence(texts, batch_first=True, padding_value=filler), Grid(lengths, int(lengths.max()))


def packed(texts: list[Tensor], *, fixed: bool = False) -> tuple[Tensor, Row]:
    """Texts end to end in a row, which may be filled up to a fixed shape."""
    lengths = [*map(len, texts)]
    if not fixed:
        return torch.cat(texts), Row.of(lengths)
    bounds = {"longest": max(lengths) + 1, "size": sum(lengths) + 5, "segments": len(lengths) + 4, "most": len(lengths)}
    return torch.cat([*texts, torch.zeros(5, dtype=torch.int64)]), Row.of(lengths, **bounds)
