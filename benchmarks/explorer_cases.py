"""Parts of the explorer's benchmark: pages that note their own times, traces, a served model of many heads, clients."""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import torch
import yaml

from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace

ROOT = Path(__file__).parent.parent
PROBE = Path(__file__).with_name("explorer_probe.js")
LAYERS, HEADS = 12, 12
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CLIENTS = 4
SENTENCE = "The old man who lives near the river has lost his dog."  # twelve words
CLAUSES = ("the cat sleeps", "the dog eats", "the children play", "my sister reads", "his father works", "we sing")


# The browser.


@contextlib.contextmanager
def run_browser() -> Iterator[Any]:
    """Start the Chromium of this machine."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        raise ValueError("no Chromium on this machine: apt install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@dataclass
class ProbedPage:
    """A page that notes by its own clock when something was drawn."""

    page: Any

    def until(self, look: str) -> float:
        """Return the milliseconds since the page was opened at which `look`, a JavaScript function, gave something."""
        return float(self.page.evaluate(f"() => probe.until({look})"))

    def time_change(self, event: str, look: str, act: Callable[[], object]) -> dict[str, float]:
        """Return how long it took from an event that `act` causes until `look` gave something new, and its end."""
        self.page.evaluate(f"() => {{ probe.arm({json.dumps(event)}, {look}); }}")
        act()
        times: dict[str, float] = self.page.evaluate("() => probe.result")
        return times


@contextlib.contextmanager
def open_page(browser: Any, address: str, *, height: int = 900, prepare: str = "") -> Iterator[ProbedPage]:
    """Open an address in a window that has seen nothing before; `prepare` is a script that runs first."""
    context = browser.new_context(viewport={"width": 1280, "height": height})
    context.add_init_script(PROBE.read_text(encoding="utf-8") + prepare)
    page = context.new_page()
    page.goto(address, wait_until="commit", timeout=300_000)
    try:
        yield ProbedPage(page)
    finally:
        context.close()


def measure_heap(page: Any) -> dict[str, float]:
    """Return the megabytes of a page after its garbage was collected."""
    client = page.context.new_cdp_session(page)
    client.send("HeapProfiler.enable")
    for _ in range(2):
        client.send("HeapProfiler.collectGarbage")
    usage = client.send("Runtime.getHeapUsage")
    client.send("Performance.enable")
    metrics = {entry["name"]: entry["value"] for entry in client.send("Performance.getMetrics")["metrics"]}
    client.detach()
    parts = {"script_mb": "usedSize", "elements_mb": "embedderHeapUsedSize", "arrays_mb": "backingStorageSize"}
    sizes = {name: usage.get(key, 0.0) / 1e6 for name, key in parts.items()}
    counts = {"nodes": metrics["Nodes"], "listeners": metrics["JSEventListeners"]}
    return {**sizes, "all_mb": sum(sizes.values()), "JSHeapUsedSize_mb": metrics["JSHeapUsedSize"] / 1e6, **counts}


def measure_traffic(browser: Any, url: str) -> dict[str, float]:
    """Return the bytes that a server sends, headers included, until one can type into its page."""
    context = browser.new_context()
    context.add_init_script(PROBE.read_text(encoding="utf-8"))
    page = context.new_page()
    client = context.new_cdp_session(page)
    names: dict[str, str] = {}
    sizes: dict[str, float] = {}
    client.on("Network.responseReceived", lambda event: names.update({event["requestId"]: event["response"]["url"]}))
    client.on("Network.loadingFinished", lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]}))
    client.send("Network.enable")
    page.goto(url)
    page.wait_for_selector("textarea.use-box")
    page.wait_for_load_state("networkidle")
    context.close()
    return {names[number].removeprefix(url): size for number, size in sizes.items() if names[number].startswith(url)}


# What is shown.


def make_words(count: int) -> list[str]:
    """Return so many different words of two letters."""
    return ["".join(letters) for letters in product(ascii_lowercase, repeat=2)][:count]


def make_trace(tokens: int) -> Trace:
    """Return a trace of random sharp weights of 12 x 12 heads between so many tokens, none of them masked."""
    generator = torch.Generator().manual_seed(0)
    items = [Item(f" {word}", word=place) for place, word in enumerate(make_words(tokens))]
    layers = [
        Weights(
            f"layers.{n}.attention",
            "source",
            "source",
            (3 * torch.randn(HEADS, tokens, tokens, generator=generator)).softmax(-1),
        )
        for n in range(LAYERS)
    ]
    return Trace("random", "measuring", {"source": items}, layers, {"text": "aa ab", "answer": "ac"})


def make_searched_trace(steps: int) -> Trace:
    """Return a translation with the tree of its search, of 5 beams and at least so many tokens."""
    import regard

    translator: Any = regard.load("en-fr", device="cpu")
    text, tree = write_long_sentence(lambda text: translator.tree(text, to="fr", beams=5).plain(), steps)
    trace = translator.look(text, to="fr")
    return replace(trace, facts={**trace.facts, "tree": tree}, again=None)


def write_long_sentence(search: Callable[[str], dict[str, Any]], steps: int) -> tuple[str, dict[str, Any]]:
    """Return a sentence whose best translation has at least so many tokens, and the tree of its search."""
    for clauses in range(len(CLAUSES), 10 * len(CLAUSES)):
        text = f"{', '.join(CLAUSES[n % len(CLAUSES)] for n in range(clauses))}.".capitalize()
        tree = search(text)
        if tree["nodes"][tree["answers"][0]]["step"] >= steps:
            return text, tree
    raise ValueError(f"no sentence whose translation has {steps} tokens")


def train_model(folder: Path) -> Path:
    """Train a BERT of 12 layers of 12 heads for one step, and return its folder; its words are tokens."""
    words, texts = make_words(600), {part: folder / f"{part}.txt" for part in ("train", "valid")}
    for shift, path in enumerate(texts.values()):
        lines = [" ".join(words[n + shift :] + words[: n + shift]) for n in range(0, 600, 50)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sizes = {"width": 96, "heads": HEADS, "hidden": 96, "depth": LAYERS, "context": 640, "dropout": 0.0}
    recipe = {
        "task": "masked-lm",
        "data": {name: str(path) for name, path in texts.items()}
        | {"document": "line", "context": 640, "batch_size": 1},
        "tokenizer": {"kind": "words"},
        "model": {**sizes, "norm": "pre", "pooler": False, "next_sentence": False},
        "training": {"steps": 1, "eval_every": 1, "save_every": 1},
    }
    path, out = folder / "twelve.yaml", folder / "twelve"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    command = [sys.executable, "-m", "regard", "train", str(path), "--out", str(out), "--device", "cpu"]
    trained = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if trained.returncode:
        raise RuntimeError(trained.stderr)
    return out


def write_gap(tokens: int) -> str:
    """Return a text of so many tokens for the served BERT, its beginning, its gap and its end included."""
    return " ".join([*make_words(tokens - 3), "[MASK]"])


# Others.


@contextlib.contextmanager
def run_load(url: str, folder: Path) -> Iterator[Callable[[], int]]:
    """Let clients in a process of their own translate all the time; yield a function that counts their answers."""
    log = folder / "load"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.explorer_load", url, "--clients", str(CLIENTS)], cwd=ROOT, stdout=file
        )

    def count_answers() -> int:
        if process.poll() is not None:
            raise RuntimeError("the clients that translate have ended")
        return log.read_bytes().count(b"\n")

    try:
        while count_answers() < 2 * CLIENTS:
            time.sleep(0.05)
        yield count_answers
    finally:
        process.terminate()
        process.wait()


def time_request(url: str, path: str, body: Mapping[str, Any]) -> float:
    """Return the milliseconds until an answer was read."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=60)
    began = time.perf_counter()
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    took = 1000 * (time.perf_counter() - began)
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {content[:200].decode()}")
    return took


def summarise(times: Sequence[float]) -> dict[str, Any]:
    """Return the median, the 95th percentile and the worst of some times, and how many there are."""
    ordered = sorted(times)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {"median_ms": statistics.median(ordered), "p95_ms": p95, "worst_ms": ordered[-1], "count": len(ordered)}
