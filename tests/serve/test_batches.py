"""How calls of models that do not write share batches: bounded by tokens where they are known, else by characters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import regard
from regard.serve import scheduling
from regard.serve.calls import Call
from regard.serve.scheduling import BATCH_INPUTS, DirectQueue
from tests.serve.harness import Counter

pytestmark = pytest.mark.unchecked
PLAIN = "The man in the red coat walks slowly along the river."
ODD = "xq9z-" * 10


class WordCounter(Counter):
    """Counts letters; its tokens are words, and one of them cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: list[str] = []

    def count_tokens(self, item: Any) -> int | None:
        self.counted.append(item)
        if "unreadable" in item:
            raise ValueError("this word cannot be read")
        return len(item.split())


def answer_all(trained: Any, inputs: Sequence[list[str]], options: Sequence[dict[str, Any]] = ()) -> list[list[Any]]:
    """Return the answers to calls that wait together."""
    queue, outcomes = DirectQueue(trained), {}
    for number, texts in enumerate(inputs):

        def finish(answers: Any, error: Exception | None, number: int = number) -> None:
            assert error is None, error
            outcomes[number] = answers

        call = Call("model", texts, options[number] if options else {}, time.monotonic() + 600, finish)
        call.cost = sum(map(len, texts))
        queue.waiting.append(call)
    while queue.waiting:
        queue.advance()
    return [outcomes[number] for number in range(len(inputs))]


def test_batches_are_bounded_by_tokens_in_the_order_of_arrival(monkeypatch):
    monkeypatch.setattr(scheduling, "BATCH_TOKENS", 10)
    counter = WordCounter()
    inputs = [["a b c"], ["d e f", "g"], ["h i j k"], ["l"], ["m " * 30], ["n"]]
    answers = answer_all(counter, inputs)
    batches = [["a b c", "d e f", "g"], ["h i j k", "l"], ["m " * 30], ["n"]]
    assert counter.batches == batches
    assert [[answer.text for answer in part] for part in answers] == inputs
    assert len(counter.counted) <= sum(map(len, inputs)), "each is counted once"


def test_a_call_that_waits_alone_is_not_counted():
    counter = WordCounter()
    answer_all(counter, [["a b c"]])
    assert counter.counted == []


def test_what_has_no_tokens_is_bounded_by_characters_and_inputs(monkeypatch):
    monkeypatch.setattr(scheduling, "BATCH_CHARACTERS", 40)
    for counter, word in ((Counter(), "letters---"), (WordCounter(), "unreadable")):
        answer_all(counter, [[word]] * 9)
        assert [len(batch) for batch in counter.batches] == [4, 4, 1]
    monkeypatch.undo()
    counter = Counter()
    answer_all(counter, [["a"] * 30] * 3)
    assert [len(batch) for batch in counter.batches] == [60, 30]
    assert BATCH_INPUTS == 64


def test_texts_of_as_many_characters_share_batches_by_their_tokens(monkeypatch):
    """An encoder that comes with Regard: odd texts have more tokens, so fewer of them share a batch."""
    embedder = regard.load("encoder", task="matching", device="cpu")
    count = {text: len(embedder.tokenizer.encode(text)) for text in (PLAIN, ODD)}
    assert count[ODD] > 2 * count[PLAIN]
    monkeypatch.setattr(scheduling, "BATCH_TOKENS", 2 * count[ODD])
    sizes: list[int] = []
    answer = embedder.answer
    embedder.answer = lambda inputs, **options: sizes.append(len(inputs)) or answer(inputs, **options)
    alone = {text: answer([text])[0].vector for text in (PLAIN, ODD)}
    for text in (PLAIN, ODD):
        sizes.clear()
        answers = answer_all(embedder, [[text]] * 5)
        assert sizes[0] == min(5, 2 * count[ODD] // count[text])
        assert max(sizes) * count[text] <= 2 * count[ODD]
        assert all(np.allclose(part[0].vector, alone[text], atol=1e-5) for part in answers)
