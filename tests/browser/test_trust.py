"""The screen of trust: measured with progress, cancelled, kept, in both languages, and a line where no check exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.interpret.measure import trust
from tests.browser.live import check_axe, write_number
from tests.serve.harness import Running, serving

pytestmark = pytest.mark.unchecked
WEB = Path(regard.__file__).parent / "web"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a translator and a language model, and a cache of its own."""
    models: dict[str, Any] = {name: regard.load(name, device="cpu") for name in ("en-fr", "stories")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        with serving(models, trust_sentences=20) as running:
            yield running


def test_a_check_is_cancelled_begun_again_and_said_in_words(visit: Callable, server: Running):
    one = visit(server.url, "/#screen=trust&model=en-fr", color_scheme="light")
    one.page.get_by_role("button", name="Measure").click()
    one.page.locator("#trust-status", has_text=re.compile(r"Measuring: [1-9]")).wait_for()
    one.page.reload()  # the page forgets, the server does not
    one.page.locator("#trust-status", has_text=re.compile(r"Measuring: [1-9]")).wait_for()
    assert one.page.get_by_role("progressbar").is_visible()
    assert one.page.get_by_role("button", name="Measure").count() == 0
    one.page.get_by_role("button", name="Cancel").click()
    one.page.locator("#trust-status", has_text="Cancelled").wait_for()
    assert one.page.locator("table.trust").count() == 0
    one.page.get_by_role("button", name="Measure").click()
    one.page.locator("table.trust").wait_for(timeout=600_000)
    rows = one.page.locator("table.trust tbody tr")
    [job] = [job for job in server.server.state.trust._jobs.values() if job.status == "finished"]
    assert rows.count() == len(job.findings) == 5
    for number, finding in enumerate(job.findings):
        cells = rows.nth(number).locator("td").all_inner_texts()
        assert cells[1] == write_number(finding["value"], 2)
        assert all(write_number(control, 2) in cells[2] for control in finding["controls"].values())
        verdict = {"good": "good", "weak": "hardly", "none": "no"}[finding["verdict"]]
        assert cells[4].startswith(f"{verdict} – ")
    one.page.reload()
    rows.nth(4).wait_for()
    assert one.page.get_by_role("button", name="Measure").count() == 0, "it would be the same"
    one.page.click("#language")
    one.page.locator("table.trust", has_text="Ce que cela veut dire").wait_for()
    assert "Mesuré sur 20 phrases" in one.page.locator("#trust-status").inner_text()
    check_axe(one)
    assert (one.outside, one.wrong) == ([], [])


def test_where_no_check_exists_the_screen_says_so(visit: Callable, server: Running):
    one = visit(server.url, "/#screen=trust&model=stories")
    assert "No check of what this model shows exists yet" in one.page.locator("#no-check").inner_text()
    assert one.page.get_by_role("button", name="Measure").count() == 0


def strings(name: str) -> dict[str, str]:
    text = (WEB / "strings" / f"{name}.js").read_text(encoding="utf-8")
    return dict(re.findall(r'(\w+): "((?:[^"\\]|\\.)*)"', text))


@pytest.mark.parametrize("screen", ["training", "trust"])
def test_every_sentence_is_in_both_languages_with_the_same_gaps(screen: str):
    english, french = strings(f"{screen}.en"), strings(f"{screen}.fr")
    assert english.keys() == french.keys()
    gaps = {
        name: (set(re.findall(r"\{\w+\}", english[name])), set(re.findall(r"\{\w+\}", french[name])))
        for name in english
    }
    assert {name for name, (first, second) in gaps.items() if first != second} == set()


def test_every_verdict_of_every_check_has_a_sentence():
    english = strings("trust.en")
    for check in trust.GOOD:
        assert f"check_{check}" in english
        assert all(f"says_{check}_{verdict}" in english for verdict in ("good", "weak", "none"))
