"""The Model Context Protocol: tools of models, with the limits of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from regard import __version__
from regard.serve.limits import Limits
from regard.serve.mcp_tools import Tool
from regard.serve.memory import MemoryBudget
from regard.serve.refusal import Refusal, explain_error
from regard.serve.strict_json import check_value, parse_object

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of the protocol that are spoken, the newest first."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMETERS = -32700, -32600, -32601, -32602


@dataclass(frozen=True)
class Message:
    """A request of a client; without an identifier it is a notification, which nobody answers."""

    method: str
    parameters: dict[str, Any]
    identifier: str | int | None


class Malformed(Exception):
    """A message that cannot be read; `reply` says why, to the request it may be."""

    def __init__(self, identifier: str | int | None, code: int, message: str, *, breaks_protocol: bool = False) -> None:
        super().__init__(message)
        self.identifier, self.reply = identifier, make_error(identifier, code, message)
        self.breaks_protocol = breaks_protocol
        """True for JSON that is no message, which no client sends."""


def parse_message(line: bytes, limits: Limits) -> Message:
    """Return a message, or raise Malformed."""
    try:
        if len(line) > limits.picture_bytes:
            raise Refusal(413, f"a message is larger than {limits.picture_bytes:,} bytes")
        message = parse_object(line)
    except Refusal as refusal:
        identifier = find_identifier(line)
        code = PARSE_ERROR if identifier is None else INVALID_REQUEST
        raise Malformed(identifier, code, refusal.message, breaks_protocol=not has_members(line)) from None
    method, identifier, parameters = message.get("method"), message.get("id"), message.get("params", {})
    if not isinstance(method, str) or isinstance(identifier, bool | dict | list | float):
        raise Malformed(None, INVALID_REQUEST, "a message needs a method, and an id that is a text or a number")
    if message.get("jsonrpc") != "2.0":
        raise Malformed(identifier, INVALID_REQUEST, 'a message needs "jsonrpc": "2.0"', breaks_protocol=True)
    if not isinstance(parameters, dict):
        raise Malformed(identifier, INVALID_PARAMETERS, "params must be an object", breaks_protocol=True)
    return Message(method, parameters, identifier)


async def respond(message: Message, tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Return the response to a request."""
    if message.method == "initialize":
        version = message.parameters.get("protocolVersion")
        return make_response(
            message.identifier,
            {
                "protocolVersion": version if version in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "regard", "version": __version__},
            },
        )
    if message.method == "ping":
        return make_response(message.identifier, {})
    if message.method == "tools/list":
        return make_response(message.identifier, {"tools": [tool.describe() for tool in tools.values()]})
    if message.method == "tools/call":
        return await _call_tool(message, tools)
    return make_error(message.identifier, NO_METHOD, "no such method")


async def _call_tool(message: Message, tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Call a tool; its errors are returned as a result marked as an error."""
    name, arguments = message.parameters.get("name"), message.parameters.get("arguments", {})
    if not isinstance(name, str) or name not in tools or not isinstance(arguments, dict):
        return make_error(message.identifier, INVALID_PARAMETERS, f"no such tool: there is {', '.join(tools)}")
    try:
        result = await tools[name].call(arguments)
    except Exception as error:
        content = [{"type": "text", "text": explain_error(error).message}]
        return make_response(message.identifier, {"content": content, "isError": True})
    content = [{"type": "text", "text": result.text}]
    return make_response(message.identifier, {"content": content, "structuredContent": result.content})


def make_response(identifier: Any, result: dict[str, Any]) -> dict[str, Any]:
    """Return a response."""
    return {"jsonrpc": "2.0", "id": identifier, "result": result}


def make_error(identifier: Any, code: int, message: str) -> dict[str, Any]:
    """Return a response that says what is wrong with a request."""
    return {"jsonrpc": "2.0", "id": identifier, "error": {"code": code, "message": message}}


class Session:
    """A session over standard input and output: messages are lines, and responses are written once they are ready."""

    def __init__(self, tools: Iterable[Tool], limits: Limits, write: Callable[[str], None]) -> None:
        self.limits, self.write, self.memory = limits, write, MemoryBudget(limits.memory_bytes)
        self.tools = {tool.name: tool for tool in tools}
        self._open: dict[Any, asyncio.Task[None]] = {}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Process requests until the input ends, then cancel those still running."""
        async for line in lines:
            if line.strip():
                self.receive(line)
        for task in list(self._open.values()):
            task.cancel()
        await asyncio.gather(*self._open.values(), return_exceptions=True)

    def receive(self, line: bytes) -> None:
        """Process one message."""
        try:
            message = parse_message(line, self.limits)
        except Malformed as error:
            self._write(error.reply)
            return
        if message.identifier is None:
            self._note(message)
            return
        task = asyncio.ensure_future(self._respond(message))
        self._open[message.identifier] = task
        task.add_done_callback(lambda _: self._open.pop(message.identifier, None))

    def _note(self, message: Message) -> None:
        """Process a notification; only cancellations have an effect."""
        wanted_id = message.parameters.get("requestId")
        if message.method == "notifications/cancelled" and isinstance(wanted_id, str | int) and wanted_id in self._open:
            self._open[wanted_id].cancel()

    async def _respond(self, message: Message) -> None:
        with self.memory.open_account():
            self._write(await respond(message, self.tools))

    def _write(self, reply: dict[str, Any]) -> None:
        self.write(json.dumps(reply, ensure_ascii=False))


def has_members(line: bytes) -> bool:
    """True for JSON with the members of a message, though some text in it may be refused."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and isinstance(message.get("params", {}), dict)
    )


def find_identifier(line: bytes) -> str | int | None:
    """Return the id of a message that is refused, without which its sender would wait for ever; None if it has none."""
    try:
        message = json.loads(line)
        identifier = message.get("id") if isinstance(message, dict) else None
        check_value(identifier)
    except (ValueError, RecursionError, Refusal):
        return None
    return identifier if isinstance(identifier, str | int) and not isinstance(identifier, bool) else None
