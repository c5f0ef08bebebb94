"""Derivatives by hand are those of autograd."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.lab import bptt_numpy
from regard.lab.bptt_numpy import Weights
from regard.models.parts.cells import RNN

VOCAB, WIDTH = 7, 5
LETTERS = "aems"  # of "masse"


def draw(seed=0):
    return Weights.draw(VOCAB, WIDTH, np.random.default_rng(seed))


def by_autograd(weights, tokens, targets):
    """The same model in torch: its simple cell, an embedding, cross-entropy, and the gradient of all that."""
    W, V, b, U, c = (torch.tensor(each, requires_grad=True) for each in weights)
    cell = RNN(VOCAB, WIDTH).double()
    state, total = torch.zeros(1, WIDTH).double(), 0.0
    names = {"input.weight": W, "input.bias": b, "state.weight": V, "state.bias": torch.zeros_like(b)}
    for token, target in zip(tokens, targets, strict=True):
        x = F.one_hot(torch.tensor(token), VOCAB).double()
        state = torch.func.functional_call(cell, names, (x, state))
        total = total + F.cross_entropy(state[0] @ U.T + c, torch.tensor(target))
    return total.item(), [each.numpy() for each in torch.autograd.grad(total, (W, V, b, U, c))]


@pytest.mark.parametrize("length", [1, 2, 30])
def test_back_propagation_by_hand_is_autograd(length):
    weights, text = draw(), np.random.default_rng(1).integers(VOCAB, size=length + 1).tolist()
    tokens, targets = text[:-1], text[1:]
    read = bptt_numpy.forward(weights, tokens)
    loss, expected = by_autograd(weights, tokens, targets)
    assert bptt_numpy.loss(read.y, targets) == pytest.approx(loss, abs=1e-9)
    for mine, theirs in zip(bptt_numpy.backward(weights, tokens, targets, read), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6, rtol=0)
        np.testing.assert_allclose(mine, theirs, atol=1e-10, rtol=1e-9)


def test_gradients_of_samples_add_up():
    weights, samples = draw(), [([1, 2, 3], [2, 3, 4]), ([5, 0], [0, 6])]
    gradients = [bptt_numpy.backward(weights, *sample, bptt_numpy.forward(weights, sample[0])) for sample in samples]
    expected = [by_autograd(weights, *sample)[1] for sample in samples]
    for mine, one, other in zip(gradients[0] + gradients[1], *expected, strict=True):
        np.testing.assert_allclose(mine, one + other, atol=1e-9)


def test_the_softmax_answers_as_its_jacobian_says():
    scores = np.random.default_rng(2).normal(size=VOCAB)
    jacobian = bptt_numpy.softmax_jacobian(bptt_numpy.softmax(scores))
    expected = torch.autograd.functional.jacobian(lambda x: x.softmax(0), torch.tensor(scores))
    np.testing.assert_allclose(jacobian, expected.numpy(), atol=1e-12)
    np.testing.assert_allclose(jacobian.sum(0), 0, atol=1e-12)  # probabilities stay a whole
    y = bptt_numpy.softmax(scores)
    np.testing.assert_allclose(jacobian @ np.where(np.arange(VOCAB) == 3, -1 / y, 0), y - (np.arange(VOCAB) == 3))


def test_no_score_is_too_large_for_a_softmax():
    np.testing.assert_allclose(bptt_numpy.softmax(np.array([1000.0, 0.0])), [1, 0])


def test_what_explodes_is_cut_off_at_five():
    weights = draw()._replace(V=4.0 * np.eye(WIDTH), b=np.zeros(WIDTH), W=np.full((WIDTH, VOCAB), 1e-9))
    tokens, targets = [0] * 20, [1] * 20
    gradient = bptt_numpy.backward(weights, tokens, targets, bptt_numpy.forward(weights, tokens))
    assert max(np.abs(each).max() for each in gradient) > 5
    clipped = bptt_numpy.clip(gradient)
    assert max(np.abs(each).max() for each in clipped) == 5
    for mine, whole in zip(clipped, gradient, strict=True):
        np.testing.assert_array_equal(mine[np.abs(whole) <= 5], whole[np.abs(whole) <= 5])


def test_a_state_carried_over_goes_on_where_it_was():
    weights, tokens = draw(), [1, 2, 3, 4]
    whole, begin = bptt_numpy.forward(weights, tokens), bptt_numpy.forward(weights, tokens[:2])
    rest = bptt_numpy.forward(weights, tokens[2:], begin.h[-1])
    np.testing.assert_allclose(rest.y, whole.y[2:])


def test_it_learns_to_spell_masse():
    text = [LETTERS.index(letter) for letter in "masse"]
    weights = Weights.draw(len(LETTERS), 8, np.random.default_rng(0))
    for _ in range(200):
        loss, weights = bptt_numpy.step(weights, text[:-1], text[1:], rate=0.1)
    assert loss < 0.2
    read = bptt_numpy.forward(weights, text[:-1])
    assert "".join(LETTERS[best] for best in read.y.argmax(1)) == "asse"
