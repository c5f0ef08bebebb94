"""What must not happen to a server: hostile bodies, slow clients, floods, wrong keys, poisoned items."""

import base64
import contextlib
import io
import json
import socket
import struct
import threading
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from PIL import Image

from regard.serve.access import Keys, read_keys
from regard.serve.gate import OPEN_PATHS
from regard.serve.limits import describe_limits, read_limits
from regard.serve.server import Address
from tests.serve.doubtful import DOUBTFUL
from tests.serve.harness import Counter, make_eye, serving

pytestmark = pytest.mark.unchecked
KEY, OTHER_KEY = "a-key-that-nobody-guesses", "another-key-of-somebody"


@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_doubtful_body_is_refused_in_the_envelope_and_not_quoted(desk_for_all, name):
    """S5."""
    with desk_for_all.client() as client:
        answer = client.post("/v1/measure", content=DOUBTFUL[name], headers={"content-type": "application/json"})
        assert 400 <= answer.status_code < 500
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        assert "secret" not in answer.text
        form = client.post("/translate", content=DOUBTFUL[name], headers={"content-type": "application/json"})
        assert 400 <= form.status_code < 500
        assert list(form.json()) == ["error"]
        message = client.post("/mcp", content=DOUBTFUL[name], headers={"content-type": "application/json"})
        assert message.status_code == 400
        assert "secret" not in message.text


@pytest.fixture(scope="module")
def desk_for_all():
    """One server for tests that leave it as it is."""
    with serving(
        {"counter": Counter(), "eye": make_eye()}, body_bytes=8192, picture_bytes=100_000, inputs=4, characters=100
    ) as desk:
        yield desk


def test_doubtful_options_are_refused(shop):
    """S5 and S7: truth is no number, and no limit can be passed by an option."""
    wrong = [
        ("translate", {"beams": True}, 422),
        ("translate", {"beams": 9}, 422),
        ("translate", {"nbest": 9, "beams": 8}, 422),
        ("translate", {"longest": 5000}, 422),
        ("translate", {"ratio": 11}, 422),
        ("translate", {"forbid": ["x"] * 33}, 422),
        ("translate", {"to": "xx"}, 422),
        ("write", {"length": 1025}, 422),
        ("write", {"length": 1.5}, 422),
        ("write", {"samples": 9}, 422),
    ]
    with shop.client() as client:
        for verb, options, status in wrong:
            answer = client.post(f"/v1/{verb}", json={"inputs": "Hello", "options": options})
            assert answer.status_code == status, options
            assert answer.json()["error"]["message"], options
        stops: tuple[Any, ...] = (["a"] * 5, ["a", ""], [["a"]], {"a": 1}, 0, "a" * 20_001)
        for payload in (
            *({"n": 9}, {"max_tokens": 1025}, {"max_tokens": True}, {"logprobs": 3}),
            *({"stop": stop} for stop in stops),
        ):
            answer = client.post("/v1/completions", json={"model": "stories", "prompt": "Once", **payload})
            assert answer.status_code == 422, payload
        for payload in ({"prompt": [1, 2]}, {"prompt": []}, {"prompt": "x", "stream": 1}, {"prompt": "x", "typo": 1}):
            assert client.post("/v1/completions", json={"model": "stories", **payload}).status_code == 422, payload


def test_too_much_is_refused_before_it_costs_anything(desk_for_all):
    """S7."""
    with desk_for_all.client() as client:
        answers = [
            client.post("/v1/measure", json={"inputs": inputs}) for inputs in ("x" * 101, ["x" * 60] * 2, ["x"] * 5)
        ]
    assert [answer.status_code for answer in answers] == [422] * 3
    assert "at most 100" in answers[0].json()["error"]["message"]
    assert "at most 4" in answers[2].json()["error"]["message"]


def test_a_limit_below_a_default_holds_where_nothing_is_asked_for(box):
    """S7."""
    with serving({"stories": box["stories"]}, new_tokens=5) as desk, desk.client() as client:
        answer = client.post("/v1/write", json={"inputs": "Once upon"}).json()
    assert answer["answers"] == [box["stories"].answer(["Once upon"], length=5)[0].plain()]


def test_a_body_over_the_limit_is_refused_while_it_is_read(desk_for_all):
    """S4: by its length, and in chunks without one."""
    with desk_for_all.client() as client:
        assert client.post("/v1/measure", content=b"x" * 9000).status_code == 413
    with socket.create_connection(("127.0.0.1", desk_for_all.port)) as connection:
        connection.sendall(b"POST /v1/measure HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        connection.settimeout(600)
        for _ in range(9):
            connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
        while connection.recv(4096):
            pass  # and the connection is closed


@pytest.mark.parametrize(
    ("begin", "reply"),
    [
        (b"", b""),
        (b"GET /livez HTTP/1.1\r\nhost: local", b""),
        (b"POST /v1/measure HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{", b"HTTP/1.1 408"),
    ],
)
def test_silent_and_dripping_clients_are_let_go_and_others_answered(desk, begin, reply):
    """S3: nobody waits for headers or a body for ever."""
    with socket.create_connection(("127.0.0.1", desk.port)) as connection, desk.client() as client:
        connection.settimeout(600)
        connection.sendall(begin)
        assert client.post("/v1/measure", json={"inputs": "abc"}).status_code == 200
        received = b""
        while chunk := connection.recv(4096):
            received += chunk
        assert received.startswith(reply)
        assert client.post("/v1/measure", json={"inputs": "abc"}).status_code == 200


def test_a_client_that_does_not_read_is_let_go(shop):
    """S3: what it left unread is not kept for it."""
    head = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with serving({"encoder": shop.server.state.catalogue.trained_models["encoder"]}, send_seconds=0.3) as slow:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect(("127.0.0.1", slow.port))
            connection.settimeout(0.2)
            with contextlib.suppress(OSError):  # it is full, or was let go meanwhile
                while True:
                    connection.sendall(head * 20)
            slow.until(lambda: not slow.server.server_state.connections)
        with slow.client() as client:
            assert client.get("/livez").status_code == 200


def test_a_client_that_goes_away_frees_its_row_while_it_is_decoded_queued_and_streamed(shop):
    """S2."""
    for stream in (True, False):
        body = json.dumps({"model": "stories", "prompt": "Once", "max_tokens": 1000, "stream": stream}).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", shop.port)) as connection:
            connection.sendall(head + body)
            shop.until(lambda: shop.gauge("stories"))
        shop.until(lambda: not shop.gauge("stories") and not shop.gauge("open"))


def test_more_than_it_can_take_is_refused_at_once_and_nothing_is_lost(counter):
    """S1: 429 with Retry-After; accepted and refused are all that were sent."""
    with serving({"counter": counter}, running=1, queue=3) as desk, desk.client() as client:
        client.headers["connection"] = "close"
        slow = threading.Thread(target=client.post, args=("/v1/measure",), kwargs={"json": {"inputs": "slow"}})
        slow.start()
        desk.until(lambda: counter.batches[1:])
        with ThreadPoolExecutor(12) as pool:
            calls = [pool.submit(client.post, "/v1/measure", json={"inputs": f"text {number}"}) for number in range(24)]
            desk.until(lambda: sum(call.done() for call in calls) == 21)
            counter.release.set()
            answers = [call.result() for call in calls]
        slow.join()
        statuses = [answer.status_code for answer in answers]
        assert (statuses.count(200), statuses.count(429)) == (3, 21)
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status_code == 429)
        counted = client.get("/metrics").text
        assert f'regard_requests_total{{route="/v1/measure",status="429"}} {statuses.count(429)}' in counted
        assert f'regard_requests_total{{route="/v1/measure",status="200"}} {statuses.count(200) + 1}' in counted


def test_a_poisoned_item_fails_by_itself_and_no_error_tells_of_the_machine(desk_for_all):
    """S8 and S18."""
    with desk_for_all.client() as client, ThreadPoolExecutor(4) as pool:
        texts = ["abc", "poison", "abcd", "bad"]
        fine, poison, other, bad = pool.map(lambda text: client.post("/v1/measure", json={"inputs": text}), texts)
        assert [fine.status_code, other.status_code] == [200, 200]
        assert (poison.status_code, poison.json()["error"]["message"]) == (500, "the model failed")
        assert (bad.status_code, bad.json()["error"]["code"]) == (422, "invalid_input")
        for answer in (poison, bad):
            assert "somebody" not in answer.text
            assert "0x7f" not in answer.text
            assert "Traceback" not in answer.text
    assert not [line for line in desk_for_all.lines if "zebra" in line or "poison" in line], "a log holds no text"


def test_what_does_not_fit_the_memory_is_refused_and_the_server_lives(desk):
    """S9."""
    counter = desk.server.state.catalogue.trained_models["counter"]
    with desk.client() as client:
        counter.most = 0
        answer = client.post("/v1/measure", json={"inputs": ["a", "b"]})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        counter.most = 1
        assert client.post("/v1/measure", json={"inputs": ["a", "b"]}).status_code == 200


def test_names_of_models_never_reach_the_file_system(desk_for_all, monkeypatch):
    """S10."""
    names = ["../../etc/passwd", "/etc/passwd", "counter/../eye", "%2e%2e/eye", "x" * 5000, "con\u202etrol", "", "eye "]
    opened = []
    monkeypatch.setattr("regard.recipe.open_model", opened.append)
    with desk_for_all.client() as client:
        for name in names:
            answer = client.post("/v1/measure", json={"model": name, "inputs": "x"})
            assert answer.status_code == 404, name
            assert len(answer.text) < 400
    assert not opened


def bomb(width: int, height: int) -> bytes:
    """The beginning of a PNG that says it is so large."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + head
    body = zlib.compress(b"\0" * 100_000)
    parts = [(chunk), b"IDAT" + body, b"IEND"]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts
    )


def test_pictures_that_are_none_or_far_too_large_are_refused_within_little_memory(desk_for_all):
    """S12 and S13."""
    noise, other = io.BytesIO(), io.BytesIO()
    Image.effect_noise((40, 40), 50).save(noise, "PNG")
    Image.new("RGB", (20, 20)).save(other, "PPM")
    hostile = {
        "100,000 pixels a side": bomb(100_000, 100_000),
        "101 megapixels": bomb(10_100, 10_000),
        "cut": noise.getvalue()[:700],
        "another kind of file": other.getvalue(),
        "text": b"GET / HTTP/1.1",
        "nothing": b"",
    }
    inputs = {name: base64.b64encode(data).decode() for name, data in hostile.items()}
    inputs |= {"no base64": "***", "a path": "/etc/passwd", "an address": "http://127.0.0.1:1/x.png", "a number": 3}
    tracemalloc.start()
    try:
        with desk_for_all.client() as client:
            for name, value in inputs.items():
                answer = client.post("/v1/classify", json={"inputs": value})
                assert answer.status_code == 422, name
                assert answer.json()["error"]["code"] == "invalid_picture", name
            assert "nothing is fetched" in client.post("/v1/classify", json={"inputs": inputs["an address"]}).text
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_every_route_wants_a_key_but_the_page_and_the_probes(counter):
    """S14."""
    with serving({"counter": counter}, keys=[KEY, OTHER_KEY]) as desk, desk.client() as client:
        schema = desk.server.config.loaded_app.app.openapi()
        routes = [(path, method) for path, methods in schema["paths"].items() for method in methods]
        assert len(routes) > 15
        assert sorted(OPEN_PATHS) == ["/", "/docs", "/explorer.css", "/explorer.js", "/livez", "/readyz"]
        assert {("/docs", "get"), ("/openapi.json", "get")} <= set(routes), "the one is open, the other is not"
        for path, method in routes:
            place = path.replace("{name}", "x")
            expected = 200 if path in OPEN_PATHS else 401
            assert client.request(method, place).status_code == expected, path
            wrong = client.request(method, place, headers={"authorization": "Bearer a-key-that-nobody-guesseS"})
            assert wrong.status_code == expected, path
        assert client.get("/no/such/page").status_code == 401
        for key in (KEY, OTHER_KEY):
            bearer = {"authorization": f"Bearer {key}"}
            assert client.post("/v1/measure", json={"inputs": "x"}, headers=bearer).status_code == 200
            assert client.get("/metrics", headers={"x-api-key": key}).status_code == 200
            assert client.get("/languages", params={"api_key": key}).json() == []
            assert client.post("/detect", data={"q": "Good morning", "api_key": key}).status_code == 200
            assert client.post("/detect", json={"q": "Good morning", "api_key": key}).status_code == 200
        assert client.post("/detect", json={"q": "Good morning", "api_key": ["x"]}).status_code == 401
        assert "counter" not in client.get("/").text
    assert not [line for line in desk.lines if KEY in line]


def test_only_names_of_the_host_are_answered_and_no_other_page_may_ask(desk_for_all):
    """S14: the Host header is checked, CORS is off, a bind to others needs a key."""
    with desk_for_all.client() as client:
        assert client.get("/livez", headers={"host": "evil.example"}).status_code == 421
        assert client.get("/livez", headers={"host": "localhost:99"}).status_code == 200
        answer = client.options("/v1/measure", headers={"origin": "http://evil.example"})
        assert answer.status_code == 405
        assert not [name for name in answer.headers if name.startswith("access-control")]
    with pytest.raises(ValueError, match="can be reached from elsewhere"):
        Address(host="0.0.0.0").check(Keys())
    with pytest.raises(ValueError, match="can be reached from elsewhere"):
        Address(host="::").check(Keys())
    Address(host="::1").check(Keys())
    Address(host="0.0.0.0").check(Keys([KEY]))


def test_keys_are_read_strictly(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text(f"# mine\n{KEY}\n\n{OTHER_KEY}\n")
    assert read_keys(file) == (KEY, OTHER_KEY)
    for text, word in (
        ("short\n", ":1: a key must have"),
        ("# none\n", "no key"),
        ("one key with blanks in it\n", ":1:"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=word):
            read_keys(file)


def test_requests_of_a_minute_are_counted_by_client(counter):
    with serving({"counter": counter}, per_minute=3) as desk, desk.client() as client:
        statuses = [client.post("/v1/measure", json={"inputs": "x"}).status_code for _ in range(8)]
    assert statuses.count(429) >= 2  # a new minute may have begun meanwhile
    assert statuses[:3] == [200] * 3


def test_limits_come_from_the_environment_and_from_settings():
    assert read_limits(["queue=3"], {"REGARD_SERVE_QUEUE": "5", "REGARD_SERVE_DEADLINE": "2.5"}).queue == 3
    assert read_limits([], {"REGARD_SERVE_DEADLINE": "2.5"}).deadline == 2.5
    for settings, environment in (
        (["queue=0"], {}),
        (["quue=1"], {}),
        ([], {"REGARD_SERVE_QUEUE": "x"}),
        ([], {"REGARD_SERVE_QUUE": "1"}),
    ):
        with pytest.raises(ValueError, match=r"(?i)qu"):
            read_limits(settings, environment)
    assert all(help.endswith(".") for _, _, help in describe_limits())


def test_labels_stay_few_whatever_is_asked_for(desk_for_all):
    """S16."""
    with desk_for_all.client() as client:
        for number in range(30):
            client.get(f"/page-{number}")
            client.request(f"VERB{number}", "/livez")
        counted = client.get("/metrics").text
    labels = {line.partition("{")[2].partition("}")[0] for line in counted.splitlines() if "requests_total{" in line}
    assert 'route="unknown",status="404"' in labels
    assert len(labels) < 30
    assert "page-" not in counted


def test_a_late_answer_is_given_up(shop):
    stories = {"stories": shop.server.state.catalogue.trained_models["stories"]}
    with serving(stories, deadline=0.2) as late, late.client() as client:
        answer = client.post("/v1/completions", json={"prompt": "Once", "max_tokens": 1000})
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")
        late.until(lambda: not late.gauge("stories"))


def test_a_server_that_stops_says_so_first_and_finishes_what_runs(counter):
    """S15, in this process; what signals do is tested with a process of its own."""
    with serving({"counter": counter}, drain_seconds=600) as desk, desk.client() as client:
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(
                lambda: httpx.post(f"{desk.url}/v1/measure", json={"inputs": "slow"}, timeout=600, trust_env=False)
            )
            desk.until(lambda: counter.batches[1:])
            loop = desk.server.servers[0].get_loop()
            loop.call_soon_threadsafe(desk.server.drain)
            desk.until(lambda: desk.server.state.is_draining)
            assert client.get("/readyz").status_code == 503
            assert client.get("/livez").status_code == 200
            desk.server.should_exit = True  # what is done when the time to drain is over
            desk.until(lambda: not desk.server.servers[0].is_serving())
            counter.release.set()
            assert slow.result().json()["answers"] == [{"letters": 4}]
        desk.until(lambda: not desk.server.state.worker.alive)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{desk.url}/livez", timeout=600, trust_env=False)
