"""The screen of a run: while it trains, killed, resumed, damaged and finished, against real processes and folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard import recipe
from regard.interpret.small_traces import read_traces
from regard.interpret.words import group_items, merge
from regard.serve.run_view import RunView
from tests.browser.live import check_axe
from tests.browser.test_page import PIXELS, coloured
from tests.conftest import sentences
from tests.serve.harness import Running, serving
from tests.serve.process import ROOT, wait_until

pytestmark = pytest.mark.unchecked
SMALL = {
    "tokenizer": {"vocab": 320},
    "model": {"width": 16, "heads": 2, "hidden": 16, "encoder": 1, "decoder": 1},
    "objective": {"eval_examples": 4},
    "decoding": {"longest": 12},
    "training": {"steps": 12, "eval_every": 3, "save_every": 3, "log_every": 1, "device": "cpu", "tensorboard": False},
}


def recipe_in(place: Path, **training: Any) -> dict[str, Any]:
    """A tiny translation recipe with its data in a folder."""
    pairs = place / "pairs.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in sentences()), encoding="utf-8")
    data = {"train": {"path": str(pairs)}, "batch_tokens": 256}
    return {**SMALL, "task": "translation", "data": data, "training": {**SMALL["training"], **training}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with four evaluations."""
    place = tmp_path_factory.mktemp("finished")
    recipe.train(recipe_in(place), out=place / "run", quiet=True)
    return place / "run"


@pytest.fixture(scope="module")
def page_of(finished: Path) -> Iterator[Running]:
    """A server that shows this run, without a model."""
    with serving({}, run=RunView(finished)) as running:
        yield running


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Iterator[tuple[Path, Running]]:
    """A copy of the run that may be changed, and a server that shows it."""
    shutil.copytree(finished, tmp_path / "run")
    with serving({}, run=RunView(tmp_path / "run")) as running:
        yield tmp_path / "run", running


def state_of(visit: Any) -> str:
    return visit.page.locator("#state").inner_text()


def test_a_finished_run_is_the_first_screen_and_said_to_be_finished(visit: Callable, page_of: Running):
    one = visit(page_of.url)
    one.page.locator("#matrix").wait_for()
    assert state_of(one) == "It has finished, at step 12."
    assert "All planned steps were made." in one.page.locator("ul.facts").inner_text()
    assert one.page.locator("#training table").last.locator("tbody tr").count() == 4, "an answer for every evaluation"
    assert (one.outside, one.wrong) == ([], [])


def test_the_pixels_at_every_evaluation_are_the_numbers_of_its_trace(visit: Callable, page_of: Running, finished: Path):
    one = visit(page_of.url, "/", color_scheme="light")
    slider = one.page.locator("#evaluation")
    slider.focus()
    one.page.keyboard.press("Home")
    for step in (3, 6, 9, 12):
        one.page.locator("output", has_text=f"Step {step},").wait_for()
        one.page.locator(f"#forming[data-step='{step}'] #matrix").wait_for()
        trace = read_traces(finished / "traces" / f"step-{step}.safetensors")[0]
        first = trace.weights[0]
        groups = [group_items(trace.items[side]) for side in (first.query, first.key)]
        matrix = merge(first.values.float().mean(0), *groups)
        places = [[row, column] for row in range(matrix.shape[0]) for column in range(matrix.shape[1])]
        for (row, column), found in zip(places, one.page.evaluate(PIXELS, places), strict=True):
            assert found[:3] == pytest.approx(coloured(float(matrix[row, column]), "light"), abs=3)
        one.page.keyboard.press("ArrowRight")
    assert one.page.evaluate("document.activeElement.id") == "evaluation"
    one.wait_until("!location.hash.includes('evaluation=')")  # the newest evaluation needs no name


def test_every_unit_that_a_training_counts_has_a_name_in_both_languages():
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "regard" / "tasks").rglob("*.py"))
    units = set(re.findall(r'Step\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*?counts=\{"(\w+)"', code))
    assert {"tokens", "pictures", "frames"} <= units
    for language in ("en", "fr"):
        strings = [ROOT / "regard" / "web" / "strings" / f"{name}.{language}.js" for name in ("training", "trust")]
        text = "".join(path.read_text(encoding="utf-8") for path in strings)
        assert units <= set(re.findall(r"\bunit_(\w+):", text))


CURVE = """([n, step, value]) => {
  const canvas = document.querySelectorAll("figure.curve > canvas")[n], ratio = window.devicePixelRatio;
  const { left, top, right, bottom, x, y } = JSON.parse(canvas.dataset.frame);
  const across = left + (step - x[0]) / (x[1] - x[0]) * (right - left);
  const down = bottom - (value - y[0]) / (y[1] - y[0]) * (bottom - top);
  return [...canvas.getContext("2d").getImageData(Math.round(across * ratio), Math.round(down * ratio), 1, 1).data];
}"""


def test_the_curves_pass_through_the_measured_numbers(visit: Callable, page_of: Running, finished: Path):
    one = visit(page_of.url, "/", color_scheme="light")
    records = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    training = [(record["step"], record["loss"]) for record in records if record["kind"] == "training"]
    for step, loss in training[1:-1]:
        red, _, blue, _ = one.page.evaluate(CURVE, [0, step, loss])
        assert blue > red + 40 or red > blue + 40, f"no line at step {step}"
    for step, bleu in [(record["step"], record["bleu"]) for record in records if record["kind"] == "evaluation"][1:-1]:
        red, _, blue, _ = one.page.evaluate(CURVE, [1, step, bleu])
        assert blue > red + 40
    one.page.locator("#run-numbers summary").click()
    rows = one.page.locator("#run-numbers tbody tr")
    rows.nth(11).wait_for()
    assert rows.count() == 12
    shown = dict(
        zip(rows.locator("th").all_inner_texts(), rows.locator("td:nth-of-type(1)").all_inner_texts(), strict=True)
    )
    assert {int(step): float(text) for step, text in shown.items()} == {
        step: pytest.approx(loss, rel=1e-3) for step, loss in training
    }


def test_it_plays_and_stops_and_holds_still_where_motion_is_unwanted(visit: Callable, page_of: Running):
    one = visit(page_of.url)
    one.page.locator("#matrix").wait_for()
    one.page.get_by_role("button", name="Play").click()
    one.page.locator("output", has_text="evaluation 2 of 4").wait_for()
    one.page.get_by_role("button", name="Stop").click()
    one.page.get_by_role("button", name="Play").wait_for()
    still = visit(page_of.url, "/", reduced_motion="reduce")
    still.page.locator("#matrix").wait_for()
    assert still.page.get_by_role("button", name="Play").count() == 0
    still.page.get_by_role("button", name="Earlier").click()
    still.page.locator("output", has_text="evaluation 3 of 4").wait_for()


def test_the_address_brings_back_an_evaluation_in_french(visit: Callable, page_of: Running):
    one = visit(page_of.url, "/?lang=fr#evaluation=6&example=1")
    one.page.locator("output", has_text="Étape 6, évaluation 2 sur 4").wait_for()
    assert one.page.locator("select[name=example]").input_value() == "1"
    assert state_of(one) == "Il est terminé, à l’étape 12."
    assert one.page.locator("figure.curve h3").last.inner_text() == "Vitesse\u00a0: jetons par seconde"
    assert "tokens" not in one.page.locator("#training").inner_text()
    check_axe(one)
    assert one.wrong == []


def test_damage_is_said_and_stops_nothing(visit: Callable, copy: tuple[Path, Running]):
    folder, server = copy
    (folder / "best" / "model.safetensors").write_bytes(b"short")
    (folder / "traces" / "step-6.safetensors").write_bytes(b"short")
    (folder / "metrics.jsonl").write_bytes((folder / "metrics.jsonl").read_bytes() + b'{"step": 1, "ki\nno\n')
    one = visit(server.url, "/#evaluation=6")
    one.page.locator("#forming", has_text="cannot be read").wait_for()
    facts = one.page.locator("ul.facts").inner_text()
    assert "Damaged, and not to be used: best." in facts
    assert "2 lines of its measurements cannot be read." in facts
    one.page.get_by_role("button", name="Later").click()
    one.page.locator("#matrix").wait_for()


def test_hostile_texts_only_appear(visit: Callable, copy: tuple[Path, Running]):
    folder, server = copy
    text = "</script><img src=x onerror=\"document.title='owned'\">"
    answers = [{"source": text, "answer": text, text: text}]
    for path in (folder / "samples").iterdir():
        path.write_text(json.dumps(answers))
    one = visit(server.url)
    one.page.locator("dl.sample", has_text="onerror").wait_for()
    assert one.page.locator("img").count() == 0
    assert one.page.title() != "owned"
    assert one.wrong == []


def training_process(settings: Path, out: Path) -> subprocess.Popen[bytes]:
    """`regard train` as a process of its own."""
    words = [sys.executable, "-m", "regard", "train", str(settings), "--out", str(out), "--resume"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words, env=environment, cwd=out.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def test_a_run_is_followed_while_it_trains_is_killed_and_resumed(visit: Callable, tmp_path: Path):
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(recipe_in(tmp_path, steps=100_000, patience=100_000)))
    folder = tmp_path / "run"
    folder.mkdir()
    first = training_process(path, folder)
    try:
        with serving({}, run=RunView(folder)) as server:
            one = visit(server.url)
            one.page.locator("#state", has_text="It is training: step").wait_for(timeout=300_000)
            one.page.locator("#matrix").wait_for(timeout=300_000)
            before = state_of(one)
            one.wait_until("text => document.querySelector('#state').textContent !== text", before)
            wait_until(lambda: list(folder.glob("checkpoints/step-*/manifest.json")))
            first.send_signal(signal.SIGKILL)
            first.wait()
            one.page.locator("#state", has_text="It was killed").wait_for()
            assert "It was killed" in one.told()
            assert "--resume" in state_of(one)
            second = training_process(path, folder)
            try:
                one.page.locator("ul.facts", has_text="It was resumed once, from step").wait_for(timeout=300_000)
                one.page.locator("#state", has_text="It is training").wait_for(timeout=300_000)
                second.send_signal(signal.SIGINT)
                second.wait()
                one.page.locator("#state", has_text="It was stopped").wait_for()
            finally:
                second.kill()
            assert (one.outside, one.wrong) == ([], [])
        one.page.locator("p.bad", has_text="No connection since").wait_for(timeout=60_000)
        assert one.page.locator("#matrix").is_visible(), "what was known stays"
    finally:
        first.kill()
