"""What the explorer's benchmark measures in the browser, screen by screen, by the clock of the page itself."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.explorer_cases import (
    SENTENCE,
    ProbedPage,
    measure_heap,
    open_page,
    run_load,
    summarise,
    time_request,
    write_gap,
)
from benchmarks.translate import EVERYDAY, sentences

TALL = 4000  # pixels of a window in which all heads are in sight
READY = "() => document.documentElement.dataset.drawn && document.querySelector('textarea.use-box')"
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
TILES = """() => {
  const tiles = [...document.querySelectorAll(".tiles canvas")];
  return tiles.length === 144 && tiles.every((tile) => tile.width > 1) ? 1 : null;
}"""
TILE = "() => document.querySelector('.tiles canvas')?.width > 1"
MATRIX = "() => probe.identify(document.querySelector('#matrix'))"
TABLE = "() => probe.identify(document.querySelector('#numbers tbody td'))"
TREE = "() => probe.identify(document.querySelector('#tree'))"
LINKED = "() => probe.identify(document.querySelector('.use-linked'))"
LIVE = "() => document.querySelector('#read').textContent"
FRAME = "() => document.querySelector('.marks .frame')?.getAttribute('style') ?? null"
LIT = "() => document.querySelector('.use-word.lit')?.getAttribute('data-word') ?? null"
PRESSED = "() => document.querySelector('.use-word[aria-pressed=true]')?.getAttribute('data-word') ?? null"
REQUESTED = """(path) => performance.getEntriesByType("resource").filter(({name}) => name.endsWith(path))
  .map(({startTime, responseEnd}) => [startTime, responseEnd]).at(-1)"""


def address(url: str, model: str, text: str, screen: str, **others: str) -> str:
    """Return the address of a question to a server and of the screen that shows its answer."""
    state = {"model": model, "input": text, "screen": screen, **others}
    return f"{url}/#{'&'.join(f'{name}={quote(value)}' for name, value in state.items())}"


# Opening.


def measure_opening(browser: Any, url: str, repeats: int) -> dict[str, Any]:
    """Measure when the page of a server is shown, and when one can type."""
    painted, ready = [], []
    for _ in range(repeats):
        with open_page(browser, url) as probed:
            ready.append(probed.until(READY))
            painted.append(float(probed.page.evaluate(PAINTED)))
            probed.page.locator("textarea.use-box").press("a")
            assert probed.page.locator("textarea.use-box").input_value() == "a"
    return {"painted": summarise(painted), "ready": summarise(ready)}


def measure_served_heads(browser: Any, url: str, repeats: int) -> dict[str, Any]:
    """Measure how long all heads of 128 tokens take after a click; no number of theirs was fetched before."""
    times = []
    for _ in range(repeats):
        with open_page(browser, address(url, "twelve", write_gap(128), "alignment"), height=TALL) as probed:
            probed.until(MATRIX)
            click = probed.page.locator("[data-screen=heads]").click
            times.append(probed.time_change("click", TILES, click)["took"])
    return summarise(times)


def measure_file_heads(browser: Any, path: Path, repeats: int) -> dict[str, Any]:
    """Measure when all heads of a file are drawn after it is opened."""
    times = []
    for _ in range(repeats):
        with open_page(browser, f"{path.as_uri()}#screen=heads", height=TALL) as probed:
            times.append(probed.until(TILES))
    return summarise(times)


def measure_file(browser: Any, path: Path, repeats: int) -> dict[str, Any]:
    """Measure when a file shows its first matrix, and how many of its matrices are unpacked at a time."""
    painted, drawn = [], []
    for _ in range(repeats):
        with open_page(browser, path.as_uri()) as probed:
            drawn.append(probed.until(MATRIX))
            painted.append(float(probed.page.evaluate(PAINTED)))
    with open_page(browser, f"{path.as_uri()}#screen=heads", height=TALL, prepare="probe.countUnpacking();") as probed:
        probed.until(TILES)
        unpacked, together = probed.page.evaluate("() => [probe.unpacked, probe.unpacking]")
    sizes = {"megabytes": path.stat().st_size / 1e6, "unpacked": unpacked, "unpacked_together": together}
    return {"painted": summarise(painted), "drawn": summarise(drawn), **sizes}


def measure_large(browser: Any, place: str, repeats: int) -> dict[str, Any]:
    """Measure how long the matrix and the table of 512 tokens take, the mean of 12 heads, after they are chosen."""
    matrices, tables = [], []
    for _ in range(repeats):
        with open_page(browser, place) as probed:
            probed.until(TILE)
            click = probed.page.locator("[data-screen=alignment]").click
            matrices.append(probed.time_change("click", MATRIX, click)["took"])
            tables.append(
                probed.time_change("change", TABLE, lambda page=probed.page: choose_view(page, "table"))["took"]
            )
    return {"matrix": summarise(matrices), "table": summarise(tables)}


def choose_view(page: Any, name: str) -> None:
    """Choose how an attention is drawn."""
    page.locator("select[name=view]").select_option(name)


# Moving.


def measure_moves(browser: Any, url: str, large: Path, moves: int) -> dict[str, Any]:
    """Measure how long it takes to go to another cell, word or head, by keys and by pointer."""
    figures: dict[str, Any] = {}
    with open_page(browser, address(url, "twelve", write_gap(128), "alignment", head="0")) as probed:
        probed.until(MATRIX)
        figures["cell of 128 x 128"] = move_in_matrix(probed, moves)
        figures["head's matrix of 128 x 128"] = change_head(probed, moves)
        probed.page.locator("[data-screen=heads]").click()
        probed.until(TILE)
        figures["head among all"] = move_among_heads(probed, moves)
    with open_page(browser, url) as probed:
        ask(probed, SENTENCE)
        figures["word of a sentence"] = move_among_words(probed, moves)
    with open_page(browser, f"{large.as_uri()}#head=0") as probed:
        probed.until(MATRIX)
        figures["cell of 512 x 512"] = move_in_matrix(probed, moves)
        figures["head's matrix of 512 x 512"] = change_head(probed, moves)
    return figures


def repeat(probed: ProbedPage, event: str, look: str, acts: Sequence[Callable[[], object]]) -> dict[str, Any]:
    """Time these actions one after the other."""
    return summarise([probed.time_change(event, look, act)["took"] for act in acts])


def press(page: Any, keys: Sequence[str], count: int) -> list[Callable[[], object]]:
    """Return so many actions that press these keys by turns."""
    return [lambda key=key: page.keyboard.press(key) for key in islice(cycle(keys), count)]


def move_in_matrix(probed: ProbedPage, moves: int) -> dict[str, Any]:
    """Go to other cells of the matrix, which has cells of 18 pixels at least."""
    page, matrix = probed.page, probed.page.locator("#matrix")
    matrix.scroll_into_view_if_needed()
    box = matrix.bounding_box()
    places = [(box["x"] + 30 + 20 * (n % 13), box["y"] + 30 + 20 * (n % 7)) for n in range(1, moves + 1)]
    page.mouse.move(*places[-1])
    hovered = repeat(probed, "pointermove", LIVE, [lambda place=place: page.mouse.move(*place) for place in places])
    clicked = repeat(probed, "click", FRAME, [lambda place=place: page.mouse.click(*place) for place in places])
    keys = ["ArrowRight", "ArrowDown", "ArrowRight", "PageDown", "ArrowLeft", "ArrowUp", "ArrowRight", "PageUp"]
    return {"keys": repeat(probed, "keydown", FRAME, press(page, keys, moves)), "pointer": hovered, "click": clicked}


def change_head(probed: ProbedPage, moves: int) -> dict[str, Any]:
    """Choose the matrix of another head by keys."""
    probed.page.locator("select[name=head]").focus()
    keys = [*["ArrowDown"] * 11, *["ArrowUp"] * 11]
    return {"keys": repeat(probed, "keydown", MATRIX, press(probed.page, keys, moves))}


def move_among_heads(probed: ProbedPage, moves: int) -> dict[str, Any]:
    """Go to other heads of the screen that shows all of them."""
    page = probed.page
    page.locator(".tiles button").first.focus()
    keyed = repeat(probed, "keydown", LIVE, press(page, [*["ArrowRight"] * 11, *["ArrowLeft"] * 11], moves))
    tiles = page.locator(".tiles button")
    middles = [middle_of(tiles.nth(n)) for n in range(8)]
    page.mouse.move(*middles[-1])
    acts = [lambda place=place: page.mouse.move(*place) for place in islice(cycle(middles), moves)]
    return {"keys": keyed, "pointer": repeat(probed, "pointermove", LIVE, acts)}


def move_among_words(probed: ProbedPage, moves: int) -> dict[str, Any]:
    """Go to other words of an answer, which light up those they looked at."""
    page, words = probed.page, probed.page.locator(".use-text.row .use-word")
    count = words.count()
    page.keyboard.press("Tab")
    words.first.focus()
    keyed = repeat(
        probed, "keydown", LIT, press(page, [*["ArrowRight"] * (count - 1), *["ArrowLeft"] * (count - 1)], moves)
    )
    middles = [middle_of(words.nth(n)) for n in range(count)]
    page.mouse.move(*middles[-1])
    hovering = [lambda place=place: page.mouse.move(*place) for place in islice(cycle(middles), moves)]
    hovered = repeat(probed, "pointermove", LIT, hovering)
    clicking = [lambda place=place: page.mouse.click(*place) for place in islice(cycle(middles), moves)]
    return {"keys": keyed, "pointer": hovered, "click": repeat(probed, "click", PRESSED, clicking)}


def middle_of(element: Any) -> tuple[float, float]:
    """Return the middle of an element in the window."""
    box = element.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


# Asking.


def ask(probed: ProbedPage, text: str) -> dict[str, float]:
    """Translate a text on the first screen, and return how long it took until its words were linked."""
    box = probed.page.locator("textarea.use-box")
    box.fill(text)
    return probed.time_change("keydown", LINKED, lambda: box.press("Control+Enter"))


def measure_explaining(browser: Any, url: str, folder: Path, repeats: int) -> dict[str, Any]:
    """Measure how long explaining 12 words takes while others translate, and how long drawing it does."""
    body = {"model": "en-fr", "inputs": SENTENCE, "options": {"to": "fr"}, "view": True}
    alone = summarise([time_request(url, "/v1/explain", body) for _ in range(repeats)])
    with run_load(url, folder) as count_answers:
        before = count_answers()
        beside = summarise([time_request(url, "/v1/explain", body) for _ in range(repeats)])
        others = count_answers() - before
        with open_page(browser, url) as probed:
            drawing = []
            for _ in range(max(3, repeats // 4)):
                end = ask(probed, SENTENCE)["end"]
                drawing.append(end - probed.page.evaluate(REQUESTED, "/v1/explain")[1])
    return {"alone": alone, "beside": beside, "translated_meanwhile": others, "drawing": summarise(drawing)}


def measure_memory(browser: Any, url: str, counts: Sequence[int]) -> dict[str, Any]:
    """Measure the memory of a page after so many sentences, all of which were translated and looked at."""
    heaps: dict[str, Any] = {}
    with open_page(browser, url) as probed:
        for number, text in enumerate(sentences(max(counts), EVERYDAY), start=1):
            ask(probed, text)
            probed.page.locator(".use-text.row .use-word").first.hover()
            if number in counts:
                heaps[str(number)] = measure_heap(probed.page)
    return heaps


# The search.


def measure_tree(browser: Any, url: str, path: Path, text: str, repeats: int) -> dict[str, Any]:
    """Measure how long the tree of a search takes after it is chosen: from a file, and from a server that searches."""
    filed, served, searched = [], [], []
    for _ in range(repeats):
        with open_page(browser, f"{path.as_uri()}#screen=alignment") as probed:
            probed.until(MATRIX)
            filed.append(probed.time_change("click", TREE, probed.page.locator("[data-screen=decode]").click)["took"])
        asked = address(url, "en-fr", text, "alignment", beams="5", options=json.dumps({"to": "fr"}))
        with open_page(browser, asked) as probed:
            probed.until(MATRIX)
            served.append(probed.time_change("click", TREE, probed.page.locator("[data-screen=decode]").click)["took"])
            began, ended = probed.page.evaluate(REQUESTED, "/v1/tree")
            searched.append(ended - began)
            nodes = probed.page.locator("#tree .hypothesis").count()
            assert "5" in probed.page.locator("select[name=beams]").input_value()
    drawing = statistics.median(whole - search for whole, search in zip(served, searched, strict=True))
    return {
        "file": summarise(filed),
        "server": summarise(served),
        "request": summarise(searched),
        "drawing_ms": drawing,
        "nodes": nodes,
    }
