"""The agreement of the courses: sentences are built as theirs, and the command shows what four networks made of it."""

import json
from itertools import product

import pytest

from regard.cli import run
from regard.lab.agreement import course_experiment
from regard.lab.agreement.course_experiment import NETWORKS, SEEDS, Sizes, read_results, repeat_experiment
from regard.lab.agreement.relative_clauses import (
    CAUSES,
    CLAUSES_LEARNT,
    CLAUSES_TESTED,
    COURSE_SENTENCES,
    OBJECTS,
    sentence,
    sentences,
)
from regard.lab.agreement.sentences import NOUNS, PARTICIPLES, noun, participle

GENDER = {noun(word, number): gender for gender, words in NOUNS.items() for word in words for number in (0, 1)}
OBJECT_GENDER = {word: gender for gender, words in OBJECTS.items() for word in words}
STEMS = {
    participle(word, gender, number): (place, gender)
    for place, word in enumerate(PARTICIPLES)
    for gender, number in product("mf", (0, 1))
}


def subject_of(example):
    """The word that the participle has to agree with."""
    return example.words[example.place - example.distance - 1]


@pytest.mark.parametrize("clauses", CLAUSES_TESTED)
def test_a_clause_stands_between_subject_and_participle_and_tells_nothing_of_the_gender(clauses):
    for number, attractor in product(range(30), (False, True) if clauses else (False,)):
        example = sentence(0, number, clauses=clauses, attractor=attractor, testing=True)
        gender = GENDER[subject_of(example)]
        assert (STEMS[example.words[example.place]][1] == gender) == example.right
        between = example.words[example.place - example.distance : example.place]
        assert between.count("dont") == clauses
        assert not [word for word in between if word in STEMS]
        last_noun = next((word for word in reversed(between) if word in OBJECT_GENDER), None)
        assert (last_noun is None) == (clauses == 0)
        assert last_noun is None or (OBJECT_GENDER[last_noun] != gender) == attractor


def test_pairs_that_are_tested_are_never_learnt_and_the_courses_pair_is_tested():
    def pair(example):
        place = next(words.index(name) for words in NOUNS.values() for name in words if name == singular(example))
        return place, STEMS[example.words[example.place]][0]

    def singular(example):
        word = subject_of(example)
        return next(name for words in NOUNS.values() for name in words if word in (noun(name, 0), noun(name, 1)))

    learnt = {pair(example) for example in sentences(0, 1500)}
    tested = {pair(sentence(0, number, clauses=1, attractor=True, testing=True)) for number in range(500)}
    assert not learnt & tested
    assert (0, PARTICIPLES.index("réélu")) in tested
    assert (0, PARTICIPLES.index("réélu")) not in learnt


def test_the_words_of_the_courses_are_learnt_from_and_their_distances_are_counted():
    known = {word.lower() for example in sentences(0, 800) for word in example.words}
    for course in COURSE_SENTENCES:
        words = f"{course.beginning} {course.right}".split()
        assert {word.lower() for word in words} | {course.wrong} <= known
        assert words.index(course.right) - words.index("présidente") - 1 == course.words_between
    assert not {word for words in CAUSES.values() for word in words} & GENDER.keys()
    assert min(example.distance for example in sentences(0, 300) if "dont" in example.words) == 8
    assert {example.words.count("dont") for example in sentences(0, 300)} == {*CLAUSES_LEARNT}


def test_an_attractor_needs_a_clause():
    with pytest.raises(ValueError, match="without a clause there is no noun"):
        sentence(0, 0, clauses=0, attractor=True)


def test_the_experiment_trains_and_judges_every_network(monkeypatch):
    monkeypatch.setattr(course_experiment, "NETWORKS", {"GRU": NETWORKS["GRU"] | {"width": 8, "embedding": 8}})
    messages = []
    [result] = repeat_experiment(sizes=Sizes(60, 20, 10, 2), seeds=(0, 1), report=messages.append)
    assert messages == [f"training {n + 1} of 2: GRU, seed {n}" for n in (0, 1)]
    shape = [(point.clauses, point.attractor) for point in result.points]
    assert shape == [(0, False), *product((1, 2, 3, 4), (False, True))]
    assert all(len(point.mistakes) == 2 and 0 <= min(point.mistakes) <= point.count for point in result.points)
    assert len(result.accepted) == len(result.rejected) == len(COURSE_SENTENCES)


def test_the_results_in_the_package_are_of_every_network():
    results = read_results()
    assert [result.network for result in results] == list(NETWORKS)
    assert {len(point.mistakes) for result in results for point in result.points} == {len(SEEDS)}
    sizes = [result.parameters for result in results]
    assert max(sizes) < 1.08 * min(sizes), "about as many weights"


def test_the_command_shows_draws_and_refuses(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    assert run(["lab", "agreement", "-o", "clauses.png"]) == 0
    captured = capsys.readouterr()
    assert max(map(len, captured.out.splitlines())) <= 80
    assert "results of a training in the package; --train repeats it" in captured.err
    assert captured.out.count("Errors in 100, of each of 2 seeds") == 1
    assert int.from_bytes((tmp_path / "clauses.png").read_bytes()[16:20], "big") > 800
    assert run(["lab", "agreement", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["networks"]) == 4
    for words, message in (
        (["--count", "9"], "--count is for taggers of your own: name a MODEL, or leave it out"),
        (["runs/a", "--train"], "--train repeats the experiment of the courses: leave the models out"),
    ):
        assert run(["lab", "agreement", *words]) == 1
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.err.count("\n") == 1
