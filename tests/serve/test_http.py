"""The HTTP API with clients as they are: forms, queries and JSON of LibreTranslate, OpenAI's routes, every task."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from regard.data.tokenizers import WORD
from regard.tasks.translation.documents import document
from regard.tasks.translation.documents.glossary import Terms

pytestmark = pytest.mark.unchecked


@pytest.fixture
def client(shop):
    with shop.client() as client:
        yield client


def events(response) -> list:
    """The events of a stream, without the mark of its end."""
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_libretranslate_reads_forms_json_and_queries(client, box):
    text = "Where is the station?"
    expected = box["en-fr"].translate(text, to="fr")
    fields = {"q": text, "source": "en", "target": "fr"}
    answers = [
        client.post("/translate", data=fields),
        client.post("/translate", json=fields),
        client.post("/translate", params=fields),
        client.post("/translate", content=json.dumps(fields)),
    ]
    assert [answer.json() for answer in answers] == [{"translatedText": expected}] * 4
    several = client.post("/translate", json={"q": [text, "Où est la gare ?"], "source": "auto", "target": "fr"}).json()
    assert several["translatedText"][0] == expected
    assert [detected["language"] for detected in several["detectedLanguage"]] == ["en", "fr"]
    codes = [(entry["code"], entry["targets"]) for entry in client.get("/languages").json()]
    assert codes == [("en", ["fr"]), ("fr", ["en"])]
    assert client.request("GET", "/languages", data={"api_key": ""}).status_code == 200, "libretranslatepy sends a body"
    assert client.post("/detect", data={"q": "Où est la gare ?"}).json()[0]["language"] == "fr"
    assert client.get("/frontend/settings").json()["keyRequired"] is False
    assert client.get("/health").json() == {"status": "ok"}


def test_libretranslate_knows_alternatives_html_and_glossaries(client, box):
    asked = {"q": "Where is the station?", "source": "en", "target": "fr", "alternatives": 2}
    answer = client.post("/translate", json=asked).json()
    assert 1 <= len(answer["alternatives"]) <= 2
    assert answer["translatedText"] not in answer["alternatives"]
    page = '<p>The <b>station</b> &amp; the <a href="x">dog</a>.</p>'
    told = {"q": page, "source": "en", "target": "fr", "format": "html", "glossary": {"station": "halte"}}
    answer = client.post("/translate", json=told).json()["translatedText"]
    terms = Terms.of([("station", "halte")])
    assert answer == document.translate(box["en-fr"], [page], to="fr", html=True, terms=terms)[0]
    assert "halte" in answer.lower()
    form = client.post("/translate", data={**told, "glossary": json.dumps(told["glossary"])}).json()
    assert form["translatedText"] == answer


def test_libretranslate_links_words_where_that_is_asked_for(client, box):
    texts = ["The cat sleeps. I have two dogs.", "Good morning."]
    asked = {"q": texts, "source": "en", "target": "fr", "alignment": True}
    answer = client.post("/translate", json=asked).json()
    plainly = client.post("/translate", json={**asked, "alignment": False}).json()
    assert plainly == {"translatedText": answer["translatedText"]}
    for text, translation, alignment in zip(texts, answer["translatedText"], answer["alignment"], strict=True):
        assert alignment["source"] == WORD.findall(text)
        assert alignment["target"] == WORD.findall(translation)
    first = answer["alignment"][0]
    linked = {(first["source"][source], first["target"][target]) for source, target in first["links"]}
    assert {("cat", "chat"), ("dogs", "chiens")} <= linked
    one = client.post("/translate", data={**asked, "q": texts[1], "alignment": "true"}).json()
    assert one["alignment"] == answer["alignment"][1]
    for change in ({"format": "html"}, {"glossary": {"cat": "minou"}}, {"alignment": 3}):
        refused = client.post("/translate", json={**asked, **change})
        assert (400 <= refused.status_code < 500, "alignment" in refused.json()["error"]) == (True, True)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"target": "de"}, "de is not supported"),
        ({"target": None}, "missing target"),
        ({"q": 3}, "missing q"),
        ({"alternatives": 99}, "alternatives"),
        ({"format": "pdf"}, "format"),
        ({"glossary": [1]}, "glossary"),
        ({"sauce": 1}, "'sauce'"),
    ],
)
def test_libretranslate_is_told_what_is_wrong_in_its_own_envelope(client, change, word):
    answer = client.post("/translate", json={"q": "a", "source": "en", "target": "fr", **change})
    assert answer.status_code == 400
    assert word in answer.json()["error"]


def test_openai_clients_get_models_completions_and_streams(client, box):
    listed = client.get("/v1/models").json()["data"]
    assert {"en-fr", "en-fr:fr", "en-fr:en", "stories", "encoder"} == {model["id"] for model in listed}
    assert not any(model["capabilities"]["chat"] for model in listed)
    assert client.get("/v1/models/en-fr:fr").json()["id"] == "en-fr:fr"
    asked = {"model": "stories", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
    answer = client.post("/v1/completions", json=asked).json()
    [alone] = box["stories"].answer(["Once upon a time"], length=12, temperature=0.0)
    assert "Once upon a time" + answer["choices"][0]["text"] == alone.text
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 12
    pieces = events(
        client.post("/v1/completions", json={**asked, "stream": True, "stream_options": {"include_usage": True}})
    )
    assert len(pieces) > 3
    text = "".join(piece["choices"][0]["text"] for piece in pieces if piece["choices"])
    assert text == answer["choices"][0]["text"]
    assert pieces[-1]["usage"] == answer["usage"]


def test_choices_are_drawn_from_the_seed_of_the_request(client):
    asked = {"model": "stories", "prompt": "The dog", "max_tokens": 8, "n": 2, "seed": 5, "stop": "!", "echo": True}
    first, again = (client.post("/v1/completions", json=asked).json()["choices"] for _ in range(2))
    assert first == again
    assert first[0]["text"] != first[1]["text"]
    assert all(choice["text"].startswith("The dog") for choice in first)
    other = client.post("/v1/completions", json={**asked, "seed": 6}).json()["choices"]
    assert other != first


def test_a_conversation_is_a_completion_and_a_translation_is_one_too(client, box):
    messages = [{"role": "system", "content": "Translate."}, {"role": "user", "content": "Good morning, everyone."}]
    asked = {"model": "en-fr:fr", "messages": messages}
    answer = client.post("/v1/chat/completions", json=asked).json()
    expected = box["en-fr"].translate("Good morning, everyone.", to="fr")
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": expected}
    assert answer["choices"][0]["finish_reason"] == "stop"
    deltas = events(client.post("/v1/chat/completions", json={**asked, "stream": True}))
    assert deltas[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(delta["choices"][0]["delta"].get("content", "") for delta in deltas) == expected
    assert deltas[-1]["choices"][0]["finish_reason"] == "stop"


def test_translations_are_streamed_and_end_as_they_do_in_one_piece(client):
    text = "The old man who lives near the river told us that his dog had eaten all the bread."
    for beams, least in ((1, 10), (4, 2)):
        asked = {"model": "en-fr:fr", "prompt": text, "beams": beams}
        whole = client.post("/v1/completions", json=asked).json()["choices"][0]["text"]
        pieces = [
            piece["choices"][0] for piece in events(client.post("/v1/completions", json={**asked, "stream": True}))
        ]
        assert "".join(piece["text"] for piece in pieces) == whole
        assert len([piece for piece in pieces if piece["text"]]) >= least
        messages = [{"role": "user", "content": text}]
        told = {"model": "en-fr:fr", "messages": messages, "beams": beams, "stream": True}
        deltas = [delta["choices"][0]["delta"] for delta in events(client.post("/v1/chat/completions", json=told))]
        assert "".join(delta.get("content", "") for delta in deltas) == whole
        assert len(deltas) > least
    for refused in (
        {"model": "stories"},
        {"model": "en-fr:fr", "temperature": 0.5},
        {"model": "en-fr:fr", "beams": 99},
    ):
        answer = client.post("/v1/completions", json={"prompt": "a", "beams": 2, **refused})
        assert answer.status_code == 422
        assert "beams" in answer.json()["error"]["message"]


def test_embeddings_come_as_numbers_and_as_base64(client, box):
    texts = ["A dog.", "Two cats sleep."]
    plain = client.post("/v1/embeddings", json={"input": texts}).json()
    packed = client.post("/v1/embeddings", json={"input": texts, "encoding_format": "base64"}).json()
    expected = box["encoder"].embed(texts)
    for index in range(2):
        row = np.frombuffer(base64.b64decode(packed["data"][index]["embedding"]), "<f4")
        assert np.allclose(row, expected[index], atol=1e-5)
        assert np.allclose(plain["data"][index]["embedding"], row)
    assert plain["usage"]["prompt_tokens"] > 4


def test_texts_are_searched_by_meaning(client, box):
    texts = ["The dog sleeps.", "It rains a lot in the mountains.", "My car needs petrol.", "Il pleut beaucoup."]
    asked = {"inputs": ["Bad weather", "a pet"], "texts": texts, "top": 2}
    answer = client.post("/v1/search", json=asked).json()
    assert answer["model"] == "encoder"
    vectors = box["encoder"].units([*asked["inputs"], *texts])
    cosines = vectors[:2] @ vectors[2:].T
    for row, found in zip(cosines, answer["answers"], strict=True):
        expected = np.argsort(-row)[:2]
        assert [hit["line"] for hit in found["hits"]] == [place + 1 for place in expected]
        assert [hit["text"] for hit in found["hits"]] == [texts[place] for place in expected]
        assert [hit["score"] for hit in found["hits"]] == pytest.approx(row[expected].tolist(), abs=1e-4)
    one = client.post("/v1/search", json={"inputs": "Bad weather", "texts": texts}).json()["answers"]
    assert [entry["query"] for entry in one] == ["Bad weather"]
    assert len(one[0]["hits"]) == 4
    for change, status, words in (
        ({"model": "stories"}, 404, "stories cannot embed; these can: encoder"),
        ({"texts": []}, 422, "texts must be"),
        ({"texts": ["a"] * 1001}, 422, "1,001 texts in texts, at most 1,000"),
        ({"texts": ["a" * 20_001]}, 422, "characters"),
        ({"top": 0}, 422, "top must be"),
        ({"options": {"pull": "mean"}}, 422, "there are pool"),
        ({"file": "/etc/passwd"}, 422, "unknown member"),
    ):
        refused = client.post("/v1/search", json={**asked, **change})
        assert (refused.status_code, words in refused.json()["error"]["message"]) == (status, True), refused.text


def test_every_verb_has_a_route_with_the_options_of_its_models(client, box, shop):
    answer = client.post(
        "/v1/translate", json={"inputs": ["Good morning."], "options": {"to": "fr", "beams": 2}}
    ).json()
    [alone] = box["en-fr"].answer(["Good morning."], to="fr", beams=2)
    assert answer == {"model": "en-fr", "answers": [alone.plain()]}
    schema = client.get("/openapi.json").json()
    body = schema["paths"]["/v1/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["options"]["properties"]["beams"]["default"] == 4
    assert schema["paths"]["/v1/write"]["post"]["summary"].startswith("Write: a language model")
    refused = client.post("/v1/classify", json={"inputs": "x"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")
    assert "translate, write, embed, fill" in refused.json()["error"]["message"]
    wrong = client.post("/v1/translate", json={"model": "stories", "inputs": "x"})
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (404, "stories cannot translate; these can: en-fr")


def test_pictures_come_as_base64_or_as_they_are(desk):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 30, 3), np.uint8))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    encoded = base64.b64encode(buffer.getvalue()).decode()
    expected = desk.server.state.catalogue.trained_models["eye"].classify(np.asarray(image))[0].plain()
    with desk.client() as client:
        for inputs in (encoded, [encoded], f"data:image/png;base64,{encoded}"):
            [answer] = client.post("/v1/classify", json={"inputs": inputs}).json()["answers"]
            assert answer["label"] == expected["label"]
            assert answer["probability"] == pytest.approx(expected["probability"], abs=1e-5)
        raw = client.post("/v1/classify", content=buffer.getvalue(), headers={"content-type": "image/png"})
        assert raw.json()["answers"][0]["label"] == expected["label"]
