"""Contrastive tuning: who meets whom, and what is minimised."""

import tracemalloc
from itertools import islice

import numpy as np
import pytest
import torch

from regard.tasks.embedding.contrast import MOST, PairSampler, cosine_loss, plan_steps


def test_every_text_meets_others_of_its_label_and_all_come_before_one_comes_again():
    labels = np.array([0] * 40 + [1] * 80 + [2])
    seen = list(PairSampler(labels, size=24, seed=3).steps(10))
    for chosen in seen:
        assert len(set(chosen)) == len(chosen)
        assert np.bincount(labels[chosen]).tolist() == [8, 8, 1]
    assert sorted(np.concatenate(seen[:5])[np.isin(np.concatenate(seen[:5]), range(40))]) == list(range(40))
    assert sorted(each for chosen in seen for each in chosen if labels[each] == 1) == list(range(40, 120))
    again = list(PairSampler(labels, size=24, seed=3).steps(10))
    assert all(np.array_equal(one, two) for one, two in zip(seen, again, strict=True))
    other = list(PairSampler(labels, size=24, seed=4).steps(10))
    assert not all(np.array_equal(one, two) for one, two in zip(seen, other, strict=True))


def test_of_many_labels_some_meet_in_turn_two_texts_of_each():
    labels = np.arange(300) // 3
    seen = [labels[chosen] for chosen in PairSampler(labels, size=20).steps(10)]
    assert all(sorted(np.bincount(found)[np.unique(found)]) == [2] * 10 for found in seen)
    assert set(np.concatenate(seen)) == set(range(100))


def test_a_hundred_thousand_texts_are_met_in_bounded_memory():
    labels = np.arange(100_000) % 4
    tracemalloc.start()
    met = sum(len(chosen) for chosen in islice(PairSampler(labels).steps(200), 200))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert met == 200 * 32
    assert peak < 60 * len(labels), "five billion pairs would not fit; some numbers for each text do"
    assert plan_steps(100_000) == MOST


def test_the_strain_is_that_of_all_pairs_one_by_one():
    vectors = torch.nn.functional.normalize(torch.randn(7, 5, generator=torch.Generator().manual_seed(0)), dim=-1)
    labels = torch.tensor([0, 0, 1, 2, 1, 0, 2])
    near, far = [], []
    for one in range(7):
        for other in range(7):
            if one != other:
                cosine = float(vectors[one] @ vectors[other])
                alike = bool(labels[one] == labels[other])
                (near if alike else far).append((cosine - alike) ** 2)
    assert float(cosine_loss(vectors, labels)) == pytest.approx(0.5 * np.mean(near) + 0.5 * np.mean(far), rel=1e-5)
    apart = torch.eye(3).repeat(2, 1)
    assert float(cosine_loss(apart, torch.arange(3).repeat(2))) == 0.0
    assert torch.isfinite(cosine_loss(apart, torch.arange(6))), "no two of a label"
