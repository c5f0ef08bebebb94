"""Teacher forcing against free running: a small network that reads the right last answer, or its own.

The network answers from the digit that it reads and the answer before. In one task the answer is the running sum of the
digits, modulo ten, so a wrong answer spoils all that follow; in the other, the control, it depends on the digit alone.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.lab.demonstration import Chart, Demonstration, LabelledMatrix, Measurement

BASE = 10  # digits, and answers
SEEN = 0.9  # of the pairs of answer and digit: on the others a network may err
HIDDEN, STEPS, RATE = 64, 200, 0.01
SEQUENCES, LENGTH = 500, 30
SUM, DIGIT = "running sum", "each digit by itself"


def right_answer(task: str, previous: Int[Tensor, "*n"], digit: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """Return the right answer: the running sum modulo ten, or in the control task the digit plus one."""
    return (previous + digit) % BASE if task == SUM else (digit + 1) % BASE


def train_network(task: str, *, seed: int = 0) -> nn.Module:
    """Train with teacher forcing on most pairs of previous answer and digit."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(2 * BASE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, BASE))
        pairs = torch.cartesian_prod(torch.arange(BASE), torch.arange(BASE))
        pairs = pairs[torch.randperm(len(pairs))[: int(SEEN * len(pairs))]]
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(network(encode(*pairs.unbind(1))), right_answer(task, *pairs.unbind(1))).backward()
        optimizer.step()
    return network


def encode(previous: Int[Tensor, "n"], digit: Int[Tensor, "n"]) -> Float[Tensor, "n inputs"]:
    """Return both numbers one-hot."""
    return torch.cat([F.one_hot(previous, BASE), F.one_hot(digit, BASE)], -1).float()


@torch.no_grad()
def measure_accuracy(network: nn.Module, task: str, *, forced: bool, seed: int = 0) -> list[float]:
    """Return the accuracy at every position, with the right previous answer or the network's own as input."""
    digits = torch.randint(BASE, (SEQUENCES, LENGTH), generator=torch.Generator().manual_seed(seed + 1))
    truth = answer = torch.zeros(SEQUENCES, dtype=torch.int64)
    shares = []
    for digit in digits.unbind(1):
        answer = network(encode(truth if forced else answer, digit)).argmax(-1)
        truth = right_answer(task, truth, digit)
        shares.append(float((answer == truth).float().mean()))
    return shares


def compare_forcing(*, seed: int = 0) -> Demonstration:
    """Compare accuracy by position between teacher forcing and free running."""
    curves = {}
    for task in (SUM, DIGIT):
        network = train_network(task, seed=seed)
        for way, forced in (("teacher forcing", True), ("free running", False)):
            curves[f"{task}, {way}"] = measure_accuracy(network, task, forced=forced, seed=seed)
    positions = list(range(1, LENGTH + 1))
    shown = [0, 1, 4, 9, 19, LENGTH - 1]
    table = LabelledMatrix(
        "Share of right answers by position",
        list(curves),
        [str(positions[place]) for place in shown],
        [[curve[place] for place in shown] for curve in curves.values()],
    )
    chart = Chart("Right answers by position", "position", "share", positions, curves, tabulated=False)
    lost = {
        task: mean(curves[f"{task}, teacher forcing"][-10:]) - mean(curves[f"{task}, free running"][-10:])
        for task in (SUM, DIGIT)
    }
    measurement = Measurement("accuracy lost by free running, last 10 positions", SUM, lost[SUM], DIGIT, lost[DIGIT])
    return Demonstration("Teacher forcing and free running", [measurement], charts=[chart], tables=[table])


def mean(numbers: list[float]) -> float:
    """Return the mean of some numbers."""
    return sum(numbers) / len(numbers)
