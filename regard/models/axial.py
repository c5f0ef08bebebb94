"""The axial Transformer: a picture predicted pixel by pixel, attending along rows and columns (Ho et al. 2019).

The tokens of a picture form rows and columns; the channels of a pixel are adjacent columns. The input of every cell is
the token before its own, as in a GPT. The prediction in a cell depends on two things:

    above = down(column, row, ..., column, row)(x)    rows attend within themselves, columns to what is above them
    h     = row, row, ... (x + above)                 rows attend to what is left of them

where `down` shifts every row to the one below. So a cell sees all rows above it through `above`, the cells left of it
in its own row directly, and nothing that comes later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.axial import Axis, along, axial_pairs, full_pairs
from regard.attention.cache import LayerCache
from regard.attention.masks import EVERYONE, Grid, Mask, Row, Stepping, causal, stepping
from regard.attention.multihead import Heads
from regard.attention.plane import LearnedPlane
from regard.attention.positions import Positions
from regard.config.ranges import Range, Share, Small, Vocabulary, Width, check_affordable, check_divisible
from regard.config.resuming import Warned
from regard.models.interface import ModelConfig, TokenModel
from regard.models.parts.blocks import DEVIATION, BlockShape, Embedding, EncoderBlock, init_normal, to_autocast_dtype
from regard.models.parts.dropout import Dropout


@dataclass(frozen=True, kw_only=True)
class AxialConfig(ModelConfig):
    """Transformer blocks with attention along the rows and the columns of a picture."""

    name: Literal["axial"] = "axial"
    """Which model this is."""
    vocab: Vocabulary = 0
    """Tokens of the vocabulary: shades or colours, and the token that begins a picture; filled in from the pictures."""
    size: Annotated[int, Range(0, 4096)] = 0
    """Pixels on each side of a picture; filled in from the pictures."""
    channels: Annotated[int, Range(1, 3)] = 1
    """Tokens of a pixel: 3 bytes of red, green and blue, else 1; filled in from the pictures."""
    width: Width = 256
    """Features of every position."""
    heads: Small = 8
    """Attention heads; must divide the width."""
    hidden: Width = 1024
    """Features inside the feed-forward part."""
    above: Small = 3
    """Pairs of blocks, one along rows and one along columns, that read the rows above."""
    depth: Small = 4
    """Blocks along the row in which a token is predicted."""
    activation: Literal["gelu_tanh", "gelu", "relu", "silu"] = "gelu_tanh"
    """Function inside the feed-forward part."""
    dropout: Warned[Share] = 0.0
    """Dropout rate."""

    reads_whole: ClassVar[bool] = True
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "axial-32": {"vocab": 257, "size": 32},
        "axial-1024": {"vocab": 257, "size": 1024},
    }

    def __post_init__(self) -> None:
        check_divisible(self.width, self.heads)
        check_affordable(self.parameters, "lower width, hidden, above or depth")

    @property
    def columns(self) -> int:
        """Tokens of a row."""
        return self.size * self.channels

    @property
    def context(self) -> int:
        """Tokens of a picture."""
        return self.size * self.columns

    @property
    def pairs(self) -> tuple[int, int]:
        """Return the number of attending pairs of tokens along rows and columns, and that of all pairs."""
        return axial_pairs(self.size, self.columns), full_pairs(self.size, self.columns)

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        width, hidden = self.width, self.hidden
        block = 4 * width * (width + 1) + 2 * width * hidden + hidden + width + 4 * width
        tables = (self.vocab + 2 * self.size + self.channels) * width
        return tables + (2 * self.above + self.depth) * block + 2 * width

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"An axial Transformer of {2 * self.above} + {self.depth} blocks, {self.width} wide, {self.heads} heads"

    @property
    def shape(self) -> BlockShape:
        """Return the settings shared by all blocks."""
        return BlockShape(
            width=self.width,
            heads=Heads(self.heads),
            hidden=self.hidden,
            pre=True,
            activation=self.activation,
            dropout=self.dropout,
        )


class Axial(TokenModel):
    """An axial Transformer that predicts the next token of a picture, with the interface of a GPT."""

    def __init__(self, config: AxialConfig):
        super().__init__()
        self.config = config
        shape, blocks = config.shape, 2 * config.above + config.depth
        self.embedding = Embedding(config.vocab, config.width, scaled=False)
        self.positions = LearnedPlane((config.size, config.size), config.width, channels=config.channels)
        self.dropout = Dropout(config.dropout)
        self.above = nn.ModuleList(EncoderBlock(shape) for _ in range(2 * config.above))
        self.blocks = nn.ModuleList(EncoderBlock(shape) for _ in range(config.depth))
        self.norm = shape.normal()
        self.unplaced = Positions()
        self.apply(init_normal)
        for block in (*self.above, *self.blocks):  # the sum in the residual stream has the variance of one term
            for last in (cast(EncoderBlock, block).attention.output, cast(EncoderBlock, block).mlp.outer):
                nn.init.normal_(last.weight, std=DEVIATION / math.sqrt(2 * blocks))

    def forward(self, tokens: Int[Tensor, "*batch"], *, layout: Row | Grid) -> Float[Tensor, "*batch width"]:
        """Return the features of every token of whole pictures, in a batch or a row, from which `logits` predicts."""
        config = self.config
        if layout.longest != config.context:
            raise ValueError(f"pictures of {layout.longest} tokens, and the model knows those of {config.context}")
        x = self._embedded(tokens.reshape(-1, config.context), 0).unflatten(1, (config.size, config.columns))
        above = self._read(x, causal(), (None,) * len(self.above))
        h = x + F.pad(above[:, :-1], (0, 0, 0, 0, 1, 0))  # each row is read by the one below
        for block in self.blocks:
            h = self._along("row", block, h, causal())
        return self.norm(h).reshape(*tokens.shape, config.width)

    @property
    def prediction(self) -> Float[Tensor, "vocab width"]:
        """The matrix that turns features into logits."""
        return self.embedding.weight

    def logits(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """Return the logits of all tokens in the vocabulary."""
        return F.linear(features, self.prediction)

    @torch.no_grad()
    def start(
        self, prompt: Int[Tensor, "batch prompt"], *, beams: int = 1, limit: int
    ) -> tuple[Float[Tensor, "batch beam vocab"], AxialState]:
        """Read the beginnings of pictures, all of the same length of at least one token."""
        config, (batch, fed) = self.config, prompt.shape
        if not fed or fed + limit > config.context + 1:
            raise ValueError(f"a prompt of {fed} tokens and {limit} more, and a picture has {config.context}")
        tokens = prompt.repeat_interleave(beams, 0)
        rows = (fed - 1) // config.columns  # complete ones with another below them
        x = self._embedded(tokens, 0)
        whole, begun = x[:, : rows * config.columns], x[:, rows * config.columns :]
        state = self._blank(tokens, beams)
        if rows:
            lines = whole.unflatten(1, (rows, config.columns))
            state = replace(state, above=self._read(lines, causal(), state.columns)[:, -1])
        features, rows_read = begun + state.above[:, : begun.shape[1]], _begin_rows(len(tokens), begun, config.columns)
        for block, cache in zip(self.blocks, state.row, strict=True):
            features = block(features, mask=causal(), positions=self.unplaced, cache=cache)
        state = replace(state, rows=rows, inside=rows_read)
        return self.logits(self.norm(features[:, -1])).unflatten(0, (batch, beams)), state

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: AxialState
    ) -> tuple[Float[Tensor, "batch beam vocab"], AxialState]:
        """Feed one more token to every beam; a complete row is read as context of the next."""
        columns, flat = self.config.columns, tokens.flatten()
        place = state.tokens.shape[1]
        if place % columns == 0:
            state = self._below(state)
        x = self._embedded(flat[:, None], place) + state.above[:, place % columns, None]
        inside = state.inside.advance()
        for block, cache in zip(self.blocks, state.row, strict=True):
            x = block(x, mask=stepping(inside), positions=self.unplaced, cache=cache)
        state = replace(state, tokens=torch.cat([state.tokens, flat[:, None]], 1), inside=inside)
        return self.logits(self.norm(x[:, 0])).unflatten(0, tokens.shape), state

    def _below(self, state: AxialState) -> AxialState:
        """Return the state at the beginning of the next row."""
        columns, rows = self.config.columns, state.rows + 1
        last = self._embedded(state.tokens[:, -columns:], (rows - 1) * columns)[:, None]
        lines = len(last) * columns
        where = Stepping.begin(
            torch.full((lines,), rows - 1, device=last.device), beams=1, limit=1, room=rows - 1, even=True
        ).advance()
        above = self._read(last, stepping(where), state.columns)[:, 0]
        return replace(state, above=above, rows=rows, inside=_begin_rows(len(last), last[:, 0, :0], columns))

    def _embedded(self, tokens: Int[Tensor, "batch place"], first: int) -> Float[Tensor, "batch place width"]:
        """Return the vectors of tokens at consecutive positions of a picture, from `first` on."""
        places = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        return to_autocast_dtype(self.dropout(self.embedding(tokens, places, self.positions)))

    def _read(self, x: Tensor, mask: Mask, caches: Sequence[LayerCache | None]) -> Tensor:
        """Let rows attend within themselves and, under this mask, to the rows above them."""
        for number, block in enumerate(self.above):
            if number % 2:
                x = self._along("column", block, x, mask, caches[number])
            else:
                x = self._along("row", block, x, EVERYONE)
        return x

    def _along(self, axis: Axis, block: nn.Module, x: Tensor, mask: Mask, cache: LayerCache | None = None) -> Tensor:
        """Apply a block along every row, or along every column."""
        return along(axis, lambda lines: block(lines, mask=mask, positions=self.unplaced, cache=cache), x)

    def _blank(self, tokens: Tensor, beams: int) -> AxialState:
        """Return the state before anything has been read."""
        config, count = self.config, len(tokens)
        above = self.embedding.weight.new_zeros(count, config.columns, config.width)
        columns = tuple(
            _cache(block, above, count * config.columns, config.size) if number % 2 else None
            for number, block in enumerate(self.above)
        )
        row = tuple(_cache(block, above, count, config.columns) for block in self.blocks)
        return AxialState(tokens, beams, above, columns, row, 0, _begin_rows(count, above[:, :0], config.columns))


@dataclass(frozen=True)
class AxialState:
    """The state of pictures being generated, all with the same number of tokens."""

    tokens: Int[Tensor, "line place"]
    """All tokens fed so far; a line is a beam of an example."""
    beams: int
    above: Float[Tensor, "line column width"]
    """Features from the rows above for the current row."""
    columns: tuple[LayerCache | None, ...]
    """Keys and values of all rows above, column by column; None for blocks along rows."""
    row: tuple[LayerCache, ...]
    """Keys and values of the current row."""
    rows: int
    """Number of rows above."""
    inside: Stepping
    """Position of the newest token in its row."""

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> AxialState:
        """Return the state in which beam k of each example continues its beam `parents[k]`."""
        first = torch.arange(len(parents), device=parents.device)[:, None] * self.beams
        return self._select_lines((first + parents).flatten())

    def keep(self, rows: Int[Tensor, "kept"]) -> AxialState:
        """Return the state of these examples only."""
        beams = torch.arange(self.beams, device=rows.device)
        return self._select_lines((rows[:, None] * self.beams + beams).flatten())

    def join(self, other: AxialState) -> AxialState:
        """Append the examples of another state, which must have the same number of tokens."""
        if self.tokens.shape[1] != other.tokens.shape[1]:
            raise ValueError("pictures that have come to different places cannot be continued together: one after all")
        both = torch.cat([self.tokens, other.tokens])
        columns = tuple(
            None if mine is None or theirs is None else LayerCache(*mine.join(theirs))
            for mine, theirs in zip(self.columns, other.columns, strict=True)
        )
        row = tuple(LayerCache(*mine.join(theirs)) for mine, theirs in zip(self.row, other.row, strict=True))
        above, inside = torch.cat([self.above, other.above]), _select_steps(self.inside, torch.zeros_like(both[:, 0]))
        return replace(self, tokens=both, above=above, columns=columns, row=row, inside=inside)

    def _select_lines(self, lines: Int[Tensor, "taken"]) -> AxialState:
        """Return the state of these lines, in this order."""
        width = self.above.shape[1]
        cells = (lines[:, None] * width + torch.arange(width, device=lines.device)).flatten()
        return replace(
            self,
            tokens=self.tokens[lines],
            above=self.above[lines],
            columns=tuple(None if cache is None else LayerCache(*cache.keep(cells)) for cache in self.columns),
            row=tuple(LayerCache(*cache.keep(lines)) for cache in self.row),
            inside=_select_steps(self.inside, lines),
        )


def _cache(block: nn.Module, like: Tensor, lines: int, size: int) -> LayerCache:
    """Return an empty cache for a number of lines of `size` positions each."""
    key_values = cast(EncoderBlock, block).attention.remember(like[:1, :0])
    keys = key_values.keys.expand(lines, -1, -1, -1)
    return LayerCache.empty(keys, key_values.values.shape[-1], size)


def _begin_rows(lines: int, fed: Tensor, columns: int) -> Stepping:
    """Return the index of rows in which the tokens of `fed` have been written."""
    lengths = torch.full((lines,), fed.shape[1], device=fed.device)
    return Stepping.begin(lengths, beams=1, limit=columns - fed.shape[1], room=fed.shape[1], even=True)


def _select_steps(where: Stepping, lines: Tensor) -> Stepping:
    """Return the index of these lines, all of which are at the same position."""
    selected = {name: getattr(where, name)[lines] for name in ("slots", "taken", "prompt", "example")}
    return replace(where, **selected)
