"""The explorer of a real server: the screens of a file, drawn from what is fetched one head at a time."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.interpret.words import group_items, merge
from tests.browser.conftest import CROSS, Visit, saved
from tests.browser.test_page import PIXELS, coloured
from tests.serve.harness import Running, serving

pytestmark = pytest.mark.unchecked
TEXT = "Le chat noir dort."
QUESTION = "#model=small&input=Le%20chat%20noir%20dort."
KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="module")
def translator() -> Any:
    """A small translator that learnt a little."""
    return regard.load(Path(__file__).parent.parent / "checkpoints" / "format-1")


@pytest.fixture(scope="module")
def server(translator: Any) -> Iterator[Running]:
    """A server with that translator."""
    with serving({"small": translator}) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(translator: Any) -> Iterator[Running]:
    """The same behind a key."""
    with serving({"small": translator}, keys=[KEY]) as running:
        yield running


def test_the_pixels_of_the_matrix_are_the_numbers_of_the_model(visit: Callable, server: Running, translator: Any):
    one = visit(server.url, f"/{QUESTION}&screen=alignment", color_scheme="light")
    trace = translator.look(TEXT)
    weights = trace.find(CROSS)
    matrix = merge(weights.values.mean(0), group_items(trace.items["target"]), group_items(trace.items["source"]))
    one.page.locator("#matrix").wait_for()
    places = [[row, column] for row in range(matrix.shape[0]) for column in range(matrix.shape[1])]
    for (row, column), found in zip(places, one.page.evaluate(PIXELS, places), strict=True):
        assert found[:3] == pytest.approx(coloured(float(matrix[row, column] / matrix.max()), "light"), abs=3)
    assert one.page.locator("h1").inner_text().split("\n")[-1] == f"→ {trace.facts['answer']}"
    assert (one.outside, one.wrong) == ([], [])


def test_what_the_server_shows_is_saved_as_a_page_that_opens_from_disk(
    visit: Callable, server: Running, tmp_path: Path
):
    one = visit(server.url, f"/{QUESTION}&screen=alignment&at=1,2", locale="en-GB")
    one.page.locator("#matrix").wait_for()
    one.settle()
    told, numbers = one.told(), saved(one, "csv")
    (tmp_path / "saved.html").write_bytes(saved(one, "html"))
    again = visit(tmp_path / "saved.html", "#at=1,2", locale="en-GB")
    assert (again.told(), saved(again, "csv")) == (told, numbers)
    again.page.click("[data-screen=inside]")
    again.settle()
    assert float(again.page.locator("#check").get_attribute("data-difference")) < 1e-5
    assert (again.outside, again.wrong, one.wrong) == ([], [], [])


def test_every_screen_is_drawn_from_the_server(visit: Callable, server: Running, translator: Any):
    one = visit(server.url, f"/{QUESTION}&screen=heads")
    one.page.locator(".tiles canvas:not([width='1'])").nth(5).wait_for()
    one.page.locator(".tiles button").nth(3).click()
    one.page.locator("#matrix").wait_for()
    assert one.page.input_value("[name=attention]") == "decoder.0.attention"
    one.page.click("[data-screen=inside]")
    check = one.page.locator("#check")
    check.wait_for()
    assert float(check.get_attribute("data-difference")) < 1e-5
    one.page.select_option("[name=attention]", CROSS)
    one.settle()
    one.page.select_option("[name=token]", "1")
    one.settle()
    one.page.locator("li.written").wait_for()
    step = translator.look(TEXT).steps([CROSS]).attentions[CROSS].step(1, 1)
    shares = one.page.locator("#ledger tbody td:nth-of-type(5)").all_inner_texts()
    assert torch.allclose(torch.tensor([float(text) for text in shares]), step.weights, atol=6e-5)
    fetched = [address for address in one.asked if "/v1/explain/" in address and not address.endswith("/steps")]
    assert len(fetched) == len(set(fetched)), "nothing is fetched twice"
    assert (one.outside, one.wrong) == ([], [])


def test_back_and_reload_bring_back_what_was_asked_and_seen(visit: Callable, server: Running):
    one = visit(server.url, f"/{QUESTION}&screen=heads&sort=entropy")
    one.page.locator(".tiles button").first.click()
    one.page.locator("#matrix").wait_for()
    one.page.go_back()
    one.page.locator(".tiles button").first.wait_for()
    assert one.page.input_value("[name=sort]") == "entropy"
    one.page.reload()
    one.page.locator(".tiles button").first.wait_for()
    assert one.page.input_value("[name=sort]") == "entropy"
    one.page.evaluate("location.hash = '#model=small&input=Un+chien.&screen=alignment'")
    one.page.locator("h1 .from", has_text="Un chien.").wait_for()
    assert one.wrong == []


def test_a_key_is_typed_and_held_in_memory_only(visit: Callable, guarded: Running):
    one = visit(guarded.url, f"/{QUESTION}&screen=alignment")
    assert "wants a key" in one.page.locator("#trouble").inner_text()
    assert "small" not in one.page.content()
    for key in ("a-wrong-key-of-somebody", KEY):
        one.page.fill("[name=key]", key)
        one.page.keyboard.press("Enter")
        one.page.wait_for_selector("#trouble" if key != KEY else "#matrix")
    assert one.page.locator("#trouble").is_hidden()
    stored = "[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), location.href].join()"
    assert KEY not in one.page.evaluate(stored)
    assert KEY not in one.page.content()
    one.page.reload()
    one.page.locator("[name=key]").wait_for()


def refusing(status: int, headers: dict[str, str]) -> Callable[[Any], None]:
    """Answer every request with an error."""
    return lambda route: route.fulfill(status=status, headers=headers, json={})


def test_faults_are_sentences_and_a_second_try_goes_on(visit: Callable, server: Running):
    one = visit(server.url, "/")
    cases = ((429, {"retry-after": "3"}, "in 3 s"), (413, {}, "too large"), (504, {}, "too long"), (418, {}, "418"))
    for status, headers, words in cases:
        one.page.context.route("**/v1/explain", refusing(status, headers))
        one.page.evaluate(f"location.hash = '{QUESTION}&screen=alignment&at={status},0'")
        one.page.locator("#trouble", has_text=words).wait_for()
        one.page.context.unroute("**/v1/explain")
        one.page.evaluate("location.hash = '#model=small'")
    one.page.context.route("**/v1/explain", lambda route: route.abort())
    one.page.evaluate(f"location.hash = '{QUESTION}&screen=alignment'")
    one.page.locator("#trouble", has_text="cannot be reached").wait_for()
    one.page.context.unroute("**/v1/explain")
    one.page.locator("#trouble button").click()
    one.page.locator("#matrix").wait_for()
    assert one.page.locator("#trouble").is_hidden()


def test_a_view_that_made_room_is_said_to_be_gone(visit: Callable, server: Running):
    one = visit(server.url, f"/{QUESTION}&screen=alignment")
    one.page.locator("#matrix").wait_for()
    server.server.state.explainer.views.__init__(1)
    one.page.click("[data-screen=inside]")
    one.page.locator("#trouble", has_text="ask again").wait_for()


PAPER = """() => {
  addEventListener("beforeprint", () => {
    const part = getComputedStyle(document.querySelector("#unprinted")).display;
    const missing = document.querySelector(".missing")?.textContent;
    window.paper = [document.querySelectorAll(".tiles [data-drawn]").length, missing, part];
  });
}"""


def print_page(one: Visit) -> list[Any]:
    """Print the page, and return how many heads are on the paper, and what is said to be missing."""
    one.page.evaluate(PAPER)
    one.page.pdf()
    return list(one.page.evaluate("window.paper"))


def test_paper_says_what_was_not_fetched_by_the_time_it_was_printed(visit: Callable, server: Running):
    one = visit(server.url, f"/{QUESTION}&screen=heads", viewport={"width": 390, "height": 200}, color_scheme="light")
    one.page.locator(".tiles [data-drawn]").first.wait_for()
    one.settle()
    before = one.page.locator(".tiles [data-drawn]").count()
    assert 0 < before < 6
    drawn, line, _ = print_page(one)
    assert drawn == before, "what was seen is printed"
    words = "heads are not printed: they were never in sight. Scroll to them before you print."
    assert line == f"{6 - before} of 6 {words}"
    assert one.page.locator(".missing").count() == 0, "the screen has no such line"
    one.page.click("[data-screen=alignment]")
    one.page.locator("#matrix").wait_for()
    one.settle()
    assert print_page(one)[2] == "none", "all of it is on paper"
    assert one.wrong == []


def test_a_long_text_stays_out_of_the_address(visit: Callable, server: Running):
    one = visit(server.url, "/#cut=1&model=small&screen=alignment")
    assert "too long for the address" in one.told()


def test_the_language_of_the_address_counts_more_than_the_browsers(visit: Callable, server: Running):
    one = visit(server.url, "/?lang=fr", locale="en-GB")
    assert one.page.evaluate("document.documentElement.lang") == "fr"
    assert one.page.locator("footer").inner_text().startswith("Cette page ne s’adresse qu’au serveur")
