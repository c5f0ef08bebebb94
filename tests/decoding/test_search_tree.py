"""The recorded tree of a beam search: its nodes and scores are the search's own, and recording changes no answer."""

import json
import math

import pytest
import torch

from regard.decoding.beam import Beam, search
from regard.decoding.constraints import Forbid, Force, MinimumLength, Prefix
from regard.decoding.engine import Engine
from regard.decoding.ledger import BeamState
from regard.decoding.request import Request
from regard.decoding.search_tree import SearchTree, open_book, read_tree, record_search
from tests.decoding.steppers import markov
from tests.decoding.test_beam import certain

pytestmark = pytest.mark.unchecked
LIMIT = 6
BEAMS = [
    Beam(beams=1),
    Beam(beams=2, nbest=2, length_penalty=0.0),
    Beam(beams=3, nbest=2, patience=math.inf),
    Beam(beams=5, nbest=1, length_penalty=0.6),
]


def spell(tokens):
    return [f"t{token}" for token in tokens]


def recorded(case, beam, example=0, limit=LIMIT, **settings):
    """The answers of a recorded search for one example, and its tree."""
    with record_search() as record:
        [answers] = search(case.model, case.inputs([example]), beam, limit=limit, eos=case.eos, **settings)
    return answers, record.tree(spell)


def enumerate_rounds(case, beam, example, limit):
    """Every round of a beam search as one would write it on a blackboard: (text, total) of all, and which go on."""
    live, rounds = [((), 0.0)], []
    for _ in range(limit):
        choices = [
            ((*tokens, token), total + gain)
            for tokens, total in live
            for token, gain in enumerate(case.following(example, tokens))
        ]
        choices.sort(key=lambda choice: -choice[1])
        live = [choice for choice in choices if choice[0][-1] != case.eos][: beam.beams]
        ended = [choice for choice in choices[: beam.beams] if choice[0][-1] == case.eos]
        rounds.append((choices, live, ended))
    return rounds


@pytest.mark.parametrize("beam", BEAMS)
def test_the_tree_is_that_of_an_enumeration(case, beam):
    for example in range(3):
        _, tree = recorded(case, beam, example)
        rounds = enumerate_rounds(case, beam, example, LIMIT)
        totals = {node: [tree.tokens(place), node.total] for place, node in enumerate(tree.nodes)}
        for step in range(1, max(node.step for node in tree.nodes) + 1):
            choices, live, ended = rounds[step - 1]
            nodes = [node for node in tree.nodes if node.step == step]
            assert len(nodes) == min(len(choices), 2 * beam.beams)
            for fate, expected in (("kept", live), ("ended", ended)):
                got = [totals[node] for node in nodes if node.fate == fate]
                assert [tuple(tokens) for tokens, _ in got] == [tokens for tokens, _ in expected]
                assert [total for _, total in got] == pytest.approx([total for _, total in expected], abs=1e-4)
            pruned = [tuple(totals[node][0]) for node in nodes if node.fate == "pruned"]
            best = [tokens for tokens, _ in choices[: 2 * beam.beams]]
            assert pruned == [tokens for tokens in best if tokens not in {text for text, _ in (*live, *ended)}]


@pytest.mark.parametrize("beam", BEAMS)
def test_answers_lie_in_the_tree_with_their_scores(case, beam):
    for example in range(3):
        answers, tree = recorded(case, beam, example)
        assert len(tree.answers) == len(answers)
        for place, answer in zip(tree.answers, answers, strict=True):
            node = tree.nodes[place]
            assert tree.tokens(place) == [*answer.tokens, *([case.eos] if answer.finished else [])]
            assert node.total == pytest.approx(answer.score, abs=1e-6)
            assert node.normalized == pytest.approx(answer.normalized, abs=1e-6)
            assert node.fate == ("ended" if answer.finished else "kept")
        on_path = {0, *tree.path(tree.answers[0])}
        assert {place for place, node in enumerate(tree.nodes) if node.is_best} == on_path


@pytest.mark.parametrize("beam", BEAMS)
def test_totals_are_sums_along_paths_and_rounds_keep_as_many_as_there_are_beams(case, beam):
    _, tree = recorded(case, beam)
    for place, node in enumerate(tree.nodes):
        assert sum(tree.nodes[step].log_probability for step in tree.path(place)) == pytest.approx(node.total, abs=1e-6)
        assert node.step == len(tree.path(place))
        assert node.text == ("" if place == 0 else f"t{node.token}")
        if node.fate == "ended":
            assert node.normalized == pytest.approx(node.total / node.step**beam.length_penalty)
    rounds = max(node.step for node in tree.nodes)
    available = case.vocab - 1
    for step in range(1, rounds + 1):
        survivors = [node for node in tree.nodes if node.step == step and node.fate == "kept"]
        assert len(survivors) == min(beam.beams, available)
        available = len(survivors) * (case.vocab - 1)


@pytest.mark.parametrize("beam", BEAMS)
def test_recording_changes_no_answer(case, beam):
    plain = search(case.model, case.every(), beam, limit=LIMIT, eos=case.eos)
    with record_search() as record:
        watched = search(case.model, case.every(), beam, limit=LIMIT, eos=case.eos)
    assert watched == plain
    assert [run.answers for run in record.searches] == plain


def test_nothing_is_recorded_unless_somebody_wants_to_know():
    assert type(open_book(Beam(), [3], eos=0)) is BeamState
    with record_search() as record:
        assert type(open_book(Beam(), [3], eos=0)) is not BeamState
    assert type(open_book(Beam(), [3], eos=0)) is BeamState
    with pytest.raises(ValueError, match="nothing was searched by beams"):
        record.tree(spell)


def test_a_forced_beginning_has_no_rivals_and_then_the_search_goes_on(case):
    beam = Beam(beams=3)
    _, free = recorded(case, beam)
    branch = next(place for place, node in enumerate(free.nodes) if node.fate == "pruned" and node.step > 1)
    prefix = free.tokens(branch)
    [answer], tree = recorded(case, beam, constraints=[Prefix(prefix)])
    for step, token in enumerate(prefix, start=1):
        [node] = [node for node in tree.nodes if node.step == step]
        assert (node.token, node.fate) == (token, "ended" if token == case.eos else "kept")
    place = next(place for place, node in enumerate(tree.nodes) if node.step == len(prefix))
    assert tree.nodes[place].total == pytest.approx(free.nodes[branch].total, abs=1e-4)
    assert [*answer.tokens, case.eos][: len(prefix)] == prefix


@pytest.mark.parametrize("beam", BEAMS)
def test_forcing_the_winner_changes_nothing(case, beam):
    for example in range(3):
        [winner, *_], free = recorded(case, beam, example)
        forced = free.tokens(free.answers[0])
        [again, *_], tree = recorded(case, beam, example, constraints=[Prefix(forced)])
        assert (again.tokens, again.finished) == (winner.tokens, winner.finished)
        assert again.score == pytest.approx(winner.score, abs=1e-4)
        assert again.normalized == pytest.approx(winner.normalized, abs=1e-4)
        assert all(node.is_best for node in tree.nodes)


def test_a_tree_comes_back_from_json():
    _, tree = recorded(markov(), Beam(beams=2, patience=math.inf))
    tree = SearchTree(tree.nodes, tree.answers, tree.beam, tree.limit, 0, [1], model="small", text="a", answer="b")
    plain = json.loads(json.dumps(tree.plain(), allow_nan=False))
    assert plain["format"] == 1
    assert plain["search"] == {"beams": 2, "nbest": 1, "length_penalty": 1.0, "patience": None, "limit": LIMIT}
    back = read_tree(plain)
    assert (back.beam, back.limit, back.end, back.model, back.text) == (tree.beam, LIMIT, 0, "small", "a")
    assert [back.tokens(place) for place in back.answers] == [tree.tokens(place) for place in tree.answers]
    assert [node.total for node in back.nodes] == pytest.approx([node.total for node in tree.nodes], abs=1e-6)
    with pytest.raises(ValueError, match="search tree of format 2, this version reads 1"):
        read_tree({"format": 2})


def test_where_nothing_may_be_written_the_root_is_the_answer():
    rules = [MinimumLength(3), Forbid([[1], [2]])]
    [answer], tree = recorded(certain([0.0, 1.0, 2.0]), Beam(beams=2), constraints=rules)
    assert (answer.tokens, tree.answers) == ([], [0])
    assert [node.is_best for node in tree.nodes] == [True]


def test_forced_phrases_and_unequal_progress_keep_the_order_of_the_search():
    model = markov()
    [answer], tree = recorded(model, Beam(beams=2), constraints=[Force([[3, 2]])])
    assert tree.tokens(tree.answers[0])[: len(answer.tokens)] == answer.tokens
    assert tree.nodes[tree.answers[0]].total == pytest.approx(answer.score, abs=1e-6)


def test_an_engine_records_too_and_a_row_that_is_used_again_begins_a_new_tree():
    with record_search() as record:
        engine = Engine(markov().model, eos=0, longest=8, rows=1)
        answers = []
        for _ in range(2):
            [ticket] = engine.submit([Request(inputs=(torch.tensor(0),), limit=5, how=Beam(beams=2))])
            while engine.busy:
                engine.step()
            answers.append(engine.collect()[ticket])
    assert [run.answers for run in record.searches] == answers
    first, second = record.searches
    assert len(first.rounds) == len(second.rounds)
