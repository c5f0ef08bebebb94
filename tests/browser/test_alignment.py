"""The screen of one attention in a real browser: words in sight and apart, masks, sentences, tables and files."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from regard.attention.attend import weigh
from regard.interpret.draw import page
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from tests.browser.conftest import CROSS, Visit, saved
from tests.browser.test_page import PIXELS, coloured, words_of

pytestmark = pytest.mark.unchecked
TEXT = "Les habitants de l'Angleterre parlent souvent du temps , car il change vite ."
SELF, CAUSAL = "encoder.0.attention", "decoder.0.attention"
BOXES = """all => all.filter(one => !one.hidden).map(one => {
  const { left, top, right, bottom } = one.getBoundingClientRect();
  return [one.textContent, left, top, right, bottom];
})"""


def long_text(count: int) -> list[Item]:
    """So many pieces of words and sentences; after an apostrophe a new piece begins."""
    items: list[Item] = []
    while len(items) < count:
        for word in TEXT.split():
            number = len({item.word for item in items})
            pieces = re.findall(r"[^']+'?", word)
            items += [Item(f"{'' if n else ' '}{piece}", word=number) for n, piece in enumerate(pieces)]
    return items[:count]


def made(count: int) -> Trace:
    """A trace of so many pieces: two heads of self-attention, of masked and of cross attention."""
    torch.manual_seed(0)
    items, later = long_text(count), torch.ones(count, count).triu(1).bool()
    scores = {name: 3 * torch.randn(2, count, count) for name in (SELF, CAUSAL, CROSS)}
    scores[SELF][:, 0, 0] += 40  # one cell of 1, beside which all others are small
    scores[CAUSAL] = scores[CAUSAL].masked_fill(later, -torch.inf)
    sides = {SELF: ("source", "source"), CAUSAL: ("target", "fed"), CROSS: ("target", "source")}
    weights = [Weights(name, *sides[name], weigh(values)) for name, values in scores.items()]
    return Trace("m", "translation", dict.fromkeys(("source", "target", "fed"), items), weights)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of 5, 40, 128 and 512 pieces."""
    folder = tmp_path_factory.mktemp("long")
    for count in (5, 40, 128, 512):
        page.save(made(count), folder / f"{count}.html")
    return folder


@pytest.fixture(scope="module")
def desk(browser: Any) -> Iterator[Visit]:
    """One window for all tests that need no other."""
    context = browser.new_context(viewport={"width": 1100, "height": 800}, locale="en-GB", color_scheme="light")
    one = Visit(context.new_page())
    one.page.on("pageerror", lambda error: one.wrong.append(str(error)))
    yield one
    assert one.wrong == []
    context.close()


@pytest.mark.parametrize("count", [5, 40, 128])
def test_labels_never_overlap_and_every_word_is_text_in_the_page(desk: Visit, folder: Path, count: int):
    for address in ("#sentence=all", "#sentence=all&zoom=5&at=2,3", "#sentence=all&zoom=40&level=subword"):
        desk.go(folder / f"{count}.html", address)
        for side, (first, last) in {"rows": (2, 4), "columns": (1, 3)}.items():
            labels = desk.page.locator(f".grid .{side} .label")
            boxes = labels.evaluate_all(BOXES)
            assert len(boxes) >= (1 if "zoom=5" in address else min(count, 12) - 2)
            assert all(one[last] <= other[first] + 0.6 for one, other in pairwise(boxes)), address
        level = "subword" if "subword" in address else "word"
        shown = [re.sub(r"\s", "", text) for text in desk.page.locator(".grid .columns .label").all_text_contents()]
        assert "".join(shown) == "".join(item.text.strip() for item in long_text(count)), level


def test_words_stay_beside_the_cells_while_these_scroll(desk: Visit, folder: Path):
    desk.go(folder / "128.html", "#sentence=all")
    grid = desk.page.locator(".grid")
    grid.evaluate("grid => { grid.scrollLeft = 700; grid.scrollTop = 500; }")
    desk.wait_until("document.getElementById('matrix').dataset.left === '-700'")
    frame = grid.bounding_box()
    for side, name, far in (("rows", "x", 200), ("columns", "y", 200)):
        boxes = desk.page.locator(f".grid .{side}").bounding_box()
        assert frame[name] - 1 <= boxes[name] < frame[name] + far, side
    trace = made(128)
    values = desk.page.evaluate(PIXELS, [[45, 50]])
    [shown] = values
    words = words_of(trace)
    assert shown[:3] == pytest.approx(coloured(float(words[45, 50] / words.max()), "light"), abs=3)


PLACES = """labels => labels.map(label => {
  const { left, width } = label.getBoundingClientRect(), { dataset } = document.getElementById("matrix");
  const canvas = document.getElementById("matrix").getBoundingClientRect();
  const column = canvas.left + +dataset.left + label.dataset.place * dataset.cell;
  return [Number(label.dataset.place), left - column, width - dataset.cell];
})"""


def test_words_of_a_long_text_have_labels_where_they_are_in_sight(desk: Visit, folder: Path):
    desk.go(folder / "512.html", "#sentence=all&level=subword")
    labels = desk.page.locator(".grid .columns .label:not([hidden])")

    def check() -> list[int]:
        numbers, lefts, widths = zip(*labels.evaluate_all(PLACES), strict=True)
        assert max(map(abs, lefts)) < 1.5, "every label stands over its column"
        assert max(map(abs, widths)) < 1.5
        return list(numbers)

    assert 30 < len(check()) < 120
    assert check() == list(range(len(check())))
    desk.page.locator(".grid").evaluate("grid => { grid.scrollLeft = 5000; }")
    desk.wait_until("document.getElementById('matrix').dataset.left === '-5000'")
    cell = float(desk.page.locator("#matrix").get_attribute("data-cell"))
    numbers = check()
    assert 5000 / cell - 12 < numbers[0] < 5000 / cell < numbers[-1]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    desk.page.focus("#matrix")
    desk.page.keyboard.press("+")
    desk.wait_until(f"document.getElementById('matrix').dataset.cell > {cell}")
    assert len(check()) < len(numbers)


def test_wheel_and_keys_change_the_size_of_the_cells_around_what_is_pointed_at(desk: Visit, folder: Path):
    desk.go(folder / "128.html", "#sentence=all")
    size = lambda: float(desk.page.locator("#matrix").get_attribute("data-cell"))  # noqa: E731
    box = desk.page.locator(".grid").bounding_box()
    at = {"x": box["x"] + 400, "y": box["y"] + 300}
    desk.page.mouse.move(**at)
    told, before = desk.told(), size()
    desk.page.keyboard.down("Control")
    desk.page.mouse.wheel(0, -60)
    desk.page.keyboard.up("Control")
    desk.wait_until(f"+document.getElementById('matrix').dataset.cell > {before}")
    desk.page.mouse.move(at["x"] + 1, at["y"])
    assert desk.told().split("gave")[0] == told.split("gave")[0], "the same row lies under the pointer"
    desk.page.focus("#matrix")
    desk.page.keyboard.press("0")
    assert size() == before
    desk.page.keyboard.press("-")
    assert size() == pytest.approx(0.8 * before)
    desk.page.click("[data-zoom=whole]")
    grid = "grid => [grid.scrollWidth - grid.clientWidth, grid.scrollHeight - grid.clientHeight]"
    assert max(desk.page.locator(".grid").evaluate(grid)) <= 12, "all is in sight"


def test_what_is_masked_is_hatched_and_said_to_be_masked(desk: Visit, folder: Path):
    desk.go(folder / "40.html", f"#attention={CAUSAL}&sentence=all&at=2,6&zoom=30")
    assert desk.told() == "“de” could not look at “du”: it comes later."
    shades = """([row, column]) => {
      const canvas = document.getElementById("matrix"), d = canvas.dataset, pen = canvas.getContext("2d");
      const [x, y, side] = [+d.left + column * d.cell + 2, +d.top + row * d.cell + 2, d.cell - 4];
      const { data } = pen.getImageData(x, y, side, side);
      return new Set(Array.from({ length: data.length / 4 }, (_, i) => data[4 * i] << 8 | data[4 * i + 1])).size;
    }"""
    assert desk.page.evaluate(shades, [2, 6]) > 4, "lines on a ground"
    assert desk.page.evaluate(shades, [6, 2]) == 1, "a number is one shade"
    assert desk.page.locator(".ramp").inner_text().endswith("could not be looked at")


def test_self_attention_is_coloured_line_by_line_unless_asked_otherwise(desk: Visit, folder: Path):
    darkest = f"""(rows) => ({PIXELS})(rows.flatMap(row => [...Array(33).keys()].map(c => [row, c])))"""

    def dark_rows() -> int:
        pixels = desk.page.evaluate(darkest, list(range(10)))
        return sum(any(sum(shade[:3]) < 200 for shade in pixels[33 * row : 33 * row + 33]) for row in range(10))

    desk.go(folder / "40.html", f"#attention={SELF}&sentence=all&zoom=15")
    assert dark_rows() == 10, "each row has its darkest cell"
    desk.go(folder / "40.html", f"#attention={SELF}&sentence=all&zoom=15&scale=max")
    assert dark_rows() < 5, "one cell of 1 sets the scale"


def test_a_word_is_opened_into_its_parts_and_closed_again(desk: Visit, folder: Path):
    desk.go(folder / "40.html", "#sentence=all")
    names = desk.page.locator(".grid .columns .label")
    assert names.nth(3).inner_text() == "l'Angleterre"
    names.nth(3).click()
    assert names.all_inner_texts()[2:6] == ["de", "l'", "Angleterre", "parlent"]
    assert "unfolded=k3" in desk.page.url
    pieces, words = made(40), words_of(made(40))
    columns = desk.page.locator(".grid .columns .label").count()
    assert columns == words.shape[1] + 1
    exact = pieces.find(CROSS).values.mean(0)
    desk.page.locator("#matrix").focus()
    desk.page.keyboard.press("Home")
    for _ in range(3):
        desk.page.keyboard.press("ArrowRight")
    assert f"({exact[0, 3].item():.4f})" in desk.told(), "of the part l' alone"
    names.nth(3).click()
    assert desk.page.locator(".grid .columns .label").count() == columns - 1
    desk.page.select_option("[name=level]", "part")
    assert "l'" in names.all_inner_texts()


def test_several_heads_have_their_part_of_each_cell_in_their_own_colour(desk: Visit, folder: Path):
    desk.go(folder / "5.html", "#over=0,1&scale=full&level=subword")
    weights = made(5).find(CROSS).values
    pixel = """([row, column, part]) => {
      const canvas = document.getElementById("matrix"), d = canvas.dataset;
      const x = Math.round((column + part) * d.cell), y = Math.round((row + 0.5) * d.cell);
      return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
    }"""
    for row in range(5):
        red, green, blue, _ = desk.page.evaluate(pixel, [row, 1, 0.25])
        share = weights[0, row, 1].item()
        if share > 0.03:
            assert [red, green, blue] == pytest.approx([255 - 255 * share, 255 - 141 * share, 255 - 77 * share], abs=4)
    assert desk.page.locator("ul.layers li").all_inner_texts() == ["head 0", "head 1"]
    desk.page.uncheck("[name=over-1]")
    assert desk.page.locator("ul.layers").count() == 0


def test_files_of_several_heads_hold_the_numbers_of_each_and_open_again_as_they_were(
    visit: Callable, file: Path, watched: Any, tmp_path: Path
):
    one = visit(file, f"#attention={CAUSAL}&over=1,0&level=subword&specials=1&scale=full", locale="en-GB")
    one.page.locator("ul.layers").wait_for()
    attention = watched[0].find(CAUSAL)
    hidden = torch.ones_like(attention.values[0]).triu(1).bool()
    heads = [attention.values[1], attention.values[0]]
    lines = list(csv.reader(io.StringIO(saved(one, "csv").decode("utf-8-sig"))))
    assert lines[0] == ["query", "key", "head 1", "head 0"]
    shown = json.loads(saved(one, "json"))
    svg = saved(one, "svg").decode()
    assert [layer["head"] for layer in shown["heads"]] == [1, 0]
    for column, (head, matrix) in enumerate(zip((1, 0), heads, strict=True)):
        cells = [line[2 + column] for line in lines[1:]]
        assert [cell == "not allowed" for cell in cells] == hidden.flatten().tolist()
        numbers = torch.tensor([float(cell) for cell in cells if cell != "not allowed"])
        assert torch.allclose(numbers, matrix[~hidden], rtol=1e-6)
        weights = [cell for line in shown["heads"][column]["weights"] for cell in line]
        assert [cell is None for cell in weights] == hidden.flatten().tolist()
        assert torch.allclose(torch.tensor([cell for cell in weights if cell is not None]), matrix[~hidden], rtol=1e-6)
        drawn = re.findall(rf'fill-opacity="([^"]+)" data-head="{head}" data-value="([^"]+)"', svg)
        assert torch.allclose(torch.tensor([float(value) for _, value in drawn]), matrix[~hidden], rtol=1e-6)
        assert [float(opacity) for opacity, _ in drawn] == pytest.approx(matrix[~hidden].tolist(), abs=1e-6)
    assert svg.count("data-masked") == int(hidden.sum())
    assert len(set(re.findall(r'<pattern id="(layer-\d)"', svg))) == 2
    assert saved(one, "png").startswith(b"\x89PNG")
    (tmp_path / "again.html").write_bytes(saved(one, "html"))
    again = visit(tmp_path / "again.html", locale="en-GB")
    assert again.page.locator("ul.layers li").all_inner_texts()[:2] == ["head 1", "head 0"], (
        "without an address of its own"
    )
    assert json.loads(saved(again, "json")) == shown
    assert (one.wrong, again.wrong, again.outside) == ([], [], [])


def test_a_long_text_is_shown_sentence_by_sentence(desk: Visit, folder: Path):
    desk.go(folder / "128.html")
    assert desk.page.locator(".sentences").inner_text().replace("\n", " ").split(" › ")[0].endswith("Sentence 1 of 9")
    rows = desk.page.locator(".grid .rows .label")
    assert rows.all_text_contents()[-1] == "."
    assert rows.count() == len(TEXT.split())
    desk.page.get_by_role("button", name="Next sentence").click()
    assert "sentence=1" in desk.page.url
    assert rows.first.inner_text() == "Les"
    desk.page.get_by_role("button", name="All together").click()
    assert rows.count() == words_of(made(128)).shape[0]


def test_a_table_of_512_pieces_draws_what_is_in_sight_and_has_every_number(desk: Visit, folder: Path):
    desk.go(folder / "512.html", "#view=table&level=subword&sentence=all")
    assert desk.page.locator("#numbers td").count() < 3000
    assert desk.page.locator("#numbers").get_attribute("aria-rowcount") == "513"
    exact = made(512).find(CROSS).values.mean(0)
    for row, column in ((0, 0), (300, 200), (511, 511)):
        go = "(one, [row, column]) => { one.scrollTop = 30 * (row - 3); one.scrollLeft = 76 * (column - 3); }"
        desk.page.locator(".tall").evaluate(go, [row, column])
        cell = desk.page.locator(f"#numbers tr[aria-rowindex='{row + 2}'] td[aria-colindex='{column + 2}']")
        cell.wait_for()
        assert float(cell.inner_text()) == pytest.approx(exact[row, column].item(), abs=6e-4)


AT = """([x, y]) => {
  const canvas = document.getElementById("matrix"), box = canvas.getBoundingClientRect();
  const { left, top, cell } = canvas.dataset;
  return [(x - box.left - left) / cell, (y - box.top - top) / cell];
}"""


def test_two_fingers_change_the_size_of_the_cells_around_them(visit: Callable, folder: Path):
    one = visit(folder / "128.html", "#sentence=all", viewport={"width": 390, "height": 844}, has_touch=True)
    one.page.locator("#matrix").scroll_into_view_if_needed()
    size = lambda: float(one.page.locator("#matrix").get_attribute("data-cell"))  # noqa: E731
    box = one.page.locator(".grid").bounding_box()
    middle = [box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"]]
    driver = one.page.context.new_cdp_session(one.page)

    def touch(kind: str, *distances: float) -> None:
        for distance in distances:
            points = [{"x": middle[0] + side * distance, "y": middle[1], "id": n} for n, side in enumerate((-1, 1))]
            driver.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    before, cell = size(), one.page.evaluate(AT, middle)
    touch("touchStart", 20)
    touch("touchMove", *range(22, 42, 2))
    driver.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    one.settle()
    assert size() == pytest.approx(2 * before, rel=0.1), "fingers twice as far apart"
    assert one.page.evaluate(AT, middle) == pytest.approx(cell, abs=1), "what is between them stays there"
    touch("touchStart", 60)
    touch("touchMove", *range(58, 28, -2))
    driver.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert size() == pytest.approx(before, rel=0.1)
    assert f"zoom={size():g}" in one.page.url or size() == pytest.approx(before)
    assert one.page.evaluate("visualViewport.scale") == 1, "the page itself is not zoomed"
    assert one.wrong == []


def test_files_hold_the_numbers_of_the_model(visit: Callable, file: Path, watched: Any, tmp_path: Path):
    one = visit(file, "#at=1,2", locale="en-GB")
    matrix, told = words_of(watched[0]), one.told()
    rows = list(csv.reader(io.StringIO(saved(one, "csv").decode("utf-8-sig"))))
    assert rows[0] == ["", "Le", "chat", "noir", "dort", "."]
    assert [row[0] for row in rows[1:]] == ["The", "black", "cat", "sleps", "."]
    assert torch.allclose(torch.tensor([[float(cell) for cell in row[1:]] for row in rows[1:]]), matrix, rtol=1e-6)
    found = json.loads(saved(one, "json"))
    assert (found["attention"], found["rows"][1]) == (CROSS, "black")
    assert torch.allclose(torch.tensor(found["weights"]), matrix, rtol=1e-6)
    svg = saved(one, "svg").decode()
    values = torch.tensor([float(value) for value in re.findall(r'data-value="(.*?)"', svg)])
    assert torch.allclose(values, matrix.flatten(), rtol=1e-6)
    shades = re.findall(r'fill="rgb\((\d+),(\d+),(\d+)\)"', svg)
    for shade, value in zip(shades, matrix.flatten().tolist(), strict=True):
        assert [int(part) for part in shade] == pytest.approx(coloured(value / float(matrix.max()), "light"), abs=3)
    image = Image.open(io.BytesIO(saved(one, "png")))
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    assert image.size == tuple(2 * int(float(side)) for side in size.groups())
    (tmp_path / "again.html").write_bytes(saved(one, "html"))
    again = visit(tmp_path / "again.html", "#at=1,2", locale="en-GB")
    assert again.told() == told
    assert one.told() == "Saved as regard-decoder.0.cross-mean.html."
    assert json.loads(saved(again, "json")) == found
    one.page.select_option("[name=view]", "ribbon")
    strong = [float(value) for value in re.findall(r'data-value="(.*?)"', saved(one, "svg").decode())]
    assert strong == pytest.approx([value for value in matrix.flatten().tolist() if value / matrix.max() >= 0.02])
    assert (one.wrong, again.wrong, again.outside) == ([], [], [])


def test_the_strongest_looks_and_the_worth_of_an_alignment_are_said(visit: Callable, watched: Any, tmp_path: Path):
    for value, word in ((0.25, "better"), (0.39, "no better")):
        measures = {"AER of this sentence": value, "AER of the diagonal": 0.4}
        page.save(watched[0], tmp_path / "page.html", measures=measures)
        one = visit(tmp_path / "page.html", locale="en-GB")
        assert f"find the right words {word} than their controls do" in one.page.locator(".verdict").inner_text()
    matrix = words_of(watched[0])
    best = matrix.flatten().topk(3).values.tolist()
    told = one.page.locator("#strongest").inner_text()
    assert [float(share) for share in re.findall(r"([\d.]+)%", told)] == pytest.approx(
        [100 * b for b in best], abs=0.06
    )


def test_strange_words_do_nothing_but_appear(visit: Callable, tmp_path: Path):
    words = ["</script>", "<img src=x onerror=alert(1)>", "\u0301\u0302", "x" * 500, "🧑‍🚀", "السلام", "=1+1"]
    items = [Item(f" {word}", word=place) for place, word in enumerate(words)]
    trace = Trace(
        "m", "t", {"source": items, "target": items}, [Weights(CROSS, "target", "source", torch.eye(7)[None])]
    )
    page.save(trace, tmp_path / "page.html")
    one = visit(tmp_path / "page.html", "#at=5,5", locale="en-GB")
    assert one.page.locator(".grid .rows .label").all_text_contents() == words
    assert "“\u2068السلام\u2069” gave 100%" in one.told(), "words from right to left keep to themselves"
    assert one.page.locator(".grid .rows .label").nth(5).evaluate("one => getComputedStyle(one).direction") == "rtl"
    lines = list(csv.reader(io.StringIO(saved(one, "csv").decode("utf-8-sig"))))
    assert lines[0][1:] == [*words[:-1], "'=1+1"], "a spreadsheet computes nothing"
    assert saved(one, "svg").count(b"<rect") == 50
    assert saved(one, "png").startswith(b"\x89PNG")
    for view in ("ribbon", "table"):
        one.page.select_option("[name=view]", view)
        assert one.page.evaluate("document.documentElement.scrollWidth") == 1100
    assert (one.wrong, one.outside) == ([], [])
