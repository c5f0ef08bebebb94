"""The screen of a graph in a real browser: lines, colours and names are the numbers of its table."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.interpret.draw import neighbourhood, page
from regard.interpret.trace import Trace, load
from regard.models.gat import GAT, GATConfig
from regard.tasks.graphs.classifier import NodeClassifier
from regard.tasks.graphs.files import GraphConfig, GraphFile, read
from tests.browser.conftest import saved
from tests.browser.reading import contrast, luminance
from tests.tasks.graphs import small

pytestmark = pytest.mark.unchecked  # shapes are checked with the model
NODE, THIN, THICK = "n1", 0.5, 14.0
SHARP = 2  # pixels of the screen for one of the page
CELLS = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
ENDS = """all => all.map(one => Object.fromEntries([["of", one.dataset.edge], ["text", one.textContent],
  ["class", one.getAttribute("class")], ["tag", one.tagName],
  ...["x1", "y1", "x2", "y2", "cx", "cy", "r", "stroke-width"].map(name => [name, +one.getAttribute(name)])]))"""
FOCUS = """(({dataset: d, id, name}) =>
  d.pick ? `pick ${d.pick}` : id || name || d.screen || "")(document.activeElement)"""
NODES = """all => Object.fromEntries(all.map(one => [one.dataset.node,
  [+one.getAttribute("cx"), +one.getAttribute("cy"), getComputedStyle(one).fill, +one.getAttribute("r")]]))"""
BOXES = """all => all.map(one => {
  const b = one.getBoundingClientRect(), s = one.ownerSVGElement.getBoundingClientRect();
  return [one.textContent, b.left - s.left, b.top - s.top, s.right - b.right, s.bottom - b.bottom,
          parseFloat(getComputedStyle(one).fontSize) * s.width / one.ownerSVGElement.viewBox.baseVal.width]; })"""


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Where a node of the small graph looked, by a model whose scores differ from edge to edge; through a file."""
    folder = tmp_path_factory.mktemp("graph")
    edges, nodes = small.tables(folder)
    graph = read(GraphConfig(train=GraphFile(edges=edges, nodes=nodes)))
    torch.manual_seed(1)
    model = GAT(GATConfig(inputs=graph.features.width, classes=len(graph.classes), heads=3)).eval()
    for layer in model.layers:
        for part in layer.score.parameters():
            part.data.mul_(6)
    NodeClassifier(model, graph, "small").look(NODE).save(folder / "trace.json")
    return load(folder / "trace.json")


@pytest.fixture(scope="module")
def file(looked: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    page.save(looked, path)
    return path


def rows_of(one: Any) -> list[list[str]]:
    """The table as it is read."""
    return one.page.locator("#edges tbody tr").evaluate_all(CELLS)


def lines_of(one: Any) -> dict[int, dict[str, Any]]:
    """The edges that are drawn, by their row in the table."""
    return {int(each["of"]): each for each in one.page.locator(".neighbourhood [data-edge]").evaluate_all(ENDS)}


def test_the_table_holds_the_weights_of_the_model_beside_equal_ones(
    visit: Callable[..., Any], file: Path, looked: Trace
):
    one = visit(file, locale="en-GB")
    for name, head in (("layers.1", None), ("layers.0", None), ("layers.0", 2)):
        one.page.select_option("[name=attention]", name)
        one.page.select_option("[name=head]", "mean" if head is None else str(head))
        rows = rows_of(one)
        assert rows == [list(row) for row in neighbourhood.table(looked, name, head=head)]
        for node in {row[0] for row in rows}:
            own = [row for row in rows if row[0] == node]
            assert sum(float(row[2]) for row in own) == pytest.approx(1, abs=1e-3)
            assert {row[3] for row in own} == {f"{1 / len(own):.4f}"}
    assert one.outside == []
    assert one.wrong == []


@pytest.mark.parametrize("name", ["layers.1", "layers.0"])
def test_every_line_joins_its_two_nodes_and_is_as_thick_as_its_number(
    visit: Callable[..., Any], file: Path, looked: Trace, name: str
):
    one = visit(file, f"#attention={name}", locale="en-GB")
    rows, lines = rows_of(one), lines_of(one)
    nodes = one.page.locator(".neighbourhood .node").evaluate_all(NODES)
    assert set(nodes) == {place.name for place in neighbourhood.place_nodes(looked)}
    assert set(lines) == {n for n, row in enumerate(rows) if row[0] in nodes and row[1] in nodes}
    pairs = {(row[0], row[1]) for row in rows}
    for number, line in lines.items():
        looking, seen, weight = rows[number][:3]
        assert line["stroke-width"] == pytest.approx(THIN + THICK * float(weight), abs=THICK * 6e-5), rows[number]
        assert (line["tag"] == "circle") == (looking == seen)
        if looking != seen:
            found = [line["x1"], line["y1"], line["x2"], line["y2"]]
            off = 3.01 if (seen, looking) in pairs else 0.01  # two that looked at each other have a line each
            assert found == pytest.approx([*nodes[looking][:2], *nodes[seen][:2]], abs=off), rows[number]
        assert f"({weight})" in line["text"], "what the pointer reads"
    percents = one.page.locator(".neighbourhood [data-weight]").evaluate_all(
        "all => all.map(one => [+one.dataset.weight, one.textContent])"
    )
    assert len(percents) >= 4
    for number, text in percents:
        assert float(text.rstrip("%")) / 100 == pytest.approx(float(rows[number][2]), abs=6e-4)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pixels_show_classes_and_weights(visit: Callable[..., Any], file: Path, theme: str):
    one = visit(file, "#at=1", color_scheme=theme, device_scale_factor=SHARP, locale="en-GB")
    rows, lines = rows_of(one), lines_of(one)
    nodes = one.page.locator(".neighbourhood .node").evaluate_all(NODES)
    one.page.locator(".neighbourhood text, .faint").evaluate_all("all => all.forEach(each => each.remove())")
    pixels = np.asarray(Image.open(io.BytesIO(one.page.locator(".neighbourhood").screenshot())).convert("RGB"), int)
    shades = dict(
        one.page.locator(".classes li").evaluate_all(
            "all => all.map(one => [one.innerText, getComputedStyle(one.firstChild).backgroundColor])"
        )
    )
    answers = {row[1]: row[4] for row in rows}
    for name, (x, y, fill, _) in nodes.items():
        assert tuple(pixels[round(SHARP * y), round(SHARP * x)]) == rgb(fill)
        assert name not in answers or fill == shades[answers[name]]
    straight = [(n, line) for n, line in lines.items() if line["tag"] == "line"]
    assert len(straight) > 2
    for number, line in straight:
        wanted = THIN + THICK * float(rows[number][2])
        assert thickness(pixels, line) == pytest.approx(wanted, abs=0.6), rows[number]


def rgb(colour: str) -> tuple[int, ...]:
    """Of a colour as a browser says it."""
    return tuple(int(part) for part in re.findall(r"\d+", colour)[:3])


def thickness(pixels: np.ndarray, line: dict[str, Any]) -> float:
    """Of a drawn line in units of the drawing, measured across its middle."""
    across, down = line["x2"] - line["x1"], line["y2"] - line["y1"]
    length = math.hypot(across, down)
    steps = np.arange(-15, 15, 0.05)
    x = line["x1"] + 0.6 * across - steps * down / length
    y = line["y1"] + 0.6 * down + steps * across / length
    found = pixels[np.rint(SHARP * y).astype(int), np.rint(SHARP * x).astype(int)]
    far = np.abs(found - pixels[2, 2]).sum(-1)
    return float((far > far.max() / 2).sum() * 0.05)


def test_keys_walk_the_edges_and_the_pointer_picks_them(visit: Callable[..., Any], file: Path):
    one = visit(file, locale="en-GB")
    keys, rows = one.page.keyboard, rows_of(one)
    walked = []
    while not walked or not walked[-1].startswith("pick"):
        keys.press("Tab")
        walked.append(one.page.evaluate(FOCUS))
        assert len(walked) < 18, walked
        assert one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", walked
    assert list(filter(None, walked))[-3:] == ["attention", "head", "pick 0"], "with what explains them between"
    for key, wanted in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", len(rows) - 1), ("Home", 0)):
        keys.press(key)
        looking, seen, weight, equal = rows[wanted][:4]
        assert one.told().startswith(f"{looking} took ")
        assert f"({weight})" in one.told()
        assert (f" from {seen}," in one.told()) == (looking != seen)
        assert f"equal share is {100 * float(equal):.1f}".rstrip("0").rstrip(".") in one.told()
        assert one.page.locator("[aria-pressed=true]").inner_text() == seen
        assert one.page.evaluate("document.activeElement.dataset.pick") == str(wanted)
    target = next(n for n, line in lines_of(one).items() if line["tag"] == "line" and n > 2)
    one.page.locator(f".node[data-node='{rows[target][1]}']").click()
    assert f"at={target}" in one.page.url
    assert lines_of(one)[target]["class"] == "edge chosen"
    one.page.reload()
    one.page.wait_for_selector("html[data-drawn]")
    assert f"({rows[target][2]})" in one.told(), "the address brings it back"
    assert one.wrong == []


def test_controls_and_the_evenness_of_the_look_stand_beside_it(visit: Callable[..., Any], file: Path, looked: Trace):
    one = visit(file, locale="en-GB")
    cells = one.page.locator("#controls-graph td").all_inner_texts()
    told = looked.facts["controls"]
    assert list(told) == ["equal", "none"]
    for cell, (label, chance) in zip(cells, told.values(), strict=True):
        assert cell.startswith(f"{label} (")
        assert float(re.findall(r"[\d.]+", cell)[-1]) == pytest.approx(100 * chance, abs=0.06)
    weights = looked.find("layers.1").values.mean(0)[0].double()
    many = torch.special.entr(weights).sum().exp().item()
    assert one.page.locator("#spread").inner_text() == (
        f"{NODE} looked as if at {many:.1f} nodes with equal weights, out of {len(weights)}."
    )


def test_french_is_spoken_on_every_screen_of_a_graph(visit: Callable[..., Any], file: Path):
    one = visit(file, locale="en-GB")
    english = rows_of(one)
    one.page.click("#language")
    assert one.page.locator("nav a").first.inner_text() == "Voisinage"
    assert one.page.locator("h1").inner_text().startswith(f"nœud {NODE}")
    assert re.match(rf"{NODE} a pris [\d,]+.% \(0,\d{{4}}\) chez ", one.told())
    assert [[cell.replace(",", ".") for cell in row] for row in rows_of(one)] == english
    unfit = re.compile(r"\b(?:node|looked|weights?|equal|edges?|answers?|where|heads?|token)\b", re.I)
    for screen in one.page.locator("#screens a").evaluate_all("all => all.map(one => one.dataset.screen)"):
        one.page.click(f"[data-screen={screen}]")
        shown = one.page.locator("body").inner_text() + one.page.locator("body").evaluate(
            "body => [...body.querySelectorAll('[aria-label]')].map(e => e.getAttribute('aria-label')).join(' ')"
        )
        assert not unfit.findall(shown), screen
        assert not one.page.locator("[name=level], [name=specials]").locator("visible=true").count(), (
            "nodes are no words"
        )
    assert one.wrong == []


def test_files_hold_every_edge_and_the_drawing(visit: Callable[..., Any], file: Path):
    one = visit(file, locale="en-GB")
    rows = rows_of(one)
    lines = list(csv.reader(io.StringIO(saved(one, "csv").decode("utf-8-sig"))))[1:]
    assert [[line[0], line[1], f"{float(line[2]):.4f}", f"{float(line[3]):.4f}"] for line in lines] == [
        row[:4] for row in rows
    ]
    svg = saved(one, "svg").decode()
    assert svg.count('data-edge="') == len(lines_of(one))
    assert Image.open(io.BytesIO(saved(one, "png"))).size[0] > 400
    told = one.page.locator("#strongest").inner_text()
    best = sorted(rows, key=lambda row: -float(row[2]))[0]
    assert told.startswith(f"Strongest looks: “{best[0]}” at “{best[1]}”")
    assert one.wrong == []


def test_a_phone_can_read_it(visit: Callable[..., Any], file: Path):
    for width, theme in ((320, "dark"), (1100, "light")):
        one = visit(file, viewport={"width": width, "height": 740}, color_scheme=theme, locale="fr-FR")
        for address in ("", "#attention=layers.0"):
            one.go(file, address)
            assert one.page.evaluate("document.documentElement.scrollWidth") == width
            names = one.page.locator(".neighbourhood text").evaluate_all(BOXES)
            assert len(names) > 5
            assert min(name[5] for name in names) >= 11, "in pixels of the screen"
            assert min(min(name[1:5]) for name in names) > -2, "nothing is cut off"
            boxes = [(left, top, right, bottom) for _, left, top, right, bottom, _ in names]
            side = one.page.locator(".neighbourhood").bounding_box()["width"]
            crossed = [
                (names[n][0], names[m][0])
                for n, (left, top, right, _) in enumerate(boxes)
                for m, (other, above, beyond, _) in enumerate(boxes[:n])
                if left < side - beyond - 3 and other < side - right - 3 and abs(top - above) < 8
            ]
            assert crossed == []
        read = "name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()"
        ink, back = (luminance(one.page.evaluate(read, name)) for name in ("ink", "back"))
        assert contrast(ink, back) >= 4.5
        assert one.wrong == []


def test_a_hub_and_a_hermit_are_drawn_too(visit: Callable[..., Any], tmp_path: Path):
    crowd = [f"a protein with a long name {n}" for n in range(70)]
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    pairs = [(crowd[0], each) for each in crowd[1:-1]] + [(crowd[n], crowd[n + 7]) for n in range(1, 55)]
    edges.write_text("from,to\n" + "".join(f"{a},{b}\n" for a, b in pairs), encoding="utf-8")
    lines = (f"{each},{'ab'[n % 2]},{n},1\n" for n, each in enumerate(crowd))
    nodes.write_text("id,label,x,y\n" + "".join(lines), encoding="utf-8")
    graph = read(GraphConfig(train=GraphFile(edges=str(edges), nodes=str(nodes))))
    torch.manual_seed(0)
    classifier = NodeClassifier(GAT(GATConfig(inputs=2, classes=2)).eval(), graph, "crowd")
    page.save(classifier.look(crowd[0]), tmp_path / "hub.html")
    page.save(classifier.look(crowd[-1]), tmp_path / "hermit.html")
    one = visit(tmp_path / "hub.html", viewport={"width": 360, "height": 740}, locale="en-GB")
    assert len(rows_of(one)) == 69
    note = one.page.locator(".note").first.inner_text()
    assert note.startswith(f"{len(lines_of(one))} of 69 edges")
    assert neighbourhood.FIRST < len(lines_of(one)) < 69
    assert "Names without room" in note
    weight = one.page.locator("#edges tbody td:nth-child(3)").first.bounding_box()
    assert weight["x"] + weight["width"] < 360, "long names leave the weights in sight"
    assert one.page.evaluate("document.documentElement.scrollWidth") == 360
    one.go(tmp_path / "hermit.html")
    assert one.told() == f"{crowd[-1]} took 100% (1.0000) from itself; an equal share is 100%."
    assert rows_of(one) == [[crowd[-1], crowd[-1], "1.0000", "1.0000", rows_of(one)[0][4], "b"]]
    assert one.wrong == []
