"""OpenAI's own client, unmodified, against `regard serve`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.packages import require
from tests.serve.process import KEYS, PATIENCE, ServerProcess, wait_until

if TYPE_CHECKING:
    from openai import OpenAI

pytestmark = pytest.mark.unchecked
STORY = {"model": "stories", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}


def connect(server: ServerProcess, key: str = "any") -> OpenAI:
    """Return a client that does not try again, so that a test sees the first answer."""
    openai = require("openai")  # late: importing it takes a second
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE)


@pytest.fixture(scope="module")
def openai() -> Any:
    return require("openai")


@pytest.fixture(scope="module")
def client(served) -> Iterator[OpenAI]:
    with connect(served) as client:
        yield client


def test_models_are_listed_and_found_by_name(client):
    names = [model.id for model in client.models.list()]
    assert names == ["en-fr", "en-fr:en", "en-fr:fr", "encoder", "stories"]
    model = client.models.retrieve("en-fr:fr")
    assert (model.id, model.object, model.owned_by) == ("en-fr:fr", "model", "regard")


def test_a_completion_is_what_the_model_writes_by_itself(client, box):
    answer = client.completions.create(**STORY)
    [alone] = box["stories"].answer([STORY["prompt"]], length=12, temperature=0.0)
    assert STORY["prompt"] + answer.choices[0].text == alone.text
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 12
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 12


def test_a_stream_has_the_same_text_in_pieces_and_then_the_usage(client):
    whole = client.completions.create(**STORY)
    pieces = list(client.completions.create(**STORY, stream=True, stream_options={"include_usage": True}))
    texts = [piece.choices[0].text for piece in pieces if piece.choices]
    assert len(texts) > 4
    assert "".join(texts) == whole.choices[0].text
    assert [piece.choices[0].finish_reason for piece in pieces if piece.choices][-1] == "length"
    assert pieces[-1].usage == whole.usage


def test_choices_are_drawn_by_seed_and_end_at_the_stop_sequence(client):
    asked = {**STORY, "temperature": 1.0, "n": 3, "max_tokens": 40, "stop": "."}
    first, again, other = (client.completions.create(**asked, seed=seed) for seed in (7, 7, 8))
    texts = [choice.text for choice in first.choices]
    assert texts == [choice.text for choice in again.choices]
    assert texts != [choice.text for choice in other.choices]
    assert len(set(texts)) == 3
    assert not any("." in text for text in texts)
    assert [choice.index for choice in first.choices] == [0, 1, 2]


def pieces_of(client: OpenAI, **asked: Any) -> tuple[list[str], str | None]:
    """Return the pieces of a streamed answer, and why it ended."""
    chunks = list(client.completions.create(**asked, stream=True))
    return [chunk.choices[0].text for chunk in chunks], chunks[-1].choices[0].finish_reason


def test_the_earliest_of_four_stop_texts_ends_an_answer_streamed_or_not(client):
    """What is answered is the beginning of what is answered without them; no piece holds what is taken back."""
    asked = {**STORY, "max_tokens": 60, "temperature": 0.8, "seed": 3}
    whole = client.completions.create(**asked).choices[0].text
    words = whole.split()
    late, early = f"{words[12]} {words[13]}", f"{words[6]} {words[7]} {words[8]}"  # of several tokens each
    for stops in ([late, early, "never written", words[25]], [late[: len(late) // 2]], late):
        expected = whole[
            : min(whole.find(stop) for stop in ([stops] if isinstance(stops, str) else stops) if stop in whole)
        ]
        answer = client.completions.create(**asked, stop=stops)
        assert (answer.choices[0].text, answer.choices[0].finish_reason) == (expected, "stop")
        assert 0 < answer.usage.completion_tokens < 60
        pieces, reason = pieces_of(client, **asked, stop=stops)
        assert ("".join(pieces), reason) == (expected, "stop")
        assert len(pieces) > 3
    never = client.completions.create(**asked, stop=["never written", "nor this"])
    assert (never.choices[0].text, never.choices[0].finish_reason) == (whole, "length")


def test_a_beginning_of_a_stop_text_that_is_none_is_sent_in_the_end(client):
    """It is held back while it could become one, and the answer ends with it."""
    whole = client.completions.create(**STORY).choices[0].text
    stop = whole[-4:] + " and then something else"
    pieces, reason = pieces_of(client, **STORY, stop=[stop])
    assert ("".join(pieces), reason) == (whole, "length")


def test_a_translation_ends_at_a_stop_text_too(client, served):
    messages = [{"role": "user", "content": "Good morning, everyone. Where is the station? I am looking for my dog."}]
    asked = {"model": "en-fr:fr", "messages": messages}
    whole = client.chat.completions.create(**asked).choices[0].message.content
    stops = ["?", "never written"]
    answer = client.chat.completions.create(**asked, stop=stops).choices[0]
    assert (answer.message.content, answer.finish_reason) == (whole[: whole.index("?")], "stop")
    chunks = list(client.chat.completions.create(**asked, stop=stops, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == answer.message.content
    assert chunks[-1].choices[0].finish_reason == "stop"
    wait_until(served.is_idle)


def test_a_conversation_is_translated_whole_and_streamed(client, box):
    messages = [{"role": "user", "content": "Good morning, everyone. Where is the station?"}]
    expected = box["en-fr"].translate(messages[0]["content"], to="fr")
    answer = client.chat.completions.create(model="en-fr:fr", messages=messages)
    assert answer.choices[0].message.content == expected
    assert answer.choices[0].finish_reason == "stop"
    pieces = client.chat.completions.create(model="en-fr:fr", messages=messages, stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == expected


def test_a_stream_that_is_left_frees_its_row(client, served):
    with client.completions.create(**{**STORY, "max_tokens": 1000}, stream=True) as pieces:
        next(iter(pieces))
    wait_until(served.is_idle)


def test_embeddings_are_equal_as_numbers_and_as_base64(client, box):
    texts = ["A dog.", "Two cats sleep in the garden."]
    packed = client.embeddings.create(model="encoder", input=texts)  # base64, which the client unpacks by itself
    plain = client.embeddings.create(model="encoder", input=texts, encoding_format="float")
    expected = box["encoder"].embed(texts)
    for answer in (packed, plain):
        vectors = np.array([entry.embedding for entry in answer.data])
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        assert answer.usage.prompt_tokens == answer.usage.total_tokens > 4


@pytest.mark.parametrize(
    ("change", "error", "code"),
    [
        ({"model": "gpt-4"}, "NotFoundError", "model_not_found"),
        ({"model": "encoder"}, "NotFoundError", "model_not_found"),
        ({"max_tokens": 100_000}, "UnprocessableEntityError", "over_limit"),
        ({"n": 99}, "UnprocessableEntityError", "over_limit"),
        ({"logprobs": 2}, "UnprocessableEntityError", "unsupported"),
        ({"prompt": "x" * 20_001}, "UnprocessableEntityError", "too_long"),
        ({"prompt": [1, 2, 3]}, "UnprocessableEntityError", "invalid_input"),
        ({"extra_body": {"typo": 1}}, "UnprocessableEntityError", "unknown_member"),
    ],
)
def test_what_is_refused_arrives_as_the_error_that_the_client_has_for_it(client, openai, change, error, code):
    asked: dict[str, Any] = {**STORY, **change}
    with pytest.raises(getattr(openai, error)) as caught:
        client.completions.create(**asked)
    assert caught.value.code == code
    assert caught.value.body["message"]
    assert caught.value.request_id


def test_a_wrong_key_and_too_many_requests_arrive_as_errors_of_their_own(guarded, openai):
    with connect(guarded, "not-the-key-of-anybody") as stranger, pytest.raises(openai.AuthenticationError) as caught:
        stranger.models.list()
    assert caught.value.code == "invalid_api_key"
    refused = None
    with connect(guarded, KEYS[1]) as client:
        for _ in range(62):  # a new minute may begin meanwhile
            try:
                client.models.list()
            except openai.RateLimitError as error:
                refused = error
    assert refused is not None
    assert refused.code == "rate_limit"
    assert int(refused.response.headers["retry-after"]) >= 1
