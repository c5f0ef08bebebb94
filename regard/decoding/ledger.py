"""The host state of a beam search: tokens, parents and the best answers so far, as NumPy arrays.

It depends on nothing but the rankings of the rounds; texts and paths are read back through the parents once an example
is done. So a device may run rounds ahead of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from regard.decoding.ranking import DEAD
from regard.decoding.stepper import Hypothesis

Numbers = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Beam:
    """Settings of a beam search: its width, how answers are ranked, and when it stops."""

    beams: int = 4
    """Number of hypotheses (beam width); 1 is greedy search."""
    nbest: int = 1
    """Number of answers to return, at most `beams`."""
    length_penalty: float = 1.0
    """Answers are ranked by log-probability / length ** length_penalty; 0 ranks by probability, favouring short."""
    patience: float = 1.0
    """Stop after patience x beams finished answers (Kasai et al. 2022); 0: after nbest, inf: when no other can win."""

    def __post_init__(self) -> None:
        """Check that the settings are in range."""
        if not 1 <= self.nbest <= self.beams:
            raise ValueError(
                f"the {self.nbest} best of {self.beams} beams: nbest lies between 1 and the number of beams"
            )
        if not abs(self.length_penalty) < float("inf"):
            raise ValueError(f"length_penalty {self.length_penalty} is not a finite number: 0 turns it off")
        if not self.patience >= 0:
            raise ValueError(f"patience {self.patience} is negative: 0 stops at the first answers")

    @property
    def enough(self) -> float:
        """The number of finished hypotheses after which the search stops."""
        return max(float(self.nbest), self.patience * self.beams)

    def normalize_score(self, score: float, length: int) -> float:
        """Return the score by which hypotheses are ranked; the end token counts towards the length."""
        return score / max(length, 1) ** self.length_penalty


@runtime_checkable
class HostState(Protocol):
    """The state of examples on the host, a row for each: it records rankings and knows which rows are done."""

    beams: int
    limit: Numbers
    going: Numbers

    def admit(self, rows: Numbers, limits: Sequence[int], beams: Sequence[Beam] = ()) -> None:
        """Assign rows to new examples; each may have its own search settings, with the same number of beams."""
        ...

    def record(self, rows: Numbers, ranked: Round) -> None:
        """Record the ranking of one round for these rows."""
        ...

    def answers(self, rows: Numbers) -> list[list[Hypothesis]]:
        """Return the answers of each row that is done."""
        ...

    def so_far(self, row: int) -> list[Hypothesis]:
        """Return what a row that is not done has written: live hypotheses first, then ended ones."""
        ...


class Round(NamedTuple):
    """The ranking of one round, on the host."""

    score: Numbers
    parent: Numbers
    token: Numbers
    progress: Numbers
    stuck: Numbers


class _Answer(NamedTuple):
    """A hypothesis as the place where its text ends; the fields that rank it come first."""

    finished: bool
    progress: int
    normalized: float
    score: float
    beam: int
    size: int
    fed: int

    @classmethod
    def of(
        cls,
        beam: Beam,
        score: float,
        place: int,
        size: int,
        *,
        progress: int = 0,
        finished: bool = False,
        fed: bool = True,
    ) -> _Answer:
        """Return an answer of `size` tokens, the newest of which may not have been fed to the model."""
        worth = beam.normalize_score(score, size + finished)
        return cls(finished, progress, worth, score, place, size, size if fed else size - 1)


class BeamState:
    """The hypotheses and answers of examples, a row for each; a row can be reused when it is done."""

    def __init__(self, beam: Beam, limits: Sequence[int], *, eos: int, longest: int | None = None):
        rows, longest = len(limits), max(limits, default=1) if longest is None else longest
        self.beam, self.beams, self.eos = beam, beam.beams, eos
        self.limit = np.array(limits, dtype=np.int64)
        self.length = np.zeros(rows, dtype=np.int64)
        self.going = np.zeros(rows, dtype=bool)
        self._tokens, self._parents = np.zeros((2, rows, longest, beam.beams), dtype=np.int64)
        self._total = np.zeros((rows, beam.beams), dtype=np.float32)
        self._progress = np.zeros((rows, beam.beams), dtype=np.int64)
        self._kept: list[list[_Answer]] = [[] for _ in limits]
        self._endings = np.zeros(rows, dtype=np.int64)
        self._least = np.full(rows, np.nan)  # normalized score of the last-ranked answer, once all are finished
        self._how = [beam] * rows
        self._nbest, self._enough = np.full(rows, beam.nbest), np.full(rows, beam.enough)
        self._divisors = np.tile(_divide_lengths(beam.length_penalty, longest + 2), (rows, 1))
        self.admit(np.arange(rows), limits)

    def admit(self, rows: Numbers, limits: Sequence[int], beams: Sequence[Beam] = ()) -> None:
        """Assign rows to new examples; each may have its own search settings, with the same number of beams."""
        for row, beam in zip(rows.tolist(), beams or [self.beam] * len(rows), strict=True):
            if beam is self._how[row]:
                continue
            if beam.beams != self.beams:
                raise ValueError(f"{beam.beams} beams in a row of {self.beams}: seat it among others of its width")
            self._how[row], self._nbest[row], self._enough[row] = beam, beam.nbest, beam.enough
            self._divisors[row] = _divide_lengths(beam.length_penalty, self._divisors.shape[1])
        self.limit[rows], self.length[rows], self.going[rows] = limits, 0, True
        self._total[rows], self._progress[rows] = 0.0, 0
        self._endings[rows], self._least[rows] = 0, np.nan
        for row in rows.tolist():
            self._kept[row] = []

    def record(self, rows: Numbers, ranked: Round) -> None:
        """Record the ranking of one round for these rows; an example collects nothing once it is done."""
        going = self.going[rows]
        if not going.all():
            rows, ranked = rows[going], Round(*(array[going] for array in ranked))
        if not len(rows):
            return
        beams, stops = self.beam.beams, ranked.token == self.eos
        score, parent, token, progress = ranked[:4]
        if stops.any():
            self._collect_ended(rows, ranked)
            order = np.argsort(stops, axis=1, kind="stable")[:, :beams]
            score = np.where(stops, DEAD, score)
            score, parent, token, progress = (
                np.take_along_axis(array, order, 1) for array in (score, parent, token, progress)
            )
        if ranked.stuck.any():
            self._collect_stuck(rows, ranked.stuck)
        at, total = self.length[rows], score[:, :beams]
        self._tokens[rows, at], self._parents[rows, at] = token[:, :beams], parent[:, :beams]
        self._total[rows], self._progress[rows] = total, progress[:, :beams]
        self.length[rows] = at = at + 1
        full = at >= self.limit[rows]
        if full.any():
            self._collect_full(rows[full], total[full])
        self.going[rows] = self._could_gain(rows, total.max(1))

    def answers(self, rows: Numbers) -> list[list[Hypothesis]]:
        """Return the best answers of each row."""
        written = iter(self._read([(row, answer) for row in rows.tolist() for answer in self._kept[row]]))
        return [[next(written) for _ in self._kept[row]] for row in rows.tolist()]

    def so_far(self, row: int) -> list[Hypothesis]:
        """Return the live hypotheses of a row, best first, then its answers so far, which may win in the end.

        The newest token of each live one is still to be fed.
        """
        live: list[int] = np.flatnonzero(self._total[row] > DEAD).tolist() if self.length[row] else []
        answers = [*(self._as_it_is(row, beam, fed=False) for beam in live), *self._kept[row]]
        return self._read([(row, answer) for answer in answers])

    def _read(self, answers: Sequence[tuple[int, _Answer]]) -> list[Hypothesis]:
        """Read texts and paths back through the parents, from their last tokens."""
        owner, size, beam = np.array([(row, answer.size, answer.beam) for row, answer in answers], int).reshape(-1, 3).T
        longest = int(size.max(initial=0))
        texts, paths = np.zeros((2, longest, len(answers)), dtype=np.int64)
        tokens, parents, first = (
            self._tokens.ravel(),
            self._parents.ravel(),
            owner * int(np.prod(self._tokens.shape[1:])),
        )
        for step in reversed(range(longest)):
            place = first + step * self.beam.beams + beam
            texts[step], paths[step] = tokens.take(place), beam
            beam = np.where(step < size, parents.take(place), beam)
        return [
            Hypothesis(text[: answer.size], answer.score, path[: answer.fed], answer.finished, answer.normalized)
            for text, path, (_, answer) in zip(texts.T.tolist(), paths.T.tolist(), answers, strict=True)
        ]

    def _collect_ended(self, rows: Numbers, ranked: Round) -> None:
        """Count the hypotheses that ended among the best, and store those that beat the answers so far."""
        best = slice(self.beam.beams)
        at, place = np.nonzero((ranked.token[:, best] == self.eos) & (ranked.score[:, best] > DEAD))
        owners = rows[at]
        np.add.at(self._endings, owners, 1)
        worth = ranked.score[at, place] / self._divisors[owners, self.length[owners] + 1]
        for number in np.flatnonzero(~(worth <= self._least[owners])).tolist():
            row, beam = int(owners[number]), int(ranked.parent[at[number], place[number]])
            score = float(ranked.score[at[number], place[number]])
            self._add(row, _Answer.of(self._how[row], score, beam, int(self.length[row]), finished=True))

    def _collect_stuck(self, rows: Numbers, stuck: Numbers) -> None:
        """Store hypotheses that can neither end nor go on as answers."""
        for row, beam in np.argwhere(stuck).tolist():
            row = int(rows[row])
            self._add(row, self._as_it_is(row, beam, fed=True))

    def _collect_full(self, rows: Numbers, total: Numbers) -> None:
        """Store hypotheses at the limit as answers; of equal progress and length, the `nbest` best suffice."""
        counts = np.where(self._progress[rows].any(1), self.beams, self._nbest[rows])
        full = (total > DEAD) & (np.arange(self.beams) < counts[:, None])
        for place, beam in np.argwhere(full).tolist():
            row = int(rows[place])
            self._add(row, self._as_it_is(row, beam, fed=False))

    def _as_it_is(self, row: int, beam: int, *, fed: bool) -> _Answer:
        """Return a live hypothesis as an answer; its newest token may not have been fed."""
        score, size = float(self._total[row, beam]), int(self.length[row])
        return _Answer.of(self._how[row], score, beam, size, progress=int(self._progress[row, beam]), fed=fed)

    def _add(self, row: int, answer: _Answer) -> None:
        """Keep an answer if it is among the best; unfinished ones rank behind finished ones, however probable."""
        answers = self._kept[row]
        answers.append(answer)
        if len(answers) > 1:
            answers.sort(key=lambda candidate: candidate[:3], reverse=True)
            del answers[self._how[row].nbest :]
        if len(answers) == self._how[row].nbest and answers[-1].finished:
            self._least[row] = answers[-1].normalized

    def _could_gain(self, rows: Numbers, best: Numbers) -> Numbers:
        """True for rows where a live hypothesis may still change the answers; `best` is the highest live score."""
        limit, length, least = self.limit[rows], self.length[rows], self._least[rows]
        # Scores never rise and the penalty is monotone: the highest bound is that of the next length or of the last.
        hope = np.maximum(best / self._divisors[rows, length + 1], best / self._divisors[rows, limit])
        undecided = np.isnan(least) | ((self._endings[rows] < self._enough[rows]) & (hope > least))
        return (best > DEAD) & (length < limit) & undecided


def _divide_lengths(penalty: float, sizes: int) -> Numbers:
    """Return the divisor of a score for every length below `sizes`."""
    return np.array([max(size, 1) ** penalty for size in range(sizes)])
