"""word2vec learns what its loss says: every draw replayed in plain Python, every gradient taken by autograd."""

import heapq
import itertools
import sys
from collections import Counter

import numpy as np
import pytest
import torch

from regard.config import build
from regard.models import word2vec
from regard.models.word2vec import Word2Vec, Word2VecConfig, build_huffman_tree, keep_probabilities, noise_tables

pytest.importorskip("numba", reason="numba is not installed (pip install 'regard[words]')")

MASK = 2**64 - 1
VARIANTS = list(itertools.product(["skipgram", "cbow"], ["negative", "hierarchical", "softmax"]))


class Dice:
    """splitmix64 in Python's own integers."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def roll(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        value = ((self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        return value ^ (value >> 31)


def replayed(model: Word2Vec, text: list[int], rate: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights after one walk over a text, by autograd and the equations alone."""
    dice, config = Dice(seed), model.config
    vectors = torch.from_numpy(model.inputs.vectors.copy()).double().requires_grad_()
    output = torch.from_numpy(model.targets.output.copy()).double().requires_grad_()
    read = []
    for token in text:
        chance = float(model.inputs.keep[token]) if token >= 0 else 1.0
        if chance >= 1 or (dice.roll() >> 40) * 2.0**-24 < chance:
            read.append(token)
    texts = [list(group) for end, group in itertools.groupby(read, lambda token: token < 0) if not end]
    for words in texts:
        for place, word in enumerate(words):
            reach = config.window - dice.roll() % config.window
            near = [*words[max(0, place - reach) : place], *words[place + 1 : place + 1 + reach]]
            bags = [near] if config.architecture == "cbow" else [[other] for other in near]
            for bag in bags if near else []:
                hidden = vectors[bag].mean(dim=0)
                loss = loss_of(model, word, hidden, output, dice)
                inner, outer = torch.autograd.grad(loss, (vectors, output))
                vectors.data -= rate * inner
                output.data -= rate * outer
    return vectors.detach(), output.detach()


def loss_of(model: Word2Vec, word: int, hidden: torch.Tensor, output: torch.Tensor, dice: Dice) -> torch.Tensor:
    """What predicting a word costs: torch's cross-entropy over all words, or logistic losses of some rows."""
    if model.config.output == "softmax":
        return torch.nn.functional.cross_entropy(output @ hidden, torch.tensor(word))
    rows = targets(model, word, dice)
    return -sum(torch.nn.functional.logsigmoid(sign * (hidden @ output[row])) for row, sign in rows)


def targets(model: Word2Vec, word: int, dice: Dice) -> list[tuple[int, int]]:
    """Rows of the output a word is predicted by, and the sign their product should have."""
    found = model.targets
    if model.config.output == "hierarchical":
        way = range(found.start[word], found.start[word + 1])
        return [(int(found.nodes[turn]), 1 - 2 * int(found.turns[turn])) for turn in way]
    drawn = []
    for _ in range(model.config.negatives):
        value = dice.roll()
        place = ((value >> 32) * len(found.chance)) >> 32
        inside = np.float32(value & 0xFFFFFFFF) * np.float32(2.0**-32) < found.chance[place]
        drawn.append(place if inside else int(found.alias[place]))
    return [(word, 1), *((other, -1) for other in drawn if other != word)]


def tiny(architecture: str, output: str, **settings) -> Word2Vec:
    """A model of 300 words, 20 wide, whose weights are already something."""
    config = Word2VecConfig(architecture=architecture, output=output, width=20, window=3, negatives=4, **settings)
    model = Word2Vec(config, np.arange(600, 300, -1))
    chance = np.random.default_rng(1)
    model.inputs.vectors[:] = chance.normal(size=model.inputs.vectors.shape) * 0.3
    model.targets.output[:] = chance.normal(size=model.targets.output.shape) * 0.3
    return model


@pytest.mark.parametrize(("architecture", "output"), VARIANTS)
def test_a_walk_over_a_text_is_gradient_descent_on_the_loss(architecture, output):
    model = tiny(architecture, output, sample=1e-3)
    text = [*np.random.default_rng(0).integers(0, 300, 40), -1, 5, 7, -1, 9, -1, -1, *range(30), -1]
    before = model.inputs.vectors.copy(), model.targets.output.copy()
    vectors, rows = replayed(model, text, 0.01, 17)
    model.learn(np.array(text, np.int32), rate=0.01, seed=17)
    for mine, theirs, old in zip((model.inputs.vectors, model.targets.output), (vectors, rows), before, strict=True):
        moved = np.abs(theirs.numpy() - old)
        assert moved.max() > 1e-3
        np.testing.assert_allclose(mine - old, theirs.numpy() - old, atol=2e-3 * moved.max())
        assert ((mine != old).any(axis=1) == (moved > 1e-12).any(axis=1)).all()  # and no other row


@pytest.mark.parametrize(("architecture", "output"), VARIANTS)
def test_one_prediction_moves_as_autograd_says(architecture, output):
    model = tiny(architecture, output, sample=None)
    text = np.array([3, 200, -1], np.int32)
    old = model.inputs.vectors.copy()
    vectors, _ = replayed(model, text.tolist(), 1e-2, 5)
    loss, heard = model.learn(text, rate=1e-2, seed=5)
    np.testing.assert_allclose(model.inputs.vectors - old, vectors.numpy() - old, atol=1e-6)
    assert heard == 1
    assert loss > 0


def test_the_full_softmax_is_the_cross_entropy_over_all_words_and_its_gradient():
    model, rate = tiny("skipgram", "softmax", sample=None), 1e-3
    vectors, output = model.inputs.vectors.astype(np.float64), model.targets.output.astype(np.float64)
    loss, heard = model.learn(np.array([3, 200, -1], np.int32), rate=rate, seed=5)
    scores = output @ vectors[200]  # of the word 3, from its only neighbour
    shares = np.exp(scores) / np.exp(scores).sum()
    assert heard == 1
    assert loss == pytest.approx(-np.log(shares[3]), rel=1e-5)
    first = output - rate * np.outer(shares - np.eye(300)[3], vectors[200])
    shares_after = np.exp(first @ vectors[3]) / np.exp(first @ vectors[3]).sum()  # then 200 from 3
    second = first - rate * np.outer(shares_after - np.eye(300)[200], vectors[3])
    np.testing.assert_allclose(model.targets.output - output, second - output, atol=2e-7)
    np.testing.assert_allclose(
        model.inputs.vectors[200] - vectors[200], -rate * (shares - np.eye(300)[3]) @ output, atol=2e-7
    )


def test_the_full_softmax_of_untrained_vectors_guesses_among_all_words():
    model = Word2Vec(Word2VecConfig(output="softmax", sample=None, window=1), np.full(500, 10))
    text = np.append(np.random.default_rng(0).integers(0, 500, 200), -1).astype(np.int32)
    loss, heard = model.learn(text, rate=1e-9, seed=0)
    assert loss / heard == pytest.approx(np.log(500), rel=1e-3)


def test_a_line_is_a_world_of_its_own():
    model, other = tiny("skipgram", "negative", sample=None), tiny("skipgram", "negative", sample=None)
    model.learn(np.array([1, -1, 2, -1, 3, -1], np.int32), rate=0.5, seed=0)
    assert (model.vectors == other.vectors).all()
    assert (model.output == other.output).all()


def test_the_loss_of_untrained_vectors_is_that_of_tossing_coins():
    model = Word2Vec(Word2VecConfig(negatives=5, sample=None, window=1), np.full(5000, 10))
    text = np.append(np.random.default_rng(0).integers(0, 5000, 3000), -1).astype(np.int32)
    loss, heard = model.learn(text, rate=1e-9, seed=0)
    assert loss / heard == pytest.approx(6 * np.log(2), rel=1e-3)


def test_the_same_seed_gives_the_same_vectors_and_another_one_others():
    text = np.append(np.random.default_rng(0).integers(0, 300, 500), -1).astype(np.int32)
    models = [tiny("skipgram", "negative") for _ in range(3)]
    for model, seed in zip(models, (1, 1, 2), strict=True):
        model.learn(text, rate=0.05, seed=seed)
    assert (models[0].vectors == models[1].vectors).all()
    assert (models[0].vectors != models[2].vectors).any()


def test_frequent_words_are_left_out_as_the_first_implementation_does():
    counts, sample = np.array([50_000, 3_000, 100, 10, 5]), 1e-3
    total = counts.sum()
    theirs = [(np.sqrt(count / (sample * total)) + 1) * (sample * total) / count for count in counts]
    np.testing.assert_allclose(keep_probabilities(counts, sample), np.minimum(theirs, 1), rtol=1e-6)
    assert (keep_probabilities(counts, None) == 1).all()
    model = Word2Vec(Word2VecConfig(sample=sample), counts)
    text = np.zeros(200_000, np.int32)
    left, _ = word2vec.kernel().subsample(text, model.inputs.keep, np.uint64(3))
    assert len(left) / len(text) == pytest.approx(theirs[0], rel=0.02)


def test_noise_is_drawn_in_proportion_to_counts_raised_to_three_quarters():
    counts = np.array([1000, 500, 200, 50, 50, 7, 1, 1])
    chance, alias = noise_tables(counts, 0.75)
    shares = np.zeros(len(counts))
    for place, (inside, other) in enumerate(zip(chance, alias, strict=True)):
        shares[place] += inside / len(counts)
        shares[other] += (1 - inside) / len(counts)
    np.testing.assert_allclose(shares, counts**0.75 / (counts**0.75).sum(), rtol=1e-5)
    dice, kernel = Dice(0), word2vec.kernel()
    drawn = Counter(int(kernel.sample_noise(chance, alias, np.uint64(dice.roll()))) for _ in range(20_000))
    np.testing.assert_allclose([drawn[word] / 20_000 for word in range(8)], shares, atol=0.012)


@pytest.mark.parametrize("counts", [[1, 1], [5, 5, 5, 5], [100, 50, 20, 9, 3, 1, 1], [2**n for n in range(12, -1, -1)]])
def test_huffman_codes_are_prefix_free_and_as_short_as_can_be(counts):
    start, nodes, turns = build_huffman_tree(np.array(counts))
    codes = ["".join(map(str, turns[low:high])) for low, high in itertools.pairwise(start)]
    assert not [1 for one, other in itertools.permutations(codes, 2) if other.startswith(one)]
    assert sum(2.0 ** -len(code) for code in codes) == 1
    weight = sum(count * len(code) for count, code in zip(counts, codes, strict=True))
    heap, least = list(counts), 0
    heapq.heapify(heap)
    while len(heap) > 1:  # every merge makes all codes below it one longer
        both = heapq.heappop(heap) + heapq.heappop(heap)
        least += both
        heapq.heappush(heap, both)
    assert weight == least
    assert set(nodes.tolist()) == set(range(len(counts) - 1))
    where = {
        (code[:depth], int(nodes[low + depth]))
        for code, low in zip(codes, start, strict=False)
        for depth in range(len(code))
    }
    assert len(where) == len(counts) - 1  # words that turned alike so far stand at the same node, others at others


def test_bad_settings_and_too_few_words_are_said_in_one_line():
    for wrong, words in (
        ({"width": 0}, "width must be"),
        ({"window": 0}, "window must be"),
        ({"sample": 0.0}, "sample must be a number above 0"),
    ):
        with pytest.raises(ValueError, match=words):
            build(Word2VecConfig, wrong)
    with pytest.raises(ValueError, match="too few to train on"):
        Word2Vec(Word2VecConfig(), np.array([3]))


def test_without_numba_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "regard.models.parts.hogwild", None)
    monkeypatch.delattr("regard.models.parts.hogwild", raising=False)
    with pytest.raises(ValueError, match=r"needs numba .*pip install 'regard\[words\]'"):
        word2vec.kernel()
