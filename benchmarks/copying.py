"""What copying costs: sentences a second through `translate`, with copy=all as shipped and with copy=none beside it.

    python -m benchmarks.copying FOLDER [--device cuda] [--lines 3000] [--rounds 3]

Every .txt file in the folder is a kind of text, one sentence a line. All sentences of a file are translated in one
call, with and without copying by turns; figures are medians over the rounds after a first one that warms up, and so
is the ratio of the two calls of a round, which a busy machine disturbs alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import regard


def main() -> None:
    """Time every file both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--to", default="fr")
    parser.add_argument("--lines", type=int, default=3000, help="most lines of a file")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # text that the model does not know is told of in every call
    translator = regard.load(device=arguments.device)
    translator.warm_up()
    for path in sorted(arguments.folder.glob("*.txt")):
        lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()][: arguments.lines]
        rates = measure_rates(translator, lines, arguments.to, arguments.rounds)
        every, none = (statistics.median(rates[copy]) for copy in ("all", "none"))
        ratios = [with_copying / without for with_copying, without in zip(*rates.values(), strict=True)]
        print(
            f"{path.stem}: {len(lines):,} sentences, {every:,.1f} a second, copy=none {none:,.1f}, ratio "
            f"{statistics.median(ratios):.2f} (rounds {' '.join(f'{ratio:.2f}' for ratio in ratios)})",
            flush=True,
        )


def measure_rates(translator: Any, lines: Sequence[str], to: str, rounds: int) -> dict[str, list[float]]:
    """Return sentences a second of each round, by what is copied."""
    rates: dict[str, list[float]] = {"all": [], "none": []}
    for turn in range(rounds + 1):
        for copy, measured in rates.items():
            began = time.perf_counter()
            translator.translate(lines, to=to, copy=copy)
            if turn:
                measured.append(len(lines) / (time.perf_counter() - began))
    return rates


if __name__ == "__main__":
    main()
