"""Whoever hooks into the weights sees what attention uses, and may change it."""

import pytest
import torch

from regard.attention.edge_list import Edges
from regard.attention.masks import Grid, Padded, Row, allow, causal, neighbours, packed, padded
from regard.attention.multihead import Heads, MultiHead

CASES = {  # name: (shape of the inputs, mask)
    "batch": ((2, 4, 8), allow(torch.tensor([[True, False, True, True]] * 3 + [[False] * 4]))),
    "padded": ((2, 4, 8), padded(Grid(torch.tensor([3, 0]), 4))),
    "row": ((5, 8), packed(Row.of([3, 2])) & causal()),
    "edges": ((4, 8), neighbours(torch.tensor([0, 0, 2]), torch.tensor([1, 3, 2]), nodes=4)),
}


def test_nobody_watches_at_first_and_a_removed_hook_watches_no_more():
    tap = MultiHead(8, 2).weights
    assert not tap.is_watched
    hook = tap.register_forward_hook(lambda *_: None)
    assert tap.is_watched
    hook.remove()
    assert not tap.is_watched


@pytest.mark.parametrize("name", CASES)
def test_weights_sum_to_one_over_visible_keys_and_rebuild_the_output(name):
    shape, mask = CASES[name]
    x = torch.randn(shape)
    attention, seen = MultiHead(8, Heads(4, groups=2)), []
    unwatched = attention(x, mask=mask)
    hook = attention.weights.register_forward_hook(lambda tap, inputs, weights: seen.append((weights, inputs[1])))
    watched = attention(x, mask=mask)
    hook.remove()
    assert torch.allclose(watched, unwatched, atol=1e-6)
    ((weights, told),) = seen
    if name == "edges":
        assert isinstance(told.where, Edges)
        total = torch.zeros(4, 4).index_add(1, told.where.query, weights)
        assert torch.allclose(total, torch.tensor([1.0, 0, 1, 0]).expand(4, 4))
        return
    visible = told.dense(*weights.shape[-2:]).unsqueeze(-3).expand_as(weights)
    assert weights[~visible].eq(0).all()
    assert torch.allclose(weights.sum(-1), visible.any(-1).float(), atol=1e-6)
    if name == "row":  # one line per sequence, and the mask a watcher needs to cut the padding off
        assert isinstance(told.where, Padded)
        assert weights.shape == (2, 4, 3, 3)
        assert told.where.query.lengths.tolist() == told.where.key.lengths.tolist() == [3, 2]
        lines, x = [weights[0, :, :3, :3], weights[1, :, :2, :2]], x.split([3, 2])
    else:
        lines = [*weights]
    rebuilt = []
    for line, tokens in zip(lines, x, strict=True):
        value = attention.value(tokens).view(len(tokens), 2, 2).transpose(0, 1).repeat_interleave(2, dim=0)
        rebuilt.append(attention.output((line @ value).transpose(0, 1).flatten(1)))
    joined = torch.cat(rebuilt) if name == "row" else torch.stack(rebuilt)
    assert torch.allclose(watched, joined, atol=1e-6)


def test_a_watcher_of_a_filled_row_is_told_which_lines_are_real():
    attention, seen, row = MultiHead(8, 2), [], Row.of([2, 3], longest=3, size=9, segments=6)
    attention.weights.register_forward_hook(lambda tap, inputs, weights: seen.append((weights, inputs[1])))
    attention(torch.randn(9, 8), mask=packed(row))
    ((weights, told),) = seen
    assert told.where.query.count == 2
    assert told.where.query.lengths[:2].tolist() == [2, 3]
    assert len(weights) == len(told.where.query.lengths) == 4  # the tail takes two more, the empty ones none


@pytest.mark.parametrize("name", CASES)
def test_edited_weights_take_effect(name):
    shape, mask = CASES[name]
    x = torch.randn(shape)
    attention = MultiHead(8, 2)
    before = attention(x, mask=mask)
    attention.weights.register_forward_hook(lambda tap, inputs, weights: torch.zeros_like(weights))
    assert torch.allclose(attention(x, mask=mask), attention.output.bias.expand_as(before), atol=1e-6)
    assert not torch.allclose(before, attention.output.bias.expand_as(before), atol=1e-3)


def test_one_head_can_be_silenced():
    attention, x = MultiHead(8, 2), torch.randn(1, 3, 8)

    def silence(tap, inputs, weights):
        return weights * torch.tensor([1.0, 0.0]).view(2, 1, 1)

    attention.weights.register_forward_hook(silence)
    silenced = attention(x)
    attention.weights._forward_hooks.clear()
    with torch.no_grad():
        attention.output.weight[:, 4:] = 0
    assert torch.allclose(silenced, attention(x), atol=1e-6)


def test_the_weights_are_a_named_child():
    assert "weights" in dict(MultiHead(8, 2).named_children())


def test_dropout_does_not_touch_what_is_seen():
    attention, seen = MultiHead(8, 2, dropout=0.9), []
    attention.weights.register_forward_hook(lambda tap, inputs, weights: seen.append(weights))
    attention(torch.randn(1, 4, 8))
    assert torch.allclose(seen[0].sum(-1), torch.ones(1, 2, 4), atol=1e-6)
