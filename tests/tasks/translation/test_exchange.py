"""What a translator answers through requests over a shared engine is what it answers alone."""

from pathlib import Path

import pytest
import torch

import regard
from regard.decoding.request import Request, Score
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.t5 import T5, T5Config
from regard.tasks.translation.alignment import find_crossing, looks
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.pairs import opened_by_pad
from regard.tasks.translation.teacher_forcing import forced
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
        tokenizer = opened_by_pad(tokenizer)
    return Translator(model.eval(), (tokenizer, tokenizer), DecodingConfig(beams=2))


@pytest.mark.parametrize("kind", ["transformer", "seq2seq", "t5"])
def test_scores_and_weights_of_an_engine_are_those_of_teacher_forcing(translator, kind):
    own = translator if kind == "transformer" else build(translator, kind)
    read = own.encode_many([*TEXTS, "Le chat"])
    written = own.target.encode_many(["The black cat sleeps.", "x", "", "The king"], written=True)
    name = find_crossing(own.model)[-1]
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
    scores, weights = dict(forced(own, read, written)), dict(looks(own, read, written))
    for number, ticket in enumerate(tickets):
        [answer] = answers[ticket]
        assert answer.token_scores == pytest.approx(scores[number].tolist(), abs=1e-5)
        assert torch.allclose(answer.weights[name], weights[number], atol=1e-5)
