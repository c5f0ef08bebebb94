"""How many requests `regard serve` answers, and how soon, beside other servers with the same weights.

    pip install '.[bench]'
    python -m benchmarks.serve [--parliament FILE] [--out serve.json]
    python -m benchmarks.serve --quick                 a short look, whose figures say little
    python -m benchmarks.serve --libretranslate PYTHON

The servers run in turn on one core with one thread, `locust` on another. Half of the sentences are everyday ones, half
come from FILE, such as debates of a parliament, one in each line or in the first column of a .tsv (.gz too); without it
all are everyday ones. A timed run counts after a fifth of its time; figures are medians over the rounds.
LibreTranslate wants other versions of what Regard needs, such as NumPy 1, so it has an environment of its own, with

    pip install libretranslate torch tokenizers safetensors jaxtyping typer sacrebleu pillow 'numpy<2'

and PYTHON is its interpreter. It answers with the same weights (`benchmarks.serve_libretranslate`), as its own models
would be fetched when it starts.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.serve_cases import (
    Request,
    RunningServer,
    mix_lengths,
    mix_sentences,
    run_clients,
    run_server,
    split_cores,
    time_directly,
    time_stream,
    translation_request,
)

BEAMS = (1, 4)
MANY, SOME = 64, 32  # clients
REGARD = ["-m", "regard", "serve", "en-fr", "stories"]
PEERS = {
    "CTranslate2 float32": ["-m", "benchmarks.serve_peers", "ctranslate2"],
    "CTranslate2 int8": ["-m", "benchmarks.serve_peers", "ctranslate2", "--precision", "int8"],
    "LitServe": ["-m", "benchmarks.serve_peers", "litserve"],
}
LIBRETRANSLATE = "LibreTranslate over our weights"
LIBRETRANSLATE_SERVER = ["-m", "benchmarks.serve_libretranslate", "--beams"]  # which is no part of its requests
WHOLE_BATCHES = ["-m", "benchmarks.serve_peers", "batches"]
STREAMS = 5
STORY = Request(
    "/v1/completions",
    {"model": "stories", "prompt": "Once upon a time", "max_tokens": 20, "temperature": 0, "stream": True},
)
SENTENCE = "The old man who lives near the river told us that his dog had eaten all the bread."
STREAMED = {
    "story": STORY,
    **{
        f"translation, {'greedy' if beams == 1 else f'beam {beams}'}": Request(
            "/v1/completions", {"model": "en-fr:fr", "prompt": SENTENCE, "beams": beams, "stream": True}
        )
        for beams in BEAMS
    },
}


@dataclass(frozen=True)
class Plan:
    """What is sent, for how long, and from where."""

    texts: Sequence[str]
    mixed: Sequence[tuple[str, str]]
    alone: int
    """Sentences that one client sends, one after the other."""
    seconds: float
    """Of a run with many clients."""
    cores: tuple[int, int]
    folder: Path

    def send_many(
        self, server: RunningServer, beams: int, *, is_peer: bool, probe: str | None = None
    ) -> dict[str, Any]:
        """Send sentences with 64 clients."""
        requests = [translation_request(text, beams, is_peer=is_peer) for text in self.texts]
        return self._run(server, requests, clients=MANY, seconds=self.seconds, probe=probe)

    def send_alone(self, server: RunningServer, beams: int) -> dict[str, Any]:
        """Send sentences one at a time."""
        requests = [translation_request(text, beams, is_peer=False) for text in self.texts[: self.alone]]
        return self._run(server, requests, clients=1)

    def send_mixed(self, server: RunningServer, beams: int, *, is_peer: bool) -> dict[str, Any]:
        """Send nine short sentences to a long one with 32 clients."""
        requests = [translation_request(text, beams, is_peer=is_peer, name=kind) for kind, text in self.mixed]
        return self._run(server, requests, clients=SOME, seconds=self.seconds)

    def _run(self, server: RunningServer, requests: Sequence[Request], **settings: Any) -> dict[str, Any]:
        return run_clients(server, requests, core=self.cores[1], folder=self.folder, **settings)


def main() -> None:
    """Measure all rounds, write the figures as JSON, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parliament", type=Path, metavar="FILE")
    parser.add_argument("--libretranslate", metavar="PYTHON", help="of an environment with LibreTranslate")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=15.0, help="of a run with many clients")
    parser.add_argument("--alone", type=int, default=64, help="sentences of a run with one client")
    parser.add_argument("--quick", action="store_true", help="one round of short runs")
    parser.add_argument("--out", type=Path, default=Path("serve.json"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds, arguments.alone = 1, 6.0, 12
    if arguments.parliament is None:
        print("no --parliament FILE: all sentences are everyday ones", flush=True)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(
            mix_sentences(arguments.parliament),
            mix_lengths(make_token_counter()),
            arguments.alone,
            arguments.seconds,
            split_cores(),
            Path(folder),
        )
        rounds = [measure_round(plan, arguments.libretranslate) for _ in range(arguments.rounds)]
    machine = {
        "processor": read_processor(),
        "python": platform.python_version(),
        "parliament": bool(arguments.parliament),
    }
    result = {**machine, "seconds": time.perf_counter() - began, "rounds": rounds}
    rows = [asdict(row) for row in make_rows(rounds)]
    arguments.out.write_text(json.dumps({**result, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(write_tables(rounds), flush=True)
    print(f"{result['seconds'] / 60:.1f} minutes; {arguments.out}")


def make_token_counter() -> Callable[[str], int]:
    """Return a function that counts the tokens of a text as the translator in the box reads it."""
    import regard

    translator: Any = regard.load("en-fr", device="cpu")
    return lambda text: len(translator.encode(text, "fr"))


def measure_round(plan: Plan, libretranslate: str | None = None) -> dict[str, Any]:
    """Measure every server once; LibreTranslate if there is an interpreter that has it."""
    core, folder = plan.cores[0], plan.folder
    with run_server(REGARD, core) as server:
        report("regard serve", {"ready": server.seconds_to_ready})
        ours: dict[str, Any] = {"seconds_to_ready": server.seconds_to_ready}
        direct = {}
        for beams in BEAMS:
            name = str(beams)
            direct[name] = time_directly(plan.texts[: plan.alone], beams, core, folder)
            ours.setdefault("alone", {})[name] = plan.send_alone(server, beams)
            ours.setdefault("many", {})[name] = plan.send_many(server, beams, is_peer=False, probe="/livez")
            ours.setdefault("mixed", {})[name] = plan.send_mixed(server, beams, is_peer=False)
            report(f"regard serve, {name_search(beams)}", ours["many"][name])
        ours["streams"] = {
            name: [time_stream(server, request) for _ in range(STREAMS)] for name, request in STREAMED.items()
        }
    peers = {}
    for name, command in PEERS.items():
        with run_server(command, core) as server:
            peers[name] = {str(beams): plan.send_many(server, beams, is_peer=True) for beams in BEAMS}
            report(name, peers[name]["1"])
    if libretranslate is not None:
        peers[LIBRETRANSLATE] = {str(beams): send_to_libretranslate(plan, libretranslate, beams) for beams in BEAMS}
        report(LIBRETRANSLATE, peers[LIBRETRANSLATE]["1"])
    with run_server(WHOLE_BATCHES, core) as server:
        batches = {str(beams): plan.send_mixed(server, beams, is_peer=True) for beams in BEAMS}
        report("whole batches", batches["1"])
    return {"regard": ours, "direct": direct, "peers": peers, "batches": batches}


def send_to_libretranslate(plan: Plan, python: str, beams: int) -> dict[str, Any]:
    """Measure LibreTranslate with a search of this width."""
    with run_server([*LIBRETRANSLATE_SERVER, str(beams)], plan.cores[0], python=python) as server:
        return plan.send_many(server, beams, is_peer=True)


def report(name: str, figures: Mapping[str, Any]) -> None:
    """Print some figures while the benchmark runs."""
    numbers = [f"{key} {value:.1f}" for key, value in figures.items() if isinstance(value, (int, float))]
    print(f"{name}: {', '.join(numbers)}", flush=True)


# What it comes to.


@dataclass(frozen=True)
class Row:
    """A figure beside its bar; `is_met` is None where there is none."""

    subject: str
    figure: str
    bar: str
    is_met: bool | None


def make_rows(rounds: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return all figures that have a bar."""
    rows = [row for beams in BEAMS for row in compare_throughput(rounds, beams)]
    rows += [compare_short(rounds, beams) for beams in BEAMS]
    rows += [compare_one_client(rounds, beams) for beams in BEAMS]
    rows += [compare_streams(rounds, name) for name in STREAMED]
    slowest = max(one["regard"]["many"][str(beams)]["probe"]["max_ms"] for one in rounds for beams in BEAMS)
    ready = middle(rounds, lambda one: one["regard"]["seconds_to_ready"])
    rows.append(Row("`/livez` under full load, the slowest", f"{slowest:.0f} ms", "100 ms", slowest <= 100))
    rows.append(Row("start to ready", f"{ready:.1f} s", "6 s", ready <= 6))
    return rows


def compare_throughput(rounds: Sequence[Mapping[str, Any]], beams: int) -> list[Row]:
    """Compare 64 clients with one at a time and with CTranslate2."""
    name, search = str(beams), name_search(beams)
    gain = middle(rounds, lambda one: rate(one["regard"]["many"][name]) / rate(one["regard"]["alone"][name]))
    peer = [one["peers"]["CTranslate2 float32"][name] for one in rounds]
    ratio = statistics.median(
        rate(one["regard"]["many"][name]) / rate(other) for one, other in zip(rounds, peer, strict=True)
    )
    p99 = statistics.median(
        one["regard"]["many"][name]["p99_ms"] / other["p99_ms"] for one, other in zip(rounds, peer, strict=True)
    )
    least = 1.3 if beams == 1 else 1.0
    return [
        Row(f"64 clients against one at a time, {search}", f"{gain:.1f}x", "3x", gain >= 3),
        Row(f"64 clients against CTranslate2 float32, {search}", f"{ratio:.2f}x", f"{least:g}x", ratio >= least),
        Row(f"their p99 against its, {search}", f"{p99:.2f}", "no higher", p99 <= 1),
    ]


def compare_short(rounds: Sequence[Mapping[str, Any]], beams: int) -> Row:
    """Compare the short sentences beside long ones with whole batches."""
    name = str(beams)
    share = middle(
        rounds,
        lambda one: (
            one["regard"]["mixed"][name]["median_ms_by_kind"]["short"]
            / one["batches"][name]["median_ms_by_kind"]["short"]
        ),
    )
    subject = f"9 short to 1 long, 32 clients: median of the short against whole batches, {name_search(beams)}"
    return Row(subject, f"{share:.2f}", "at most 0.8", share <= 0.8)


def compare_one_client(rounds: Sequence[Mapping[str, Any]], beams: int) -> Row:
    """Compare the median of one client with that of `translate` on the same sentences."""
    name = str(beams)
    ours = middle(rounds, lambda one: one["regard"]["alone"][name]["median_ms"])
    direct = middle(rounds, lambda one: statistics.median(one["direct"][name]))
    figure = f"{ours:.0f} ms against {direct:.0f} ms"
    return Row(
        f"one client against `translate`, {name_search(beams)}", figure, "+ 10 % + 5 ms", ours <= 1.1 * direct + 5
    )


def compare_streams(rounds: Sequence[Mapping[str, Any]], name: str) -> Row:
    """Compare the time until the first piece of a stream with the whole time."""
    runs = [run for one in rounds for run in one["regard"]["streams"][name]]
    share = statistics.median(run["first_ms"] / run["whole_ms"] for run in runs)
    return Row(f"first streamed piece of the whole time, {name}", f"{share:.2f}", "at most 0.5", share <= 0.5)


def middle(rounds: Sequence[Mapping[str, Any]], figure: Callable[[Mapping[str, Any]], float]) -> float:
    """Return the median of a figure over the rounds."""
    return statistics.median(figure(one) for one in rounds)


def rate(figures: Mapping[str, Any]) -> float:
    """Return the sentences a second of a run."""
    value: float = figures["per_second"]
    return value


def name_search(beams: int) -> str:
    """Return how a search with so many beams is called."""
    return "greedy" if beams == 1 else f"beam {beams}"


def write_tables(rounds: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures as tables of Markdown."""
    lines = ["| | measured | bar | |", "| --- | --- | --- | --- |"]
    marks = {True: "met", False: "missed", None: ""}
    lines += [f"| {row.subject} | {row.figure} | {row.bar} | {marks[row.is_met]} |" for row in make_rows(rounds)]
    lines += ["", "| 64 clients | sentences/s | CPU ms a sentence | median ms | p99 ms | failed |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for beams in BEAMS:
        name = str(beams)
        runs = {"`regard serve`": [one["regard"]["many"][name] for one in rounds]}
        runs |= {peer: [one["peers"][peer][name] for one in rounds] for peer in rounds[0]["peers"]}
        runs["`regard serve`, one client"] = [one["regard"]["alone"][name] for one in rounds]
        for server, results in runs.items():
            figures = [
                statistics.median(result[key] for result in results)
                for key in ("per_second", "cpu_ms", "median_ms", "p99_ms")
            ]
            cells = " | ".join(f"{figure:.1f}" if figure < 100 else f"{figure:,.0f}" for figure in figures)
            failed = sum(result["failed"] for result in results)
            lines.append(f"| {server}, {name_search(beams)} | {cells} | {failed} |")
    return "\n".join(lines)


def read_processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
