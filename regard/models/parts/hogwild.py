"""The inner loop of word2vec, compiled by numba, which threads run over the same weights without locks.

Niu et al. 2011: with sparse updates, threads that sometimes overwrite one another learn as well as a single one.
Imported only for training, since numba is an extra; the tuples are described in `word2vec`.
"""

from __future__ import annotations

from math import exp, log
from typing import no_type_check  # arrays are typed by numba, which cannot see through a checked function

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
LOW = np.uint64(0xFFFFFFFF)
HEARD = 64  # the loss, which costs a logarithm, is measured at one place in this many
MOST = np.float32(30)  # scores beyond it have the same probability in float32
LEAST = 1e-300  # lower bound of a probability before its logarithm

compiled = njit(nogil=True, fastmath=True, cache=True, error_model="numpy")


@compiled
@no_type_check
def learn(tokens, inputs, targets, rate, seed):
    """Train on a block of texts, each ended by a negative number; return a summed loss and its number of predictions.

    Frequent words are left out at random first, so a window reaches over them.
    """
    words, state = subsample(tokens, inputs.keep, seed)
    width = inputs.vectors.shape[1]
    hidden, error = np.empty(width, np.float32), np.empty(width, np.float32)
    begin, loss, heard = 0, 0.0, 0
    for place in range(len(words)):
        word = words[place]
        if word < 0:
            begin = place + 1
            continue
        state += GOLDEN
        reach = inputs.window - np.int64(random_bits(state) % np.uint64(inputs.window))
        low, high = max(begin, place - reach), place + 1
        while high < len(words) and high <= place + reach and words[high] >= 0:
            high += 1
        if high - low == 1:
            continue
        if inputs.bag:
            state, surprise = learn_from_mean(
                words[low:high], place - low, inputs.vectors, targets, rate, state, hidden, error
            )
            count = 1
        else:
            state, surprise = learn_from_each(words[low:high], place - low, inputs.vectors, targets, rate, state, error)
            count = high - low - 1
        if place % HEARD == 0:
            loss += surprise
            heard += count
    return loss, heard


@compiled
@no_type_check
def subsample(tokens, keep, state):
    """Leave out tokens at random: each word stays with its own probability."""
    words = np.empty(len(tokens), np.int32)
    count = 0
    for token in tokens:
        if token >= 0 and keep[token] < 1:
            state += GOLDEN
            if np.float32(random_bits(state) >> np.uint64(40)) * np.float32(2.0**-24) >= keep[token]:
                continue
        words[count] = token
        count += 1
    return words[:count], state


@compiled
@no_type_check
def learn_from_each(words, centre, vectors, targets, rate, state, error):
    """Make a step of skip-gram: every neighbour by itself predicts the word in the centre."""
    loss = 0.0
    for place in range(len(words)):
        if place == centre:
            continue
        hidden = vectors[words[place]]
        error[:] = 0
        state, chance = predict(hidden, error, words[centre], targets, rate, state)
        for feature in range(len(error)):
            hidden[feature] += error[feature]
        loss -= log(chance)
    return state, loss


@compiled
@no_type_check
def learn_from_mean(words, centre, vectors, targets, rate, state, hidden, error):
    """Make a step of CBOW: the mean of the neighbours predicts the centre; each gets its share of the gradient."""
    share = np.float32(1) / np.float32(len(words) - 1)
    hidden[:] = 0
    error[:] = 0
    for place in range(len(words)):
        if place != centre:
            vector = vectors[words[place]]
            for feature in range(len(hidden)):
                hidden[feature] += share * vector[feature]
    state, chance = predict(hidden, error, words[centre], targets, rate, state)
    for place in range(len(words)):
        if place != centre:
            vector = vectors[words[place]]
            for feature in range(len(error)):
                vector[feature] += share * error[feature]
    return state, -log(chance)


@compiled
@no_type_check
def predict(hidden, error, word, targets, rate, state):
    """Train on predicting a word, along its path in the tree or against noise or all words; return its probability."""
    chance = 1.0
    if targets.negatives == 0 and len(targets.start) == 0:
        return state, max(predict_among_all(hidden, error, word, targets.output, rate), LEAST)
    if targets.negatives == 0:
        for turn in range(targets.start[word], targets.start[word + 1]):
            sign = np.float32(1 - 2 * np.int64(targets.turns[turn]))
            chance *= nudge(hidden, error, targets.output[targets.nodes[turn]], sign, rate)
        return state, max(chance, LEAST)
    chance *= nudge(hidden, error, targets.output[word], np.float32(1), rate)
    for _ in range(targets.negatives):
        state += GOLDEN
        other = sample_noise(targets.chance, targets.alias, random_bits(state))
        if other != word:
            chance *= nudge(hidden, error, targets.output[other], np.float32(-1), rate)
    return state, max(chance, LEAST)


@compiled
@no_type_check
def predict_among_all(hidden, error, word, output, rate):
    """One step down the cross-entropy of the softmax over all words: the probability of the word before it."""
    size, width = output.shape
    shares = np.empty(size, np.float32)
    for other in range(size):
        score = np.float32(0)
        for feature in range(width):
            score += hidden[feature] * output[other, feature]
        shares[other] = score
    highest = shares.max()
    total = 0.0
    for other in range(size):
        shares[other] = np.float32(exp(shares[other] - highest))
        total += shares[other]
    chance = shares[word] / total
    for other in range(size):
        step = rate * (np.float32(other == word) - np.float32(shares[other] / total))
        for feature in range(width):
            old = output[other, feature]
            error[feature] += step * old
            output[other, feature] = old + step * hidden[feature]
    return chance


@compiled
@no_type_check
def nudge(hidden, error, output, sign, rate):
    """Make one step of logistic regression and return the probability of `sign` before it.

    `output` is updated at once; the update of `hidden` is added to `error`.
    """
    score = np.float32(0)
    for feature in range(len(hidden)):
        score += hidden[feature] * output[feature]
    score = max(-MOST, min(MOST, score))
    chance = np.float32(1) / (np.float32(1) + np.float32(exp(-sign * score)))
    step = rate * sign * (np.float32(1) - chance)
    for feature in range(len(hidden)):
        old = output[feature]
        error[feature] += step * old
        output[feature] = old + step * hidden[feature]
    return chance


@compiled
@no_type_check
def sample_noise(chance, alias, value):
    """Sample a noise word by the alias method (Walker 1977): upper bits of `value` pick a bin, lower bits a side."""
    place = ((value >> np.uint64(32)) * np.uint64(len(chance))) >> np.uint64(32)
    inside = np.float32(value & LOW) * np.float32(2.0**-32) < chance[place]
    return np.int64(place) if inside else np.int64(alias[place])


@compiled
@no_type_check
def random_bits(state):
    """Return a random number of 64 bits from a counter (splitmix64, Steele et al. 2014)."""
    value = (state ^ (state >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    return value ^ (value >> np.uint64(31))
