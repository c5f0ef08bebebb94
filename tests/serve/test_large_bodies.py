"""Bodies of many megabytes: read beside the loop by the same rules as small ones, within bounded memory."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from regard.serve.job_body import read_job
from regard.serve.jobs import MEMBERS
from regard.serve.refusal import Refusal
from regard.serve.strict_json import parse_json
from tests.serve.memory import MEGABYTE, peak_bytes, reset_peak
from tests.serve.process import PATIENCE, SMALL, ServerProcess, run_server

pytestmark = pytest.mark.unchecked
BUDGET = 128 * MEGABYTE  # the limit memory_bytes
LONGEST = 32  # characters of a value in these tests, so that the window moves often
LIMITS = ("memory_bytes=134217728", "body_bytes=16777216", "receive_seconds=600", "deadline=600")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ServerProcess]:
    """A process with a small translator that takes jobs."""
    folder = tmp_path_factory.mktemp("large")
    settings = [word for limit in LIMITS for word in ("-s", limit)]
    with run_server(folder / "log", str(SMALL), "--jobs", str(folder / "jobs"), *settings) as server:
        yield server


def read_all(body: bytes, longest: int = LONGEST) -> dict[str, Any]:
    """Return a whole job as it is read one input at a time."""
    inputs: list[Any] = []
    members = read_job(body, MEMBERS, longest=longest, take_input=inputs.append)
    return {**members, "inputs": inputs}


def test_a_job_read_by_pieces_is_the_one_that_is_read_whole():
    """With blanks anywhere, members in any order, values that end where a window does."""
    chance = random.Random(3)
    values: list[Any] = ['é\n"', "", 12.5e-7, -3, 0, True, None, [1, [2, {"a": "b"}]], {"x": [1e5]}, "x" * 20, "\u2028"]
    for _ in range(300):
        inputs = [chance.choice(values) for _ in range(chance.randrange(1, 12))]
        members = [("inputs", inputs), ("model", "a"), ("verb", "b" * chance.randrange(9)), ("options", {"c": 1})]
        chance.shuffle(members)
        blanks = [chance.choice(("", " ", "\n\t", "  ")) for _ in range(2)] + [
            chance.choice(("", " " * 90)) for _ in range(2)
        ]
        text = json.dumps(
            dict(members), ensure_ascii=chance.random() < 0.5, separators=(f"{blanks[0]},{blanks[1]}", ":")
        )
        body = f"{blanks[2]}{text}{blanks[3]}".encode()
        assert read_all(body) == parse_json(body) == dict(members)


@pytest.mark.parametrize("number", ["1234567", "12.5", "1e+10", "-1.25E-3", "true", "-0"])
def test_a_number_is_whole_wherever_the_window_ends(number):
    for blanks in range(2 * LONGEST + 4):
        body = f'{{"inputs":[1,{" " * blanks}{number},2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}}'.encode()
        assert read_all(body) == parse_json(body)


DOUBTFUL = [
    b"", b"[]", b"3", b'{"inputs":["x"]', b'{"inputs":["x"]}}', b'{"inputs":["x"]} x', b'{"inputs":["x",]}',
    b'{"inputs":["x" "y"]}', b'{"inputs":[,"x"]}', b'{"inputs":["x"],}', b'{"inputs" ["x"]}', b'{inputs:["x"]}',
    b'{"inputs":["x"],"inputs":["y"]}', b'{"inputs":[{"a":1,"a":2}]}', b'{"inputs":[NaN]}', b'{"inputs":[1e999]}',
    b'{"inputs":["\\ud800"]}', b'{"inputs":["a\\u0000"]}', b'{"inputs":["\xff"]}', b'\xef\xbb\xbf{"inputs":["x"]}',
    b'{"inputs":[' + b"[" * 40 + b"]" * 40 + b"]}", b'{"inputs":' + b"[" * 100_000, b'{"inputs":[01]}',
    b'{"inputs":[1.]}', b'{"inputs":["x],"model":"a"}', b'{"inputs":[-]}', b'{"inputs":[tru]}', b"\0",
    b'{"inputs":["\n"]}',
]  # fmt: skip


@pytest.mark.parametrize("body", DOUBTFUL, ids=lambda body: repr(body[:30]))
def test_what_is_doubtful_in_a_small_body_is_refused_in_a_large_one(body):
    """S5."""
    for longest in (LONGEST, 1 << 20):
        with pytest.raises(Refusal) as caught:
            read_all(body, longest)
        assert caught.value.status == 400
    if body not in (b"[]", b"3"):  # which are JSON, but no object
        with pytest.raises(Refusal):
            parse_json(body)


def test_lists_are_as_deep_in_a_job_as_elsewhere():
    for depth in (30, 31):
        body = b'{"inputs":[' + b"[" * depth + b"]" * depth + b"]}"
        if depth == 30:
            assert read_all(body, 100) == parse_json(body)
        else:
            for read in (lambda body: read_all(body, 100), parse_json):
                with pytest.raises(Refusal, match="more than 32 levels"):
                    read(body)


def test_an_input_is_no_longer_than_a_request_may_be():
    with pytest.raises(Refusal, match="number 2"):
        read_all(json.dumps({"inputs": ["x", "y" * LONGEST]}).encode())
    with pytest.raises(Refusal, match="number 2"):
        read_all(json.dumps({"inputs": ["x", "y" * 3 * LONGEST]}).encode())


def count_probes(server: ServerProcess, path: str, body: bytes) -> tuple[int, int]:
    """Return the status of a request, and how often /livez answered after its last byte and before its answer."""
    headers = ("host: 127.0.0.1", "content-type: application/json", f"content-length: {len(body)}")
    head = "\r\n".join((f"POST {path} HTTP/1.1", *headers, "", ""))
    done = threading.Event()
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection,
        server.client() as client,
    ):
        connection.sendall(head.encode() + body[:-1])
        client.get("/livez").raise_for_status()  # after which all that came before it has been read

        def receive() -> bytes:
            answer = connection.recv(1 << 16)
            done.set()
            return answer

        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(receive)
            connection.sendall(body[-1:])
            probes = 0
            while not done.is_set():
                client.get("/livez").raise_for_status()
                probes += 1
            return int(answer.result().split()[1]), probes


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/jobs", json.dumps({"inputs": [*["\n\u00e9" * 800] * 2_400, 3]}).encode(), 422),
        ("/v1/translate", b'{"inputs": [' + b"[]," * 300_000 + b"1]}", 422),
        ("/mcp", b'{"params": [' + b"[]," * 300_000 + b"1]}", 400),
    ],
    ids=["job", "request", "message"],
)
def test_the_probe_answers_while_a_large_body_is_read(server, path, body, status):
    """The loop is free: were the body read in it, one probe at most would be answered before the body is."""
    answer, probes = count_probes(server, path, body)
    print(f"{len(body):,} bytes: {probes} probes")
    assert answer == status
    assert probes > 3


def test_many_large_bodies_at_a_time_are_read_or_refused_within_bounded_memory(server):
    """Dense ones, which would take 30 times their bytes, and jobs of many texts, the last of which is none."""
    job = json.dumps({"inputs": [*["word " * 300] * 9_999, 3]}).encode()
    dense = b'{"inputs": [' + b"[]," * (len(job) // 3) + b"1]}"
    nested = b'{"inputs": [[' + b"{}," * (len(job) // 3) + b"{}]]}"
    requests = [("/v1/jobs", job), ("/v1/jobs", dense), ("/v1/jobs", nested), ("/v1/translate", dense)] * 3

    def send(request: tuple[str, bytes]) -> int:
        headers = {"content-type": "application/json"}
        return httpx.post(
            server.url + request[0], content=request[1], headers=headers, timeout=PATIENCE, trust_env=False
        ).status_code

    with server.client() as client:
        client.post("/v1/translate", json={"inputs": "Hello."})
    reset_peak(server)
    before = peak_bytes(server)
    with ThreadPoolExecutor(len(requests)) as pool:
        statuses = list(pool.map(send, requests))
    growth = peak_bytes(server) - before
    print(f"{before / MEGABYTE:.0f} MiB before, {growth / MEGABYTE:.0f} MiB more at most, {statuses}")
    assert set(statuses) <= {400, 413, 422, 429}
    assert {413, 422} <= set(statuses)
    assert growth < 2 * BUDGET + 64 * MEGABYTE
