"""The page in a real browser: every screen, by pointer and by keyboard, and its pixels are its numbers."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.attention.masks import causal
from regard.attention.multihead import Heads, MultiHead
from regard.attention.positions import scheme
from regard.attention.scores import Additive, Graph, cosine
from regard.interpret.draw import page
from regard.interpret.steps import Steps, inside
from regard.interpret.trace import Item, Trace, Weights
from regard.interpret.words import group_items, merge
from tests.browser.conftest import CROSS, saved


def words_of(trace: Trace) -> torch.Tensor:
    """The matrix that the page shows first."""
    one = trace.find(CROSS)
    return merge(one.values.mean(0), group_items(trace.items["target"]), group_items(trace.items["source"]))


def coloured(share: float, scheme: str) -> list[float]:
    """The colour of a number from 0 to 1."""
    stops = page.COLOURS[scheme]
    at = share * (len(stops) - 1)
    low = min(int(at), len(stops) - 2)
    return [a + (b - a) * (at - low) for a, b in zip(stops[low], stops[low + 1], strict=True)]


PIXELS = """(places) => {
  const canvas = document.getElementById("matrix"), ratio = canvas.width / canvas.clientWidth;
  const context = canvas.getContext("2d"), d = canvas.dataset;
  return places.map(([r, c]) => Array.from(context.getImageData(
    Math.round((+d.left + (c + .5) * d.cell) * ratio), Math.round((+d.top + (r + .5) * d.cell) * ratio), 1, 1).data));
}"""


@pytest.mark.parametrize(("theme", "ratio"), [("light", 1), ("dark", 2)])
def test_the_pixels_of_the_matrix_are_its_numbers(visit: Callable, file: Path, watched, theme: str, ratio: int):
    one = visit(file, color_scheme=theme, device_scale_factor=ratio)
    matrix = words_of(watched[0])
    rows, columns = matrix.shape
    places = [[row, column] for row in range(rows) for column in range(columns)]
    for (row, column), found in zip(places, one.page.evaluate(PIXELS, places), strict=True):
        wanted = coloured(float(matrix[row, column] / matrix.max()), theme)
        assert found[:3] == pytest.approx(wanted, abs=3), (row, column)
    assert one.wrong == []


def test_every_screen_opens_from_disk_and_nothing_leaves_the_file(visit: Callable, file: Path):
    one = visit(file)
    window = one.page
    for view in ("ribbon", "table", "matrix"):
        window.select_option("[name=view]", view)
    for level in ("subword", "word"):
        window.select_option("[name=level]", level)
    for scale in ("full", "row", "root", "max"):
        window.select_option("[name=scale]", scale)
    window.check("[name=specials]")
    window.check("[name=share]")
    for head in ("0", "1", "mean"):
        window.select_option("[name=head]", head)
    for attention in ("encoder.0.attention", "decoder.0.attention", CROSS):
        window.select_option("[name=attention]", attention)
    window.click("[data-screen=heads]")
    for order in ("entropy", "diagonality", "AER", "place"):
        window.select_option("[name=sort]", order)
    window.click(".tiles button >> nth=3")
    assert window.locator("#alignment").is_visible()
    assert (window.input_value("[name=attention]"), window.input_value("[name=head]")) == ("decoder.0.attention", "1")
    window.click("[data-screen=inside]")
    window.select_option("[name=token]", "4")
    window.click("#inside summary")
    window.locator("details table").wait_for()
    window.click("#language")
    assert one.outside == []
    assert one.wrong == []


def test_a_request_would_be_seen_and_is_forbidden(visit: Callable, file: Path, tmp_path: Path):
    freed = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", file.read_text(encoding="utf-8"))
    (tmp_path / "freed.html").write_text(freed, encoding="utf-8")
    call = "fetch('http://example.invalid/x').catch(() => 0)"
    free, held = visit(tmp_path / "freed.html"), visit(file)
    free.page.evaluate(call)
    held.page.evaluate(call)
    assert free.outside == ["http://example.invalid/x"]
    assert held.outside == []
    assert any("Content Security Policy" in text for text in held.wrong)


def test_the_pointer_reads_a_cell_and_a_click_keeps_it(visit: Callable, file: Path, watched):
    one = visit(file)
    canvas = one.page.locator("#matrix")
    left, top, cell = (float(canvas.get_attribute(f"data-{name}")) for name in ("left", "top", "cell"))
    canvas.hover(position={"x": left + 2.5 * cell, "y": top + 1.5 * cell})
    value = float(words_of(watched[0])[1, 2])
    assert one.told().startswith("“black” gave")
    assert f"to “noir” ({value:.4f})" in one.told()
    canvas.click(position={"x": left + 2.5 * cell, "y": top + 1.5 * cell})
    assert one.page.locator("aside h2").first.inner_text() == "Where “black” looked"
    one.page.wait_for_url("**/page.html#at=1%2C2")


def test_the_whole_page_can_be_used_without_a_pointer(visit: Callable, file: Path):
    one = visit(file)
    keys, focus = (
        one.page.keyboard,
        lambda: one.page.evaluate(
            "document.activeElement.id || document.activeElement.name || document.activeElement.dataset.screen"
        ),
    )
    walked = []
    while "matrix" not in walked:
        keys.press("Tab")
        walked.append(focus())
        assert len(walked) < 28, walked
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert one.page.evaluate(outline) != "none", walked
    choices = ["attention", "head", "view", "level", "scale", "specials", "share"]
    named = [name for name in walked[1:] if name]  # what explains a choice has no name of its own
    assert named == ["theme", "language", "alignment", "heads", "inside", *choices, "matrix"]
    assert one.told().startswith("“The” gave")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        keys.press(key)
    assert "“black” gave" in one.told()
    assert "to “noir”" in one.told()
    keys.press("End")
    assert "to “.”" in one.told()
    keys.press("PageDown")
    keys.press("Home")
    assert "“.” gave" in one.told()
    assert "to “Le”" in one.told()
    keys.press("Enter")
    assert one.page.locator("#ledger").is_visible()
    assert one.page.input_value("[name=token]") == "13"
    one.page.focus("#ledger tbody tr")
    keys.press("ArrowDown")
    assert one.told().startswith("“ch”: score")
    one.page.focus("[data-screen=heads]")
    keys.press("Enter")
    assert focus() == "heads"
    one.page.focus(".tiles button[tabindex='0']")
    keys.press("Home")
    keys.press("ArrowRight")
    assert one.told().startswith("reading: only layer head 1: entropy")
    keys.press("Enter")
    assert one.page.input_value("[name=attention]") == "encoder.0.attention"


def test_the_table_holds_the_weights(visit: Callable, file: Path, watched):
    one = visit(file, "#view=table")
    cells = one.page.locator("#numbers tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.innerText))"
    )
    matrix = words_of(watched[0])
    assert [row[0] for row in cells] == ["The", "black", "cat", "sleps", "."]
    found = torch.tensor([[float(cell) for cell in row[1:]] for row in cells])
    assert torch.allclose(found, matrix, atol=6e-4)
    assert one.page.locator("#numbers thead th").all_inner_texts() == ["Le", "chat", "noir", "dort", "."]
    one.go(file, "#view=table&level=subword&specials=1&head=1&attention=decoder.0.attention")
    cells = one.page.locator("#numbers tbody td").all_inner_texts()
    raw = watched[0].find("decoder.0.attention").values[1]
    later = torch.ones_like(raw).triu(1).flatten().bool().tolist()
    assert [cell == "not allowed" for cell in cells] == later, "what comes later is no small number"
    shown = torch.tensor([0.0 if cell == "not allowed" else float(cell) for cell in cells])
    assert torch.allclose(shown, raw.flatten(), atol=6e-4)


def test_the_address_brings_back_what_was_shown(visit: Callable, file: Path):
    one = visit(file, "#screen=heads&sort=entropy&down=1&lang=fr")
    assert one.page.input_value("[name=sort]") == "entropy"
    assert one.page.is_checked("[name=down]")
    shown = one.page.locator(".tiles .number").all_inner_texts()
    assert all(re.fullmatch(r"\d,\d\d \(témoin \d,\d\d\)", text) for text in shown)
    values = [float(text.split()[0].replace(",", ".")) for text in shown]
    assert len(values) == 6
    assert values == sorted(values, reverse=True)
    one.page.locator(".tiles button").first.click()
    assert "screen=" not in one.page.url
    one.page.go_back()
    one.page.wait_for_selector(".tiles button")
    assert one.page.input_value("[name=sort]") == "entropy"
    one.go(file, "#view=ribbon&head=1&at=2,0")
    assert one.page.locator(".ribbon [aria-pressed=true]").inner_text() == "cat"
    one.go(file, "#screen=nowhere&head=77&attention=none&view=%3Cb%3E")
    assert one.page.locator("#matrix").is_visible()
    assert one.wrong == []


def test_steps_are_computed_again_in_the_page_and_agree(visit: Callable, file: Path, watched):
    one = visit(file, f"#screen=inside&attention={CROSS}&head=0&token=1")
    check = one.page.locator("#check")
    assert float(check.get_attribute("data-difference")) < 1e-5
    assert re.fullmatch(r"recomputed in this page = model's to \de\u2212\d+", check.inner_text())
    shares = one.page.locator("#ledger tbody td:nth-of-type(5)").all_inner_texts()
    step = watched[1].attentions[CROSS].step(0, 1)
    assert torch.allclose(torch.tensor([float(text) for text in shares]), step.weights, atol=6e-5)
    assert one.page.locator("li.written").inner_text().split() == [
        "␣bl",
        f"{100 * watched[1].predictions[1].probability:.0f}%",
    ]


def test_negative_numbers_have_a_minus_sign_in_the_page_and_a_hyphen_in_files(visit: Callable, file: Path):
    one = visit(file, f"#screen=inside&attention={CROSS}&head=0&token=1")
    shown = one.page.locator("#ledger tbody").inner_text()
    assert re.search("\u2212\\d", shown)
    assert not re.search(r"-\d", shown)
    text = saved(one, "csv").decode("utf-8-sig")
    assert re.search(r",-\d", text)
    assert "\u2212" not in text
    one.go(file, f"#screen=inside&attention={CROSS}&head=0&token=1&lang=fr")
    assert re.search("\u2212\\d+,\\d", one.page.locator("#ledger tbody").inner_text())


def test_other_scores_and_biases_are_computed_again_too(visit: Callable, tmp_path: Path):
    scores = {"additive": Additive(4, 4, 5, heads=2), "graph": Graph(4, heads=2), "cosine": cosine}
    model = torch.nn.ModuleDict({name: MultiHead(8, Heads(2), score=score) for name, score in scores.items()})
    model["alibi"] = MultiHead(8, Heads(2))
    model["unknown"] = MultiHead(
        8, Heads(2), score=lambda query, key: query.sum(-1, keepdim=True) - key.sum(-1)[..., None, :]
    )
    x, positions = torch.randn(1, 4, 8), scheme("alibi", width=8, heads=2, context=8, causal=True)
    found, _ = inside(
        model,
        lambda: [
            each(x, mask=causal(), positions=positions if name == "alibi" else None) for name, each in model.items()
        ],
    )
    items = {"target": [Item(letter) for letter in "abcd"]}
    trace = Trace("m", "t", items, [Weights(name, "target", "target", each.weights) for name, each in found.items()])
    page.save(trace, tmp_path / "page.html", steps=Steps(found))
    one = visit(tmp_path / "page.html", "#screen=inside&token=2&head=1")
    for name in (*scores, "alibi"):
        one.page.select_option("[name=attention]", name)
        assert float(one.page.locator("#check").get_attribute("data-difference")) < 1e-6, name
        assert one.page.locator("tr.unseen").count() == 1
    one.page.select_option("[name=attention]", "unknown")
    assert "cannot compute" in one.page.locator("#check").inner_text()
    assert one.wrong == []
