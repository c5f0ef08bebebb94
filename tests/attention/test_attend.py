"""Every path of attention gives the answer of a plain loop, and nothing to a query that may look nowhere."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from regard.attention import attend as module
from regard.attention.attend import AttentionSpec, attend, weigh
from regard.attention.masks import Grid, Row, Stepping, allow, causal, neighbours, packed, padded, stepping, window
from regard.attention.positions import ALiBi, Relative
from regard.attention.scores import Additive, cosine
from regard.attention.tap import Tap

HEADS, DEPTH = 4, 4


def boolean(text):
    """Rows of 0 and 1 as a mask."""
    return allow(torch.tensor([[digit == "1" for digit in row] for row in text.split()]))


def two_steps():
    """Two examples of two beams after two tokens; the second example stands one token further back."""
    where = Stepping.begin(torch.tensor([1, 1]), beams=2, limit=3, room=1)
    late = where.advance()
    return Stepping(late.advance().slots, torch.tensor([2, 1]), late.prompt, late.example, room=1, longest=2)


CASES = {  # name: (mask, (*batch, queries), keys, the queries that may look nowhere)
    "boolean": (boolean("101 000 111"), (2, 3), 3, [(0, 1), (1, 1)]),
    "more queries than keys in a window": (window(0), (1, 4), 2, [(0, 2), (0, 3)]),
    "causal window": (causal() & window(1), (1, 4), 2, [(0, 3)]),
    "causal": (causal(), (1, 3), 3, []),
    "padded": (padded(Grid(torch.tensor([2, 0, 3]), 3)), (3, 2), 3, [(1, 0), (1, 1)]),
    "row, nothing in the middle": (packed(Row.of([2, 2, 1]), Row.of([2, 0, 3])), (5,), 5, [(2,), (3,)]),
    "row, nothing at the end": (packed(Row.of([1, 2]), Row.of([3, 0])), (3,), 3, [(1,), (2,)]),
    "row, nothing at all": (packed(Row.of([2, 1]), Row.of([0, 0])), (3,), 0, [(0,), (1,), (2,)]),
    "row, queries missing": (packed(Row.of([0, 2]), Row.of([2, 1])), (2,), 3, []),
    "row, filled up": (
        packed(Row.of([1, 1], longest=3, size=4, segments=5), Row.of([0, 2], longest=3, size=2, segments=5)),
        (4,), 2, [(0,), (2,), (3,)],
    ),
    "row and boolean": (packed(Row.of([2, 1])) & boolean("110 001 111"), (3,), 3, [(1,)]),
    "causal row in a window": (packed(Row.of([3, 1]), Row.of([1, 3])) & causal() & window(1), (4,), 4, [(2,)]),
    "stepping": (stepping(two_steps()), (2, 2), 5, []),
    "stepping and boolean": (stepping(two_steps()) & boolean("11000 01000"), (2, 2), 5, [(0, 1), (1, 1)]),
    "stepping at an empty source": (padded(Grid(torch.tensor([3, 0]), 3), two_steps()), (2, 2), 3, [(1, 0), (1, 1)]),
    "edges": (
        neighbours(torch.tensor([0, 3, 0, 2]), torch.tensor([1, 3, 0, 1]), nodes=4), (4,), 4, [(1,)],
    ),
    "no edges": (neighbours(*torch.zeros(2, 0, dtype=torch.int64), nodes=2), (2,), 2, [(0,), (1,)]),
}  # fmt: skip


def watched():
    """A tap that somebody looks at."""
    tap = Tap()
    tap.register_forward_hook(lambda *_: None)
    return tap


WAYS = {
    "fused": AttentionSpec,
    "explicit": lambda: AttentionSpec(tap=watched()),
    "with a bias": lambda: AttentionSpec(bias=ALiBi(HEADS).bias),
    "with a bias, explicit": lambda: AttentionSpec(bias=ALiBi(HEADS).bias, tap=watched()),
    "with a learned bias": lambda: AttentionSpec(bias=Relative(HEADS, causal=False).bias),
    "cosine": lambda: AttentionSpec(score=cosine),
    "additive": lambda: AttentionSpec(score=Additive(DEPTH, DEPTH, 3, heads=HEADS)),
}


def by_loop(query, key, value, mask, way):
    """One query at a time over the keys in its sight; queries (*batch, heads, query, depth)."""
    *batch, heads, queries, depth = query.shape
    keys = key.shape[-2]
    key, value = (side.repeat_interleave(heads // side.shape[-3], dim=-3) for side in (key, value))
    scores = query @ key.mT / math.sqrt(depth) if way.score is AttentionSpec().score else way.score(query, key)
    if way.bias is not None:
        scores = scores + way.bias(mask.distance(queries, keys))
    visible = mask.dense(queries, keys).unsqueeze(-3).expand_as(scores)
    answer = torch.zeros(*batch, heads, queries, value.shape[-1], dtype=value.dtype)
    for *place, i in torch.cartesian_prod(*(torch.arange(n) for n in query.shape[:-1])).tolist():
        seen = visible[(*place, i)].nonzero()[:, 0]
        if len(seen):
            answer[(*place, i)] = scores[(*place, i)][seen].softmax(0) @ value[tuple(place)][seen]
    return answer


@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name in CASES for way in WAYS if not ("edges" in name and "bias" in way)]
)
def test_every_path_answers_like_a_loop_and_a_blind_query_gets_zeros_and_finite_gradients(name, way):
    mask, (*batch, queries), keys, blind = CASES[name]
    unseeing = torch.zeros(*batch, queries, dtype=torch.bool)
    for place in blind:
        unseeing[place] = True
    for groups, kind in itertools.product([HEADS, 2], [torch.float32, torch.float64]):
        how = WAYS[way]()
        if isinstance(how.score, Additive):
            how.score.to(kind)
        query = torch.randn(*batch, HEADS, queries, DEPTH, dtype=kind, requires_grad=True)
        key = torch.randn(*batch, groups, keys, DEPTH, dtype=kind, requires_grad=True)
        value = torch.randn(*batch, groups, keys, 3, dtype=kind, requires_grad=True)
        answer = attend(query, key, value, mask=mask, way=how)
        assert answer.dtype == kind
        assert torch.allclose(answer, by_loop(query, key, value, mask, how), atol=1e-6)
        assert torch.equal(answer.movedim(-3, -2).eq(0).flatten(-2).all(-1), unseeing)
        if not answer.requires_grad:  # a row without any key hangs on nothing
            assert unseeing.all()
            continue
        (answer * torch.randn_like(answer)).sum().backward()
        assert query.grad.movedim(-3, -2)[unseeing].eq(0).all()
        learned = [part for part in (how.score, getattr(how.bias, "__self__", None)) if isinstance(part, nn.Module)]
        for tensor in (query, key, value, *(number for part in learned for number in part.parameters())):
            assert tensor.grad is not None
            assert tensor.grad.isfinite().all()


@pytest.mark.parametrize("way", ["fused", "explicit", "with a bias"])
@pytest.mark.parametrize("size", [0.0, 1e4, 1e15])
def test_what_is_hidden_cannot_matter_however_large(way, size):
    """Masked scores must lose even against the largest padding."""
    mask, how = padded(Grid(torch.tensor([2, 0]), 4)), WAYS[way]()
    query, key, value = torch.randn(2, HEADS, 3, DEPTH), torch.randn(2, HEADS, 4, DEPTH), torch.randn(2, HEADS, 4, 3)
    expected = attend(query, key, value, mask=mask, way=how)
    hidden = ~mask.where.key.filled[:, None, :, None]
    answer = attend(query, key.masked_fill(hidden, size), value.masked_fill(hidden, -size), mask=mask, way=how)
    assert torch.allclose(answer, expected, atol=1e-6)


def test_weights_of_scores_far_below_zero_still_sum_to_one():
    """The number that stands for `hidden` must be below every score somebody may see."""
    scores, mask = torch.tensor([[-1e30, -1e30, 5.0]]), torch.tensor([[True, True, False]])
    assert weigh(scores, mask).tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("way", ["fused", "explicit"])
@pytest.mark.parametrize("name", ["causal", "boolean", "padded", "row, nothing in the middle", "stepping", "edges"])
def test_attention_dropout_keeps_the_mean_and_blind_queries_at_zero(name, way):
    mask, (*batch, queries), keys, blind = CASES[name]
    how = AttentionSpec(dropout=0.5, tap=WAYS[way]().tap)
    query, key = torch.randn(*batch, HEADS, queries, DEPTH), torch.randn(*batch, HEADS, keys, DEPTH)
    value = torch.randn(*batch, HEADS, keys, 3)
    answers = torch.stack([attend(query, key, value, mask=mask, way=how) for _ in range(100)])
    expected = attend(query, key, value, mask=mask)
    assert answers.std(0).max() > 0.1
    assert (answers.mean(0) - expected).abs().mean() < 0.15
    for place in blind:
        assert answers.movedim(-3, -1)[(slice(None), *place)].eq(0).all()


def test_gradients_of_the_explicit_path_are_those_of_its_formula():
    query, key, value = (torch.randn(1, n, 3, dtype=torch.float64, requires_grad=True) for n in (4, 3, 3))
    mask = boolean("101 000 111 010")
    for way in (AttentionSpec(tap=watched()), AttentionSpec(), AttentionSpec(score=cosine)):
        assert torch.autograd.gradcheck(lambda *sides, way=way: attend(*sides, mask=mask, way=way), (query, key, value))


def test_a_bias_on_a_graph_is_refused():
    mask, (_queries,), keys, _ = CASES["edges"]
    with pytest.raises(AssertionError, match="no distances"):
        attend(*torch.randn(3, HEADS, keys, DEPTH), mask=mask, way=AttentionSpec(bias=ALiBi(HEADS).bias))


KNOWN = {  # ways, and whether a fused kernel knows them
    "plain": (AttentionSpec(), True),
    "bias": (AttentionSpec(bias=ALiBi(HEADS)), False),
    "dropout": (AttentionSpec(dropout=0.1), False),
    "another score": (AttentionSpec(score=cosine), False),
    "somebody watches": (AttentionSpec(tap=watched()), False),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_kernel_for_rows_is_asked_only_for_what_it_knows(name):
    way, known = KNOWN[name]
    mask = packed(Row.of([2, 3]))
    with FakeTensorMode():  # tensors that say they are on a GPU, without one
        half, full = (torch.empty(HEADS, 5, 16, device="cuda", dtype=kind) for kind in (torch.bfloat16, torch.float32))
        assert module._kernel_fits(half, half, half, where=mask.where, mask=mask, way=way) is known
        assert not module._kernel_fits(full, full, full, where=mask.where, mask=mask, way=way)


@pytest.mark.parametrize("name", KNOWN)
def test_the_kernel_for_steps_is_asked_only_for_what_it_knows(name, monkeypatch):
    way, known = KNOWN[name]
    monkeypatch.setattr(module, "kernels_run", lambda tensor: True)
    query, mask = torch.randn(2, HEADS, 2, 16), stepping(two_steps())
    assert module._step_fits(query, query, mask=mask, way=way) is known
    for other in (mask & window(2), mask & boolean("11000 01000")):
        assert not module._step_fits(query, query, mask=other, way=way)
