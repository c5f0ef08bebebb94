"""The first screen in a real browser at a real server: a newcomer's walk, strange texts, and what answers look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.live import PHONE, check_axe, live_line, overflow, percentages, press_tab_until, word, written
from tests.serve.process import ServerProcess, wait_until

pytestmark = pytest.mark.unchecked

TEXT = "The black cat sleeps in the white house."
ANSWER = "Le chat noir dort dans la maison blanche."


def explained(server: ServerProcess) -> Any:
    """Return the last cross-attention of the sentence as the server's API gives it, mean of its heads, by words."""
    from safetensors.torch import load

    from regard.interpret.items import Item
    from regard.interpret.words import group_items, merge

    with server.client() as client:
        reply = client.post("/v1/explain", json={"model": "en-fr", "inputs": TEXT}).json()
        trace = reply["trace"]
        name = [entry["name"] for entry in trace["weights"] if entry["name"].endswith("cross")][-1]
        [values] = load(client.get(f"/v1/explain/{reply['tensors'][name]}").content).values()
    written, read = (group_items([Item(**item) for item in trace["items"][side]]) for side in ("target", "source"))
    return merge(values.mean(0), written, read), [unit.text.strip() for unit in read]


def test_a_newcomer_translates_points_at_a_word_and_comes_back(visit: Callable, shipped_server):
    one = visit(shipped_server.url, "/")
    page = one.page
    page.locator("textarea.use-box").fill(TEXT)
    page.get_by_role("button", name="Translate", exact=True).click()
    page.wait_for_selector(".use-word")
    assert written(one) == ANSWER
    word(one, "blanche").hover()
    weights, read = explained(shipped_server)
    row = dict(zip(read, weights[-2].tolist(), strict=True))
    shown = percentages(one, "column")
    assert shown["white"] == max(shown.values())
    assert shown == {text: pytest.approx(100 * row[text], abs=0.51) for text in shown}
    assert "“blanche” looked most at “white”" in live_line(one)
    word(one, "house", side="column").hover()
    assert max(percentages(one, "row"), key=percentages(one, "row").get) == "maison"
    word(one, "noir").click()
    page.mouse.move(0, 0)
    assert percentages(one, "column")["black"] > 50  # a chosen word stays lit
    page.get_by_role("button", name="See where it looked").click()
    page.wait_for_selector("#alignment canvas")
    assert page.locator("#alignment").is_visible()
    page.go_back()
    page.wait_for_selector(".use-word")
    assert written(one) == ANSWER
    assert page.locator("textarea.use-box").input_value() == TEXT
    assert sum("/v1/explain" in address and "?" not in address for address in one.asked) < 6
    assert (one.outside, one.wrong) == ([], [])


def test_a_chosen_word_is_written_otherwise_and_undone(visit: Callable, shipped_server):
    one = visit(shipped_server.url, "/")
    page = one.page
    page.locator("textarea.use-box").fill(TEXT)
    word(one, "noir").click()
    others = page.locator(".use-alternatives .use-candidate")
    others.first.wait_for()
    assert others.first.get_attribute("aria-pressed") == "true"
    assert others.first.inner_text().startswith("noir")
    shares = [
        float(text.strip(" %<").replace(",", "."))
        for text in page.locator(".use-alternatives .number").all_inner_texts()
    ]
    assert shares == sorted(shares, reverse=True)
    page.locator(".use-alternatives .use-candidate[aria-pressed=false]").first.click()
    page.wait_for_selector(".use-undo")
    rewritten = written(one)
    assert rewritten != ANSWER
    assert rewritten.startswith("Le chat ")
    page.locator(".use-undo").click()
    page.wait_for_selector(".use-undo", state="detached")
    assert written(one) == ANSWER
    assert one.wrong == []


def test_all_of_it_goes_by_keyboard(visit: Callable, shipped_server):
    one = visit(shipped_server.url, "/")
    page, keys = one.page, one.page.keyboard
    press_tab_until(one, "textarea.use-box")
    keys.type(TEXT)
    keys.press("Control+Enter")
    page.wait_for_selector(".use-word")
    press_tab_until(one, ".use-text.row .use-word")
    for _ in range(7):
        keys.press("ArrowRight")
    page.get_by_role("status").filter(has_text="blanche").wait_for()
    assert percentages(one, "column")["white"] > 40
    keys.press("ArrowLeft")
    keys.press("Enter")
    assert page.locator(".use-word[aria-pressed=true]").inner_text().startswith("maison")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline not in ("", "none")  # it is seen where the keyboard is
    keys.press("Escape")
    assert page.locator(".use-word[aria-pressed=true]").count() == 0
    press_tab_until(one, ".use-see")
    keys.press("Enter")
    page.wait_for_selector("#alignment canvas")
    assert one.wrong == []


def test_a_phone_shows_the_answer_above_its_middle(visit: Callable, shipped_server):
    one = visit(shipped_server.url, "/", **PHONE, color_scheme="dark", locale="fr-FR")
    page = one.page
    assert page.locator("textarea.use-box").bounding_box()["y"] < 300
    page.locator("textarea.use-box").fill(TEXT)
    page.get_by_role("button", name="Traduire", exact=True).tap()
    page.wait_for_selector(".use-word")
    assert page.evaluate("document.querySelector('.use-linked').getBoundingClientRect().top + scrollY") < 420
    word(one, "blanche").tap()
    assert "«\u00a0blanche\u00a0» a surtout regardé «\u00a0white\u00a0»" in live_line(one)
    assert percentages(one, "column")["white"] > 40
    page.get_by_role("button", name="Voir où il a regardé").tap()
    page.wait_for_selector("#alignment canvas")
    page.go_back()
    page.wait_for_selector(".use-word")
    assert overflow(one) <= 0
    assert (one.outside, one.wrong) == ([], [])


def test_fast_typing_shows_only_the_newest_answer(visit: Callable, shipped_server):
    one = visit(shipped_server.url, "/")
    box, keys = one.page.locator("textarea.use-box"), one.page.keyboard
    for number in range(8):
        box.fill(f"{'The dog eats. ' * (8 - number)}The cat has {number} fish.")
        keys.press("Control+Enter")  # long texts first, whose answers would come last
    box.fill(TEXT)
    keys.press("Control+Enter")
    one.page.wait_for_selector(".use-word")
    assert written(one) == ANSWER
    wait_until(shipped_server.is_idle)  # what was asked before is not worked on any more
    assert written(one) == ANSWER
    assert one.wrong == []


def test_a_long_text_is_looked_at_sentence_by_sentence(visit: Callable, shipped_server):
    one = visit(shipped_server.url, "/")
    one.page.locator("textarea.use-box").fill(f"{TEXT} The dog eats.")
    one.page.wait_for_selector(".use-word")
    assert one.page.locator(".use-answer-text").inner_text().startswith(ANSWER)
    assert written(one) == ANSWER
    one.page.locator(".use-sentences button").nth(1).click()
    word(one, "dog", side="column").wait_for()
    assert "chien" in written(one)
    assert one.wrong == []


def test_a_text_is_continued_from_a_chosen_word(visit: Callable, shipped_server):
    one = visit(shipped_server.url, "/#model=stories&verb=write")
    page = one.page
    page.locator(".use-options > summary").click()
    page.get_by_label("Length (tokens)").fill("12")
    page.get_by_label("Random seed").fill("3")
    page.locator("textarea.use-box").fill("Once upon a time")
    page.get_by_role("button", name="Continue", exact=True).click()
    page.wait_for_selector(".use-word")
    first = written(one)
    assert first.startswith("Once upon a time")
    page.locator(".use-text.row .use-word").nth(6).click()
    page.locator(".use-alternatives .use-candidate[aria-pressed=false]").first.click()
    page.wait_for_selector(".use-undo")
    page.wait_for_selector(".use-word")
    kept = page.locator("textarea.use-box").input_value()
    assert written(one).startswith(kept)
    assert kept != first[: len(kept)]
    page.locator(".use-undo").click()
    page.wait_for_selector(".use-undo", state="detached")
    assert written(one) == first
    assert one.wrong == []


def test_gaps_are_filled_and_meanings_searched(visit: Callable, shipped_server):
    one = visit(shipped_server.url, "/#model=encoder&verb=fill")
    page = one.page
    page.locator("textarea.use-box").fill("The [MASK] sat on the mat.")
    page.wait_for_selector(".use-candidate")
    chosen = page.locator(".use-candidate .word").nth(3).inner_text()
    page.locator(".use-candidate").nth(3).click()
    assert page.locator("textarea.use-box").input_value() == f"The {chosen} sat on the mat."
    assert live_line(one) == f"Answer: The {chosen} sat on the mat."
    one.go(shipped_server.url, "/#model=encoder&verb=embed")
    page.locator("textarea.use-box").nth(1).fill("The king is dead.\nA cat sleeps.\nRain falls.")
    page.locator("textarea.use-box").nth(0).fill("A kitten is asleep.")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector(".use-hits li")
    assert page.locator(".use-hits li").first.inner_text().startswith("A cat sleeps.")
    assert one.wrong == []


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_screen_is_accessible(visit: Callable, shipped_server, locale: str, scheme: str):
    one = visit(shipped_server.url, "/", viewport={"width": 320, "height": 700}, color_scheme=scheme, locale=locale)
    page = one.page
    check_axe(one)
    page.locator("textarea.use-box").fill(TEXT)
    page.wait_for_selector(".use-word")
    word(one, "noir").click()
    page.locator(".use-options > summary").click()
    check_axe(one)
    assert overflow(one) <= 0
    assert page.evaluate("document.documentElement.lang") == locale[:2]
