"""MCP over lines of JSON: tools that answer as HTTP does, and refuse as it does."""

import asyncio
import io
import json

import pytest

from regard.cli.mcp import _read_lines
from regard.serve.catalogue import Catalogue, ServedModel
from regard.serve.explaining import Explainer
from regard.serve.limits import Limits
from regard.serve.mcp import Session
from regard.serve.mcp_tools import make_name, make_tools
from regard.serve.worker import Worker
from tests.serve.doubtful import DOUBTFUL

pytestmark = pytest.mark.unchecked
TEXTS = ["The dog sleeps.", "It rains a lot.", "My car needs petrol."]


def converse(models: dict, *messages: object, **limits: int) -> list[dict]:
    """What is answered to messages, each a value of JSON or bytes; each is answered before the next is sent."""
    written: list[str] = []
    bounds = Limits(**limits)
    catalogue = Catalogue([ServedModel(name, name, trained) for name, trained in models.items()])

    async def run() -> None:
        worker = Worker(catalogue.trained_models, bounds)
        worker.start()
        explainer = Explainer(catalogue, bounds)
        session = Session(make_tools(catalogue, worker, explainer, bounds), bounds, written.append)

        async def lines():
            for message in messages:
                count = len(written)
                yield message if isinstance(message, bytes) else json.dumps(message).encode()
                async with asyncio.timeout(600):
                    while len(written) == count and not (isinstance(message, dict) and "id" not in message):
                        await asyncio.sleep(0.005)

        try:
            await session.run(lines())
        finally:
            await asyncio.to_thread(worker.stop)
            await asyncio.to_thread(explainer.stop)

    asyncio.run(run())
    return [json.loads(line) for line in written]


def request(method: str, identifier: int | str = 1, **parameters: object) -> dict:
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": parameters}


def test_a_client_lists_tools_and_calls_them(counter):
    hello, listed, called, pong = converse(
        {"counter": counter},
        request("initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo={"name": "x", "version": "1"}),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("tools/list", 2),
        request("tools/call", "three", name="measure_counter", arguments={"inputs": ["abc", "de"]}),
        request("ping", 4),
    )
    assert hello["result"]["protocolVersion"] == "2025-03-26"
    assert hello["result"]["serverInfo"]["name"] == "regard"
    [tool] = listed["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("measure_counter", ["inputs"])
    assert called["id"] == "three"
    assert called["result"]["structuredContent"] == {"answers": [{"letters": 3}, {"letters": 2}]}
    assert json.loads(called["result"]["content"][0]["text"]) == called["result"]["structuredContent"]
    assert pong["result"] == {}


def test_hostile_messages_are_refused_as_over_http(counter):
    """S21."""
    lines = [body for body in DOUBTFUL.values() if body.strip() and b"\n" not in body]
    for answer in converse({"counter": counter}, *lines, b"x" * 5000, picture_bytes=4500):
        assert answer["error"]["code"] in (-32700, -32600)
        assert "secret" not in json.dumps(answer)
    [named] = converse({"counter": counter}, b'{"id": 7, "method": "tools/call", "params": {"x": "a\\u0000b"}}')
    assert (named["id"], named["error"]["code"]) == (7, -32600), "its sender would wait for ever"
    wrong = [
        {"inputs": "x" * 101},
        {"inputs": ["x"] * 5},
        {"inputs": True},
        {"inputs": "x", "options": {"beams": 2}},
        {"inputs": "x", "model": "/etc/passwd"},
        {},
        {"inputs": "poison"},
        {"inputs": "bad"},
    ]
    calls = [request("tools/call", number, name="measure_counter", arguments=each) for number, each in enumerate(wrong)]
    answers = converse(
        {"counter": counter},
        *calls,
        request("tools/call", 90, name="../../etc", arguments={}),
        request("tools/call", 91, name="measure_counter", arguments=[]),
        request("no/such", 92),
        characters=100,
        inputs=4,
    )
    assert [answer["result"]["isError"] for answer in answers[:-3]] == [True] * len(wrong)
    assert "somebody" not in json.dumps(answers)
    assert [answer["error"]["code"] for answer in answers[-3:]] == [-32602, -32602, -32601]


def test_the_rest_of_a_line_that_is_too_long_is_no_message_of_its_own(monkeypatch):
    """S21."""
    text = b"x" * 25 + b"\n{}\n" + b"y" * 10 + b"\n[]"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    async def collect() -> list[bytes]:
        return [line async for line in _read_lines(10)]

    assert asyncio.run(collect()) == [b"x" * 10, b"{}\n", b"y" * 10, b"[]"]


def test_a_message_without_a_version_is_refused(counter):
    for message in ({"id": 1, "method": "ping"}, {"jsonrpc": "1.0", "id": 1, "method": "ping"}):
        [answer] = converse({"counter": counter}, message)
        assert (answer["id"], answer["error"]["code"]) == (1, -32600)


def test_names_of_tools_have_letters_that_every_client_accepts(counter):
    assert make_name("measure", ServedModel("été/best", "x", counter)) == "measure__t__best"
    assert len(make_name("measure", ServedModel("x" * 99, "x", counter))) == 64


def test_an_assistant_searches_and_sees_where_a_model_looked(box):
    found, explained, refused, unknown = converse(
        {"en-fr": box["en-fr"], "encoder": box["encoder"]},
        request("tools/call", 1, name="search_encoder", arguments={"inputs": "bad weather", "texts": TEXTS, "top": 1}),
        request(
            "tools/call",
            2,
            name="explain_translate_en-fr",
            arguments={"inputs": "Where is the station?", "options": {"to": "fr"}},
        ),
        request("tools/call", 3, name="explain_translate_en-fr", arguments={"inputs": ["One.", "Two."]}),
        request("tools/call", 4, name="search_encoder", arguments={"inputs": "rain", "texts": TEXTS, "model": "x"}),
    )
    [answer] = found["result"]["structuredContent"]["answers"]
    assert [hit["text"] for hit in answer["hits"]] == ["It rains a lot."]
    [shown] = explained["result"]["content"]
    assert shown["text"].startswith("Où est la gare ?\n\ndecoder.1.cross")
    assert explained["result"]["structuredContent"]["trace"]["facts"]["answer"] == "Où est la gare ?"
    assert "one at a time" in refused["result"]["content"][0]["text"]
    assert unknown["result"]["isError"]
