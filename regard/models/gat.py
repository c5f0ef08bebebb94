"""GAT, the graph attention network: nodes look along their edges (Velickovic et al. 2018).

In every layer a node `i` weighs itself and its neighbours `j` and takes the weighted mean of what they project:

    h'_i = sum_j alpha_ij W h_j + b,    alpha_ij = softmax_j LeakyReLU(a . [W h_i ; W h_j])

Heads stand side by side, those of the last layer are averaged; between layers ELU, and dropout of features and weights.

`attention: gcn` is the sum of a GCN, the graph convolutional network, in which weights are not learnt but follow from
degrees, loops counted: `h'_i = sum_j W h_j / sqrt(d_i d_j) + b` (Kipf and Welling 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import AttentionSpec, attend
from regard.attention.edge_list import Edges
from regard.attention.masks import Mask
from regard.attention.scores import Graph
from regard.attention.tap import Tap
from regard.config.ranges import Amount, Share, Small, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Model, ModelConfig, Traits
from regard.models.parts.sparse import Sparse

Features = Tensor | Sparse


@dataclass(frozen=True, kw_only=True)
class GATConfig(ModelConfig):
    """A graph attention network."""

    name: Literal["gat"] = "gat"
    """Which model this is."""
    inputs: Vocabulary = 0
    """Features of a node; filled in from the graph."""
    classes: Vocabulary = 0
    """Classes of nodes; filled in from the graph."""
    layers: Small = 2
    """Layers; with n of them a node sees others up to n edges away."""
    width: Width = 8
    """Features of each head in layers before the last."""
    heads: Small = 8
    """Heads of those layers, concatenated."""
    last: Small = 1
    """Heads of the last layer, averaged."""
    dropout: Warned[Share] = 0.6
    """Dropout rate of features, before each layer."""
    attention_dropout: Warned[Share] = 0.6
    """Dropout rate of attention weights."""
    slope: Amount = 0.2
    """What LeakyReLU multiplies negative scores by."""
    attention: Literal["graph", "gcn", "equal", "none"] = "graph"
    """How neighbours are weighted: by learnt scores (graph); by degrees alone, as in a graph convolutional network
    (gcn); all alike (equal), or by looking at no neighbour (none), for comparison."""

    def __post_init__(self) -> None:
        check_affordable(self.parameters, "lower model.width or model.heads")

    @property
    def parameters(self) -> int:
        """The number of parameters of all layers."""
        wide = self.heads * self.width
        scores = 2 if self.attention == "graph" else 0
        before = (self.inputs + (self.layers - 2) * wide + scores * (self.layers - 1) + self.layers - 1) * wide
        inputs = wide if self.layers > 1 else self.inputs
        last = self.last * self.classes * (inputs + scores) + self.classes
        return (before if self.layers > 1 else 0) + last


class Equal(nn.Module):
    """A constant score: all pairs have the same weight."""

    def halves(
        self, query: Float[Tensor, "heads query depth"], key: Float[Tensor, "heads key depth"]
    ) -> tuple[Float[Tensor, "heads query"], Float[Tensor, "heads key"]]:
        """Return zeros for both nodes of a pair."""
        return torch.zeros_like(query[..., 0]), torch.zeros_like(key[..., 0])

    def meet(self, total: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
        """Return the sum of both halves unchanged."""
        return total

    def forward(
        self, query: Float[Tensor, "*q query depth"], key: Float[Tensor, "*k key depth"]
    ) -> Float[Tensor, "*s query key"]:
        """Return zero for every pair."""
        return torch.zeros_like(query @ key.mT)


@dataclass(frozen=True, eq=False)
class DegreeScore:
    """Scores whose softmax over the edges of node i is `1 / sqrt(d_i d_j)`, as shares of what these sum to."""

    logs: Float[Tensor, "node"]
    """The score of each node as a neighbour: `-log(d_j) / 2`."""
    totals: Float[Tensor, "node"]
    """The sum of `1 / sqrt(d_i d_j)` over the edges of each node."""

    @classmethod
    def of(cls, edges: Edges) -> DegreeScore:
        """Compute degrees and sums of a graph; a node without edges has the degree 1."""
        roots = edges.offsets.diff().clamp(min=1).float().rsqrt()
        sums = F.embedding_bag(edges.key, roots[:, None], edges.offsets, mode="sum", include_last_offset=True)
        return cls(roots.log(), roots * sums[:, 0])

    def halves(
        self, query: Float[Tensor, "heads query depth"], key: Float[Tensor, "heads key depth"]
    ) -> tuple[Float[Tensor, "heads query"], Float[Tensor, "heads key"]]:
        """Return zeros for the query nodes and `-log(d_j) / 2` for the key nodes."""
        return torch.zeros_like(query[..., 0]), self.logs.to(key.dtype).expand(len(key), -1)

    def meet(self, total: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
        """Return the sum of both halves unchanged."""
        return total

    def __call__(self, query: Float[Tensor, "*q query depth"], key: Float[Tensor, "*k key depth"]) -> Tensor:
        """Return the score of every pair, which depends on its key node only."""
        return torch.zeros_like(query @ key.mT) + self.logs


class GraphAttention(nn.Module):
    """One layer of graph attention: project, attend along the edges, and concatenate or average the heads."""

    def __init__(self, inputs: int, depth: int, heads: int, *, averaged: bool, config: GATConfig):
        super().__init__()
        self.heads, self.averaged, self.dropout = heads, averaged, config.attention_dropout
        self.project = nn.Linear(inputs, heads * depth, bias=False)
        self.score = Graph(depth, heads=heads, slope=config.slope) if config.attention == "graph" else Equal()
        self.by_degree = config.attention == "gcn"
        self.bias = nn.Parameter(torch.zeros(depth if averaged else heads * depth))
        self.weights = Tap()
        nn.init.xavier_uniform_(self.project.weight)
        for part in self.score.parameters():
            nn.init.xavier_uniform_(part.squeeze(-1))

    def forward(self, x: Features, mask: Mask) -> Float[Tensor, "node features"]:
        """Return the new features of every node, aggregated from its neighbours."""
        flat = x.product(self.project.weight) if isinstance(x, Sparse) else self.project(x)
        nodes = flat.unflatten(-1, (self.heads, -1)).transpose(0, 1).contiguous()  # (heads, node, depth)
        dropout = self.dropout if self.training else 0.0
        degrees = self._degree_score(mask) if self.by_degree else None
        score = self.score if degrees is None else degrees
        mixed = attend(nodes, nodes, nodes, mask=mask, way=AttentionSpec(score, dropout=dropout, tap=self.weights))
        mixed = mixed if degrees is None else mixed * degrees.totals[:, None]
        return (mixed.mean(0) if self.averaged else mixed.transpose(0, 1).flatten(1)) + self.bias

    @staticmethod
    def _degree_score(mask: Mask) -> DegreeScore:
        where = mask.where
        assert isinstance(where, Edges), "degrees are those of edges"
        return mask.once("degrees", lambda: DegreeScore.of(where))


class GAT(Model):
    """A stack of graph attention layers over a whole graph, computed in full precision."""

    traits = Traits(compilable=False)  # a step is a few dozen kernels over one shape: it is recorded as it is

    def __init__(self, config: GATConfig):
        super().__init__()
        self.config = config
        wide = config.heads * config.width
        sizes = [config.inputs, *[wide] * (config.layers - 1)]
        self.layers = nn.ModuleList(
            GraphAttention(before, config.width, config.heads, averaged=False, config=config) for before in sizes[:-1]
        )
        self.layers.append(GraphAttention(sizes[-1], config.classes, config.last, averaged=True, config=config))

    def forward(self, x: Features, mask: Mask) -> Float[Tensor, "node classes"]:
        """Return the class logits of every node."""
        with torch.autocast((x.values if isinstance(x, Sparse) else x).device.type, enabled=False):
            for number, layer in enumerate(self.layers):
                x = F.elu(x) if number and isinstance(x, Tensor) else x
                x = self._drop_features(x)
                x = layer(x, mask)
            assert isinstance(x, Tensor)
            return x

    def _drop_features(self, x: Features) -> Features:
        rate = self.config.dropout if self.training else 0.0
        return x.dropout(rate) if isinstance(x, Sparse) else F.dropout(x, rate)
