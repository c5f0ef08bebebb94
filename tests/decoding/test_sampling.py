"""Choosing at random follows the distribution it claims, and outside implementations agree on what is removed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.generate import generate
from regard.decoding.sampling import Sampler, draw, min_p, sample, temperature, top_k, top_p
from tests.decoding.steppers import markov, surprises

logits_process = pytest.importorskip("transformers.generation.logits_process")


def logits(seed=0, rows=20, vocab=300):
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(rows, vocab, generator=generator, dtype=torch.float64)  # no sum is on the edge by rounding


@pytest.mark.parametrize(
    ("ours", "theirs", "values"),
    [
        (temperature, logits_process.TemperatureLogitsWarper, [0.3, 1.0, 2.5]),
        (top_k, logits_process.TopKLogitsWarper, [1, 5, 299, 300, 1000]),
        (top_p, logits_process.TopPLogitsWarper, [0.01, 0.5, 0.9, 0.999]),
        (min_p, logits_process.MinPLogitsWarper, [0.0, 0.05, 0.5, 1.0]),
    ],
)
def test_each_filter_is_that_of_transformers(ours, theirs, values):
    for value in values:
        for seed in range(3):
            scores = logits(seed)
            expected = theirs(value)(None, scores)
            torch.testing.assert_close(ours(scores, value).softmax(-1), expected.softmax(-1))


@pytest.mark.parametrize("flat", [True, False])
def test_top_p_looks_as_far_down_a_large_vocabulary_as_it_must(flat):
    scores = logits(vocab=2000) * (0.01 if flat else 1.0)
    for mass in (0.2, 0.95):
        torch.testing.assert_close(top_p(scores, mass), logits_process.TopPLogitsWarper(mass)(None, scores))


def test_all_filters_together_are_those_of_transformers_in_the_same_order():
    scores = logits()
    expected = scores
    for warper in (
        logits_process.TemperatureLogitsWarper(0.7),
        logits_process.TopKLogitsWarper(50),
        logits_process.TopPLogitsWarper(0.9),
        logits_process.MinPLogitsWarper(0.02),
    ):
        expected = warper(None, expected)
    ours = Sampler(temperature=0.7, top_k=50, top_p=0.9, min_p=0.02, generator=torch.Generator()).warp(scores)
    torch.testing.assert_close(ours.softmax(-1), expected.softmax(-1))


@given(seed=st.integers(0, 1000), scale=st.sampled_from([0.0, 1.0, 1e4]), removed=st.integers(0, 6))
def test_the_best_token_survives_everything(seed, scale, removed):
    scores = scale * logits(seed, rows=3, vocab=7)
    scores[:, :removed] = -float("inf")
    picked = Sampler(temperature=0.01, top_k=1, top_p=1e-6, min_p=1.0, generator=torch.Generator()).warp(scores)
    best = scores.argmax(-1, keepdim=True)
    assert bool((picked.gather(-1, best) > -float("inf")).all()) or scale == 0
    assert bool((picked > -float("inf")).any(-1).all())
    assert bool((picked[scores == -float("inf")] == -float("inf")).all())


def test_uniform_scores_lose_half_of_their_tokens_to_half_the_mass():
    assert int((top_p(torch.zeros(10), 0.5) == 0).sum()) == 5


def test_tokens_are_drawn_as_often_as_they_are_probable():
    scores, draws = torch.tensor([0.0, 1.0, -float("inf"), 2.0, -1.0]), 20000
    tokens = sample(scores.expand(draws, -1), torch.Generator().manual_seed(0))
    expected = draws * scores.softmax(-1)
    counts = torch.bincount(tokens, minlength=5)
    assert counts[2] == 0
    kept = expected > 0
    chi_square = float(((counts - expected)[kept] ** 2 / expected[kept]).sum())
    assert chi_square < 16.3  # three degrees of freedom: one honest draw in a thousand is worse


@given(seed=st.integers(0, 1000))
def test_no_noise_falls_on_a_removed_token(seed):
    scores = logits(seed, rows=4, vocab=50)
    scores[:, -20:] = -float("inf")
    scores[:, :5] = -float("inf")
    for noise in (0.0, 0.5, 1 - 2**-24, 1.0):  # a larger type may round up to 1
        picked = draw(scores, torch.full((4,), noise))
        assert bool((scores.gather(-1, picked[:, None]) > -float("inf")).all())


def test_whole_answers_are_drawn_as_often_as_they_are_probable():
    model, draws = markov(examples=1, vocab=3), 8000
    pick = Sampler(generator=torch.Generator().manual_seed(3))
    [found] = generate(model.model, model.every(), limit=2, eos=0, pick=pick, samples=draws)
    texts = {}
    for answer in found:
        text = (*answer.tokens, *[0] * answer.finished)
        texts[text] = texts.get(text, 0) + 1
    probability = {text: torch.tensor(sum(surprises(model, 0, list(text)))).exp().item() for text in texts}
    assert sum(probability.values()) == pytest.approx(1, abs=1e-3)
    chi_square = sum((texts[t] - draws * probability[t]) ** 2 / (draws * probability[t]) for t in texts)
    assert len(texts) == 7
    assert chi_square < 22.5  # six degrees of freedom


@pytest.mark.parametrize("value", [1e-3, 1e-38, 1e-300])
def test_a_temperature_near_zero_is_greedy(value):
    model = markov()
    pick = Sampler(temperature=value, generator=torch.Generator().manual_seed(0))
    cold = generate(model.model, model.every(), limit=6, eos=0, pick=pick, samples=2)
    greedy = generate(model.model, model.every(), limit=6, eos=0, samples=2)
    assert [[a.tokens for a in own] for own in cold] == [[a.tokens for a in own] for own in greedy]


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 0.0}, {"temperature": -1.0}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}, {"min_p": 2.0}],
)
def test_a_setting_that_leaves_no_distribution_is_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        Sampler(**settings, generator=torch.Generator())


def test_generators_are_one_or_one_each():
    model = markov()
    pick = Sampler(generator=[torch.Generator()] * 2)
    with pytest.raises(ValueError, match="2 generators for 5 examples"):
        generate(model.model, model.every(), limit=3, eos=0, pick=pick)


def test_at_least_one_sample_is_asked_for():
    model = markov()
    with pytest.raises(ValueError, match="0 samples"):
        generate(model.model, model.every(), limit=3, eos=0, samples=0)
