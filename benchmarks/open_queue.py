"""What answering requests side by side saves: an open queue of sentences beside the same sentences one by one.

    python -m benchmarks.open_queue [--device cpu] [--sentences 256] [--rounds 3]

The translator in the box, one thread. Up to 64 sentences are in flight, and four more arrive with every step. Short
sentences have five to eight words; in the second case half of them are three short ones in a row. Times are those of
the processor, per sentence; by turns, medians over the rounds; answers of both ways are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

import regard
from benchmarks.translate import sentences
from regard.attention.hardware import device_of
from regard.decoding import Beam, search
from regard.decoding.engine import Engine, Request

IN_FLIGHT, ARRIVING, LIMIT = 64, 4, 200


def main() -> None:
    """Time both ways for short sentences and for short and long ones, greedily and with four beams."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    translator = regard.load("en-fr", device=arguments.device)
    short = [text for text in sentences(2000) if 5 <= len(text.split()) <= 8]
    chosen = short[: arguments.sentences]
    long = [" ".join(short[3 * number : 3 * number + 3]) for number in range(len(chosen) // 2)]
    mixed = [text for pair in zip(short, long, strict=False) for text in pair]
    for name, texts in (("short", chosen), ("half of them long", mixed)):
        for beams in (1, 4):
            compare_ways(translator, name, texts, beams, arguments.rounds)


def compare_ways(translator: Any, name: str, texts: Sequence[str], beams: int, rounds: int) -> None:
    """Print the time of a sentence alone and in the queue, and how many answers are the same."""
    ways: dict[str, Any] = {"alone": answer_alone, "queue": answer_in_queue}
    requests = make_requests(translator, texts, beams)
    model = translator.ready(len(texts))
    times: dict[str, list[float]] = {way: [] for way in ways}
    answers = {way: answer(model, translator, requests[:8]) for way, answer in ways.items()}  # warms up
    for _ in range(rounds):
        for way, answer in ways.items():
            began = time.process_time()
            answers[way] = answer(model, translator, requests)
            times[way].append(1000 * (time.process_time() - began) / len(texts))
    alone, queue = (statistics.median(times[way]) for way in ways)
    ratios = " ".join(f"{a / b:.2f}" for a, b in zip(*times.values(), strict=True))
    same = sum(one == other for one, other in zip(*answers.values(), strict=True))
    print(
        f"{name}, {beams} beam{'s' * (beams > 1)}: {alone:.1f} ms alone, {queue:.1f} ms in the queue, "
        f"1/{alone / queue:.2f} (rounds {ratios}), {same} of {len(texts)} answers the same",
        flush=True,
    )


def make_requests(translator: Any, texts: Sequence[str], beams: int) -> list[Request]:
    """Return the sentences as requests for French."""
    return [
        Request(
            inputs=(torch.tensor(ids), torch.tensor(len(ids)), torch.tensor([translator.begin])),
            limit=min(LIMIT, 2 * len(ids) + 10),
            how=Beam(beams=beams),
        )
        for ids in translator.encode_many(texts, "fr")
    ]


def answer_alone(model: Any, translator: Any, requests: Sequence[Request]) -> list[list[int]]:
    """Search for one answer after the other."""
    answers = []
    for request in requests:
        assert isinstance(request.how, Beam)
        inputs = [each[None].to(device_of(translator.model)) for each in request.inputs]
        [[best, *_]] = search(model, inputs, request.how, limit=request.limit, eos=translator.end)
        answers.append(best.tokens)
    return answers


def answer_in_queue(model: Any, translator: Any, requests: Sequence[Request]) -> list[list[int]]:
    """Submit a few requests before every step, as long as there are any, and collect the answers."""
    engine = Engine(model, eos=translator.end, longest=LIMIT, source=256, device=device_of(translator.model))
    waiting = deque(enumerate(requests))
    numbers: dict[int, int] = {}
    answers: dict[int, list[int]] = {}
    while waiting or engine.busy:
        arriving = min(ARRIVING, len(waiting), IN_FLIGHT - (len(numbers) - len(answers)))
        new = [waiting.popleft() for _ in range(arriving)]
        tickets = engine.submit([request for _, request in new])
        numbers |= {ticket: number for ticket, (number, _) in zip(tickets, new, strict=True)}
        engine.step()
        for ticket, hypotheses in engine.collect().items():
            assert isinstance(hypotheses, list)
            answers[numbers[ticket]] = hypotheses[0].tokens
    return [answers[number] for number in range(len(requests))]


if __name__ == "__main__":
    main()
