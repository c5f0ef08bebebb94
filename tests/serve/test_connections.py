"""Beneath the routes: broken HTTP, more connections than allowed, requests of other pages (S1, S3, S14)."""

from __future__ import annotations

import contextlib
import json
import re
import socket

import pytest

from tests.serve.harness import Running, serving

pytestmark = pytest.mark.unchecked
HEAD = b"POST /v1/measure HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
BODY = b'{"inputs": "secret"}'
CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
MALFORMED = {
    "two lengths": HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\n12345",
    "a length and chunks": HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNK,
    "a length that is none": HEAD + b"content-length: +5\r\n\r\n12345",
    "an unknown encoding": HEAD + b"transfer-encoding: xchunked\r\n\r\n" + CHUNK,
    "two encodings": HEAD + b"transfer-encoding: chunked, identity\r\n\r\n" + CHUNK,
    "a blank before the colon": HEAD + b"transfer-encoding : chunked\r\n\r\n" + CHUNK,
    "a size that is none": HEAD + b"transfer-encoding: chunked\r\n\r\n0x5\r\nabcde\r\n0\r\n\r\n",
    "a chunk without an end": HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nabcdeXX0\r\n\r\n",
    "two hosts": b"GET /livez HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n",
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "NUL in the path": b"GET /livez\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


def receive_all(connection: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(4096):
            received += chunk
    return received


@pytest.fixture(scope="module")
def shared_desk():
    """One server for tests that leave it as it is."""
    from tests.serve.harness import Counter

    with serving({"counter": Counter()}) as desk:
        yield desk


@pytest.mark.parametrize("kind", MALFORMED)
def test_requests_that_two_servers_could_read_differently_are_refused_and_the_connection_is_closed(shared_desk, kind):
    with socket.create_connection(("127.0.0.1", shared_desk.port), timeout=600) as connection:
        connection.sendall(MALFORMED[kind])
        head, _, body = receive_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]
    assert b"secret" not in body
    request_id = re.search(rb"x-request-id: (\w+)", head)[1].decode()
    shared_desk.until(lambda: [line for line in shared_desk.lines if line.startswith(request_id)])


def test_garbage_behind_a_request_that_is_answered_closes_the_connection_in_silence(shared_desk, capfd):
    with socket.create_connection(("127.0.0.1", shared_desk.port), timeout=600) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 404")
        connection.sendall(b"this is no chunk\r\n")
        receive_all(connection)
    assert "Traceback" not in capfd.readouterr().err


def wait_for_connections(desk: Running, count: int) -> None:
    desk.until(lambda: len(desk.server.server_state.connections) == count)


def test_connections_beyond_the_limit_are_refused_but_for_the_probes_and_the_others_go_on(counter):
    """The limit `connections`."""
    with serving({"counter": counter}, connections=3) as desk, contextlib.ExitStack() as stack:
        first = stack.enter_context(desk.client())
        assert first.post("/v1/measure", json={"inputs": "x"}).status_code == 200
        for _ in range(2):
            stack.enter_context(socket.create_connection(("127.0.0.1", desk.port)))
        wait_for_connections(desk, 3)
        assert first.post("/v1/measure", json={"inputs": "x"}).status_code == 200
        with desk.client() as surplus:
            assert surplus.get("/livez").status_code == surplus.get("/readyz").status_code == 200
            refused = surplus.post("/v1/measure", json={"inputs": "x"})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.headers["x-request-id"]
            assert "too many connections" in refused.json()["error"]["message"]
            assert first.post("/v1/measure", json={"inputs": "x"}).status_code == 200
        stack.pop_all().close()
        wait_for_connections(desk, 0)
        with desk.client() as later:
            assert later.post("/v1/measure", json={"inputs": "x"}).status_code == 200


def test_pages_of_other_sites_cannot_make_the_server_work(shared_desk):
    """S14: browsers send forms and texts anywhere without asking, but say so."""
    with shared_desk.client() as client:
        for path, fields in (("/detect", {"q": "Good morning"}), ("/v1/measure", {"inputs": "x"}), ("/mcp", {"id": 1})):
            for site in ("cross-site", "same-site"):
                answer = client.post(path, json=fields, headers={"sec-fetch-site": site})
                assert answer.status_code == 403, path
        own = client.post("/v1/measure", json={"inputs": "x"}, headers={"sec-fetch-site": "same-origin"})
        assert own.status_code == 200
        assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200, "a link leads here"
