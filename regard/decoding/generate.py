"""Greedy decoding and sampling: one token after another, several answers side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.batch import session, stream
from regard.decoding.constraints import Constraint, Forbid, Goal, constrain
from regard.decoding.lane import Failure, Group
from regard.decoding.ledger import Beam, Numbers, Round
from regard.decoding.ranking import Chosen, Front, Ranked
from regard.decoding.rules import RowDistributions
from regard.decoding.sampling import Distribution, Sampler, draw, noise
from regard.decoding.stepper import Hypothesis, Replayable, Stepper, limits

UNWRITTEN = Hypothesis([], 0.0, [], False, 0.0)


@dataclass(frozen=True)
class SamplingPolicy:
    """The policy of greedy decoding, or of sampling with a sampler."""

    beams: int
    eos: int
    pick: Distribution | RowDistributions | None = None
    constraints: Sequence[Constraint] = ()
    reorders: ClassVar[bool] = False
    memory: dict[Any, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that there are no goals and at least one sample."""
        if any(isinstance(constraint, Goal) for constraint in self.constraints):
            raise ValueError("forced phrases cannot be aimed at one token at a time: use a beam search")
        if self.beams < 1:
            raise ValueError(f"{self.beams} samples of each example: ask for at least 1")

    @property
    def key(self) -> tuple[Any, ...]:
        """The settings that a table on the device depends on."""
        drawn = self.pick.warping if isinstance(self.pick, Distribution) else self.pick
        return "draw", self.beams, self.eos, drawn, list(self.constraints)

    @property
    def draws(self) -> bool:
        """True if every token needs a random number."""
        return self.pick is not None

    def first(self, batch: int, device: torch.device) -> Float[Tensor, "batch beam"]:
        """Return the initial scores, 0 for every answer."""
        return torch.zeros(batch, self.beams, device=device)

    def choose(self, logits: Float[Tensor, "batch beam vocab"], front: Front) -> Chosen:
        """Choose the next token of every answer; scores are log-probabilities under the model itself."""
        scores = constrain(logits, self.constraints, front.written, front.rows, self.eos)
        if self.pick is None:
            value, tokens = scores.max(-1)
        else:
            assert front.noise is not None
            tokens = draw(self.pick.warp(scores, front.rows), front.noise)
            value = _at(scores, tokens)
        stuck = value.isneginf()
        total = torch.where(stuck, front.total, front.total + value - logits.logsumexp(-1))
        beam_numbers = torch.arange(self.beams, device=tokens.device).expand_as(tokens)
        return Chosen(Ranked(total, beam_numbers, tokens, torch.zeros_like(tokens), stuck), total, beam_numbers, tokens)

    @property
    def free(self) -> bool:
        """True if kernels can choose the tokens: rows share a distribution, and only single tokens are forbidden."""
        single = all(
            isinstance(constraint, Forbid) and constraint.always is not None for constraint in self.constraints
        )
        return single and not isinstance(self.pick, RowDistributions)

    def choices(self, vocab: int) -> int:
        """Return the number of next tokens to record: one for each answer."""
        return self.beams

    def choose_in_place(self, logits: Tensor, lines: Any, record: Tensor, clock: Tensor) -> None:
        """Choose the next tokens in place with Triton kernels, as `choose` does."""
        from regard.decoding.draws import Seats, Warping, draw

        assert not isinstance(self.pick, RowDistributions), "kernels draw all rows from one distribution"
        seats = Seats(lines.total, lines.tokens, lines.length, lines.noise, self._forbidden_mask(logits))
        draw(logits, seats, record, clock, None if self.pick is None else Warping(*self.pick.warping))

    def _forbidden_mask(self, logits: Tensor) -> Tensor | None:
        """Return the mask of forbidden tokens, made once: a replayed round cannot copy it from the host."""
        vocab, device = logits.shape[-1], logits.device
        tokens = [
            token
            for constraint in self.constraints
            if isinstance(constraint, Forbid)
            for token in constraint.always or ()
        ]
        if not tokens:
            return None
        if (vocab, device) not in self.memory:
            mask = torch.zeros(vocab, dtype=torch.int8)
            mask[tokens] = 1
            self.memory[vocab, device] = mask.to(device)
        return self.memory[vocab, device]

    def book(self, limits: Sequence[int], longest: int | None = None) -> SampleState:
        """Return the host state of the examples."""
        return SampleState(self.beams, limits, eos=self.eos, longest=longest)

    def group(self, inputs: Sequence[Any], limit: Sequence[int]) -> Group:
        """Return the examples as a group, with random numbers from the generators of the sampler, if any."""
        return Group(inputs, limit, self.pick.noise(limit, self.beams) if isinstance(self.pick, Sampler) else None)


def seeded_noise(policy: Any, limits: Sequence[int], seeds: Sequence[int]) -> Float[Tensor, "batch beam room"] | None:
    """Return random numbers for each example, drawn from its own seed; None where the policy draws nothing."""
    if not policy.draws:
        return None
    return noise([torch.Generator().manual_seed(seed) for seed in seeds], limits, policy.beams)


def generate(
    model: Stepper,
    inputs: Sequence[Any],
    *,
    limit: int | Sequence[int],
    eos: int | None,
    pick: Sampler | None = None,
    samples: int = 1,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Return `samples` answers to each example, in no order; each token is the best one or drawn by `pick`.

    Their scores are log-probabilities under the model itself, whatever temperature or filter was used for sampling. An
    answer has at most `limit` tokens, its end token included.
    """
    policy = SamplingPolicy(samples, -1 if eos is None else eos, pick, tuple(constraints))
    group = policy.group(inputs, limits(limit, len(inputs[0])))
    if samples > 1 and policy.free and isinstance(model, Replayable):
        return _generate_in_rows(model, group, policy)
    return stream(model, [group], policy)[0]


def _generate_in_rows(model: Stepper, group: Group, policy: SamplingPolicy) -> list[list[Hypothesis]]:
    """Generate with a row for every sample, which kernels handle faster than many samples in one row."""
    samples = policy.beams
    inputs = [element.repeat_interleave(samples, 0) for element in group.inputs]
    limit = [element for element in group.limit for _ in range(samples)]
    noise = None if group.noise is None else group.noise.flatten(0, 1)[:, None]
    alone = replace(policy, beams=1, memory=policy.memory)
    hypotheses = [hypothesis for [hypothesis] in stream(model, [Group(inputs, limit, noise)], alone)[0]]
    renumbered = [
        replace(hypothesis, path=[number % samples] * len(hypothesis.path))
        for number, hypothesis in enumerate(hypotheses)
    ]
    return [renumbered[first : first + samples] for first in range(0, len(renumbered), samples)]


def stream_one(
    model: Stepper,
    inputs: Sequence[Any],
    *,
    limit: int,
    eos: int | None,
    pick: Sampler | None = None,
    constraints: Sequence[Constraint] = (),
) -> Iterator[Hypothesis]:
    """Yield the answer that `generate` gives to one example, as far as it is written, after each token.

    Where rounds run ahead of the host, several tokens arrive at once; each is still yielded by itself.
    """
    policy = SamplingPolicy(1, -1 if eos is None else eos, pick, tuple(constraints))
    group = policy.group(inputs, [limit])
    with session(model, group, policy) as lane:
        sent, book = 0, lane.book
        assert isinstance(book, SampleState)
        while lane.busy:
            lane.advance()
            stages = book.stages(0, sent)
            sent += len(stages)
            yield from stages
        for answers in lane.take_finished().values():
            if isinstance(answers, Failure):
                raise FloatingPointError(answers.reason)


class SampleState:
    """The host state of samples: a row for each example, a column for each sample."""

    def __init__(self, samples: int, limits: Sequence[int], *, eos: int, longest: int | None = None) -> None:
        rows, longest = len(limits), max(limits, default=1) if longest is None else longest
        self.beams, self.eos = samples, eos
        self.limit = np.array(limits, dtype=np.int64)
        self.length = np.zeros(rows, dtype=np.int64)
        self.going = np.zeros(rows, dtype=bool)
        self._open = np.zeros((rows, samples), dtype=bool)
        self._tokens = np.zeros((rows, samples, longest), dtype=np.int64)
        self._total = np.zeros((rows, samples, longest), dtype=np.float32)  # after each token
        self._answers = [[UNWRITTEN] * samples for _ in range(rows)]
        self.admit(np.arange(rows), limits)

    def admit(self, rows: Numbers, limits: Sequence[int], beams: Sequence[Beam] = ()) -> None:
        """Assign rows to new examples; there are no beam settings."""
        assert not beams, "samples are not searched for"
        self.limit[rows], self.length[rows], self.going[rows] = limits, 0, True
        self._open[rows] = True
        for row in rows.tolist():
            self._answers[row] = [UNWRITTEN] * self.beams

    def record(self, rows: Numbers, ranked: Round) -> None:
        """Add one token to every sample, and close samples that have ended, are full or cannot go on."""
        going = self.going[rows]
        if not going.all():
            rows, ranked = rows[going], Round(*(array[going] for array in ranked))
        fed, token, stuck = self.length[rows], ranked.token, ranked.stuck
        self._tokens[rows, :, fed], self._total[rows, :, fed] = token, ranked.score
        ended = ~stuck & (token == self.eos)
        closing = self._open[rows] & (ended | stuck | (self.limit[rows] <= fed + 1)[:, None])
        for line, sample in np.argwhere(closing).tolist():
            row, size = int(rows[line]), int(fed[line])
            text = self._tokens[row, sample, : size if ended[line, sample] or stuck[line, sample] else size + 1]
            score = float(ranked.score[line, sample])
            finished = bool(ended[line, sample])
            self._answers[row][sample] = Hypothesis(text.tolist(), score, [sample] * size, finished, score)
        self._open[rows] &= ~closing
        self.length[rows] = fed + 1
        self.going[rows] = self._open[rows].any(1)

    def answers(self, rows: Numbers) -> list[list[Hypothesis]]:
        """Return all samples of each row."""
        return [self._answers[row] for row in rows.tolist()]

    def so_far(self, row: int) -> list[Hypothesis]:
        """Return the samples as far as they are written; the newest token of an open one is still to be fed."""
        size = int(self.length[row])
        return [
            self._stage(row, sample, size) if self._open[row, sample] else self._answers[row][sample]
            for sample in range(self.beams)
        ]

    def stages(self, row: int, since: int) -> list[Hypothesis]:
        """Return the first sample as it was after each token since `since`; its current state comes last."""
        earlier = [self._stage(row, 0, size) for size in range(since + 1, int(self.length[row]))]
        return [*earlier, self.so_far(row)[0]] if self.length[row] > since else []

    def _stage(self, row: int, sample: int, size: int) -> Hypothesis:
        """Return a sample as it was when it had `size` tokens."""
        score = float(self._total[row, sample, size - 1]) if size else 0.0
        return Hypothesis(self._tokens[row, sample, :size].tolist(), score, [sample] * max(size - 1, 0), False, score)


def _at(scores: Float[Tensor, "batch beam vocab"], tokens: Int[Tensor, "batch beam"]) -> Float[Tensor, "batch beam"]:
    """Return the scores of these tokens."""
    return scores.gather(-1, tokens[..., None])[..., 0]
