"""The client of the Model Context Protocol, unmodified, against `regard mcp` and `regard serve` (S21)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TextIO

import pytest

from tests.packages import require
from tests.serve.process import PATIENCE, ROOT

if TYPE_CHECKING:
    from mcp import Client

pytestmark = pytest.mark.unchecked
PROMPT = "Once upon a time"
HOSTILE: dict[str, Any] = {
    "no inputs": {},
    "nothing": {"inputs": []},
    "truth": {"inputs": True},
    "a number": {"inputs": 7},
    "too many": {"inputs": ["x"] * 33},
    "too long": {"inputs": "x" * 20_001},
    "unknown option": {"inputs": "x", "options": {"beems": 3}},
    "too many beams": {"inputs": "x", "options": {"beams": 9}},
    "truth for a number": {"inputs": "x", "options": {"beams": True}},
    "no such language": {"inputs": "x", "options": {"to": "../../etc"}},
    "a name of a file": {"inputs": "x", "model": "/etc/passwd"},
    "deep": {"inputs": [[[["x"]]]]},
}


@pytest.fixture
def mcp() -> Any:
    return require("mcp")


def converse(mcp: Any, talk: Callable[[Client], Awaitable[None]], errors: TextIO) -> None:
    """Start `regard mcp`, and let a client talk to it."""
    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "regard", "mcp", "--device", "cpu"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )

    async def run() -> None:
        transport = mcp.stdio_client(server, errlog=errors)
        async with mcp.Client(transport, read_timeout_seconds=PATIENCE) as client:
            await talk(client)

    asyncio.run(run())


def translations(result: Any) -> list[str]:
    """Return the texts of the result of a translating tool."""
    return [entry["translation"] for entry in result.structured_content["answers"]]


def test_an_assistant_lists_the_tools_calls_them_and_is_told_what_is_wrong(mcp, box, tmp_path):
    async def talk(client: Client) -> None:
        assert client.server_info.name == "regard"
        assert client.protocol_version == "2025-11-25"
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        answering = ["translate_en-fr", "embed_encoder", "search_encoder", "fill_encoder", "write_stories"]
        assert [name for name in tools if not name.startswith("explain_")] == answering
        assert tools["translate_en-fr"].input_schema["properties"]["options"]["properties"]["beams"]["default"] == 4

        asked = {"inputs": ["Good morning.", "Where is the station?"], "options": {"to": "fr"}}
        answer = await client.call_tool("translate_en-fr", asked)
        expected = [translation.text for translation in box["en-fr"].answer(asked["inputs"], to="fr")]
        assert translations(answer) == expected
        [vector] = (await client.call_tool("embed_encoder", {"inputs": "A dog."})).structured_content["answers"]
        assert vector["embedding"] == pytest.approx(box["encoder"].embed(["A dog."])[0].tolist(), abs=1e-4)
        filled = await client.call_tool("fill_encoder", {"inputs": "Je bois une tasse de [MASK]."})
        assert filled.structured_content["answers"]
        told = await client.call_tool("write_stories", {"inputs": PROMPT, "options": {"length": 8, "temperature": 0}})
        [alone] = box["stories"].answer([PROMPT], length=8, temperature=0.0)
        assert told.structured_content["answers"] == [alone.plain()]

        with pytest.raises(mcp.MCPError, match="the character NUL"):
            await client.call_tool("translate_en-fr", {"inputs": "a\0b"})
        for name, arguments in HOSTILE.items():
            refused = await client.call_tool("translate_en-fr", arguments)
            assert refused.is_error, name
            [line] = [content.text for content in refused.content]
            assert line, name
            assert not [word for word in ("\n", "Traceback", "/work", str(ROOT), "0x") if word in line], name
        with pytest.raises(mcp.MCPError, match="no such tool: there is translate_en-fr"):
            await client.call_tool("../../etc/passwd", {})

        hasty = asyncio.ensure_future(
            client.call_tool("write_stories", {"inputs": PROMPT, "options": {"length": 1000}})
        )
        await asyncio.sleep(0.1)
        hasty.cancel()
        many = await asyncio.gather(*(client.call_tool("translate_en-fr", asked) for _ in range(4)))
        assert [translations(each) for each in many] == [expected] * 4

    with (tmp_path / "errors").open("w") as errors:
        converse(mcp, talk, errors)
    assert "waiting for a client" in (tmp_path / "errors").read_text()
    assert "Traceback" not in (tmp_path / "errors").read_text()


def test_the_same_tools_are_there_over_http(mcp, box, served):
    async def run() -> None:
        async with mcp.Client(f"{served.url}/mcp", read_timeout_seconds=PATIENCE) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert {"translate_en-fr", "search_encoder", "explain_write_stories"} <= set(tools)
            asked = {"inputs": ["Good morning.", "Where is the station?"], "options": {"to": "fr"}}
            expected = [translation.text for translation in box["en-fr"].answer(asked["inputs"], to="fr")]
            many = await asyncio.gather(*(client.call_tool("translate_en-fr", asked) for _ in range(3)))
            assert [translations(each) for each in many] == [expected] * 3
            for name, arguments in HOSTILE.items():
                refused = await client.call_tool("translate_en-fr", arguments)
                assert refused.is_error, name
            with pytest.raises(mcp.MCPError, match="no such tool: there is translate_en-fr"):
                await client.call_tool("../../etc/passwd", {})

    asyncio.run(run())
