"""What tests of screens at a running server share: a phone, what is shown, and checks that every screen must pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import packages
from tests.browser.conftest import Visit

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
RUN_AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
  ({id, nodes}) => [id, nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message}`)])"""
LETTERS = "(line) => [...line.children].map((part) => (part.querySelector('.letters') ?? part).textContent).join('')"
ISOLATES = dict.fromkeys(range(0x2066, 0x206A))  # marks that keep words of both directions apart


def written(one: Visit) -> str:
    """Return the sentence that was written, as its words are shown."""
    return str(one.page.locator(".use-text.row .use-line").evaluate(LETTERS))


def live_line(one: Visit) -> str:
    """Return what the live line says."""
    return str(one.page.locator("#read").inner_text()).translate(ISOLATES)


def word(one: Visit, text: str, *, side: str = "row") -> Any:
    """Return the button of a word, in what was written (row) or read (column)."""
    return one.page.locator(f".use-text.{side} .use-word").filter(has=one.page.get_by_text(text, exact=True)).first


def percentages(one: Visit, side: str) -> dict[str, int]:
    """Return the numbers below the words of a text."""
    pairs = one.page.locator(f".use-text.{side} .use-word").evaluate_all(
        "(words) => words.map((word) => [word.firstChild.textContent, word.lastChild.textContent])"
    )
    return {text: int(share) for text, share in pairs if share}


def press_tab_until(one: Visit, selector: str) -> None:
    """Press the Tab key until an element has the focus."""
    for _ in range(40):
        one.page.keyboard.press("Tab")
        if one.page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"the Tab key never comes to {selector}")


def find_violations(page: Any) -> list[Any]:
    """Return what axe-core has against a page; without its script the test is skipped."""
    package = packages.require("axe_playwright_python")
    if not page.evaluate("'axe' in window"):
        page.evaluate((Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    return list(page.evaluate(RUN_AXE))


def check_axe(one: Visit) -> None:
    """Fail at what axe-core finds in the page as it is."""
    assert find_violations(one.page) == []


def read_number(text: str) -> float:
    """Return a number as the page writes it in English, with a minus sign."""
    return float(text.replace("\u2212", "-").replace(",", ""))


def write_number(value: float, digits: int = 3) -> str:
    """Return a number as the page writes it in English, with a minus sign."""
    return f"{value:.{digits}f}".replace("-", "\u2212")


def overflow(one: Visit) -> int:
    """Return by how many pixels the page is wider than its window."""
    return int(one.page.evaluate("document.documentElement.scrollWidth - innerWidth"))
