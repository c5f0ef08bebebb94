"""The worker: many requests share the steps of one engine, and none of them notices the others."""

import asyncio
import time
from itertools import pairwise

import pytest
import torch

from regard.decoding.engine import Engine
from regard.serve.calls import DeadlineExceeded, ModelFailed, OutOfMemory, Overloaded
from tests.serve.harness import working

pytestmark = pytest.mark.unchecked
TEXTS = [
    "Good morning.",
    "I have two dogs and a cat, and they sleep.",
    "Where is the station? I am tired.",
    "The old man walks slowly along the river.",
]


async def until(condition) -> None:
    """Wait until something is so; a test that waits in vain is ended by its deadline."""
    async with asyncio.timeout(600):
        while not condition():
            await asyncio.sleep(0.005)


def test_answers_among_others_are_those_alone(box):
    """S17, S22."""
    for options in ({"to": "fr", "beams": 1}, {"to": "fr", "beams": 3}):
        alone = [box["en-fr"].answer([text], **options)[0] for text in TEXTS[:2]]

        async def ask(options=options):
            with working(box) as worker:
                story = asyncio.create_task(worker.answer("stories", ["Once upon"], {"length": 12, "seed": 3}))
                answers = await asyncio.gather(*(worker.answer("en-fr", [text], options) for text in TEXTS[:2] * 2))
                return [answer for [answer] in answers], await story

        among, story = asyncio.run(ask())
        assert [answer.text for answer in among] == [answer.text for answer in alone] * 2
        assert [answer.score for answer in among] == pytest.approx([answer.score for answer in alone] * 2, abs=1e-4)

    async def write_alone():
        with working(box) as worker:
            return await worker.answer("stories", ["Once upon"], {"length": 12, "seed": 3})

    assert asyncio.run(write_alone()) == story, "what is drawn depends on the seed of the request alone"


@pytest.mark.parametrize(
    ("model", "text", "options"),
    [
        ("stories", "The dog", {"length": 12, "temperature": 0.9, "top_p": 0.9}),
        ("en-fr", "Where is the old station?", {"to": "fr", "sample": True}),
    ],
)
def test_what_is_drawn_depends_on_the_seed_alone(box, model, text, options):
    """Alone and among eight others of other lengths and seeds, which share its steps."""
    others = [(f"Once upon a time {'there was ' * number}", number) for number in range(8)]

    async def draw(companions: list[tuple[str, int]]) -> list[str]:
        with working({model: box[model]}) as worker:
            asked = [(text, 5), *companions]
            calls = (worker.answer(model, [prompt], {**options, "seed": seed}) for prompt, seed in asked)
            answers = [answer.text for [answer] in await asyncio.gather(*calls)]
            streamed = [piece async for piece, _ in worker.stream(model, text, {**options, "seed": 5})]
            assert streamed[-1] == answers[0]
            return answers

    alone, among = asyncio.run(draw([])), asyncio.run(draw(others))
    assert among[0] == alone[0]
    assert len(set(among)) > 2
    assert asyncio.run(draw([(text, 6)]))[1] != alone[0]


def test_a_stream_only_grows_and_ends_with_the_answer(box):
    options = {"length": 24, "temperature": 0.0, "stop": "."}

    async def listen():
        with working(box) as worker:
            return [piece async for piece in worker.stream("stories", "Once upon a time", options)]

    pieces = asyncio.run(listen())
    texts = [text for text, _ in pieces]
    assert len(texts) > 4
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert [answer for _, answer in pieces[:-1]] == [None] * (len(pieces) - 1)
    assert pieces[-1][1].text == texts[-1] == box["stories"].answer(["Once upon a time"], **options)[0].text
    assert "." not in texts[-1]
    assert pieces[-1][1].finished


def test_a_client_that_goes_away_frees_its_rows(box):
    """S2: queued or decoding."""

    async def go_away():
        with working(box, running=1) as worker:
            decoding = asyncio.create_task(worker.answer("stories", ["Once"], {"length": 500}))
            await until(lambda: worker.count_rows().get("stories"))
            queued = asyncio.create_task(worker.answer("stories", ["There"], {"length": 500}))
            await until(lambda: worker.open_calls == 2)
            queued.cancel()
            await until(lambda: worker.open_calls == 1)
            decoding.cancel()
            await until(lambda: worker.open_calls == 0)
            assert worker.count_rows()["stories"] == 0
            return await worker.answer("stories", ["Once"], {"length": 2})

    assert len(asyncio.run(go_away())) == 1


def test_what_is_late_is_given_up_and_harms_nobody(box):
    async def be_late():
        with working(box) as worker:
            late = asyncio.create_task(
                worker.answer("stories", ["Once"], {"length": 500}, deadline=time.monotonic() + 0.05)
            )
            well = await worker.answer("en-fr", TEXTS[:1], {"to": "fr"})
            with pytest.raises(DeadlineExceeded, match="no answer in time"):
                await late
            return well

    assert asyncio.run(be_late())[0].text == box["en-fr"].translate(TEXTS[0], to="fr")


def test_a_full_queue_refuses_and_loses_nothing(counter):
    """S1: accepted and refused requests are all that were sent."""

    async def ask(worker, number):
        if number == 39:
            counter.release.set()
        return await worker.answer("counter", [f"text {number}"], {})

    async def flood():
        with working({"counter": counter}, running=2, queue=3) as worker:
            slow = asyncio.create_task(worker.answer("counter", ["slow"], {}))
            await until(lambda: counter.batches)
            outcomes = await asyncio.gather(*(ask(worker, number) for number in range(40)), return_exceptions=True)
            return await slow, outcomes

    _, outcomes = asyncio.run(flood())
    refused = [outcome for outcome in outcomes if isinstance(outcome, Overloaded)]
    assert len(refused) == 40 - 4
    assert [outcome[0].letters for outcome in outcomes if not isinstance(outcome, Exception)] == [6] * 4
    assert all(outcome.retry_after >= 1 for outcome in refused)


def test_one_that_makes_the_model_fail_fails_by_itself(counter):
    """S8: a batch is answered without the item that fails."""

    async def poison():
        with working({"counter": counter}) as worker:
            slow = asyncio.create_task(worker.answer("counter", ["slow"], {}))
            await until(lambda: counter.batches)
            texts = ["one", "two", "poison", "three", "bad"]
            calls = [asyncio.create_task(worker.answer("counter", [text], {})) for text in texts]
            await until(lambda: worker.open_calls == 6)
            counter.release.set()
            await slow
            return await asyncio.gather(*calls, return_exceptions=True)

    one, two, failure, three, bad = asyncio.run(poison())
    assert [one[0].letters, two[0].letters, three[0].letters] == [3, 3, 5]
    assert isinstance(failure, ModelFailed)
    assert isinstance(bad, ValueError)
    assert counter.batches[1] == ["one", "two", "poison", "three", "bad"], "they were tried together first"


def test_what_does_not_fit_the_memory_is_split_and_what_never_fits_is_refused(counter):
    """S9: the worker lives."""

    async def fill():
        with working({"counter": counter}) as worker:
            counter.most = 2
            halves = await worker.answer("counter", ["a", "bb", "ccc", "dddd"], {})
            counter.most = 0
            with pytest.raises(OutOfMemory, match="does not fit the memory"):
                await worker.answer("counter", ["a"], {})
            counter.most = 9
            return halves, await worker.answer("counter", ["a"], {})

    halves, again = asyncio.run(fill())
    assert [answer.letters for answer in halves] == [1, 2, 3, 4]
    assert again[0].letters == 1


def test_an_engine_that_runs_out_of_memory_begins_anew_with_fewer(box, monkeypatch):
    """S9: everybody is answered all the same; who fails twice is refused."""
    step, failures = Engine.step, []

    def fail_once(engine):
        if engine.size > 2 and not failures:
            failures.append(engine.size)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return step(engine)

    expected = [box["en-fr"].translate(text, to="fr") for text in TEXTS]

    async def ask():
        with working(box) as worker:
            answers = await asyncio.gather(*(worker.answer("en-fr", [text], {"to": "fr"}) for text in TEXTS))
            monkeypatch.setattr(Engine, "step", lambda engine: (_ for _ in ()).throw(MemoryError()))
            with pytest.raises(OutOfMemory):
                await worker.answer("en-fr", ["x"], {"to": "fr"})
            monkeypatch.setattr(Engine, "step", step)
            return answers, await worker.answer("en-fr", TEXTS[:1], {"to": "fr"})

    monkeypatch.setattr(Engine, "step", fail_once)
    answers, afterwards = asyncio.run(ask())
    assert failures
    assert [answer.text for [answer] in answers] == expected
    assert afterwards[0].text == expected[0]


def test_a_wrong_option_is_the_clients_own_and_a_stopped_worker_takes_nothing(box, counter):
    async def ask():
        with working({**box, "counter": counter}) as worker:
            await worker.warm_up()
            with pytest.raises(ValueError, match="did you mean beams"):
                await worker.answer("en-fr", ["x"], {"beems": 2})
            with pytest.raises(KeyError):
                await worker.answer("nobody", ["x"], {})
        with pytest.raises(Overloaded):
            await worker.answer("counter", ["x"], {})

    asyncio.run(ask())


def test_freed_memory_is_given_back_now_and_then_but_not_by_an_idle_worker(box, monkeypatch):
    """S16: what the allocator retains would grow for hours, since every request has another size."""
    released = []
    monkeypatch.setattr("regard.serve.worker.RELEASE_SECONDS", 0.0)
    monkeypatch.setattr("regard.serve.worker.release_freed_memory", lambda: released.append(worker.finished))

    async def ask():
        for _ in range(2):
            await worker.answer("en-fr", TEXTS[:1], {"to": "fr", "beams": 1})
            await until(lambda: released and released[-1] == worker.finished)

    with working(box) as worker:
        asyncio.run(ask())
        time.sleep(1.2)  # twice as long as an idle worker waits
    assert released == sorted(set(released)), "once for each answer"
    assert released[-1] == 2
