"""Beam search that the host does not hold up: rounds of fixed shape run ahead, and the ledger is kept behind them.

The device ranks, chooses and steps; what each round ranked is brought over every few rounds, and only then does the
host learn which examples are done. Examples that are done leave their rows to those that wait.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.hardware import kernels_run
from regard.decoding.graphs import Replay
from regard.decoding.ledger import Beam, Ledger, Numbers, Round
from regard.decoding.ranking import Front, advance, rank
from regard.decoding.stepper import Hypothesis, Replayable, Stepper, limits

SPAN = 8  # rounds between two looks
KEPT = 4  # sets of rows that a model keeps for searches of the same shape


class Group(NamedTuple):
    """Examples that are read together: the model's inputs, and how long each answer may become."""

    inputs: Sequence[Tensor]
    limit: Sequence[int]


def fit(model: Stepper) -> TypeGuard[Replayable]:
    """Whether searches with this model are run here: where launching, not arithmetic, takes the time."""
    return isinstance(model, Replayable) and model.device.type == "cuda"


def search(
    model: Replayable, inputs: Sequence[Tensor], beam: Beam, *, limit: int | Sequence[int], eos: int | None
) -> list[list[Hypothesis]]:
    """What `beam.search` answers."""
    room = limits(limit, len(inputs[0]))
    return stream(model, [Group(inputs, room)], beam, eos=eos, rows=len(room))[0] if room else []


@torch.no_grad()
def stream(
    model: Replayable, groups: Sequence[Group], beam: Beam, *, eos: int | None, rows: int
) -> list[list[list[Hypothesis]]]:
    """What `beam.search` answers to each group, `rows` examples at a time; the widest group comes first."""
    rows = _rounded(max([rows, *(len(group.limit) for group in groups)]))
    longest = -(-max(max(group.limit) for group in groups) // 32) * 32
    table = _rounds(model, groups[0], beam.beams, (rows, longest), -1 if eos is None else eos)
    with table.lock:
        return _serve(table, groups, Ledger(beam, [1] * rows, eos=table.eos, longest=longest))


def _serve(table: Rounds, groups: Sequence[Group], ledger: Ledger) -> list[list[list[Hypothesis]]]:
    """Seat the groups as rows become free, and collect the answers of who is done."""
    ledger.going[:] = False
    found: list[list[list[Hypothesis]]] = [[[] for _ in group.limit] for group in groups]
    owner: dict[int, tuple[int, int]] = {}
    waiting = deque(enumerate(groups))
    pending: deque[_Record] = deque()
    launched = np.zeros(len(ledger.going), dtype=np.int64)
    while waiting or owner:
        settled = not pending  # else what a row's last owner left on its way would be taken for the next one's
        while settled and waiting and len(waiting[0][1].limit) <= len(launched) - len(owner):
            number, group = waiting.popleft()
            free = np.array([row for row in range(len(launched)) if row not in owner][: len(group.limit)])
            owner |= {row: (number, place) for place, row in enumerate(free.tolist())}
            launched[free] = 1
            ledger.admit(free, group.limit)
            pending.append(_Record.of(table.begin(free, group.inputs), free))
        steps = int(np.max((ledger.limit - launched)[ledger.going], initial=0))
        if steps > 0:
            ahead = min(SPAN, (steps + 1) // 2)  # shorter towards the end, when nothing is left to overlap with
            launched += ahead
            pending.append(_Record.of(table.run(ahead), np.arange(len(launched))))
        while len(pending) > (1 if steps > 0 and not waiting else 0):  # one stays behind to overlap with the device
            pending.popleft().tell(ledger)
        going = ledger.going.tolist()
        done = [row for row in owner if not going[row]]
        for row, answers in zip(done, ledger.answers(np.array(done, dtype=np.int64)), strict=True):
            number, place = owner.pop(row)
            found[number][place] = answers
    return found


class _Record(NamedTuple):
    """What some rounds ranked for some rows, on its way to the host."""

    numbers: Int[Tensor, "round row 3 choice"]
    rows: Numbers
    arrived: torch.cuda.Event | None

    @classmethod
    def of(cls, numbers: Int[Tensor, "round row 3 choice"], rows: Numbers) -> _Record:
        """Send it."""
        if not numbers.is_cuda:
            return cls(numbers.clone(), rows, None)
        here = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        here.copy_(numbers, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        return cls(here, rows, arrived)

    def tell(self, ledger: Ledger) -> None:
        """Wait for it, and enter it round by round."""
        if self.arrived is not None:
            self.arrived.synchronize()
        numbers = self.numbers.numpy()[:, : len(self.rows)]
        beams, choices = ledger.beam.beams, numbers.shape[-1]
        nothing = np.zeros((len(self.rows), choices), dtype=np.int64)
        nowhere = np.zeros((len(self.rows), beams), dtype=bool)
        for score, parent, token in zip(
            numbers[:, :, 0].view(np.float32), numbers[:, :, 1], numbers[:, :, 2], strict=True
        ):
            best = score[:, 0]
            if not np.isfinite(best).all() and not np.isfinite(best[ledger.going[self.rows]]).all():
                raise FloatingPointError("scores are not numbers: the model's precision cannot hold them")
            ledger.record(self.rows, Round(score, parent, token, nothing, nowhere))


class Rounds:
    """So many rows of beams on the device, stepped together."""

    def __init__(self, model: Replayable, beams: int, size: tuple[int, int], eos: int):
        self.model, self.beams, self.eos = model, beams, eos
        self.rows, self.longest = size
        self.lock = Lock()
        self.state: Any = None
        self._step = Replay(self._round)
        self._starts: OrderedDict[Any, Replay] = OrderedDict()
        device = model.device
        self.total = torch.zeros(self.rows, beams, device=device)
        self.tokens, self.parents = torch.zeros(2, self.rows, beams, dtype=torch.int64, device=device)
        self.record = torch.zeros(0, dtype=torch.int32, device=device)
        self.clock = torch.zeros(self.rows, dtype=torch.int64, device=device)

    def begin(self, rows: Numbers, inputs: Sequence[Tensor]) -> Int[Tensor, "1 row 3 choice"]:
        """Read the inputs of new examples into these rows; what the first round ranked for them."""
        padding = _rounded(len(rows)) - len(rows)
        if padding:  # the first example again, into the same row
            again = torch.arange(-padding, len(rows), device=inputs[0].device).clamp(min=0).roll(-padding)
            inputs, rows = [each[again] for each in inputs], np.append(rows, [rows[0]] * padding)
        shapes = tuple(each.shape for each in inputs)
        given = (torch.from_numpy(rows).to(self.model.device), *inputs)
        if shapes not in self._starts:
            self._starts[shapes] = Replay(self._first, *given)
            while len(self._starts) > KEPT:
                self._starts.popitem(last=False)
        return self._starts[shapes](*given)

    def run(self, steps: int) -> Int[Tensor, "round row 3 choice"]:
        """Some rounds of all rows; what each of them ranked."""
        self.clock.zero_()
        for _ in range(steps):
            self._step()
        return self.record[:steps]

    def _first(self, rows: Tensor, *inputs: Tensor) -> Tensor:
        """The first round of new examples, which take their rows after it."""
        logits, state = self.model.start(*inputs, beams=self.beams, limit=1)
        if self.state is None:
            self.state = state.blank(self.rows, self.longest)
            choices = min(2 * self.beams, self.beams * logits.shape[-1])
            self.record = self.record.new_zeros(SPAN, self.rows, 3, choices)
        total = Front.first(logits).total
        tokens, parents = torch.zeros_like(total, dtype=torch.int64), torch.zeros_like(total, dtype=torch.int64)
        record = self.record.new_zeros(1, len(rows), 3, self.record.shape[-1])
        choose(logits, (total, tokens, parents), record, torch.zeros_like(rows), eos=self.eos)
        self.state.put(rows, state)
        for mine, new in ((self.total, total), (self.tokens, tokens), (self.parents, parents)):
            mine.index_copy_(0, rows, new)
        return record

    def _round(self) -> None:
        """Feed what was chosen last, and choose again."""
        logits, _ = self.model.step(self.tokens, self.state.reorder(self.parents))
        choose(logits, (self.total, self.tokens, self.parents), self.record, self.clock, eos=self.eos)


def choose(
    logits: Float[Tensor, "batch beam vocab"],
    front: tuple[Float[Tensor, "batch beam"], Int[Tensor, "batch beam"], Int[Tensor, "batch beam"]],
    record: Int[Tensor, "round batch 3 choice"],
    clock: Int[Tensor, "batch"],
    *,
    eos: int,
) -> None:
    """Rank what may come next, put the best that go on (scores, tokens, parents) in place, and record the ranking."""
    total, tokens, parents = front
    if kernels_run(logits):
        from regard.decoding.kernels import choose as choose_at_once

        choose_at_once(logits, total, tokens, parents, record, clock, eos=eos)
        return
    here = torch.arange(len(clock), device=clock.device)
    ranked = rank(logits.float(), Front(here, total, tokens[..., None][..., :0]), eos=eos)
    numbers = (ranked.score.view(torch.int32), ranked.parent.int(), ranked.token.int())
    record[clock % len(record), here] = torch.stack(numbers, 1)
    clock += 1
    for mine, new in zip((total, parents, tokens), advance(ranked, total.shape[1], eos=eos), strict=True):
        mine.copy_(new)


_known: WeakKeyDictionary[Any, OrderedDict[Any, Rounds]] = WeakKeyDictionary()


def _rounds(model: Replayable, widest: Group, beams: int, size: tuple[int, int], eos: int) -> Rounds:
    """The rows of an earlier search of the same shape, or new ones."""
    known = _known.setdefault(model, OrderedDict())
    key = (*(each.shape[1:] for each in widest.inputs), beams, size, eos)
    if key not in known:
        known[key] = Rounds(model, beams, size, eos)
        while len(known) > KEPT:
            known.popitem(last=False)
    known.move_to_end(key)
    return known[key]


def _rounded(rows: int) -> int:
    """Few different numbers of rows, none much larger than asked."""
    return 1 << (rows - 1).bit_length() if rows <= 64 else -(-rows // 64) * 64
