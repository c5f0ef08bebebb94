"""A word that was chosen in an answer: it is in the address, on every screen the same, and its list covers nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

import regard
from tests.browser.conftest import Visit
from tests.browser.live import PHONE, overflow, press_tab_until, word, written
from tests.serve.harness import Running, serving
from tests.serve.process import SMALL

pytestmark = pytest.mark.unchecked

TEXT = "Le chat noir dort."
ADDRESS = "/#input=Le%20chat%20noir%20dort."
OTHERS = ".use-alternatives .use-candidate[aria-pressed=false]"
FORCED = "[data-verdict=forced]"
WRITTEN = """text => [...document.querySelectorAll(".use-text.row .use-line > *")]
  .map((part) => (part.querySelector(".letters") ?? part).textContent).join("") === text"""
COVERED = """() => {
  const list = document.querySelector(".use-alternatives").getBoundingClientRect();
  const words = [...document.querySelectorAll(".use-line .use-word")].map((word) => word.getBoundingClientRect());
  return words.filter((word) => word.bottom > list.top && word.top < list.bottom && word.right > list.left).length;
}"""
IN_SIGHT = """(word) => {
  const { x, y, width, height } = word.getBoundingClientRect();
  return word.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}"""


@pytest.fixture(scope="module")
def small() -> Iterator[Running]:
    """A server with a small translator."""
    with serving({"small": regard.load(SMALL, device="cpu")}) as server:
        yield server


def spoken(one: Visit) -> str:
    """Return the answer of the forced search."""
    [text] = re.findall("“(.*)”", one.page.locator(FORCED).inner_text())
    return str(text).removesuffix(" (end)")


def force_another(one: Visit, text: str, *, number: int = 0) -> str:
    """Choose a written word and another in its place; return the new answer."""
    before = written(one)
    word(one, text).click()
    one.page.locator(OTHERS).nth(number).click()
    one.wait_until("!document.querySelector('.use-alternatives')")
    one.page.locator(".use-undo").wait_for()
    one.wait_until("!document.querySelector('.use-wait').textContent")
    assert written(one) != before
    return written(one)


def test_a_chosen_word_outlives_a_reload_and_is_what_the_search_shows(visit: Callable, small: Running):
    one = visit(small.url, ADDRESS)
    one.page.wait_for_selector(".use-word")
    free = written(one)
    forced = force_another(one, "black")
    assert "forced=" in one.page.url
    one.page.reload()
    one.page.locator(".use-undo").wait_for()
    assert written(one) == forced
    one.page.click("nav [data-screen=decode]")
    one.page.locator(FORCED).wait_for()
    assert spoken(one) == forced
    assert free in one.page.locator("[data-verdict=won]").inner_text()
    before = one.page.locator(FORCED).text_content()
    place = one.page.locator(".hypothesis.pruned").last.get_attribute("data-place")
    one.page.locator(f".hypothesis[data-place='{place}']").focus()
    one.page.keyboard.press("Enter")
    one.wait_until(f"text => document.querySelector('{FORCED}')?.textContent !== text", before)
    other = spoken(one)
    one.page.click("nav [data-screen=alignment]")  # which shows the answer that is forced now
    one.page.locator("h1", has_text=f"→ {other}").wait_for()
    one.page.click("nav [data-screen=use]")
    one.wait_until(WRITTEN, other)
    for expected in (forced, free):
        one.page.locator(".use-undo").click()
        one.wait_until(WRITTEN, expected)
    assert one.page.locator(".use-undo").count() == 0
    assert "forced=" not in one.page.url
    assert (one.outside, one.wrong) == ([], [])


def test_the_sentence_that_is_looked_at_is_in_the_address_with_what_was_chosen_in_it(visit: Callable, small: Running):
    one = visit(small.url, f"{ADDRESS}%20Le%20roi%20dort.")
    one.page.locator(".use-sentences button").nth(1).click()
    word(one, "roi", side="column").wait_for()
    forced = force_another(one, "king")
    one.page.reload()
    one.page.locator(".use-undo").wait_for()
    assert one.page.locator(".use-sentences [aria-pressed=true]").inner_text() == "2"
    assert written(one) == forced
    one.page.click("nav [data-screen=alignment]")
    one.page.locator("h1 .from", has_text="Le roi dort.").wait_for()
    one.page.reload()
    one.page.locator("h1 .from", has_text="Le roi dort.").wait_for()
    assert forced in one.page.locator("h1").inner_text()
    assert one.wrong == []


def test_a_new_question_is_not_forced(visit: Callable, small: Running):
    one = visit(small.url, ADDRESS)
    one.page.wait_for_selector(".use-word")
    force_another(one, "black")
    one.page.locator("textarea.use-box").fill("Le roi dort.")
    one.page.keyboard.press("Control+Enter")
    word(one, "roi", side="column").wait_for()
    assert one.page.locator(".use-undo").count() == 0
    assert "forced=" not in one.page.url
    assert one.wrong == []


@pytest.mark.parametrize("height", [844, 600])
def test_on_a_phone_the_list_of_other_words_covers_nothing(visit: Callable, small: Running, height: int):
    one = visit(small.url, ADDRESS, **PHONE | {"viewport": {"width": 390, "height": height}})
    black = word(one, "black")
    black.tap()
    one.page.locator(OTHERS).first.wait_for()
    one.settle()
    assert one.page.evaluate(COVERED) == 0
    assert black.evaluate(IN_SIGHT), "the word is seen beside its list"
    assert one.page.locator(".use-alternatives h3").evaluate(IN_SIGHT)
    assert overflow(one) <= 0
    assert black.evaluate("word => word === document.activeElement")
    press_tab_until(one, OTHERS)
    one.page.keyboard.press("Escape")
    one.wait_until("!document.querySelector('.use-alternatives')")
    assert black.evaluate("word => word === document.activeElement && word.ariaPressed === 'false'")
    black.tap()
    one.page.locator(".use-close").tap()
    assert one.page.locator(".use-alternatives").count() == 0
    assert one.wrong == []
