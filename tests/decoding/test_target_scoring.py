"""Given answers scored in one pass: as token by token, many together as each alone, and with what attentions show."""

import math
from dataclasses import replace
from functools import partial
from random import Random

import pytest
import torch

from regard.decoding.beam import Beam
from regard.decoding.constraints import Prefix
from regard.decoding.engine import Engine
from regard.decoding.lane import NOT_NUMBERS, Failure
from regard.decoding.request import Request, Score
from regard.decoding.teacher_forcing import Teacher, score_continuations
from regard.interpret.watch import SearchWatcher, attention_names, watch
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.t5 import T5, T5Config
from regard.models.transformer import Transformer, TransformerConfig
from tests.decoding.steppers import Writer
from tests.decoding.test_lane import VOCAB, sharp
from tests.decoding.test_requests import drain

pytestmark = pytest.mark.unchecked
CONTEXT = 24
RECURRENT = {"width": 16, "embedding": 16, "dropout": 0.0, "context": CONTEXT}
MODELS = {
    "transformer": lambda: Transformer(
        TransformerConfig(vocab=VOCAB, width=16, heads=2, hidden=16, encoder=1, decoder=2, dropout=0.0, context=CONTEXT)
    ),
    "t5": lambda: T5(
        T5Config(vocab=VOCAB, width=16, depth=8, heads=2, hidden=16, encoder=1, decoder=2, dropout=0.0, context=CONTEXT)
    ),
    "looking": lambda: Seq2Seq(Seq2SeqConfig(vocab=VOCAB, attention="luong_general", **RECURRENT)),
    "blind": lambda: Seq2Seq(Seq2SeqConfig(vocab=VOCAB, attention="none", **RECURRENT)),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    torch.manual_seed(5)
    return sharp(MODELS[request.param]())


def make_engine(model):
    teacher = Teacher(model, begin=1, end=0)
    engine = Engine(model, eos=0, longest=CONTEXT, watch=partial(SearchWatcher, model))
    engine.use_teacher(teacher)
    return engine


def make_request(chance, *, targets=1, longest=9, begin=(1,), **changes):
    source = [chance.randrange(VOCAB) for _ in range(chance.randint(1, longest))]
    answers = [[chance.randrange(VOCAB) for _ in range(chance.randint(1, longest))] for _ in range(targets)]
    inputs = torch.tensor(source), torch.tensor(len(source)), torch.tensor(begin)
    return Request(inputs=inputs, limit=1, how=Score(answers, **changes))


def count_passes(model):
    """The number of passes over whole texts from now on, in a list of one number."""
    passes = [0]

    def count(*_):
        passes[0] += 1

    return passes, model.register_forward_hook(count)


def test_many_requests_are_scored_in_one_pass_as_token_by_token(model):
    chance = Random(1)
    requests = [make_request(chance, targets=chance.randint(1, 3), begin=begin) for begin in ((1,), (1, 4)) * 4]
    engine = make_engine(model)
    tickets = engine.submit(requests)
    assert engine.waiting == len(requests)
    assert engine.peek(tickets[0]) == []
    passes, handle = count_passes(model)
    engine.step()
    handle.remove()
    assert passes == [1]
    assert not engine.busy
    answers = engine.collect()
    for ticket, request in zip(tickets, requests, strict=True):
        [expected] = score_continuations(model, [each[None] for each in request.inputs], [request.how.targets])
        for answer, target, scores in zip(answers[ticket], request.how.targets, expected, strict=True):
            assert answer.tokens == target
            assert answer.token_scores == pytest.approx(scores, abs=1e-5)
            assert answer.score == pytest.approx(math.fsum(scores), abs=1e-4)
            assert answer.choices == ()
            assert answer.weights is None


def test_the_likeliest_tokens_come_with_their_log_probabilities_on_both_ways(model):
    chance = Random(2)
    request, plain = make_request(chance, targets=2, top=3), make_request(chance)
    answers = []
    for engine in (make_engine(model), Engine(model, eos=0, longest=CONTEXT)):
        ticket, other = engine.submit([request, plain])
        found = drain(engine)
        answers.append(found[ticket])
        assert found[other][0].choices == ()
    for one, other in zip(*answers, strict=True):
        assert len(one.choices) == len(one.tokens) == len(other.choices)
        for place, (ours, theirs) in enumerate(zip(one.choices, other.choices, strict=True)):
            assert [token for token, _ in ours] == [token for token, _ in theirs]
            assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], abs=1e-5)
            assert [score for _, score in ours] == sorted((score for _, score in ours), reverse=True)
            known = dict(ours)
            if one.tokens[place] in known:
                assert known[one.tokens[place]] == pytest.approx(one.token_scores[place], abs=1e-6)


def test_weights_are_those_of_the_pass_and_only_of_the_attentions_named(model):
    if not attention_names(model):
        assert isinstance(model, Seq2Seq)
        return
    with watch(model) as seen:
        Teacher(model, begin=1, end=0).read_pairs([[2, 3, 4], [5]], [[1, 2], [1, 6, 7]])
    inputs = [(torch.tensor(ids), torch.tensor(len(ids)), torch.tensor([1])) for ids in ([2, 3, 4], [5])]
    targets = [[2, 0]], [[6, 7, 0]]
    requests = [Request(inputs=i, limit=1, how=Score(t), weights=True) for i, t in zip(inputs, targets, strict=True)]
    name = [name for name in seen if name.endswith("cross")][-1]
    named = [replace(request, weights=(name,)) for request in requests]
    unknown = replace(requests[0], weights=("decoder.9.cross",))
    engine = make_engine(model)
    tickets = engine.submit([*requests, *named, unknown])
    answers = drain(engine)
    for place in range(2):
        [whole], [only] = answers[tickets[place]], answers[tickets[2 + place]]
        assert whole.weights.keys() == set(seen)
        assert only.weights.keys() == {name}
        for key, weights in whole.weights.items():
            assert torch.allclose(weights, seen[key][place], atol=1e-6)
        assert torch.allclose(only.weights[name], whole.weights[name], atol=1e-6)
    assert isinstance(answers[tickets[-1]], Failure)
    assert "no attention called decoder.9.cross" in answers[tickets[-1]].reason


def test_weights_of_a_model_without_a_source_are_those_of_writing_the_same():
    torch.manual_seed(4)
    model = sharp(Writer(VOCAB, width=16, heads=2, hidden=16, blocks=2, context=CONTEXT))
    target, other = [2, 5, 3, 4], [6, 6]
    given = {"inputs": (torch.tensor([3, 1]), torch.tensor(2)), "limit": len(target), "weights": True}
    written = Request(how=Beam(beams=1), rules=(Prefix(target),), **given)
    scored = Request(how=Score([other, target]), **given)
    engine = Engine(model, eos=None, longest=CONTEXT, watch=partial(SearchWatcher, model))
    first, second = engine.submit([written, scored])
    answers = drain(engine)
    [expected], [_, found] = answers[first], answers[second]
    assert found.tokens == expected.tokens
    assert found.score == pytest.approx(expected.score, abs=1e-5)
    assert found.weights.keys() == expected.weights.keys()
    for name, weights in found.weights.items():
        assert torch.allclose(weights, expected.weights[name], atol=1e-5)


def test_what_is_too_long_or_unknown_is_refused_and_its_neighbours_are_scored(model):
    chance = Random(3)
    good = [make_request(chance) for _ in range(4)]
    long = make_request(chance, begin=[1] * CONTEXT)
    long = replace(long, how=Score([[2, 3]]))
    source = torch.tensor([2] * (CONTEXT + 1))
    wide = replace(good[0], inputs=(source, torch.tensor(len(source)), torch.tensor([1])))
    strange = replace(good[0], how=Score([[2], [VOCAB]]))
    unread = replace(good[0], inputs=(torch.tensor([VOCAB + 5]), torch.tensor(1), torch.tensor([1])))
    requests = [good[0], long, good[1], wide, good[2], strange, unread, good[3]]
    engine = make_engine(model)
    tickets = engine.submit(requests)
    answers = drain(engine)
    expected = {1: f"the model knows {CONTEXT} positions", 3: f"{CONTEXT + 1} tokens", 5: f"token {VOCAB} is not in"}
    for number, (ticket, request) in enumerate(zip(tickets, requests, strict=True)):
        if request in good:
            [[scores]] = score_continuations(model, [each[None] for each in request.inputs], [request.how.targets])
            assert answers[ticket][0].token_scores == pytest.approx(scores, abs=1e-5)
        else:
            assert isinstance(answers[ticket], Failure)
            assert expected.get(number, "") in answers[ticket].reason


def test_a_row_holds_so_many_tokens_and_searches_go_on_between(model, monkeypatch):
    monkeypatch.setattr("regard.decoding.teacher_forcing.ROOM", 40)
    chance = Random(4)
    requests = [make_request(chance, targets=2) for _ in range(8)]
    search = Request(inputs=requests[0].inputs, limit=6, how=Beam(beams=2))
    engine = make_engine(model)
    [searched, *tickets] = engine.submit([search, *requests])
    engine.cancel(tickets[:1])
    steps, found = 0, {}
    while len(found) < len(tickets) - 1:
        engine.step()
        steps += 1
        found |= {ticket: answers for ticket, answers in engine.collect().items() if ticket != searched}
    assert engine.peek(searched)
    assert 1 < steps < len(tickets)
    assert set(found) == set(tickets[1:])


def test_scores_that_are_no_numbers_are_a_failure_of_their_request(model):
    chance = Random(6)
    good = make_request(chance)
    broken = replace(good, inputs=(torch.tensor([7, 7]), torch.tensor(2), torch.tensor([1])))
    good = replace(good, inputs=(torch.tensor([2, 3]), torch.tensor(2), torch.tensor([1])), how=Score([[2, 3]]))
    broken = replace(broken, how=Score([[2, 3]]))

    def poison(_, given, vectors):
        return torch.where((given[0] == 7)[..., None], torch.nan, vectors)

    embedding = next(module for name, module in model.named_modules() if name.endswith("embedding"))
    handle = embedding.register_forward_hook(poison)
    engine = make_engine(model)
    tickets = engine.submit([good, broken])
    answers = drain(engine)
    handle.remove()
    assert math.isfinite(answers[tickets[0]][0].score)
    assert answers[tickets[1]] == NOT_NUMBERS


def test_so_many_likeliest_tokens_cannot_be_asked_for():
    with pytest.raises(ValueError, match="ask for 0 or more"):
        Score([[1]], top=-1)
