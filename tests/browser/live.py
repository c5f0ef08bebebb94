"""Windows onto a running server: what they ask of it and of others, and checks that every screen must pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
AXE = Path(os.environ.get("AXE_CORE", "node_modules/axe-core/axe.min.js"))
RUN_AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
  ({id, nodes}) => [id, nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + " " + (node.any[0]?.message ?? ""))])"""


@dataclass
class Window:
    """A page of a server, with what it asked for and what went wrong in it."""

    page: Any
    url: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def go(self, address: str = "") -> None:
        """Open the page afresh at an address within it, and wait until it is drawn."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/{address}")
        self.page.wait_for_selector("html[data-drawn]")

    def live_line(self) -> str:
        """Return what the live line says."""
        return self.page.locator("#read").inner_text()

    def wait_for_line(self, text: str) -> None:
        """Wait until the live line contains a text."""
        self.page.wait_for_function("(text) => document.getElementById('read').textContent.includes(text)", arg=text)

    def written(self) -> str:
        """Return the sentence that was written, as its words are shown."""
        return self.page.locator(".use-text.row .use-line").evaluate(
            "(line) => [...line.children].map((part) => (part.querySelector('.letters') ?? part).textContent).join('')"
        )

    @property
    def outside(self) -> list[str]:
        """Requests to anywhere but the server."""
        own = (self.url, "data:", "blob:", "about:")
        return [address for address in self.requests if not address.startswith(own)]


@contextmanager
def open_windows(browser: Any) -> Iterator[Callable[..., Window]]:
    """Yield a function that opens a window of its own at a server; whatever it asks of others is noted and refused."""
    contexts = []

    def open_window(url: str, address: str = "", **settings: Any) -> Window:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 850}, "locale": "en-GB", **settings})
        contexts.append(context)
        context.set_default_timeout(60_000)
        window = Window(context.new_page(), url)
        context.route(lambda address: not address.startswith(url), lambda route: route.abort())
        context.on("request", lambda request: window.requests.append(request.url))
        window.page.on("pageerror", lambda error: window.errors.append(str(error)))
        window.page.on("dialog", lambda dialog: window.errors.append(dialog.message))
        window.go(address)
        return window

    yield open_window
    for context in contexts:
        context.close()


def check_axe(window: Window) -> None:
    """Fail at what axe-core finds; without its script (npm pack axe-core, then AXE_CORE=axe.min.js) this is skipped."""
    if not AXE.is_file():
        pytest.skip("no axe-core on this machine: set AXE_CORE to its axe.min.js")
    if not window.page.evaluate("'axe' in window"):
        window.page.evaluate(AXE.read_text(encoding="utf-8"))
    assert window.page.evaluate(RUN_AXE) == []


def overflow(window: Window) -> int:
    """Return by how many pixels the page is wider than its window."""
    return int(window.page.evaluate("document.documentElement.scrollWidth - innerWidth"))
