"""Masks in a real browser: what may not be looked at is hatched and said, and never looks like a small number."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.interpret.draw import page
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from tests.browser.conftest import Visit, saved
from tests.browser.live import PHONE, check_axe, overflow
from tests.interpret.test_visibility import SEEN, SIZE

pytestmark = pytest.mark.unchecked
SHADES = """([row, column]) => {
  const canvas = document.getElementById("matrix"), d = canvas.dataset, pen = canvas.getContext("2d");
  const [x, y, side] = [+d.left + column * d.cell + 2, +d.top + row * d.cell + 2, d.cell - 4];
  const { data } = pen.getImageData(x, y, side, side);
  return new Set(Array.from({ length: data.length / 4 }, (_, i) => data[4 * i] << 8 | data[4 * i + 1])).size;
}"""
WHY = {
    "causal": {(1, 6): "it comes later."},
    "window": {(1, 6): "it is too far away.", (6, 1): "it is too far away."},
    "causal window": {(1, 6): "it comes later.", (6, 1): "it is too far away."},
    "blocks": {(1, 6): "was not allowed to look at"},
}
NAMES = ["causal", "window", "causal window", "prefix", "blocks", "strided", "padding", "nothing for some"]


def make_trace() -> Trace:
    """Return a trace with an attention for each mask; what could be looked at got nothing from the first word."""
    torch.manual_seed(0)
    words = [Item(f" word{number}", word=number) for number in range(SIZE)]
    weights = []
    for number, name in enumerate(NAMES):
        values = torch.rand(2, SIZE, SIZE) * SEEN[name]
        values[:, 0] = 0
        weights.append(Weights(f"{number}", "source", "source", values, SEEN[name]))
    return Trace("m", "test", {"source": words}, weights, {"text": "words", "answer": "words"})


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of that trace."""
    path = tmp_path_factory.mktemp("masks") / "page.html"
    page.save(make_trace(), path)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_every_mask_is_hatched_and_a_zero_that_was_allowed_is_not(visit: Callable[..., Visit], masked: Path, name: str):
    one = visit(masked, f"#screen=alignment&attention={NAMES.index(name)}&zoom=30", locale="en-GB")
    visible = SEEN[name]
    for row, column in ((0, 0), (0, SIZE - 1), (2, 3), (5, 4), (6, 1), (1, 6), (9, 10), (SIZE - 1, 0)):
        colours = one.page.evaluate(SHADES, [row, column])
        assert (colours == 1) == bool(visible[row, column]), (
            row,
            column,
            "lines on a ground where nothing may be seen",
        )
    assert "could not be looked at" in one.page.locator(".ramp").inner_text()
    for (row, column), words in WHY.get(name, {}).items():
        one.go(masked, f"#screen=alignment&attention={NAMES.index(name)}&at={row},{column}")
        assert words in one.told()
    rows = list(csv.reader(io.StringIO(saved(one, "csv").decode("utf-8-sig"))))
    assert [[cell != "not allowed" for cell in line[1:]] for line in rows[1:]] == visible.tolist()
    weights = json.loads(saved(one, "json"))["weights"]
    assert [[cell is not None for cell in line] for line in weights] == visible.tolist()
    assert saved(one, "svg").decode().count("data-masked") == int((~visible).sum())
    one.page.select_option("[name=view]", "table")
    cells = one.page.locator("#numbers tbody td").all_inner_texts()
    assert [cell != "not allowed" for cell in cells] == visible.flatten().tolist()
    assert one.wrong == []


def test_masks_are_said_in_french_and_on_a_phone(visit: Callable[..., Visit], masked: Path):
    one = visit(masked, "#screen=alignment&attention=1&at=1,6", locale="fr-FR", **PHONE)
    assert one.told() == "«\xa0word1\xa0» ne pouvait pas regarder «\xa0word6\xa0»\xa0: c’est trop loin."
    check_axe(one)
    assert overflow(one) <= 0


def test_small_pictures_of_heads_leave_hidden_cells_open_for_the_hatching(visit: Callable[..., Visit], masked: Path):
    one = visit(masked, "#screen=heads")
    number = NAMES.index("blocks")
    alpha = """(canvas) => { const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return [...data].filter((_, i) => i % 4 === 3); }"""
    tile = one.page.locator(f"#heads button[data-name='{number}'] canvas").first
    tile.scroll_into_view_if_needed()
    one.wait_until(f"document.querySelector(\"#heads button[data-name='{number}'] canvas\").width === {SIZE}")
    assert [value > 0 for value in tile.evaluate(alpha)] == SEEN["blocks"].flatten().tolist()
    assert "hatched" in saved(one, "svg").decode()
