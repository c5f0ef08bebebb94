"""Every path of attention gives the answer of a plain loop, and nothing to a query that may look nowhere."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from regard.attention import attend as module
from regard.attention.attend import (
    AttentionSpec,
    attend,
    attend_explicitly,
    attend_source,
    attend_step,
    cudnn_gradients_are_sound,
    weigh,
)
from regard.attention.cache import LayerCache
from regard.attention.masks import (
    Grid,
    Mask,
    Row,
    Stepping,
    allow,
    causal,
    neighbours,
    packed,
    padded,
    stepping,
    window,
)
from regard.attention.positions import ALiBi, Relative
from regard.attention.scores import Additive, cosine, dot
from regard.attention.tap import Tap
from regard.models.transformer import Transformer, TransformerConfig

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


KNOWN = {  # and whether a kernel for rows and one for steps knows them
    "plain": (AttentionSpec(), True),
    "unscaled": (AttentionSpec(score=dot), True),
    "bias": (AttentionSpec(bias=ALiBi(HEADS).bias), True),
    "dropout": (AttentionSpec(dropout=0.1), False),
    "another score": (AttentionSpec(score=cosine), False),
    "somebody watches": (AttentionSpec(tap=watched()), False),
}


class Taken(Exception):
    """Which path was taken."""


def refusing(name):
    def path(*given, **named):
        raise Taken(name)

    return path


@pytest.fixture
def paths(monkeypatch):
    """Every path says its name instead of computing."""
    kernels = pytest.importorskip(
        "regard.attention.kernels.step", reason="Triton is not installed", exc_type=ImportError
    )
    for name in ("_rows", "_batch", "_variable_length", "_unpack", "attend_fused", "attend_explicitly"):
        monkeypatch.setattr(module, name, refusing(name))
    for name in ("attend_past", "attend_memory"):
        monkeypatch.setattr(kernels, name, refusing(name))
    monkeypatch.setattr(module, "kernels_run", lambda tensor: tensor.device.type in ("cuda", "meta"))


def path_of(work, *given, **named):
    with pytest.raises(Taken) as taken:
        work(*given, **named)
    return str(taken.value)


@pytest.mark.parametrize("name", KNOWN)
def test_rows_take_the_kernel_that_knows_the_way_and_only_then(name, paths):
    way, known = KNOWN[name]
    slow = "attend_explicitly" if way.explicit else "attend_fused"
    short, long = (packed(Row.of([2, 3], longest=longest, most=2)) for longest in (5, module.SHORT + 1))
    with FakeTensorMode(allow_non_fake_inputs=True):  # tensors that say they are on a GPU, without one
        half, full = (torch.empty(HEADS, 5, 16, device="cuda", dtype=kind) for kind in (torch.bfloat16, torch.float32))
        odd = torch.empty(HEADS, 5, 24, device="cuda", dtype=torch.bfloat16)
        several = known and way.bias is None
        for mask in (short, short & causal()):
            assert path_of(attend, half, half, half, mask=mask, way=way) == ("_rows" if known else "_unpack")
        for vectors, mask in ((half, long), (half, short & window(2)), (odd, short)):
            path = path_of(attend, vectors, vectors, vectors, mask=mask, way=way)
            tiled = "_rows" if known and mask is long else "_unpack"  # a bias has no other kernel
            assert path == ("_variable_length" if several else tiled)
        assert path_of(attend, full, full, full, mask=short, way=way) == "_unpack"
        assert (
            path_of(attend, half, half, half, mask=short & allow(torch.ones(5, 5, device="cuda") > 0), way=way) == slow
        )


@pytest.mark.parametrize("name", KNOWN)
def test_a_row_of_equal_lengths_is_a_batch_where_nothing_but_the_future_is_hidden(name, paths):
    way, _ = KNOWN[name]
    even, uneven = packed(Row.of([4, 4])), packed(Row.of([4, 4], size=9))
    vectors = torch.randn(HEADS, 8, 16)
    for mask in (even, even & causal()):
        path = path_of(attend, vectors, vectors, vectors, mask=mask, way=way)
        assert path == ("_batch" if not way.explicit and way.bias is None else "_unpack")
    assert not Row.of([4, 0, 4]).even
    assert not Row.of([], longest=3).even
    more = torch.randn(HEADS, 9, 16)
    assert path_of(attend, more, more, more, mask=uneven, way=way) == "_unpack"
    assert path_of(attend, vectors, vectors, vectors, mask=even & window(2), way=way) == "_unpack"


THREES, FIVES = Row.of([3, 3], size=6, segments=5), Row.of([5, 5])  # empty segments at the end are nobody's


@pytest.mark.parametrize("mask", [packed(THREES), packed(THREES) & causal(), packed(THREES, FIVES)])
def test_rows_of_equal_lengths_are_attended_as_any_others(mask):
    keys = len(mask.where.key.segment)
    vectors = [torch.randn(*size, DEPTH, dtype=torch.float64) for size in ((4, 6), (2, keys), (2, keys))]
    vectors = [each.requires_grad_() for each in vectors]
    fast = attend(*vectors, mask=mask)
    plain = attend_explicitly(*vectors, mask=mask, way=AttentionSpec())
    torch.testing.assert_close(fast, plain)
    slope = torch.randn_like(fast)
    for one, other in zip(*(torch.autograd.grad(each, vectors, slope) for each in (fast, plain)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", KNOWN)
def test_steps_take_the_kernel_that_knows_the_way_and_only_then(name, paths, monkeypatch):
    way, known = KNOWN[name]
    slow = "attend_explicitly" if way.explicit else "attend_fused"
    monkeypatch.setattr(module, "kernels_run", lambda tensor: True)
    monkeypatch.setattr("regard.attention.kernels.step.sight", lambda where: where.slots)
    where = two_steps()
    vectors, cache = torch.randn(2, HEADS, 2, 16), LayerCache.empty(torch.zeros(2, HEADS, 1, 16), 16, 9)
    step = {"cache": cache, "way": way}
    assert path_of(attend_step, *[vectors] * 3, mask=stepping(where), **step) == ("attend_past" if known else slow)
    for mask in (stepping(where) & window(2), stepping(where) & boolean("11000 01000")):
        assert path_of(attend_step, *[vectors] * 3, mask=mask, **step) == slow
    source, keys = padded(Grid(torch.tensor([3, 2]), 3), where), torch.randn(2, HEADS, 3, 16)
    if way.bias is None:
        taken = path_of(attend_source, vectors, keys, keys, mask=source, way=way)
        assert taken == ("attend_memory" if known else slow)
    assert path_of(attend, vectors, keys, keys, mask=source, way=way) == slow, "a plain model waits for no compiler"


@pytest.mark.parametrize("positions", ["alibi", "relative"])
def test_a_bias_is_made_once_for_all_layers_and_learns_as_if_made_in_each(positions, monkeypatch):
    sizes = {"width": 8, "heads": 2, "hidden": 8, "encoder": 3, "decoder": 3, "dropout": 0.0, "positions": positions}
    model = Transformer(TransformerConfig(vocab=7, **sizes)).double()
    made = []
    for each in (model.encoder_positions, model.decoder_positions):
        work = each.bias
        monkeypatch.setattr(each, "bias", lambda distance, work=work: made.append(1) or work(distance))
    tokens, grid = torch.randint(7, (2, 5)), Grid(torch.tensor([5, 3]), 5)

    def gradients():
        model.zero_grad()
        for _ in range(2):  # two passes over the same batch
            model(tokens, tokens, layouts=(grid, grid)).square().sum().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    shared = gradients()
    assert len(made) == 2 * 2, "one for the encoder and one for the decoder in each pass"
    monkeypatch.setattr(Mask, "once", lambda mask, name, make: make())
    for one, other in zip(shared, gradients(), strict=True):
        torch.testing.assert_close(one, other)


def test_what_learns_is_not_shared_by_two_passes_through_one_mask():
    positions, mask = Relative(HEADS, causal=False), packed(Row.of([3, 2]))
    for _ in range(2):
        query, key, value = torch.randn(3, HEADS, 5, DEPTH)
        attend(query, key, value, mask=mask, way=AttentionSpec(bias=positions.bias)).sum().backward()
    with torch.no_grad():
        attend(query, key, value, mask=mask, way=AttentionSpec(bias=positions.bias))
    attend(query, key, value, mask=mask, way=AttentionSpec(bias=positions.bias)).sum().backward()


@pytest.mark.parametrize(("queries", "keys"), [(64, 64), (192, 192), (197, 64), (704, 704), (1, 197)])
def test_cudnn_is_not_asked_for_gradients_where_it_gives_nan(queries: int, keys: int) -> None:
    assert not cudnn_gradients_are_sound(queries, keys)


@pytest.mark.parametrize("length", [32, 49, 128, 196, 197, 256, 1024])
def test_cudnn_is_asked_elsewhere(length: int) -> None:
    assert cudnn_gradients_are_sound(length, length)
