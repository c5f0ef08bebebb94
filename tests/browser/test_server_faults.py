"""A server that is full, late, without memory or about to stop: a sentence, and a second try goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import regard
from tests.browser.conftest import Visit
from tests.browser.live import live_line, written
from tests.serve.harness import Counter, Running, serving
from tests.serve.process import SMALL

pytestmark = pytest.mark.unchecked

TEXT = "Le chat noir dort."
SECONDS = 3.0  # until a request is given up


@pytest.fixture(scope="module")
def translator() -> Any:
    """A small translator that learnt a little."""
    return regard.load(SMALL, device="cpu")


@pytest.fixture
def counter() -> Iterator[Counter]:
    """A model that holds up all others for as long as a test wishes."""
    counter = Counter()
    yield counter
    counter.release.set()


def send(server: Running, path: str, text: str) -> threading.Thread:
    """Send a request that nobody waits for yet."""

    def post() -> None:
        with server.client() as client:
            client.post(path, json={"inputs": text})

    thread = threading.Thread(target=post)
    thread.start()
    return thread


@contextmanager
def hold_up(server: Running, counter: Counter) -> Iterator[None]:
    """Keep the worker of a server busy with one request until the end of the block."""
    thread = send(server, "/v1/measure", "slow")
    server.until(lambda: ["slow"] in counter.batches)
    try:
        yield
    finally:
        counter.release.set()
        thread.join()


def ask(one: Visit, text: str) -> None:
    """Type a text and send it."""
    one.page.locator("textarea.use-box").fill(text)
    one.page.keyboard.press("Control+Enter")


def check_sentence(one: Visit, words: str, text: str) -> None:
    """Fail unless the page says what is wrong, in sight and aloud, and keeps the text."""
    one.page.locator(".use-trouble", has_text=words).wait_for()
    assert words in live_line(one)
    assert one.page.locator("textarea.use-box").input_value() == text


def try_again(one: Visit) -> str:
    """Press the button beside the sentence, and return the answer."""
    one.page.get_by_role("button", name="Try again").click()
    one.page.wait_for_selector(".use-answer[aria-busy=false] .use-word")
    assert one.page.locator(".use-trouble").count() == 0
    return written(one)


def test_a_full_queue_is_a_sentence_with_the_time_to_wait(visit: Callable, translator: Any, counter: Counter):
    with serving({"small": translator, "counter": counter}, running=1, queue=1) as server:
        one = visit(server.url, "/#model=small")
        with hold_up(server, counter):
            waiting = send(server, "/v1/translate", TEXT)
            server.until(lambda: server.gauge("open") == 2)
            ask(one, TEXT)
            check_sentence(one, "The server is busy: try again in ", TEXT)
        waiting.join()
        assert try_again(one) == translator.translate(TEXT)
        assert (one.outside, [line for line in one.wrong if "429" not in line]) == ([], [])


def test_an_answer_that_is_late_is_a_sentence(visit: Callable, translator: Any, counter: Counter):
    with serving({"small": translator, "counter": counter}, deadline=SECONDS) as server:
        one = visit(server.url, "/#model=small")
        with hold_up(server, counter):
            ask(one, TEXT)
            server.until(lambda: server.gauge("open") == 2)
            one.page.locator(".use-answer[aria-busy=true]").wait_for()
            one.page.wait_for_timeout(1000 * SECONDS + 100)
        check_sentence(one, "The answer took too long", TEXT)
        assert try_again(one) == translator.translate(TEXT)


def test_a_server_without_memory_is_a_sentence(visit: Callable, counter: Counter):
    with serving({"counter": counter}) as server:
        counter.most = 0
        one = visit(server.url, "/")
        ask(one, "seven")
        check_sentence(one, "The server has no room at the moment", "seven")
        counter.most = 1
        one.page.get_by_role("button", name="Try again").click()
        one.wait_until("!document.querySelector('.use-trouble')")
        one.page.wait_for_selector(".use-answer[aria-busy=false] .use-answer-text")
        assert counter.batches[-1] == ["seven"]


def test_a_server_that_is_about_to_stop_answers_until_it_does(visit: Callable, translator: Any):
    with serving({"small": translator}) as server:
        one = visit(server.url, "/")
        server.server.state.is_draining = True
        with server.client() as client:
            assert client.get("/readyz").status_code == 503
        ask(one, TEXT)
        one.page.wait_for_selector(".use-answer[aria-busy=false] .use-word")
        answer = written(one)
    ask(one, "Le roi dort.")
    check_sentence(one, "The server cannot be reached", "Le roi dort.")
    assert written(one) == answer, "what was there stays"
    with serving({"small": translator}, port=server.port):
        assert try_again(one) == translator.translate("Le roi dort.")
