"""The laws of decoding, held against every model of `steppers.CASES`."""

import math

import pytest
import torch

from regard.decoding import tables
from regard.decoding.beam import Beam, search
from regard.decoding.generate import generate
from regard.decoding.sampling import Sampler
from tests.decoding.steppers import every_text, ranked, surprises

pytestmark = pytest.mark.unchecked  # shapes are checked where the engine, the beam and the steppers are
LIMIT = 6


def texts(answers):
    """What was found, without its numbers."""
    return [[(answer.tokens, answer.finished) for answer in own] for own in answers]


def same(one, other):
    """The same texts along the same paths; scores to what arithmetic in another order allows."""
    assert texts(one) == texts(other)
    assert [[answer.path for answer in own] for own in one] == [[answer.path for answer in own] for own in other]
    scores = [[answer.score for own in answers for answer in own] for answers in (one, other)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def textbook(case, example, beam, limit):
    """Beam search as one would write it on a blackboard: one example, lists, no early stop but patience."""
    live, endings, unfinished = [([], 0.0)], [], []
    for length in range(1, limit + 1):
        choices = [
            ([*tokens, token], score + gain)
            for tokens, score in live
            for token, gain in enumerate(case.following(example, tokens))
        ]
        choices.sort(key=lambda choice: -choice[1])
        endings += [(t[:-1], s, True) for t, s in choices[: beam.beams] if t[-1] == case.eos]
        live = [choice for choice in choices if choice[0][-1] != case.eos][: beam.beams]
        if len(endings) >= max(beam.nbest, beam.patience * beam.beams):
            break
        if length == limit:
            unfinished = [(t, s, False) for t, s in live]
    return ranked(endings + unfinished, beam)[: beam.nbest]


@pytest.mark.parametrize("penalty", [0.0, 1.0, -0.5])
def test_a_beam_as_wide_as_all_texts_is_exhaustive_search(case, penalty):
    limit = 4 if case.vocab <= 4 else 3
    others = case.vocab - 1
    beams = sum(others**length for length in range(limit + 1))  # all that ends within the limit, or is cut there
    beam = Beam(beams=beams, nbest=beams, length_penalty=penalty)
    found = search(case.model, case.inputs([0, 1, 2]), beam, limit=limit, eos=case.eos)
    for example, answers in enumerate(found):
        truth = ranked(every_text(case, example, limit), beam)
        assert len(truth) == beams
        assert texts([answers]) == [[(tokens, finished) for tokens, _, finished in truth]]
        assert [answer.score for answer in answers] == pytest.approx([score for _, score, _ in truth], abs=1e-4)


@pytest.mark.parametrize(("beams", "nbest"), [(2, 1), (5, 3)])
@pytest.mark.parametrize(
    ("patience", "penalty"), [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (math.inf, 0.0), (math.inf, 1.0)]
)
def test_search_finds_what_the_textbook_loop_finds(case, beams, nbest, patience, penalty):
    beam = Beam(beams=beams, nbest=nbest, patience=patience, length_penalty=penalty)
    found = search(case.model, case.every(), beam, limit=LIMIT, eos=case.eos)
    for example, answers in enumerate(found):
        truth = textbook(case, example, beam, LIMIT)
        assert texts([answers]) == [[(tokens, finished) for tokens, _, finished in truth]]
        assert [answer.score for answer in answers] == pytest.approx([score for _, score, _ in truth], abs=1e-4)


@pytest.mark.parametrize("beam", [Beam(beams=1), Beam(beams=1, length_penalty=0.0, patience=math.inf)])
def test_one_beam_is_greedy(case, beam):
    same(
        search(case.model, case.every(), beam, limit=LIMIT, eos=case.eos),
        generate(case.model, case.every(), limit=LIMIT, eos=case.eos),
    )


@pytest.mark.parametrize("beams", [1, 3, 9])
def test_batch_mates_change_nothing(case, beams):
    beam = Beam(beams=beams, nbest=min(3, beams))
    together = search(case.model, case.every(), beam, limit=LIMIT, eos=case.eos)
    alone = [search(case.model, case.inputs([i]), beam, limit=LIMIT, eos=case.eos)[0] for i in range(case.examples)]
    same(together, alone)


@pytest.mark.parametrize("moved", [False, True])
def test_where_the_examples_that_go_on_are_moved_changes_nothing(case, moved, monkeypatch):
    beam = Beam(beams=3, nbest=2)
    usual = search(case.model, case.every(), beam, limit=8, eos=case.eos)
    greedy = generate(case.model, case.every(), limit=8, eos=case.eos)

    def reverse(going):
        rows = [row for row, goes in enumerate(going) if goes]
        return rows[::-1] if moved else rows

    monkeypatch.setattr(tables, "close_gaps", reverse)
    same(search(case.model, case.every(), beam, limit=8, eos=case.eos), usual)
    same(generate(case.model, case.every(), limit=8, eos=case.eos), greedy)


def test_every_example_has_its_own_limit(case):
    room = [1, 6, 2, 4, 3]
    beam = Beam(beams=3, nbest=3)
    together = search(case.model, case.every(), beam, limit=room, eos=case.eos)
    alone = [search(case.model, case.inputs([i]), beam, limit=room[i], eos=case.eos)[0] for i in range(5)]
    same(together, alone)
    greedy = generate(case.model, case.every(), limit=room, eos=case.eos)
    same(greedy, [generate(case.model, case.inputs([i]), limit=room[i], eos=case.eos)[0] for i in range(5)])
    for answers in (together, greedy):
        for limit, own in zip(room, answers, strict=True):
            assert all(len(answer.tokens) + answer.finished <= limit for answer in own)
            assert all(len(answer.tokens) == limit for answer in own if not answer.finished)


def test_scores_are_the_models_own_log_probabilities(case):
    generator = torch.Generator().manual_seed(1)
    answers = [
        search(case.model, case.every(), Beam(beams=4, nbest=4), limit=LIMIT, eos=case.eos),
        generate(case.model, case.every(), limit=LIMIT, eos=case.eos),
        generate(
            case.model,
            case.every(),
            limit=LIMIT,
            eos=case.eos,
            samples=3,
            pick=Sampler(temperature=2.0, top_k=3, top_p=0.9, generator=generator),
        ),
    ]
    for found in answers:
        for example, own in enumerate(found):
            for answer in own:
                tokens = [*answer.tokens, case.eos] if answer.finished else answer.tokens
                assert answer.score == pytest.approx(sum(surprises(case, example, tokens)), abs=1e-4)


def test_the_best_answers_are_distinct_and_sorted_and_asking_for_more_keeps_the_first(case):
    found = search(case.model, case.every(), Beam(beams=5, nbest=5), limit=LIMIT, eos=case.eos)
    fewer = search(case.model, case.every(), Beam(beams=5, nbest=2), limit=LIMIT, eos=case.eos)
    same(fewer, [own[:2] for own in found])
    for own in found:
        keys = [(answer.finished, answer.normalized) for answer in own]
        assert keys == sorted(keys, reverse=True)
        assert len({(*answer.tokens, answer.finished) for answer in own}) == len(own) == 5


def test_a_wider_vocabulary_than_beams_or_the_reverse_both_work(case):
    for beams in (1, 2, case.vocab, 3 * case.vocab):
        assert all(search(case.model, case.every(), Beam(beams=beams), limit=LIMIT, eos=case.eos))


def test_without_an_end_token_everything_runs_to_its_limit(case):
    found = search(case.model, case.every(), Beam(beams=2, nbest=2), limit=5, eos=None)
    found += generate(case.model, case.every(), limit=5, eos=None)
    assert all(len(answer.tokens) == 5 and not answer.finished for own in found for answer in own)


def test_sampling_repeats_from_its_seed_and_no_batch_mate_matters(case):
    def draw(examples, generator):
        pick = Sampler(generator=generator)
        return generate(case.model, case.inputs(examples), limit=LIMIT, eos=case.eos, pick=pick, samples=4)

    everyone = list(range(case.examples))
    once, again, other = (draw(everyone, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    same(once, again)
    assert texts(once) != texts(other)
    own = [torch.Generator().manual_seed(seed) for seed in everyone]
    together = draw(everyone, own)
    same(together, [draw([i], [torch.Generator().manual_seed(i)])[0] for i in everyone])


def test_stepping_asks_for_no_gradient(case, monkeypatch):
    weights = torch.zeros(1, requires_grad=True)
    logits = []

    def learning(step):
        def wrapped(*inputs, **settings):
            scores, state = step(*inputs, **settings)
            logits.append(scores + weights)
            return logits[-1], state

        return wrapped

    monkeypatch.setattr(case.model, "start", learning(case.model.start))
    monkeypatch.setattr(case.model, "step", learning(case.model.step))
    search(case.model, case.every(), limit=3, eos=case.eos)
    generate(case.model, case.every(), limit=3, eos=case.eos)
    assert len(logits) > 2
    assert not any(each.requires_grad for each in logits)
