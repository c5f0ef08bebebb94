"""However sequences travel (alone, padded, packed, filled up, watched, step by step) attention gives one answer."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence

from regard.attention.cache import LayerCache
from regard.attention.masks import EVERYONE, Grid, Row, Stepping, causal, packed, padded, stepping, window
from regard.attention.multihead import Heads, MultiHead
from regard.attention.positions import scheme

WIDTH = 8
SCHEMES = ["none", "rotary", "alibi", "relative"]  # the others only change the embeddings
SIGHTS = {"everything": EVERYONE, "past": causal(), "near past": causal() & window(1)}
lengths_drawn = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def build(name, *, groups=None):
    """An attention and its positions, always the same weights, exact enough to tell a mistake from rounding."""
    torch.manual_seed(0)
    positions = scheme(name, width=WIDTH, heads=4, context=16, causal=False)
    for table in positions.parameters():
        torch.nn.init.normal_(table)
    return MultiHead(WIDTH, Heads(4, groups=groups)).double(), positions.double()


def outcome(parts, run):
    """Outputs token by token and the gradients of inputs and weights under a fixed loss."""
    attention, positions, tokens = parts
    x = tokens.clone().requires_grad_()
    answer = run(attention, positions, x)
    loss = (answer * torch.linspace(-1, 1, answer.numel(), dtype=answer.dtype).view_as(answer)).sum()
    weights = [*attention.parameters(), *positions.parameters()]
    gradients = torch.autograd.grad(loss, [x, *weights], allow_unused=True)
    return [answer, *(torch.zeros(()) if g is None else g for g in gradients)]


def alone(lengths, sight):
    """Each sequence by itself, in a batch of one."""

    def run(attention, positions, x):
        parts = [part[None] for part in x.split(lengths) if len(part)]
        return torch.cat([attention(part, mask=sight, positions=positions)[0] for part in parts])

    return run


def in_a_batch(lengths, sight, *, spare=0):
    """Padded with large numbers, and `spare` more columns than needed."""

    def run(attention, positions, x):
        batch = pad_sequence([*x.split(lengths)], batch_first=True, padding_value=50.0)
        batch = torch.cat([batch, torch.full((len(lengths), spare, WIDTH), -50.0, dtype=x.dtype)], dim=1)
        grid = Grid(torch.tensor(lengths), batch.shape[1])
        return attention(batch, mask=padded(grid, grid) & sight, positions=positions)[grid.filled]

    return run


def in_a_row(lengths, sight, *, tail=0, watched=False):
    """One row, with a tail of large numbers and empty segments after it."""
    row = Row.of(lengths, longest=6, size=sum(lengths) + tail, segments=len(lengths) + tail + 2) if tail else None

    def run(attention, positions, x):
        filled = torch.cat([x, torch.full((tail, WIDTH), 50.0, dtype=x.dtype)])
        hook = attention.weights.register_forward_hook(lambda *_: None) if watched else None
        answer = attention(filled, mask=packed(row or Row.of(lengths)) & sight, positions=positions)
        if hook:
            hook.remove()
        return answer[: len(x)]

    return run


def step_by_step(lengths):
    """Every sequence read token by token through a cache, all in one batch; a prompt of one token each."""

    def run(attention, positions, x):
        batch = pad_sequence([*x.split(lengths)], batch_first=True)
        limit = max(lengths) - 1
        where = Stepping.begin(torch.ones(len(lengths), dtype=torch.int64), beams=1, limit=limit, room=1)
        cache = LayerCache.empty(attention.remember(batch).keys, WIDTH // 4, 1 + limit)
        outputs = [attention(batch[:, :1], mask=causal(), positions=positions, cache=cache)]
        for place in range(limit):
            where = where.advance()
            token = batch[:, place + 1 : place + 2]
            outputs.append(attention(token, mask=stepping(where), positions=positions, cache=cache))
        return torch.cat(outputs, dim=1)[Grid(torch.tensor(lengths), limit + 1).filled]

    return run


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("sight", SIGHTS)
@settings(max_examples=8)
@given(lengths=lengths_drawn)
def test_alone_padded_packed_filled_up_and_watched_agree_in_outputs_and_gradients(name, sight, lengths):
    if not sum(lengths):
        return
    parts = *build(name, groups=2), 3 * torch.randn(sum(lengths), WIDTH, dtype=torch.float64)
    expected = outcome(parts, alone(lengths, SIGHTS[sight]))
    ways = {
        "batch": in_a_batch(lengths, SIGHTS[sight]),
        "wider batch": in_a_batch(lengths, SIGHTS[sight], spare=2),
        "row": in_a_row(lengths, SIGHTS[sight]),
        "watched row": in_a_row(lengths, SIGHTS[sight], watched=True),
        "filled row": in_a_row(lengths, SIGHTS[sight], tail=7),
        "watched filled row": in_a_row(lengths, SIGHTS[sight], tail=7, watched=True),
    }
    for way, run in ways.items():
        for mine, theirs in zip(outcome(parts, run), expected, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-8), way


@pytest.mark.parametrize("name", SCHEMES)
@settings(max_examples=8)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_reading_token_by_token_agrees_with_reading_at_once(name, lengths):
    attention, positions = build(name, groups=1)
    tokens = 3 * torch.randn(sum(lengths), WIDTH, dtype=torch.float64)
    with torch.no_grad():
        at_once = alone(lengths, causal())(attention, positions, tokens)
        stepwise = step_by_step(lengths)(attention, positions, tokens)
    assert torch.allclose(stepwise, at_once, atol=1e-8)


@settings(max_examples=15)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4),
    tails=st.tuples(st.integers(0, 5), st.integers(0, 5)),
)
def test_rows_that_look_at_rows_agree_with_batches_that_look_at_batches(pairs, tails):
    """Cross-attention between sequences of other lengths, some of them empty on either side."""
    torch.manual_seed(0)
    queries, keys = ([*side] for side in zip(*pairs, strict=True))
    attention = MultiHead(WIDTH, 2, memory_width=5)
    x, memory = torch.randn(sum(queries), WIDTH), torch.randn(sum(keys), 5)
    rows = [
        Row.of(lengths, longest=5, size=sum(lengths) + tail, segments=len(lengths) + 5)
        for lengths, tail in zip((queries, keys), tails, strict=True)
    ]
    filled = torch.cat([x, torch.ones(tails[0], WIDTH)]), torch.cat([memory, torch.ones(tails[1], 5)])
    grids = [Grid(torch.tensor(lengths), max(lengths)) for lengths in (queries, keys)]
    batches = [pad_sequence([*side.split(n)], batch_first=True) for side, n in ((x, queries), (memory, keys))]
    expected = attention(*batches, mask=padded(grids[1], grids[0]))[grids[0].filled]
    assert torch.allclose(attention(*filled, mask=packed(*rows))[: len(x)], expected, atol=1e-5)
    assert torch.allclose(attention(x, memory, mask=packed(Row.of(queries), Row.of(keys))), expected, atol=1e-5)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("layout", ["alone", "batch", "row", "watched row"])
def test_the_future_cannot_change_the_past_and_the_past_changes_the_future(name, layout):
    attention, positions = build(name)
    lengths = [5, 3]
    run = {
        "alone": alone(lengths, causal()),
        "batch": in_a_batch(lengths, causal()),
        "row": in_a_row(lengths, causal()),
        "watched row": in_a_row(lengths, causal(), watched=True),
    }[layout]
    x = torch.randn(8, WIDTH, dtype=torch.float64)
    before = run(attention, positions, x)
    for changed in range(5):
        other = x.clone()
        other[changed] += 10.0
        moved = (run(attention, positions, other) - before).abs().amax(-1)
        assert moved[:changed].lt(1e-9).all()
        assert moved[changed:5].gt(1e-3).all()
        assert moved[5:].lt(1e-9).all()  # the other sequence
