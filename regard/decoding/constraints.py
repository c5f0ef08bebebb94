"""Constraints: rules about what an answer must, or must not, contain, given what is written so far.

A rule removes next tokens by setting them to -inf. It never renormalises: the score of an answer stays its
log-probability under the model. Rules combine by being listed; one holds for all examples, or has a setting for `each`.

Written tokens are aligned right: the newest token is last, and ABSENT fills the places before the first of a shorter
text. No rule waits for the device, so that a round under rules can be captured and replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.decoding.batching import padded

Tokens = Sequence[int]
ABSENT, ANY, NEVER = -1, -2, -3  # before the first token; matches everything; matches nothing


@runtime_checkable
class Constraint(Protocol):
    """A rule about the next token."""

    def check(self, examples: int, vocab: int) -> None:
        """Raise ValueError, before anything is decoded, if the rule does not fit this batch or vocabulary."""
        ...

    def forbid(
        self,
        scores: Float[Tensor, "batch beam vocab"],
        written: Int[Tensor, "batch beam length"],
        rows: Int[Tensor, "batch"],
        eos: int,
    ) -> None:
        """Set tokens that may not follow to -inf, in place; `rows` are example numbers, `eos` -1 means no end."""
        ...


@runtime_checkable
class Goal(Constraint, Protocol):
    """A rule that takes several steps to fulfil, so that a search must keep hypotheses of every progress alive."""

    def progress(
        self,
        written: Int[Tensor, "batch beam length"],
        tokens: Int[Tensor, "batch beam choice"],
        rows: Int[Tensor, "batch"],
    ) -> Int[Tensor, "batch beam choice"]:
        """Return the progress of each answer with one more token."""
        ...

    def next_tokens(
        self, written: Int[Tensor, "batch beam length"], rows: Int[Tensor, "batch"]
    ) -> Int[Tensor, "batch beam phrase"]:
        """Return tokens that would advance an answer, negative where there is none."""
        ...


def constrain(
    logits: Float[Tensor, "batch beam vocab"],
    constraints: Sequence[Constraint],
    written: Int[Tensor, "batch beam length"],
    rows: Int[Tensor, "batch"],
    eos: int,
) -> Float[Tensor, "batch beam vocab"]:
    """Return the logits with forbidden tokens set to -inf."""
    if not constraints:
        return logits
    scores = logits.clone(memory_format=torch.contiguous_format)  # the model's logits may be a view
    for constraint in constraints:
        constraint.forbid(scores, written, rows, eos)
    return scores


@dataclass(frozen=True)
class Prefix:
    """The answer begins with these tokens."""

    tokens: Tokens = ()
    each: Sequence[Tokens] | None = None

    def check(self, examples: int, vocab: int) -> None:
        _check_count("prefixes", self.each, examples)
        _check_tokens("prefix", self._prefixes, vocab)

    def forbid(self, scores: Tensor, written: Tensor, rows: Tensor, eos: int) -> None:
        table, length = _of(self, "_table", rows), _length(written)
        token = table.gather(1, length.clamp(max=table.shape[1] - 1)[:, None])[:, 0]
        forced = (token >= 0) & (length < table.shape[1])
        only = torch.full_like(scores, float("-inf"))
        place = token.clamp(min=0)[:, None, None].expand(*scores.shape[:2], 1)
        only.scatter_(-1, place, scores.gather(-1, place))
        scores.copy_(torch.where(forced[:, None, None], only, scores))

    @property
    def _prefixes(self) -> list[list[int]]:
        return [list(tokens) for tokens in (self.each if self.each is not None else [self.tokens])]

    @cached_property
    def _table(self) -> Int[Tensor, "examples longest"]:
        return padded(self._prefixes, ABSENT, max([1, *map(len, self._prefixes)]))[0]


def force_tokens(tokens: Tokens, *, vocab: int, forbidden: Tokens = ()) -> list[Constraint]:
    """Return the constraint that answers begin with these tokens, if any; raise ValueError for unwritable ones."""
    if wrong := [token for token in tokens if not 0 <= token < vocab or token in forbidden]:
        raise ValueError(f"prefix: token {wrong[0]} is none that the model may write: take the ids of its candidates")
    return [Prefix(tuple(tokens))] if tokens else []


def check_room(tokens: Tokens, limit: int) -> None:
    """Raise ValueError if answers of at most `limit` tokens have no room for a forced beginning."""
    if len(tokens) > limit:
        raise ValueError(f"prefix of {len(tokens)} tokens where an answer has {limit} at most: force fewer")


@dataclass(frozen=True)
class MinimumLength:
    """The answer has at least `length` tokens, not counting its end token."""

    length: int | Sequence[int]

    def check(self, examples: int, vocab: int) -> None:
        _check_numbers("minimum length", self.length, examples)

    def forbid(self, scores: Tensor, written: Tensor, rows: Tensor, eos: int) -> None:
        if eos >= 0:
            short = _length(written) < _of(self, "_least", rows)
            scores[..., eos].masked_fill_(short[:, None], float("-inf"))

    @cached_property
    def _least(self) -> Int[Tensor, "examples"]:
        return _numbers(self.length)


@dataclass(frozen=True)
class NoRepeat:
    """No sequence of `size` tokens occurs twice in an answer; 0 lets everything repeat."""

    size: int | Sequence[int]

    def check(self, examples: int, vocab: int) -> None:
        _check_numbers("size of a repetition", self.size, examples)

    def forbid(self, scores: Tensor, written: Tensor, rows: Tensor, eos: int) -> None:
        sizes = _of(self, "_sizes", rows)
        for size in sorted({self.size} if isinstance(self.size, int) else set(self.size)):
            if not 0 < size <= written.shape[-1]:
                continue
            earlier = written.unfold(-1, size, 1)  # (batch, beam, window, size)
            latest = written[..., written.shape[-1] - size + 1 :]
            whole = (earlier[..., 0] >= 0) & (sizes == size)[:, None, None]
            again = (earlier[..., :-1] == latest[..., None, :]).all(-1) & whole
            _remove(scores, earlier[..., -1].clamp(min=0), again)

    @cached_property
    def _sizes(self) -> Int[Tensor, "examples"]:
        return _numbers(self.size)


@dataclass(frozen=True)
class Forbid:
    """None of these token sequences occurs in an answer."""

    phrases: Sequence[Tokens] = ()
    each: Sequence[Sequence[Tokens]] | None = None

    @cached_property
    def always(self) -> list[int] | None:
        """The tokens that are forbidden everywhere; None if that depends on the example or on what is written."""
        single = self.each is None and all(len(phrase) == 1 for phrase in self.phrases)
        return [phrase[0] for phrase in self.phrases] if single else None

    def check(self, examples: int, vocab: int) -> None:
        _check_count("forbidden phrases", self.each, examples)
        _check_phrases("forbidden phrase", _phrases_by_example(self.phrases, self.each), vocab)

    def forbid(self, scores: Tensor, written: Tensor, rows: Tensor, eos: int) -> None:
        if self.always is not None:
            scores.index_fill_(-1, _of(self, "_last", rows[:1])[0], float("-inf"))
            return
        begin, last = (_of(self, name, rows)[:, None] for name in ("_begin", "_last"))  # with a beam axis
        tail = _tail(written, begin.shape[-1])[:, :, None]
        begun = ((tail == begin) | (begin == ANY)).all(-1)
        _remove(scores, last.expand_as(begun), begun)

    @cached_property
    def _begin(self) -> Int[Tensor, "examples phrase begin"]:
        """Return all but the last token of each phrase, right-aligned; missing phrases are filled to match nothing."""
        examples = _phrases_by_example(self.phrases, self.each)
        count = max(map(len, examples), default=0)
        length = max([2, *(len(phrase) for phrases in examples for phrase in phrases)])
        begin = torch.full((len(examples), count, length - 1), NEVER)
        for i, phrases in enumerate(examples):
            for j, phrase in enumerate(phrases):
                begin[i, j] = torch.tensor([ANY] * (length - len(phrase)) + phrase[:-1])
        return begin

    @cached_property
    def _last(self) -> Int[Tensor, "examples phrase"]:
        """Return the last token of each phrase."""
        examples = _phrases_by_example(self.phrases, self.each)
        last = torch.zeros(len(examples), max(map(len, examples), default=0), dtype=torch.int64)
        for i, phrases in enumerate(examples):
            for j, phrase in enumerate(phrases):
                last[i, j] = phrase[-1]
        return last


@dataclass(frozen=True)
class Force:
    """Each of these token sequences occurs in an answer before it may end.

    Only beam search supports this. It divides its beams among hypotheses by how many of the forced tokens they contain,
    the furthest first (dynamic beam allocation, Post and Vilar 2018), so the phrases are found with any number of beams
    if the limit leaves room, and well with more beams than forced tokens.
    """

    phrases: Sequence[Tokens] = ()
    each: Sequence[Sequence[Tokens]] | None = None

    def check(self, examples: int, vocab: int) -> None:
        _check_count("forced phrases", self.each, examples)
        _check_phrases("forced phrase", _phrases_by_example(self.phrases, self.each), vocab)

    def forbid(self, scores: Tensor, written: Tensor, rows: Tensor, eos: int) -> None:
        if eos >= 0:
            missing = ~self._met(written, rows).all(-1)
            scores[..., eos].masked_fill_(missing, float("-inf"))

    def progress(
        self,
        written: Int[Tensor, "batch beam length"],
        tokens: Int[Tensor, "batch beam choice"],
        rows: Int[Tensor, "batch"],
    ) -> Int[Tensor, "batch beam choice"]:
        lengths = self._lengths(rows)[:, None, None]
        tail = _tail(written, self._table.shape[-1] - 1)[:, :, None].expand(-1, -1, tokens.shape[-1], -1)
        begun = self._begun(torch.cat([tail, tokens[..., None]], -1), rows)
        met = self._met(written, rows)[:, :, None] | (begun == lengths)
        partly = begun.masked_fill(met, 0).amax(-1) if met.shape[-1] else 0
        return (lengths * met).sum(-1) + partly

    def next_tokens(
        self, written: Int[Tensor, "batch beam length"], rows: Int[Tensor, "batch"]
    ) -> Int[Tensor, "batch beam phrase"]:
        begun = self._begun(_tail(written, self._table.shape[-1])[:, :, None], rows)[:, :, 0]
        met = self._met(written, rows)
        phrases = _of(self, "_table", rows)[:, None].expand(-1, written.shape[1], -1, -1)
        following = phrases.gather(-1, begun.masked_fill(met, 0)[..., None])[..., 0]
        return following.masked_fill(met, ABSENT)

    def _met(self, written: Tensor, rows: Tensor) -> Bool[Tensor, "batch beam phrase"]:
        """Return True for phrases that occur already."""
        phrases = _of(self, "_table", rows)[:, None, None]  # axes for the beam and the window
        room = F.pad(written, (0, self._table.shape[-1]), value=ABSENT)
        windows = room.unfold(-1, self._table.shape[-1], 1)[:, :, :, None]
        return ((windows == phrases) | (phrases == ANY)).all(-1).any(2)

    def _begun(self, tail: Tensor, rows: Tensor) -> Int[Tensor, "batch beam choice phrase"]:
        """Return the largest number of first tokens of each phrase that a text ends with."""
        phrases, lengths = _of(self, "_table", rows)[:, None, None], self._lengths(rows)[:, None, None]
        begun = torch.zeros((*tail.shape[:-1], self._table.shape[1]), dtype=torch.int64, device=tail.device)
        for size in range(1, self._table.shape[-1] + 1):
            same = (tail[..., None, -size:] == phrases[..., :size]).all(-1) & (size <= lengths)
            begun.masked_fill_(same, size)
        return begun

    def _lengths(self, rows: Tensor) -> Int[Tensor, "batch phrase"]:
        return (_of(self, "_table", rows) >= 0).sum(-1)

    @cached_property
    def _table(self) -> Int[Tensor, "examples phrase longest"]:
        """The phrases aligned left; a missing phrase is empty and counts as met."""
        examples = _phrases_by_example(self.phrases, self.each)
        count = max(map(len, examples), default=0)
        flat = [phrase for phrases in examples for phrase in phrases + [[]] * (count - len(phrases))]
        table, _ = padded(flat, ANY, max([1, *map(len, flat)]))
        return table.reshape(len(examples), count, table.shape[-1])


def _of(rule: Constraint, name: str, rows: Tensor) -> Tensor:
    """Return the rows of a rule's table for these examples; a table of one row serves all."""
    moved = rule.__dict__.setdefault("_moved", {})  # copied to a device once: a capture cannot wait for it
    if (name, rows.device) not in moved:
        moved[name, rows.device] = getattr(rule, name).to(rows.device)
    table = moved[name, rows.device]
    return table[rows] if len(table) > 1 else table.expand(len(rows), *table.shape[1:])


def _length(written: Int[Tensor, "batch beam length"]) -> Int[Tensor, "batch"]:
    """Return the number of tokens that every beam of an example has."""
    return (written[:, 0] >= 0).sum(-1)


def _tail(written: Tensor, size: int) -> Tensor:
    """Return the last `size` tokens written, with ABSENT where there are fewer."""
    padded = F.pad(written, (size, 0), value=ABSENT)
    return padded[..., padded.shape[-1] - size :]


def _remove(scores: Tensor, tokens: Tensor, condition: Tensor) -> None:
    """Set tokens to -inf where the condition holds, by adding, which does not wait for the device."""
    change = torch.zeros_like(tokens, dtype=scores.dtype).masked_fill_(condition, float("-inf"))
    scores.scatter_add_(-1, tokens, change)


def _numbers(numbers: int | Sequence[int]) -> Tensor:
    return torch.tensor([numbers] if isinstance(numbers, int) else list(numbers), dtype=torch.int64)


def _phrases_by_example(
    phrases: Sequence[Tokens], per_example: Sequence[Sequence[Tokens]] | None
) -> list[list[list[int]]]:
    """Return the phrases of each example, or one list for all."""
    return [[list(phrase) for phrase in (*phrases, *extra)] for extra in ([()] if per_example is None else per_example)]


def _check_numbers(name: str, numbers: int | Sequence[int], examples: int) -> None:
    _check_count(name, None if isinstance(numbers, int) else numbers, examples)
    if bool((_numbers(numbers) < 0).any()):
        raise ValueError(f"{name} {numbers} is negative: 0 asks for nothing")


def _check_count(name: str, per_example: Sequence[object] | None, examples: int) -> None:
    if per_example is not None and len(per_example) != examples:
        raise ValueError(
            f"{name} given for {len(per_example)} examples of {examples}: give one for each, or one for all"
        )


def _check_phrases(name: str, examples: Sequence[Sequence[Tokens]], vocab: int) -> None:
    phrases = [phrase for example in examples for phrase in example]
    if not all(phrases):
        raise ValueError(f"a {name} is empty: leave it out")
    _check_tokens(name, phrases, vocab)


def _check_tokens(name: str, phrases: Sequence[Tokens], vocab: int) -> None:
    for phrase in phrases:
        wrong = [token for token in phrase if not 0 <= token < vocab]
        if wrong:
            raise ValueError(f"{name} {list(phrase)}: token {wrong[0]} is not in the vocabulary of {vocab}")
