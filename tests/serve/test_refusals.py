"""Refusals where they are easily lost: of streams, of keys in a body, in fields that hold JSON; and the defaults."""

from __future__ import annotations

import json
import sys
import threading

import pytest

from regard.serve.limits import Limits
from tests.serve.harness import serving

pytestmark = pytest.mark.unchecked
KEYS = ("a-key-that-nobody-guesses", "another-key-of-somebody")


def test_the_defaults_are_those_that_are_promised():
    limits = Limits()
    assert (limits.body_bytes, limits.picture_bytes, limits.pixels) == (1 << 20, 20 << 20, 100_000_000)
    assert (limits.inputs, limits.new_tokens, limits.beams, limits.queue) == (32, 1024, 8, 64)
    assert limits.deadline == 30


def test_a_stream_that_finds_no_room_is_refused_by_its_status(box):
    """S1: not by an event in an answer that began as if all was well."""
    asked = {"model": "stories", "prompt": "Once", "max_tokens": 1000}
    with serving({"stories": box["stories"]}, running=1, queue=1) as shop, shop.client() as client:
        slow = [threading.Thread(target=client.post, args=("/v1/completions",), kwargs={"json": asked}) for _ in "ab"]
        for thread in slow:
            thread.start()
        shop.until(lambda: shop.gauge("open") == 2)
        chat = {"messages": [{"role": "user", "content": "x"}]}
        for path, fields in (("completions", {"prompt": "x"}), ("chat/completions", chat)):
            answer = client.post(f"/v1/{path}", json={"model": "stories", **fields, "stream": True})
            assert answer.status_code == 429, path
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["error"]["code"] == "overloaded"
        for thread in slow:
            thread.join()


def test_a_stream_that_the_model_refuses_is_refused_by_its_status(box, monkeypatch):
    """S7 and S8."""
    asked = {"model": "stories", "prompt": "Once", "max_tokens": 5, "stream": True}
    with serving({"stories": box["stories"]}) as shop, shop.client() as client:
        for error, status in ((ValueError("this text is not liked"), 422), (RuntimeError("0x7f31a2b3c4d5"), 500)):
            with monkeypatch.context() as patch:
                patch.setattr(box["stories"], "open_stream", lambda *_, error=error, **__: (_ for _ in ()).throw(error))
                answer = client.post("/v1/completions", json=asked)
            assert (answer.status_code, "0x7f" in answer.text) == (status, False)
        assert client.post("/v1/completions", json=asked).text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    "glossary",
    [
        '{"station": "\\ud800"}',
        '{"station": "a\\u0000b"}',
        '{"station": "a", "station": "b"}',
        '{"station": NaN}',
        '{"station": 1e999}',
        "[" * 5000,
        '["station"]',
    ],
)
def test_a_glossary_in_a_form_is_read_as_strictly_as_a_body(shop, glossary):
    """S5."""
    with shop.client() as client:
        answer = client.post("/translate", data={"q": "x", "source": "en", "target": "fr", "glossary": glossary})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("glossary must be")


def test_requests_are_counted_by_key_wherever_the_key_is(counter):
    """The limit `per_minute`: each key has as many, in a header, a query or a body; strangers use up nobody's."""
    with serving({"counter": counter}, keys=KEYS, per_minute=4) as desk, desk.client() as client:

        def detect(key: str, place: str) -> int:
            fields = {"q": "Good morning"}
            if place == "header":
                return client.post("/detect", data=fields, headers={"authorization": f"bearer {key}"}).status_code
            if place == "query":
                return client.post("/detect", data=fields, params={"api_key": key}).status_code
            return client.post("/detect", **{place: {**fields, "api_key": key}}).status_code

        assert [detect("a-key-of-nobody-at-all", "data") for _ in range(9)] == [401] * 9
        mine = [detect(KEYS[0], place) for place in ("data", "json", "query", "header") * 3]
        assert mine[:4] == [200] * 4
        assert mine.count(429) >= 4  # a new minute may have begun meanwhile
        assert detect(KEYS[1], "data") == 200, "another key"


def test_what_is_no_message_of_the_protocol_is_refused_over_http_by_its_status(desk):
    """S21."""
    with desk.client() as client:
        for message in ({"id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}):
            answer = client.post("/mcp", json=message)
            assert (answer.status_code, type(answer.json()["error"])) == (400, str)
        told = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "a\0b"}})
        assert (told.status_code, told.json()["id"]) == (200, 1), "a client waits for the answer to this id"


opened: list[str] = []


def test_no_name_that_a_client_sends_reaches_the_file_system(shop, tmp_path):
    """S10: on any route; every file that Python opens or looks for is seen."""
    name = f"{tmp_path}/../no-such-model-{tmp_path.name}"
    sys.addaudithook(lambda event, values: opened.append(str(values)) if event.startswith(("open", "os.")) else None)
    (tmp_path / "seen").write_text("")
    assert [entry for entry in opened if tmp_path.name in entry], "the hook sees files"
    opened.clear()
    with shop.client() as client:
        for path, fields in (
            ("/v1/completions", {"prompt": "x"}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
            ("/v1/embeddings", {"input": "x"}),
            ("/v1/translate", {"inputs": "x"}),
            ("/v1/search", {"inputs": "x", "texts": ["x"]}),
            ("/v1/explain", {"inputs": "x"}),
        ):
            assert client.post(path, json={"model": name, **fields}).status_code == 404, path
        for path in ("/v1/models", "/v1/explain", "/v1/jobs"):
            assert client.get(f"{path}/{name}").status_code == 404
        call = {"name": name, "arguments": {}}
        answer = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        assert json.loads(answer.text)["error"]
    assert not [entry for entry in opened if "no-such-model" in entry]


def test_bodies_of_all_requests_together_have_a_limit(counter):
    """The limit `memory_bytes`: what a request held is free once it is answered."""
    slow = {"inputs": ["slow", *["x" * 400] * 4]}
    with serving({"counter": counter}, memory_bytes=3000) as desk, desk.client() as client, desk.client() as other:
        thread = threading.Thread(target=other.post, args=("/v1/measure",), kwargs={"json": slow})
        thread.start()
        desk.until(lambda: counter.batches[1:])
        refused = client.post("/v1/measure", json={"inputs": ["x" * 400] * 4})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert client.get("/livez").status_code == 200
        counter.release.set()
        thread.join()
        assert client.post("/v1/measure", json={"inputs": ["x" * 400] * 4}).status_code == 200
        desk.until(lambda: not desk.server.state.memory.bytes)
