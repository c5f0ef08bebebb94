"""A recurrent language model, which predicts the next token of a text.

Mikolov et al. 2010; with LSTM cells and dropout between layers, Zaremba et al. 2014; one mask for all steps of a
window, Gal and Ghahramani 2016; input and output as one matrix, Press and Wolf 2017, Inan et al. 2017; weights between
states with dropout, Merity et al. 2018.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from regard.config.ranges import Share, Small, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, TokenModel, Traits, read_settings
from regard.models.parts.cells import Kind, Layers

READ = 1024  # tokens of a prompt read at a time
BETWEEN = re.compile(r"weight_hh|state\.weight")  # weights from one state to the next


@dataclass(frozen=True, kw_only=True)
class RecurrentLMConfig(ModelConfig):
    """Recurrent layers that predict the next token of a text."""

    name: Literal["rnn-lm"] = "rnn-lm"
    """Which model this is."""
    vocab: Vocabulary = 0
    """Tokens of the vocabulary; filled in from the text."""
    cell: Kind = "lstm"
    """Recurrent cell; gru resets its state after the product as cuDNN does, gru_before as first published."""
    width: Width = 256
    """Features of every layer's state."""
    embedding: Width | None = None
    """Features of a token; null: as many as the state has."""
    depth: Small = 2
    """Layers on top of one another."""
    tied: bool = False
    """Predict tokens with the matrix that embeds them."""
    dropout: Warned[Share] = 0.0
    """Dropout rate, applied to embeddings, between layers, and before the output."""
    locked: bool = False
    """Drop the same features at all steps of a window."""
    recurrent_dropout: Warned[Share] = 0.0
    """Dropout rate of the recurrent weights, the same ones at all steps of a window."""
    fused: bool = True
    """Use kernels for whole layers where there are some; false writes every step out."""

    def __post_init__(self) -> None:
        check_affordable(self.parameters, "lower width, depth or the vocabulary")

    @property
    def parameters(self) -> int:
        """Return the approximate number of parameters."""
        embedding = self.embedding or self.width
        return 2 * self.vocab * embedding + 4 * self.width * (embedding + (2 * self.depth - 1) * self.width)

    @property
    def backbone(self) -> Backbone:
        """Return the embedding and all layers."""
        settings = {name: name for name in ("cell", "embedding", "width", "depth")}
        sizes = {"embedding": self.embedding or self.width, "bidirectional": False}
        return Backbone(
            family="recurrent layers",
            settings=settings,
            sizes={**read_settings(self, settings), **sizes},
            weights={"embedding": "embedding", **{f"layer {n}": f"layers.{n}.layers.0" for n in range(self.depth)}},
        )

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"{self.depth} {self.cell.upper()} layer{'s' * (self.depth > 1)} of width {self.width}"


@dataclass(frozen=True)
class Reading:
    """The state of texts being generated."""

    state: Float[Tensor, "batch beam parts width"]

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> Reading:
        """Return the state in which beam k continues beam `parents[k]`."""
        rows = torch.arange(len(parents), device=parents.device)[:, None]
        return Reading(self.state[rows, parents])

    def keep(self, rows: Int[Tensor, "kept"]) -> Reading:
        """Return the state of these examples only."""
        return Reading(self.state[rows])

    def join(self, other: Reading) -> Reading:
        """Append the examples of another state."""
        return Reading(torch.cat([self.state, other.state]))


class RecurrentLM(TokenModel):
    """Embedding, recurrent layers, and the logits of the next token.

    It runs in full precision, as errors of all steps accumulate in the states.
    """

    # the last window of a text is shorter; `carried` is the state of every lane, which training sets
    traits = Traits(capturable=False, transient=("carried",))

    def __init__(self, config: RecurrentLMConfig):
        super().__init__()
        self.config = config
        width, features = config.width, config.embedding or config.width
        self.embedding = nn.Embedding(config.vocab, features)
        sizes = [features, *[width] * (config.depth - 1)]
        self.layers = nn.ModuleList(Layers(config.cell, size, width, fused=config.fused) for size in sizes)
        self.narrow = nn.Linear(width, features, bias=False) if config.tied and width != features else None
        if not config.tied:
            self.output = nn.Linear(width, config.vocab, bias=False)
        self.bias = nn.Parameter(torch.zeros(config.vocab))
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    @property
    def parts(self) -> int:
        """Return the number of vectors in the state of a text."""
        return sum(layers.parts for layers in self._stack)

    def blank(self, lanes: int) -> Float[Tensor, "lanes parts width"]:
        """Return the initial state of zeros."""
        return self.embedding.weight.new_zeros(lanes, self.parts, self.config.width)

    def forward(
        self, tokens: Int[Tensor, "lanes time"], state: Float[Tensor, "lanes parts width"] | None = None
    ) -> tuple[Float[Tensor, "lanes time features"], Float[Tensor, "lanes parts width"]]:
        """Return the features from which the next tokens are predicted, and the state after the last token."""
        state = self.blank(len(tokens)) if state is None else state
        ends = []
        with torch.autocast(tokens.device.type, enabled=False):
            x = self._drop(self.embedding(tokens))
            for layers, layer_state in zip(self._stack, state.split(self._stack[0].parts, -2), strict=True):
                x, end = self._read(layers, x, layer_state)
                x = self._drop(x)
                ends.append(end)
            return (x if self.narrow is None else self.narrow(x)), torch.cat(ends, -2)

    def _read(self, layers: Layers, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Run one layer, in training with dropout of its recurrent weights for a whole window."""
        rate = self.config.recurrent_dropout
        if not (self.training and rate):
            return layers(x, state)
        weights = {name: F.dropout(weight, rate) for name, weight in layers.named_parameters() if BETWEEN.search(name)}
        lengths = torch.full((len(x),), x.shape[1], device=x.device)  # with them, a layer looks weights up by name
        return functional_call(layers, weights, (x, state, lengths))

    @property
    def prediction(self) -> Float[Tensor, "vocab features"]:
        """The matrix that turns features into logits, a bias being added."""
        return self.embedding.weight if self.config.tied else self.output.weight

    def logits(self, features: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch vocab"]:
        """Return the logits of all tokens in the vocabulary."""
        return F.linear(features, self.prediction, self.bias)

    @torch.no_grad()
    def start(
        self, prompt: Int[Tensor, "batch prompt"], *, beams: int = 1, limit: int
    ) -> tuple[Float[Tensor, "batch beam vocab"], Reading]:
        """Read a prompt of at least one token; the state has room for any `limit`."""
        features, state = prompt.new_empty(0), self.blank(len(prompt))
        for part in prompt.split(READ, 1):
            features, state = self(part, state)
        logits = self.logits(features[:, -1:])
        return logits.expand(-1, beams, -1), Reading(state[:, None].expand(-1, beams, -1, -1))

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: Reading
    ) -> tuple[Float[Tensor, "batch beam vocab"], Reading]:
        """Feed one more token to every beam."""
        features, after = self(tokens.reshape(-1, 1), state.state.flatten(0, 1))
        return self.logits(features[:, 0]).unflatten(0, tokens.shape), Reading(after.unflatten(0, tokens.shape))

    @property
    def _stack(self) -> list[Layers]:
        return list(self.layers)  # type: ignore[arg-type]

    def _drop(self, x: Float[Tensor, "lanes time features"]) -> Float[Tensor, "lanes time features"]:
        """Apply dropout to features, independently at each step or with one mask for all steps."""
        share = self.config.dropout
        if not (self.config.locked and self.training and share):
            return F.dropout(x, share, self.training)
        return x * F.dropout(torch.ones_like(x[:, :1]), share)
