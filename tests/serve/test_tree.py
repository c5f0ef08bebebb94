"""`/v1/tree`: the search for one answer, equal to the model's own, forced where asked, bounded, and cancelled."""

import json
import socket
import time

import httpx
import pytest

from regard.decoding.search_tree import read_tree
from regard.serve.calls import Call
from regard.serve.explaining import Interrupted, interrupting

pytestmark = pytest.mark.unchecked
TEXT = "Where is the old station?"


def ask(client: httpx.Client, **changes: object) -> httpx.Response:
    body = {"model": "en-fr", "inputs": TEXT, "options": {"to": "fr", "beams": 3}}
    return client.post("/v1/tree", json={**body, **changes})


def test_the_tree_is_that_of_the_model(shop, box):
    expected = box["en-fr"].tree(TEXT, to="fr", beams=3)
    with shop.client() as client:
        answer = ask(client).json()
    assert answer["model"] == "en-fr"
    tree = read_tree(answer["tree"])
    assert (tree.answer, tree.beam, tree.limit) == (expected.answer, expected.beam, expected.limit)
    assert [(node.step, node.parent, node.token, node.text, node.fate) for node in tree.nodes] == [
        (node.step, node.parent, node.token, node.text, node.fate) for node in expected.nodes
    ]
    assert [node.total for node in tree.nodes] == pytest.approx([node.total for node in expected.nodes], abs=1e-4)
    assert tree.answer == box["en-fr"].translate(TEXT, to="fr", beams=3)


def test_a_branch_can_be_forced_and_the_answer_with_it(shop):
    with shop.client() as client:
        free = read_tree(ask(client).json()["tree"])
        place = next(place for place, node in enumerate(free.nodes) if node.fate == "pruned" and node.step == 2)
        prefix = free.tokens(place)
        options = {"to": "fr", "beams": 3, "prefix": prefix}
        forced = read_tree(ask(client, options=options).json()["tree"])
        looked = client.post(
            "/v1/explain", json={"model": "en-fr", "inputs": TEXT, "options": {"to": "fr", "prefix": prefix}}
        )
        same = read_tree(ask(client, options={**options, "prefix": free.tokens(free.answers[0])}).json()["tree"])
    assert forced.tokens(forced.answers[0])[:2] == prefix
    assert list(forced.prefix) == prefix
    assert looked.json()["trace"]["facts"]["written"][:2] == prefix
    assert same.answer == free.answer
    assert same.nodes[same.answers[0]].total == pytest.approx(free.nodes[free.answers[0]].total, abs=1e-4)


def test_candidates_of_a_view_can_be_forced(shop):
    question = {"model": "en-fr", "inputs": TEXT, "options": {"to": "fr"}, "view": True}
    with shop.client() as client:
        view = client.post("/v1/explain", json=question).json()["view"]
        [first, *_] = view["predictions"]
        assert len(first["ids"]) == len(first["top"]) == 8
        assert view["written"][0] == first["ids"][first["rank"]]
        question["options"]["prefix"] = [first["ids"][1 if first["rank"] == 0 else 0]]
        forced = client.post("/v1/explain", json=question).json()["view"]
    assert forced["written"][0] == question["options"]["prefix"][0]


def test_a_language_model_searches_too(shop):
    body = {"model": "stories", "inputs": "Once upon a time", "options": {"length": 5, "beams": 2}}
    with shop.client() as client:
        tree = client.post("/v1/tree", json=body).json()["tree"]
    assert max(node["step"] for node in tree["nodes"]) == 5
    assert tree["answer"].startswith("Once upon a time")


def test_what_cannot_be_searched_is_refused_in_one_line(shop):
    cases = [
        ({"model": "encoder"}, 404, "encoder cannot be shown searching"),
        ({"options": {"beams": 9}}, 422, "options.beams is 9, at most 8 here"),
        ({"options": {"prefix": [10**6]}}, 422, "prefix: token 1000000 is none that the model may write"),
        ({"options": {"prefix": [5] * 201}}, 422, "options.prefix has 201 entries, at most 200"),
        ({"options": {"prefix": [5] * 100, "to": "fr"}}, 422, "prefix of 100 tokens where an answer has"),
        ({"options": {"prefix": ["a"]}}, 422, r"options.prefix[0] must be"),
        ({"options": {"depth": 2}}, 422, "depth"),
        ({"inputs": ["a", "b"]}, 422, "2 inputs, one at a time is explained"),
        ({"inputs": "a" * 2001}, 422, "at most 2,000 characters"),
        ({"view": True}, 422, "unknown member 'view'"),
    ]
    with shop.client() as client:
        for changes, status, message in cases:
            answer = ask(client, **changes)
            error = answer.json()["error"]
            assert (answer.status_code, message in error["message"]) == (status, True), error
            assert "\n" not in error["message"]


def test_the_explorer_and_the_schema_know_it(shop):
    with shop.client() as client:
        models = {model["name"]: model["can"] for model in client.get("/v1/explorer").json()["models"]}
        route = client.get("/openapi.json").json()["paths"]["/v1/tree"]["post"]
    assert "tree" in models["en-fr"]
    assert "tree" in models["stories"]
    assert "tree" not in models["encoder"]
    assert "prefix" in str(route["requestBody"])


@pytest.mark.parametrize("name", ["stories", "en-fr"])
def test_a_search_under_way_ends_when_nobody_waits_for_it_any_more(box, name):
    trained = box[name]
    options = {"to": "fr"} if trained.languages else {"length": 4}
    call = Call(name, [TEXT], {}, time.monotonic() + 600, lambda answers, error: None)
    with interrupting(trained.model, call):
        trained.tree(TEXT, **options)
        call.cancel()
        with pytest.raises(Interrupted):
            trained.tree(TEXT, **options)
    trained.tree(TEXT, **options)


def test_a_client_that_leaves_frees_its_place(shop):
    explainer = shop.server.state.explainer
    body = json.dumps({"model": "en-fr", "inputs": TEXT * 20, "options": {"to": "fr", "beams": 8}}).encode()
    head = f"POST /v1/tree HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", shop.port)) as hasty:
        hasty.sendall(head + body)
        shop.until(lambda: explainer.open_calls == 1)
    shop.until(lambda: any("/v1/tree 499" in line for line in shop.lines))
    shop.until(lambda: explainer.open_calls == 0)
