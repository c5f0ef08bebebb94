"""Every screen for every reader: numbers as pixels, explanations, a walk by itself, themes, phones, forced colours."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.attention.multihead import Heads, MultiHead
from regard.attention.scores import Additive, Graph
from regard.interpret.draw import page
from regard.interpret.steps import Steps, inside
from regard.interpret.trace import Item, Trace, Weights
from tests.browser.conftest import CROSS, saved
from tests.browser.live import find_violations
from tests.browser.test_image import asked
from tests.browser.test_page import coloured, words_of

pytestmark = pytest.mark.unchecked
SCREENS = ("#at=1,1", "#view=ribbon", "#view=table", "#over=0,1", "#screen=heads", "#screen=inside")


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a picture with maps and curves."""
    path = tmp_path_factory.mktemp("picture") / "page.html"
    page.save(asked(), path)
    return path


def test_the_pixels_of_every_head_are_its_numbers_and_controls_stand_beside_them(
    visit: Callable, file: Path, watched: Any
):
    one = visit(file, "#screen=heads&scale=max", color_scheme="light", locale="en-GB")
    tile = one.page.locator(f".tiles [data-name='{CROSS}'][data-head='1'] canvas")
    one.wait_until("canvas => canvas.width > 1", tile.element_handle())
    script = "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    trace = watched[0]
    alone = replace(trace, weights=[replace(w, values=w.values[1:2]) for w in trace.weights if w.name == CROSS])
    matrix = words_of(alone)
    found = torch.tensor(tile.evaluate(script)).reshape(-1, 4)
    for pixel, value in zip(found.tolist(), matrix.flatten().tolist(), strict=True):
        assert pixel[:3] == pytest.approx(coloured(value / float(matrix.max()), "light"), abs=3)
    lines = list(csv.DictReader(io.StringIO(saved(one, "csv").decode("utf-8-sig"))))
    [line] = [line for line in lines if (line["attention"], line["head"]) == (CROSS, "1")]
    keys = len(trace.items["source"])
    assert float(line["entropy, control"]) == pytest.approx(torch.tensor(float(keys)).log2().item(), abs=1e-3)
    shown = one.page.locator(f".tiles [data-name='{CROSS}'][data-head='1'] .number").inner_text()
    assert shown == f"{float(line['entropy']):.2f} (control {float(line['entropy, control']):.2f})"
    assert saved(one, "svg").count(b"<image") == len(lines)
    assert one.wrong == []


def test_the_pixels_of_a_curve_are_its_numbers(visit: Callable, picture: Path):
    one = visit(picture, color_scheme="light", locale="en-GB")
    lows = """canvas => {
      const pen = canvas.getContext("2d"), places = [];
      for (const share of [0.01, 0.5, 0.99]) {
        const { data } = pen.getImageData(Math.round(1 + share * (canvas.width - 2)), 0, 1, canvas.height);
        const blue = [...Array(canvas.height).keys()].filter(y => data[4 * y + 3] > 200 && data[4 * y + 2] > 150);
        places.push(1 - (blue.reduce((sum, y) => sum + y + 0.5, 0) / blue.length - 1) / (canvas.height - 2));
      }
      return places;
    }"""
    values = [0.75, 0.5, 0.125]
    assert one.page.locator("[data-curve=deletion]").evaluate(lows) == pytest.approx(values, abs=0.03)
    assert one.page.locator("[data-verdict]").get_attribute("data-verdict") == "good"
    found = json.loads(saved(one, "json"))["regions"]
    shares = asked().find("attention").values[0, 0, 1:]
    assert [region["weight"] for region in found] == pytest.approx(shares.tolist(), rel=1e-5)
    one.go(picture, "#attention=gradcam&lang=fr")
    assert "coûte plus que retirer n’importe quoi" in one.page.locator(".verdict").inner_text()


def test_a_map_that_is_no_better_than_chance_is_not_to_be_trusted(visit: Callable, tmp_path: Path):
    trace = asked()
    for area, word in ((0.53, "no more than"), (0.7, "less than")):
        curves = [{**curve, "area": area} for curve in trace.facts["curves"]]
        page.save(replace(trace, facts={**trace.facts, "curves": curves}), tmp_path / "page.html")
        told = visit(tmp_path / "page.html", locale="en-GB").page.locator(".verdict").inner_text()
        assert f"costs {word} taking away anything" in told
        assert "do not trust" in told.lower()


def test_what_each_feature_adds_is_the_score(visit: Callable, tmp_path: Path):
    scores: dict[str, Any] = {"additive": Additive(4, 4, 5, heads=2), "graph": Graph(4, heads=2)}
    model = torch.nn.ModuleDict({name: MultiHead(8, Heads(2), score=score) for name, score in scores.items()})
    model["dot"] = MultiHead(8, Heads(2))
    x = torch.randn(1, 4, 8)
    found, _ = inside(model, lambda: [each(x) for each in model.values()])
    items = {"target": [Item(letter) for letter in "abcd"]}
    trace = Trace("m", "t", items, [Weights(name, "target", "target", each.weights) for name, each in found.items()])
    page.save(trace, tmp_path / "page.html", steps=Steps(found))
    one = visit(tmp_path / "page.html", "#screen=inside&token=2&head=1&pair=3", locale="en-GB")
    for name in (*scores, "dot"):
        one.page.select_option("[name=attention]", name)
        total = float(one.page.locator("#product").get_attribute("data-sum"))
        assert total == pytest.approx(found[name].raw[1, 2, 3].item(), abs=1e-5), name
    one.page.locator("#ledger tbody tr").nth(0).click()
    assert "pair=0" in one.page.url
    assert float(one.page.locator("#product").get_attribute("data-sum")) == pytest.approx(
        found["dot"].raw[1, 2, 0].item(), abs=1e-5
    )
    assert one.page.evaluate("document.activeElement.rowIndex") == 1
    lines = list(csv.DictReader(io.StringIO(saved(one, "csv").decode("utf-8-sig"))))
    shares = torch.tensor([float(line["softmax"]) for line in lines])
    assert torch.allclose(shares, found["dot"].weights[1, 2], atol=1e-6)
    assert one.wrong == []


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_a_walk_goes_from_the_query_to_the_next_token_and_by_itself_only_if_motion_is_wanted(
    visit: Callable, file: Path, motion: str
):
    one = visit(file, f"#screen=inside&attention={CROSS}&head=0&token=1", locale="en-GB", reduced_motion=motion)
    play, still = one.page.locator(".play"), motion == "reduce"
    assert play.inner_text() == ("Next stage" if still else "Play")
    play.click()
    stages = one.page.locator(".steps > li")
    assert play.inner_text() == ("Next stage" if still else "Pause")
    sentences = [one.told()]
    for _ in range(stages.count() - 1):
        one.page.locator("[data-step=stage_after]").click()
        sentences.append(one.told())
    assert play.inner_text() == ("Next stage" if still else "Play"), "who steps stops it"
    assert len(set(sentences)) == stages.count() == 8
    assert sentences[0] == "First, “bl” is turned into a query: what it is looking for."
    assert re.fullmatch(r"After all layers the model writes “bl”, of which it is [\d.]+% sure\.", sentences[-1])
    assert one.page.locator("li[aria-current=step]").get_attribute("data-stage") == "probability"


def test_a_question_mark_explains_a_term_by_keyboard_and_gives_the_focus_back(visit: Callable, file: Path):
    one = visit(file, locale="fr-FR")
    button = one.page.locator("[data-term='AER of the diagonal']")
    button.focus()
    one.page.keyboard.press("Enter")
    bubble = one.page.locator("#explained")
    assert bubble.inner_text().startswith("AER de la diagonale")
    assert "témoin" in bubble.inner_text()
    box = bubble.bounding_box()
    assert min(box["x"], box["y"]) >= 0
    one.page.keyboard.press("Escape")
    bubble.wait_for(state="detached")
    assert one.page.evaluate("document.activeElement.dataset.term") == "AER of the diagonal"
    for screen in ("heads", "inside"):
        one.page.click(f"[data-screen={screen}]")
        assert one.page.locator(f"#{screen} .help").count() >= 1, screen


def test_the_theme_is_chosen_and_stays_in_the_address(visit: Callable, file: Path):
    one = visit(file, color_scheme="dark", locale="en-GB")
    back = "getComputedStyle(document.body).backgroundColor"
    dark, seen = one.page.evaluate(back), []
    for _ in range(3):
        one.page.click("#theme")
        seen.append((one.page.evaluate(back) == dark, one.page.locator("#theme").get_attribute("aria-label")))
    assert seen == [
        (False, "Colours of the page: light"),
        (True, "Colours of the page: dark"),
        (True, "Colours of the page: automatic"),
    ]
    one.page.click("#theme")
    one.page.reload()
    one.page.wait_for_selector("html[data-drawn]")
    assert one.page.evaluate(back) == "rgb(255, 255, 255)"


def test_the_link_to_a_view_is_copied(visit: Callable, file: Path):
    one = visit(file, "#view=ribbon&at=1,2", locale="en-GB", permissions=["clipboard-read", "clipboard-write"])
    one.settle()
    one.page.bring_to_front()  # only a page with the focus may use the clipboard
    one.page.click("#alignment [data-export=link]")
    one.wait_until("document.getElementById('read').textContent.includes('link')")
    said = one.told()
    copied = said.split("link: ")[-1] if "link: " in said else one.page.evaluate("navigator.clipboard.readText()")
    assert copied == one.page.url, said


def test_on_a_phone_the_picture_comes_first_and_choices_lie_behind_one_button(
    visit: Callable, file: Path, picture: Path
):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "locale": "fr-FR"}
    for path, address, first in (
        (file, "", "#matrix"),
        (file, "#view=ribbon", "#ribbons"),
        (file, "#screen=heads", ".tiles canvas"),
        (file, "#screen=inside", "canvas.strip"),
        (picture, "", ".pictured"),
    ):
        one = visit(path, address, **phone)
        assert one.page.locator(first).first.bounding_box()["y"] < 420, address
        assert not one.page.locator("[name=attention]").is_visible()
        one.page.locator("#choices > summary").tap()
        if address != "#screen=heads":
            assert one.page.locator("[name=attention]").is_visible()
        assert one.page.evaluate("document.documentElement.scrollWidth") == 390


def test_forced_colours_keep_every_bar_readable(visit: Callable, file: Path):
    one = visit(file, "#at=1,2", forced_colors="active")
    bars = one.page.locator("aside .meter b")
    assert bars.count() >= 5
    look = "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one.parentElement).backgroundColor]"
    for bar in bars.all():
        inner, outer = bar.evaluate(look)
        assert inner != outer, "a bar stands out from its ground"
    one.page.click("[data-screen=inside]")
    shades = "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    assert one.page.locator("canvas.strip").first.evaluate(shades) > 2


@pytest.mark.parametrize(
    ("theme", "locale", "width"), [("light", "en-GB", 1280), ("dark", "fr-FR", 320), ("light", "fr-FR", 320)]
)
def test_axe_finds_nothing(browser: Any, file: Path, picture: Path, theme: str, locale: str, width: int):
    context = browser.new_context(  # 320 pixels are 1280 at 400 %
        viewport={"width": width, "height": 800}, color_scheme=theme, locale=locale, bypass_csp=True
    )
    tab = context.new_page()
    for path, address in [*((file, screen) for screen in SCREENS), (picture, ""), (picture, "#paint=numbers&beside=1")]:
        tab.goto("about:blank")
        tab.goto(path.as_uri() + address)
        tab.wait_for_selector("html[data-drawn]")
        tab.evaluate("document.getElementById('choices').open = true")
        assert find_violations(tab) == [], address
        assert tab.evaluate("document.documentElement.scrollWidth") == width, address
    context.close()
