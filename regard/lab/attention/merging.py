"""Heads put side by side before the output projection, or added up."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.multihead import Heads, MultiHead
from regard.lab.attention.permutation import WORDS, collect_weights, embed_words
from regard.lab.demonstration import Demonstration, LabelledMatrix, Measurement

WIDTH, HEADS = 16, 4


@torch.no_grad()
def merge_heads(*, seed: int = 0) -> Demonstration:
    """Compare concatenated heads with summed heads that share the same projections."""
    x = embed_words(WORDS, width=WIDTH, seed=seed)[None]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        side_by_side = MultiHead(WIDTH, HEADS).double().eval()
        summed = MultiHead(WIDTH, Heads(HEADS, merge="add")).double().eval()
    for name in ("query", "key", "value"):
        getattr(summed, name).load_state_dict(getattr(side_by_side, name).state_dict())
    summed.output.weight.copy_(side_by_side.output_by_head()[0].T)  # the part of the first head
    summed.output.bias.copy_(side_by_side.output.bias)
    order = torch.arange(HEADS).roll(1)
    tables = LabelledMatrix(
        f"{HEADS} heads, {WIDTH} wide",
        ["concatenated", "added up"],
        ["numbers of the output projection", "of all four projections"],
        [
            [sum(p.numel() for p in part.parameters()) for part in (layer.output, layer)]
            for layer in (side_by_side, summed)
        ],
        digits=0,
    )
    measurements = [
        Measurement(
            "change of the output when the heads change places",
            "concatenated",
            change_of_order(side_by_side, x, order),
            "added up",
            change_of_order(summed, x, order),
        )
    ]
    matrices = [
        LabelledMatrix(f"Head {number + 1}", WORDS, WORDS, weights.tolist())
        for number, weights in enumerate(collect_weights(side_by_side, x))
    ]
    return Demonstration("Heads: concatenated or added up", measurements, matrices=matrices, tables=[tables])


def change_of_order(layer: MultiHead, x: Float[Tensor, "1 word width"], order: Tensor) -> float:
    """Return the largest change in the output when the heads are permuted before the output projection."""
    value = layer.value(x).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
    heads = collect_weights(layer, x) @ value[0]  # (head, word, features)
    outputs = [layer.output(mixed.transpose(0, 1).flatten(1)) for mixed in (heads, heads[order])]
    return float((outputs[0] - outputs[1]).abs().max())
