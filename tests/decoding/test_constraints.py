"""Every rule holds in every answer, the best answer is the best of those that obey, and scores stay true."""

import math

import pytest
import torch

from regard.decoding.beam import Beam, search
from regard.decoding.constraints import Constraint, Forbid, Force, Goal, MinimumLength, NoRepeat, Prefix, constrain
from regard.decoding.generate import generate
from regard.decoding.sampling import Sampler
from tests.decoding.steppers import every_text, markov, ranked, recurrent, slots, surprises

WIDE = Beam(beams=130, nbest=130)


def has(tokens, phrase):
    """Whether a phrase occurs in a text."""
    return any(tokens[i : i + len(phrase)] == list(phrase) for i in range(len(tokens) - len(phrase) + 1))


def repeats(tokens, size):
    """Whether a sequence of so many tokens occurs twice."""
    grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(grams)) < len(grams)


# A rule and what it asks of a text and of whether it ended, in plain Python.
RULES = {
    "prefix": (Prefix([2, 1]), lambda tokens, ended: tokens[:2] == [2, 1]),
    "an empty prefix": (Prefix(), lambda tokens, ended: True),
    "minimum": (MinimumLength(2), lambda tokens, ended: len(tokens) >= 2),
    "no repeated token": (NoRepeat(1), lambda tokens, ended: not repeats(tokens, 1)),
    "no repeated pair": (NoRepeat(2), lambda tokens, ended: not repeats(tokens, 2)),
    "repetition allowed": (NoRepeat(0), lambda tokens, ended: True),
    "forbidden token": (Forbid([[3]]), lambda tokens, ended: 3 not in tokens),
    "forbidden phrases": (
        Forbid([[1, 2], [3, 3, 1], [2]][:2]),
        lambda tokens, ended: not has(tokens, [1, 2]) and not has(tokens, [3, 3, 1]),
    ),
    "nothing forbidden": (Forbid(), lambda tokens, ended: True),
    "forced token": (Force([[3]]), lambda tokens, ended: not ended or 3 in tokens),
    "forced phrase": (Force([[1, 1, 2]]), lambda tokens, ended: not ended or has(tokens, [1, 1, 2])),
    "forced phrases": (
        Force([[1, 2], [2, 3]]),
        lambda tokens, ended: not ended or (has(tokens, [1, 2]) and has(tokens, [2, 3])),
    ),
    "nothing forced": (Force(), lambda tokens, ended: True),
}


def obedient(case, example, obeys, limit=4):
    """Everything that obeys a rule on the texts and could be written under it, step by step."""
    return [text for text in every_text(case, example, limit) if obeys(text[0], text[2])]


def check_against(found, truth, beam):
    """All of it, finished answers in their order; what must be said decides the order of unfinished ones first."""
    for finished in (True, False):
        own = [(answer.tokens, answer.score) for answer in found if answer.finished == finished]
        expected = [(tokens, score) for tokens, score, ended in ranked(truth, beam) if ended == finished]
        if not finished:
            own, expected = sorted(own), sorted(expected)
        assert [tokens for tokens, _ in own] == [tokens for tokens, _ in expected]
        assert [score for _, score in own] == pytest.approx([score for _, score in expected], abs=1e-4)


def stuck(answer, limit=4):
    """Whether an answer is one that could neither end nor go on."""
    return not answer.finished and len(answer.tokens) < limit


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("make", [markov, recurrent])
def test_a_wide_search_under_a_rule_finds_all_that_obeys_it_best_first(name, make):
    rule, obeys = RULES[name]
    case = make()
    found = search(case.model, case.inputs([0, 1, 2]), WIDE, limit=4, eos=0, constraints=[rule])
    for example, own in enumerate(found):
        check_against([answer for answer in own if not stuck(answer)], obedient(case, example, obeys), WIDE)


@pytest.mark.parametrize(
    "names",
    [
        ("prefix", "no repeated token"),
        ("minimum", "forbidden phrases", "no repeated pair"),
        ("forced token", "minimum", "forbidden phrases"),
        ("prefix", "forced token", "no repeated pair"),
        ("forced token", "forced phrases"),
    ],
)
def test_rules_combine(names):
    case = markov()
    rules, tests = zip(*(RULES[name] for name in names), strict=True)

    def obeys(tokens, ended):
        return all(test(tokens, ended) for test in tests)

    found = search(case.model, case.inputs([0, 1]), WIDE, limit=4, eos=0, constraints=rules)
    for example, own in enumerate(found):
        check_against([answer for answer in own if not stuck(answer)], obedient(case, example, obeys), WIDE)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("beams", [1, 2, 4])
def test_a_narrow_search_obeys_too_and_its_scores_are_true(name, beams):
    rule, obeys = RULES[name]
    case = slots()
    found = search(case.model, case.every(), Beam(beams=beams, nbest=beams), limit=8, eos=0, constraints=[rule])
    for example, own in enumerate(found):
        assert obeys(own[0].tokens, True) or not name.startswith("forced")
        for answer in own:
            assert obeys(answer.tokens, answer.finished)
            written = [*answer.tokens, 0] if answer.finished else answer.tokens
            assert answer.score == pytest.approx(sum(surprises(case, example, written)), abs=1e-4)
            assert not math.isnan(answer.normalized)


@pytest.mark.parametrize("name", [name for name in RULES if "forced" not in name])
@pytest.mark.parametrize("samples", [None, 6])
def test_greedy_and_random_answers_obey_too(name, samples):
    rule, obeys = RULES[name]
    case = slots()
    pick = Sampler(generator=torch.Generator().manual_seed(0)) if samples else None
    found = generate(case.model, case.every(), limit=6, eos=0, pick=pick, samples=samples or 1, constraints=[rule])
    for example, own in enumerate(found):
        for answer in own:
            assert obeys(answer.tokens, answer.finished)
            written = [*answer.tokens, 0] if answer.finished else answer.tokens
            assert answer.score == pytest.approx(sum(surprises(case, example, written)), abs=1e-4)


@pytest.mark.parametrize("name", [name for name in RULES if "forced" not in name])
def test_one_beam_is_greedy_under_a_rule_too(name):
    rule, case = RULES[name][0], slots()
    one = search(case.model, case.every(), Beam(beams=1), limit=6, eos=0, constraints=[rule])
    greedy = generate(case.model, case.every(), limit=6, eos=0, constraints=[rule])
    assert [own[0].tokens for own in one] == [own[0].tokens for own in greedy]


EACH = [
    Prefix(each=[[2], [], [1, 1], [3], [2, 3, 1]]),
    MinimumLength([0, 3, 1, 2, 4]),
    NoRepeat([1, 2, 0, 3, 2]),
    Forbid([[3, 3]], each=[[], [[1], [2, 2, 2]], [[2]], [[1, 2]], []]),
    Force([[1]], each=[[[2, 3]], [], [[3]], [[2], [3]], [[1, 1]]]),
]
OWN = [
    [Prefix([2]), Prefix([]), Prefix([1, 1]), Prefix([3]), Prefix([2, 3, 1])],
    [MinimumLength(0), MinimumLength(3), MinimumLength(1), MinimumLength(2), MinimumLength(4)],
    [NoRepeat(1), NoRepeat(2), NoRepeat(0), NoRepeat(3), NoRepeat(2)],
    [
        Forbid([[3, 3]]),
        Forbid([[3, 3], [1], [2, 2, 2]]),
        Forbid([[3, 3], [2]]),
        Forbid([[3, 3], [1, 2]]),
        Forbid([[3, 3]]),
    ],
    [Force([[1], [2, 3]]), Force([[1]]), Force([[1], [3]]), Force([[1], [2], [3]]), Force([[1], [1, 1]])],
]


@pytest.mark.parametrize(("each", "own"), list(zip(EACH, OWN, strict=True)), ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("beams", [2, 5])
def test_every_example_may_have_its_own_rule(each, own, beams):
    case, beam = slots(), Beam(beams=beams, nbest=2)
    together = search(case.model, case.every(), beam, limit=8, eos=0, constraints=[each])
    for example, rule in enumerate(own):
        [alone] = search(case.model, case.inputs([example]), beam, limit=8, eos=0, constraints=[rule])
        assert [(a.tokens, a.path, a.finished) for a in together[example]] == [
            (a.tokens, a.path, a.finished) for a in alone
        ]


def test_forced_phrases_are_found_with_a_single_beam():
    case = markov(vocab=9)
    phrases = [[5, 6, 7], [8], [3, 3]]
    for beams in (1, 2, 3):
        found = search(case.model, case.every(), Beam(beams=beams), limit=12, eos=0, constraints=[Force(phrases)])
        assert all(has(own[0].tokens, phrase) for own in found for phrase in phrases)


def test_four_beams_nearly_always_find_the_best_answer_with_a_forced_phrase():
    case, beam = markov(examples=12), Beam(beams=4, length_penalty=0.0)
    found = search(case.model, case.every(), beam, limit=6, eos=0, constraints=[Force([[3, 1]])])
    equal = 0
    for example, [answer] in enumerate(found):
        texts = obedient(case, example, lambda tokens, ended: ended and has(tokens, [3, 1]), limit=6)
        best = max(score for _, score, _ in texts)
        equal += answer.finished and answer.score == pytest.approx(best, abs=1e-4)
    assert equal >= 9


def test_an_unfinished_answer_that_says_what_it_must_comes_before_a_likelier_one():
    case = markov()
    never_ending = [Force([[1, 2]]), Forbid([[0]])]
    for own in search(case.model, case.every(), Beam(beams=4, nbest=4), limit=5, eos=0, constraints=never_ending):
        says = [has(answer.tokens, [1, 2]) for answer in own]
        assert says[0]
        assert says == sorted(says, reverse=True)


def test_phrases_that_begin_alike_do_not_make_an_answer_twice():
    case = markov(vocab=50)
    force = [Force([[7], [7, 8], [7, 9]])]
    for own in search(case.model, case.every(), Beam(beams=8, nbest=8), limit=2, eos=0, constraints=force):
        assert len({tuple(answer.tokens) for answer in own}) == 8


def test_progress_counts_what_is_said_and_what_is_begun():
    force, row = Force([[5, 6, 5, 7], [8]]), torch.arange(1)
    for text, wanted, following in [
        ([], [5, 8], {5: 1, 8: 1, 1: 0}),
        ([5, 6], [5, 8], {5: 3, 8: 1, 6: 0}),
        ([5, 6, 5], [7, 8], {7: 4, 6: 2, 5: 1, 8: 1}),  # 5 6 5 6: the last two begin it again
        ([8, 5, 6, 5], [7, -1], {7: 5, 6: 3, 8: 1}),
        ([5, 6, 5, 7, 8, 5], [-1, -1], {6: 5, 1: 5}),
    ]:
        written, tokens = torch.tensor([[text]], dtype=torch.int64), torch.tensor([[list(following)]])
        assert force.next_tokens(written, row).tolist() == [[wanted]]
        assert force.progress(written, tokens, row).tolist() == [[list(following.values())]]


def test_rules_that_contradict_each_other_are_met_as_far_as_possible():
    case = markov()
    rules = [Force([[1, 2]]), Forbid([[2]])]
    for own in search(case.model, case.every(), Beam(beams=3, nbest=3), limit=5, eos=0, constraints=rules):
        assert own
        assert not any(answer.finished or 2 in answer.tokens for answer in own)
        assert not any(math.isnan(answer.score) or math.isinf(answer.score) for answer in own)
    nothing = [Forbid([[0], [1], [2], [3]])]
    for found in (
        search(case.model, case.every(), Beam(beams=3, nbest=3), limit=5, eos=0, constraints=nothing),
        generate(case.model, case.every(), limit=5, eos=0, constraints=nothing),
    ):
        assert [[(answer.tokens, answer.score, answer.finished) for answer in own] for own in found] == [
            [([], 0.0, False)]
        ] * 5


def test_an_empty_batch_obeys_every_rule():
    case = markov()
    for rule, _ in RULES.values():
        assert search(case.model, case.inputs([]), limit=3, eos=0, constraints=[rule]) == []


def test_a_prefix_longer_than_the_limit_is_cut():
    case = markov()
    [[answer]] = search(case.model, case.inputs([0]), limit=2, eos=0, constraints=[Prefix([1, 2, 3])])
    assert (answer.tokens, answer.finished) == ([1, 2], False)


def test_the_models_own_logits_are_left_alone():
    logits = torch.zeros(1, 1, 5).expand(2, 3, 5)
    written = torch.zeros(2, 3, 0, dtype=torch.int64)
    scores = constrain(logits, [Forbid([[2]])], written, torch.arange(2), 0)
    assert bool((logits == 0).all())
    assert scores[0, 0].tolist() == [0, 0, -math.inf, 0, 0]
    assert constrain(logits, [], written, torch.arange(2), 0) is logits


def test_only_a_beam_search_can_aim_at_a_phrase():
    case = markov()
    with pytest.raises(ValueError, match="use a beam search"):
        generate(case.model, case.every(), limit=5, eos=0, constraints=[Force([[1]])])


def test_rules_are_constraints_and_forced_phrases_a_goal():
    rules = [rule for rule, _ in RULES.values()]
    assert all(isinstance(rule, Constraint) for rule in rules)
    assert [isinstance(rule, Goal) for rule in rules] == [isinstance(rule, Force) for rule in rules]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Prefix([1, 4]), "token 4 is not in the vocabulary of 4"),
        (Forbid([[1], [-1]]), "token -1 is not in the vocabulary"),
        (Force([[2], []]), "a forced phrase is empty"),
        (Forbid([[]]), "a forbidden phrase is empty"),
        (Force(each=[[[1]], [[2]]]), "forced phrases given for 2 examples of 5"),
        (Forbid(each=[[]]), "forbidden phrases given for 1 examples of 5"),
        (Prefix(each=[[1], [2]]), "prefixes given for 2 examples of 5"),
        (MinimumLength([1, 2]), "minimum length given for 2 examples of 5"),
        (MinimumLength(-1), "minimum length -1 is negative"),
        (NoRepeat(-2), "-2 is negative"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused_before_decoding(rule, message):
    case = markov()
    with pytest.raises(ValueError, match=message):
        search(case.model, case.every(), limit=5, eos=0, constraints=[rule])
