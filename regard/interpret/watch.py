"""Recording of attention weights: those of every attention by name, without padding and cache slots."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.edge_list import Edges
from regard.attention.masks import Grid, Mask, Padded, Stepping, Turn
from regard.attention.tap import Tap


@runtime_checkable
class HypothesisPath(Protocol):
    """A hypothesis of a search, with the beam it was in at each decoding step."""

    @property
    def path(self) -> Sequence[int]:
        """Return the index of the beam at each step."""


@dataclass(frozen=True)
class Look:
    """The weights and the mask of one call of an attention."""

    weights: Tensor
    mask: Mask


@dataclass(frozen=True)
class AttentionRecord:
    """Recorded weights: `seen["decoder.0.cross"]` has one (heads, query, key) tensor per example."""

    looks: dict[str, list[Look]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> list[Float[Tensor, "heads query key"]]:
        """Return the weights of one attention, one tensor per example; a decoding step has one query per beam.

        Weights along the edges of a graph are a sparse tensor of the same shape.
        """
        if name not in self.looks:
            raise KeyError(f"no attention called {name} was seen; there are {', '.join(self.looks)}")
        return [weights for look in _join_looks(self.looks[name]) for weights in _by_example(look)]

    def average_heads(self, name: str) -> Float[Tensor, "example query key"]:
        """Return the weights of one attention averaged over its heads; shorter examples are padded."""
        means = [replace(look, weights=look.weights.float().mean(-3, keepdim=True)) for look in self.looks[name]]
        looks = _join_looks(means)
        if len(looks) == 1 and isinstance(looks[0].mask.where, Padded):
            return looks[0].weights[: _count(looks[0].mask.where), 0]
        weights = [example[0] for look in looks for example in _by_example(look)]
        height, width = (max(example.shape[axis] for example in weights) for axis in (0, 1))
        return torch.stack(
            [F.pad(example, (0, width - example.shape[1], 0, height - example.shape[0])) for example in weights]
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.looks)

    def __len__(self) -> int:
        return len(self.looks)

    def along(self, hypotheses: Sequence[HypothesisPath]) -> dict[str, list[Float[Tensor, "heads query key"]]]:
        """Return the weights along one hypothesis per example, equal to those of reading its sentence in one pass.

        Consecutive searches must be watched separately: examples are numbered within a search.
        """
        return {name: _follow_paths(_join_looks(looks), hypotheses) for name, looks in self.looks.items()}

    def visible(self, name: str) -> list[Bool[Tensor, "query key"]]:
        """Return which keys each query of an attention could look at, one matrix per example."""
        return [seen.to_dense()[0] > 0 for seen in self._masks([name])[name]]

    def visible_along(self, hypotheses: Sequence[HypothesisPath]) -> dict[str, list[Bool[Tensor, "query key"]]]:
        """Return which keys could be looked at along one hypothesis per example."""
        along = self._masks(self.looks).along(hypotheses)
        return {name: [seen[0] > 0 for seen in examples] for name, examples in along.items()}

    def _masks(self, names: Iterable[str]) -> AttentionRecord:
        """Return a record of what could be seen: one head, with 1 for a visible key and 0 for a hidden one."""
        return AttentionRecord({name: [_see_through(look) for look in self.looks[name]] for name in names})


@contextmanager
def watch(model: nn.Module, *, only: Collection[str] | None = None) -> Iterator[AttentionRecord]:
    """Record the weights of every attention that runs inside the block, or of those named; it is an error if none runs.

    Only this thread is watched: others may use the model meanwhile. Watched attention takes the explicit path, and
    compiled models run eagerly meanwhile in every thread of the process.
    """
    record = AttentionRecord()
    watched = _taps(model, only)
    with _collect(record, watched):
        yield record
    if not watched:
        raise ValueError("nothing was seen: this model has no attention")
    if not record.looks:
        raise ValueError("nothing was seen: no attention of this model ran while it was watched")


class SearchWatcher:
    """Recorder of the weights of a search that runs step by step, interleaved with other work of the same thread.

    All attentions are watched, or only those named.
    """

    def __init__(self, model: Any, only: Collection[str] | None = None) -> None:
        self.model = model
        self.seen = AttentionRecord()
        self._watched = _taps(model, only)

    def collect(self) -> AbstractContextManager[None]:
        """Record the weights of what runs inside the block."""
        return _collect(self.seen, self._watched)

    def weights(self, hypothesis: HypothesisPath) -> dict[str, Float[Tensor, "heads query key"]]:
        """Return the weights along the path of an answer to the only example, by the names of attentions."""
        return {name: example_weights[0] for name, example_weights in self.seen.along([hypothesis]).items()}

    def split_examples(self) -> dict[str, list[Float[Tensor, "heads query key"]]]:
        """Return the weights recorded in one pass, by attention name, one tensor per example."""
        return {name: self.seen[name] for name in self.seen}


def attention_names(model: nn.Module) -> list[str]:
    """Return the names of a model's attentions, by which their weights can be watched."""
    return list(_taps(model))


def _taps(model: nn.Module, only: Collection[str] | None = None) -> dict[str, Tap]:
    taps = {name.removesuffix(".weights"): tap for name, tap in model.named_modules() if isinstance(tap, Tap)}
    for name in only or ():
        if name not in taps:
            raise KeyError(f"no attention called {name} in this model; there are {', '.join(taps)}")
    return {name: tap for name, tap in taps.items() if only is None or name in only}


@contextmanager
def _collect(record: AttentionRecord, taps: Mapping[str, Tap]) -> Iterator[None]:
    handles = [tap.register_forward_hook(_collector(record, name)) for name, tap in taps.items()]
    try:
        with _eager():
            yield
    finally:
        for handle in handles:
            handle.remove()


def _collector(record: AttentionRecord, name: str) -> Any:
    watching = threading.get_ident()

    def collect(_: nn.Module, arguments: tuple[Any, ...], weights: Tensor) -> None:
        if threading.get_ident() == watching:
            record.looks.setdefault(name, []).append(Look(weights.detach(), arguments[1]))

    return collect


def _eager() -> Any:
    """Disable compiled code, which would not run hooks, if anything may have been compiled."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _see_through(look: Look) -> Look:
    """Return the mask of a call in the place of its weights, as a single head."""
    weights, mask = look.weights, look.mask
    if isinstance(mask.where, Edges):
        return Look(torch.ones_like(weights[:1]), mask)
    seen = mask.dense(weights.shape[-2], weights.shape[-1], weights.device)
    allowed = torch.ones_like(weights[..., :1, :, :]) if seen is None else seen.unsqueeze(-3).to(weights.dtype)
    while allowed.dim() > weights.dim():  # the batch of one that a mask has and its weights do not
        allowed = allowed.squeeze(0)
    return Look(allowed.expand(*weights.shape[:-3], 1, *weights.shape[-2:]), mask)


def _join_looks(looks: Sequence[Look]) -> list[Look]:
    """Join records taken column by column, as if the text had been read in one pass."""
    groups: list[list[Look]] = []
    for look in looks:
        where = look.mask.where
        later = isinstance(where, Padded) and isinstance(where.query, Turn) and where.query.at > 0
        if later:
            groups[-1].append(look)
        else:
            groups.append([look])
    return [_join_turns(group) for group in groups]


def _join_turns(turns: list[Look]) -> Look:
    mask = turns[0].mask
    if not (isinstance(mask.where, Padded) and isinstance(mask.where.query, Turn)):
        return turns[0]
    whole = replace(mask, where=Padded(mask.where.key, mask.where.query.grid))
    return Look(torch.cat([look.weights for look in turns], -2), whole)


def _by_example(look: Look) -> list[Tensor]:
    """Split a record by example, without padding, the tail of a packed row, and slots."""
    weights, where = look.weights, look.mask.where
    if isinstance(where, Stepping):
        rows = range(len(weights))
        return [torch.stack([_beam_weights(look, row, beam) for beam in range(where.beams)], dim=1) for row in rows]
    if isinstance(where, Edges):
        return [_sparse(weights, where)]
    if isinstance(where, Padded):
        keys = where.key.lengths.tolist()
        queries = where.query.lengths.tolist() if isinstance(where.query, Grid) else [weights.shape[-2]] * len(keys)
        count = _count(where)
        return [weights[i, :, : queries[i], : keys[i]] for i in range(count)]
    return list(weights) if weights.dim() == 4 else [weights]


def _sparse(weights: Float[Tensor, "heads edge"], where: Edges) -> Float[Tensor, "heads query key"]:
    """Return a sparse tensor with the edges alone, since a dense matrix of all pairs of nodes is too large."""
    heads = torch.arange(len(weights), device=weights.device).repeat_interleave(len(where.query))
    ends = torch.stack([where.query, where.key]).repeat(1, len(weights))
    size = (len(weights), where.nodes, where.nodes)
    return torch.sparse_coo_tensor(torch.cat([heads[None], ends]), weights.flatten(), size, check_invariants=False)


def _count(where: Padded) -> int:
    """Return the number of rows that are real sequences."""
    query = where.query
    if isinstance(query, Grid) and query.count is not None:
        return int(query.count)
    return len(where.key.lengths)


def _beam_weights(look: Look, row: int, beam: int) -> Float[Tensor, "heads key"]:
    """Return the weights of one beam over the prompt and its past, in order."""
    where = look.mask.where
    assert isinstance(where, Stepping)
    step_count = int(where.taken[row])
    steps = torch.arange(step_count, device=where.slots.device)
    past = where.room + steps * where.beams + where.slots[row, beam, :step_count]
    prompt = torch.arange(int(where.prompt[row]), device=past.device)
    return look.weights[row, :, beam, torch.cat([prompt, past])]


def _follow_paths(looks: list[Look], hypotheses: Sequence[HypothesisPath]) -> list[Tensor]:
    """Return the rows of the first pass, then one row per step along each path."""
    first = _by_example(looks[0])
    lines = [list(weights.unbind(1)) for weights in first]
    for look in looks[1:]:
        where = look.mask.where
        steps = where.query if isinstance(where, Padded) else where
        assert isinstance(steps, Stepping), "watch one search at a time"
        for row, (example, step_count) in enumerate(zip(steps.example.tolist(), steps.taken.tolist(), strict=True)):
            path = hypotheses[example].path
            if step_count > len(path):
                continue
            beam = path[step_count - 1]
            if isinstance(where, Padded):
                lines[example].append(look.weights[row, :, beam, : int(where.key.lengths[row])])
            else:
                lines[example].append(_beam_weights(look, row, beam))
    return [_pad_rows(rows) for rows in lines]


def _pad_rows(rows: list[Tensor]) -> Float[Tensor, "heads query key"]:
    """Stack rows of growing length into a matrix, padded with zeros."""
    keys = max(row.shape[-1] for row in rows)
    return torch.stack([nn.functional.pad(row, (0, keys - row.shape[-1])) for row in rows], dim=1)
