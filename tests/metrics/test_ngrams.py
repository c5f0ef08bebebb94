"""The model that counts, against sums over the vocabulary and counting by hand."""

from collections import Counter

import numpy as np
import pytest

from regard.metrics.ngrams import NGrams


def documents(*texts):
    return np.concatenate([np.array(text, dtype=np.int64) for text in texts]), np.cumsum([0, *map(len, texts)])


@pytest.fixture(scope="module")
def corpus():
    chance = np.random.default_rng(0)
    chain = chance.dirichlet(np.full(12, 0.3), 12)  # which token follows which
    texts = []
    for length in chance.integers(1, 30, 200):
        text = [int(chance.integers(12))]
        while len(text) < length:
            text.append(int(chance.choice(12, p=chain[text[-1]])))
        texts.append(text)
    return texts


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_after_any_context_the_probabilities_of_all_tokens_sum_to_one(corpus, order):
    model = NGrams(*documents(*corpus), vocab=15, order=order)
    contexts = [[], [3], [0, 1], [14, 13, 2], *(text[:7] for text in corpus[:20])]
    for context in contexts:
        tokens, starts = documents(*([*context, word] for word in range(15)))
        every = model.probabilities(tokens, starts)[starts[1:] - 1]
        assert every.sum() == pytest.approx(1, abs=1e-12)
        assert every.min() > 0, "also what never occurred"


def test_bigrams_are_those_counted_by_hand(corpus):
    model = NGrams(*documents(*corpus), vocab=15, order=2)
    pairs = Counter((before, word) for text in corpus for before, word in zip([15, *text], text, strict=False))
    before = {word: len({one for one, two in pairs if two == word}) for word in range(15)}  # what stands before it

    def discounts(counts):
        n = [0, *(sum(count == number for count in counts) for number in (1, 2, 3, 4))]
        found = [0.5, 1.0, 1.5]
        if n[1] * n[2] * n[3]:
            base = n[1] / (n[1] + 2 * n[2])
            found = [max(0.1, k - (k + 1) * base * n[k + 1] / n[k]) for k in (1, 2, 3)]
        return lambda count: min(found[min(count, 3) - 1], count) if count else 0.0

    single, double = discounts([count for count in before.values() if count]), discounts(pairs.values())
    kinds = sum(before.values())
    alone = [
        (before[word] - single(before[word]) + sum(map(single, before.values())) / 15) / kinds for word in range(15)
    ]
    tokens, starts = documents([5, 2, 2, 13])
    following = {one: sum(count for (before, _), count in pairs.items() if before == one) for one in (15, 5, 2)}
    wanted = []
    for one, two in zip([15, 5, 2, 2], [5, 2, 2, 13], strict=True):
        freed = sum(double(count) for (before, _), count in pairs.items() if before == one)
        count = pairs[one, two]
        wanted.append((count - double(count) + freed * alone[two]) / following[one])
    np.testing.assert_allclose(model.probabilities(tokens, starts), wanted, rtol=1e-12)


def test_longer_contexts_help_where_they_tell_more_and_documents_are_strangers(corpus):
    texts = [[a, b, (a + b) % 5] * 4 for a in range(5) for b in range(5)]
    pairs, triples = (NGrams(*documents(*texts), vocab=5, order=order).nats(*documents(*texts)) for order in (2, 3))
    assert triples < pairs
    learnt, others = documents(*corpus[:150]), documents(*corpus[150:])
    single, pairs, five = (NGrams(*learnt, vocab=12, order=order).nats(*others) for order in (1, 2, 5))
    assert pairs < five < single, "each token depends on the one before, and on no other"
    model = NGrams(*documents(*texts), vocab=5, order=3)
    one = model.nats(*documents(texts[3])) + model.nats(*documents(texts[9]))
    assert model.nats(*documents(texts[3], texts[9])) == pytest.approx(one)
    assert model.nats(*documents(texts[3] + texts[9])) != pytest.approx(one)


def test_nothing_to_count_is_said():
    with pytest.raises(ValueError, match="0 tokens and an order of 5"):
        NGrams(*documents([]), vocab=5)
