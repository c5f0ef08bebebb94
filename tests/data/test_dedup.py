"""Repeats: what was met before is found, on disk as in memory, against counting in a dictionary."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import dedup
from regard.data.dedup import Keys, Marks, find_conflicts, find_repeats, key, origin, place

rows = st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 600), st.integers(0, 3)), max_size=60)


@given(rows, st.integers(1, 20))
def test_parts_hold_every_row_once_and_all_rows_of_a_key_together(tmp_path, rows, held):
    with pytest.MonkeyPatch.context() as patch, Keys(tmp_path / "scratch", columns=2) as keys:
        patch.setattr(dedup, "ROWS", held)
        for row in rows:
            keys.add(*row)
        parts = [[tuple(row) for row in part.tolist()] for part in keys.parts()]
    assert sorted(row for part in parts for row in part) == sorted(rows)
    for part in parts:
        assert not {row[0] for row in part} & {row[0] for other in parts if other is not part for row in other}
        for chosen in {row[0] for row in part}:
            assert [row for row in part if row[0] == chosen] == [row for row in rows if row[0] == chosen]
    assert not (tmp_path / "scratch").exists() or not list((tmp_path / "scratch").iterdir())


def test_nothing_is_written_while_everything_fits(tmp_path):
    with Keys(tmp_path / "scratch", columns=1) as keys:
        for number in range(1000):
            keys.add(number)
        assert sum(len(part) for part in keys.parts()) == 1000
    assert not (tmp_path / "scratch").exists()


def test_a_folder_that_cannot_be_written_is_an_error_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(dedup, "ROWS", 1)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="REGARD_CACHE"), Keys(tmp_path / "file", columns=1) as keys:
        keys.add(1)


@given(rows)
def test_rows_met_before_and_keys_with_several_values_are_those_a_dictionary_finds(rows):
    columns = np.array(rows, np.uint64).reshape(-1, 2)
    met, values, seen, first = set(), defaultdict(list), [], []
    for number, (one, value) in enumerate(rows):
        if one in met:
            seen.append(number)
        met.add(one)
        values[one].append((number, value))
    for entries in values.values():
        first += [number for number, value in entries if value != entries[0][1]][:1]
    assert sorted(find_repeats(columns[:, 0]).tolist()) == seen
    assert sorted(find_conflicts(columns[:, 0], columns[:, 1]).tolist()) == sorted(first)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 50)), max_size=40), st.integers(1, 6))
def test_marks_are_a_set_of_places(places, most):
    marks = Marks([50, 50, 50])
    marks.add(np.array([place(*one) for one in places[:20]], np.uint64))
    marks.add(np.array([place(*one) for one in places[20:]], np.uint64))
    assert len(marks) == len(set(places))
    assert marks.first(most) == sorted(set(places))[:most]
    assert all(marks.has(*one) for one in places)
    assert sum(marks.has(corpus, line) for corpus in range(3) for line in range(1, 51)) == len(set(places))


def test_places_go_both_ways_and_sort_as_they_are_read():
    assert origin(place(3, 2**40)) == (3, 2**40)
    assert place(0, 2**47) < place(1, 1)


def test_keys_tell_texts_apart_wherever_they_are_cut():
    assert key("a", "bc") != key("ab", "c") != key("abc")
    assert key("a", "b") == key("a", "b") < 2**64
