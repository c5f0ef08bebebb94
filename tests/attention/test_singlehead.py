"""One look at a memory as it is."""

import pytest
import torch

from regard.attention.masks import Grid, padded
from regard.attention.scores import Additive, Bilinear, dot
from regard.attention.singlehead import SingleHead

SCORES = {"dot": lambda: dot, "bilinear": lambda: Bilinear(5, 5), "additive": lambda: Additive(5, 5, 7)}


@pytest.mark.parametrize("make", SCORES.values(), ids=SCORES)
def test_it_is_the_mean_of_the_memory_by_the_softmax_of_the_scores(make):
    score = make()
    head, x, memory = SingleHead(score), torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    weights = score(x[:, None], memory[:, None])[:, 0].softmax(-1)
    assert torch.allclose(head(x, head.remember(memory)), weights @ memory, atol=1e-6)


@pytest.mark.parametrize("make", SCORES.values(), ids=SCORES)
def test_padding_is_not_looked_at_and_who_sees_nothing_gets_zeros(make):
    head, x, memory = SingleHead(make()), torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    found = head(x, head.remember(memory), mask=padded(Grid(torch.tensor([2, 0]), 4)))
    assert torch.allclose(found[0], head(x[:1], head.remember(memory[:1, :2]))[0], atol=1e-6)
    assert found[1].eq(0).all()


def test_what_an_additive_score_makes_of_keys_is_made_once():
    score = Additive(5, 6, 7, heads=2)
    query, key = torch.randn(2, 3, 5), torch.randn(2, 4, 6)
    assert torch.equal(score.compare(query, score.project(key)), score(query, key))
