"""The first screen in a real browser at a real server: a newcomer's walk, strange texts, and what answers look like."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.live import PHONE, Window, check_axe, overflow
from tests.serve.process import ServerProcess, wait_until

TEXT = "The black cat sleeps in the white house."
ANSWER = "Le chat noir dort dans la maison blanche."
STRANGE = [
    "</script><script>alert(1)</script>",
    '<img src="x" onerror="alert(1)">',
    "\u0301\u0308\u20dd",
    "x" * 500,
    "\U0001f408\u200d\U0001f41f\U0001f1eb\U0001f1f7",
    "\u0627\u0644\u0642\u0637 \u0646\u0627\u0626\u0645.",
]


def word(window: Window, text: str, *, side: str = "row") -> Any:
    """Return the button of a word, in what was written (row) or read (column)."""
    return window.page.locator(f".use-text.{side} .use-word").filter(has=window.page.get_by_text(text, exact=True)).first


def numbers(window: Window, side: str) -> dict[str, int]:
    """Return the percentages below the words of a text."""
    pairs = window.page.locator(f".use-text.{side} .use-word").evaluate_all(
        "(words) => words.map((word) => [word.firstChild.textContent, word.lastChild.textContent])"
    )
    return {text: int(share) for text, share in pairs if share}


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


def test_a_newcomer_translates_points_at_a_word_and_comes_back(live: Callable[..., Window], shipped_server):
    window = live(shipped_server.url)
    page = window.page
    page.locator("textarea.use-box").fill(TEXT)
    page.get_by_role("button", name="Translate", exact=True).click()
    page.wait_for_selector(".use-word")
    assert window.written() == ANSWER
    word(window, "blanche").hover()
    weights, read = explained(shipped_server)
    row = dict(zip(read, weights[-2].tolist(), strict=True))
    shown = numbers(window, "column")
    assert shown["white"] == max(shown.values())
    assert shown == {text: pytest.approx(100 * row[text], abs=0.51) for text in shown}
    assert "“blanche” looked most at “white”" in _plain(window.live_line())
    word(window, "house", side="column").hover()
    assert max(numbers(window, "row"), key=numbers(window, "row").get) == "maison"
    word(window, "noir").click()
    page.mouse.move(0, 0)
    assert numbers(window, "column")["black"] > 50  # a chosen word stays lit
    page.get_by_role("button", name="See where it looked").click()
    page.wait_for_selector("#alignment canvas")
    assert page.locator("#alignment").is_visible()
    page.go_back()
    page.wait_for_selector(".use-word")
    assert window.written() == ANSWER
    assert page.locator("textarea.use-box").input_value() == TEXT
    assert sum("/v1/explain" in address and "?" not in address for address in window.requests) < 6
    assert (window.outside, window.errors) == ([], [])


def test_a_chosen_word_is_written_otherwise_and_undone(live: Callable[..., Window], shipped_server):
    window = live(shipped_server.url)
    page = window.page
    page.locator("textarea.use-box").fill(TEXT)
    word(window, "dort").click()
    others = page.locator(".use-alternatives .use-candidate")
    others.first.wait_for()
    assert others.first.get_attribute("aria-pressed") == "true"
    assert others.first.inner_text().startswith("dort")
    shares = [float(text.strip(" %<").replace(",", ".")) for text in page.locator(".use-alternatives .number").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    page.locator(".use-alternatives .use-candidate[aria-pressed=false]").first.click()
    page.wait_for_selector(".use-undo")
    rewritten = window.written()
    assert rewritten != ANSWER
    assert rewritten.startswith("Le chat noir ")
    page.locator(".use-undo").click()
    page.wait_for_selector(".use-undo", state="detached")
    assert window.written() == ANSWER
    assert window.errors == []


def test_all_of_it_goes_by_keyboard(live: Callable[..., Window], shipped_server):
    window = live(shipped_server.url)
    page, keys = window.page, window.page.keyboard
    _tab_to(page, "textarea.use-box")
    keys.type(TEXT)
    keys.press("Control+Enter")
    page.wait_for_selector(".use-word")
    _tab_to(page, ".use-text.row .use-word")
    for _ in range(7):
        keys.press("ArrowRight")
    window.wait_for_line("blanche")
    assert numbers(window, "column")["white"] > 40
    keys.press("ArrowLeft")
    keys.press("Enter")
    assert page.locator(".use-word[aria-pressed=true]").inner_text().startswith("maison")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline not in ("", "none")  # it is seen where the keyboard is
    keys.press("Escape")
    assert page.locator(".use-word[aria-pressed=true]").count() == 0
    _tab_to(page, ".use-see")
    keys.press("Enter")
    page.wait_for_selector("#alignment canvas")
    assert window.errors == []


def test_a_phone_shows_the_answer_above_its_middle(live: Callable[..., Window], shipped_server):
    window = live(shipped_server.url, **PHONE, color_scheme="dark", locale="fr-FR")
    page = window.page
    assert page.locator("textarea.use-box").bounding_box()["y"] < 300
    page.locator("textarea.use-box").fill(TEXT)
    page.get_by_role("button", name="Traduire", exact=True).tap()
    page.wait_for_selector(".use-word")
    assert page.evaluate("document.querySelector('.use-linked').getBoundingClientRect().top + scrollY") < 420
    word(window, "blanche").tap()
    assert "« blanche » a surtout regardé « white »" in _plain(window.live_line())
    assert numbers(window, "column")["white"] > 40
    page.get_by_role("button", name="Voir où il a regardé").tap()
    page.wait_for_selector("#alignment canvas")
    page.go_back()
    page.wait_for_selector(".use-word")
    assert overflow(window) <= 0
    assert (window.outside, window.errors) == ([], [])


def test_strange_texts_do_nothing_but_appear(live: Callable[..., Window], shipped_server):
    window = live(shipped_server.url, viewport={"width": 320, "height": 700})
    for text in STRANGE:
        window.page.locator("textarea.use-box").fill(text)
        window.page.keyboard.press("Control+Enter")
        window.page.wait_for_selector(".use-answer[aria-busy=false]")
        assert window.page.locator("textarea.use-box").input_value() == text
        assert window.page.locator("main img, main script").count() == 0
        assert overflow(window) <= 0, text
    assert (window.outside, window.errors) == ([], [])


def test_fast_typing_shows_only_the_newest_answer(live: Callable[..., Window], shipped_server):
    window = live(shipped_server.url)
    box, keys = window.page.locator("textarea.use-box"), window.page.keyboard
    for number in range(8):
        box.fill(f"{'The dog eats. ' * (8 - number)}The cat has {number} fish.")
        keys.press("Control+Enter")  # long texts first, whose answers would come last
    box.fill(TEXT)
    keys.press("Control+Enter")
    window.page.wait_for_selector(".use-word")
    assert window.written() == ANSWER
    wait_until(shipped_server.is_idle)  # what was asked before is not worked on any more
    assert window.written() == ANSWER
    assert window.errors == []


def test_a_long_text_is_looked_at_sentence_by_sentence(live: Callable[..., Window], shipped_server):
    window = live(shipped_server.url)
    window.page.locator("textarea.use-box").fill(f"{TEXT} The dog eats.")
    window.page.wait_for_selector(".use-word")
    assert window.page.locator(".use-answer-text").inner_text().startswith(ANSWER)
    assert window.written() == ANSWER
    window.page.locator(".use-sentences button").nth(1).click()
    window.page.wait_for_function("document.querySelector('.use-text.column')?.textContent.includes('dog')")
    assert "chien" in window.written()
    assert window.errors == []


def test_a_text_is_continued_from_a_chosen_word(live: Callable[..., Window], shipped_server):
    window = live(shipped_server.url, "#model=stories&verb=write")
    page = window.page
    page.locator("summary").click()
    page.get_by_label("Length (tokens)").fill("12")
    page.get_by_label("Random seed").fill("3")
    page.locator("textarea.use-box").fill("Once upon a time")
    page.get_by_role("button", name="Continue", exact=True).click()
    page.wait_for_selector(".use-word")
    first = window.written()
    assert first.startswith("Once upon a time")
    page.locator(".use-text.row .use-word").nth(6).click()
    page.locator(".use-alternatives .use-candidate[aria-pressed=false]").first.click()
    page.wait_for_selector(".use-undo")
    page.wait_for_selector(".use-word")
    kept = page.locator("textarea.use-box").input_value()
    assert window.written().startswith(kept)
    assert kept != first[: len(kept)]
    page.locator(".use-undo").click()
    page.wait_for_selector(".use-undo", state="detached")
    assert window.written() == first
    assert window.errors == []


def test_gaps_are_filled_and_meanings_searched(live: Callable[..., Window], shipped_server):
    window = live(shipped_server.url, "#model=encoder&verb=fill")
    page = window.page
    page.locator("textarea.use-box").fill("The [MASK] sat on the mat.")
    page.wait_for_selector(".use-candidate")
    chosen = page.locator(".use-candidate .word").nth(3).inner_text()
    page.locator(".use-candidate").nth(3).click()
    assert page.locator("textarea.use-box").input_value() == f"The {chosen} sat on the mat."
    window.go("#model=encoder&verb=embed")
    page.locator("textarea.use-box").nth(1).fill("The king is dead.\nA cat sleeps.\nRain falls.")
    page.locator("textarea.use-box").nth(0).fill("A kitten is asleep.")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector(".use-hits li")
    assert page.locator(".use-hits li").first.inner_text().startswith("A cat sleeps.")
    assert window.errors == []


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_screen_is_accessible(live: Callable[..., Window], shipped_server, locale: str, scheme: str):
    window = live(shipped_server.url, viewport={"width": 320, "height": 700}, color_scheme=scheme, locale=locale)
    page = window.page
    check_axe(window)
    page.locator("textarea.use-box").fill(TEXT)
    page.wait_for_selector(".use-word")
    word(window, "noir").click()
    page.locator("summary").click()
    check_axe(window)
    assert overflow(window) <= 0
    assert page.evaluate("document.documentElement.lang") == locale[:2]


def _plain(text: str) -> str:
    """Return a text without the marks that keep words of both directions apart."""
    return re.sub("[\u2066-\u2069]", "", text)


def _tab_to(page: Any, selector: str) -> None:
    """Press the Tab key until an element has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"the Tab key never comes to {selector}")
