"""Uvicorn's protocol with deadlines: silent, dripping and deaf clients are let go."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.gate import SURPLUS
from regard.serve.limits import Limits
from regard.serve.refusal import Refusal, write_envelope

UNSENT_BYTES = 64 << 10  # that the kernel keeps for a client which does not read; by itself it takes megabytes


class DeadlineProtocol(H11Protocol):
    """Closes connections whose headers arrive too late, or whose client does not read the response."""

    limits = Limits()
    log: Callable[[str], None] = staticmethod(lambda line: None)
    _receiving: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the deadline for the request headers."""
        super().connection_made(transport)
        if (connection := transport.get_extra_info("socket")) is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNSENT_BYTES)
        if len(self.connections) > self.limits.connections:
            self.app_state = {**self.app_state, SURPLUS: True}
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Receive bytes; the first ones of a request start the deadline for its headers."""
        if self._receiving is None and self._is_idle():
            self._await_headers()
        super().data_received(data)
        if not self._is_idle():
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Start a deadline if the client is still sending a body after the response."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._await_headers()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, unless an answer has begun, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            request_id = secrets.token_hex(8)
            body = write_envelope(Refusal(400, "this is no request of HTTP/1.1"), "/")
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"x-request-id", request_id.encode()),
                (b"connection", b"close"),
            ]
            response = h11.Response(status_code=400, headers=headers, reason=HTTPStatus.BAD_REQUEST.phrase.encode())
            for part in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(part))
            self.log(f"{request_id} malformed 400")
        self.transport.close()

    def pause_writing(self) -> None:
        """Start a deadline for a client that does not read."""
        super().pause_writing()
        self._sending = self.loop.call_later(self.limits.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel the deadline of a client that reads again."""
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all deadlines."""
        self._stop_waiting()
        if self._sending is not None:
            self._sending.cancel()
        super().connection_lost(exc)

    def _is_idle(self) -> bool:
        """True while no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _await_headers(self) -> None:
        self._stop_waiting()
        self._receiving = self.loop.call_later(self.limits.receive_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None
