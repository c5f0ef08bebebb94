"""The Model Context Protocol over standard input and output: a tool for every model, with the limits of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from regard import __version__
from regard.serve.catalogue import Catalogue, ServedModel
from regard.serve.limits import Limits
from regard.serve.payload import read_inputs, read_options, request_schema
from regard.serve.refusal import Refusal, explain_error
from regard.serve.strict_json import check_texts, parse_object
from regard.serve.worker import Worker

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of the protocol that are spoken, the newest first."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMETERS = -32700, -32600, -32601, -32602
MAX_NAME = 64  # letters of the name of a tool
TOOL_MEMBERS = frozenset({"inputs", "options"})


class Session:
    """One MCP session: requests are JSON lines, and responses are written as soon as they are ready."""

    def __init__(self, catalogue: Catalogue, worker: Worker, limits: Limits, write: Callable[[str], None]) -> None:
        self.worker, self.limits, self.write = worker, limits, write
        self.tools = {tool_name(model): model for model in catalogue}
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
            self._reply(identifier, {"tools": [describe_tool(name, model) for name, model in self.tools.items()]})
        else:
            self._reply_error(identifier, NO_METHOD, "no such method")

    async def _call(self, identifier: Any, parameters: dict[str, Any]) -> None:
        """Call a tool; its errors are returned as a result marked as an error."""
        name, arguments = parameters.get("name"), parameters.get("arguments", {})
        if not isinstance(name, str) or name not in self.tools or not isinstance(arguments, dict):
            self._reply_error(identifier, INVALID_PARAMETERS, f"no such tool: there is {', '.join(self.tools)}")
            return
        model = self.tools[name]
        try:
            if unknown := sorted(arguments.keys() - TOOL_MEMBERS):
                raise Refusal(422, f"unknown argument {unknown[0][:40]!r}: there is inputs, options")
            options = read_options(model.trained.Options, arguments.get("options"), self.limits)
            inputs = await asyncio.to_thread(read_inputs, model.trained, arguments.get("inputs"), self.limits)
            answers = [answer.plain() for answer in await self.worker.answer(model.key, inputs, options)]
            text = json.dumps({"answers": answers}, ensure_ascii=False, allow_nan=False)
        except Exception as error:
            content = [{"type": "text", "text": explain_error(error).message}]
            self._reply(identifier, {"content": content, "isError": True})
            return
        self._reply(
            identifier, {"content": [{"type": "text", "text": text}], "structuredContent": {"answers": answers}}
        )

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


def tool_name(model: ServedModel) -> str:
    """Return the name of the tool of a model, of letters that every client accepts."""
    letters = (letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in model.name)
    return f"{model.verb}_{''.join(letters)}"[:MAX_NAME]


def describe_tool(name: str, model: ServedModel) -> dict[str, Any]:
    """Return the MCP description of a tool."""
    schema = request_schema(model.trained)
    properties = {key: value for key, value in schema["properties"].items() if key in TOOL_MEMBERS}
    description = f"{model.verb.capitalize()} with {model.name}, {model.trained.kind} that runs on this machine."
    return {"name": name, "description": description, "inputSchema": {**schema, "properties": properties}}
