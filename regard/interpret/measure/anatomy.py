"""Anatomy of a ViT: patch filters, similarity of positions, and the attention distance of each head.

The three plots of Dosovitskiy et al. 2021, figure 7: principal components of the patch embedding, cosines between
position embeddings, and the mean attention distance of patches, by block and head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.hardware import device_of
from regard.interpret.watch import watch
from regard.models.vit import ViT

FILTERS = 28
CHUNK = 8  # images per batch: a large model has a hundred thousand weights per head
Plane = tuple[int, int]


@dataclass(frozen=True)
class Anatomy:
    """The anatomy of a ViT."""

    filters: Float[Tensor, "filter channels y x"]
    """Principal components of the patch embedding, the largest first, of length 1."""
    explained: Float[Tensor, "filter"]
    """Share of the variance of the patch embedding explained by each component."""
    likeness: Float[Tensor, "patch other"] | None
    """Cosine similarities of the positional encodings of patches, row by row; None without such encodings."""
    distances: Float[Tensor, "block head"]
    """Mean attention distance: pixels between the centres of patches, weighted by attention."""
    even: float
    """The same for a head with uniform attention."""
    grid: Plane
    pictures: int

    def plain(self) -> dict[str, Any]:
        """Return the fields for JSON, without the filters."""
        return {
            "pictures": self.pictures,
            "grid": list(self.grid),
            "distances": _round_nested(self.distances),
            "even": round(self.even, 4),
            "explained": _round_nested(self.explained),
            "likeness": None if self.likeness is None else _round_nested(self.likeness),
        }


@torch.no_grad()
def anatomy(model: Any, pixels: Float[Tensor, "picture channels height width"]) -> Anatomy:
    """Return the anatomy of a ViT, with distances averaged over images."""
    if not isinstance(model, ViT):
        raise ValueError(f"{model.config.name} reads no patches, and this is the anatomy of a ViT: choose such a model")
    shape, (rows, columns) = model.config, model.grid
    filters = model.patches.weight.float().cpu().unflatten(1, (shape.channels, shape.patch, shape.patch))
    added = model.positions.embed(torch.arange(shape.before + rows * columns, device=device_of(model)))
    apart = shape.patch * steps(model.grid)
    total = torch.zeros(shape.depth, shape.heads)
    for chunk in pixels.split(CHUNK):
        with watch(model) as record:
            model(chunk)
        blocks = [torch.stack(record[name]).float().cpu() for name in record if name.startswith("blocks.")]
        total += torch.stack(
            [distance(block_weights[..., shape.before :, shape.before :], apart).sum(0) for block_weights in blocks]
        )
    return Anatomy(
        *components(filters),
        None if added is None else likeness(added[shape.before :].float().cpu()),
        total / len(pixels),
        float(apart.mean()),
        model.grid,
        len(pixels),
    )


def components(
    filters: Float[Tensor, "width channels y x"], count: int = FILTERS
) -> tuple[Float[Tensor, "filter channels y x"], Float[Tensor, "filter"]]:
    """Return the principal components of filters, positive where strongest, and their shares of the variance."""
    flat = filters.flatten(1)
    _, sizes, directions = torch.linalg.svd(flat - flat.mean(0), full_matrices=False)
    strongest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    shares = sizes.square() / sizes.square().sum().clamp(min=torch.finfo(sizes.dtype).tiny)
    return (directions * strongest.sign()).unflatten(1, filters.shape[1:])[:count], shares[:count]


def likeness(positions: Float[Tensor, "place width"]) -> Float[Tensor, "place other"]:
    """Return the cosine similarity of every pair of position embeddings."""
    unit = torch.nn.functional.normalize(positions, dim=1)
    return unit @ unit.T


def steps(grid: Plane) -> Float[Tensor, "patch other"]:
    """Return the distances between the centres of patches, in patches."""
    places = torch.cartesian_prod(*(torch.arange(side, dtype=torch.float32) for side in grid))
    return torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")


def distance(
    weights: Float[Tensor, "*batch patch other"], apart: Float[Tensor, "patch other"]
) -> Float[Tensor, "*batch"]:
    """Return the mean attention distance between patches, without the weights of other tokens."""
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    return (shares * apart).sum(-1).mean(-1)


def lines(vit_anatomy: Anatomy) -> list[list[str]]:
    """Return one line per block: the distances of its heads in ascending order."""
    ordered: Sequence[Sequence[float]] = vit_anatomy.distances.sort(1).values.tolist()
    return [
        [f"{block}", " ".join(f"{pixels:.1f}" for pixels in row_distances)]
        for block, row_distances in enumerate(ordered)
    ]


def _round_nested(values: Tensor) -> Any:
    return (
        [_round_nested(part) for part in values] if values.dim() > 1 else [round(part, 4) for part in values.tolist()]
    )
