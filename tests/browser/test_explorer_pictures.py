"""The pictures of the walk through the explorer show what it looks like now: the same screens, opened and compared."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.documents import ROOT
from tests.serve.process import ServerProcess

pytestmark = pytest.mark.unchecked
SCRIPT = "scripts/make_explorer_pictures.py"
TAKER = runpy.run_path(str(ROOT / SCRIPT))
SHOTS, LOCALES = TAKER["SHOTS"], TAKER["LOCALES"]
OUTLINES: dict[str, Any] = json.loads(TAKER["OUTLINES"].read_text(encoding="utf-8"))


def open_screen(visit: Callable[..., Visit], url: str, name: str, language: str) -> Visit:
    """Open the screen of a picture as it was when the picture was taken."""
    shot, answer = SHOTS[name], OUTLINES[name].get("answer")
    one = visit(url, locale=LOCALES[language], color_scheme="light", **shot.window)
    if answer is not None:  # measuring takes minutes
        one.page.route("**/v1/trust**", lambda route: route.fulfill(json=answer))
        one.page.route("**/v1/trust?**", lambda route: route.fulfill(json={"jobs": []}))  # of those that are known
    TAKER["open_shot"](one.page, url, shot, TAKER["QUESTION"])
    return one


@pytest.mark.parametrize("language", LOCALES)
@pytest.mark.parametrize("name", SHOTS)
def test_a_picture_shows_its_screen_as_it_is_now(
    visit: Callable[..., Visit], shipped_server: ServerProcess, name: str, language: str
):
    one = open_screen(visit, shipped_server.url, name, language)
    changes = TAKER["describe_changes"](OUTLINES[name][language], TAKER["outline"](one.page, SHOTS[name]))
    assert changes == [], f"{name} looks different now; take its picture again: python {SCRIPT} {name}"


def test_another_word_colour_element_or_drawing_is_noticed(visit: Callable[..., Visit], shipped_server: ServerProcess):
    shot, before = SHOTS["alignment"], OUTLINES["alignment"]["en"]
    one = open_screen(visit, shipped_server.url, "alignment", "en")
    spoil = {
        "its words": "document.getElementById('read').append(' changed')",
        "its styles": "document.querySelector('.grid .label').style.color = '#123456'",
        "its elements": "document.querySelector('.grid .label').className = 'label another'",
        "what is drawn on its canvases": """(() => {
          const canvas = document.getElementById('matrix');
          const pen = canvas.getContext('2d');
          pen.fillStyle = 'black';
          pen.fillRect(0, 0, canvas.width, canvas.height);
        })()""",
    }
    changes: list[str] = []
    for name, script in spoil.items():
        one.page.evaluate(script)
        changes = TAKER["describe_changes"](before, TAKER["outline"](one.page, shot))
        assert any(change.startswith(name) for change in changes), name
    assert len(changes) == len(spoil)


def test_numbers_and_small_shifts_of_drawings_are_no_changes():
    before = OUTLINES["alignment"]["en"]
    assert "#" in before["words"]
    assert not any(letter.isdigit() for letter in before["words"])
    [canvas] = before["canvases"]
    colour = max(canvas, key=lambda name: canvas[name])
    shifted = {**canvas, colour: canvas[colour] - 0.1, "222": 0.1}
    assert TAKER["describe_changes"](before, {**before, "canvases": [shifted]}) == []
    assert TAKER["describe_changes"](before, {**before, "canvases": [{"000": 1.0}]}) != []
