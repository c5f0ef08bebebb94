"""What the explorer asks of a server: its page, the models with their forms, views of answers, and their steps."""

import gzip
import json
import re

import pytest
import torch
from safetensors.torch import load

from regard.interpret.draw.bundle import explorer_script
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.serve.catalogue import ServedModel
from regard.serve.views import ViewCache, view_trace
from tests.serve.harness import make_eye, serving

pytestmark = pytest.mark.unchecked
TEXT = "Where is the old station?"
KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="module")
def explained(shop) -> dict:
    """A translation with its view."""
    with shop.client() as client:
        question = {"model": "en-fr", "inputs": TEXT, "options": {"to": "fr"}, "view": True}
        return client.post("/v1/explain", json=question).json()


def test_the_page_is_the_same_application_as_a_file_and_small(shop):
    with shop.client() as client:
        shell = client.get("/")
        assert shell.headers["content-type"] == "text/html; charset=utf-8"
        policy = shell.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:")
        assert "unsafe" not in policy
        assert re.findall(r'(?:src|href)="(?!#|data:)(.*?)"', shell.text) == ["/explorer.css", "/explorer.js"]
        assert not re.search(r"<style|\sstyle=|\{\{|https?:", shell.text)
        assert "en-fr" not in shell.text
        script = client.get("/explorer.js")
        assert script.text == explorer_script()
        assert script.headers["content-encoding"] == "gzip"
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        style = client.get("/explorer.css", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in style.headers
        assert "--accent" in style.text
        sent = [shell.content, gzip.compress(script.content), gzip.compress(style.content)]
        assert sum(map(len, sent)) < 150_000


def test_the_list_of_models_is_sent_compressed_to_whom_reads_that(shop):
    with shop.client() as client:
        compressed = client.get("/v1/explorer", headers={"accept-encoding": "br, gzip;q=0.9"})
        plain = client.get("/v1/explorer", headers={"accept-encoding": "identity"})
        assert compressed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert compressed.json() == plain.json()
        assert int(compressed.headers["content-length"]) < int(plain.headers["content-length"]) / 3
        assert compressed.headers["content-type"] == plain.headers["content-type"] == "application/json"


def test_a_copy_that_is_still_right_is_not_sent_again(shop):
    with shop.client() as client:
        for path in ("/explorer.js", "/explorer.css"):
            first = client.get(path)
            assert first.headers["cache-control"] == "no-cache"
            again = client.get(path, headers={"if-none-match": f'"other", {first.headers["etag"]}'})
            assert (again.status_code, again.content) == (304, b"")
            assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200
        assert client.get("/").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "accepted", "attributes"),
    [
        ("/", "", 'lang="en"'),
        ("/", "fr-CA,en;q=0.5", 'lang="fr"'),
        ("/", "de,es", 'lang="en"'),
        ("/?lang=fr", "en", 'lang="fr" data-lang="fr"'),
        ("/?lang=<b>", "fr", 'lang="fr"'),
    ],
)
def test_the_page_speaks_the_language_of_the_address_or_of_the_browser(shop, path, accepted, attributes):
    with shop.client() as client:
        assert f"<html {attributes}>" in client.get(path, headers={"accept-language": accepted}).text


def test_the_list_of_routes_obeys_the_same_policy(shop):
    with shop.client() as client:
        page = client.get("/docs")
        assert "POST /v1/translate" in page.text
        assert "unsafe" not in page.headers["content-security-policy"]
        assert not re.search(r"<style|\sstyle=|\{\{|https?:", page.text)


def test_models_are_described_with_forms_and_abilities(shop, box):
    with shop.client() as client:
        facts = client.get("/v1/explorer").json()
    assert set(facts) == {"models", "limits", "run", "version"}
    assert facts["run"] is None
    assert facts["limits"]["explain_characters"] == 2000
    models = {(model["name"], model["verb"]): model for model in facts["models"]}
    assert len(models) == len(box)
    translator = models["en-fr", "translate"]
    assert (translator["reads"], translator["streams"], translator["languages"]) == ("text", True, ["en", "fr"])
    assert "beams" in translator["options"]["properties"]
    assert "to" in translator["look"]["properties"]
    assert translator["example"]
    assert all("explain" in model["can"] for model in models.values())
    with serving({"eye": make_eye()}) as running, running.client() as client:
        [eye] = client.get("/v1/explorer").json()["models"]
        assert (eye["reads"], eye["streams"], eye["languages"]) == ("picture", False, [])
        assert eye["inputs"]["contentEncoding"] == "base64"
        assert eye["together"] is False


def test_a_view_is_what_a_file_holds_and_its_numbers_are_the_traces(shop, box, explained):
    view, trace = explained["view"], box["en-fr"].look(TEXT, to="fr")
    assert view["facts"]["answer"] == trace.facts["answer"]
    assert [item["text"] for item in view["items"]["source"]] == [item.text for item in trace.items["source"]]
    assert [attention["name"] for attention in view["attentions"]] == list(explained["tensors"])
    assert view["stepped"] == list(explained["tensors"])
    assert set(view["measures"]) == {"entropy", "diagonality"}
    assert (view["steps"], view["rounded"]) == ({}, False)
    assert [entry["written"] for entry in view["predictions"]] == [item.text for item in trace.items["target"]]
    assert view["written"] == trace.facts["written"]
    attention = view["attentions"][view["first"]]
    weights = trace.find(attention["name"]).values
    assert len(view["measures"]["entropy"][attention["name"]]) == len(weights)
    with shop.client() as client:
        for head, ref in enumerate(attention["heads"]):
            assert (ref["head"], ref["heads"], ref["shape"]) == (head, len(weights), list(weights.shape[1:]))
            assert ref["id"] == explained["tensors"][attention["name"]]
            [values] = load(client.get(f"/v1/explain/{ref['id']}", params={"head": head}).content).values()
            assert torch.allclose(values, weights[head], atol=1e-5)
        for head in (len(weights), -1, "x", "9" * 20, "٣"):
            answer = client.get(f"/v1/explain/{ref['id']}", params={"head": head})
            assert (answer.status_code, "head must be" in answer.text) == (422, True), head
        assert client.get(f"/v1/explain/{view['id']}/view").json() == view
        plain = client.post("/v1/explain", json={"model": "en-fr", "inputs": "Yes."}).json()
        assert "view" not in plain
        assert client.post("/v1/explain", json={"inputs": "Yes.", "view": 1}).status_code == 422


def test_steps_of_one_attention_are_those_of_the_model(shop, box, explained):
    view, trace = explained["view"], box["en-fr"].look(TEXT, to="fr")
    name = view["attentions"][view["first"]]["name"]
    expected = trace.steps([name])
    with shop.client() as client:
        answer = client.post(f"/v1/explain/{view['id']}/steps", json={"attention": name}).json()
        assert list(answer["steps"]) == [name]
        assert answer["predicted"] == "target"
        assert [entry["written"] for entry in answer["predictions"]] == [each.written for each in expected.predictions]
        inside = answer["steps"][name]
        for part, values in (("q", expected.attentions[name].queries), ("v", expected.attentions[name].values)):
            ref = inside["heads"][1][part]
            [vectors] = load(client.get(f"/v1/explain/{ref['id']}?head={ref['head']}").content).values()
            assert torch.allclose(vectors, values[1], atol=1e-4), part
        [visible] = load(client.get(f"/v1/explain/{inside['visible']['id']}").content).values()
        assert torch.equal(visible.bool(), expected.attentions[name].visible)
        encoder = view["attentions"][0]["name"]
        assert client.post(f"/v1/explain/{view['id']}/steps", json={"attention": encoder}).status_code == 200
        for body, words in (
            ({"attention": "x"}, "must be one of"),
            ({}, "must be one of"),
            ({"x": 1}, "unknown member"),
        ):
            refused = client.post(f"/v1/explain/{view['id']}/steps", json=body)
            assert (refused.status_code, words in refused.text) == (422, True)


def test_unknown_views_say_to_explain_again(shop):
    unknown = "A" * 22
    with shop.client() as client:
        answers = [
            client.get(f"/v1/explain/{unknown}/view"),
            client.post(f"/v1/explain/{unknown}/steps", json={"attention": "x"}),
        ]
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert "explain the input again" in answer.json()["error"]["message"]


def make_trace(text: str) -> Trace:
    items = {"source": [Item(letter) for letter in text]}
    return Trace("m", "t", items, [Weights("a", "source", "source", torch.rand(2, len(text), len(text)))])


def test_the_oldest_views_make_room_by_number_and_by_bytes():
    model = ServedModel("m", "m", None)
    views = ViewCache(2)
    first, second, third = (views.add(model, make_trace(text), view_trace(make_trace(text))[0])["id"] for text in "abc")
    assert views.find(first) is None
    assert json.loads(views.find(second).body)["id"] == second
    assert views.find(third).trace.weights[0].values.is_meta, "weights are kept once, by their own ids"
    assert len({first, second, third}) == 3
    assert all(len(identifier) >= 22 for identifier in (first, second, third))
    views = ViewCache(10, most_bytes=3000)
    for number in range(10):
        newest = views.add(model, make_trace("a"), {"text": "x" * 1000, "number": number})["id"]
    assert views.bytes <= 3000
    assert len(views) == 2
    assert views.find(newest)
    large = views.add(model, make_trace("a"), {"text": "x" * 5000})["id"]
    assert views.find(large), "the newest is kept, however large"
    assert len(views) == 1


def test_with_keys_the_page_is_public_and_says_nothing_of_the_models(counter):
    with serving({"counter": counter}, keys=[KEY]) as running, running.client() as client:
        for path in ("/", "/explorer.js", "/explorer.css"):
            assert client.get(path).status_code == 200
        assert "counter" not in client.get("/").text
        bearer = {"authorization": f"Bearer {KEY}"}
        for method, path in (("GET", "/v1/explorer"), ("GET", "/v1/explain/x/view"), ("POST", "/v1/explain/x/steps")):
            assert client.request(method, path).status_code == 401, path
            assert client.request(method, path, headers=bearer, json={}).status_code in (200, 404), path


def test_the_list_of_routes_says_nothing_of_the_models_without_a_key(counter, shop):
    """S14: it is the same for whatever is served; with a key it has every route with what it takes."""
    others = shop.server.state.catalogue.trained_models
    with (
        serving({"counter": counter}, keys=[KEY]) as desk,
        serving(others, keys=[KEY]) as other,
        desk.client() as client,
        other.client() as another,
    ):
        public = client.get("/docs")
        wrong = client.get("/docs", headers={"authorization": "Bearer a-key-that-nobody-guesseS"})
        assert public.content == wrong.content == another.get("/docs").content
        whole = client.get("/docs", headers={"authorization": f"Bearer {KEY}"}).text
    assert "GET /v1/models" in public.text
    assert "openapi.json" in public.text
    assert not [word for word in ("measure", "counter of", "translate to", "<pre>") if word in public.text]
    assert "POST /v1/measure" in whole
    assert "<pre>" in whole
    with shop.client() as client:
        assert "POST /v1/translate" in client.get("/docs").text
