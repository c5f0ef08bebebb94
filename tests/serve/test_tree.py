"""`/v1/tree`: the search for one answer, equal to the model's own, forced where asked, bounded, and cancelled."""

import json
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

import regard
from regard.data.tokenizers.units import UnitsConfig
from regard.decoding.search_tree import read_tree
from regard.models.rnn_lm import RecurrentLM, RecurrentLMConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.serve.calls import Call
from regard.serve.explaining import Interrupted, interrupting
from regard.tasks.rnn_lm.streams import StreamConfig, prepare
from regard.tasks.rnn_lm.writer import Writer
from regard.tasks.translation.translator import Translator
from regard.tasks.writing import WritingConfig
from tests.serve.harness import serving

pytestmark = pytest.mark.unchecked
CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "format-1"
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


def make_translator(attention: str, beams: int = 2) -> Translator:
    """A small recurrent translator that has learnt nothing."""
    known = regard.load(CHECKPOINT, device="cpu")
    torch.manual_seed(0)
    shape = Seq2SeqConfig(vocab=known.source.vocab, width=16, embedding=16, attention=attention, context=64)
    decoding = replace(known.decoding, beams=beams)
    return Translator(Seq2Seq(shape).eval(), (known.source, known.target), decoding, "small")


@pytest.fixture(scope="module")
def blind() -> dict[str, Any]:
    """Models without attention: a recurrent translator and a recurrent language model."""
    lines = "the quick brown fox\njumps over the lazy dog\n" * 20
    texts = prepare(StreamConfig(text=lines, batch_size=2, window=8), UnitsConfig())
    torch.manual_seed(0)
    language = RecurrentLM(RecurrentLMConfig(vocab=texts.tokenizer.vocab, width=12)).eval()
    writer = Writer(language, texts.tokenizer, WritingConfig(), "letters")
    return {"gru": make_translator("none"), "letters": writer}


def test_models_without_attention_show_their_searches_and_nothing_else(blind):
    with serving(blind) as running, running.client() as client:
        able = {model["name"]: model["can"] for model in client.get("/v1/explorer").json()["models"]}
        assert able["letters"] == ["tree"]
        assert "tree" in able["gru"]
        assert "explain" not in able["gru"]
        for name, given, options in (("gru", "Le chat noir dort.", {}), ("letters", "the ", {"length": 5})):
            expected = blind[name].tree(given, beams=2, **options)
            body = {"model": name, "inputs": given, "options": {"beams": 2, **options}}
            tree = read_tree(client.post("/v1/tree", json=body).json()["tree"])
            assert [(node.step, node.parent, node.token, node.fate) for node in tree.nodes] == [
                (node.step, node.parent, node.token, node.fate) for node in expected.nodes
            ]
            assert [node.total for node in tree.nodes] == pytest.approx([n.total for n in expected.nodes], abs=1e-4)
            refused = client.post("/v1/explain", json={"model": name, "inputs": given})
            assert (refused.status_code, "no model here can be explained" in refused.text) == (404, True)


def test_a_search_by_the_models_own_width_is_no_wider_than_the_server_allows():
    trained = make_translator("bahdanau", beams=6)
    with serving({"wide": trained}, beams=3) as running, running.client() as client:
        free = client.post("/v1/tree", json={"model": "wide", "inputs": "Le chat dort."})
        asked = client.post("/v1/tree", json={"model": "wide", "inputs": "Le chat dort.", "options": {"beams": 4}})
    assert read_tree(free.json()["tree"]).beam.beams == 3
    assert (asked.status_code, asked.json()["error"]["message"]) == (422, "options.beams is 4, at most 3 here")
    assert trained.tree("Le chat dort.").beam.beams == 6
