"""Edits: the distance is Levenshtein's, of several references the nearest counts, and rates are those of the field."""

from functools import cache

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.edits import Edits, edits, errors, nearest_reference

short = st.text("ab c", max_size=7)


def by_definition(one: str, other: str) -> int:
    """The recurrence as it is printed, without a table."""

    @cache
    def d(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(d(i - 1, j) + 1, d(i, j - 1) + 1, d(i - 1, j - 1) + (one[i - 1] != other[j - 1]))

    return d(len(one), len(other))


@given(short, short)
def test_the_distance_is_that_of_the_definition_and_its_kinds_add_up(one, other):
    found = edits(one, other)
    assert found.total == by_definition(one, other) == found.replaced + found.surplus + found.missing
    assert found.surplus - found.missing == len(one) - len(other)
    assert edits(other, one).total == found.total
    assert (found.total == 0) == (one == other)


@given(short, short, short)
def test_a_detour_is_never_shorter(one, other, third):
    assert edits(one, third).total <= edits(one, other).total + edits(other, third).total


def test_well_known_distances():
    assert edits("kitten", "sitting") == Edits(3, 2, 0, 1)
    assert edits("sunday", "saturday") == Edits(3, 1, 0, 2)
    assert edits([], ["AH"]) == Edits(1, 0, 0, 1)
    assert edits(["AH", "B"], ["AH"]) == Edits(1, 0, 1, 0)


def test_without_moved_words_the_unit_rate_is_sacrebleus_translation_edit_rate():
    answers = ["HH AH L OW", "W ER L D", "G UH D B AY"]
    references = ["HH EH L OW", "W ER L D", "G UH D AY"]
    found = errors(answers, [[text] for text in references])
    ter = sacrebleu.TER(case_sensitive=True).corpus_score(answers, [references])
    assert found.unit_rate == pytest.approx(ter.score)
    assert found.answer_rate == pytest.approx(200 / 3)
    assert (found.edits.total, found.units, found.wrong) == (2, 12, 2)


def test_of_several_references_the_nearest_counts_and_the_first_of_equally_near_ones():
    assert nearest_reference(["EY", "B", "IY"], [["AE", "B"], ["EY", "B", "IY"]]) == (Edits(), 3)
    assert nearest_reference(["A"], [["B"], ["C", "A"]]) == (Edits(1, 1, 0, 0), 1)
    assert errors(["EY"], [["AH", "EY"]]).answer_rate == 0
    assert errors(["EY"], [["AH"]]).answer_rate == 100


def test_an_answer_that_says_far_too_much_passes_a_hundred():
    assert errors(["A B C"], [["D"]]).unit_rate == 300
    assert errors([""], [[""]]).unit_rate == 0
    assert errors(["A"], [[""]]).unit_rate == float("inf")


@pytest.mark.parametrize(
    ("answers", "references", "said"),
    [
        ([], [], "no answers"),
        (["a"], [], "1 answers but references for 0"),
        (["a"], [[]], "without a reference"),
    ],
)
def test_what_cannot_be_judged_is_said_in_one_line(answers, references, said):
    with pytest.raises(ValueError, match=said):
        errors(answers, references)
