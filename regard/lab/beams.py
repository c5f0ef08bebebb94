"""Greedy search against beams: a small tree of words, and how often each misses the likeliest text of random chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.beam import Beam, search
from regard.lab.demonstration import Chart, Demonstration, LabelledMatrix, Measurement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TREE = {
    "The": {"big": 0.5, "dog": 0.4, "old": 0.1},
    "big": {"dog": 0.4, "cat": 0.3, "house": 0.3},
    "dog": {"barks": 0.9, "sleeps": 0.1},
    "old": {"man": 0.7, "house": 0.3},
}
"""What may follow each word, with its probability."""
ROOT, DEPTH = "The", 2  # words after the first
BEAMS = (1, 2, 4, 8)
CHAINS, VOCABULARY, LENGTH = 200, 8, 8  # random chains of which the likeliest text is searched
SHARPNESS = 2.0  # of their probabilities
EXACT = 1e-4  # by which the likelihoods of equal texts may differ
GREEDY_COLOUR, BEAM_COLOUR, PLAIN_COLOUR = "#D55E00", "#0072B2", "#999999"


@dataclass(frozen=True)
class ChainState:
    """The decoding state: the chain that each example follows."""

    example: Int[Tensor, "batch"]

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> ChainState:
        """Return the state unchanged, because all beams of an example follow the same chain."""
        return self

    def keep(self, rows: Int[Tensor, "kept"]) -> ChainState:
        """Return the state of these examples only."""
        return ChainState(self.example[rows])

    def join(self, other: ChainState) -> ChainState:
        """Return the states of both, concatenated."""
        return ChainState(torch.cat([self.example, other.example]))


class Chains:
    """Markov chains as a model to decode: the next token depends on the last one alone."""

    def __init__(self, first: Float[Tensor, "chain vocab"], following: Float[Tensor, "chain vocab vocab"]):
        self.first, self.following = first, following  # log-probabilities

    def start(
        self, *inputs: Int[Tensor, "batch"], beams: int, limit: int
    ) -> tuple[Float[Tensor, "batch beam vocab"], ChainState]:
        """Return the log-probabilities of the first token, and the state."""
        (example,) = inputs
        return self.first[example][:, None].expand(-1, beams, -1), ChainState(example)

    def step(
        self, tokens: Int[Tensor, "batch beam"], state: ChainState
    ) -> tuple[Float[Tensor, "batch beam vocab"], ChainState]:
        """Return the log-probabilities of the token after these."""
        return self.following[state.example[:, None], tokens], state

    def best_scores(self, length: int) -> Float[Tensor, "chain"]:
        """Return the log-probability of the likeliest text of each chain, by dynamic programming (Viterbi 1967)."""
        scores = self.first
        for _ in range(length - 1):
            scores = (scores[:, :, None] + self.following).amax(1)
        return scores.amax(1)

    def search_scores(self, beams: int, length: int) -> Float[Tensor, "chain"]:
        """Return the log-probability of the text that beam search finds."""
        examples = torch.arange(len(self.first))
        answers = search(self, [examples], Beam(beams=beams), limit=length, eos=None)
        return torch.tensor([hypotheses[0].score for hypotheses in answers])


def random_chains(*, dependent: bool, seed: int = 0) -> Chains:
    """Draw random Markov chains; without `dependent`, the next token does not depend on the last one."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(CHAINS, VOCABULARY, generator=generator).mul(SHARPNESS).log_softmax(-1)
    following = torch.randn(CHAINS, VOCABULARY, VOCABULARY, generator=generator).mul(SHARPNESS).log_softmax(-1)
    return Chains(first, following if dependent else following[:, :1].expand(-1, VOCABULARY, -1))


def count_misses(chains: Chains, beams: int) -> float:
    """Return the percentage of chains in which beam search misses the most probable sequence."""
    gaps = chains.best_scores(LENGTH) - chains.search_scores(beams, LENGTH)
    return 100 * float((gaps > EXACT).float().mean())


def search_tree(beams: int) -> tuple[list[str], float]:
    """Search the tree of words; return the words after the first, and their probability."""
    words = sorted({ROOT, *TREE, *(word for followers in TREE.values() for word in followers)})
    following = torch.full((1, len(words), len(words)), -torch.inf)
    for word, followers in TREE.items():
        for next_word, probability in followers.items():
            following[0, words.index(word), words.index(next_word)] = torch.tensor(probability).log()
    chain = Chains(following[:, words.index(ROOT)], following)
    [[answer]] = search(chain, [torch.zeros(1, dtype=torch.int64)], Beam(beams=beams), limit=DEPTH, eos=None)
    return [words[token] for token in answer.tokens], float(torch.tensor(answer.score).exp())


def compare_searches(*, seed: int = 0) -> Demonstration:
    """Compare greedy search with beams on the tree and on random chains."""
    greedy, beam = (search_tree(beams) for beams in (1, 2))
    table = LabelledMatrix(
        "The tree",
        [f"greedy: {ROOT} {' '.join(greedy[0])}", f"2 beams: {ROOT} {' '.join(beam[0])}"],
        ["probability"],
        [[greedy[1]], [beam[1]]],
    )
    curves = {
        name: [count_misses(random_chains(dependent=dependent, seed=seed), beams) for beams in BEAMS]
        for name, dependent in (("each word depends on the last", True), ("words are independent", False))
    }
    chart = Chart("Likeliest texts missed, of 100", "beams", "missed of 100", BEAMS, curves, digits=1)
    chained, independent = curves.values()
    measurement = Measurement(
        "likeliest texts that greedy search misses, of 100",
        "each word depends on the last",
        chained[0],
        "words are independent",
        independent[0],
    )
    return Demonstration("Greedy search and beams", [measurement], charts=[chart], tables=[table])


def draw_search(demonstration: Demonstration) -> Figure:
    """Draw the tree with both paths, and the texts that are missed by the number of beams."""
    from matplotlib.figure import Figure

    from regard.lab.drawing import plot_chart

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    tree, chart = figure.subplots(1, 2, width_ratios=(1.5, 1))
    greedy, beam = (search_tree(beams)[0] for beams in (1, 2))
    leaves = [(first, second) for first in TREE[ROOT] for second in TREE[first]]
    heights = {leaf: float(len(leaves) - 1 - number) for number, leaf in enumerate(leaves)}
    for first, probability in TREE[ROOT].items():
        below = [height for leaf, height in heights.items() if leaf[0] == first]
        middle, root = sum(below) / len(below), (len(leaves) - 1) / 2
        colour = GREEDY_COLOUR if first == greedy[0] else BEAM_COLOUR if first == beam[0] else PLAIN_COLOUR
        tree.plot([0, 1], [root, middle], color=colour, linewidth=1 + 3 * probability)
        tree.text(0.5, (root + middle) / 2, f"{probability:g}", ha="center", va="bottom", fontsize=9)
        tree.text(1, middle, first, ha="center", va="center", bbox={"facecolor": "white", "edgecolor": colour})
        for second, after in TREE[first].items():
            path = [first, second]
            colour = GREEDY_COLOUR if path == greedy else BEAM_COLOUR if path == beam else PLAIN_COLOUR
            height = heights[first, second]
            tree.plot([1, 2], [middle, height], color=colour, linewidth=1 + 3 * after, zorder=0)
            tree.text(1.55, middle + 0.55 * (height - middle), f"{after:g}", ha="center", va="bottom", fontsize=9)
            tree.text(2.05, height, f"{second}  {probability * after:.2f}", va="center", color=colour)
    tree.text(0, (len(leaves) - 1) / 2, ROOT, ha="center", va="center", bbox={"facecolor": "white"})
    tree.set_xlim(-0.2, 2.7)
    tree.set_axis_off()
    tree.set_title("greedy: orange; two beams: blue", fontsize=10)
    plot_chart(chart, demonstration.charts[0])
    return figure
