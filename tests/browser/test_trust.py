"""The screen of trust: measured with progress, cancelled, kept, in both languages, and a line where no check exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.interpret.measure import fixed_answers
from tests.browser.live import check_axe, write_number
from tests.interpret.looking import model as make_labeller
from tests.serve.harness import Running, serving

pytestmark = pytest.mark.unchecked
WEB = Path(regard.__file__).parent / "web"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a translator and a language model, and a cache of its own."""
    models: dict[str, Any] = {name: regard.load(name, device="cpu") for name in ("en-fr", "stories")}
    models["kinds"] = make_labeller("pooled recurrent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        with serving(models, trust_sentences=20) as running:
            yield running


def write_decimals(value: float) -> str:
    """Return a number as the screen writes it: with two decimals, and no sign before a zero."""
    return write_number(0.0 if abs(value) < 0.005 else value, 2)


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
    assert rows.count() == len(job.findings) == 9
    assert one.page.locator("#trust-gaps").count() == 0
    for number, finding in enumerate(job.findings):
        cells = rows.nth(number).locator("td").all_inner_texts()
        assert cells[1] == write_decimals(finding["value"])
        assert all(write_decimals(control) in cells[2] for control in finding["controls"].values())
        lead, low, high = (write_decimals(finding[name]) for name in ("lead", "low", "high"))
        assert cells[3] == f"{lead} ({low} to {high})"
        verdict = {"good": "good", "weak": "hardly", "none": "no", "unsure": "cannot be told"}[finding["verdict"]]
        assert cells[5].startswith(f"{verdict} – ")
        if finding["verdict"] == "unsure":
            assert "With 20 sentences it cannot be told" in cells[5]
    one.page.reload()
    rows.nth(8).wait_for()
    assert one.page.get_by_role("button", name="Measure").count() == 0, "it would be the same"
    one.page.click("#language")
    one.page.locator("table.trust", has_text="Ce que cela veut dire").wait_for()
    assert "Mesuré sur 20 phrases" in one.page.locator("#trust-status").inner_text()
    check_axe(one)
    assert (one.outside, one.wrong) == ([], [])


def test_texts_of_ones_own_are_checked_and_what_cannot_be_measured_says_why(visit: Callable, server: Running):
    one = visit(server.url, "/#screen=trust&model=kinds", color_scheme="light")
    texts = (
        "le chat noir dort ici",
        "un chien blanc mange",
        "le chien noir dort",
        "un chat blanc dort",
        "le chat mange",
    )
    one.page.get_by_role("button", name="Measure").click()
    one.page.locator("#trust-status", has_text="Give some texts first").wait_for()
    one.page.get_by_label("Texts to check it on").fill("\n".join(texts))
    one.page.get_by_role("button", name="Measure").click()
    one.page.locator("#trust-status", has_text="Measured on 5 texts").wait_for(timeout=600_000)
    checks = one.page.locator("table.trust tbody td:nth-of-type(1)").all_inner_texts()
    assert [check.split(" (")[0] for check in checks] == [
        "leaving each word out",
        "leaving each word out",
        "handing the shares of every look to other words at random",
        "making all heads look evenly",
    ]
    gaps = " ".join(one.page.locator("#trust-gaps li").all_inner_texts())
    for reason in ("no words that people could link", "no layers of attention to follow", "one head only"):
        assert reason in gaps
    one.page.locator("table.trust th[scope=row] button.help").last.click()
    assert one.page.locator("#explained").inner_text()
    one.page.keyboard.press("Escape")
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
    assert "says_unsure" in english
    for check in (*fixed_answers.GOOD, "region"):
        assert f"check_{check}" in english
        assert all(f"says_{check}_{verdict}" in english for verdict in ("good", "weak", "none"))


def test_every_reason_has_a_sentence():
    english = strings("trust.en")
    source = Path(regard.__file__).parent
    reasons = {
        reason
        for path in (*source.glob("interpret/measure/*.py"), *source.glob("tasks/*/fixed_*.py"))
        for reason in re.findall(r'"((?:no|one)_[a-z]+)"', path.read_text(encoding="utf-8"))
    }
    assert {"no_attention", "no_layers", "no_links", "one_head"} <= reasons
    assert {f"reason_{reason}" for reason in reasons} <= english.keys()
