"""Two answers compared in a real browser: marked differences, scores, and maps whose numbers are the server's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import regard
from regard.interpret.words import group_items, merge
from tests.browser.conftest import Visit
from tests.browser.live import PHONE, check_axe, overflow
from tests.serve.process import ServerProcess

pytestmark = pytest.mark.unchecked

FIRST, SECOND = "The black cat sleeps in the white house.", "The black dog sleeps in the red house."


@pytest.fixture(scope="module")
def translator() -> Any:
    """The translator that comes with Regard."""
    return regard.load("en-fr", device="cpu")


def words_of(translator: Any, text: str) -> tuple[torch.Tensor, list[str], list[str]]:
    """Return where a translation looked, mean of all heads, and the words on both sides."""
    trace = translator.look(text)
    sides = [group_items(trace.items[side]) for side in ("target", "source")]
    values = merge(trace.find().values.mean(0), *sides)
    return values, *([unit.text.strip() for unit in side] for side in sides)


def compare(one: Visit, first: str, second: str) -> None:
    """Fill in both texts and compare them."""
    boxes = one.page.locator(".compare-side textarea")
    boxes.nth(0).fill(first)
    boxes.nth(1).fill(second)
    one.page.locator(".compare-form button").click()
    one.page.locator(".compare-results table.diverging").wait_for()


def cells(one: Visit, selector: str) -> torch.Tensor:
    """Return the numbers of a table."""
    rows = one.page.locator(f"{selector} tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent))"
    )
    return torch.tensor([[float(text.replace("−", "-")) for text in row] for row in rows])


def test_differences_are_marked_and_maps_hold_the_numbers(
    visit: Callable, shipped_server: ServerProcess, translator: Any
):
    one = visit(shipped_server.url, "/#screen=compare")
    compare(one, FIRST, SECOND)
    assert one.page.locator("del").all_inner_texts() == ["−chat", "−blanche"]
    assert one.page.locator("ins").all_inner_texts() == ["+chien", "+rouge"]
    (first, rows, columns), (second, *_) = words_of(translator, FIRST), words_of(translator, SECOND)
    for number, values in enumerate((first, second)):
        shown = cells(one, f".compare-pair > :nth-child({number + 1}) table.weights")
        assert torch.allclose(shown, values, atol=0.0051)
    kept = [
        [place for place, text in enumerate(side) if text not in lost]
        for side, lost in ((rows, ("chat", "blanche")), (columns, ("cat", "white")))
    ]
    difference = (second - first)[kept[0]][:, kept[1]]
    assert torch.allclose(cells(one, "table.diverging"), difference, atol=0.0051)
    assert (one.outside, one.wrong) == ([], [])


def test_equal_texts_differ_in_nothing(visit: Callable, shipped_server: ServerProcess):
    one = visit(shipped_server.url, "/#screen=compare", locale="fr-FR")
    compare(one, FIRST, "")
    assert "Les deux réponses sont identiques." in one.page.locator(".compare-results").inner_text()
    assert "Il n’y a aucune différence." in one.page.locator(".compare-results").inner_text()
    assert one.page.locator("del, ins").count() == 0
    check_axe(one)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_comparisons_are_accessible_on_a_phone(visit: Callable, shipped_server: ServerProcess, scheme: str):
    one = visit(shipped_server.url, "/#screen=compare", **PHONE, color_scheme=scheme)
    compare(one, FIRST, SECOND)
    check_axe(one)
    assert overflow(one) <= 0
