"""Checks of what a model shows: measured in the background, kept by the checkpoint, cancelled, and never stale."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

import regard
from regard.interpret.measure import fixed_answers, trust
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.metrics import alignment
from regard.serve.catalogue import Catalogue, ServedModel
from regard.serve.limits import Limits
from regard.serve.refusal import Refusal
from regard.serve.trust import TrustChecks
from regard.serve.trust_jobs import name_of
from tests.interpret.looking import model as make_labeller
from tests.serve.harness import Running, make_eye, serving
from tests.serve.process import SMALL, wait_until

ENDED = ("finished", "cancelled", "failed")


@pytest.fixture(scope="module")
def translator() -> Any:
    return regard.load("en-fr", device="cpu")


@pytest.fixture
def desk(translator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server with a translator, a classifier of pictures that learnt nothing, and a cache of its own."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    with serving({"en-fr": translator, "eye": make_eye()}, trust_sentences=2) as running:
        yield running


def ask(running: Running, **body: Any) -> httpx.Response:
    return httpx.post(f"{running.url}/v1/trust", json=body, timeout=600, trust_env=False)


def wait_for(running: Running, identifier: str) -> dict[str, Any]:
    job: dict[str, Any] = {}

    def has_ended() -> bool:
        job.update(httpx.get(f"{running.url}/v1/trust/{identifier}", timeout=600, trust_env=False).json())
        return job["status"] in ENDED

    wait_until(has_ended)
    return job


def test_a_translator_is_checked_once_and_the_numbers_are_those_of_its_measures(desk: Running, translator: Any):
    first = ask(desk, model="en-fr", to="fr")
    assert first.status_code == 202
    job = wait_for(desk, first.json()["id"])
    assert (job["status"], job["done"], job["current"]) == ("finished", job["total"], True)
    found = {(one["method"], one["check"]): one for one in job["findings"]}
    methods = "attention", "rollout", "gradient"
    assert set(found) == {
        *((method, check) for method in methods for check in ("alignment", "deletion")),
        *(("attention", check) for check in ("silenced", "permuted", "even")),
    }
    assert job["gaps"] == []
    expected = trust.check_translator(ForcedReader(translator, "fr"), alignment.read()[:2]).findings
    assert [one["value"] for one in job["findings"]] == pytest.approx([one.value for one in expected], abs=1e-5)
    assert all(one["controls"] and one["low"] <= one["high"] and one["examples"] == 2 for one in job["findings"])
    verdicts = {one["verdict"] for one in job["findings"]}
    assert verdicts <= {"unsure", "none"}, "two sentences are too few to speak for a method"
    assert ask(desk, model="en-fr", to="fr").json()["id"] == job["id"], "it is measured once"
    assert ask(desk, model="en-fr", to="en").json()["id"] != job["id"]


def test_checks_are_listed_by_model_and_language_the_newest_first(desk: Running):
    def listed(**query: str) -> list[str]:
        answer = httpx.get(f"{desk.url}/v1/trust", params=query, timeout=600, trust_env=False)
        return [job["id"] for job in answer.json()["jobs"]]

    assert listed(model="en-fr") == []
    french, english = (ask(desk, model="en-fr", to=to).json()["id"] for to in ("fr", "en"))
    maps = ask(desk, model="eye", inputs=[picture((255, 0, 0)), picture((0, 0, 255))]).json()["id"]
    assert listed(model="en-fr") == listed() == [english, french]
    assert listed(model="en-fr", verb="translate", to="fr") == [french]
    assert listed(model="eye") == [maps]
    assert httpx.get(f"{desk.url}/v1/trust?model=nobody", trust_env=False).status_code == 404
    for identifier in (french, english, maps):
        httpx.delete(f"{desk.url}/v1/trust/{identifier}", trust_env=False)


def test_heads_that_are_silenced_for_a_check_go_on_answering(desk: Running, translator: Any):
    before = translator.translate("The white house.", to="fr")
    job = ask(desk, model="en-fr", to="fr").json()
    body = {"model": "en-fr", "inputs": "The white house.", "options": {"to": "fr"}}
    answers = set()
    while wait_once(desk, job["id"])["status"] not in ENDED:
        answer = httpx.post(f"{desk.url}/v1/translate", json=body, timeout=600, trust_env=False).json()
        answers.add(answer["answers"][0]["translation"])
    assert answers <= {before}


def wait_once(running: Running, identifier: str) -> dict[str, Any]:
    return httpx.get(f"{running.url}/v1/trust/{identifier}", timeout=600, trust_env=False).json()


def test_a_check_is_cancelled_and_can_be_begun_again(translator: Any, tmp_path: Path):
    checks = TrustChecks(Limits(trust_sentences=100), tmp_path)
    model = ServedModel("en-fr", "en-fr", translator)
    job = checks.submit(model, "fr")
    wait_until(lambda: job.done)
    checks.cancel(job.identifier)
    wait_until(lambda: job.status in ENDED)
    assert (job.status, job.findings) == ("cancelled", [])
    assert job.done < job.total
    again = checks.submit(model, "fr")
    assert again is not job
    checks.cancel(again.identifier)
    checks.stop()
    assert not list(tmp_path.rglob("*.json")), "half a measurement is not kept"


def test_a_check_that_takes_too_long_says_so(translator: Any, tmp_path: Path):
    checks = TrustChecks(Limits(trust_sentences=100, trust_seconds=0.001), tmp_path)
    job = checks.submit(ServedModel("en-fr", "en-fr", translator), "fr")
    wait_until(lambda: job.status in ENDED)
    checks.stop()
    assert job.status == "failed"
    assert "trust_seconds" in job.reason


def test_results_are_kept_by_the_checkpoint_and_a_damaged_file_is_measured_again(translator: Any, tmp_path: Path):
    limits, model = Limits(trust_sentences=2), ServedModel("a", "a", translator, version="0" * 64)

    def measured(model: ServedModel) -> Any:
        checks = TrustChecks(limits, tmp_path)
        job = checks.submit(model, "fr")
        began = job.status
        wait_until(lambda: job.status in ENDED)
        checks.stop()
        return began, job.findings

    began, findings = measured(model)
    assert began != "finished"
    assert measured(model) == ("finished", findings), "read from the cache"
    other = ServedModel("a", "a", translator, version="1" * 64)
    assert measured(other)[0] != "finished", "another checkpoint is measured"
    path = tmp_path / "trust" / f"{name_of('0' * 64, 'translator', 'fr', 2)}.json"
    changed = json.loads(path.read_text())
    changed["findings"][0]["value"] = 0.0
    path.write_text(json.dumps(changed))
    assert measured(model)[0] != "finished", "a changed file is not believed"
    path.write_bytes(path.read_bytes()[:40])
    began, again = measured(model)
    assert began != "finished"
    assert again == findings


def test_a_result_of_a_version_that_was_replaced_is_not_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    first, second = (regard.load("en-fr", device="cpu") for _ in range(2))
    catalogue = Catalogue([ServedModel("m", "m", first, version="0" * 64)])
    with serving(catalogue, trust_sentences=2) as running:
        job = wait_for(running, ask(running, model="m", to="fr").json()["id"])
        assert job["current"] is True
        catalogue.replace("m", second, "1" * 64)
        assert wait_once(running, job["id"])["current"] is False
        new = ask(running, model="m", to="fr").json()
        assert (new["id"] != job["id"], new["digest"]) == (True, "1" * 64)


def picture(colour: tuple[int, int, int]) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (16, 16), colour).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def test_the_maps_of_a_classifier_are_checked_on_posted_pictures(desk: Running):
    assert ask(desk, model="eye").status_code == 422
    inputs = [picture((255, 0, 0)), picture((0, 0, 255))]
    job = wait_for(desk, ask(desk, model="eye", inputs=inputs).json()["id"])
    assert job["status"] == "finished"
    assert {(one["method"], one["check"]) for one in job["findings"]} >= {
        (method, check)
        for method in ("attention", "rollout", "gradient")
        for check in ("map_deletion", "map_insertion", "map_change")
    }


TEXTS = [
    "le chat noir dort ici",
    "un chien blanc mange",
    "le chien noir dort",
    "un chat blanc dort ici",
    "le chat mange",
]


def test_labels_of_texts_are_checked_on_posted_texts_and_kept_by_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    with serving({"kinds": make_labeller("class"), "tags": make_labeller("tagger")}, trust_sentences=5) as running:
        with running.client() as client:
            listed = {model["name"]: model["trust"] for model in client.get("/v1/explorer").json()["models"]}
        assert listed == {"kinds": {"inputs": True}, "tags": {"inputs": True}}
        for name in ("kinds", "tags"):
            job = wait_for(running, ask(running, model=name, inputs=TEXTS).json()["id"])
            assert (job["status"], job["done"]) == ("finished", job["total"])
            assert {one["check"] for one in job["findings"]} == {"deletion", "silenced", "permuted", "even"}
            assert {one["examples"] for one in job["findings"] if one["check"] == "even"} == {5}
            reasons = {gap["reason"] for gap in job["gaps"]}
            assert reasons == {"no_translation"}
            assert ask(running, model=name, inputs=TEXTS).json()["id"] == job["id"]
            assert ask(running, model=name, inputs=TEXTS[:4]).json()["id"] != job["id"]


def test_a_translator_of_other_languages_is_checked_on_its_own_answers(tmp_path: Path):
    checks = TrustChecks(Limits(trust_sentences=2), tmp_path)
    model = ServedModel("small", "small", regard.load(SMALL, device="cpu"))
    with pytest.raises(Refusal, match="send texts on which it is checked as inputs, 2 at least"):
        checks.submit(model)
    job = checks.submit(model, inputs=["Le chat noir dort.", "Le loup court vite !"])
    wait_until(lambda: job.status in ENDED)
    checks.stop()
    assert (job.status, job.done) == ("finished", job.total), job.reason
    assert {gap["reason"] for gap in job.gaps} == {"no_links"}


def test_results_belong_to_what_is_measured_and_how_it_is_judged(monkeypatch: pytest.MonkeyPatch):
    before = name_of("0" * 64, "translator", "fr", 2)
    assert name_of("0" * 64, "translator", "fr", 2) == before
    monkeypatch.setattr(trust, "VERSION", trust.VERSION + 1)
    newer = name_of("0" * 64, "translator", "fr", 2)
    monkeypatch.setitem(fixed_answers.GOOD, "deletion", 0.2)
    assert len({before, newer, name_of("0" * 64, "translator", "fr", 2)}) == 3


def test_refusals_name_the_remedy(desk: Running):
    assert ask(desk, model="nobody").status_code == 404
    assert ask(desk, model="en-fr", to="de").status_code == 422
    assert ask(desk, model="en-fr", strange=1).status_code == 422
    assert ask(desk, model="en-fr", inputs=["one alone"]).status_code == 422
    assert ask(desk, model="en-fr", inputs=["short", "long " * 500]).status_code == 422
    assert httpx.get(f"{desk.url}/v1/trust/nothing", trust_env=False).status_code == 404
    assert httpx.delete(f"{desk.url}/v1/trust/nothing", trust_env=False).status_code == 404


def test_a_model_without_a_check_is_refused_in_a_sentence(tmp_path: Path):
    checks = TrustChecks(Limits(), tmp_path)
    with pytest.raises(Refusal, match="no check of what stories shows exists"):
        checks.submit(ServedModel("stories", "stories", regard.load("stories", device="cpu")))
