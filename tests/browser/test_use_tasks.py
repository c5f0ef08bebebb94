"""Forms and answers of every kind of task, made from schemas alone, and the words they are in."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard import models, recipe
from regard.config.schema import json_schema
from regard.models.detector import CounterConfig
from regard.tasks import FACES, TASKS
from regard.tasks.scenes.counting import Counter
from tests.browser.conftest import Visit, saved
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
    trained: dict[str, Any] = {task: train_small(task, table[task], folder / task) for task in TRAINED}
    with serving(trained | {"eye": make_eye(), "frames": make_frame_counter()}) as running:
        yield running


def make_frame_counter() -> Counter:
    """A model that counts digits in the frames of a film, and has learnt nothing."""
    torch.manual_seed(0)
    config = CounterConfig(size=16, most=3, channels=(4, 4), width=8)
    return Counter(models.build(config).eval(), "frames")


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


def _drop(page: Any, *paths: Path) -> None:
    """Drop files onto the field of a picture."""
    files = [[base64.b64encode(path.read_bytes()).decode(), path.name] for path in paths]
    page.evaluate(
        """(files) => {
          const transfer = new DataTransfer();
          for (const [data, name] of files) {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            transfer.items.add(new File([bytes], name, {type: "image/png"}));
          }
          document.querySelector(".use-drop").dispatchEvent(new DragEvent("drop", {dataTransfer: transfer}));
        }""",
        files,
    )


def _each(one: Visit) -> list[str]:
    """Return the counts that are shown with their probabilities, one for each picture."""
    one.page.wait_for_selector(".use-answer[aria-busy=false] .use-each li")
    texts = [one.page.locator(f".use-each {part}").all_inner_texts() for part in (".use-figure", ".note")]
    return [" ".join(pair) for pair in zip(*texts, strict=True)]


def test_pictures_that_form_a_sequence_are_taken_together_in_their_order(
    visit: Callable, server: Running, tmp_path: Path
):
    generator = np.random.default_rng(0)
    paths = [tmp_path / f"frame-{number}.png" for number in (2, 10, 1)]
    for path in paths:
        Image.fromarray(generator.integers(0, 255, (16, 16), dtype=np.uint8)).save(path)
    with server.client() as client:
        [model] = [model for model in client.get("/v1/explorer").json()["models"] if model["name"] == "frames"]
        assert model["together"] is True

        def ask(*numbers: int) -> list[str]:
            inputs = [base64.b64encode((tmp_path / f"frame-{n}.png").read_bytes()).decode() for n in numbers]
            answers = client.post("/v1/count", json={"model": "frames", "inputs": inputs}).json()["answers"]
            shares = [f"{100 * answer['probability']:.1f}".removesuffix(".0") for answer in answers]
            return [f"{answer['count']} Probability {share}%" for answer, share in zip(answers, shares, strict=True)]

        one = visit(server.url, "/#model=frames")
        _drop(one.page, *paths)
        one.page.locator(".use-frames li").nth(2).wait_for()
        names = one.page.locator(".use-frames img").evaluate_all("all => all.map((image) => image.title)")
        assert names == ["frame-1.png", "frame-2.png", "frame-10.png"]
        assert _each(one) == ask(1, 2, 10)
        assert live_line(one) == f"Answer: {', '.join(text.split()[0] for text in ask(1, 2, 10))}"
        one.page.get_by_role("button", name="Remove picture 2").click()
        one.page.locator(".use-each li").nth(2).wait_for(state="detached")
        assert _each(one) == ask(1, 10)
        assert one.page.evaluate("document.activeElement.ariaLabel") == "Remove picture 2", "the next one is at hand"
        one.page.locator("input[multiple]").set_input_files([paths[0], paths[0]])
        one.page.locator(".use-each li").nth(3).wait_for()
        assert _each(one) == ask(1, 10, 2, 2)
        check_axe(one)
        one.page.set_viewport_size({"width": 390, "height": 844})
        assert overflow(one) <= 0
    assert (one.outside, one.wrong) == ([], [])


def _tap_region(one: Visit) -> str:
    """Touch the third region of the third row of a picture of four by four, and return what is said."""
    picture = one.page.locator("#over")
    picture.wait_for()
    one.settle()
    box = picture.bounding_box()
    picture.tap(position={"x": 0.6 * box["width"], "y": 0.6 * box["height"]})
    return one.told()


def test_a_photograph_is_walked_through_on_a_phone_from_the_question_to_a_file(
    visit: Callable, server: Running, tmp_path: Path
):
    generator = np.random.default_rng(1)
    shades = np.kron(generator.integers(0, 255, (30, 40, 3), dtype=np.uint8), np.ones((30, 30, 1), dtype=np.uint8))
    Image.fromarray(shades).save(tmp_path / "photo.jpg")  # 1200 by 900 pixels
    one = visit(server.url, "/#model=eye", **PHONE)
    one.page.locator("input[capture]").set_input_files(tmp_path / "photo.jpg")
    one.page.locator(".use-body li", has_text="red").wait_for()
    word = one.page.locator(".use-regions .use-word").last
    word.tap()
    assert word.get_attribute("aria-pressed") == "true"
    assert "What speaks for" in live_line(one)
    one.page.get_by_role("button", name="See where it looked").tap()
    told = _tap_region(one)
    assert "row 3, column 3" in told
    assert overflow(one) <= 0
    (tmp_path / "saved.html").write_bytes(saved(one, "html"))
    address = f"#{one.page.url.partition('#')[2]}"
    again = visit(tmp_path / "saved.html", address, **PHONE)
    again.page.locator("#image canvas").first.wait_for()
    assert overflow(again) <= 0
    assert _tap_region(again) == told
    assert (one.outside, one.wrong, again.outside, again.wrong) == ([], [], [], [])
