"""Every screen of a server at 400 % and in forced colours: no scrolling across, bars and focus that are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import regard
from regard import recipe
from regard.serve.run_view import RunView
from tests.browser.conftest import Visit
from tests.browser.live import overflow
from tests.browser.test_training import recipe_in
from tests.serve.harness import Running, serving
from tests.serve.process import SMALL

pytestmark = pytest.mark.unchecked

QUESTION = "model=small&input=Le%20chat%20noir%20dort."
READY = {
    "use": ".use-word",
    "alignment": "#matrix",
    "heads": ".tiles [data-drawn]",
    "compare": ".compare-side",
    "decode": "#tree",
    "trust": "table.trust",
    "training": "#matrix",
}
ZOOMED: dict[str, Any] = {  # a window of 1280 by 1024 pixels at 400 %
    "viewport": {"width": 320, "height": 256},
    "device_scale_factor": 4,
    "forced_colors": "active",
    "locale": "en-GB",
}
BARS = """() => [...document.querySelectorAll("section:not([hidden]) :is(.meter, progress)")]
  .filter((bar) => bar.checkVisibility())
  .map((bar) => {
    const full = bar.querySelector("b"), outer = getComputedStyle(bar);
    const stands = !full || getComputedStyle(full).backgroundColor !== outer.backgroundColor;
    return [bar.className || bar.tagName, bar.tagName === "PROGRESS" || (outer.borderTopStyle === "solid" && stands)];
  })"""
FOCUS = """() => {
  const one = document.activeElement, seen = one.matches("input[type=file]") ? one.nextElementSibling : one;
  const { outlineStyle, outlineWidth } = getComputedStyle(seen), box = seen.getBoundingClientRect();
  const parts = [0.1, 0.3, 0.5, 0.7, 0.9];
  const hit = (across, down) => {
    const top = document.elementFromPoint(box.x + across * box.width, box.y + down * box.height);
    return [seen, one].some((each) => each.contains(top));
  };
  const uncovered = parts.some((down) => parts.some((across) => hit(across, down)));
  const called = one.id || one.name || one.className?.baseVal || one.className || one.textContent;
  const name = `${one.tagName} ${called}`.slice(0, 60);
  return { name, outlined: outlineStyle !== "none" && parseFloat(outlineWidth) > 1, uncovered };
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a small translator, a larger one that can be checked, and a run that has finished."""
    place = tmp_path_factory.mktemp("zoom")
    recipe.train(recipe_in(place, steps=3), out=place / "run", quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(place / "cache"))
        models = {"small": regard.load(SMALL, device="cpu"), "en-fr": regard.load("en-fr", device="cpu")}
        with serving(models, run=RunView(place / "run"), trust_sentences=2) as running:
            yield running


def open_screen(one: Visit, server: Running, screen: str) -> None:
    """Show a screen with something on it."""
    one.go(server.url, f"/#screen={screen}&{'model=en-fr' if screen == 'trust' else QUESTION}")
    if screen == "trust":
        one.page.get_by_role("button", name="Measure").click()
    if screen == "compare":
        one.page.locator(".compare-side textarea").last.fill("Le roi dort.")
        one.page.get_by_role("button", name="Compare", exact=True).click()
        one.page.locator(".compare-map").first.wait_for()
    one.page.locator(READY[screen]).first.wait_for()
    one.settle()
    if screen == "use":
        one.page.locator(".use-text.row .use-word").nth(1).click()
        one.page.locator(".use-alternatives").wait_for()


@pytest.mark.parametrize("screen", list(READY))
def test_a_screen_at_400_percent_in_forced_colours_scrolls_down_only_and_shows_bars_and_focus(
    visit: Callable, server: Running, screen: str
):
    one = visit(server.url, "/", **ZOOMED)
    open_screen(one, server, screen)
    assert overflow(one) <= 0
    bars = one.page.evaluate(BARS)
    assert [bar for bar in bars if not bar[1]] == []
    assert bars or screen != "use", "the other words have bars"
    one.page.locator(".skip").focus()
    walked = []
    for _ in range(20):
        one.page.keyboard.press("Tab")
        walked.append(one.page.evaluate(FOCUS))
        if "BODY" in walked[-1]["name"]:
            break
    assert len(walked) > 8
    unseen = [stop for stop in walked if "BODY" not in stop["name"] and not (stop["outlined"] and stop["uncovered"])]
    assert unseen == []
    assert overflow(one) <= 0
    assert one.wrong == []
