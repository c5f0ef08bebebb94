"""What a translator answers through requests over a shared engine is what it answers alone."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.decoding.constraints import Prefix
from regard.decoding.engine import Engine
from regard.decoding.exchange import ExchangeLoop, run_exchange
from regard.decoding.request import Request, Score
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.t5 import T5, T5Config
from regard.tasks.translation.alignment import looks
from regard.tasks.translation.alternatives import consider, consider_stepwise
from regard.tasks.translation.answers import Answer
from regard.tasks.translation.copying import Restoration
from regard.tasks.translation.documents import document
from regard.tasks.translation.documents.glossary import Match, Terms
from regard.tasks.translation.documents.terms import Wanting, grant_stepwise
from regard.tasks.translation.model_calls import LookCall, Steps, encode_pairs
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.pairs import open_with_pad
from regard.tasks.translation.teacher_forcing import score_tokens
from regard.tasks.translation.translator import Translator

TEXTS = ["Le chat noir dort. Le roi mange !", "Le loup dort.", "Le chien noir mange."]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return regard.load(trained, device="cpu")


def build(translator: Translator, kind: str) -> Translator:
    """A translator with the same tokenizers and another kind of model, whose weights are random."""
    torch.manual_seed(0)
    tokenizer = translator.source
    sizes = {"vocab": tokenizer.vocab, "width": 32, "dropout": 0.0, "context": 64}
    if kind == "seq2seq":
        model = Seq2Seq(Seq2SeqConfig(**sizes, embedding=32))
    else:
        model = T5(T5Config(**sizes, depth=8, heads=2, hidden=32, encoder=1, decoder=2))
        tokenizer = open_with_pad(tokenizer)
    return Translator(model.eval(), (tokenizer, tokenizer), DecodingConfig(beams=2))


@pytest.mark.parametrize("kind", ["transformer", "seq2seq", "t5"])
def test_scores_and_weights_of_an_engine_are_those_of_teacher_forcing(translator, kind):
    own = translator if kind == "transformer" else build(translator, kind)
    read = own.encode_many([*TEXTS, "Le chat"])
    written = own.target.encode_many(["The black cat sleeps.", "x", "", "The king"], written=True)
    name = own.crossing[-1]
    begin = torch.tensor([own.begin])
    requests = [
        Request(
            inputs=(torch.tensor(ids), torch.tensor(len(ids)), begin),
            limit=1,
            how=Score([[*target, own.end]]),
            weights=(name,),
        )
        for ids, target in zip(read, written, strict=True)
    ]
    engine = own.make_engine()
    tickets = engine.submit(requests)
    while engine.busy:
        engine.step()
    answers = engine.collect()
    scores, weights = dict(score_tokens(own, read, written)), dict(looks(own, read, written))
    for number, ticket in enumerate(tickets):
        [answer] = answers[ticket]
        assert answer.token_scores == pytest.approx(scores[number].tolist(), abs=1e-5)
        assert torch.allclose(answer.weights[name], weights[number], atol=1e-5)


@pytest.fixture(scope="module")
def shipped() -> Translator:
    return regard.load(device="cpu")


GLOSSARY = Terms.of([("station", "halte"), ("red coat", "veste bordeaux")])
CASES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "plain": (["Where is the station? I am tired.", "Good morning."], {}),
    "lost names": (["Grzegorz Brzęczyszczykiewicz met Zbigniew Szczepański near Przemyśl in 1987.", "I like tea."], {}),
    "entities": (["AT&amp;T sells 5 &lt; 6 phones &amp; more &hellip; to R&amp;D.", "Black &amp; white."], {}),
    "glossary": (
        ["The man in the red coat waits at the station. The station is closed.", "Hello."],
        {"terms": GLOSSARY},
    ),
    "HTML": (
        [
            '<p title="Open the door">The <b>old man</b> in the <i>red coat</i> says {name} is at <a href="x">the '
            "station</a>.</p><p>He is tired.</p>"
        ],
        {"html": True, "terms": GLOSSARY},
    ),
    "placeholders": (["Hello {name}, your order %s is at https://example.com/a?b=1 now."], {"html": True}),
}


def answer_directly(translator: Translator, kind: str) -> list[str]:
    texts, settings = CASES[kind]
    if settings:
        return document.translate(translator, texts, to="fr", **settings)
    return [answer.text for answer in translator.answers(texts, to="fr")]


class Guard:
    """Lets a model run inside the rounds of an engine only, and keeps the requests that the engine was given."""

    def __init__(self, translator: Translator, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running, self.requests = False, list[Request]()
        for name in ("forward", "encode", "start", "step"):
            monkeypatch.setattr(translator.model, name, self._allow_inside(getattr(translator.model, name)))
        advance, submit = engine.step, engine.submit

        def step() -> None:
            self.running = True
            advance()
            self.running = False

        def keep(requests: Sequence[Request]) -> list[int]:
            self.requests += requests
            return submit(requests)

        monkeypatch.setattr(engine, "step", step)
        monkeypatch.setattr(engine, "submit", keep)

    def _allow_inside(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*inputs: Any, **settings: Any) -> Any:
            assert self.running, "the model was called outside of the engine"
            return run(*inputs, **settings)

        return guarded


def test_several_askers_get_what_each_gets_alone_and_nobody_calls_the_model(shipped, monkeypatch):
    expected = {kind: answer_directly(shipped, kind) for kind in CASES}
    text = "The old man is tired. He sleeps."
    considered = consider(shipped, text, to="fr", top=3, least=0.05)
    engine = shipped.make_engine()
    guard = Guard(shipped, engine, monkeypatch)
    loop = ExchangeLoop(engine)
    numbers = {
        kind: loop.open(shipped.exchange(texts, to="fr", **settings)) for kind, (texts, settings) in CASES.items()
    }
    steps = consider_stepwise(shipped, text, to="fr", top=3, least=0.05)
    asked = loop.open(shipped.exchange_steps(steps))
    while loop.busy:
        loop.step()
    outcomes = loop.collect()
    assert [outcome.error for outcome in outcomes.values()] == [None] * len(outcomes)
    for kind, number in numbers.items():
        assert [answer.text for answer in outcomes[number].answer] == expected[kind], kind
    for one, other in zip(outcomes[asked].answer, considered, strict=True):
        assert (one.answer, [text for text, _ in one.others]) == (other.answer, [text for text, _ in other.others])
        for place, twin in zip(one.places, other.places, strict=True):
            assert [(each.text, each.joined) for each in place.others] == [(e.text, e.joined) for e in twin.others]
            assert place.probability == pytest.approx(twin.probability, abs=1e-4)
    scored = [request for request in guard.requests if isinstance(request.how, Score)]
    assert any(request.weights for request in scored), "nothing was looked up"
    assert any(request.how.top for request in scored), "nothing was considered"
    assert any(isinstance(rule, Prefix) for request in guard.requests for rule in request.rules), "no term was written"
    assert "veste bordeaux" in expected["glossary"][0].lower()
    assert "Szczepański" in expected["lost names"][0]


def test_the_model_is_what_the_guard_watches(shipped, monkeypatch):
    Guard(shipped, shipped.make_engine(), monkeypatch)
    with pytest.raises(AssertionError, match="outside of the engine"):
        shipped.translate("Good morning.", to="fr")


def test_what_lost_a_name_is_looked_up_by_an_engine_as_by_the_model(shipped):
    texts = ["I met Szymanski in June.", "I am hungry.", "Flight AF1680 leaves at 18:47."]
    drafts = [Answer("J'ai rencontré quelqu'un en juin.", -1.0), Answer("J'ai froid.", -2.0), Answer("Il part.", -3.0)]
    answers = []
    for drive in (shipped.run, lambda steps: run_exchange(shipped.make_engine(), shipped.exchange_steps(steps))):
        restoration = Restoration(shipped, texts, "fr", shipped.decoding)
        restoration.examine(dict(enumerate(drafts)))
        answers.append(drive(restoration.finish()))
    assert answers[0] == answers[1]
    assert "Szymanski" in answers[0][0].text
    assert "AF1680" in answers[0][2].text


def test_an_answer_longer_than_the_model_reads_is_passed_over_by_an_engine_too(translator):
    long = " ".join(["king"] * translator.context)
    steps = grant_stepwise(
        translator, [Wanting("Le roi dort.", long, [Match(3, 6, "boy")])], to=None, decoding=translator.decoding
    )
    assert run_exchange(translator.make_engine(), translator.exchange_steps(steps)) == [long]
    pairs = encode_pairs(translator.source, translator.target, ["Le roi dort."] * 2, [long, "The king sleeps."])

    def look_up() -> Steps[Any]:
        return (yield LookCall(pairs, None))

    looks = [
        [pair for batch in found for pair in batch.collect()]
        for found in (
            translator.run(look_up()),
            run_exchange(translator.make_engine(), translator.exchange_steps(look_up())),
        )
    ]
    [[(number, weights)], [(same, others)]] = looks
    assert number == same == 1
    assert weights.shape == (4, 4)
    assert np.allclose(weights, others, atol=1e-5)


def test_a_wrong_setting_ends_one_exchange_and_a_model_without_attention_links_nothing(translator):
    loop = ExchangeLoop(translator.make_engine())
    wrong = loop.open(translator.exchange(TEXTS, beems=2))
    right = loop.open(translator.exchange(TEXTS, html=True))
    while loop.busy:
        loop.step()
    outcomes = loop.collect()
    assert "beems" in str(outcomes[wrong].error)
    assert [answer.text for answer in outcomes[right].answer] == document.translate(translator, TEXTS, html=True)
    assert all(answer.score < 0 for answer in outcomes[right].answer)
    torch.manual_seed(0)
    vocab = translator.source.vocab
    model = Seq2Seq(Seq2SeqConfig(vocab=vocab, width=16, embedding=16, attention="none", context=64)).eval()
    blind = Translator(model, (translator.source, translator.target), DecodingConfig(beams=1))
    with pytest.raises(ValueError, match="no attention from answers to sources"):
        run_exchange(blind.make_engine(), blind.exchange(TEXTS[:1], html=True))
