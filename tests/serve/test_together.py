"""Requests that share the steps of a model: none notices the others, whatever becomes of them (S17, S22)."""

from __future__ import annotations

import asyncio
import gzip
import math
from typing import Any

import pytest

from regard.models.inference.cpu import LeanDecoder
from regard.serve.calls import ModelFailed
from tests.serve.harness import working
from tests.serve.process import PATIENCE, ROOT

pytestmark = pytest.mark.unchecked
SAMPLE = ROOT / "regard" / "samples" / "tatoeba-fra-eng.train.tsv.gz"
GREEDY = {"to": "fr", "beams": 1}


def sentences(count: int) -> list[str]:
    """The first English sentences of a sample, of all lengths."""
    lines = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()
    return [line.split("\t")[0] for line in lines[:count]]


def translate_alone(model: Any, texts: list[str]) -> list[tuple[str, float]]:
    """Return what each sentence is translated to by itself, with its score."""
    return [(answer.text, answer.score) for text in texts for answer in model.answer([text], **GREEDY)]


def translate_among(models: dict[str, Any], texts: list[str], company: int) -> list[tuple[str, float]]:
    """Return the translations of a worker that always has this many others under way."""

    async def run() -> list[tuple[str, float]]:
        room = asyncio.Semaphore(company)
        with working(models, queue=1000) as worker:

            async def ask(text: str) -> tuple[str, float]:
                async with room:
                    [answer] = await worker.answer("en-fr", [text], GREEDY)
                    return answer.text, answer.score

            return await asyncio.gather(*map(ask, texts))

    return asyncio.run(run())


@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.faults)])
def test_greedy_answers_alone_and_among_64_others_are_equal(box, count):
    """S17."""
    texts = sentences(count)
    alone = translate_alone(box["en-fr"], texts)
    among = translate_among({"en-fr": box["en-fr"]}, texts, 64)
    assert [text for text, _ in among] == [text for text, _ in alone]
    assert [score for _, score in among] == pytest.approx([score for _, score in alone], abs=1e-5, rel=1e-5)


def test_failing_broken_cancelled_and_unequal_neighbours_change_nothing(box, monkeypatch):
    """S22: two models, lengths far apart, one that is too long, one whose scores are no numbers, one that is gone."""
    translator, texts = box["en-fr"], sentences(6)
    poisoned, longer = "The zebra eats a large ham.", " ".join(sentences(60))
    others = {token for text in (*texts, longer) for token in translator.source.encode(text)}
    [token, *_] = [token for token in translator.source.encode(poisoned) if token not in others]
    expected = translate_alone(translator, [*texts, longer])
    start = LeanDecoder.start

    def start_poisoned(model: LeanDecoder, *inputs: Any, **settings: Any) -> Any:
        logits, state = start(model, *inputs, **settings)
        return logits.masked_fill((inputs[0] == token).any(1)[:, None, None], math.nan), state

    monkeypatch.setattr(LeanDecoder, "start", start_poisoned)

    async def run() -> list[Any]:
        with working(box) as worker:
            gone = asyncio.create_task(worker.answer("en-fr", [longer], GREEDY))
            asked = [worker.answer("en-fr", [text], GREEDY) for text in (*texts, longer, poisoned)]
            asked.append(worker.answer("en-fr", ["x " * 5000], {**GREEDY, "split": False}))
            asked.append(worker.answer("stories", ["Once upon"], {"length": 12, "seed": 3}))
            calls = [asyncio.create_task(call) for call in asked]
            async with asyncio.timeout(PATIENCE):
                while not worker.count_rows().get("en-fr"):
                    await asyncio.sleep(0.001)
            gone.cancel()
            return await asyncio.gather(*calls, return_exceptions=True)

    *good, broken, _, story = asyncio.run(run())
    assert isinstance(broken, ModelFailed)
    assert [answer.text for [answer] in good] == [text for text, _ in expected]
    assert [answer.score for [answer] in good] == pytest.approx([score for _, score in expected], abs=1e-5, rel=1e-6)
    assert story[0].text == box["stories"].answer(["Once upon"], length=12, seed=3)[0].text
