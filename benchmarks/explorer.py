"""How fast the explorer is, in Chromium, from files and from a real `regard serve`, beside the model view of bertviz.

    pip install '.[bench]'
    python -m benchmarks.explorer [--out explorer.json]
    python -m benchmarks.explorer --quick              a short look, whose figures say little

The server is a process of its own with all cores, with the models in the box and a BERT of 12 layers of 12 heads that
was trained for one step. Times are those of the page's own clock, from an event to the frame after the one that shows
what it changed; every opening is in a window that has seen nothing before. Medians unless said otherwise. Without
bertviz (and npm, which has the scripts that its page fetches) that row says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.explorer_bertviz import measure_bertviz
from benchmarks.explorer_cases import (
    make_searched_trace,
    make_trace,
    measure_traffic,
    run_browser,
    train_model,
    write_gap,
)
from benchmarks.explorer_screens import (
    address,
    measure_explaining,
    measure_file,
    measure_file_heads,
    measure_large,
    measure_memory,
    measure_moves,
    measure_opening,
    measure_served_heads,
    measure_tree,
)
from benchmarks.serve import Row, read_processor, report
from benchmarks.serve_cases import run_server
from regard.interpret.draw import page

SERVED = ["en-fr", "encoder", "stories"]


@dataclass(frozen=True)
class Plan:
    """How often everything is measured."""

    openings: int = 5
    moves: int = 50
    explanations: int = 20
    sentences: tuple[int, int] = (20, 200)


QUICK = Plan(openings=2, moves=8, explanations=5, sentences=(5, 15))


def main() -> None:
    """Measure all, write the figures as JSON, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repetitions, few sentences, and no bertviz")
    parser.add_argument("--out", type=Path, default=Path("explorer.json"))
    arguments = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, run_browser() as browser:
        figures = measure(browser, Path(folder), QUICK if arguments.quick else Plan(), is_quick=arguments.quick)
        chromium = browser.version
    rows = make_rows(figures)
    machine = {"processor": read_processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    seconds = time.perf_counter() - began
    result = {**machine, "chromium": chromium, "quick": arguments.quick, "seconds": seconds, "figures": figures}
    lines = json.dumps({**result, "rows": [asdict(row) for row in rows]}, indent=1)
    arguments.out.write_text(f"{lines}\n", encoding="utf-8")
    print(write_table(rows), flush=True)
    print(f"{seconds / 60:.1f} minutes; {arguments.out}")


def measure(browser: Any, folder: Path, plan: Plan, *, is_quick: bool) -> dict[str, Any]:
    """Return all figures by what they are of."""
    traces = {tokens: make_trace(tokens) for tokens in (128, 512)}
    files = {str(tokens): folder / f"{tokens}.html" for tokens in traces} | {"tree": folder / "tree.html"}
    searched = make_searched_trace(60)
    for path, trace in zip(files.values(), [*traces.values(), searched], strict=True):
        page.save(trace, path)
    model = train_model(folder)
    figures: dict[str, Any] = {}

    def note(name: str, measured: dict[str, Any]) -> None:
        figures[name] = measured
        report(name, flatten(measured))

    with run_server(["-m", "regard", "serve", *SERVED, str(model), "--device", "cpu"], None) as server:
        url, openings = server.url, plan.openings
        note("opening", measure_opening(browser, url, openings))
        note("traffic", measure_traffic(browser, url))
        note("heads, server", measure_served_heads(browser, url, openings))
        note("heads, file", measure_file_heads(browser, files["128"], openings))
        note("file of 512 tokens", measure_file(browser, files["512"], openings))
        asked = address(url, "twelve", write_gap(512), "heads")
        note("512 tokens, server", measure_large(browser, asked, openings))
        note("512 tokens, file", measure_large(browser, f"{files['512'].as_uri()}#screen=heads", openings))
        note("moves", measure_moves(browser, url, files["512"], plan.moves))
        note("tree", measure_tree(browser, url, files["tree"], str(searched.facts["text"]), openings))
        note("explaining", measure_explaining(browser, url, folder, plan.explanations))
        note("memory", measure_memory(browser, url, plan.sentences))
    missing = {"missing": "left out of a short look"}
    note("bertviz", missing if is_quick else measure_bertviz(browser, traces[128], folder / "bertviz"))
    return figures


def flatten(figures: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return nested figures under their names in a row."""
    flat: dict[str, Any] = {}
    for name, value in figures.items():
        flat |= flatten(value, f"{before}{name} ") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return flat


# What it comes to.


def make_rows(figures: Mapping[str, Any]) -> list[Row]:
    """Return all figures beside their bars."""
    opening, filed, heads = figures["opening"], figures["file of 512 tokens"], figures["heads, file"]
    rows = [
        limit("page shown, local", opening["painted"], 500),
        limit("ready to type, local", opening["ready"], 1000),
        limit("12 x 12 heads of 128 tokens from the server, after a click", figures["heads, server"], 1000),
        limit("12 x 12 heads of 128 tokens from a file, opening it", heads, 1000),
        compare_with_bertviz(figures["bertviz"], heads["median_ms"]),
    ]
    for source in ("server", "file"):
        large = figures[f"512 tokens, {source}"]
        rows += [limit(f"{kind} of 512 tokens from the {source}", large[kind], 1000) for kind in ("matrix", "table")]
    rows += compare_moves(figures["moves"])
    rows += explain_rows(figures["explaining"], figures["tree"])
    size, together = filed["megabytes"], filed["unpacked_together"]
    rows += [
        Row("file of 12 x 12 heads of 512 tokens", f"{size:.1f} MB", "90 MB", size <= 90),
        Row("its heads unpacked at a time", f"{together} of {filed['unpacked']}", "1", together == 1),
        limit("opening it, until its first matrix", filed["drawn"], 2000),
    ]
    sent = sum(figures["traffic"].values())
    rows.append(Row("all that the server sends for the page", f"{sent / 1e3:.1f} kB", "150 kB gzipped", sent <= 150e3))
    return [*rows, compare_memory(figures["memory"])]


def limit(subject: str, times: Mapping[str, float], most: float) -> Row:
    """Return the median of some times beside the most that it may be."""
    figure = f"{times['median_ms'] / 1e3:.2f} s, at worst {times['worst_ms'] / 1e3:.2f} s"
    return Row(subject, figure, f"{most / 1e3:g} s", times["median_ms"] <= most)


def compare_with_bertviz(peer: Mapping[str, Any], ours: float) -> Row:
    """Compare the model view of bertviz with the file of the same weights."""
    subject = "the same in bertviz, against the file"
    if "missing" in peer:
        return Row(subject, f"not measured: {peer['missing']}", "50x", None)
    least, theirs = ("more than ", peer["more_than_ms"]) if "more_than_ms" in peer else ("", peer["drawn_ms"])
    ratio = theirs / ours
    return Row(subject, f"{least}{theirs / 1e3:.0f} s, {least}{ratio:.0f}x", "50x", ratio >= 50)


def compare_moves(moves: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Row]:
    """Compare the slowest way of moving to each kind of thing with the bar: its median and its worst."""
    rows = []
    for kind, series in moves.items():
        slowest = max(series, key=lambda way: series[way]["median_ms"])
        worst = max(times["worst_ms"] for times in series.values())
        figure = f"{series[slowest]['median_ms']:.0f} ms, at worst {worst:.0f} ms"
        is_met = series[slowest]["median_ms"] <= 50
        rows.append(Row(f"to another {kind}, by {' or '.join(series)}", figure, "50 ms", is_met))
    return rows


def explain_rows(explaining: Mapping[str, Any], tree: Mapping[str, Any]) -> list[Row]:
    """Return the rows of what the server computes before it is drawn."""
    beside, alone = explaining["beside"], explaining["alone"]["median_ms"]
    figure = f"{beside['median_ms'] / 1e3:.2f} s, 95 % within {beside['p95_ms'] / 1e3:.2f} s; alone {alone / 1e3:.2f} s"
    request = tree["request"]["median_ms"] / 1e3
    return [
        Row("explaining 12 words while 4 clients translate", figure, "0.6 s", beside["median_ms"] <= 600),
        Row("drawing that", f"{explaining['drawing']['median_ms']:.0f} ms", "", None),
        limit("tree of 5 beams, 60 tokens, from a file", tree["file"], 500),
        limit("tree of 5 beams, 60 tokens, from the server", tree["server"], 500),
        Row("the search of that", f"{request:.2f} s", "", None),
    ]


def compare_memory(heaps: Mapping[str, Mapping[str, float]]) -> Row:
    """Compare the memory of the page after many sentences with that after a few."""
    (few, before), (many, after) = heaps.items()
    figure = f"{after['all_mb'] - before['all_mb']:+.1f} MB, from {before['all_mb']:.1f} to {after['all_mb']:.1f} MB"
    is_met = after["all_mb"] - before["all_mb"] <= 20
    return Row(f"memory of the page after {many} sentences against {few}", figure, "20 MB", is_met)


def write_table(rows: Sequence[Row]) -> str:
    """Return the rows as a table of Markdown."""
    marks = {True: "met", False: "missed", None: ""}
    lines = [f"| {row.subject} | {row.figure} | {row.bar} | {marks[row.is_met]} |" for row in rows]
    return "\n".join(["| | measured | bar | |", "| --- | --- | --- | --- |", *lines])


if __name__ == "__main__":
    main()
