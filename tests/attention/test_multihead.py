"""Several heads: what they share, what they cost, and what order means to them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.masks import Grid, allow, causal, neighbours, padded
from regard.attention.multihead import Heads, MultiHead
from regard.attention.positions import scheme
from regard.attention.scores import Additive, Bilinear, cosine, dot


def softmax(scores):
    """Over the last axis, in numpy."""
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def test_values_may_have_another_width_than_keys():
    """The worked shapes: four tokens of three features, and a value matrix that makes two of them."""
    attention = MultiHead(3, Heads(1, depth=5, features=2), bias=False).double()
    assert attention.value.weight.shape == (2, 3)
    x = torch.randn(1, 4, 3, dtype=torch.float64)
    columns = x[0].numpy().T
    query, key, value, output = (
        getattr(attention, name).weight.detach().numpy() for name in ("query", "key", "value", "output")
    )
    weights = softmax((query @ columns).T @ (key @ columns) / np.sqrt(5))
    expected = (output @ (value @ columns @ weights.T)).T
    assert np.allclose(attention(x)[0].detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("groups", [4, 2, 1])
def test_heads_joined_then_projected_are_the_sum_of_projected_heads(groups):
    attention = MultiHead(8, Heads(4, groups=groups, depth=3, features=5), memory_width=6)
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 4, 6)
    total = attention.output.bias
    for head in range(4):
        group = head * groups // 4

        def part(layer, inputs, number, size):
            rows = slice(number * size, (number + 1) * size)
            return inputs @ layer.weight[rows].T + layer.bias[rows]

        query, key = part(attention.query, x, head, 3), part(attention.key, memory, group, 3)
        mixed = (query @ key.mT / 3**0.5).softmax(-1) @ part(attention.value, memory, group, 5)
        total = total + mixed @ attention.output.weight[:, head * 5 : (head + 1) * 5].T
    assert torch.allclose(attention(x, memory), total, atol=1e-6)


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("watched", [False, True])
def test_heads_added_up_are_their_sum_projected(groups, watched):
    attention = MultiHead(8, Heads(4, groups=groups, depth=3, features=5, merge="add"))
    x = torch.randn(2, 3, 8)
    weights = []
    if watched:
        attention.weights.register_forward_hook(lambda module, inputs, seen: weights.append(seen))
    total = 0
    for head in range(4):
        group = head * groups // 4

        def part(layer, number, size):
            rows = slice(number * size, (number + 1) * size)
            return x @ layer.weight[rows].T + layer.bias[rows]

        query, key = part(attention.query, head, 3), part(attention.key, group, 3)
        total = total + (query @ key.mT / 3**0.5).softmax(-1) @ part(attention.value, group, 5)
    assert torch.allclose(attention(x), total @ attention.output.weight.T + attention.output.bias, atol=1e-6)
    assert attention.output.weight.shape == (8, 5)
    assert len(weights) == watched


def test_added_heads_equal_concatenated_heads_that_share_their_part_of_the_projection():
    added, joined = MultiHead(8, Heads(4, merge="add")), MultiHead(8, 4)
    shared = {**added.state_dict(), "output.weight": added.output.weight.repeat(1, 4)}
    joined.load_state_dict(shared)
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(added(x), joined(x))
    torch.testing.assert_close(added.output_by_head(), joined.output_by_head())


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("watched", [False, True])
def test_grouped_keys_are_keys_repeated_for_each_head_of_the_group(groups, watched):
    grouped, full = MultiHead(8, Heads(4, groups=groups)), MultiHead(8, 4)
    repeated = {
        name: number.view(groups, 2, -1)
        .repeat_interleave(4 // groups, dim=0)
        .view(8, -1)
        .view_as(full.state_dict()[name])
        if name.startswith(("key", "value"))
        else number
        for name, number in grouped.state_dict().items()
    }
    full.load_state_dict(repeated)
    if watched:
        grouped.weights.register_forward_hook(lambda *_: None)
    x, grid = torch.randn(3, 5, 8), Grid(torch.tensor([5, 2, 0]), 5)
    for mask in (causal(), padded(grid)):
        assert torch.allclose(grouped(x, mask=mask), full(x, mask=mask), atol=1e-6)
    edges = neighbours(torch.tensor([0, 0, 2]), torch.tensor([1, 2, 2]), nodes=5)
    assert torch.allclose(grouped(x[0], mask=edges), full(x[0], mask=edges), atol=1e-6)


def test_many_small_heads_cost_as_much_as_one_large_head():
    counts, operations = set(), set()
    for heads in (1, 2, 4, 8):
        attention = MultiHead(16, heads)
        attention.weights.register_forward_hook(lambda *_: None)  # every product is then visible to the counter
        counts.add(sum(number.numel() for number in attention.parameters()))
        with FlopCounterMode(display=False) as counter:
            attention(torch.randn(1, 6, 16))
        operations.add(counter.get_total_flops())
    assert counts == {4 * (16 * 16 + 16)}
    assert operations == {2 * (4 * 6 * 16 * 16 + 2 * 6 * 6 * 16)}


@pytest.mark.parametrize(
    ("heads", "message"), [(3, "3 heads do not divide a width of 8"), (Heads(4, groups=3), "3 groups of keys")]
)
def test_heads_that_do_not_fit_are_refused(heads, message):
    with pytest.raises(ValueError, match=message):
        MultiHead(8, heads)


def test_gradients_reach_every_projection_exactly():
    attention = MultiHead(4, Heads(2, groups=1, features=3), memory_width=3).double()
    attention.weights.register_forward_hook(lambda *_: None)
    mask = allow(torch.tensor([[True, False, True], [False, False, False]]))
    names, numbers = zip(*attention.named_parameters(), strict=True)
    x = torch.randn(1, 2, 4, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)

    def run(x, memory, *numbers):
        return torch.func.functional_call(
            attention, dict(zip(names, numbers, strict=True)), (x, memory), {"mask": mask}
        )

    assert torch.autograd.gradcheck(run, (x, memory, *numbers))


SCORES = {
    "scaled dot": lambda: None,
    "dot": lambda: dot,
    "cosine": lambda: cosine,
    "bilinear": lambda: Bilinear(4, 4, heads=2),
    "additive": lambda: Additive(4, 4, 3, heads=2),
}


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=5)
@given(order=st.permutations(range(6)))
def test_without_positions_permuting_the_inputs_permutes_the_outputs(score, order):
    made = SCORES[score]()
    attention = MultiHead(8, 2, **({"score": made} if made else {}))
    x = torch.randn(1, 6, 8)
    assert torch.allclose(attention(x)[:, order], attention(x[:, order]), atol=1e-6)


@settings(max_examples=5)
@given(order=st.permutations(range(6)))
def test_fixed_queries_do_not_care_about_the_order_of_what_they_look_at(order):
    attention, queries, memory = MultiHead(8, 2), torch.randn(1, 3, 8), torch.randn(1, 6, 8)
    assert torch.allclose(attention(queries, memory), attention(queries, memory[:, order]), atol=1e-6)


@pytest.mark.parametrize("name", ["rotary", "alibi", "relative"])
def test_with_positions_order_matters(name):
    attention, positions = MultiHead(8, 2), scheme(name, width=8, heads=2, context=8, causal=False)
    for table in positions.parameters():
        torch.nn.init.normal_(table)
    x, order = torch.randn(1, 6, 8), [1, 0, 2, 3, 5, 4]
    moved = attention(x[:, order], positions=positions) - attention(x, positions=positions)[:, order]
    assert moved.abs().max() > 1e-3


@pytest.mark.parametrize("name", ["rotary", "alibi", "relative"])
@pytest.mark.parametrize("watched", [False, True])
def test_a_sequence_that_starts_later_is_read_the_same_way(name, watched):
    """Schemes of distances: three tokens nobody may look at only move the others along."""
    attention, positions = MultiHead(8, 2), scheme(name, width=8, heads=2, context=16, causal=False)
    for table in positions.parameters():
        torch.nn.init.normal_(table)
    if watched:
        attention.weights.register_forward_hook(lambda *_: None)
    x = 3 * torch.randn(1, 8, 8)
    later = attention(x, mask=allow(torch.arange(8).expand(8, 8) >= 3), positions=positions)[:, 3:]
    assert torch.allclose(later, attention(x[:, 3:], positions=positions), atol=1e-5)


def test_a_mask_moves_with_the_tokens_it_speaks_about():
    attention, x, order = MultiHead(8, 2), torch.randn(1, 4, 8), [2, 0, 3, 1]
    visible = torch.rand(4, 4) < 0.5
    moved = attention(x[:, order], mask=allow(visible[order][:, order]))
    assert torch.allclose(moved, attention(x, mask=allow(visible))[:, order], atol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_projections_made_together_in_training_change_neither_result_nor_gradients(bias: bool) -> None:
    attention = MultiHead(12, Heads(4, groups=2), bias=bias).double()
    x, memory = (torch.randn(2, length, 12, dtype=torch.float64, requires_grad=True) for length in (5, 7))
    for looked_at in (None, memory):
        found = []
        for training in (True, False):
            out = attention.train(training)(x, looked_at)
            found.append([out, *torch.autograd.grad(out.square().sum(), [x, *attention.parameters()])])
        for together, apart in zip(*found, strict=True):
            torch.testing.assert_close(together, apart)


def test_keys_of_a_memory_are_not_placed_where_the_queries_stand():
    attention, rotary = MultiHead(8, 2), scheme("rotary", width=8, heads=2, context=16, causal=False)
    x, memory = torch.randn(1, 3, 8), torch.randn(1, 4, 8)
    with pytest.raises(AssertionError, match="memory"):
        attention(x, memory, positions=rotary)
    with pytest.raises(AssertionError, match="memory"):
        attention(x, attention.remember(memory), positions=rotary)


class LowRank(nn.Module):
    """What an adapter adds to a weight, as a parametrization."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.down, self.up = nn.Parameter(torch.randn(2, columns)), nn.Parameter(torch.randn(rows, 2))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + self.up @ self.down


class Around(nn.Module):
    """The same as a module around a projection."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner, self.add = inner, LowRank(*inner.weight.shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + x @ (self.add.up @ self.add.down).T


@pytest.mark.parametrize("way", ["parametrization", "module"])
@pytest.mark.parametrize("name", ["query", "key", "value", "output"])
@pytest.mark.parametrize("other", [False, True])
def test_an_adapter_on_a_projection_is_heard_in_training_as_in_use(way: str, name: str, other: bool) -> None:
    plain, adapted = (MultiHead(8, 2) for _ in range(2))
    adapted.load_state_dict(plain.state_dict())
    projection = getattr(adapted, name)
    if way == "module":
        setattr(adapted, name, Around(projection))
        added = getattr(adapted, name).add
    else:
        added = LowRank(*projection.weight.shape)
        parametrize.register_parametrization(projection, "weight", added)
    with torch.no_grad():
        getattr(plain, name).weight += added.up @ added.down
    x, memory = torch.randn(2, 5, 8), torch.randn(2, 3, 8) if other else None
    expected = plain.eval()(x, memory)
    torch.testing.assert_close(adapted.eval()(x, memory), expected)
    trained = adapted.train()(x, memory)
    torch.testing.assert_close(trained, expected)
    trained.square().sum().backward()
    assert added.up.grad is not None
    assert float(added.up.grad.abs().max()) > 0
