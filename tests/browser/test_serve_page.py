"""The page of `regard serve` in a real browser: models, keys, pictures, both languages, narrow windows (S14)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from tests.serve.harness import Counter, Running, make_eye, serving

pytestmark = pytest.mark.unchecked
KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="module", params=["open", "guarded"])
def desk(request) -> Iterator[Running]:
    """A server with a model of texts and one of pictures, without and with keys."""
    keys = [KEY] if request.param == "guarded" else []
    with serving({"counter": Counter(), "eye": make_eye()}, keys=keys) as running:
        yield running


@pytest.fixture
def open_page(browser: Any, desk: Running) -> Iterator[Any]:
    """Open the page in a window of its own, and type the key if one is needed."""
    contexts = []

    def go(language: str = "en", width: int = 1280) -> tuple[Any, list[str]]:
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        context.set_default_timeout(60_000)
        page, requests = context.new_page(), []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{desk.url}/?lang={language}")
        if desk.server.state.keys.is_required:
            assert page.locator("#model option").count() == 0, "nobody without a key sees the models"
            page.fill("#key", KEY)
            page.press("#key", "Tab")
        page.wait_for_selector("#model option", state="attached")
        return page, requests

    yield go
    for context in contexts:
        context.close()


def choose(page: Any, name: str) -> None:
    page.select_option(
        "#model", label=next(text for text in page.locator("#model option").all_inner_texts() if name in text)
    )


def test_a_text_and_a_picture_are_answered_and_errors_are_shown(open_page, desk):
    page, requests = open_page()
    choose(page, "counter")
    page.fill("#text", "abcde")
    page.click("button")
    page.locator("#answer", has_text="letters").wait_for()
    assert '"letters": 5' in page.inner_text("#answer")
    page.fill("#options", '{"no": 1}')
    page.click("button")
    page.wait_for_selector("#answer.error")
    page.fill("#options", "{}")
    choose(page, "eye")
    assert not page.is_visible("#text")
    picture = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(picture, "PNG")
    page.set_input_files("#picture", {"name": "x.png", "mimeType": "image/png", "buffer": picture.getvalue()})
    page.click("button")
    page.locator("#answer", has_text="label").wait_for()
    assert all(address.startswith(desk.url) for address in requests)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(("language", "button"), [("en", "Run"), ("fr", "Envoyer")])
def test_the_page_fits_the_window_in_both_languages(open_page, language, button, width):
    page, _ = open_page(language, width)
    assert page.inner_text("button") == button
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.get_attribute("html", "lang") == language
