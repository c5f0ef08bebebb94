"""Tokens a second of requests that come and go, beside those of whole batches: the engine of the server, in process.

    python -m benchmarks.in_flight --device cuda
    python -m benchmarks.in_flight --size small --seconds 1

A Transformer of base size with random weights, sources of 28 tokens. 64 requests are in flight: as soon as some are
finished, as many others take their places. Answers have 10 to 50 tokens, 30 on average, so that they end at different
times; the batches, 64 sentences each, all have 30. The two run by turns, and medians of the rounds are reported.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections import deque
from pathlib import Path
from typing import Any

import torch

from benchmarks.generate import BOS, SIZES, Regard, build, sentences
from regard.decoding.beam import Beam
from regard.decoding.engine import Engine, Request
from regard.models.inference.cuda import FusedDecoder

IN_FLIGHT, LENGTH, SOURCE = 64, 30, 28
SHORTEST, LONGEST = 10, 50  # tokens of an answer in flight


def main() -> None:
    """Measure greedy search and beam 4."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base", choices=list(SIZES))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each way and number of beams, about")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)
    model: Any = build(arguments.size).to(arguments.device)
    if arguments.device == "cuda":
        model = FusedDecoder(model, torch.float16)
    results = [compare(model, beams, arguments) for beams in (1, 4)]
    if arguments.out is not None:
        machine = torch.cuda.get_device_name() if arguments.device == "cuda" else "cpu"
        record = {"machine": machine, "torch": torch.__version__, "size": arguments.size, "results": results}
        arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def compare(model: Any, beams: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Time both ways in turns and print their tokens a second."""
    vocabulary = SIZES[arguments.size]["vocab"]
    sources = sentences(vocabulary, IN_FLIGHT, SOURCE)
    whole = Regard(model, arguments.device)
    engine = Engine(model, eos=None, longest=LONGEST, source=SOURCE, device=torch.device(arguments.device))
    seconds = arguments.seconds / arguments.rounds
    rates: dict[str, list[float]] = {"in batches": [], "in flight": []}
    answer_batches(whole, sources, beams, seconds)  # compiles and records
    keep_in_flight(engine, sources, beams, seconds)
    for _ in range(arguments.rounds):
        rates["in batches"].append(answer_batches(whole, sources, beams, seconds))
        rates["in flight"].append(keep_in_flight(engine, sources, beams, seconds))
    batches, flight = (statistics.median(each) for each in rates.values())
    share = statistics.median(b / a for a, b in zip(*rates.values(), strict=True))
    print(f"beams {beams}: {batches:,.0f} tokens/s in batches, {flight:,.0f} in flight, {share:.0%}", flush=True)
    return {"beams": beams, "in_batches": batches, "in_flight": flight, "share": share}


def answer_batches(whole: Regard, sources: list[list[int]], beams: int, seconds: float) -> float:
    """Answer one batch after the other for so long, and return tokens a second."""
    began, count = time.perf_counter(), 0
    while not count or time.perf_counter() - began < seconds:
        answers = whole(sources, beams=beams, length=LENGTH)
        count += sum(len(answer.tokens) for answer in answers)
    return count / (time.perf_counter() - began)


def keep_in_flight(engine: Engine, sources: list[list[int]], beams: int, seconds: float) -> float:
    """Replace finished requests for so long, and return tokens a second of those that were finished."""
    chance = random.Random(0)
    waiting: deque[list[int]] = deque()
    began, count, flying = time.perf_counter(), 0, 0
    while time.perf_counter() - began < seconds or not count:
        if not waiting:
            waiting.extend(sources)
        new = [waiting.popleft() for _ in range(min(IN_FLIGHT - flying, len(waiting)))]
        engine.submit([make_request(source, chance.randint(SHORTEST, LONGEST), beams) for source in new])
        flying += len(new)
        engine.step()
        for hypotheses in engine.collect().values():
            assert isinstance(hypotheses, list)
            count += len(hypotheses[0].tokens)
            flying -= 1
    rate = count / (time.perf_counter() - began)
    while engine.busy:
        engine.step()
    engine.collect()
    return rate


def make_request(source: list[int], length: int, beams: int) -> Request:
    """Return a request for an answer of exactly so many tokens."""
    inputs = (torch.tensor(source), torch.tensor(len(source)), torch.tensor([BOS]))
    return Request(inputs=inputs, limit=length, how=Beam(beams=beams))


if __name__ == "__main__":
    main()
