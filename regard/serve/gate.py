"""What every request passes first and last: request id, host, key, rate, count and log line, errors in an envelope."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from regard.serve.access import LOCAL_NAMES, Keys, RateLimit, bare_host
from regard.serve.memory import MemoryBudget
from regard.serve.metrics import Metrics
from regard.serve.refusal import Refusal, explain_error, write_envelope

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
OPEN_PATHS = frozenset({"/", "/explorer.js", "/explorer.css", "/docs", "/livez", "/readyz"})
"""Paths that need no key: liveness, readiness, the page and the list of routes, which names no model without one."""
KEY_IN_BODY = frozenset({"/translate", "/detect", "/languages", "/frontend/settings", "/health"})
"""Routes of LibreTranslate, whose clients send their key as `api_key` in a query or a body."""
PROBES = frozenset({"/livez", "/readyz"})
"""Paths that are answered on any connection."""
SURPLUS = "surplus"  # in the state of a connection beyond those that are allowed
FOREIGN_SITES = ("cross-site", "same-site")  # where browsers say that a request of another page comes from
CLOSE = {"connection": "close"}  # of what is refused before it was read whole
UNKNOWN = "unknown"
NAMED_PREFIXES = ("/v1/jobs/", "/v1/models/", "/v1/explain/", "/v1/run/traces/", "/v1/trust/")
"""Of routes that end with a name."""
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


@dataclass
class Gate:
    """ASGI middleware that checks host, key and rate before the routes, and counts and logs every request."""

    app: App
    keys: Keys
    metrics: Metrics
    routes: Collection[str]
    """Paths that are counted by their names; all others are `unknown`."""
    rate: RateLimit
    memory: MemoryBudget
    hosts: Collection[str] = LOCAL_NAMES
    """Names of the host that are accepted; none: any."""
    log: Callable[[str], None] = field(default=lambda line: print(line, file=sys.stderr, flush=True))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or answer it with an error."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        passage = _RequestState(scope["path"], send)
        scope["request_id"] = passage.request_id
        try:
            self._check(scope)
            with self.memory.open_account():
                await self.app(scope, receive, passage.send)
        except Exception as error:
            refusal = explain_error(error)
            if refusal.status == 500:
                self.log(f"{passage.request_id} failed: {type(error).__name__}")
            await passage.refuse(refusal)
        finally:
            self._record(scope, passage)

    def _check(self, scope: Scope) -> None:
        headers = read_headers(scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            raise Refusal(400, "the length of the body is given twice", "malformed_request", CLOSE)
        if self.hosts and bare_host(headers.get("host", "")) not in self.hosts:
            raise Refusal(421, "this server does not answer to that host name", "wrong_host")
        path = scope["path"]
        if scope.get("state", {}).get(SURPLUS) and path not in PROBES:
            raise Refusal(503, "too many connections: try again later", "overloaded", {"retry-after": "1", **CLOSE})
        if headers.get("sec-fetch-site") in FOREIGN_SITES and scope["method"] not in ("GET", "HEAD"):
            raise Refusal(403, "pages of other sites may not ask this server", "cross_site")
        key = bearer_key(headers.get("authorization", "")) or headers.get("x-api-key", "")
        if path in KEY_IN_BODY and not key:
            key = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("api_key", "")
        scope["has_key"] = not self.keys.is_required or (bool(key) and self.keys.accepts(key))
        if path in OPEN_PATHS:
            return
        if not scope["has_key"] and (path not in KEY_IN_BODY or key):
            raise missing_key()
        scope["admit"] = self._admit
        if scope["has_key"]:
            client = scope.get("client") or ("", 0)
            self._admit(key if self.keys.is_required else client[0])

    def _admit(self, client: str) -> None:
        """Count a request of a client, by key or address, and refuse it if there were too many in this minute."""
        if wait := self.rate.admit(client):
            raise Refusal(
                429, f"too many requests in a minute: try again in {wait} s", "rate_limit", {"retry-after": str(wait)}
            )

    def _record(self, scope: Scope, passage: _RequestState) -> None:
        """Count and log the request, without its content."""
        seconds = time.monotonic() - passage.began
        route = name_route(passage.path, self.routes)
        status = passage.status or 499
        self.metrics.count(route, status, seconds)
        method = scope["method"] if scope["method"] in ("GET", "POST", "DELETE", "HEAD") else "other"
        self.log(f"{passage.request_id} {method} {route} {status} {1000 * seconds:.0f} ms")


class _RequestState:
    """The state of one request: its id, start time and response status."""

    def __init__(self, path: str, send: Send) -> None:
        self.path, self._send = path, send
        self.request_id = secrets.token_hex(8)
        self.began, self.status = time.monotonic(), 0

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of the response, with request id and security headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            chosen = {name for name, _ in headers}  # such as how long a copy may be kept
            added = [header for header in SECURITY_HEADERS if header[0] not in chosen]
            message = {**message, "headers": [*headers, (b"x-request-id", self.request_id.encode()), *added]}
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Respond with an error, unless the response has started."""
        if self.status:
            return
        body = write_envelope(refusal, self.path)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
        if refusal.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def name_route(path: str, routes: Collection[str]) -> str:
    """Return the name under which a path is counted: the path, its route, or unknown."""
    if path in routes:
        return path
    for prefix in NAMED_PREFIXES:
        if path.startswith(prefix):
            return f"{prefix}..."
    return UNKNOWN


def read_headers(scope: Scope) -> Mapping[str, str]:
    """Return the headers of a request by their names in small letters."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def bearer_key(header: str) -> str:
    """Return the key in an Authorization header."""
    scheme, _, key = header.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else header


def missing_key() -> Refusal:
    """Return the error for a request without an API key."""
    return Refusal(401, "a key is needed: send it as Authorization: Bearer KEY", "invalid_api_key")
