"""The edge list of a graph, sorted once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Edges:
    """Queries and keys are nodes; a query sees the keys at the other end of its edges, which are sorted by query."""

    query: Int[Tensor, "edge"]
    key: Int[Tensor, "edge"]
    nodes: int
    offsets: Int[Tensor, "bounds"]
    """Where the edges of each query begin, and after the last of them."""
    back: Int[Tensor, "edge"]
    """The edges key by key: what is sent along them is gathered in this order when gradients go back."""
    back_offsets: Int[Tensor, "bounds"]

    @classmethod
    def of(cls, query: Int[Tensor, "edge"], key: Int[Tensor, "edge"], nodes: int) -> Edges:
        """Sort edges that may be in any order."""
        order = torch.argsort(key, stable=True)
        order = order[torch.argsort(query[order], stable=True)]
        query, key = query[order], key[order]
        return cls(query, key, nodes, _bounds(query, nodes), torch.argsort(key, stable=True), _bounds(key, nodes))

    def visible_pairs(self) -> Bool[Tensor, "nodes nodes"]:
        """Return the dense boolean mask of the edges, True at [query, key]."""
        dense = torch.zeros(self.nodes, self.nodes, dtype=torch.bool, device=self.query.device)
        return dense.index_put((self.query, self.key), torch.ones_like(self.query, dtype=torch.bool))

    def places(self, queries: int, keys: int) -> tuple[Tensor, Tensor]:
        """Raise ValueError: the nodes of a graph have no positions."""
        raise ValueError("a graph has no positions: use no positional encoding on edges")


def _bounds(ends: Int[Tensor, "edge"], nodes: int) -> Int[Tensor, "bounds"]:
    """Return how many edges come before those of each node, and the number of all edges."""
    return torch.cat([ends.new_zeros(1), torch.bincount(ends, minlength=nodes).cumsum(0)])
