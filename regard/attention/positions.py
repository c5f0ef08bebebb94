"""Positional encodings: tables added to embeddings, rotations of queries and keys, biases on scores.

A scheme acts in one of three ways, and every scheme has a method for each: `embed` returns what is added to a token's
vector, `turn` rotates queries and keys, `bias` returns what is added to scores by distance.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def normalised_table(length: int) -> Float[Tensor, "place 1"]:
    """Return the index divided by the last one: bounded, but a step has another meaning in every length."""
    return torch.arange(length)[:, None] / max(length - 1, 1)


def integer_table(length: int) -> Float[Tensor, "place 1"]:
    """Return the index itself: a step always has the same meaning, but values are unbounded."""
    return torch.arange(length)[:, None].float()


def binary_table(length: int, bits: int) -> Float[Tensor, "place bits"]:
    """Return the index in binary, lowest bit first: bit k flips every 2^k places."""
    return (torch.arange(length)[:, None] >> torch.arange(bits) & 1).float()


def sinusoidal_table(length: int, width: int, *, halves: bool = False) -> Float[Tensor, "place width"]:
    """Return `sin(place / 10000^(2i/width))` and its cosine, interleaved as in the paper or in two halves.

    A binary counter made smooth (Vaswani et al. 2017): wavelengths from 2 pi to 10000 x 2 pi.
    """
    rates = 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    waves = [angles.sin(), angles.cos()]
    table = torch.cat(waves, dim=1) if halves else torch.stack(waves, dim=2).flatten(1)
    return table[:, :width].float()


class Positions(nn.Module):
    """No positional encoding; attention then sees a bag of tokens. The base class of all schemes."""

    biased = False
    depth = 0
    """Features of each head that are turned; 0: none."""

    @property
    def room(self) -> int | None:
        """The number of positions; None if sequences may be of any length."""
        return None

    def embed(
        self, places: Int[Tensor, "*batch"], lengths: Int[Tensor, "*lengths"] | None = None
    ) -> Float[Tensor, "*out width"] | None:
        """Return what is added to token vectors at these places; `lengths` are those of the sequences, if known."""
        return None

    def turn(
        self, vectors: Float[Tensor, "*batch heads place depth"], places: Int[Tensor, "*places place"]
    ) -> Float[Tensor, "*batch heads place depth"]:
        """Return queries or keys, rotated according to their places."""
        return vectors

    def bias(self, distance: Int[Tensor, "*batch query key"]) -> Float[Tensor, "*batch heads query key"]:
        """Return what is added to scores, by the distance of a key after its query."""
        raise NotImplementedError(f"{type(self).__name__} adds nothing to scores")


class Table(Positions):
    """A fixed table added to the embeddings."""

    table: Tensor

    def __init__(self, table: Float[Tensor, "place width"]):
        super().__init__()
        self.register_buffer("table", table, persistent=False)

    @property
    def room(self) -> int:
        """The number of rows of the table."""
        return len(self.table)

    def embed(
        self, places: Int[Tensor, "*batch"], lengths: Int[Tensor, "*lengths"] | None = None
    ) -> Float[Tensor, "*batch width"]:
        """Return the rows of the table."""
        return self.table[places]


class Normalised(Positions):
    """The index divided by the last one of its sequence, on every feature; lengths must be known."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def embed(
        self, places: Int[Tensor, "*batch"], lengths: Int[Tensor, "*lengths"] | None = None
    ) -> Float[Tensor, "*out width"]:
        """Return values from 0 at the first token to 1 at the last; padding has larger ones."""
        assert lengths is not None, "a share of the length needs the length"
        share = places / (lengths - 1).clamp(min=1)
        return share[..., None].expand(*share.shape, self.width)


class Learned(Positions):
    """A learned table added to the embeddings (Gehring et al. 2017)."""

    def __init__(self, context: int, width: int):
        super().__init__()
        self.table = nn.Embedding(context, width)
        nn.init.normal_(self.table.weight, std=0.02)

    @property
    def room(self) -> int:
        """The number of rows of the table."""
        return self.table.num_embeddings

    def embed(
        self, places: Int[Tensor, "*batch"], lengths: Int[Tensor, "*lengths"] | None = None
    ) -> Float[Tensor, "*batch width"]:
        """Return the rows of the table."""
        return self.table(places)


class Rotary(Positions):
    """Rotary positions: queries and keys turn with their place, so that scores depend on distances (Su et al. 2021)."""

    rates: Tensor

    def __init__(self, depth: int, *, base: float = 10000.0):
        super().__init__()
        if depth % 2:
            raise ValueError(
                f"rotary positions turn pairs of features, and {depth} per head is odd: choose other heads"
            )
        self.depth = depth
        rates = base ** (-torch.arange(0, depth, 2).float() / depth)
        self.register_buffer("rates", rates, persistent=False)

    def turn(
        self, vectors: Float[Tensor, "*batch heads place depth"], places: Int[Tensor, "*places place"]
    ) -> Float[Tensor, "*batch heads place depth"]:
        """Rotate queries or keys; feature i turns together with feature i + depth/2."""
        angles = (places[..., None] * self.rates).unsqueeze(-3)  # add an axis for the heads
        first, second = vectors.chunk(2, dim=-1)
        cosine, sine = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class ALiBi(Positions):
    """A bias on scores: minus the distance times a slope for each head (Press et al. 2022)."""

    biased = True
    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def bias(self, distance: Int[Tensor, "*batch query key"]) -> Float[Tensor, "*batch heads query key"]:
        """Return minus slope times distance."""
        return -self.slopes[:, None, None] * distance.abs().unsqueeze(-3)


def alibi_slopes(heads: int) -> Float[Tensor, "heads"]:
    """Return a geometric series from 2^(-8/heads), filled up with every other slope of the next power of two."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    between = [2 ** (-4 * (2 * i + 1) / power) for i in range(heads - power)]
    return torch.tensor(slopes + between)


class Relative(Positions):
    """A learned bias per head and bucket of distances, exact when near, logarithmic when far (Raffel et al. 2020)."""

    biased = True

    def __init__(self, heads: int, *, causal: bool, buckets: int = 32, furthest: int = 128):
        super().__init__()
        self.causal, self.buckets, self.furthest = causal, buckets, furthest
        self.table = nn.Embedding(buckets, heads)
        nn.init.normal_(self.table.weight, std=0.02)

    def bias(self, distance: Int[Tensor, "*batch query key"]) -> Float[Tensor, "*batch heads query key"]:
        """Return the learned bias of the distance's bucket for each head."""
        return self.table(self.bucket(distance)).movedim(-1, -3)

    def bucket(self, distance: Int[Tensor, "*batch query key"]) -> Int[Tensor, "*batch query key"]:
        """Return the bucket of a distance; past and future have half of them each, unless attention is causal."""
        buckets = self.buckets if self.causal else self.buckets // 2
        shift = torch.zeros_like(distance) if self.causal else (distance > 0).long() * buckets
        far = (-distance).clamp(min=0) if self.causal else distance.abs()
        exact = buckets // 2
        logarithmic = (far.clamp(min=1).float() / exact).log() / math.log(self.furthest / exact) * (buckets - exact)
        return shift + torch.where(far < exact, far, (exact + logarithmic.long()).clamp(max=buckets - 1))


def scheme(name: str, *, width: int, heads: int, context: int, causal: bool) -> Positions:
    """Return the position scheme of this name for a stack of attention layers."""
    if name not in SCHEMES:
        raise ValueError(f"unknown position scheme {name}: choose one of {', '.join(SCHEMES)}")
    return SCHEMES[name](width, heads, context, causal)


def _binary_padded(context: int, width: int) -> Tensor:
    """Return binary codes on the first features and zeros on the rest."""
    bits = min(width, max(context - 1, 1).bit_length())
    return nn.functional.pad(binary_table(context, bits), (0, width - bits))


SCHEMES: dict[str, Callable[[int, int, int, bool], Positions]] = {
    "none": lambda width, heads, context, causal: Positions(),
    "sinusoidal": lambda width, heads, context, causal: Table(sinusoidal_table(context, width)),
    "sinusoidal_halves": lambda width, heads, context, causal: Table(sinusoidal_table(context, width, halves=True)),
    "learned": lambda width, heads, context, causal: Learned(context, width),
    "binary": lambda width, heads, context, causal: Table(_binary_padded(context, width)),
    "integer": lambda width, heads, context, causal: Table(integer_table(context).expand(-1, width)),
    # the last index of a text is unknown while it is generated: causal models use that of the context
    "normalised": lambda width, heads, context, causal: (
        Table(normalised_table(context).expand(-1, width)) if causal else Normalised(width)
    ),
    "rotary": lambda width, heads, context, causal: Rotary(width // heads),
    "alibi": lambda width, heads, context, causal: ALiBi(heads),
    "relative": lambda width, heads, context, causal: Relative(heads, causal=causal),
}
