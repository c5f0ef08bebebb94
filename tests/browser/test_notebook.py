"""A page in a notebook: drawn at once from what it holds, and live from when the kernel answers."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.interpret.draw.page import frame
from regard.interpret.notebook import Link
from regard.serve import notebook
from tests.browser.conftest import Visit
from tests.browser.live import find_violations
from tests.browser.notebook_host import Kernel, connect, run_kernel, show

pytestmark = pytest.mark.unchecked
SMALL = Path(__file__).parent.parent / "checkpoints" / "format-1"
SENTENCE = "Le chat noir dort."


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    with run_kernel(monkeypatch) as running:
        yield running


@pytest.fixture
def translator(kernel: Kernel) -> Iterator[Any]:
    trained = regard.load(SMALL)
    yield trained
    notebook._forget(id(trained))


def frame_of(trained: Any, text: str = SENTENCE) -> tuple[str, str]:
    """The id of the page of a look, and its frame."""
    trace, page_id = trained.look(text), notebook.link_model(trained)
    return page_id, frame(trace, link=Link(page_id=page_id), question=trace.origin.question())


def screens(page: Any) -> list[str]:
    return page.locator("#screens a").evaluate_all("(links) => links.map((link) => link.dataset.screen)")


def live(visit: Callable[..., Visit], kernel: Kernel, trained: Any, folder: Path, **settings: Any) -> tuple[Visit, Any]:
    """A window with the page of a look, which the kernel answers, and the page in it."""
    page_id, html = frame_of(trained)
    window = show(visit, folder, html, **settings)
    page = window.page.frame_locator("iframe")
    page.locator("#matrix").wait_for()
    connect(window, kernel, page_id)
    page.locator("[data-screen=use]").wait_for()
    return window, page


def type_text(page: Any, text: str, answer: str) -> None:
    """Type a text, and wait until the live line says its answer."""
    page.locator("textarea").first.fill(text)
    page.locator("#read", has_text=answer).wait_for()


def test_a_look_is_drawn_at_once_and_asks_the_model_when_the_kernel_answers(
    visit: Callable[..., Visit], kernel: Kernel, translator: Any, tmp_path: Path
):
    page_id, html = frame_of(translator)
    window = show(visit, tmp_path, html)
    page = window.page.frame_locator("iframe")
    page.locator("#matrix").wait_for()
    assert screens(page) == ["alignment", "heads", "inside"]
    assert kernel.received == []
    connect(window, kernel, page_id)
    page.locator("[data-screen=use]").wait_for()
    assert screens(page) == ["use", "alignment", "heads", "inside", "decode", "compare", "trust"]
    assert page.locator("[aria-current=page]").get_attribute("data-screen") == "alignment"  # what is shown stays
    page.locator("[data-screen=inside]").click()
    page.locator("#ledger").wait_for()
    assert kernel.paths == ["/v1/explorer"]  # the page holds the numbers of its look
    page.locator("[data-screen=use]").click()
    page.locator(".use-text.row").wait_for()
    assert page.locator("textarea").first.input_value() == SENTENCE
    other = "Le chien blanc dort."
    type_text(page, other, translator.translate(other))
    page.locator(".use-text.row").wait_for()
    assert kernel.paths.count("/v1/completions") == 2  # the answer grows while it is written
    assert [path for path in kernel.paths if path.startswith("/v1/explain/")]  # a matrix of the kernel
    assert (window.outside, window.wrong) == ([], [])


def test_another_word_is_forced_by_the_kernel(
    visit: Callable[..., Visit], kernel: Kernel, translator: Any, tmp_path: Path
):
    _, page = live(visit, kernel, translator, tmp_path)
    page.locator("[data-screen=decode]").click()
    page.locator(".verdict").wait_for()
    page.locator("[data-screen=use]").click()
    page.locator(".use-text.row .use-word").first.click()
    page.locator(".use-candidates button[aria-pressed=false]").first.click()
    page.locator("#read", has_text="Written on from").wait_for()
    written = page.locator(".use-text.row .use-word").first.locator(".letters").inner_text()
    forced = kernel.received[-1]
    while "body" not in forced or "prefix" not in str(forced["body"]):
        forced = kernel.received[kernel.received.index(forced) - 1]
    prefix = json.loads(forced["body"])["options"]["prefix"]
    assert translator.look(SENTENCE, prefix=prefix).facts["answer"].startswith(written)


def test_a_newer_question_cancels_the_one_before_in_the_kernel(
    visit: Callable[..., Visit], kernel: Kernel, translator: Any, tmp_path: Path
):
    window, page = live(visit, kernel, translator, tmp_path)
    page.locator("[data-screen=use]").click()
    page.locator(".use-text.row").wait_for()
    kernel.runs_cell = True
    page.locator("textarea").first.fill("Le chien dort.")
    page.locator("#kernel:not([hidden])").wait_for()
    assert "The kernel is busy" in page.locator("#kernel").inner_text()
    text = "Le chat blanc dort."
    page.locator("textarea").first.fill(text)
    kernel.wait_for(lambda: any("cancel" in content for content in kernel.waiting), window)
    kernel.become_idle()
    page.locator("#read", has_text=translator.translate(text)).wait_for()
    page.locator("#kernel").wait_for(state="hidden")
    kernel.wait_for(lambda: not notebook._links[id(translator)]._open, window)


def test_without_a_kernel_the_page_shows_what_it_holds_and_says_so(
    visit: Callable[..., Visit], kernel: Kernel, translator: Any, tmp_path: Path
):
    _, html = frame_of(translator)
    window = show(visit, tmp_path, html, locale="fr-FR", viewport={"width": 390, "height": 844})
    page = window.page.frame_locator("iframe")
    page.locator("#kernel").wait_for()
    assert page.locator("#kernel").inner_text().startswith("Le noyau ne répond pas")
    page.locator("[data-screen=heads]").click()
    page.locator(".tiles button").first.wait_for()
    assert screens(page) == ["alignment", "heads", "inside"]
    assert page.locator("html").evaluate("(root) => root.scrollWidth - innerWidth") <= 0
    assert find_violations(window.page.frames[1]) == []
    assert (window.outside, window.wrong) == ([], [])


def test_a_restarted_kernel_is_said_and_nothing_is_lost(
    visit: Callable[..., Visit], kernel: Kernel, translator: Any, tmp_path: Path
):
    window, page = live(visit, kernel, translator, tmp_path)
    window.page.evaluate("window.restarted = true")
    page.locator("[data-screen=use]").click()
    page.locator(".use-trouble", has_text="The kernel does not answer any more").wait_for()
    page.locator("[data-screen=alignment]").click()
    page.locator("#matrix").wait_for()
    assert window.wrong == []


def test_pages_that_are_not_of_the_model_are_not_answered(
    visit: Callable[..., Visit], kernel: Kernel, translator: Any, tmp_path: Path
):
    page_id, html = frame_of(translator)
    greeting = f"<script>parent.postMessage({{regard: &quot;{page_id}&quot;}}, &quot;*&quot;)</script>"
    stranger = f'<iframe sandbox="allow-scripts" srcdoc="{greeting}"></iframe>'
    window = show(visit, tmp_path, html.replace(page_id, "another-id-that-is-as-long") + stranger)
    connect(window, kernel, page_id)
    window.page.frame_locator("iframe").first.locator("#kernel").wait_for()
    assert kernel.received == []


def test_two_pages_of_a_model_share_its_threads_and_keep_their_answers_apart(
    visit: Callable[..., Visit], kernel: Kernel, translator: Any, tmp_path: Path
):
    texts = [SENTENCE, "Le chien dort."]
    frames = [frame_of(translator, text) for text in texts]
    assert frames[0][0] == frames[1][0]
    window = show(visit, tmp_path, frames[0][1] + frames[1][1])
    connect(window, kernel, frames[0][0])
    pages = [window.page.frame_locator(f"iframe >> nth={number}") for number in range(2)]
    for page in pages:
        page.locator("[data-screen=use]").click()
    for page, text in zip(pages, texts, strict=True):
        page.locator("#read", has_text=translator.translate(text)).wait_for()
    assert len(kernel.comms) == 2  # the widget, and the layout that every widget has
    assert len({content["page"] for content in kernel.received}) == 2


def test_the_explorer_stands_below_a_cell_until_it_is_stopped(
    visit: Callable[..., Visit], kernel: Kernel, tmp_path: Path
):
    with notebook.explore_in_notebook(SMALL, device="cpu") as explorer:
        window = show(visit, tmp_path, explorer._repr_html_())
        page = window.page.frame_locator("iframe")
        connect(window, kernel, explorer._link.page_id)
        type_text(page, SENTENCE, regard.load(SMALL).translate(SENTENCE))
        page.locator(".use-text.row").wait_for()
        assert find_violations(window.page.frames[1]) == []
    window.page.evaluate("window.end()")  # as the notebook does when the widget is closed
    page.locator("#kernel").wait_for()
    assert repr(explorer) == "<Explorer, stopped>"
    assert (window.outside, window.wrong) == ([], [])
