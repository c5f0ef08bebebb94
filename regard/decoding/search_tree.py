"""The tree of a beam search as it was searched: what every round kept, pruned and ended, with the search's own scores.

    with record_search() as record:
        search(model, inputs, Beam(beams=5), limit=60, eos=2)
    tree = record.tree(tokenizer.pieces)

A search that is recorded gives the same answers: its rankings are copied as they are recorded on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from regard.decoding.ledger import Beam, BeamState, Numbers, Round
from regard.decoding.ranking import DEAD
from regard.decoding.stepper import Hypothesis

FORMAT = 1
DIGITS = 6  # decimals of scores in JSON
Fate = Literal["kept", "pruned", "ended"]


@dataclass(frozen=True)
class TreeNode:
    """A hypothesis: the token that it adds to its parent, and what became of it."""

    step: int
    """The number of tokens, from 1; the root, which is empty, has 0."""
    parent: int
    """The place of its parent among the nodes; -1 for the root."""
    token: int
    text: str
    log_probability: float
    """The log-probability of the token after its parent."""
    total: float
    """The log-probability of all tokens."""
    fate: Fate
    """Whether the search went on from it, left it for better ones, or set it aside as finished."""
    normalized: float | None = None
    """The score by which answers are ranked, of hypotheses that ended or are an answer."""
    is_best: bool = False
    """True if the best answer is this hypothesis or begins with it."""


@dataclass(frozen=True)
class SearchTree:
    """A beam search: its hypotheses, each after its parent and those of a round best first, and its settings."""

    nodes: Sequence[TreeNode]
    answers: Sequence[int]
    """The places of the answers among the nodes, best first."""
    beam: Beam
    limit: int
    """The most tokens of an answer, its end included."""
    end: int
    """The token that ends an answer; -1 if none does."""
    prefix: Sequence[int] = ()
    """Tokens that every hypothesis was forced to begin with."""
    model: str = ""
    text: str = ""
    """The input."""
    answer: str = ""
    """The best answer as text."""

    def path(self, place: int) -> list[int]:
        """Return the places of the hypotheses that lead to one, without the root, itself included."""
        places: list[int] = []
        while place > 0:
            places.append(place)
            place = self.nodes[place].parent
        return places[::-1]

    def tokens(self, place: int) -> list[int]:
        """Return the tokens of a hypothesis, its end token included: the prefix that forces it."""
        return [self.nodes[step].token for step in self.path(place)]

    def plain(self) -> dict[str, Any]:
        """Return the tree as JSON."""
        return {
            "format": FORMAT,
            "model": self.model,
            "text": self.text,
            "answer": self.answer,
            "search": {**asdict(self.beam), "patience": _finite(self.beam.patience), "limit": self.limit},
            "end": self.end,
            "prefix": list(self.prefix),
            "answers": list(self.answers),
            "nodes": [_round_scores(asdict(node)) for node in self.nodes],
        }


def read_tree(plain: dict[str, Any]) -> SearchTree:
    """Return a tree from its JSON."""
    if plain.get("format") != FORMAT:
        raise ValueError(f"search tree of format {plain.get('format')!r}, this version reads {FORMAT}")
    settings = dict(plain["search"])
    limit, patience = settings.pop("limit"), settings.pop("patience")
    beam = Beam(**settings, patience=float("inf") if patience is None else patience)
    nodes = [TreeNode(**node) for node in plain["nodes"]]
    words = {name: plain[name] for name in ("model", "text", "answer")}
    return SearchTree(nodes, plain["answers"], beam, limit, plain["end"], plain["prefix"], **words)


@dataclass
class RecordedSearch:
    """The rankings of one example, round by round, and its answers once it is done."""

    beam: Beam
    eos: int
    limit: int
    rounds: list[Round] = field(default_factory=list)
    answers: Sequence[Hypothesis] = ()


class SearchRecord:
    """The beam searches that ran while they were recorded."""

    def __init__(self) -> None:
        self._searches: list[RecordedSearch] = []

    @property
    def searches(self) -> list[RecordedSearch]:
        """The searches of examples in the order in which they began."""
        return [search for search in self._searches if search.rounds]

    def add(self, search: RecordedSearch) -> RecordedSearch:
        """Add a search that begins."""
        self._searches.append(search)
        return search

    def tree(self, pieces: Callable[[Sequence[int]], list[str]], **words: Any) -> SearchTree:
        """Return the tree of the last search; `pieces` spells tokens, `words` are further fields of the tree."""
        if not self.searches:
            raise ValueError("nothing was searched by beams: there is no tree to show")
        return build_tree(self.searches[-1], pieces, **words)


_record: ContextVar[SearchRecord | None] = ContextVar("_record", default=None)
_check: ContextVar[Callable[[], None] | None] = ContextVar("_check", default=None)


@contextmanager
def record_search() -> Iterator[SearchRecord]:
    """Record the beam searches that begin inside the block, in this thread alone."""
    record = SearchRecord()
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)


@contextmanager
def check_rounds(check: Callable[[], None]) -> Iterator[None]:
    """Call a function at every round of the searches that are recorded inside the block; it may raise to end them."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def open_book(beam: Beam, limits: Sequence[int], *, eos: int, longest: int | None = None) -> BeamState:
    """Return the host state of a beam search, which records it if anybody wants to know."""
    record = _record.get()
    if record is None:
        return BeamState(beam, limits, eos=eos, longest=longest)
    return RecordingState(record, beam, limits, eos=eos, longest=longest)


class RecordingState(BeamState):
    """The host state of a beam search that also copies every ranking into a record."""

    def __init__(self, record: SearchRecord, beam: Beam, limits: Sequence[int], *, eos: int, longest: int | None):
        self._record, self._searches = record, dict[int, RecordedSearch]()
        super().__init__(beam, limits, eos=eos, longest=longest)

    def admit(self, rows: Numbers, limits: Sequence[int], beams: Sequence[Beam] = ()) -> None:
        """Assign rows to new examples, whose searches are recorded from now on."""
        super().admit(rows, limits, beams)
        for row, limit in zip(rows.tolist(), limits, strict=True):
            self._searches[row] = self._record.add(RecordedSearch(self._how[row], self.eos, int(limit)))

    def record(self, rows: Numbers, ranked: Round) -> None:
        """Record the ranking of one round for these rows, and copy it for those that are not done."""
        if (check := _check.get()) is not None:
            check()
        for place in np.flatnonzero(self.going[rows]).tolist():
            self._searches[int(rows[place])].rounds.append(Round(*(array[place].copy() for array in ranked)))
        super().record(rows, ranked)

    def answers(self, rows: Numbers) -> list[list[Hypothesis]]:
        """Return the best answers of each row, and note them."""
        answers = super().answers(rows)
        for row, hypotheses in zip(rows.tolist(), answers, strict=True):
            self._searches[row].answers = hypotheses
        return answers


def build_tree(search: RecordedSearch, pieces: Callable[[Sequence[int]], list[str]], **words: Any) -> SearchTree:
    """Return the tree of a search from its rankings, as the search itself read them."""
    drafts, live = [_Draft(0, -1, -1, 0.0, 0.0, "kept")], [0]
    for step, ranked in enumerate(search.rounds, start=1):
        live = _add_round(drafts, live, ranked, step, search)
    children = {(draft.parent, draft.token): place for place, draft in enumerate(drafts)}
    answers = [_find_answer(children, hypothesis, search.eos) for hypothesis in search.answers]
    best, place = set[int](), answers[0] if answers else -1
    while place >= 0:
        best.add(place)
        place = drafts[place].parent
    ranks = dict(zip(answers, (hypothesis.normalized for hypothesis in search.answers), strict=True))
    texts = ["", *pieces([draft.token for draft in drafts[1:]])]
    nodes = [
        TreeNode(
            draft.step,
            draft.parent,
            draft.token,
            text,
            draft.log_probability,
            draft.total,
            draft.fate,
            search.beam.normalize_score(draft.total, draft.step) if draft.fate == "ended" else ranks.get(place),
            place in best,
        )
        for place, (draft, text) in enumerate(zip(drafts, texts, strict=True))
    ]
    return SearchTree(nodes, answers, search.beam, search.limit, search.eos, **words)


@dataclass(frozen=True)
class _Draft:
    """A node before its text and its rank are known."""

    step: int
    parent: int
    token: int
    log_probability: float
    total: float
    fate: Fate


def _add_round(
    drafts: list[_Draft], live: Sequence[int], ranked: Round, step: int, search: RecordedSearch
) -> list[int]:
    """Add the hypotheses of a round; return the places of those that go on, by their beams.

    The first of them that do not end go on, and those that end among the first are set aside: so does the search.
    """
    beams, following = search.beam.beams, list[int]()
    for rank, (total, parent, token) in enumerate(zip(*(array.tolist() for array in ranked[:3]), strict=True)):
        goes_on = token != search.eos and len(following) < beams
        if total == DEAD:
            if goes_on:
                following.append(-1)
            continue
        ends = token == search.eos and rank < beams
        fate: Fate = "ended" if ends else "kept" if goes_on else "pruned"
        if goes_on:
            following.append(len(drafts))
        origin = live[parent]
        drafts.append(_Draft(step, origin, token, total - drafts[origin].total, total, fate))
    return following


def _find_answer(children: dict[tuple[int, int], int], hypothesis: Hypothesis, eos: int) -> int:
    """Return the place of an answer, found by its tokens from the root on."""
    place = 0
    for token in [*hypothesis.tokens, *([eos] if hypothesis.finished else [])]:
        place = children[place, token]
    return place


def _round_scores(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node with rounded scores, and without what is null or false."""
    rounded = {name: round(value, DIGITS) if isinstance(value, float) else value for name, value in node.items()}
    return {name: value for name, value in rounded.items() if value is not None and value is not False}


def _finite(number: float) -> float | None:
    return None if number == float("inf") else number
