"""A browser for the pages: Debian's Chromium, driven by Playwright, cut off from every network."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.attention.masks import Grid
from regard.interpret.draw import page
from regard.interpret.steps import Steps, inside, predictions
from regard.interpret.trace import Trace

CROSS = "decoder.0.cross"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
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
    origin: str = ""
    """Of the server that the page may ask."""
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def outside(self) -> list[str]:
        """Requests to anywhere but the file itself, or its server."""
        return [address for address in self.asked if not self.is_home(address)]

    def is_home(self, address: str) -> bool:
        """True for what lies in the file, or on the server of the page."""
        return address.startswith(AT_HOME) or bool(self.origin and address.startswith(f"{self.origin}/"))

    def told(self) -> str:
        """What the live line says, once all is drawn."""
        self.settle()
        return self.page.locator("#read").inner_text()

    def go(self, place: Path | str, address: str = "") -> None:
        """Open a file or a server's page afresh, at an address within it."""
        self.page.goto("about:blank")
        self.page.goto((place.as_uri() if isinstance(place, Path) else place) + address)
        self.page.wait_for_selector("html[data-drawn]")

    def wait_until(self, condition: str, given: object = None) -> None:
        """Wait until a JavaScript expression or function of `given` says yes.

        Playwright's `wait_for_function` evaluates text within the page, which the page's policy forbids: it works only
        where the condition holds at once.
        """
        deadline = time.monotonic() + 60
        while not self.page.evaluate(condition, given):
            assert time.monotonic() < deadline, f"not within a minute: {condition}"
            self.page.wait_for_timeout(20)

    def settle(self) -> None:
        """Wait until nothing is being fetched or drawn."""
        self.page.wait_for_selector("main:not([aria-busy])", state="attached")


def saved(one: Visit, kind: str) -> bytes:
    """What the button of that kind saves."""
    with one.page.expect_download() as download:
        one.page.locator(f"section:not([hidden]) [data-export={kind}]").click()
    return Path(download.value.path()).read_bytes()


@pytest.fixture(scope="module")  # while it runs, so does an event loop in this thread, which others must not find
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
    """Open a file, or a page of a server, in a window of its own; what it asks of a network is noted and refused."""
    contexts = []

    def open_page(place: Path | str, address: str = "", **settings: Any) -> Visit:
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 800}, **settings})
        contexts.append(context)
        context.set_default_timeout(60_000)
        one = Visit(context.new_page(), "" if isinstance(place, Path) else place.rstrip("/"))

        def decide(route: Any) -> None:
            if one.is_home(route.request.url):
                route.continue_()
            else:
                route.abort()

        context.route("**/*", decide)
        context.on("request", lambda request: one.asked.append(request.url))
        one.page.on("pageerror", lambda error: one.wrong.append(str(error)))
        one.page.on("console", lambda message: one.wrong.append(message.text) if message.type == "error" else None)
        one.go(place, address)
        return one

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def shipped_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`regard serve` with the models that come with Regard, as a process of its own."""
    from tests.serve.process import run_server

    with run_server(tmp_path_factory.mktemp("shipped") / "log") as server:
        yield server


@pytest.fixture(scope="session")
def watched() -> tuple[Trace, Steps]:
    """A real translation and the insides of its attentions."""
    import regard

    translator = regard.load(Path(__file__).parent.parent / "checkpoints" / "format-1")
    trace = translator.look("Le chat noir dort.")
    read = [*translator.source.encode("Le chat noir dort."), translator.end]
    written = [*translator.hypotheses([read], [0], translator.decoding)[0][0].tokens, translator.end]
    layouts = [Grid(torch.tensor([len(ids)]), len(ids)) for ids in (read, written)]
    inputs = torch.tensor([read]), torch.tensor([[translator.begin, *written[:-1]]])
    model = translator.model
    found, logits = inside(model, lambda: model.logits(model(*inputs, layouts=tuple(layouts)))[0])
    return trace, Steps(found, predictions(logits, written, lambda id: translator.target.pieces([id])[0]))


@pytest.fixture(scope="session")
def file(watched: tuple[Trace, Steps], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of that translation, with measures and links."""
    trace, steps = watched
    path = tmp_path_factory.mktemp("page") / "page.html"
    measures = {"AER": {CROSS: [0.31, 0.62]}, "AER of the diagonal": 0.4}
    page.save(trace, path, steps=steps, measures=measures, gold="0-0 1-2 2-1 3p3 4-4")
    return path
