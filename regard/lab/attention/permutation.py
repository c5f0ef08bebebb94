"""What changes when words are put in another order: nothing but the order, unless positions are added."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.multihead import MultiHead
from regard.attention.positions import sinusoidal_table
from regard.lab.demonstration import Demonstration, LabelledMatrix, Measurement

WORDS = ("dog", "bites", "man")
WIDTH, HEADS = 16, 2


def embed_words(words: Sequence[str], *, width: int = WIDTH, seed: int = 0) -> Float[Tensor, "word width"]:
    """Return a random vector for every word, the same for the same word."""
    vocabulary = sorted(set(words))
    table = torch.randn(len(vocabulary), width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return table[[vocabulary.index(word) for word in words]]


@torch.no_grad()
def reverse_words(words: Sequence[str] = WORDS, *, seed: int = 0) -> Demonstration:
    """Compare attention over words in their order and in reverse order."""
    vectors = embed_words(words, seed=seed)
    backwards = list(range(len(words)))[::-1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        attention = MultiHead(WIDTH, HEADS).double().eval()
        fixed_query = torch.randn(1, 1, WIDTH, dtype=torch.float64)
    changes, matrices = [], []
    for name, positions in (("no positions", 0.0), ("positions", sinusoidal_table(len(words), WIDTH).double())):
        x, y = (vectors + positions)[None], (vectors[backwards] + positions)[None]
        self_change = attention(x)[0] - attention(y)[0][backwards]
        fixed_change = attention(fixed_query, memory=x) - attention(fixed_query, memory=y)
        changes.append([float(change.abs().max()) for change in (self_change, fixed_change)])
        for order, read in ((list(range(len(words))), x), (backwards, y)):
            names = [words[place] for place in order]
            matrices.append(LabelledMatrix(name, names, names, collect_weights(attention, read).mean(0).tolist()))
    table = LabelledMatrix(
        f"Largest change of an output when {' '.join(words)} becomes {' '.join(words[::-1])}",
        ["self-attention, word by word", "fixed query"],
        ["without positions", "with positions"],
        [[changes[0][row], changes[1][row]] for row in (0, 1)],
        digits=6,
    )
    measurements = [
        Measurement(f"change of {name}", "positions added", changes[1][row], "no positions", changes[0][row])
        for row, name in enumerate(("the output of a word", "the output of a fixed query"))
    ]
    return Demonstration("Words in reverse order", measurements, matrices=matrices, tables=[table])


def collect_weights(layer: MultiHead, x: Float[Tensor, "1 word width"]) -> Float[Tensor, "heads word word"]:
    """Return the attention weights of every head."""
    collected: list[Tensor] = []
    hook = layer.weights.register_forward_hook(lambda module, inputs, weights: collected.append(weights[0]))
    layer(x)
    hook.remove()
    return collected[0]
