"""`/v1/explain`: the trace of an answer, its weights one by one, and others that go on meanwhile."""

import socket
import threading
import time

import pytest
import torch
from safetensors.torch import load

from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.serve.calls import Call
from regard.serve.explaining import Interrupted, interrupting
from regard.serve.tensor_cache import OVERHEAD, TensorCache
from tests.serve.harness import Counter, serving

pytestmark = pytest.mark.unchecked
TEXT = "Where is the old station?"


class Watched(Counter):
    """A counter with an attention to look at, which takes as long as it is told to."""

    started, release = threading.Event(), threading.Event()

    def attention_names(self) -> list[str]:
        return ["attention"]

    def look(self, given: str, **options: object) -> Trace:
        if given == "slow":
            self.started.set()
            assert self.release.wait(600)
        items = {"source": [Item(letter) for letter in given]}
        weights = torch.full((1, len(given), len(given)), 1 / len(given))
        return Trace("watched", self.task, items, [Weights("attention", "source", "source", weights)])

    def __deepcopy__(self, memo: object) -> "Watched":
        return Watched()

    def __init__(self) -> None:
        super().__init__()
        self.release = type(self).release


def test_a_trace_comes_as_json_and_its_weights_one_by_one(shop, box):
    expected = box["en-fr"].look(TEXT, to="fr")
    with shop.client() as client:
        answer = client.post("/v1/explain", json={"model": "en-fr", "inputs": TEXT, "options": {"to": "fr"}}).json()
        assert answer["model"] == "en-fr"
        assert answer["trace"] | {"facts": None} == expected.plain() | {"facts": None}
        assert answer["trace"]["facts"]["answer"] == expected.facts["answer"]
        assert answer["trace"]["facts"]["score"] == pytest.approx(expected.facts["score"], abs=1e-4)
        assert list(answer["tensors"]) == box["en-fr"].attention_names()
        for name in list(answer["tensors"])[::7]:
            fetched = client.get(f"/v1/explain/{answer['tensors'][name]}")
            assert fetched.headers["content-type"] == "application/octet-stream"
            assert torch.allclose(load(fetched.content)[name], expected.find(name).values, atol=1e-5)
        assert len(set(answer["tensors"].values())) == len(answer["tensors"])
        assert all(len(identifier) >= 22 for identifier in answer["tensors"].values())
        metrics = client.get("/metrics").text
        assert "regard_open_explanations 0" in metrics
        assert "regard_explain_bytes 0" not in metrics
        assert 'route="/v1/explain/..."' in metrics, "ids are no labels"


def test_every_model_with_attention_is_explained_within_its_limits(shop):
    with shop.client() as client:
        few, many = (
            client.post("/v1/explain", json={"model": "stories", "inputs": "Once upon a time", **more}).json()
            for more in ({"options": {"length": 4, "temperature": 0}}, {"options": {"length": 9, "temperature": 0}})
        )
        assert len(few["trace"]["facts"]["written"]) < len(many["trace"]["facts"]["written"])
        filled = client.post("/v1/explain", json={"model": "encoder", "verb": "fill", "inputs": "A [MASK]."}).json()
        assert filled["trace"]["task"] == "masked-lm"
        for asked, status, words in (
            ({"model": "stories", "inputs": "a", "options": {"length": 201}}, 422, "at most 200 here"),
            ({"model": "en-fr", "inputs": "a" * 2001}, 422, "2,000 characters can be explained"),
            ({"model": "en-fr", "inputs": ["a", "b"]}, 422, "one at a time"),
            ({"model": "en-fr"}, 422, "inputs is missing"),
            ({"model": "en-fr", "inputs": "a", "options": {"beams": 3}}, 422, "beams"),
            ({"model": "nobody", "inputs": "a"}, 404, "en-fr, stories, encoder"),
            ({"model": "stories", "verb": "translate", "inputs": "a"}, 404, "stories cannot be explained"),
        ):
            answer = client.post("/v1/explain", json=asked)
            assert (answer.status_code, words in answer.json()["error"]["message"]) == (status, True), answer.text
        unknown = client.get("/v1/explain/AAAAAAAAAAAAAAAAAAAAAA")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
        schema = client.get("/openapi.json").json()["paths"]["/v1/explain"]["post"]["requestBody"]
        assert len(schema["content"]["application/json"]["schema"]["anyOf"]) == 4


def test_the_oldest_weights_make_room_and_what_never_fits_has_no_id():
    cache = TensorCache(100 + 2 * OVERHEAD)
    first = cache.add({"a": torch.zeros(10), "b": torch.zeros(10)})
    assert cache.bytes == 80 + 2 * OVERHEAD
    second = cache.add({"c": torch.zeros(10)})
    assert cache.bytes == 80 + 2 * OVERHEAD
    assert cache.find(first["a"]) is None
    assert cache.find(first["b"])[0] == "b"
    assert cache.find(second["c"])[0] == "c"
    assert cache.add({"d": torch.zeros(410), "e": torch.zeros(5)})["d"] is None
    assert cache.bytes == 20 + OVERHEAD


def test_others_are_answered_while_an_answer_is_explained_and_clients_that_leave_free_their_place():
    Watched.started.clear()
    Watched.release.clear()
    with serving({"watched": Watched()}) as running, running.client() as client, running.client() as other:
        answers: list = []
        slow = threading.Thread(
            target=lambda: answers.append(client.post("/v1/explain", json={"inputs": "slow"}).json())
        )
        slow.start()
        assert Watched.started.wait(600)
        assert other.post("/v1/measure", json={"inputs": "abc"}).json()["answers"] == [{"letters": 3}]
        explainer = running.server.state.explainer
        with socket.create_connection(("127.0.0.1", running.port)) as hasty:
            body = b'{"inputs": "abc"}'
            hasty.sendall(
                b"POST /v1/explain HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )
            running.until(lambda: explainer.open_calls == 2)
        running.until(lambda: any("/v1/explain 499" in line for line in running.lines))
        Watched.release.set()
        slow.join(600)
        assert answers[0]["tensors"]["attention"]
        running.until(lambda: explainer.open_calls == 0)


def test_an_explanation_under_way_ends_at_the_next_attention_of_a_call_that_is_over(box):
    writer = box["stories"]
    call = Call("stories", ["Once"], {}, time.monotonic() + 600, lambda answers, error: None)
    with interrupting(writer.model, call):
        writer.look("Once", length=2)
        call.cancel()
        with pytest.raises(Interrupted):
            writer.look("Once", length=200)
    writer.look("Once", length=2)
