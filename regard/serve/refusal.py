"""What a client is told that gets no answer: a status, a line, and an envelope as its route has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.serve.calls import DeadlineExceeded, ModelFailed, OutOfMemory, Overloaded, client_message

KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
"""What OpenAI's clients know errors as, by status; other 4xx are invalid requests, 5xx server errors."""


@dataclass
class Refusal(Exception):
    """The error returned to a client: a status, a message and a code."""

    status: int
    message: str
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def explain_error(error: BaseException) -> Refusal:
    """Return the error to report to a client for any exception."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Overloaded):
        return Refusal(429, str(error), "overloaded", {"retry-after": str(error.retry_after)})
    if isinstance(error, DeadlineExceeded):
        return Refusal(504, str(error), "deadline_exceeded")
    if isinstance(error, OutOfMemory):
        return Refusal(503, str(error), "out_of_memory", {"retry-after": "1"})
    if isinstance(error, ModelFailed):
        return Refusal(500, client_message(error), "model_failed")
    if isinstance(error, ValueError):
        return Refusal(422, client_message(error), "invalid_input")
    return Refusal(500, "the server failed at this request; the request id is in its log", "server_error")


def write_envelope(refusal: Refusal, path: str) -> bytes:
    """Return the body of an error response, in OpenAI's format under /v1 and LibreTranslate's elsewhere."""
    if not path.startswith("/v1/"):
        return json.dumps({"error": refusal.message}).encode()
    default = "invalid_request_error" if refusal.status < 500 else "server_error"
    kind = KINDS.get(refusal.status, default)
    return json.dumps(
        {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}}
    ).encode()
