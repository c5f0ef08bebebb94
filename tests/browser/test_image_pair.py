"""Two pictures side by side in a real browser, from a server and from a file: one scale of colours, and the address."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from regard.interpret.draw import page, view_data
from regard.interpret.trace import Trace
from tests.browser.conftest import Visit, saved
from tests.browser.live import PHONE, check_axe, overflow
from tests.browser.test_image import COLUMNS, ROWS, SIDE, asked
from tests.serve.harness import Running, make_eye, serving

pytestmark = pytest.mark.unchecked
LEVELS = """(canvases) => canvases.map((canvas) => {
  const pen = canvas.getContext("2d"), [rows, columns] = [ROWS, COLUMNS];
  const middle = (place, count, length) => Math.floor((place + 0.5) * length / count);
  return Array.from({ length: rows * columns }, (_, n) => {
    const [x, y] = [middle(n % columns, columns, canvas.width), middle(Math.floor(n / columns), rows, canvas.height)];
    return [...pen.getImageData(x, y, 1, 1).data];
  });
})"""


def levels(one: Visit, rows: int, columns: int) -> list[list[list[int]]]:
    """Return the colours of the regions of every map that is shown."""
    script = LEVELS.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    return one.page.locator("canvas.over").evaluate_all(script)


def expected_colours(shares: torch.Tensor) -> torch.Tensor:
    """Return the colours of numbers from 0 to 1 on a light page."""
    stops = torch.tensor(view_data.COLOURS["light"]).float()
    at = (255 * shares).round() / 255 * (len(stops) - 1)
    low = at.long().clamp(max=len(stops) - 2)
    return stops[low] * (1 - at + low)[:, None] + stops[low + 1] * (at - low)[:, None]


def two_traces() -> tuple[Trace, Trace]:
    """Return the traces of one classifier about two pictures, the second far more even."""
    first = asked()
    weights = [replace(entry, values=entry.values.flip(-1) / 4) for entry in first.weights]
    picture = 255 - first.pictures["source"]
    facts = {**first.facts, "text": "cat.png", "answer": "cat", "answers": [["cat", 0.9], ["dog", 0.1]]}
    return first, replace(first, weights=weights, facts=facts, pictures={"source": picture})


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page that holds two traces."""
    path = tmp_path_factory.mktemp("pair") / "pair.html"
    first, second = two_traces()
    page.save(first, path, beside=second)
    return path


def maps_of(word: int, other: int) -> torch.Tensor:
    """Return what both maps of the method Grad-CAM have, stretched between their common least and most."""
    values = torch.stack(
        [trace.find("gradcam").values[0, n, 1:] for trace, n in zip(two_traces(), (word, other), strict=True)]
    )
    return (values - values.min()) / (values.max() - values.min())


def test_a_file_of_two_pictures_shows_both_in_the_same_colours(visit: Callable[..., Visit], pair: Path):
    one = visit(pair, "#attention=gradcam", color_scheme="light", locale="en-GB")
    heads = one.page.locator(".maps h2").all_inner_texts()
    assert heads == ["A: dog.png → dog", "B: cat.png → cat"]
    shared = maps_of(0, 0)
    for shown, wanted in zip(levels(one, ROWS, COLUMNS), shared, strict=True):
        colours = torch.tensor(shown)[:, :3].float()
        assert torch.allclose(colours, expected_colours(wanted), atol=1.1)
    values = torch.stack([trace.find("gradcam").values[0, 0, 1:] for trace in two_traces()])
    said = one.page.locator("#scale").inner_text()
    assert "same colours" in said
    assert [float(text) for text in re.findall(r"([\d.]+)%", said)] == pytest.approx(
        [100 * values.min().item(), 100 * values.max().item()], abs=0.06
    )
    pictures = one.page.locator(".maps .panels figure:first-child img")
    assert pictures.nth(0).get_attribute("src") != pictures.nth(1).get_attribute("src")
    one.page.select_option("[name=beside]", "o1")
    assert "beside=o1" in one.page.url
    assert torch.allclose(
        torch.tensor(levels(one, ROWS, COLUMNS)[1])[:, :3].float(), expected_colours(maps_of(0, 1)[1]), atol=1.1
    )
    one.page.select_option("[name=beside]", "")
    assert one.page.locator(".maps").count() == 0
    assert "beside=" in one.page.url
    assert (one.wrong, one.outside) == ([], [])


def test_files_of_two_maps_hold_the_numbers_of_both(visit: Callable[..., Visit], pair: Path, tmp_path: Path):
    one = visit(pair, "#attention=gradcam&beside=o1&at=1,3", locale="en-GB")
    wanted = [trace.find("gradcam").values[0, 1, 1:].tolist() for trace in two_traces()]
    lines = list(csv.reader(io.StringIO(saved(one, "csv").decode("utf-8-sig"))))
    assert [float(line[-1]) for line in lines[1:]] == pytest.approx([*wanted[0], *wanted[1]], rel=1e-6)
    kept = json.loads(saved(one, "json"))
    for entry, numbers in zip(kept["maps"], wanted, strict=True):
        assert [region["weight"] for region in entry["regions"]] == pytest.approx(numbers, rel=1e-6)
    svg = saved(one, "svg").decode()
    assert [float(value) for value in re.findall(r'data-value="(.*?)"', svg)] == pytest.approx(
        [*wanted[0], *wanted[1]], rel=1e-6
    )
    assert svg.count("<image") == 2
    (tmp_path / "again.html").write_bytes(saved(one, "html"))
    again = visit(tmp_path / "again.html", locale="en-GB")
    assert again.told() == visit(pair, "#attention=gradcam&beside=o1&at=1,3", locale="en-GB").told()
    assert json.loads(saved(again, "json")) == kept


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_two_pictures_stand_below_each_other_on_a_phone(visit: Callable[..., Visit], pair: Path, scheme: str):
    one = visit(pair, "#attention=gradcam", **PHONE, color_scheme=scheme, locale="fr-FR")
    first, second = (one.page.locator(".maps > div").nth(n).bounding_box() for n in (0, 1))
    assert second["y"] >= first["y"] + first["height"]
    assert "les mêmes couleurs" in one.page.locator("#scale").inner_text()
    check_axe(one)
    assert overflow(one) <= 0
    wide = visit(pair, "#attention=gradcam", color_scheme=scheme)
    first, second = (wide.page.locator(".maps > div").nth(n).bounding_box() for n in (0, 1))
    assert second["y"] == first["y"]
    check_axe(wide)


def test_what_a_region_may_not_look_at_is_hatched_on_the_picture_too(visit: Callable[..., Visit], tmp_path: Path):
    trace = asked()
    look = trace.find("blocks.0")
    visible = torch.ones(look.values.shape[1:], dtype=torch.bool).tril()
    masked = replace(look, values=look.values * visible, visible=visible)
    page.save(replace(trace, weights=[masked, *trace.weights[1:]]), tmp_path / "page.html")
    one = visit(tmp_path / "page.html", "#attention=blocks.0&at=4,8", locale="en-GB", color_scheme="light")
    assert "was not allowed to look at the region in row 3, column 1" in one.told()
    assert one.page.locator("#image .ramp .hatched").count() == 1
    shades = """(canvas, [column, row, side]) => {
      const pen = canvas.getContext("2d");
      const { data } = pen.getImageData(column * side + 2, row * side + 2, side - 4, side - 4);
      return new Set(Array.from({ length: data.length / 4 }, (_, i) => data[4 * i])).size;
    }"""
    over = one.page.locator("#over")
    assert over.evaluate(shades, [0, 2, SIDE]) > 1, "lines where nothing may be seen"
    assert over.evaluate(shades, [0, 0, SIDE]) == 1
    rows = list(csv.reader(io.StringIO(saved(one, "csv").decode("utf-8-sig"))))
    assert [row[-1] == "not allowed" for row in rows[1:]] == (~visible[5, 1:]).tolist(), "the fifth region looks"
    assert saved(one, "svg").decode().count("data-masked") == int((~visible[5, 1:]).sum())


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """Return a server of a classifier of pictures."""
    with serving({"eye": make_eye()}) as running:
        yield running


def paint(path: Path, colour: tuple[int, int, int]) -> Path:
    """Write a picture with a square of another colour."""
    picture = Image.new("RGB", (16, 16), colour)
    picture.paste((250, 250, 250), (2, 2, 8, 8))
    picture.save(path)
    return path


def test_a_server_is_asked_about_a_second_picture_and_the_address_brings_both_back(
    visit: Callable[..., Visit], server: Running, tmp_path: Path
):
    one = visit(server.url, "/#model=eye", locale="en-GB")
    one.page.locator("input[type=file]").first.set_input_files(paint(tmp_path / "red.png", (200, 20, 20)))
    one.page.get_by_role("button", name="See where it looked").click()
    one.page.locator("#image canvas").first.wait_for()
    one.page.locator(".other-picture input[type=file]").first.set_input_files(
        paint(tmp_path / "blue.png", (20, 20, 200))
    )
    one.page.locator(".maps canvas.over").nth(1).wait_for()
    assert re.search(r"opened=[\w-]+", one.page.url)
    assert re.search(r"other=[\w-]+&|other=[\w-]+$", one.page.url)
    kept = json.loads(saved(one, "json"))
    assert [len(entry["regions"]) for entry in kept["maps"]] == [16, 16]
    weights = [[region["weight"] for region in entry["regions"]] for entry in kept["maps"]]
    assert weights[0] != weights[1]
    one.page.reload()
    one.page.wait_for_selector("html[data-drawn]")
    one.page.locator(".maps canvas.over").nth(1).wait_for()
    assert json.loads(saved(one, "json")) == kept
    (tmp_path / "pair.html").write_bytes(saved(one, "html"))
    file = visit(tmp_path / "pair.html", locale="en-GB")
    again = json.loads(saved(file, "json"))
    assert [[region["weight"] for region in entry["regions"]] for entry in again["maps"]] == weights
    check_axe(one)
    assert (one.wrong, one.outside, file.wrong, file.outside) == ([], [], [], [])


def test_a_picture_that_the_server_forgot_is_said_to_be_gone(
    visit: Callable[..., Visit], server: Running, tmp_path: Path
):
    one = visit(server.url, "/#model=eye&screen=image&opened=nothing&other=nothing&beside=o", locale="en-GB")
    one.page.locator("#trouble p").wait_for()
    assert "no longer has this" in one.page.locator("#trouble").inner_text()
