"""What goes wrong between the first screen and its server, and strange texts: a sentence, and nothing is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from tests.browser.conftest import Visit
from tests.browser.live import live_line, overflow, written
from tests.serve.harness import Running, serving
from tests.serve.process import KEYS, SMALL, run_server, wait_until

pytestmark = pytest.mark.unchecked

TEXT = "Le chat noir dort."
STRANGE = [
    "</script><script>alert(1)</script>",
    '<img src="x" onerror="alert(1)">',
    "\u0301\u0308\u20dd",
    "x" * 500,
    "\U0001f408\u200d\U0001f41f\U0001f1eb\U0001f1f7",
    "\u0627\u0644\u0642\u0637 \u0646\u0627\u0626\u0645.",
]


@pytest.fixture(scope="module")
def translator() -> Any:
    """A small translator that learnt a little."""
    return regard.load(SMALL, device="cpu")


@pytest.fixture(scope="module")
def small(translator: Any) -> Iterator[Running]:
    """A server with that translator."""
    with serving({"small": translator}) as server:
        yield server


@pytest.fixture
def strict(translator: Any) -> Iterator[Running]:
    """A server with that translator that wants a key, and takes small requests, few in a minute."""
    with serving({"small": translator}, keys=KEYS, body_bytes=2000, per_minute=60) as server:
        yield server


def ask(one: Visit, text: str) -> None:
    """Type a text and send it."""
    one.page.locator("textarea.use-box").fill(text)
    one.page.keyboard.press("Control+Enter")


def trouble(one: Visit, words: str) -> Any:
    """Wait until a sentence beside the form has these words, which the live line says as well."""
    found = one.page.locator(".use-trouble", has_text=words)
    found.wait_for()
    assert words in live_line(one)
    return found


def test_strange_texts_do_nothing_but_appear(visit: Callable, small: Running):
    one = visit(small.url, "/", viewport={"width": 320, "height": 700})
    one.page.on("dialog", lambda dialog: one.wrong.append(dialog.message))
    for text in STRANGE:
        ask(one, text)
        one.page.wait_for_selector(".use-answer[aria-busy=false]")
        one.settle()
        assert one.page.locator("textarea.use-box").input_value() == text
        assert one.page.locator("main img, main script").count() == 0
        assert overflow(one) <= 0, text
    assert (one.outside, one.wrong) == ([], [])


def test_a_server_that_stops_and_comes_back_costs_nothing(visit: Callable, tmp_path: Path):
    with run_server(tmp_path / "first", str(SMALL)) as server:
        one = visit(server.url, "/")
        ask(one, TEXT)
        one.page.wait_for_selector(".use-word")
        answer = written(one)
        os.killpg(server.process.pid, signal.SIGSTOP)  # it does not answer any more
        ask(one, f"{TEXT} Le roi dort.")
        one.page.wait_for_selector(".use-answer[aria-busy=true]")
        os.killpg(server.process.pid, signal.SIGKILL)
        trouble(one, "cannot be reached")
        assert one.page.locator("textarea.use-box").input_value() == f"{TEXT} Le roi dort."
        assert written(one) == answer  # what was there stays
    with run_server(tmp_path / "second", str(SMALL), port=server.port):
        one.page.get_by_role("button", name="Try again").click()
        one.page.wait_for_selector(".use-sentences")
        assert one.page.locator(".use-trouble").count() == 0


def test_keys_long_texts_and_limits_are_sentences(visit: Callable, strict: Running):
    one = visit(strict.url, "/")
    one.page.locator("[name=key]").fill(KEYS[0])
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector("textarea.use-box")
    ask(one, "long " * 600)
    trouble(one, "too large")
    assert one.page.locator("textarea.use-box").input_value() == "long " * 600
    ask(one, TEXT)
    one.page.wait_for_selector(".use-word")
    assert one.page.locator(".use-trouble").count() == 0
    wait_until(lambda: time.monotonic() % 60 < 45)  # requests are counted by the minute
    with strict.client(authorization=f"Bearer {KEYS[0]}") as client:
        wait_until(lambda: client.get("/v1/models").status_code == 429)
    ask(one, "Le roi dort.")
    trouble(one, "busy")
    assert one.page.locator("textarea.use-box").input_value() == "Le roi dort."
    assert KEYS[0] not in one.page.content() + one.page.url


def test_a_key_that_is_refused_is_asked_for_beside_the_form(visit: Callable, small: Running):
    one = visit(small.url, "/")
    wanted: list[str] = []

    def check(route: Any) -> None:
        wanted.append(route.request.headers.get("authorization", ""))
        if wanted[-1] == f"Bearer {KEYS[0]}":
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": {"message": "a key is needed", "code": "no_key"}})

    one.page.context.route("**/v1/completions", check)
    ask(one, TEXT)
    trouble(one, "key").locator("input").fill(KEYS[0])
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector(".use-word")
    assert wanted == ["", f"Bearer {KEYS[0]}"]
    stored = "[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage), location.href].join()"
    assert KEYS[0] not in one.page.evaluate(stored)


@pytest.mark.parametrize(("status", "words"), [(503, ""), (500, ""), (504, "too long")])
def test_what_the_server_cannot_do_is_tried_again(visit: Callable, small: Running, status: int, words: str):
    one = visit(small.url, "/")
    failure = {"error": {"message": "out of memory", "type": "server_error", "param": None, "code": None}}
    one.page.context.route("**/v1/completions", lambda route: route.fulfill(status=status, json=failure))
    ask(one, TEXT)
    trouble(one, words)
    one.page.context.unroute("**/v1/completions")
    one.page.get_by_role("button", name="Try again").click()
    one.page.wait_for_selector(".use-word")
    assert one.page.locator(".use-trouble").count() == 0


def test_half_an_answer_is_said_to_be_half(visit: Callable, small: Running):
    one = visit(small.url, "/")
    half = 'data: {"choices": [{"index": 0, "text": "The black", "finish_reason": null}]}\n\n'
    answer = {"status": 200, "content_type": "text/event-stream", "body": half}
    one.page.context.route("**/v1/completions", lambda route: route.fulfill(**answer))
    ask(one, TEXT)
    trouble(one, "")
    assert one.page.locator(".use-answer").inner_text().count("The black") == 1


def test_a_slow_network_shows_that_work_is_going_on(visit: Callable, small: Running):
    one = visit(small.url, "/")

    def delay(route: Any) -> None:
        time.sleep(0.4)
        route.continue_()

    one.page.context.route("**/v1/**", delay)
    ask(one, TEXT)
    one.page.locator(".use-answer[aria-busy=true]", has_text="at work").wait_for()
    one.page.wait_for_selector(".use-word")
    assert one.page.locator(".use-answer[aria-busy=true]").count() == 0
