"""What all routes share: reading a body within its limits, and giving up when the client is gone."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from regard.serve.gate import CLOSE, missing_key
from regard.serve.limits import Limits
from regard.serve.memory import reserve_bytes
from regard.serve.refusal import Refusal
from regard.serve.state import ServerState
from regard.serve.strict_json import parse_form, parse_object

Result = TypeVar("Result")
FORM = "application/x-www-form-urlencoded"
CLOSED = 499  # the client went away: nobody reads this
SMALL_BODY = 1 << 16  # bytes of a body that is parsed in the event loop
PARSERS = ThreadPoolExecutor(2, "regard-parser")  # of larger ones, which bounds the memory for them
MOST_VALUES = 1 << 20  # numbers, texts, lists and objects of a body, at most
VALUE_BYTES = 200  # that one of them takes, at most and beside its text


def state_of(request: Request) -> ServerState:
    """Return what all requests share."""
    state: ServerState = request.app.state.server
    return state


async def read_body(request: Request, limits: Limits, most: int) -> bytes:
    """Return the body of a request, of at most `most` bytes and before its deadline."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and len(length) < 20 and int(length) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.receive_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise _too_large(most)
                reserve_bytes(len(chunk))
    except TimeoutError:
        raise Refusal(408, "the body did not arrive in time", "timeout", CLOSE) from None
    except ClientDisconnect:
        raise Refusal(CLOSED, "the client is gone") from None
    return bytes(body)


async def read_object(request: Request, limits: Limits, most: int | None = None) -> dict[str, Any]:
    """Return the JSON object in the body of a request."""
    return await parse_beside(parse_object, await read_json_body(request, limits, most or limits.body_bytes))


async def read_json_body(request: Request, limits: Limits, most: int) -> bytes:
    """Return the body of a request that says it is JSON, or does not say what it is."""
    body = await read_body(request, limits, most)
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind not in ("application/json", "") and not kind.endswith("+json"):
        raise Refusal(415, "send JSON, with content-type: application/json", "unsupported_media_type")
    return body


async def parse_beside(parse: Callable[[bytes], Result], body: bytes) -> Result:
    """Return what a function makes of a body of JSON; that of a large one is made beside the loop."""
    if len(body) <= SMALL_BODY:
        return parse(body)
    return await run_beside(lambda: _parse_within_memory(parse, body))


async def run_beside(work: Callable[[], Result]) -> Result:
    """Return the result of some work on a large body, done beside the loop so that others are answered meanwhile."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(PARSERS, contextvars.copy_context().run, work)


def _parse_within_memory(parse: Callable[[bytes], Result], body: bytes) -> Result:
    """Return what a function makes of a body whose values have room in the memory."""
    values = sum(map(body.count, (b",", b"[", b"{")))  # or more, where texts have commas
    if values > MOST_VALUES:
        raise Refusal(413, f"the body has more than {MOST_VALUES:,} values: send less", "too_large")
    reserve_bytes(VALUE_BYTES * values + len(body) * (1 if body.isascii() else 4))
    return parse(body)


async def read_parameters(request: Request, limits: Limits) -> dict[str, Any]:
    """Return what was sent as a query, a form or JSON, and check the key if it is among it."""
    parameters = parse_form(request.url.query)
    body = await read_body(request, limits, limits.body_bytes)
    if body.strip():
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == FORM or (not kind and not body.lstrip().startswith(b"{")):
            parameters |= parse_form(body)
        elif kind in ("application/json", "") or kind.endswith("+json"):
            parameters |= await parse_beside(parse_object, body)
        else:
            raise Refusal(415, "send JSON or a form (application/x-www-form-urlencoded)", "unsupported_media_type")
    key = parameters.pop("api_key", None)
    if key is not None and not isinstance(key, str):
        raise missing_key()
    if not request.scope["has_key"]:
        keys = state_of(request).keys
        if key is None or not keys.accepts(key):
            raise missing_key()
        request.scope["admit"](key)
    return parameters


async def while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """Return the result of some work, or cancel it when the client disconnects."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_until_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Refusal(CLOSED, "the client is gone")
        return task.result()
    finally:
        for pending in (task, gone):
            if not pending.done():
                pending.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def json_response(value: Any, status: int = 200) -> Response:
    """Return a JSON response; numbers that are not finite are not allowed."""
    try:
        body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise Refusal(500, "the answer holds a number that is not finite", "model_failed") from None
    return Response(body, status, media_type="application/json")


def reads_gzip(request: Request) -> bool:
    """True if the client reads what was compressed by gzip."""
    encodings = request.headers.get("accept-encoding", "").split(",")
    return "gzip" in [part.partition(";")[0].strip() for part in encodings]


def compress_response(request: Request, response: Response) -> Response:
    """Return a response compressed, if the client reads that."""
    headers = {"vary": "accept-encoding"}
    if not reads_gzip(request):
        response.headers.update(headers)
        return response
    body = gzip.compress(bytes(response.body), mtime=0)
    return Response(body, response.status_code, headers | {"content-encoding": "gzip"}, media_type=response.media_type)


def event(value: Any) -> bytes:
    """Return a value as a server-sent event."""
    return b"data: " + json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n\n"


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body is larger than {most:,} bytes", "too_large", CLOSE)
