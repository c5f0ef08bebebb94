"""What a layer costs: operations, steps that must wait, paths, memory and parameters, computed and then measured.

Operations are floating-point operations of matrix products, two for each multiply-add, as profilers count them.
With n positions of width d, kernel k and window r:

    layer            complexity   operations   steps in turn   path      attention weights
    self-attention   O(n^2 d)     4 n m d      1               1         n m   (m keys, usually n)
    recurrent        O(n d^2)     4 n d^2      n               n         none
    convolution      O(k n d^2)   2 k n d^2    1               log_k n   none  (dilated stack)
    windowed         O(r n d)     4 r n d      1               n / r     n r

(Vaswani et al. 2017, table 1.) Attention is counted without its projections, which are the same 8 n d^2 in both rows.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import attend
from regard.attention.masks import allow
from regard.lab.demonstration import Measurement

STEADY = 0.1  # by which rounds may differ for their times to show how a layer's grow
COLOURS = {  # told apart by colour-blind readers (Okabe and Ito)
    "self-attention": "#D55E00",
    "recurrent": "#0072B2",
    "convolution": "#009E73",
    "windowed": "#CC79A7",
}
MARKS = {"self-attention": "o", "recurrent": "s", "convolution": "^", "windowed": "D"}


@dataclass(frozen=True)
class Layer:
    """One row of the complexity table for given sizes."""

    name: str
    complexity: str
    operations: int
    steps: int
    """Steps that have to wait for one another."""
    path: int
    """Layers, or steps of a recurrent one, until a position has been reached by n positions."""
    weights: int
    """Attention weights of one head, where there is attention."""
    parameters: int
    """Learned numbers, projections of attention not counted."""


def table(length: int, width: int, *, kernel: int = 3, window: int = 65, keys: int | None = None) -> list[Layer]:
    """The complexity table for sequences of this length; `keys` differs from it in cross-attention."""
    for name, value, least in (
        ("length", length, 1),
        ("width", width, 1),
        ("kernel", kernel, 2),
        ("window", window, 2),
    ):
        if value < least:
            raise ValueError(f"{name} is {value}: choose {least} or more")
    keys = length if keys is None else keys
    visible_keys = min(window, keys)
    pair = 4 * width  # a score and a share of the mean, each a product of two vectors
    return [
        Layer("self-attention", "O(n² d)", pair * length * keys, 1, 1, length * keys, 0),
        Layer("recurrent", "O(n d²)", 4 * length * width**2, length, length, 0, 2 * width**2),
        Layer(
            "convolution",
            "O(k n d²)",
            2 * kernel * length * width**2,
            1,
            ceil_logarithm(length, kernel),
            0,
            kernel * width**2,
        ),
        Layer(
            "windowed",
            "O(r n d)",
            pair * length * visible_keys,
            1,
            max(1, -(-(length - 1) // (window - 1))),
            length * visible_keys,
            0,
        ),
    ]


def measure_growth(length: int, width: int, *, window: int = 65) -> Measurement:
    """Compare how the operations of self-attention and of a recurrent layer grow when the length doubles."""
    short, long = table(length, width, window=window), table(2 * length, width, window=window)
    factors = {layer.name: other.operations / layer.operations for layer, other in zip(short, long, strict=True)}
    quantity = f"times the operations at {2 * length:,} positions of those at {length:,}"
    return Measurement(quantity, "self-attention", factors["self-attention"], "recurrent", factors["recurrent"])


def ceil_logarithm(length: int, factor: int) -> int:
    """Return the logarithm of the length to the base `factor`, rounded up, at least 1."""
    count, reached = 1, factor
    while reached < length:
        count, reached = count + 1, reached * factor
    return count


def image_pairs(height: int, width: int, *, patch: int = 1) -> int:
    """Return the number of pairs of patches in self-attention over an image."""
    return ((height // patch) * (width // patch)) ** 2


@dataclass(frozen=True)
class Timing:
    """One layer run at several lengths on this machine."""

    name: str
    lengths: tuple[int, ...]
    operations: tuple[int, ...]
    seconds: tuple[float, ...]
    spreads: tuple[float, ...] = ()
    """By how much the second-best round took longer than the best, as a share of it, at each length."""

    @property
    def exponent(self) -> float | None:
        """Return the exponent p of the power law n^p fitted to the times at the longer lengths, without fixed costs.

        None where rounds differ too much there: a slope through noise says nothing.
        """
        longer = self._longer
        if any(spread > STEADY for spread in self.spreads[-longer:]):
            return None
        return growth(self.lengths[-longer:], self.seconds[-longer:])

    @property
    def noise(self) -> float:
        """Return the largest relative difference between rounds at the longer lengths."""
        return max(self.spreads[-self._longer :], default=0.0)

    @property
    def _longer(self) -> int:
        return max(2, len(self.lengths) // 2 + 1)


def growth(lengths: Sequence[int] | Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of the power law through the points, by least squares on their logarithms."""
    x, y = ([math.log(value) for value in series] for series in (lengths, values))
    middle, level = sum(x) / len(x), sum(y) / len(y)
    return sum((a - middle) * (b - level) for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


@torch.no_grad()
def measure(
    lengths: Sequence[int] = (512, 1024, 2048, 4096, 8192),
    *,
    width: int = 64,
    kernel: int = 3,
    window: int = 65,
    repeats: int = 5,
    rounds: int = 3,
    device: str = "cpu",
) -> list[Timing]:
    """Time the four layers at each length in several rounds; the best counts, because noise only ever adds.

    A round times everything once, so that what else the machine does for a while spoils one round and not one layer.
    """
    lengths = sorted(set(lengths))
    if len(lengths) < 2:
        raise ValueError(f"cannot see growth in lengths {lengths}: give two or more")
    counted = [table(length, width, kernel=kernel, window=window) for length in lengths]
    prepared = layers(width, kernel=kernel, window=window, device=device)
    times: dict[tuple[str, int], list[float]] = {(name, length): [] for name in prepared for length in lengths}
    for _ in range(rounds):
        for (name, length), durations in times.items():
            durations.append(best(prepared[name](length), repeats=repeats, device=device))
    timings = []
    for place, name in enumerate(prepared):
        ranked = [sorted(times[name, length]) for length in lengths]
        seconds = tuple(durations[0] for durations in ranked)
        spreads = tuple(durations[min(1, rounds - 1)] / durations[0] - 1 for durations in ranked)
        operations = tuple(rows[place].operations for rows in counted)
        timings.append(Timing(name, tuple(lengths), operations, seconds, spreads))
    return timings


def layers(width: int, *, kernel: int, window: int, device: str) -> dict[str, Callable[[int], Callable[[], Any]]]:
    """Return for each layer of the table a function that prepares a run at a given length."""
    recurrent = nn.RNN(width, width, batch_first=True).to(device)
    convolution = nn.Conv1d(width, width, kernel, padding="same").to(device)

    def of(run: Callable[[Tensor], Any], *shape: int) -> Callable[[], Any]:
        x = torch.randn(*shape, device=device)
        return lambda: run(x)

    return {
        "self-attention": lambda length: of(lambda x: attend(x, x, x), 1, 1, length, width),
        "recurrent": lambda length: of(recurrent, 1, length, width),
        "convolution": lambda length: of(convolution, 1, width, length),
        "windowed": lambda length: of(lambda x: local(x, x, x, reach=max(1, window // 2)), 1, length, width),
    }


def local(
    query: Float[Tensor, "heads place depth"],
    key: Float[Tensor, "heads place depth"],
    value: Float[Tensor, "heads place features"],
    *,
    reach: int,
) -> Float[Tensor, "heads place features"]:
    """Compute attention to keys at most `reach` places away in O(reach n): each block sees itself and its neighbours.

    A window mask gives the same answer, but n^2 scores are computed for it.
    """
    length, blocks = query.shape[-2], -(-query.shape[-2] // reach)
    after = blocks * reach - length

    def with_neighbours(x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, reach, after + reach)).unfold(-2, 3 * reach, reach).mT.transpose(0, 1)

    starts = torch.arange(blocks, device=query.device)[:, None, None] * reach
    queries = starts + torch.arange(reach, device=query.device)[:, None]
    keys = starts + torch.arange(-reach, 2 * reach, device=query.device)
    near = ((keys - queries).abs() <= reach) & (keys >= 0) & (keys < length)  # (block, query, key)
    query_blocks = F.pad(query, (0, 0, 0, after)).unflatten(-2, (blocks, reach)).transpose(0, 1)
    mixed = attend(query_blocks, with_neighbours(key), with_neighbours(value), mask=allow(near))
    return mixed.transpose(0, 1).flatten(1, 2)[:, :length]


def best(run: Callable[[], Any], *, repeats: int, device: str = "cpu") -> float:
    """Return the seconds of the fastest run after a warm-up: processor time, or wall-clock time on a GPU."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    seconds = []
    for _ in range(repeats + 1):
        began = clock()
        run()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        seconds.append(clock() - began)
    return min(seconds[1:])


def plot(timings: Sequence[Timing], path: str | Path) -> None:
    """Plot measured times as points and computed operations as scaled lines; the suffix chooses PNG, SVG or PDF."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for timing in timings:
        colour = COLOURS[timing.name]
        pace = timing.seconds[-1] / timing.operations[-1]
        axes.plot(timing.lengths, [pace * count for count in timing.operations], color=colour, linewidth=1.2)
        power = timing.exponent
        label = f"{timing.name}: " + ("too noisy to tell" if power is None else f"measured n^{power:.2f}")
        axes.plot(timing.lengths, timing.seconds, MARKS[timing.name], color=colour, label=label)
    axes.loglog()
    axes.set_xticks(timings[0].lengths, [str(length) for length in timings[0].lengths])
    axes.minorticks_off()
    axes.set_xlabel("sequence length n")
    axes.set_ylabel("seconds of processor time for one layer")
    axes.set_title("Points measured on this machine, lines computed")
    axes.grid(True, which="major", linewidth=0.4, alpha=0.5)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
