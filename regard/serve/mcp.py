"""The Model Context Protocol over standard input and output: tools of models, with the limits of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from regard import __version__
from regard.serve.limits import Limits
from regard.serve.mcp_tools import Tool
from regard.serve.refusal import Refusal, explain_error
from regard.serve.strict_json import check_texts, parse_object

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of the protocol that are spoken, the newest first."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMETERS = -32700, -32600, -32601, -32602


class Session:
    """One MCP session: requests are JSON lines, and responses are written as soon as they are ready."""

    def __init__(self, tools: Iterable[Tool], limits: Limits, write: Callable[[str], None]) -> None:
        self.limits, self.write = limits, write
        self.tools = {tool.name: tool for tool in tools}
        self._calls: dict[Any, asyncio.Task[None]] = {}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Process requests until the input ends, then cancel those still running."""
        async for line in lines:
            if line.strip():
                self.receive(line)
        for call in list(self._calls.values()):
            call.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    def receive(self, line: bytes) -> None:
        """Process one message."""
        try:
            if len(line) > self.limits.picture_bytes:
                raise Refusal(413, f"a message is larger than {self.limits.picture_bytes:,} bytes")
            message = parse_object(line)
        except Refusal as refusal:
            identifier = find_identifier(line)
            self._reply_error(identifier, PARSE_ERROR if identifier is None else INVALID_REQUEST, refusal.message)
            return
        method, identifier = message.get("method"), message.get("id")
        parameters = message.get("params", {})
        if not isinstance(method, str) or isinstance(identifier, bool | dict | list | float):
            self._reply_error(None, INVALID_REQUEST, "a message needs a method, and an id that is a text or a number")
        elif not isinstance(parameters, dict):
            self._reply_error(identifier, INVALID_PARAMETERS, "params must be an object")
        elif identifier is None:
            self._note(method, parameters)
        elif method == "tools/call":
            call = asyncio.ensure_future(self._call(identifier, parameters))
            self._calls[identifier] = call
            call.add_done_callback(lambda _: self._calls.pop(identifier, None))
        else:
            self._answer(identifier, method, parameters)

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        """Process a notification; only cancellations have an effect."""
        wanted_id = parameters.get("requestId")
        if method == "notifications/cancelled" and isinstance(wanted_id, str | int) and wanted_id in self._calls:
            self._calls[wanted_id].cancel()

    def _answer(self, identifier: Any, method: str, parameters: dict[str, Any]) -> None:
        if method == "initialize":
            version = parameters.get("protocolVersion")
            self._reply(
                identifier,
                {
                    "protocolVersion": version if version in VERSIONS else VERSIONS[0],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "regard", "version": __version__},
                },
            )
        elif method == "ping":
            self._reply(identifier, {})
        elif method == "tools/list":
            self._reply(identifier, {"tools": [tool.describe() for tool in self.tools.values()]})
        else:
            self._reply_error(identifier, NO_METHOD, "no such method")

    async def _call(self, identifier: Any, parameters: dict[str, Any]) -> None:
        """Call a tool; its errors are returned as a result marked as an error."""
        name, arguments = parameters.get("name"), parameters.get("arguments", {})
        if not isinstance(name, str) or name not in self.tools or not isinstance(arguments, dict):
            self._reply_error(identifier, INVALID_PARAMETERS, f"no such tool: there is {', '.join(self.tools)}")
            return
        try:
            result = await self.tools[name].call(arguments)
        except Exception as error:
            content = [{"type": "text", "text": explain_error(error).message}]
            self._reply(identifier, {"content": content, "isError": True})
            return
        content = [{"type": "text", "text": result.text}]
        self._reply(identifier, {"content": content, "structuredContent": result.content})

    def _reply(self, identifier: Any, result: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "id": identifier, "result": result}, ensure_ascii=False))

    def _reply_error(self, identifier: Any, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self.write(json.dumps({"jsonrpc": "2.0", "id": identifier, "error": error}, ensure_ascii=False))


def find_identifier(line: bytes) -> str | int | None:
    """Return the id of a message that is refused, without which its sender would wait for ever; None if it has none."""
    try:
        message = json.loads(line)
        identifier = message.get("id") if isinstance(message, dict) else None
        check_texts(identifier)
    except (ValueError, RecursionError, Refusal):
        return None
    return identifier if isinstance(identifier, str | int) and not isinstance(identifier, bool) else None
