"""word2vec (Mikolov et al. 2013): a vector for every word, learnt by telling words from the words around them.

A hidden vector h, that of one neighbour (skip-gram) or the mean of all (CBOW), shall predict the word w they surround.
With negative sampling the loss is -log s(h·o_w) - sum over k drawn words n of log s(-h·o_n), s the logistic function;
with hierarchical softmax it is -sum of log s(±h·o_node) over the nodes on the way to w in a Huffman tree;
with the full softmax it is -h·o_w + log sum over all words v of exp(h·o_v), which both others replace.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from regard.config.ranges import Positive, Range, Small, Width
from regard.models.interface import Model, ModelConfig, Traits

Counts = Int[np.ndarray, "vocab"]


@dataclass(frozen=True, kw_only=True)
class Word2VecConfig(ModelConfig):
    """How words are predicted from the words around them."""

    name: Literal["word2vec"] = "word2vec"
    """Which model."""
    vocab: Annotated[int, Range(0, 10**9)] = 0
    """Words of the vocabulary; filled in from the text."""
    width: Width = 100
    """Features of a word."""
    architecture: Literal["skipgram", "cbow"] = "skipgram"
    """Whether each neighbour by itself predicts a word, or their mean (CBOW): faster, weaker on rare words."""
    output: Literal["negative", "hierarchical", "softmax"] = "negative"
    """Negative sampling (a word against a few drawn ones), hierarchical softmax (a Huffman tree), or the full softmax
    (a word against all: exact, and slow where words are many)."""
    window: Small = 5
    """Context window: most words on either side; for each word a window up to this is drawn."""
    negatives: Small = 5
    """Negative samples: random words that a true neighbour is to be distinguished from; negative sampling only."""
    power: Annotated[float, Range(-10, 10)] = 0.75
    """Negative samples are drawn in proportion to the count of a word raised to this power."""
    sample: Positive | None = 1e-3
    """Subsampling: words above this share of the text are dropped at random, frequent ones more often; null: none."""

    sizes_known: ClassVar[bool] = False


class Inputs(NamedTuple):
    """The input side of the inner loop: vectors, subsampling probabilities, window and architecture."""

    vectors: Float[np.ndarray, "vocab width"]
    keep: Float[np.ndarray, "vocab"]
    window: int
    bag: bool


class Targets(NamedTuple):
    """What the inner loop predicts words with: `negatives` words of a noise, a tree, or with neither all words."""

    output: Float[np.ndarray, "rows width"]
    chance: Float[np.ndarray, "drawn"]
    alias: Int[np.ndarray, "drawn"]
    start: Int[np.ndarray, "bounds"]
    nodes: Int[np.ndarray, "turns"]
    turns: UInt8[np.ndarray, "turns"]
    negatives: int


class Tree(NamedTuple):
    """The paths from the root of a Huffman tree: for word w, nodes[start[w]:start[w + 1]] and the turn at each."""

    start: Int[np.ndarray, "bounds"]
    nodes: Int[np.ndarray, "turns"]
    turns: UInt8[np.ndarray, "turns"]


class Word2Vec(Model):
    """Input vectors and output weights, in memory that the threads of the inner loop share."""

    # its loop writes vectors and output without gradients; what words are predicted by is of no use afterwards
    traits = Traits(learned_buffers=("vectors", "output"), transient=("output", "heard"))

    def __init__(self, config: Word2VecConfig, counts: Counts | None = None) -> None:
        super().__init__()
        vocab = config.vocab if counts is None else len(counts)
        if vocab < 2:
            raise ValueError(f"{vocab} words are too few to train on: lower data.min_count or give more text")
        self.config = config
        rows = vocab - (config.output == "hierarchical")  # a tree has one node fewer than leaves
        self.register_buffer("vectors", torch.empty(vocab, config.width).uniform_(-0.5, 0.5) / config.width)
        self.register_buffer("output", torch.zeros(rows, config.width))
        self.register_buffer("heard", torch.zeros(2, dtype=torch.float64))  # loss and predictions since it was scored
        if counts is not None:
            self.count(counts)

    @staticmethod
    def read_sizes(config: Word2VecConfig, tensors: Mapping[str, Tensor]) -> Word2VecConfig:
        """Return the config with the vocabulary size of the saved vectors."""
        return replace(config, vocab=len(tensors["vectors"])) if "vectors" in tensors else config

    def forward(self, words: Int[Tensor, "*words"]) -> Float[Tensor, "*words width"]:
        """Return the vectors of these words."""
        return self.get_buffer("vectors")[words]

    def count(self, counts: Counts) -> None:
        """Prepare the inner loop from word counts: subsampling, noise distribution or Huffman tree."""
        config = self.config
        vectors, output = (self.get_buffer(name).numpy() for name in ("vectors", "output"))  # the same memory
        self.inputs = Inputs(
            vectors, keep_probabilities(counts, config.sample), config.window, config.architecture == "cbow"
        )
        empty = Tree(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint8))
        none = np.zeros(0, np.float32), np.zeros(0, np.int32)
        sampled = config.output == "negative"
        chance, alias = noise_tables(counts, config.power) if sampled else none
        tree = build_huffman_tree(counts) if config.output == "hierarchical" else empty
        self.targets = Targets(output, chance, alias, *tree, config.negatives if sampled else 0)

    def _apply(self, function: Any, recurse: bool = True) -> Word2Vec:
        """Do nothing, so that the buffers stay in CPU memory whatever the device."""
        return self

    def learn(self, tokens: Int[np.ndarray, "token"], *, rate: float, seed: int) -> tuple[float, int]:
        """Train on texts, each ended by -1; return the loss summed over a sample of predictions, and the sample's size.

        Threads may do this at the same time with other texts.
        """
        totals = kernel().learn(tokens, self.inputs, self.targets, np.float32(rate), np.uint64(seed % 2**64))
        return float(totals[0]), int(totals[1])


def kernel() -> ModuleType:
    """Return the module with the compiled inner loop."""
    try:
        from regard.models.parts import hogwild
    except ImportError as error:
        raise ValueError(f"learning word vectors needs numba ({error}): pip install 'regard[words]'") from None
    return hogwild


def keep_probabilities(counts: Counts, sample: float | None) -> Float[np.ndarray, "vocab"]:
    """Return the probability to keep a word in subsampling: min(1, sqrt(t/f) + t/f) for frequency f and sample t.

    So the first implementation has it; the paper has sqrt(t/f).
    """
    if sample is None:
        return np.ones(len(counts), np.float32)
    ratio = sample * counts.sum() / counts
    return np.minimum(1.0, np.sqrt(ratio) + ratio).astype(np.float32)


def noise_tables(counts: Counts, power: float) -> tuple[Float[np.ndarray, "vocab"], Int[np.ndarray, "vocab"]]:
    """Return alias tables to sample words in proportion to count ** power in constant time (Walker 1977, Vose 1991).

    Place i stands for word i with probability chance[i] and for alias[i] otherwise.
    """
    weights = counts.astype(np.float64) ** power
    share = weights / weights.sum() * len(counts)
    chance, alias = np.ones(len(counts)), np.arange(len(counts), dtype=np.int32)
    low, high = (list(np.flatnonzero(which)) for which in (share < 1, share >= 1))
    while low and high:
        poor, rich = low.pop(), high[-1]
        chance[poor], alias[poor] = share[poor], rich
        share[rich] -= 1 - share[poor]
        if share[rich] < 1:
            low.append(high.pop())
    return chance.astype(np.float32), alias


def build_huffman_tree(counts: Counts) -> Tree:
    """Return the Huffman tree of the words, in which frequent words have short paths."""
    size = len(counts)
    heap = [(int(count), leaf) for leaf, count in enumerate(counts)]
    heapq.heapify(heap)
    parent, turned = np.zeros(2 * size - 1, np.int64), np.zeros(2 * size - 1, np.uint8)
    for node in range(size, 2 * size - 1):
        (left_count, left_node), (right_count, right_node) = heapq.heappop(heap), heapq.heappop(heap)
        parent[left_node] = parent[right_node] = node
        turned[right_node] = 1
        heapq.heappush(heap, (left_count + right_count, node))
    depth = np.zeros(2 * size - 1, np.int64)
    for node in range(2 * size - 3, -1, -1):
        depth[node] = depth[parent[node]] + 1
    start = np.concatenate([[0], np.cumsum(depth[:size])])
    nodes, turns = np.zeros(start[-1], np.int32), np.zeros(start[-1], np.uint8)
    here, places = np.arange(size), start[1:] - 1
    while len(here):  # all words climb to the root together
        nodes[places], turns[places] = 2 * size - 2 - parent[here], turned[here]
        here, places = parent[here], places - 1
        below = here != 2 * size - 2
        here, places = here[below], places[below]
    return Tree(start, nodes, turns)
