"""Hard attention: draws follow the weights, and over all draws its gradient is that of the mean cost."""

import itertools

import pytest
import torch
from torch import nn

from regard.attention.hard import HardHead, attend_hard, most_likely_positions, sample_positions, score_function
from regard.attention.masks import Grid, padded
from regard.attention.scores import Additive, dot

PLACES, STEPS, WIDTH = 3, 3, 4


class Writing(nn.Module):
    """Three looks, each from a state that the looks before it changed; the cost of a step depends on all of them."""

    def __init__(self):
        super().__init__()
        self.head = HardHead(Additive(WIDTH, WIDTH, WIDTH))
        self.state = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, memory, places=None):
        """Costs, log-probabilities and entropies of all steps."""
        remembered, x, found = self.head.remember(memory), memory.new_zeros(len(memory), 1, WIDTH), []
        for step in range(STEPS):
            at = sample_positions if places is None else (lambda weights, place=places[step]: _at(weights, place))
            value, log, entropy = self.head.look(x, remembered, choose=at)
            x = torch.tanh(self.state(torch.cat([value, x], -1)))
            found.append((x.pow(2).sum(-1) + x.sum(-1).cos(), log, entropy))
        return (torch.cat(part, -1) for part in zip(*found, strict=True))


def _at(weights, place):
    return torch.full(weights.shape[:-1], place)


def gradients(model, loss):
    """Of the loss, one for each weight."""
    return torch.autograd.grad(loss, list(model.parameters()), retain_graph=True, materialize_grads=True)


@pytest.mark.parametrize("baseline", [0.0, 1.7, [3.0, -2.0, 0.5]])
def test_over_all_draws_the_gradient_is_that_of_the_mean_cost(baseline):
    """Float64, every draw weighted with its exact probability; a baseline changes nothing of the mean."""
    torch.manual_seed(0)
    model, memory = Writing().double(), torch.randn(1, PLACES, WIDTH, dtype=torch.float64)
    baseline = torch.tensor(baseline, dtype=torch.float64) if isinstance(baseline, list) else baseline
    mean, estimates, without = 0.0, None, None
    for places in itertools.product(range(PLACES), repeat=STEPS):
        costs, logs, _ = model(memory, places)
        chance = logs.sum().exp()
        mean = mean + chance * costs.sum()
        loss = costs.sum() + score_function(costs, logs, baseline=baseline).sum()
        own = [chance.detach() * each for each in gradients(model, loss)]
        estimates = own if estimates is None else [a + b for a, b in zip(estimates, own, strict=True)]
        plain = [chance.detach() * each for each in gradients(model, costs.sum())]
        without = plain if without is None else [a + b for a, b in zip(without, plain, strict=True)]
    exact = gradients(model, mean)
    assert all((a - b).abs().max() < 1e-10 for a, b in zip(exact, estimates, strict=True))
    assert any((a - b).abs().max() > 1e-3 for a, b in zip(exact, without, strict=True))  # the draws do matter


def test_a_baseline_makes_the_gradient_vary_less():
    """That is what it is there for: the spread over draws, with the mean of the costs ahead as baseline."""
    torch.manual_seed(0)
    model, memory = Writing().double(), torch.randn(1, PLACES, WIDTH, dtype=torch.float64)
    parameter = model.head.score.query

    def spread(baseline):
        found = []
        for places in itertools.product(range(PLACES), repeat=STEPS):
            costs, logs, _ = model(memory, places)
            loss = costs.sum() + score_function(costs + 10, logs, baseline=baseline).sum()
            found.append((logs.detach().sum().exp(), torch.autograd.grad(loss, parameter)[0]))
        mean = sum(chance * each for chance, each in found)
        return sum(chance * (each - mean).pow(2).sum() for chance, each in found)

    assert spread(torch.tensor([33.0, 22.0, 11.0], dtype=torch.float64)) < spread(0.0)


def test_places_are_drawn_as_often_as_their_weights_say():
    torch.manual_seed(1)
    weights = torch.tensor([0.5, 0.3, 0.2, 0.0])
    counts = torch.bincount(sample_positions(weights.expand(100_000, 1, 4)).flatten(), minlength=4) / 100_000
    assert counts[3] == 0
    assert (counts - weights).abs().max() < 0.01


def test_draws_repeat_with_the_seed():
    weights = torch.rand(50, 1, 9)
    torch.manual_seed(3)
    first = sample_positions(weights)
    torch.manual_seed(3)
    assert torch.equal(first, sample_positions(weights))
    assert not torch.equal(first, sample_positions(weights))


def test_a_hidden_place_is_never_drawn_and_a_blind_query_sees_nothing():
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 1, 500, 4), torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 5)
    query.requires_grad_()
    found = attend_hard(query, key, value, mask=padded(Grid(torch.tensor([2, 0]), 3)))
    own = (found.value[0, 0, :, None] == value[0, 0]).all(-1)
    assert own[:, :2].any(-1).all()
    assert not own[:, 2].any()
    assert not found.value[1].any()
    assert not found.log_probability[1].any()
    (found.value.sum() + found.log_probability.sum() + found.entropy.sum()).backward()
    assert query.grad.isfinite().all()


def test_the_entropy_is_that_of_the_weights():
    query = torch.zeros(1, 1, 2, 4, dtype=torch.float64)
    found = attend_hard(query, torch.randn(1, 1, 5, 4).double(), torch.randn(1, 1, 5, 4).double())
    assert torch.allclose(found.entropy, torch.tensor(5.0).double().log())


def test_in_use_it_looks_at_the_likeliest_place_or_at_the_mean():
    torch.manual_seed(0)
    head, x, memory = HardHead(dot), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    held = head.remember(memory)
    weights = (x @ memory.mT).softmax(-1)
    best = memory.gather(1, weights.argmax(-1)[..., None].expand(-1, -1, 4))
    assert torch.equal(head(x, held), best)
    assert torch.equal(head.look(x, held, choose=most_likely_positions).value, best)
    head.expected = True
    assert torch.allclose(head(x, held), weights @ memory, atol=1e-6)


def test_soft_examples_see_the_mean_and_count_no_draw():
    torch.manual_seed(0)
    head, x, memory = HardHead(dot), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    found = head.look(x, head.remember(memory), soft=torch.tensor([True, False]))
    assert torch.allclose(found.value[0], (x[0] @ memory[0].T).softmax(-1) @ memory[0], atol=1e-6)
    assert not found.log_probability[0].any()
    assert (found.log_probability[1] < 0).all()
    assert (found.value[1][:, None] == memory[1]).all(-1).any(-1).all()


def test_both_the_weights_and_the_place_can_be_watched():
    torch.manual_seed(0)
    head, seen = HardHead(dot), {}
    for name in ("weights", "chosen"):
        getattr(head, name).register_forward_hook(lambda _, given, value, name=name: seen.update({name: value}))
    head.look(torch.randn(1, 2, 4), head.remember(torch.randn(1, 5, 4)))
    assert torch.allclose(seen["weights"].sum(-1), torch.ones(1, 1, 2))
    assert torch.equal(seen["chosen"].sum(-1), torch.ones(1, 1, 2))
    assert set(seen["chosen"].unique().tolist()) == {0.0, 1.0}
