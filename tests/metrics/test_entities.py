"""Entities are whole or wrong: tags read as conlleval reads them, counts by sentence and by type."""

import pytest

from regard.metrics.entities import are_entities, compare, extract_entities, is_orphan_tag


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O O O", []),
        ("B-A I-A O B-B", [("A", 0, 2), ("B", 3, 4)]),
        ("B-A B-A I-A", [("A", 0, 1), ("A", 1, 3)]),
        ("I-A I-A O I-B", [("A", 0, 2), ("B", 3, 4)]),  # as before 2003, where B- only parts two of a type
        ("B-A I-B I-B O", [("A", 0, 1), ("B", 1, 3)]),
        ("O I-A B-A", [("A", 1, 2), ("A", 2, 3)]),
        ("B-A I-A", [("A", 0, 2)]),
        ("", []),
    ],
)
def test_entities_of_a_sentence(tags, found):
    assert [tuple(one) for one in extract_entities(tags.split())] == found


def test_tags_are_those_of_entities_or_not():
    assert are_entities(["O", "B-per", "I-per"])
    assert not are_entities(["O", "I-per"])
    assert not are_entities(["O", "B-per", "NOUN"])
    assert not are_entities([])


def test_i_continues_an_entity_of_its_type():
    assert is_orphan_tag(None, "I-A")
    assert is_orphan_tag("O", "I-A")
    assert is_orphan_tag("B-B", "I-A")
    assert not is_orphan_tag("B-A", "I-A")
    assert not is_orphan_tag("I-A", "I-A")
    assert not is_orphan_tag("O", "B-A")


def test_f1_counts_whole_entities_of_the_right_type():
    truth = ["B-A I-A O B-B", "O B-B O", "B-A O"]
    said = ["B-A I-A O B-A", "O B-B I-B", "O O"]  # one right; one of another type; one too long; one not seen
    statistics, types = compare([line.split() for line in truth], [line.split() for line in said])
    assert statistics.counts.tolist() == [[1, 2, 2], [0, 1, 1], [0, 0, 1]]
    assert statistics.score == pytest.approx(100 * 2 * 1 / (3 + 4))
    assert [(one.type, one.right, one.said, one.there) for one in types] == [("A", 1, 2, 2), ("B", 0, 1, 2)]
    assert (types[0].precision, types[0].recall, types[0].f1) == (0.5, 0.5, 0.5)
    assert compare([["O"]], [["O"]])[0].score == 0
