"""French agreement: forms are real ones, distances are counted, and nothing but the subject tells right from wrong."""

import gzip
from collections import Counter

import pytest

from regard.lab.agreement import sentences as agreement
from regard.lab.agreement.sentences import (
    NOUNS,
    PARTICIPLES,
    RIGHT,
    WRONG,
    Practice,
    noun,
    participle,
    sentence,
    sentences,
)

GENDER = {noun(word, number): gender for gender, words in NOUNS.items() for word in words for number in (0, 1)}
FORMS = {participle(word, gender, number): gender for word in PARTICIPLES for gender in ("m", "f") for number in (0, 1)}


def test_forms_are_those_of_the_grammar_book():
    assert [participle("réélu", gender, number) for gender in "mf" for number in (0, 1)] == [
        *("réélu", "réélus"),
        *("réélue", "réélues"),
    ]
    assert [noun(word, 1) for word in ("reine", "neveu", "bureau", "château")] == [
        *("reines", "neveux"),
        *("bureaux", "châteaux"),
    ]
    assert len(FORMS) == 4 * len(PARTICIPLES)  # no two forms look alike
    assert len(GENDER) == 2 * sum(map(len, NOUNS.values()))
    assert not [word for words in NOUNS.values() for word in words if word[0] in "aeiouyhéè"]  # nothing is elided


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 7, 16, 40])
def test_subject_and_participle_are_as_far_apart_as_asked_and_agree_if_right(distance):
    for number in range(60):
        one = sentence(0, number, distance=distance)
        subject = one.words[one.place - distance - 1].lower()
        assert (FORMS[one.words[one.place]] == GENDER[subject]) == one.right == (one.tags[one.place] == RIGHT)
        between = one.words[one.place - distance : one.place]
        assert one.attractors == sum(GENDER.get(word, GENDER[subject]) != GENDER[subject] for word in between)
        assert one.words[0][0].isupper()
        assert one.words[-1] == "."


def test_a_participle_beside_a_noun_is_right_or_wrong_by_that_noun():
    seen = Counter()
    for number in range(300):
        one = sentence(0, number, distance=9)
        for place, word in enumerate(one.words[: one.place]):
            if word in FORMS:
                right = FORMS[word] == GENDER[one.words[place - 1]]
                assert right == (one.tags[place] == RIGHT)
                seen[right] += 1
    assert min(seen[True], seen[False]) > 20
    assert not any(word in FORMS for n in range(99) for word in _between(sentence(0, n, distance=9, described=False)))


def _between(one):
    return one.words[one.place - one.distance : one.place]


def test_attractors_are_of_the_other_gender_and_without_them_nouns_are_of_the_same():
    for number in range(60):
        one = sentence(0, number, distance=10, attractors=True, testing=True)
        subject = GENDER[one.words[one.place - 11].lower()]
        nouns = [GENDER[word] for word in _between(one) if word in GENDER]
        assert nouns
        assert set(nouns) == {"m" if subject == "f" else "f"}
        assert len(nouns) == one.attractors
        assert sentence(0, number, distance=10, attractors=False).attractors == 0


def test_melted_and_elided_words_are_never_written_apart():
    wrong = ("de le", "de les", "de des", "de un", "de une", "que un", "que une", "à le")
    texts = [f" {one} ".lower() for one in sentences(3, 400, Practice(longest=24))]
    assert not [text for text in texts for pair in wrong if f" {pair} " in text]
    assert not [text for text in texts if " du " in text and GENDER[text.partition(" du ")[2].split()[0]] == "f"]


def test_half_of_the_sentences_are_right_whatever_the_rest():
    found = list(sentences(0, 2000, Practice()))
    assert sum(one.right for one in found) / 2000 == pytest.approx(0.5, abs=0.04)
    by_attractor = Counter((bool(one.attractors), one.right) for one in found)
    for attracted in (False, True):
        both = by_attractor[attracted, True] + by_attractor[attracted, False]
        assert by_attractor[attracted, True] / both == pytest.approx(0.5, abs=0.06)
    counts = Counter(one.distance for one in found)
    assert counts[1] / counts[8] == pytest.approx(8, rel=0.4)
    assert set(counts) == set(range(1, 17))


def test_a_sentence_is_a_function_of_seed_and_number():
    assert sentence(1, 2, distance=5) == sentence(1, 2, distance=5)
    assert len({str(sentence(1, number, distance=5)) for number in range(50)}) > 45
    assert list(sentences(0, 9, Practice()))[7] == list(sentences(0, 8, Practice()))[7]


def test_subjects_and_participles_that_are_tested_together_were_never_learnt_together():
    stems = {participle(word, gender, number): word for word in PARTICIPLES for gender in "mf" for number in (0, 1)}

    def pairs(found):
        return {(one.words[one.place - one.distance - 1].lower(), stems[one.words[one.place]]) for one in found}

    learnt = pairs(sentences(0, 2500, Practice()))
    tested = pairs(sentence(0, number, distance=12, testing=True) for number in range(500))
    assert not learnt & tested
    assert {word for word, _ in tested} <= {word for word, _ in learnt}


def test_files_hold_every_word_with_its_tag_and_the_same_seed_gives_the_same_bytes(tmp_path):
    one, other = (agreement.write(tmp_path / name, Practice(), counts={"train": 20, "valid": 5}) for name in "ab")
    assert [path.name for path in one] == ["train.txt.gz", "valid.txt.gz"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    lines = gzip.decompress(one[0].read_bytes()).decode().splitlines()
    assert len(lines) == 20
    assert {cell.rpartition("/")[2] for line in lines for cell in line.split()} == {RIGHT, WRONG}


def test_what_is_impossible_is_said_in_one_line():
    with pytest.raises(ValueError, match="no room for a noun and a verb"):
        sentence(0, 0, distance=2, attractors=True)
    with pytest.raises(ValueError, match="must be from 1 to longest, 8, not 9"):
        Practice(shortest=9, longest=8)
