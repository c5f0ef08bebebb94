"""The screen of a picture in a real browser: a map beside it whose pixels are its numbers, by pointer and keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.interpret.draw import page, view_data
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace, load

ROWS, COLUMNS, SIDE = 3, 4, 20
DARKEST = 0.85


def trace() -> Trace:
    """A picture of three by four regions, two words that looked at it, and a method of one head."""
    torch.manual_seed(0)
    boxes = [(c / COLUMNS, r / ROWS, (c + 1) / COLUMNS, (r + 1) / ROWS) for r in range(ROWS) for c in range(COLUMNS)]
    regions = [Item("", special=True), *(Item(f"{n}", box=box) for n, box in enumerate(boxes))]
    looks = torch.rand(2, 2, 1 + len(boxes)).softmax(-1)
    picture = torch.randint(256, (ROWS * SIDE, COLUMNS * SIDE, 3), dtype=torch.uint8)
    return Trace(
        "captioner",
        "captions",
        {"target": [Item(" a", word=0), Item(" dog", word=1)], "patches": regions},
        [Weights("cross", "target", "patches", looks), Weights("gradcam", "target", "patches", looks[:1].flip(1))],
        {"text": "dog.png", "answer": "a dog", "answers": [["dog", 0.75], ["cat", 0.25]],
         "curves": [
             {"name": "deletion", "values": [0.9, 0.5, 0.1], "label": "a dog", "method": "gradcam", "each": True}]},
        pictures={"patches": picture},
    )  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of that trace, which has been through a file."""
    folder = tmp_path_factory.mktemp("image")
    trace().save(folder / "trace.json")
    page.save(load(folder / "trace.json"), folder / "page.html", measures={"pointing": 0.8})
    return folder / "page.html"


def covers(one: Any) -> list[list[int]]:
    """The colour of the cover in the middle of each region."""
    script = """([rows, columns, side]) => {
      const context = document.getElementById("over").getContext("2d"), found = [];
      for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++)
        found.push([...context.getImageData((c + .5) * side, (r + .5) * side, 1, 1).data]);
      return found;
    }"""
    return one.page.evaluate(script, [ROWS, COLUMNS, SIDE])


def expected(word: int, name: str = "cross") -> torch.Tensor:
    """What the regions got from a word, from 0 for the least to 1 for the most of them."""
    values = trace().find(name).values.mean(0)[word, 1:]
    return (values - values.min()) / (values.max() - values.min())


def shades(word: int) -> list[list[float]]:
    """The colours of the map of a word on a light page."""
    return colours_of(expected(word))


def colours_of(shares: torch.Tensor) -> list[list[float]]:
    """The colours of numbers from 0 to 1 on a light page."""
    stops = torch.tensor(view_data.COLOURS["light"]).float()
    found = []
    for share in shares.tolist():
        at = round(255 * share) / 255 * (len(stops) - 1)
        low = min(int(at), len(stops) - 2)
        found.append((stops[low] * (1 - at + low) + stops[low + 1] * (at - low)).tolist())
    return found


def check_map(one: Any, word: int) -> None:
    """The map's pixels are the numbers of a word."""
    for wanted, colour in zip(shades(word), covers(one), strict=True):
        assert colour[:3] == pytest.approx(wanted, abs=1.01)
        assert colour[3] == 255


def test_the_picture_is_untouched_and_the_map_beside_it_is_stretched_to_its_range(
    visit: Callable[..., Any], file: Path
) -> None:
    one = visit(file, color_scheme="light", locale="en-GB")
    check_map(one, 0)
    values = trace().find("cross").values.mean(0)[0, 1:]
    told = one.page.locator("#image .ramp").inner_text().split()
    assert [float(part.rstrip("%")) for part in told if "%" in part] == pytest.approx(
        [100 * values.min().item(), 100 * values.max().item()], abs=0.06
    )
    first = one.page.locator(".panels figure").first
    assert first.locator("canvas").count() == 0, "nothing lies over the picture"
    shown = first.locator("img").evaluate("image => [image.naturalWidth, image.naturalHeight]")
    assert shown == [COLUMNS * SIDE, ROWS * SIDE]
    one.go(file, "#paint=light")
    torch.testing.assert_close(
        torch.tensor(covers(one))[:, 3].float(), 255 * DARKEST * (1 - expected(0)), atol=1.6, rtol=0
    )
    assert not one.wrong
    assert not one.outside


def test_two_words_stand_side_by_side(visit: Callable[..., Any], file: Path) -> None:
    one = visit(file, color_scheme="light", locale="en-GB")
    one.page.select_option("[name=beside]", "1")
    assert one.page.locator(".panels figcaption").all_inner_texts() == [
        "The picture",
        "Where “a” looked",
        "Where “dog” looked",
    ]
    middle = (
        """(over, [rows, columns, side]) => [...over.getContext("2d").getImageData(side / 2, side / 2, 1, 1).data]"""
    )
    values = trace().find("cross").values.mean(0)[:, 1:]
    together = (values - values.min()) / (values.max() - values.min())
    for word in (0, 1):
        colour = one.page.locator("canvas.over").nth(word).evaluate(middle, [ROWS, COLUMNS, SIDE])
        assert colour[:3] == pytest.approx(colours_of(together[word])[0], abs=1.01), "the same colours mean the same"
    said = one.page.locator("#scale").inner_text()
    assert [float(share) for share in re.findall(r"([\d.]+)%", said)] == pytest.approx(
        [100 * values.min().item(), 100 * values.max().item()], abs=0.06
    )
    most = int((values[1] - values[0]).abs().argmax())
    assert f"row {most // COLUMNS + 1}, column {most % COLUMNS + 1}" in one.page.locator("#difference").inner_text()
    assert "beside=1" in one.page.url


def test_words_and_regions_are_walked_by_keyboard(visit: Callable[..., Any], file: Path) -> None:
    one = visit(file, color_scheme="light")
    best = int(expected(0).argmax())
    place = f"row {best // COLUMNS + 1}, column {best % COLUMNS + 1}"
    assert one.told().startswith("“a” gave ")
    assert place in one.told()
    assert "highest" in one.told().lower()
    one.page.locator("[data-word='0']").focus()
    one.page.keyboard.press("ArrowRight")
    assert one.told().startswith("“dog” gave ")
    check_map(one, 1)
    one.page.locator("#over").focus()
    one.page.keyboard.press("Home")
    assert "row 1, column 1 " in one.told()
    one.page.keyboard.press("ArrowDown")
    assert "row 2, column 1 " in one.told()
    assert "at=1%2C4" in one.page.url
    value = trace().find("cross").values.mean(0)[1, 1 + COLUMNS].item()
    assert f"({value:.4f})" in one.told()


def test_a_click_chooses_a_region_and_a_method_has_its_own_numbers(visit: Callable[..., Any], file: Path) -> None:
    one = visit(file, "#attention=gradcam")
    area = one.page.locator("#over").bounding_box()
    one.page.mouse.click(area["x"] + area["width"] * 0.6, area["y"] + area["height"] * 0.9)
    assert "row 3, column 3 " in one.told()
    values = trace().find("gradcam").values[0, 0, 1:]
    assert f"({values[2 * COLUMNS + 2].item():.4f})" in one.told()
    assert "dog" in one.page.locator("aside").inner_text()
    assert one.page.locator(".curve canvas").get_attribute("aria-label").endswith("90%, 50%, 10%")
    ranked = "regions as ranked by gradients of the last map (Grad-CAM), mean of all words."
    told = f"How probable a word of “a dog” is (geometric mean); {ranked}"
    assert told in one.page.locator("aside").inner_text()


def asked() -> Trace:
    """The same picture to a classifier: a map for each of two labels, and regions that look at one another."""
    whole = trace()
    regions = whole.items["patches"]
    looks = torch.rand(2, len(regions), len(regions)).softmax(-1)
    maps = whole.find("gradcam").values
    lines = {"values": [0.75, 0.5, 0.125], "control": [0.75, 0.625, 0.125], "area": 0.46875, "control_area": 0.53125}
    other = {"values": [0.75, 0.25, 0.125], "control": lines["control"], "area": 0.34375, "control_area": 0.53125}
    curves = [{"name": "deletion", "label": "dog", "method": name, **own} for name, own in
              (("gradcam", other), ("attention", lines))]  # fmt: skip
    return Trace(
        "classifier",
        "pictures",
        {"source": regions, "asked": [Item("dog", word=0), Item("cat", word=1)]},
        [
            Weights("blocks.0", "source", "source", looks),
            *(Weights(name, "asked", "source", maps) for name in ("gradcam", "attention")),
        ],
        {**whole.facts, "answer": "dog", "curves": curves},
        pictures={"source": whole.pictures["patches"]},
    )


def test_a_map_has_labels_and_no_heads_and_its_curve_says_what_it_is_of(visit: Callable[..., Any], file: Path) -> None:
    path = file.with_name("asked.html")
    page.save(asked(), path)
    one = visit(path)
    assert one.page.locator("#screens a").all_inner_texts() == ["Picture", "Attention", "Heads"], "no vectors were kept"
    assert "of what speaks for “dog” lies in row" in one.told()
    assert "an equal share is 8.3%" in one.told()
    assert "from label to label" in one.page.locator("#keys").inner_text()
    assert not one.page.locator("select[name=head]").is_visible()
    shown = one.page.locator("aside").inner_text()
    assert "How probable “dog” is; regions as ranked by attention of the last layer." in shown
    verdict = (
        "Taking away what it looked at costs more than taking away anything: on average 46.9% is left, against 53.1%."
    )
    assert verdict in shown
    assert "deletion: from 75% to 12.5%; on average 46.9%, in random orders (dashed) 53.1%" in shown
    spoken = one.page.locator(".curve canvas").get_attribute("aria-label")
    assert spoken.endswith("75%, 50%, 12.5%; in random orders: 75%, 62.5%, 12.5%")
    one.go(path, "#attention=gradcam")
    shown = one.page.locator("aside").inner_text()
    assert "regions as ranked by gradients of the last map (Grad-CAM)." in shown
    assert "on average 34.4%, in random orders" in shown
    assert one.page.locator(".curve").count() == 1, "those of one method alone"
    one.go(path, "#attention=blocks.0&at=5,0")
    assert "ranked by attention of the last layer." in one.page.locator("aside").inner_text()
    assert one.told().startswith("The region in row 2, column 2 gave ")
    assert one.page.locator("select[name=head]").is_visible()
    one.go(path, "#paint=numbers")
    assert one.page.locator("#image thead th").all_inner_texts()[1:] == [str(n + 1) for n in range(COLUMNS)]
    assert one.page.locator("#image caption").inner_text().startswith("What speaks for “dog”")
    one.go(path, "#screen=heads")
    assert {each.get_attribute("data-name") for each in one.page.locator("#heads .tiles button").all()} == {"blocks.0"}
    assert not one.page.locator("select[name=level]").is_visible()
    maps = asked()
    page.save(replace(maps, weights=maps.weights[1:]), path)
    one.go(path, "#screen=heads&lang=fr")
    assert one.page.locator("#screens a").all_inner_texts() == ["Image"]
    assert not one.wrong


def test_the_table_holds_the_same_numbers_in_both_languages(visit: Callable[..., Any], file: Path) -> None:
    one = visit(file, "#paint=numbers&at=1,0")
    cells = [float(text) for text in one.page.locator("#image td").all_inner_texts()[: ROWS * COLUMNS]]
    values = trace().find("cross").values.mean(0)[1, 1:]
    assert cells == pytest.approx(values.tolist(), abs=5e-5)
    one.page.locator("#language").click()
    assert one.page.locator("#image caption").inner_text().startswith("Ce que «\xa0dog\xa0» a donné")
    assert not one.wrong


def test_the_other_screens_are_there_and_a_page_without_pictures_has_none(
    visit: Callable[..., Any], file: Path
) -> None:
    one = visit(file)
    assert one.page.locator("#screens a").all_inner_texts()[0] == "Picture"
    one.page.locator("[data-screen=alignment]").click()
    assert one.page.locator("#matrix").count() == 1
    without = file.with_name("without.html")
    whole = trace()
    page.save(Trace(whole.model, whole.task, whole.items, whole.weights, whole.facts), without)
    one.go(without, "#screen=image")
    assert "Picture" not in one.page.locator("#screens a").all_inner_texts()
    assert one.page.locator("#matrix").count() == 1


def test_crops_are_boxes_that_let_the_pointer_through(visit: Callable[..., Any], file: Path) -> None:
    whole, boxed = trace(), file.with_name("boxed.html")
    crops = [[[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]], [[0.1, 0.5], [0.5, 0.1], [0.9, 0.5], [0.5, 0.9]]]
    page.save(replace(whole, facts={**whole.facts, "crops": crops}), boxed)
    one = visit(boxed)
    script = """places => {
      const canvas = document.querySelector(".crops"), context = canvas.getContext("2d");
      return places.map(([x, y]) => [...context.getImageData(x * canvas.width, y * canvas.height, 1, 1).data]);
    }"""
    first, second = [255, 176, 0, 255], [100, 181, 255, 255]
    on, off = [[0.25, 0.25], [0.5, 0.25], [0.75, 0.6], [0.1, 0.5], [0.7, 0.3]], [[0.5, 0.5], [0.95, 0.05]]
    found = one.page.evaluate(script, [*on, *off])
    assert found == [first, first, first, second, second, [0, 0, 0, 0], [0, 0, 0, 0]]
    assert "50% 10%" in one.page.locator(".crops").get_attribute("aria-label")
    area = one.page.locator("#over").bounding_box()
    one.page.mouse.click(area["x"] + area["width"] * 0.6, area["y"] + area["height"] * 0.9)
    assert "row 3, column 3 " in one.told()
    assert visit(file).page.locator(".crops").count() == 0
    assert not one.wrong
