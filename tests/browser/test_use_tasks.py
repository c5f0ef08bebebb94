"""Forms and answers of every kind of task, made from schemas alone, and the words they are in."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regard
from regard import recipe
from regard.config.schema import json_schema
from regard.tasks import FACES, TASKS
from tests.browser.live import PHONE, check_axe, live_line, overflow
from tests.serve.harness import Running, make_eye, serving
from tests.tasks.every import Line, lines

pytestmark = pytest.mark.unchecked

WEB = Path(__file__).parents[2] / "regard" / "web"
TRAINED = (
    "classification",
    "choice",
    "question-answering",
    "tagging",
    "regression",
    "node-classification",
    "remembering",
)


def strings(language: str) -> dict[str, str]:
    """Return the sentences of the first screen in a language."""
    text = (WEB / "strings" / f"use.{language}.js").read_text(encoding="utf-8")
    return dict(re.findall(r'"?([\w.\-]+)"?: "((?:[^"\\]|\\.)*)"', text))


def test_both_languages_have_the_same_sentences_with_the_same_gaps():
    english, french = strings("en"), strings("fr")
    assert list(english) == list(french)
    for name in english:
        assert set(re.findall(r"\{\w+\}", english[name])) == set(re.findall(r"\{\w+\}", french[name])), name


def test_every_verb_and_every_option_has_a_plain_name_in_both_languages():
    english = strings("en")  # and so in French
    for task, entry in TASKS.items():
        assert f"use.verb_{entry.verb}" in english, task
        for name in json_schema(FACES[task].Options)["properties"]:
            if name == "to":
                continue  # it has a list of its own
            assert f"use.option_{name}" in english, (task, name)
            assert f"use.help_{name}" in english, (task, name)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Line]:
    """A line for every task."""
    return lines(tmp_path_factory.mktemp("lines"))


@pytest.fixture(scope="module")
def server(table: dict[str, Line], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with small models of several tasks, and a classifier of pictures."""
    folder = tmp_path_factory.mktemp("trained")
    models: dict[str, Any] = {task: train_small(task, table[task], folder / task) for task in TRAINED}
    with serving(models | {"eye": make_eye()}) as running:
        yield running


def train_small(task: str, line: Line, folder: Path) -> Any:
    """Return a model that was trained for one step."""
    training = {"steps": 1, "eval_every": 1, "save_every": 1, "threads": 1, "device": "cpu", "tensorboard": False}
    recipe.train({"task": task, **line.settings, "training": training}, out=folder, quiet=True)
    return regard.load(folder, device="cpu")


def ask_example(one: Any) -> str:
    """Ask what the page offers as an example, and return what is shown of the answer."""
    one.page.get_by_role("button", name="Try an example").click()
    one.page.wait_for_selector(".use-answer[aria-busy=false] .use-body > :not(.use-empty)")
    return str(one.page.locator(".use-body").inner_text())


def test_several_texts_have_fields_that_can_be_added_to(visit: Callable, server: Running, table: dict[str, Line]):
    one = visit(server.url, "/#model=choice")
    boxes = one.page.locator(".use-several textarea, .use-several input")
    assert boxes.count() == 3
    for box, text in zip(boxes.all(), ("film 3", "good", "bad"), strict=True):
        box.fill(text)
    one.page.get_by_role("button", name="Add a choice").click()
    assert boxes.count() == 4
    boxes.nth(3).fill("odd")
    one.page.get_by_role("button", name="Ask", exact=True).click()
    one.page.locator(".use-body li", has_text="odd").wait_for()
    assert one.page.locator(".use-body li").count() == 3
    assert one.wrong == []


def test_an_answer_is_lit_up_in_the_text_and_tags_stand_below_words(visit: Callable, server: Running):
    one = visit(server.url, "/#model=question-answering")
    boxes = one.page.locator(".use-several textarea")
    boxes.nth(0).fill("the?")
    boxes.nth(1).fill("\U0001f408 one good film, and a bad one")
    one.page.locator("mark").wait_for()
    passage = one.page.locator(".use-passage").inner_text()
    assert passage == "\U0001f408 one good film, and a bad one"
    figure = one.page.locator(".use-figure").inner_text()
    assert figure in ("–", one.page.locator("mark").inner_text())
    one.go(server.url, "/#model=tagging")
    one.page.locator("textarea.use-box").fill("the film is good")
    one.page.locator(".use-tags li", has_text="film").wait_for()
    assert one.page.locator(".use-tags li span").all_inner_texts() == ["the", "film", "is", "good"]
    assert set(one.page.locator(".use-tags li b").all_inner_texts()) <= {"D", "N", "V", "A"}
    assert one.wrong == []


def test_numbers_nodes_and_bits_are_asked_for_in_their_own_fields(visit: Callable, server: Running):
    one = visit(server.url, "/#model=regression")
    assert one.page.get_by_label("length").get_attribute("type") == "number"
    assert re.search(r"\d", ask_example(one))
    one.go(server.url, "/#model=node-classification")
    ask_example(one)
    neighbour = one.page.locator(".use-side .use-candidate").nth(1)
    name = neighbour.locator(".word").inner_text()
    neighbour.click()  # it leads to its own neighbours
    one.page.get_by_text(f"What “{name}” looked at").wait_for()
    assert one.page.locator("input.use-box").input_value() == name
    one.go(server.url, "/#model=remembering")
    assert "right" in ask_example(one)
    assert one.wrong == []


@pytest.mark.parametrize("phone", [False, True])
def test_a_picture_is_chosen_and_its_regions_light_up(visit: Callable, server: Running, tmp_path: Path, phone: bool):
    one = visit(server.url, "/#model=eye", **(PHONE if phone else {}))
    path = tmp_path / "red.png"
    Image.new("RGB", (16, 16), (200, 20, 20)).save(path)
    if phone:
        assert one.page.locator("input[capture]").get_attribute("accept") == "image/*"
        one.page.locator("input[type=file]").first.set_input_files(path)
    else:
        _drop(one.page, path)
    one.page.locator(".use-body li", has_text="red").wait_for()
    one.page.locator(".use-regions canvas").wait_for()
    shares = [float(text.strip(" %<")) for text in one.page.locator(".use-body .number").all_inner_texts()]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    one.page.locator(".use-regions .use-word").nth(1).click()
    assert "What speaks for" in live_line(one)
    assert "an equal share would be" in live_line(one)
    check_axe(one)
    assert overflow(one) <= 0
    one.page.get_by_role("button", name="See where it looked").click()
    one.page.locator("#image canvas").first.wait_for()
    assert (one.outside, one.wrong) == ([], [])


def test_what_is_no_picture_is_said_to_be_none(visit: Callable, server: Running, tmp_path: Path):
    one = visit(server.url, "/#model=eye")
    path = tmp_path / "<img onerror=alert(1)>.txt"
    path.write_text("no picture")
    one.page.locator("input[type=file]").first.set_input_files(path)
    one.page.get_by_text(f"{path.name} is no picture").wait_for()
    assert one.wrong == []


def _drop(page: Any, path: Path) -> None:
    """Drop a file onto the field of a picture."""
    data = base64.b64encode(path.read_bytes()).decode()
    page.evaluate(
        """([data, name]) => {
          const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)), transfer = new DataTransfer();
          transfer.items.add(new File([bytes], name, {type: "image/png"}));
          document.querySelector(".use-drop").dispatchEvent(new DragEvent("drop", {dataTransfer: transfer}));
        }""",
        [data, path.name],
    )
