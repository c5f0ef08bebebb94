"""Likelihoods are exact sums, and chunks change neither them nor their gradients."""

import math

import pytest
import torch
from torch.nn import functional as F

from regard.metrics.likelihood import (
    IGNORE,
    count,
    cross_entropy,
    cross_entropy_with_gradient,
    linear_cross_entropy,
    perplexity,
    rdrop,
)


def example(tokens=37, width=8, vocab=13):
    features = torch.randn(tokens, width, requires_grad=True)
    weight = torch.randn(vocab, width, requires_grad=True)
    bias = torch.randn(vocab, requires_grad=True)
    labels = torch.randint(vocab, (tokens,))
    labels[::5] = IGNORE
    return features, weight, bias, labels


def smoothed_by_hand(logits, labels, smoothing):
    total = 0.0
    for row, label in zip(logits.log_softmax(-1), labels.tolist(), strict=True):
        if label != IGNORE:
            target = torch.full_like(row, smoothing / len(row))
            target[label] += 1 - smoothing
            total -= (target * row).sum().item()
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_cross_entropy_is_the_definition_and_torchs_own(smoothing):
    features, weight, bias, labels = example()
    logits = F.linear(features, weight, bias)
    ours = cross_entropy(logits, labels, smoothing=smoothing)
    mean = F.cross_entropy(logits, labels, label_smoothing=smoothing)
    assert ours.item() == pytest.approx(smoothed_by_hand(logits, labels, smoothing), rel=1e-5)
    assert (ours / count(labels)).item() == pytest.approx(mean.item(), rel=1e-6)


@pytest.mark.parametrize("chunk", [None, 1, 10, 37, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [True, False])
def test_chunks_change_neither_loss_nor_gradients(chunk, smoothing, biased):
    features, weight, bias, labels = example()
    inputs = [features, weight, *[bias] * biased]
    plain = cross_entropy(F.linear(*inputs), labels, smoothing=smoothing)
    ours = linear_cross_entropy(
        features, weight, labels, smoothing=smoothing, bias=bias if biased else None, chunk=chunk
    )
    torch.testing.assert_close(ours, plain, rtol=1e-6, atol=1e-5)
    for one, other in zip(torch.autograd.grad(3 * ours, inputs), torch.autograd.grad(3 * plain, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_chunks_is_that_of_small_differences():
    features, weight, _, labels = (each.double() if each.is_floating_point() else each for each in example(5, 2, 3))
    features, weight = features.detach().requires_grad_(), weight.detach().requires_grad_()

    def loss(features, weight):
        return linear_cross_entropy(features, weight, labels, smoothing=0.1, chunk=2)

    assert torch.autograd.gradcheck(loss, (features, weight))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_surprise_and_its_slope_are_what_autograd_finds(smoothing):
    _, _, _, labels = example()
    logits = (5 * torch.randn(37, 13)).requires_grad_()
    plain = cross_entropy(logits, labels, smoothing=smoothing)
    loss, slope = cross_entropy_with_gradient(logits.detach(), labels, smoothing)
    torch.testing.assert_close(loss, plain.detach())
    torch.testing.assert_close(slope, torch.autograd.grad(plain, logits)[0], rtol=1e-5, atol=1e-6)


def test_only_a_chunk_of_logits_is_held_at_a_time():
    features, weight, bias, labels = example(tokens=64)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.shape) or tensor, lambda t: t):
        linear_cross_entropy(features, weight, labels, bias=bias, chunk=8)
        assert not [shape for shape in kept if shape[-1:] == (13,) and len(shape) == 2]
        linear_cross_entropy(features, weight, labels, bias=bias)
        assert (64, 13) in kept


def test_ignored_labels_count_for_nothing():
    features, weight, bias, labels = example()
    loss = linear_cross_entropy(features, weight, torch.full_like(labels, IGNORE), bias=bias, smoothing=0.1, chunk=8)
    loss.backward()
    assert loss.item() == 0
    assert float(features.grad.abs().sum()) == 0
    assert float(count(labels)) == 29


def test_chunks_work_where_no_gradient_is_asked_for():
    features, weight, _, labels = example()
    with torch.no_grad():
        assert float(linear_cross_entropy(features, weight, labels, chunk=8)) == pytest.approx(
            linear_cross_entropy(features, weight, labels).item(), rel=1e-6
        )


def test_half_precision_is_summed_in_full():
    features, weight, _, labels = example(tokens=2000)
    half = linear_cross_entropy(features.half(), weight.half(), labels, chunk=100)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(linear_cross_entropy(features, weight, labels).item(), rel=1e-3)


def test_perplexity_of_even_odds_is_the_number_of_choices():
    labels = torch.randint(13, (20,))
    total = cross_entropy(torch.zeros(20, 13), labels)
    assert perplexity(float(total), int(count(labels))) == pytest.approx(13, rel=1e-5)
    assert perplexity(1e6, 1) == math.inf
    with pytest.raises(ValueError, match="0 tokens"):
        perplexity(0.0, 0)


@pytest.mark.parametrize("chunk", [8, 1000])
def test_agreement_is_the_mean_surprise_and_the_divergence_both_ways(chunk):
    one, weight, _, labels = example()
    other = torch.randn_like(one).requires_grad_()
    first, second = (F.linear(each, weight).log_softmax(-1)[labels != IGNORE] for each in (one, other))
    apart = F.kl_div(first, second, log_target=True, reduction="sum")
    apart = apart + F.kl_div(second, first, log_target=True, reduction="sum")
    surprised = sum(linear_cross_entropy(each, weight, labels, smoothing=0.1) for each in (one, other)) / 2
    ours = rdrop((one, other), weight, labels, smoothing=0.1, strength=5.0, chunk=chunk)
    torch.testing.assert_close(ours, surprised + 5.0 / 2 * apart / 2)
    inputs = [one, other, weight]
    expected = torch.autograd.grad(surprised + 5.0 / 2 * apart / 2, inputs)
    torch.testing.assert_close(torch.autograd.grad(ours, inputs), expected, rtol=1e-4, atol=1e-4)


def test_passes_that_agree_cost_no_more_than_one():
    features, weight, _, labels = example()
    ours = rdrop((features, features), weight, labels, smoothing=0.1, strength=5.0, chunk=100)
    torch.testing.assert_close(ours, linear_cross_entropy(features, weight, labels, smoothing=0.1))
