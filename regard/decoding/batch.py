"""Decoding of lists of examples, as many at a time as there are rows; answers are in the order of the lists."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from regard.decoding.lane import NOT_NUMBERS, Failure, Group, Lane
from regard.decoding.stepper import Hypothesis, Replayable, Stepper
from regard.decoding.tables import DynamicBatch, Policy, borrow_table, exclusive_table

REPORT_BATCH = 32  # answers that are reported at a time while the device is busy
MAX_UNREPORTED = 512  # answers that may wait to be reported until the device is busy


class BrokenScores(FloatingPointError):
    """Raised when examples have no answers because their scores are not numbers; all others were reported."""

    def __init__(self, failed: Sequence[tuple[int, int]]) -> None:
        super().__init__(NOT_NUMBERS.reason)
        self.failed = list(failed)
        """The group and the place of each."""


class Finished(NamedTuple):
    """The answers to one example, with its group and its place in the group."""

    group: int
    place: int
    hypotheses: list[Hypothesis]


def stream(
    model: Stepper,
    groups: Sequence[Group],
    policy: Policy,
    *,
    rows: int | None = None,
    hear: Callable[[Sequence[Finished]], None] | None = None,
) -> list[list[list[Hypothesis]]]:
    """Return the answers to the examples of each group.

    With a model whose states are fixed, all groups share at least `rows` rows, and the widest group must come first.
    With states that grow, groups are decoded one after another. `hear` is called with answers as soon as they are
    finished. Scores that are not numbers raise BrokenScores once all other examples of their group are done.
    """
    answers_by_group: list[list[list[Hypothesis]]] = [[[] for _ in group.limit] for group in groups]
    examples = sum(len(group.limit) for group in groups)
    if not examples:
        return answers_by_group
    if not isinstance(model, Replayable):
        first = 0
        for number, group in enumerate(groups):
            growing, longest = DynamicBatch(model, policy), max(group.limit, default=1)
            lane = Lane(growing, policy.book(group.limit), longest=longest, first=first, examples=examples)
            answers_by_group[number], first = _serve(lane, [group], hear, number)[0], first + len(group.limit)
        return answers_by_group
    most = max([rows or 1, *(len(group.limit) for group in groups)])
    longest = max(max(group.limit) for group in groups if group.limit)
    widths = tuple(int(np.prod(tensor.shape[1:])) for tensor in groups[0].inputs)
    table = borrow_table(model, policy, rows=most, longest=longest, widths=widths)
    with table.lock:
        book = policy.book([1] * table.rows, table.longest)
        return _serve(Lane(table, book, longest=table.longest, examples=examples), groups, hear)


@contextmanager
def session(model: Stepper, group: Group, policy: Policy) -> Iterator[Lane]:
    """Yield a lane with one group seated, for the caller to advance; it may be left before the group is done."""
    rows, longest = len(group.limit), max(group.limit)
    if not isinstance(model, Replayable):
        lane = Lane.of(model, policy, rows=rows, longest=longest)
        lane.seat(group)
        yield lane
        return
    widths = tuple(int(np.prod(tensor.shape[1:])) for tensor in group.inputs)
    with exclusive_table(model, policy, rows=rows, longest=longest, widths=widths) as table:
        lane = Lane(table, policy.book([1] * table.rows, table.longest), longest=table.longest)
        lane.seat(group)
        yield lane


def _serve(
    lane: Lane, groups: Sequence[Group], hear: Callable[[Sequence[Finished]], None] | None = None, first: int = 0
) -> list[list[list[Hypothesis]]]:
    """Seat the groups, numbered from `first`, as rows become free, and return their answers."""
    answers_by_group: list[list[list[Hypothesis]]] = [[[] for _ in group.limit] for group in groups]
    places: dict[int, tuple[int, int]] = {}
    waiting = deque(enumerate(groups))
    unheard: deque[Finished] = deque()
    failed: list[tuple[int, int]] = []

    def pass_on() -> bool:
        """Report some answers; return False if there are none to report."""
        some = [unheard.popleft() for _ in range(min(REPORT_BATCH, len(unheard)))]
        if hear is not None and some:
            hear(some)
        return bool(some)

    while waiting or lane.busy:
        while waiting and len(waiting[0][1].limit) <= lane.free:
            number, group = waiting.popleft()
            places |= {ticket: (number, place) for place, ticket in enumerate(lane.seat(group))}
        lane.advance(waiting=bool(waiting), meanwhile=pass_on)
        while len(unheard) > MAX_UNREPORTED:
            pass_on()
        for ticket, answers in lane.take_finished().items():
            number, place = places.pop(ticket)
            if isinstance(answers, Failure):
                failed.append((first + number, place))
                continue
            answers_by_group[number][place] = answers
            unheard.append(Finished(first + number, place, answers))
    while pass_on():
        pass
    if failed:
        raise BrokenScores(failed)
    return answers_by_group
