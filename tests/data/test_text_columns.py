"""The column that training took for the text is the one that a table in use is read by."""

import re
from pathlib import Path

import pytest

from regard.data.labelled_columns import ColumnRequest, find_labelled_columns
from regard.data.text_columns import TextColumn, read_table_texts

REVIEWS = "id;avis;note\n1;un bon film;oui\n2;;oui\n3;un film, mauvais;non\n"
TEXTS = ["un bon film", "", "un film, mauvais"]


def save(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def read(path: str, **options) -> tuple[list[str], str]:
    notes: list[str] = []
    texts = list(read_table_texts(path, tell=notes.append, **options))
    return texts, " ".join(notes)


def test_what_training_finds_is_what_a_model_in_use_reads(tmp_path):
    path = save(tmp_path / "avis.csv", REVIEWS)
    trained = find_labelled_columns(path, ColumnRequest())
    assert (trained.heading, trained.columns) == (("id", "avis", "note"), (2, 3))
    expected = TextColumn((trained.heading[1],), 2, 3, frozenset(("oui", "non")))
    moved = save(tmp_path / "moved.csv", "note,AVIS\n" + 'oui,un bon film\noui,\nnon,"un film, mauvais"\n')
    for file, left_out in ((path, "id, note"), (moved, "note")):
        texts, note = read(file, expected=expected)
        assert texts == TEXTS
        assert re.search(r"reading the column '(avis|AVIS)', as in training", note)
        assert f"{left_out} are left out" in note


@pytest.mark.parametrize("column", ["avis", "AVIS", "2"])
def test_a_column_is_named_or_numbered(tmp_path, column):
    texts, _ = read(save(tmp_path / "t.csv", REVIEWS), column=column)
    assert texts == TEXTS


def test_a_table_without_a_heading_is_read_by_the_number_of_training(tmp_path):
    below = REVIEWS.partition("\n")[2]
    expected = TextColumn((), 2, 3, frozenset(("oui", "non")))
    texts, note = read(save(tmp_path / "t.csv", below), expected=expected)
    assert texts == TEXTS
    assert "reading column 2 of 3, as in training, the first line too" in note


def test_a_column_that_cannot_be_told_is_asked_for(tmp_path):
    path = save(tmp_path / "t.csv", "x,y\nsome words,other words\nmore of them,and more\n")
    with pytest.raises(
        ValueError, match=r"cannot tell which column holds the text \(x, y\): name the column of the texts, as --column"
    ):
        read(path)
    with pytest.raises(ValueError, match=r"none is called 'avis' as in training"):
        read(path, expected=TextColumn(("avis",)))
    with pytest.raises(ValueError, match=r"has no column 'z'; there are x, y: name the column of the .*--column x"):
        read(path, column="z")
