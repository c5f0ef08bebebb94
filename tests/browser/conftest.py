"""A browser for the pages: Debian's Chromium, driven by Playwright, cut off from every network."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
AT_HOME = ("file:", "data:", "blob:", "about:")


@dataclass
class Visit:
    """One opened page, with what it asked for and what went wrong in it."""

    page: Any
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def outside(self) -> list[str]:
        """Requests to anywhere but the file itself."""
        return [address for address in self.asked if not address.startswith(AT_HOME)]

    def told(self) -> str:
        """What the live line says."""
        return self.page.locator("#read").inner_text()

    def go(self, path: Path, address: str = "") -> None:
        """Open a file afresh, at an address within it."""
        self.page.goto("about:blank")
        self.page.goto(path.as_uri() + address)
        self.page.wait_for_selector("html[data-drawn]")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests of a file."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install -e '.[test]')"
    )
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine (Debian, Ubuntu: apt install chromium)")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=list(QUIET))
        yield running
        running.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Open a file in a window of its own; whatever it asks of a network is noted and refused."""
    contexts = []

    def open_file(path: Path, address: str = "", **settings: Any) -> Visit:
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 800}, **settings})
        contexts.append(context)
        context.set_default_timeout(60_000)
        one = Visit(context.new_page())

        def decide(route: Any) -> None:
            if route.request.url.startswith(AT_HOME):
                route.continue_()
            else:
                route.abort()

        context.route("**/*", decide)
        context.on("request", lambda request: one.asked.append(request.url))
        one.page.on("pageerror", lambda error: one.wrong.append(str(error)))
        one.page.on("console", lambda message: one.wrong.append(message.text) if message.type == "error" else None)
        one.go(path, address)
        return one

    yield open_file
    for context in contexts:
        context.close()
