"""How fast the explorer opens in Chromium, from a file and from a server: `python -m benchmarks.explorer`.

All heads of a tall window are drawn, so that none is out of sight. Every figure is the median of several openings.
"""

from __future__ import annotations

import gzip
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from regard.attention.attend import weigh
from regard.interpret.draw import page
from regard.interpret.draw.bundle import explorer_script, explorer_style
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.serve.explorer_page import write_shell
from tests.serve.harness import Counter, serving

LAYERS, HEADS, REPEATS = 12, 12, 5
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
DRAWN = """() => {
  const tiles = [...document.querySelectorAll(".tiles canvas")];
  return tiles.length && tiles.every((tile) => tile.width > 1) ? performance.now() : 0;
}"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
MATRIX = "() => document.querySelector('#matrix') ? performance.now() : 0"


def make_trace(tokens: int) -> Trace:
    """Return a trace of random sharp weights between so many tokens, the future masked."""
    generator = torch.Generator().manual_seed(0)
    seen = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    items = [Item(f" w{place}", word=place) for place in range(tokens)]
    layers = [
        Weights(
            f"layers.{n}.attention",
            "source",
            "source",
            weigh(3 * torch.randn(HEADS, tokens, tokens, generator=generator), seen),
        )
        for n in range(LAYERS)
    ]
    return Trace("random", "measuring", {"source": items}, layers, {"text": "w0 w1", "answer": "w2"})


class RandomLook(Counter):
    """A model that is always looked at with the same weights."""

    def attention_names(self) -> list[str]:
        """Return a name, since there is something to see."""
        return ["layers.0.attention"]

    def look(self, given: str, **options: object) -> Trace:
        """Return the weights of 128 tokens."""
        return make_trace(128)

    def __deepcopy__(self, memo: object) -> RandomLook:
        return RandomLook()


def time_page(browser: Any, address: str, *conditions: str) -> list[float]:
    """Return the milliseconds since the navigation at which each condition holds, as medians."""
    times: list[Sequence[float]] = []
    for _ in range(REPEATS):
        window = browser.new_page(viewport={"width": 1280, "height": 4000})
        window.goto(address)
        times.append(
            [
                window.wait_for_function(condition, polling="raf", timeout=120_000).json_value()
                for condition in conditions
            ]
        )
        window.close()
    return [statistics.median(column) for column in zip(*times, strict=True)]


def measure(browser: Any, folder: Path) -> None:
    """Print all figures."""
    for tokens in (128, 512):
        path = folder / f"{tokens}.html"
        page.save(make_trace(tokens), path)
        heads, painted = time_page(browser, f"{path.as_uri()}#screen=heads", DRAWN, PAINTED)
        [matrix] = time_page(browser, path.as_uri(), MATRIX)
        print(f"file of {LAYERS * HEADS} heads of {tokens} tokens: {path.stat().st_size / 1e6:.1f} MB, ", end="")
        print(f"painted {painted:.0f} ms, first matrix {matrix:.0f} ms, all heads {heads:.0f} ms")
    with serving({"random": RandomLook()}, explain_bytes=1 << 30) as running:
        [painted] = time_page(browser, running.url, PAINTED)
        [drawn] = time_page(browser, running.url, "() => Number(document.documentElement.dataset.drawn ?? 0)")
        print(f"server: painted {painted:.0f} ms, ready {drawn:.0f} ms")
        window = browser.new_page(viewport={"width": 1280, "height": 4000})
        for _ in range(2):
            window.goto("about:blank")
            window.goto(f"{running.url}/#model=random&input=x&screen=alignment")
            window.wait_for_selector("#matrix", timeout=120_000)
            began = window.evaluate(
                "() => { document.querySelector('[data-screen=heads]').click(); return performance.now(); }"
            )
            ended = window.wait_for_function(DRAWN, polling="raf", timeout=120_000).json_value()
            print(f"server: {LAYERS * HEADS} heads of 128 tokens: {ended - began:.0f} ms")
    sent = [write_shell("en", is_fixed=False), explorer_script(), explorer_style()]
    print(f"sent for the page: {sum(len(gzip.compress(text.encode(), 9)) for text in sent) / 1e3:.1f} kB gzipped")


def main() -> None:
    """Open a browser and measure."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        measure(browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
