"""The page for every reader: in French, on paper, on a phone, in a notebook, by name, and with enough contrast."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.attention.attend import weigh
from regard.attention.multihead import Heads, MultiHead
from regard.interpret.draw import page
from regard.interpret.steps import Steps, inside
from regard.interpret.trace import Item, Trace, Weights
from tests.browser.reading import contrast, luminance
from tests.browser.test_page import coloured
from tests.interpret.looking import TEXT, model


def test_french_is_spoken_throughout(visit: Callable, file: Path):
    one = visit(file)
    one.page.click("#language")
    assert one.page.evaluate("document.documentElement.lang") == "fr"
    assert one.page.locator("nav a").all_inner_texts() == ["Alignement", "Têtes", "Une étape"]
    assert "où il a regardé, pas pourquoi" in one.page.locator(".brand").inner_text()
    one.page.focus("#matrix")
    one.page.keyboard.press("ArrowRight")
    assert re.match(r"«\xa0The\xa0» a donné [\d,]+.% de son attention à «\xa0chat\xa0» \(0,\d{4}\)", one.told())
    english = re.compile(r"\b(?:where|written|read|heads|words|table|step|looked|network)\b", re.I)
    for screen in ("alignment", "heads", "inside"):
        one.page.click(f"[data-screen={screen}]")
        text = one.page.locator("body").inner_text()
        assert not english.findall(text), screen


def test_the_page_speaks_the_readers_language_and_then_the_one_that_was_chosen(
    visit: Callable, file: Path, watched, tmp_path
):
    for locale, wanted in (("fr-CA", "fr"), ("de-DE", "en")):
        assert visit(file, locale=locale).page.evaluate("document.documentElement.lang") == wanted, locale
    one = visit(file, locale="fr-FR")
    assert one.page.locator("nav a").first.inner_text() == "Alignement"
    one.page.click("#language")
    assert one.page.locator("nav a").first.inner_text() == "Alignment"
    one.page.reload()
    assert one.page.locator("nav a").first.inner_text() == "Alignment", "the address remembers"
    page.save(watched[0], tmp_path / "fixed.html", lang="en")
    assert visit(tmp_path / "fixed.html", locale="fr-FR").page.locator("nav a").first.inner_text() == "Alignment"


BLANK = """() => {
  window.blank = [];
  addEventListener("beforeprint", () => {
    const blues = ({ data }) => new Set(data.filter((_, i) => i % 4 === 2));
    const empty = (canvas) => blues(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)).size < 3;
    const all = [...document.querySelectorAll("section:not([hidden]) canvas:not([hidden])")];
    window.blank = [all.length, all.filter(empty).length, getComputedStyle(document.body).backgroundColor];
  });
}"""


MISSING = """() => {
  const line = () => document.querySelector(".missing:not([hidden])")?.textContent ?? "";
  addEventListener("beforeprint", () => { window.missing = line(); });
}"""


@pytest.mark.parametrize(("address", "least"), [("#screen=heads", 40), ("", 1), ("#screen=inside", 10)])
def test_what_is_printed_is_whole_wherever_one_had_scrolled_and_on_white(visit: Callable, tmp_path, address, least):
    items = [Item(f" w{place}", word=place) for place in range(9)]
    generator = torch.Generator().manual_seed(0)
    model = torch.nn.ModuleDict({f"decoder_{layer}": MultiHead(32, Heads(4)) for layer in range(12)})
    found, _ = inside(model, lambda: [each(torch.randn(1, 9, 32, generator=generator)) for each in model.values()])
    sharp = [Weights(name, "target", "source", one.weights) for name, one in found.items()]
    page.save(Trace("m", "t", {"source": items, "target": items}, sharp), tmp_path / "long.html", steps=Steps(found))
    one = visit(tmp_path / "long.html", address, color_scheme="dark")
    one.page.evaluate(BLANK)
    one.page.pdf()
    count, blank, back = one.page.evaluate("window.blank")
    assert count >= least
    assert (blank, back) == (0, "rgb(255, 255, 255)")
    assert one.page.evaluate("getComputedStyle(document.body).backgroundColor") != back, "the screen is dark again"
    assert one.wrong == []


def test_a_wide_matrix_gets_its_room_before_the_list_beside_it(visit: Callable, tmp_path):
    sides = {name: [Item(str(at), word=at) for at in range(count)] for name, count in (("step", 20), ("place", 128))}
    looked = Weights("read", "step", "place", torch.eye(20, 128)[None])
    page.save(Trace("m", "t", sides, [looked]), tmp_path / "wide.html")
    one = visit(tmp_path / "wide.html", "#at=3,3")
    room = "grid => [grid.clientWidth, document.documentElement.clientWidth]"
    seen, window = one.page.locator(".grid").evaluate(room)
    assert 640 < seen < window, "the matrix scrolls in the room that it has"


WRITING_WORDS = re.compile(
    r"\b(?:written|writes?|translat\w*|alignments?|écrit\w*|traduc\w*|traduit\w*|alignements?)\b", re.I
)


@pytest.mark.parametrize("kind", ["class", "pooled recurrent", "tagger"])  # one of every form
def test_the_page_of_a_model_that_labels_does_not_speak_of_writing(visit: Callable, tmp_path, kind: str):
    trace = model(kind).look(TEXT)
    page.save(trace, tmp_path / "page.html")
    one = visit(tmp_path / "page.html", locale="en-GB")
    assert trace.facts["answer"] in one.page.locator("h1").inner_text()
    for number, screen in enumerate(("alignment", "heads", "inside") * 2):
        if number == 3:
            one.page.click("#language")
        one.page.click(f"[data-screen={screen}]")
        shown = one.page.locator("body").inner_text() + one.page.locator("body").evaluate(
            "body => [...body.querySelectorAll('[aria-label]')].map(e => e.getAttribute('aria-label')).join(' ')"
        )
        assert not WRITING_WORDS.findall(shown), screen
    assert one.page.locator("#ledger tbody tr").count() == len(trace.items["source"])
    assert float(one.page.locator("#check").get_attribute("data-difference")) < 1e-5
    assert one.page.locator("li.written").count() == int("pooled" in kind), "what the label was chosen from"
    assert one.wrong == []


def test_of_twelve_layers_of_twelve_heads_only_those_in_sight_are_drawn(visit: Callable, tmp_path: Path):
    size = 128
    items = [Item(f" w{place // 2}" if place % 2 == 0 else "x", word=place // 2) for place in range(size)]
    layers = [
        Weights(f"decoder.{layer}.cross", "target", "source", weigh(3 * torch.randn(12, size, size)))
        for layer in range(12)
    ]
    page.save(Trace("m", "t", {"source": items, "target": items}, layers), tmp_path / "big.html")
    one = visit(tmp_path / "big.html")
    for address in ("#level=subword", "#screen=heads&level=subword", "#screen=heads&sort=entropy"):
        one.go(tmp_path / "big.html", address)
        assert float(one.page.locator("html").get_attribute("data-drawn")) > 0  # milliseconds, once all is drawn
    one.page.locator(".tiles canvas[width='64']").first.wait_for()
    unseen = one.page.evaluate("[...document.querySelectorAll('.tiles canvas')].filter(c => c.width === 1).length")
    assert unseen > 40, "heads out of sight are drawn only when they come into sight"
    assert one.wrong == []


def test_a_phone_shows_it_without_sideways_scrolling(visit: Callable, file: Path):
    one = visit(file, viewport={"width": 360, "height": 740}, has_touch=True)
    for address in ("", "#view=ribbon", "#screen=heads", "#screen=inside"):
        one.go(file, address)
        assert one.page.evaluate("document.documentElement.scrollWidth") == 360, address


def test_everything_to_press_has_a_name_and_every_screen_one_heading(visit: Callable, file: Path):
    one = visit(file)
    nameless = """() => {
      const all = document.querySelectorAll("a, button, select, input, canvas[tabindex], [role=region], nav, form");
      const name = (e) => e.getAttribute("aria-label") || e.innerText || e.labels?.[0]?.innerText;
      return [...all].filter((e) => e.checkVisibility() && !name(e)).map((e) => e.outerHTML);
    }"""
    for screen in ("alignment", "heads", "inside"):
        one.page.click(f"[data-screen={screen}]")
        assert one.page.evaluate(nameless) == []
        assert one.page.locator("h1").count() == 1
        assert one.page.locator("[aria-current=page]").count() == 1
    assert one.page.locator("#read").get_attribute("role") == "status"


def test_a_notebook_frame_draws_the_page(visit: Callable, watched, tmp_path: Path):
    (tmp_path / "notebook.html").write_text(f"<html data-drawn>{watched[0]._repr_html_()}</html>", encoding="utf-8")
    one = visit(tmp_path / "notebook.html")
    frame = one.page.frame_locator("iframe")
    frame.locator("#matrix").wait_for()
    frame.locator("[data-screen=heads]").click()
    frame.locator(".tiles button").nth(1).click()
    frame.locator("#matrix").wait_for()
    frame.locator("[data-screen=inside]").click()
    frame.locator("#ledger").wait_for()
    assert one.outside == []
    assert one.wrong == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(visit: Callable, file: Path, theme: str):
    one = visit(file, color_scheme=theme)
    read = "name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()"
    tone = {
        name: luminance(one.page.evaluate(read, name))
        for name in ("back", "card", "pick", "ink", "quiet", "accent", "mark", "field")
    }
    for text, behind in [
        ("ink", "back"),
        ("ink", "card"),
        ("ink", "pick"),
        ("quiet", "back"),
        ("quiet", "card"),
        ("accent", "back"),
    ]:
        assert contrast(tone[text], tone[behind]) >= 4.5, (text, behind)
    for line in ("field", "mark"):
        assert contrast(tone[line], tone["back"]) >= 3, line


TILE = """(places) => {
  const context = document.querySelector(".tiles button[data-head='1'] canvas").getContext("2d");
  return places.map(([row, column]) => [...context.getImageData(column, row, 1, 1).data]);
}"""


def test_heads_that_are_packed_are_unpacked_to_the_same_numbers(visit: Callable, tmp_path: Path):
    size = 300
    items = [Item(f" w{place}", word=place) for place in range(size)]
    weights = weigh(3 * torch.randn(5, size, size))
    page.save(Trace("m", "t", {"source": items}, [Weights("a", "source", "source", weights)]), tmp_path / "long.html")
    assert (tmp_path / "long.html").read_text(encoding="utf-8").count('"packed":true') == 5
    one = visit(tmp_path / "long.html", "#screen=heads&scale=max", color_scheme="light")
    one.page.locator(".tiles button[data-head='1'] canvas[width='300']").wait_for()
    places = [[row, column] for row in range(0, size, 37) for column in range(0, size, 41)]
    for (row, column), shade in zip(places, one.page.evaluate(TILE, places), strict=True):
        share = float(weights[1, row, column] / weights[1].max())
        assert shade[:3] == pytest.approx(coloured(share, "light"), abs=3), (row, column)
    assert one.wrong == []


def test_heads_that_are_too_large_to_be_there_at_once_are_printed_wherever_one_had_scrolled(
    visit: Callable, tmp_path: Path
):
    items = [Item(f" w{place}", word=place) for place in range(200)]
    generator = torch.Generator().manual_seed(0)
    weights = [
        Weights(f"decoder.{layer}.cross", "target", "source", torch.rand(4, 200, 200, generator=generator).softmax(-1))
        for layer in range(8)
    ]
    page.save(Trace("m", "t", {"source": items, "target": items}, weights), tmp_path / "packed.html")
    one = visit(tmp_path / "packed.html", "#screen=heads", viewport={"width": 700, "height": 300}, color_scheme="dark")
    one.page.locator(".tiles [data-drawn]").first.wait_for()
    assert one.page.locator(".tiles button:not([data-drawn])").count() > 8, "most were never in sight"
    one.page.evaluate(BLANK)
    one.page.evaluate(MISSING)
    one.page.pdf()
    count, blank, _ = one.page.evaluate("window.blank")
    assert (count, blank, one.page.evaluate("window.missing")) == (32, 0, "")
    assert one.wrong == []
