"""Whatever JSON is sent to whatever route, nothing fails on our side (S6)."""

import json
from string import printable

import pytest

from tests.serve.harness import Counter, make_eye, serving

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed (pip install 'regard[test]')")
st = hypothesis.strategies
pytestmark = pytest.mark.unchecked
NAMES = [
    *("model", "inputs", "options", "prompt", "messages", "input", "q", "source", "target", "stream", "n", "stop"),
    *("max_tokens", "temperature", "seed", "encoding_format", "alternatives", "glossary", "format", "verb", "role"),
]
TEXTS = st.text(max_size=8) | st.sampled_from(["counter", "eye", "en", "fr", "auto", "html", "../x", "", "aGVsbG8="])
KINDS = ["application/json", "application/x-www-form-urlencoded", "image/png", "text/css"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5).map(json.dumps) | st.text(printable, max_size=20)


@pytest.fixture(scope="module")
def routes():
    with serving({"counter": Counter(), "eye": make_eye()}) as desk, desk.client() as client:
        schema = client.get("/openapi.json").json()
        yield client, [(path, method) for path, methods in schema["paths"].items() for method in methods]


@hypothesis.settings(max_examples=80)
@hypothesis.given(data=st.data())
def test_no_body_makes_a_route_fail(routes, data):
    client, places = routes
    path, method = data.draw(st.sampled_from(places))
    path = path.replace("{name}", data.draw(st.sampled_from(["counter", "x%00y", "%2e%2e"]))).replace(
        "{identifier}", "x"
    )
    body = data.draw(BODIES).encode("utf-8", "surrogatepass")
    kind = data.draw(
        st.sampled_from(["application/json", "application/x-www-form-urlencoded", "image/png", "text/css"])
    )
    answer = client.request(method, path, content=body, headers={"content-type": kind})
    assert answer.status_code < 500, (path, body, answer.text)
    if answer.status_code >= 400:
        told = answer.json()["error"]
        assert told["message"] if path.startswith("/v1/") else told
