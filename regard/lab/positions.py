"""Positional encodings and their properties, each checked on what a model would use; and pictures of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.positions import SCHEMES, Positions, scheme
from regard.interpret.draw import plots
from regard.lab.demonstration import Measurement

WIDTH, HEADS = 64, 8
NARROW = {"binary": 16, "integer": 1, "normalised": 1}  # features of schemes whose others repeat or are zero
LEARNED = ("learned", "relative")  # what is drawn of these is how they are initialised
DRAWN = 128  # positions of a picture
LONG = 200  # positions that are to be told apart
LONGEST = 2000  # positions of the longest sequence that is tried


class Encoding(NamedTuple):
    """What a scheme gives the first positions, or the first distances back, one in each row."""

    acts_on: str
    values: Float[Tensor, "position number"]
    row_label: str = "position"
    column_label: str = "feature"


class Properties(NamedTuple):
    """Desirable properties of a positional encoding."""

    scheme: str
    acts_on: str
    """What the encoding is given to: embeddings, queries and keys, or scores."""
    unique: bool
    """No two positions are encoded alike."""
    bounded: bool
    """No number grows with the length."""
    steady: bool
    """A step means the same in a sequence of any length."""


def properties(*, seed: int = 0) -> list[Properties]:
    """Return the properties of every scheme."""
    return [_check_properties(name, seed=seed) for name in SCHEMES]


def build(name: str, *, seed: int = 0) -> Positions:
    """Return a scheme as in a model that reads in both directions; `seed` initialises what is learned."""
    heads = 1 if name == "rotary" else HEADS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return scheme(name, width=NARROW.get(name, WIDTH), heads=heads, context=LONGEST, causal=False)


@torch.no_grad()
def encode(positions: Positions, length: int = DRAWN) -> Encoding:
    """Return what a scheme adds to embeddings, turns queries and keys by, or adds to scores."""
    length = min(length, positions.room or length)
    places = torch.arange(length)
    if positions.biased:
        return Encoding("scores", positions.bias(-places[None])[:, 0].T, "distance back", "head")
    if positions.depth:
        half = positions.depth // 2
        vectors = torch.cat([torch.ones(1, length, half), torch.zeros(1, length, half)], -1)
        return Encoding("queries and keys", positions.turn(vectors, places)[0])
    added = positions.embed(places, torch.tensor(length))
    return Encoding("nothing", torch.zeros(length, 1)) if added is None else Encoding("embeddings", added)


def encode_schemes(name: str | None = None, *, seed: int = 0) -> dict[str, Encoding]:
    """Return the encodings of one scheme, or of all, by their names."""
    return {each: encode(build(each, seed=seed)) for each in (SCHEMES if name is None else (name,))}


def find_positions(model: nn.Module) -> dict[str, Positions]:
    """Return the schemes of a model by their names in it, without those that do nothing."""
    named = ((name, module) for name, module in model.named_modules() if isinstance(module, Positions))
    return {name: positions for name, positions in named if encode(positions, 2).acts_on != "nothing"}


def draw(encodings: Mapping[str, Encoding], path: Path) -> None:
    """Save a heat map of each encoding."""
    panels = {f"{name} ({encoding.acts_on})": encoding[1:] for name, encoding in encodings.items()}
    plots.save(plots.positions(panels), path)


def describe(encodings: Mapping[str, Encoding]) -> list[str]:
    """Say what is drawn: position by number, and where that needs a word, what the numbers are."""
    learned = [name for name in encodings if name in LEARNED]
    acted_on = {encoding.acts_on for encoding in encodings.values()}
    return [
        f"the first {max(len(encoding.values) for encoding in encodings.values())} positions",
        *(["queries and keys: what becomes of pairs of features (1, 0)"] if "queries and keys" in acted_on else []),
        *([f"{' and '.join(learned)}: as initialised; --model draws what a model has learnt"] if learned else []),
    ]


def _check_properties(name: str, *, seed: int) -> Properties:
    positions = build(name, seed=seed)
    (acts_on, short, *_), (_, long, *_) = encode(positions, 20), encode(positions, LONG)
    unique = len(torch.unique(long, dim=0)) == len(long)
    is_bounded = bool(encode(positions, LONGEST).values.abs().max() <= 1.0)
    steady = torch.allclose(short[1] - short[0], long[1] - long[0])
    return Properties(name, acts_on, unique, is_bounded, steady)


def measure_distinct(name: str = "sinusoidal", *, seed: int = 0) -> Measurement:
    """Count the distinct encodings of many positions, compared with no encoding at all."""
    counts = [len(torch.unique(encode(build(each, seed=seed), LONG).values, dim=0)) for each in (name, "none")]
    return Measurement(f"different encodings of {LONG} positions", name, counts[0], "no positions", counts[1])
