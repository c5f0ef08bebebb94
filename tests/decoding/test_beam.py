"""What a beam search answers in corners that the laws do not reach, and that it is quick about it."""

import math

import pytest
import torch

from regard.decoding.beam import Beam, search
from regard.decoding.generate import generate
from regard.decoding.ranking import share, top
from regard.decoding.sampling import Sampler
from tests.decoding.steppers import Markov, case, markov, slots

NEVER = -math.inf


def counted(case):
    """Count a model's steps and how many examples each had."""
    sizes, step = [], case.model.step
    case.model.step = lambda tokens, state: sizes.append(len(tokens)) or step(tokens, state)
    return sizes


def certain(*rows):
    """A model of one example that gives these logits, whatever is written."""
    table = torch.tensor(rows, dtype=torch.float32)[None, :, None, :]
    vocab = table.shape[-1]
    return case(Markov(table.expand(-1, -1, vocab + 1, -1)), examples=1, vocab=vocab)


@pytest.mark.parametrize("beams", [1, 2, 5])
def test_the_path_leads_back_through_the_slots_of_every_answer(beams):
    model = slots()
    found = search(model.model, model.every(), Beam(beams=beams, nbest=beams), limit=[7, 3, 5, 1, 6], eos=0)
    moved = 0
    for example, own in enumerate(found):
        for answer in own:
            assert len(answer.path) == len(answer.tokens) - (not answer.finished)
            moved += len(set(answer.path)) > 1
            for place, slot in enumerate(answer.path):
                assert model.model.seen[example, place, slot] == answer.tokens[: place + 1]
    assert moved or beams == 1


def test_the_path_of_a_sample_is_its_own_slot():
    model = slots()
    pick = Sampler(generator=torch.Generator().manual_seed(0))
    for example, own in enumerate(generate(model.model, model.every(), limit=6, eos=0, pick=pick, samples=3)):
        for sample, answer in enumerate(own):
            assert answer.path == [sample] * (len(answer.tokens) - (not answer.finished))
            for place, slot in enumerate(answer.path):
                assert model.model.seen[example, place, slot] == answer.tokens[: place + 1]


def test_an_ending_beyond_the_beams_is_not_an_answer_yet():
    model = certain([2.0, 3.0, NEVER], [3.0, 0.0, NEVER])
    [[answer]] = search(model.model, model.every(), Beam(beams=1), limit=4, eos=0)
    assert answer.tokens == [1]


def test_what_is_unfinished_at_the_limit_says_so_and_keeps_its_true_score():
    model = certain(*[[-9.0, 0.0, -1.0]] * 3)
    [answers] = search(model.model, model.every(), Beam(beams=2, nbest=2), limit=3, eos=0)
    gains = torch.tensor([-9.0, 0.0, -1.0]).log_softmax(-1)
    assert [answer.finished for answer in answers] == [False, False]
    assert answers[0].tokens == [1, 1, 1]
    assert answers[0].score == pytest.approx(3 * float(gains[1]))
    assert answers[1].score == pytest.approx(float(2 * gains[1] + gains[2]))


def test_a_finished_answer_is_preferred_to_a_likelier_unfinished_one():
    model = certain([0.0, 2.0, NEVER], [NEVER, 5.0, NEVER], [NEVER, 5.0, NEVER])
    [answers] = search(model.model, model.every(), Beam(beams=2, nbest=2), limit=3, eos=0)
    assert [(answer.tokens, answer.finished) for answer in answers] == [([], True), ([1, 1, 1], False)]
    assert answers[0].score < answers[1].score


def test_where_nothing_may_follow_the_answer_stays_as_it_is():
    model = certain([NEVER, 1.0, 0.0], [NEVER, NEVER, NEVER], [0.0, 0.0, 0.0])
    [answers] = search(model.model, model.every(), Beam(beams=3, nbest=3), limit=3, eos=0)
    gains = torch.tensor([1.0, 0.0]).log_softmax(-1).tolist()
    assert [(answer.tokens, answer.path, answer.finished) for answer in answers] == [
        ([1], [0], False),
        ([2], [1], False),
    ]
    assert [answer.score for answer in answers] == pytest.approx(gains)
    assert generate(model.model, model.every(), limit=3, eos=0)[0][0].tokens == [1]


def test_a_model_that_allows_nothing_is_answered_with_nothing():
    model = certain([NEVER, NEVER], [NEVER, NEVER])
    pick = Sampler(top_p=0.9, min_p=0.1, top_k=1, generator=torch.Generator())
    for [own] in (
        search(model.model, model.every(), Beam(beams=3, nbest=2), limit=2, eos=0),
        generate(model.model, model.every(), limit=2, eos=0),
        generate(model.model, model.every(), limit=2, eos=0, pick=pick),
    ):
        assert [(a.tokens, a.score, a.path, a.finished, a.normalized) for a in own] == [([], 0.0, [], False, 0.0)]


def test_an_empty_batch_has_no_answers():
    model = markov()
    assert search(model.model, model.inputs([]), limit=3, eos=0) == []
    assert generate(model.model, model.inputs([]), limit=[], eos=0) == []


def test_an_answer_of_one_token_needs_no_step():
    model = markov()
    steps = counted(model)
    search(model.model, model.every(), limit=1, eos=0)
    generate(model.model, model.every(), limit=1, eos=0)
    assert steps == []


def test_search_stops_once_nothing_alive_can_win_and_eagerly_if_asked():
    likely = [[0.0, 1.0, -1.0]] * 12
    steps = {}
    for name, beam in {
        "eager": Beam(beams=4, length_penalty=0.0, patience=0.0),
        "sure": Beam(beams=4, length_penalty=0.0, patience=math.inf),
        "all": Beam(beams=4, nbest=4, length_penalty=0.0, patience=math.inf),
    }.items():
        model = certain(*likely)
        sizes = counted(model)
        search(model.model, model.every(), beam, limit=12, eos=0)
        steps[name] = len(sizes)
    assert 0 == steps["eager"] < steps["sure"] < steps["all"] < 11


@pytest.mark.parametrize(
    ("penalty", "first", "rest", "best"),
    [
        (1.0, [0.7, 0.3], [0.001, 0.999], [1, 1, 1, 1, 1]),  # one token more would not do, five do
        (-0.5, [0.37, 0.63], [0.999, 0.001], [1]),  # at the limit it would be too late
    ],
)
def test_search_goes_on_while_any_length_could_still_win(penalty, first, rest, best):
    rows = [first, *[rest] * 4, [0.999, 0.001]]
    model = certain(*torch.tensor(rows).log().tolist())
    beam = Beam(beams=2, length_penalty=penalty, patience=math.inf)
    [[answer]] = search(model.model, model.every(), beam, limit=6, eos=0)
    assert answer.tokens == best


def test_done_examples_leave_the_batch():
    table = torch.full((8, 12, 4, 3), 0.0)
    for example in range(8):
        table[example, example + 1, :, 0] = 20.0  # example i ends after i + 1 tokens
        table[example, : example + 1, :, 0] = -20.0
    model = case(Markov(table), examples=8, vocab=3)
    sizes = counted(model)
    answers = generate(model.model, model.every(), limit=12, eos=0)
    assert [len(own[0].tokens) for own in answers] == list(range(1, 9))
    assert sizes == list(range(8, 0, -1))
    sizes.clear()
    search(model.model, model.every(), Beam(beams=2), limit=12, eos=0)
    assert sizes[0] == 8
    assert sizes[-1] == 1


@pytest.mark.parametrize("settings", [{"nbest": 0}, {"beams": 2, "nbest": 3}, {"beams": 0}, {"patience": -1.0}])
def test_a_search_that_could_not_answer_is_refused(settings):
    with pytest.raises(ValueError, match=r"beams|patience"):
        Beam(**settings)


def test_the_number_of_limits_is_that_of_the_examples():
    model = markov()
    with pytest.raises(ValueError, match="2 limits for 5 examples"):
        search(model.model, model.every(), limit=[3, 4], eos=0)


@pytest.mark.parametrize("vocab", [7, 128, 1280, 5000, 5120])
@pytest.mark.parametrize("count", [1, 4, 7])
def test_the_quick_top_is_topk(vocab, count):
    scores = torch.randn(3, 2, vocab)
    scores[0, 0, 5:] = NEVER
    values, tokens = top(scores, count)
    torch.testing.assert_close(values, scores.topk(count).values, rtol=0, atol=0)
    torch.testing.assert_close(scores.gather(-1, tokens), values, rtol=0, atol=0)
    assert all(len(set(row)) == count for row in tokens.flatten(0, 1).tolist())


def test_beams_are_shared_among_all_levels_of_progress_the_furthest_first():
    score = torch.tensor([[-1.0, -2.0, -3.0, -4.0, -5.0, NEVER]])
    progress = torch.tensor([[0, 0, 2, 0, 1, 2]])
    assert share(score, progress).tolist() == [[2, 4, 0, 1, 3, 5]]
