"""Take the pictures of docs/explorer.md and docs/explorer.fr.md: the screens of `regard serve` in a headless Chromium.

    python scripts/make_explorer_pictures.py
    python scripts/make_explorer_pictures.py --run runs/a
    python scripts/make_explorer_pictures.py use heads
    python scripts/make_explorer_pictures.py use heads --outlines

The first starts a server of the models that come with Regard, asks what the pages ask, and writes
docs/pictures/explorer-*.png, those of the French page as explorer-*.fr.png. The second takes the screen of a run as
well, which `regard train a.fr a.en training.steps=800` of docs/tour.md makes. The third takes two of them. Playwright
and a Chromium are needed (Debian: apt install chromium).

Beside the pictures lies explorer.json, the outline of what each shows: its words with `#` for numbers, digests of its
elements and of their colours, borders and letters, and the shares of colours of its canvases. Nothing in it depends on
fonts or on the machine. tests/browser/test_explorer_pictures.py opens the same screens and fails when one of them no
longer has its outline: then take that picture again, as in the third line, look at it, and commit both. If a change
does not show in a picture, the fourth line writes its outline alone. The screen of a run has no outline, as no test has
the run; that of trust is drawn from the answer in explorer.json, since measuring takes minutes.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OUTLINES = PICTURES / "explorer.json"
CANVAS_TOLERANCE = 0.2  # share of a canvas that may have other colours: where lines fall depends on letters
PATIENCE = 600  # seconds for a server to be ready, and for its checks
WIDE = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
SENTENCE = "The black cat sleeps in the white house."
CHANGED = "The white cat sleeps in the black house."
QUESTION = f"model=en-fr&verb=translate&input={quote(SENTENCE)}"
LOCALES = {"en": "en-GB", "fr": "fr-FR"}
MARGIN = 6  # pixels around what is cut out
COLOURS = 256
LOOK_AGAIN = 300  # milliseconds after which an outline must still be the same
DESCRIBE = """([first, last]) => {
  const after = (one, other) => Boolean(other.compareDocumentPosition(one) & 4);
  const [start, end] = after(first, last) ? [last, first] : [first, last];
  const within = (each) => (start.contains(each) || after(each, start)) && (end.contains(each) || !after(each, end));
  const all = [...document.querySelectorAll("header *, main *")];
  const drawn = all.filter((each) => within(each) && each.checkVisibility());
  const own = (each) => [...each.childNodes].filter(({ nodeType }) => nodeType === 3).map(({ data }) => data.trim());
  const looks = ["color", "backgroundColor", "fill", "stroke", "opacity", "display", "fontSize", "fontWeight",
    "fontStyle", "textAlign", "textDecorationLine", "borderTopStyle", "borderTopWidth", "borderLeftStyle",
    "borderLeftWidth", "borderTopLeftRadius"];
  const shares = (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height), bins = {};
    for (let i = 0; i < data.length; i += 4) {
      const bin = data[i + 3] < 128 ? "clear" : [0, 1, 2].map((n) => data[i + n] >> 6).join("");
      bins[bin] = (bins[bin] ?? 0) + 4 / data.length;
    }
    const large = Object.entries(bins).filter(([, share]) => share >= 0.02);
    return Object.fromEntries(large.map(([bin, share]) => [bin, Math.round(100 * share) / 100]));
  };
  const listed = (each) => [each.tagName, each.getAttribute("class"), each.getAttribute("role")].join(" ");
  const styled = (each) => { const style = getComputedStyle(each); return looks.map((look) => style[look]).join(" "); };
  return {
    words: drawn.flatMap(own).filter(Boolean).join(" "), elements: drawn.map(listed), styles: drawn.map(styled),
    canvases: drawn.filter((each) => each.tagName === "CANVAS" && each.width && each.height).map(shares),
  };
}"""
NUMBER = re.compile(r"\d[\d.,\u202f\u00a0]*")


@dataclass(frozen=True)
class Shot:
    """One picture of a screen: where it is found, what is done there, and what is cut out."""

    address: str
    act: Callable[[Any], None]
    first: str
    """Selector of the uppermost element of the picture."""
    last: str
    """Selector of the lowest one."""
    window: dict[str, Any]


def point_at_word(page: Any) -> None:
    """Point at the last word that was written."""
    find_word(page, "blanche").hover()


def choose_word(page: Any) -> None:
    """Choose the last word that was written, so that others are offered in its place."""
    find_word(page, "blanche").tap()
    page.locator(".use-alternatives .use-candidate").first.wait_for()


def find_word(page: Any, text: str) -> Any:
    """Return the button of a word that was written."""
    page.wait_for_selector(".use-word")
    return page.locator(".use-text.row .use-word").filter(has=page.get_by_text(text, exact=True)).first


def force_plural(page: Any) -> None:
    """Force the answer to begin with "Les"."""
    page.locator(".hypothesis.pruned").filter(has_text=re.compile("^Les")).first.click()
    page.locator("[data-verdict=forced]").wait_for()


def compare_texts(page: Any) -> None:
    """Compare the sentence with the one whose colours are exchanged."""
    page.locator(".compare-side textarea").nth(1).fill(CHANGED)
    page.locator(".compare-form button").click()
    page.locator(".compare-results table.diverging").wait_for()


def measure_trust(page: Any) -> None:
    """Measure how far the looks of the translator into French can be trusted."""
    page.locator("select[name=to]").select_option("fr")
    page.wait_for_timeout(2 * LOOK_AGAIN)  # until the page knows what was measured before
    begin = page.locator("#trust button").first
    if begin.is_visible():
        begin.click()
    page.locator("table.trust").wait_for(timeout=1000 * PATIENCE)


def wait_for_run(page: Any) -> None:
    """Wait until the evaluation that is shown is drawn."""
    page.locator("#forming #matrix").wait_for()


def wait_for_matrix(page: Any) -> None:
    """Wait until the matrix of weights is drawn."""
    page.locator("#alignment canvas").first.wait_for()


def wait_for_heads(page: Any) -> None:
    """Wait until every head is drawn."""
    page.locator(".tiles canvas, .tiles img").first.wait_for()


def wait_for_check(page: Any) -> None:
    """Wait until the page has computed the weights again."""
    page.locator("#check").first.wait_for()


SHOTS = {
    "use": Shot("", point_at_word, "header", ".use-answer", WIDE),
    "phone": Shot("", choose_word, ".use-text", "#read", PHONE),
    "alignment": Shot("&screen=alignment&at=7%2C6", wait_for_matrix, "#read", "#alignment canvas", WIDE),
    "heads": Shot("&screen=heads&kind=decoder.cross&sort=entropy", wait_for_heads, "#controls", "#heads .tiles", WIDE),
    "inside": Shot("&screen=inside&head=0&token=8&at=7%2C6", wait_for_check, "#product", "#check", WIDE),
    "search": Shot("&screen=decode&beams=3", force_plural, ".verdict", ".tree-legend", WIDE),
    "compare": Shot(
        "&screen=compare", compare_texts, ".compare-results", ".compare-results .compare-pair >> nth=1", WIDE
    ),
    "trust": Shot("&screen=trust", measure_trust, "#trust-status", "table.trust", WIDE),
}
RUN_SHOTS = {"training": Shot("", wait_for_run, "#training h2", "#forming #matrix", WIDE)}


@contextmanager
def run_server(*words: str) -> Iterator[str]:
    """Start `regard serve` at a free port and give its address; it ends with the block."""
    command = [sys.executable, "-m", "regard", "serve", *words, "--port", "0", "--device", "cpu"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        try:
            yield wait_for_address(process, log)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the address of a server once it is ready."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if ready := re.search(r"ready: (\S+)", log.read_text(encoding="utf-8")):
            return ready[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit(f"the server did not start:\n{log.read_text(encoding='utf-8')}")


def take(browser: Any, url: str, shots: dict[str, Shot], question: str, *, outlines_only: bool = False) -> None:
    """Take all pictures of a server, in both languages, and write what each of them shows."""
    outlines: dict[str, Any] = json.loads(OUTLINES.read_text(encoding="utf-8")) if OUTLINES.exists() else {}
    for language, locale in LOCALES.items():
        for name, shot in shots.items():
            context = browser.new_context(**shot.window, locale=locale, color_scheme="light")
            page, answers = context.new_page(), list[Any]()
            page.on("response", lambda answer, kept=answers: kept.append(answer) if "/v1/trust" in answer.url else None)
            open_shot(page, url, shot, question)
            if name in SHOTS:
                outlines.setdefault(name, {})[language] = outline(page, shot)
                if answers:
                    outlines[name]["answer"] = answers[-1].json()
            if not outlines_only:
                write_picture(page, shot, PICTURES / f"explorer-{name}{'' if language == 'en' else f'.{language}'}.png")
            context.close()
    known = {name: outlines[name] for name in SHOTS if name in outlines}
    text = json.dumps(known, ensure_ascii=False, indent=1)
    OUTLINES.write_text(f"{text}\n", encoding="utf-8")


def open_shot(page: Any, url: str, shot: Shot, question: str) -> None:
    """Open the screen of a picture, and do there what it shows."""
    page.goto("about:blank")  # so that the page begins anew
    page.goto(f"{url}/#{question}{shot.address}")
    page.wait_for_selector("html[data-drawn]")
    shot.act(page)
    page.wait_for_selector("main:not([aria-busy])", state="attached")


def outline(page: Any, shot: Shot) -> dict[str, Any]:
    """Return what a picture shows, once it stays the same for a moment."""
    described, before = None, None
    while described is None or described != before:
        selectors = (shot.first, shot.last) if shot.window is WIDE else ("header", "main")
        ends = [page.locator(f"{selector} >> visible=true").first.element_handle() for selector in selectors]
        described, before = page.evaluate(DESCRIBE, ends), described
        page.wait_for_timeout(LOOK_AGAIN)
    digests = {name: _digest(described[name]) for name in ("elements", "styles")}
    words = NUMBER.sub("#", " ".join(described["words"].split(" ")))
    return {"words": words, "canvases": [dict(sorted(canvas.items())) for canvas in described["canvases"]], **digests}


def describe_changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return in which ways a screen is no longer what its picture shows; none if it is."""
    changes = [f"its {name}" for name in ("elements", "styles") if before[name] != now[name]]
    if before["words"] != now["words"]:
        texts = before["words"], now["words"]
        start = next((place for place, (was, now_is) in enumerate(zip(*texts, strict=False)) if was != now_is), 0)
        was, now_is = (text[max(0, start - 20) : start + 40] for text in texts)
        changes.append(f"its words: {was!r} is now {now_is!r}")
    pairs = list(zip(before["canvases"], now["canvases"], strict=False))
    if len(before["canvases"]) != len(now["canvases"]) or any(_difference(*pair) > CANVAS_TOLERANCE for pair in pairs):
        changes.append("what is drawn on its canvases")
    return changes


def _difference(before: dict[str, float], now: dict[str, float]) -> float:
    """Return by what share of its pixels a canvas has other colours than before."""
    return sum(abs(before.get(colour, 0) - now.get(colour, 0)) for colour in {*before, *now}) / 2


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def write_picture(page: Any, shot: Shot, path: Path) -> None:
    """Write the picture of an opened screen."""
    page.wait_for_timeout(1000)
    wide = shot.window is WIDE
    page.screenshot(path=path, full_page=wide, clip=cut(page, shot) if wide else None)
    shrink(path)
    print(path.relative_to(ROOT), f"{path.stat().st_size:,} bytes")


def cut(page: Any, shot: Shot) -> dict[str, float]:
    """Return what lies between the top of one element and the bottom of another, as wide as the window."""
    page.evaluate("scrollTo(0, 0)")
    boxes = [page.locator(f"{selector} >> visible=true").first.bounding_box() for selector in (shot.first, shot.last)]
    top, bottom = boxes[0]["y"] - MARGIN, boxes[1]["y"] + boxes[1]["height"] + MARGIN
    return {"x": 0, "y": max(top, 0), "width": shot.window["viewport"]["width"], "height": bottom - max(top, 0)}


def shrink(path: Path) -> None:
    """Write a picture with fewer colours, which takes less room."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> None:
    """Take the pictures of the models in the box, and of a run if one is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, help="the folder of a run, for the screen of training")
    parser.add_argument(
        "--outlines", action="store_true", help="write what the pictures show, and leave them as they are"
    )
    parser.add_argument("names", nargs="*", help="pictures to take, such as use or heads; all if none")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        raise SystemExit("no Chromium on this machine (Debian, Ubuntu: apt install chromium)")
    if unknown := set(options.names) - {*SHOTS, *RUN_SHOTS}:
        raise SystemExit(f"no such picture: {', '.join(sorted(unknown))}; there are {', '.join([*SHOTS, *RUN_SHOTS])}")
    names = options.names or [*SHOTS, *RUN_SHOTS]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        if shots := {name: SHOTS[name] for name in names if name in SHOTS}:
            with run_server() as url:
                take(browser, url, shots, QUESTION, outlines_only=options.outlines)
        if options.run and (shots := {name: RUN_SHOTS[name] for name in names if name in RUN_SHOTS}):
            with run_server("--run", str(options.run)) as url:
                take(browser, url, shots, "", outlines_only=options.outlines)
        browser.close()


if __name__ == "__main__":
    main()
