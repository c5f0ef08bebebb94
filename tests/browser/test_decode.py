"""The screen of the search, of a real server and of a file: its numbers are the API's, and a branch can be forced."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.interpret.draw import page
from tests.browser.live import check_axe, read_number, write_number
from tests.serve.process import SMALL, ServerProcess, run_server

pytestmark = pytest.mark.unchecked
TEXT = "Le chat noir dort."
ADDRESS = f"#input={TEXT.replace(' ', '%20')}&screen=decode"
NODES = """() => [...document.querySelectorAll(".hypothesis")].map((box) => ({
  place: Number(box.dataset.place), kind: box.getAttribute("class").split(" ")[1],
  label: box.getAttribute("aria-label"),
  token: box.querySelector(".token").textContent, score: box.querySelector(".total")?.textContent ?? "",
  across: box.getBoundingClientRect().x, down: box.getBoundingClientRect().y,
}))"""
OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll(".hypothesis")].map((box) => box.getBoundingClientRect());
  return boxes.some((one, n) => boxes.slice(n + 1).some((other) =>
    one.x < other.right - 1 && other.x < one.right - 1 && one.y < other.bottom - 1 && other.y < one.bottom - 1));
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`regard serve` with a small translator, as a process of its own."""
    with run_server(tmp_path_factory.mktemp("decode") / "log", str(SMALL)) as process:
        yield process


def ask(server: ServerProcess, **options: Any) -> dict[str, Any]:
    with server.client() as client:
        return client.post("/v1/tree", json={"inputs": TEXT, "options": options}).json()["tree"]


def shown(one: Any) -> list[dict[str, Any]]:
    one.settle()
    return one.page.evaluate(NODES)


def check_nodes(nodes: list[dict[str, Any]], tree: dict[str, Any]) -> None:
    """Compare boxes with the nodes of the API: fates, tokens, scores, columns by step and rows by rank."""
    assert [node["place"] for node in nodes] == list(range(len(tree["nodes"])))
    for drawn, node in list(zip(nodes, tree["nodes"], strict=True))[1:]:
        assert drawn["kind"] == ("best" if node.get("is_best") else node["fate"])
        score = node.get("normalized", node["total"])
        assert read_number(drawn["score"]) == pytest.approx(score, abs=0.00501)
        token = "(end)" if node["token"] == tree["end"] else node["text"].strip() or "␣"
        assert drawn["token"] in (token, f"{token[:8]}…")
        assert f"total {write_number(node['total'])}" in drawn["label"]
        assert drawn["across"] > nodes[node["parent"]]["across"]
    for step in {node["step"] for node in tree["nodes"]}:
        column = [drawn for drawn, node in zip(nodes, tree["nodes"], strict=True) if node["step"] == step]
        assert [drawn["down"] for drawn in column] == sorted(drawn["down"] for drawn in column)
        assert len({round(drawn["across"]) for drawn in column}) == 1


def test_the_boxes_are_the_nodes_of_the_api(visit: Callable, server: ServerProcess):
    one = visit(server.url, f"/{ADDRESS}")
    one.page.locator("#tree").wait_for()
    tree = ask(server)
    check_nodes(shown(one), tree)
    assert not one.page.evaluate(OVERLAPS)
    assert one.page.locator("[data-verdict=won]").inner_text().count(tree["answer"]) == 1
    one.page.locator("[data-drawn=table]").click()
    rows = one.page.locator("#hypotheses tbody tr")
    rows.nth(0).wait_for()
    assert rows.count() == len(tree["nodes"]) - 1
    for place in (1, len(tree["nodes"]) - 1):
        cells = rows.nth(place - 1).locator("td").all_inner_texts()
        node = tree["nodes"][place]
        assert [read_number(cells[2]), read_number(cells[3])] == pytest.approx(
            [node["log_probability"], node["total"]], abs=5.1e-4
        )
    assert (one.outside, one.wrong) == ([], [])


def test_what_was_left_out_is_forced_and_undone(visit: Callable, server: ServerProcess):
    one = visit(server.url, f"/{ADDRESS}")
    one.page.locator("#tree").wait_for()
    free = ask(server)
    place = next(place for place, node in enumerate(free["nodes"]) if node["fate"] == "pruned" and node["step"] == 2)
    prefix = [free["nodes"][free["nodes"][place]["parent"]]["token"], free["nodes"][place]["token"]]
    one.page.locator(f"[data-place='{place}']").click()
    one.page.locator("[data-verdict=forced]").wait_for()
    forced = ask(server, prefix=prefix)
    check_nodes(shown(one), forced)
    winner = forced["nodes"][forced["answers"][0]]
    won = free["nodes"][free["answers"][0]]
    for verdict, total in (("forced", winner["total"]), ("won", won["total"])):
        assert f"total {write_number(total)}" in one.page.locator(f"[data-verdict={verdict}]").inner_text()
    assert f"forced={prefix[0]}%2C{prefix[1]}" in one.page.url
    assert one.page.evaluate("document.activeElement.dataset.place") == "2", "the forced branch keeps the focus"
    address = one.page.url.partition("#")[2]
    one.page.locator(".undo").click()
    one.page.locator("[data-verdict=forced]").wait_for(state="detached")
    check_nodes(shown(one), free)
    again = visit(server.url, f"/#{address}")
    again.page.locator("[data-verdict=forced]").wait_for()
    check_nodes(shown(again), forced)
    assert (one.wrong, again.wrong) == ([], [])


def test_the_tree_is_walked_and_forced_by_the_keyboard(visit: Callable, server: ServerProcess):
    one = visit(server.url, f"/{ADDRESS}")
    one.page.locator("#tree").wait_for()
    tree = ask(server)
    focused = "document.activeElement.dataset.place"
    one.page.locator("#tree [tabindex='0']").focus()
    assert one.page.locator("#tree [tabindex='0']").count() == 1
    one.page.keyboard.press("Home")
    assert one.page.evaluate(focused) == "0"
    one.page.keyboard.press("ArrowRight")
    first = int(one.page.evaluate(focused))
    assert tree["nodes"][first]["is_best"]
    one.page.keyboard.press("ArrowDown")
    second = int(one.page.evaluate(focused))
    assert (tree["nodes"][second]["step"], second) == (1, first + 1)
    assert f"total {write_number(tree['nodes'][second]['total'])}" in one.told()
    one.page.keyboard.press("ArrowLeft")
    assert one.page.evaluate(focused) == "0"
    one.page.keyboard.press("End")
    assert int(one.page.evaluate(focused)) == tree["answers"][0]
    one.page.locator(".hypothesis.pruned").first.focus()
    one.page.keyboard.press("Enter")
    one.page.locator("[data-verdict=forced]").wait_for()
    assert one.wrong == []


def test_a_phone_scrolls_the_tree_inside_its_box_in_french(visit: Callable, server: ServerProcess):
    settings = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "locale": "fr-FR"}
    one = visit(server.url, f"/{ADDRESS}", **settings)
    one.page.locator("#tree").wait_for()
    sizes = "() => [document.documentElement.scrollWidth, document.querySelector('.decode-tree').scrollWidth]"
    page_width, tree_width = one.page.evaluate(sizes)
    assert page_width <= 390 < tree_width
    one.page.locator(".hypothesis.pruned").first.tap()
    one.page.locator("[data-verdict=forced]").wait_for()
    assert "Sous contrainte" in one.page.locator("[data-verdict=forced]").inner_text()
    assert one.page.locator(".undo").inner_text() == "Annuler"
    assert "decode." not in one.page.locator("main").inner_text(), "every sentence is there in French"
    check_axe(one)


def test_a_file_shows_the_tree_that_came_with_it(visit: Callable, tmp_path: Path):
    trained = regard.load(SMALL)
    tree, trace = trained.tree(TEXT), trained.look(TEXT)
    path = tmp_path / "page.html"
    page.save(replace(trace, facts={**trace.facts, "tree": tree.plain()}), path)
    one = visit(path, "#screen=decode")
    one.page.locator("#tree").wait_for()
    check_nodes(shown(one), json.loads(json.dumps(tree.plain())))
    one.page.locator(".hypothesis.pruned").first.click()
    assert one.page.locator("[aria-pressed=true].hypothesis.pruned").count() == 1
    assert one.page.locator("[data-verdict=forced], .force, [name=beams]").count() == 0, "a file has no model to force"
    page.save(trace, path)
    bare = visit(path)
    assert bare.page.locator("[data-screen=decode]").count() == 0
    assert (one.outside, one.wrong, bare.wrong) == ([], [], [])
