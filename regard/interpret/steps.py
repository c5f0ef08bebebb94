"""One attention computed step by step: query, keys, values, scores, scale, mask, softmax, sum, projection, next token.

Everything is recomputed from the inputs of the attention, and compared with the weights that the model used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.attend import weigh
from regard.attention.cache import KeyValues
from regard.attention.masks import EVERYONE, Mask, Padded, Turn
from regard.attention.multihead import MultiHead
from regard.attention.scores import Additive, Bilinear, Graph, Score, cosine, dot, scaled_dot
from regard.attention.singlehead import SingleHead
from regard.interpret.watch import AttentionRecord, Look


@dataclass(frozen=True)
class Form:
    """A score function split into a left vector per query and a right vector per key, from which it can be recomputed.

    `dot` multiplies left and right, `additive` is `vector . tanh(left + right)`, `graph` is `LeakyReLU(left + right)`;
    `given` is any other score, whose values are stored instead.
    """

    kind: str
    formula: str
    left: Float[Tensor, "heads query depth"]
    right: Float[Tensor, "heads key depth"]
    scale: float = 1.0
    slope: float = 0.0
    vector: Float[Tensor, "heads depth"] | None = None

    def raw(self) -> Float[Tensor, "heads query key"]:
        """Return the scores before scaling."""
        if self.kind == "dot":
            return self.left @ self.right.mT
        total = self.left[:, :, None] + self.right[:, None]
        if self.kind == "additive":
            assert self.vector is not None
            return (total.tanh() * self.vector[:, None, None]).sum(-1)
        assert self.kind == "graph", self.kind
        return nn.functional.leaky_relu(total, self.slope).squeeze(-1)


@dataclass(frozen=True)
class Step:
    """The intermediate results of one head at one query, in the order of computation."""

    attention: str
    head: int
    place: int
    formula: str
    query: Float[Tensor, "depth"]
    keys: Float[Tensor, "key depth"]
    values: Float[Tensor, "key features"]
    raw: Float[Tensor, "key"]
    scale: float
    bias: Float[Tensor, "key"] | None
    scores: Float[Tensor, "key"]
    visible: Bool[Tensor, "key"]
    weights: Float[Tensor, "key"]
    mixed: Float[Tensor, "features"]
    contribution: Float[Tensor, "width"]
    difference: float
    """Largest difference between these weights and those the model used."""

    def plain(self) -> dict[str, Any]:
        """Return the fields as lists and numbers, for JSON."""
        return {
            name: value.tolist() if isinstance(value, Tensor) else value
            for name, value in ((name, getattr(self, name)) for name in self.__dataclass_fields__)
        }


@dataclass(frozen=True)
class Inside:
    """The intermediate results of one attention on one example, for all heads and queries."""

    name: str
    form: Form
    queries: Float[Tensor, "heads query depth"]
    keys: Float[Tensor, "heads key other"]
    values: Float[Tensor, "heads key features"]
    raw: Float[Tensor, "heads query key"]
    bias: Float[Tensor, "heads query key"] | None
    visible: Bool[Tensor, "query key"]
    weights: Float[Tensor, "heads query key"]
    """The model's own, as they passed through the tap."""
    output: Float[Tensor, "heads features width"]
    """The part of the output projection that each head speaks through."""

    def scores(self) -> Float[Tensor, "heads query key"]:
        """Return the scores before the softmax."""
        scaled = self.raw * self.form.scale
        return scaled if self.bias is None else scaled + self.bias

    def recompute_weights(self) -> Float[Tensor, "heads query key"]:
        """Recompute the weights from queries and keys."""
        return weigh(self.scores(), self.visible)

    def contributions(self) -> Float[Tensor, "heads query width"]:
        """Return what each head adds to the vector of each query, before the bias of the output projection."""
        return self.recompute_weights() @ self.values @ self.output

    @property
    def difference(self) -> float:
        """Return the largest difference between the recomputed weights and the model's."""
        return float((self.recompute_weights() - self.weights).abs().max())

    def step(self, head: int, place: int) -> Step:
        """Return the intermediate results of one head at one query."""
        heads, queries, _ = self.weights.shape
        if not (0 <= head < heads and 0 <= place < queries):
            raise ValueError(
                f"{self.name} has heads 0 to {heads - 1} and tokens 0 to {queries - 1}: no head {head} at token {place}"
            )
        weights = self.recompute_weights()[head, place]
        mixed = weights @ self.values[head]
        return Step(
            attention=self.name,
            head=head,
            place=place,
            formula=self.form.formula,
            query=self.queries[head, place],
            keys=self.keys[head],
            values=self.values[head],
            raw=self.raw[head, place],
            scale=self.form.scale,
            bias=None if self.bias is None else self.bias[head, place],
            scores=self.scores()[head, place],
            visible=self.visible[place],
            weights=weights,
            mixed=mixed,
            contribution=mixed @ self.output[head],
            difference=float((weights - self.weights[head, place]).abs().max()),
        )


@dataclass(frozen=True)
class Prediction:
    """The likeliest tokens at one position with their probabilities, and the token that was written there."""

    top: Sequence[tuple[str, float]]
    written: str
    probability: float
    rank: int
    ids: Sequence[int] = ()
    """The ids of the likeliest tokens, by which one of them can be forced; empty for labels."""

    def plain(self) -> dict[str, Any]:
        """Return the prediction as JSON."""
        return {
            "top": [[text, round(share, 6)] for text, share in self.top],
            "ids": list(self.ids),
            "written": self.written,
            "probability": round(self.probability, 6),
            "rank": self.rank,
        }


@dataclass(frozen=True)
class Steps:
    """Everything a page needs to show any step: attentions by name, and the predictions."""

    attentions: Mapping[str, Inside]
    predictions: Sequence[Prediction] = field(default_factory=list)
    of: str = "target"
    """The list of items that the predictions belong to."""

    def prediction(self, query: str, place: int) -> Prediction | None:
        """Return the prediction for one item of the list `query`, or None if the model predicts nothing for it."""
        return self.predictions[place] if query == self.of and place < len(self.predictions) else None


@torch.no_grad()
def inside(
    model: nn.Module, read: Callable[[], Any], *, names: Sequence[str] | None = None
) -> tuple[dict[str, Inside], Any]:
    """Return the intermediate results of the named attentions (all by default) while `read()` runs, and its result.

    `read` must process one example in a single pass: an answer found by a search is read again as a whole, which gives
    the same values.
    """
    attentions = {name: module for name, module in model.named_modules() if isinstance(module, MultiHead | SingleHead)}
    selected = {name: module for name, module in attentions.items() if names is None or name in names}
    missing = sorted(set(names or ()) - set(selected))
    if missing:
        raise ValueError(f"no attention called {missing[0]}; there are {', '.join(attentions)}")
    inputs: dict[str, list[tuple[Any, ...]]] = {name: [] for name in selected}
    looks: dict[str, list[Look]] = {name: [] for name in selected}
    handles = []
    for name, module in selected.items():
        handles.append(module.register_forward_pre_hook(_catcher(inputs, name), with_kwargs=True))
        handles.append(module.weights.register_forward_hook(_keeper(looks, name)))
    try:
        answer = read()
    finally:
        for handle in handles:
            handle.remove()
    idle = sorted(name for name, weights in looks.items() if not weights)
    if idle:
        raise ValueError(f"{idle[0]} did not run: leave it out of the names")
    return {
        name: _recompute(name, module, inputs[name], [weights.to_dense() for weights in AttentionRecord(looks)[name]])
        for name, module in selected.items()
    }, answer


def predictions(
    logits: Float[Tensor, "query vocab"], written: Sequence[int], text: Callable[[int], str], *, top: int = 10
) -> list[Prediction]:
    """Return the likeliest tokens at every position, and the token that was written there."""
    likeliest = []
    for line, token in zip(logits.float(), written, strict=True):
        shares = line.softmax(-1)
        best = shares.topk(min(top, len(shares)))
        candidates = [(text(id), value) for id, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
        rank = int((shares > shares[token]).sum())
        likeliest.append(Prediction(candidates, text(token), float(shares[token]), rank, best.indices.tolist()))
    return likeliest


def _catcher(inputs: dict[str, list[tuple[Any, ...]]], name: str) -> Any:
    def catch(_: nn.Module, arguments: tuple[Any, ...], settings: dict[str, Any]) -> None:
        x, memory = (*arguments, settings.get("memory"))[:2]
        mask = settings.get("mask", EVERYONE)
        again = bool(inputs[name]) and not _later(mask)
        if settings.get("cache") is not None or again:
            raise ValueError(f"{name} ran more than once: read one example in one go to look inside")
        inputs[name].append((x, memory, mask, settings.get("positions")))

    return catch


def _later(mask: Mask) -> bool:
    """Return True for a column after the first, where a text is read column by column."""
    return isinstance(mask.where, Padded) and isinstance(mask.where.query, Turn) and mask.where.query.at > 0


def _keeper(looks: dict[str, list[Look]], name: str) -> Any:
    def keep(_: nn.Module, arguments: tuple[Any, ...], value: Tensor) -> None:
        looks[name].append(Look(value.detach(), arguments[1]))

    return keep


def _recompute(
    name: str, module: MultiHead | SingleHead, inputs: Sequence[tuple[Any, ...]], weights: list[Tensor]
) -> Inside:
    """Recompute queries, keys, values and scores of one attention from its inputs."""
    if len(weights) != 1:
        raise ValueError(f"a batch of {len(weights)}: look inside one example at a time")
    vectors = (
        _single_head_vectors(module, inputs)
        if isinstance(module, SingleHead)
        else _multi_head_vectors(module, *inputs[0])
    )
    return Inside(name=name, weights=weights[0], **vectors)


def _single_head_vectors(module: SingleHead, inputs: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Return the intermediate results of a single head, joined over all its decoding steps."""
    query = _drop_batch_axis(torch.cat([x for x, *_ in inputs], dim=-2), 2)[None]
    _, memory, mask, _ = inputs[0]
    keys, values = (_drop_batch_axis(part, 3) for part in memory)
    if isinstance(module.score, Additive):  # its keys are already projected
        projected, vector = query @ module.score.query, module.score.vector
        form = Form("additive", "v . tanh(W q + U k)", projected, keys, vector=vector)
    else:
        form = _form(module.score, query, keys)
    visible = _visible(mask, query[:, :1], keys).expand(query.shape[1], -1)
    output = torch.eye(values.shape[-1], device=values.device)[None]
    return _inside_fields(form, query, keys, values, visible) | {"bias": None, "output": output}


def _multi_head_vectors(module: MultiHead, x: Tensor, memory: Any, mask: Mask, positions: Any) -> dict[str, Any]:
    """Return the intermediate results of multi-head attention."""
    query = _split(module.query(x), module.heads)
    key_values = memory if isinstance(memory, KeyValues) else module.remember(x if memory is None else memory)
    keys, values = key_values
    if positions is not None:
        places, _ = mask.places(query.shape[-2], keys.shape[-2], x.device)
        query, keys = positions.turn(query, places), positions.turn(keys, places)
    bias = None
    if positions is not None and positions.biased:
        bias = _drop_batch_axis(positions.bias(mask.distance(query.shape[-2], keys.shape[-2], x.device)), 3)
    repeats = module.heads // module.groups
    query = _drop_batch_axis(query, 3)
    keys, values = (_drop_batch_axis(part, 3).repeat_interleave(repeats, dim=0) for part in (keys, values))
    form = _form(module.score, query, keys)
    raw = {"raw": module.score(query, keys)} if form.kind == "given" else {}
    output = module.output_by_head().detach()
    visible = _visible(mask, query, keys)
    return _inside_fields(form, query, keys, values, visible, **raw) | {"bias": bias, "output": output}


def _inside_fields(
    form: Form, query: Tensor, keys: Tensor, values: Tensor, visible: Tensor, raw: Tensor | None = None
) -> dict[str, Any]:
    fields = {"form": form, "queries": query, "keys": keys, "values": values, "visible": visible}
    return fields | {"raw": form.raw() if raw is None else raw}


def _form(score: Score, query: Tensor, keys: Tensor) -> Form:
    """Split a score function into a part of the query and a part of the key."""
    depth = query.shape[-1]
    if score is scaled_dot:
        return Form("dot", f"q . k / sqrt({depth})", query, keys, scale=1 / math.sqrt(depth))
    if score is dot:
        return Form("dot", "q . k", query, keys)
    if score is cosine:
        left_vectors, right_vectors = (nn.functional.normalize(part, dim=-1) for part in (query, keys))
        return Form("dot", "q . k / (|q| |k|)", left_vectors, right_vectors)
    if isinstance(score, Bilinear):
        return Form("dot", "q W k", query @ score.weight, keys)
    if isinstance(score, Additive):
        vector = score.vector.expand(len(query), -1)
        return Form("additive", "v . tanh(W q + U k)", query @ score.query, keys @ score.key, vector=vector)
    if isinstance(score, Graph):
        left_vectors, right_vectors = query @ score.query, keys @ score.key
        return Form(
            "graph", f"LeakyReLU(a . q + b . k), slope {score.slope}", left_vectors, right_vectors, slope=score.slope
        )
    return Form("given", getattr(score, "__name__", type(score).__name__), query, keys)


def _split(vectors: Tensor, heads: int) -> Tensor:
    """(*batch, token, heads * depth) -> (*batch, heads, token, depth)."""
    return vectors.unflatten(-1, (heads, -1)).transpose(-3, -2)


def _drop_batch_axis(tensor: Tensor, dimensions: int) -> Tensor:
    """Remove the batch axis of a batch of one."""
    while tensor.dim() > dimensions:
        if len(tensor) != 1:
            raise ValueError(f"a batch of {len(tensor)}: look inside one example at a time")
        tensor = tensor[0]
    return tensor.detach()


def _visible(mask: Mask, query: Tensor, keys: Tensor) -> Tensor:
    """Return the mask as a boolean matrix, all True if nothing is hidden."""
    queries, places = query.shape[-2], keys.shape[-2]
    dense = mask.dense(queries, places, query.device)
    whole = torch.ones(queries, places, dtype=torch.bool, device=query.device)
    return whole if dense is None else whole & _drop_batch_axis(dense, 2)
