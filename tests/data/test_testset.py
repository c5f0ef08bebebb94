"""A test set is read as it was written, or not at all."""

from pathlib import Path

import pytest

from regard.data.readers import Corpus
from regard.data.testset import read, read_answers

LINES = ["  Un chat. ", "", "e\u0301te\u0301\u2028x"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    for side in ("fr", "en"):
        (tmp_path / f"test.{side}").write_text("".join(f"{line}\r\n" for line in LINES), encoding="utf-8", newline="")
    return str(tmp_path / "test.fr"), str(tmp_path / "test.en")


def test_no_line_is_cleaned_left_out_or_moved(files):
    source, target = files
    assert read(Corpus(source=source, target=target)) == [(line, line) for line in LINES]
    assert read_answers(source, 3) == LINES


def test_columns_and_fields_are_read_too(tmp_path: Path):
    table, records = tmp_path / "test.tsv", tmp_path / "test.jsonl"
    table.write_text("12\tI am.\t je suis\n", encoding="utf-8")
    records.write_text('{"translation": {"fr": "je suis", "en": "I am."}}\n', encoding="utf-8")
    assert read(Corpus(path=str(table), columns=(3, 2))) == [(" je suis", "I am.")]
    fields = ("translation.fr", "translation.en")
    assert read(Corpus(path=str(records), fields=fields)) == [("je suis", "I am.")]


def test_what_does_not_fit_is_named(files, tmp_path: Path):
    source, _ = files
    short, wrong, empty = (tmp_path / name for name in ("short.en", "wrong.tsv", "empty.tsv"))
    short.write_text("one\n", encoding="utf-8")
    wrong.write_text("a\tb\nc\n", encoding="utf-8")
    empty.write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=r"test\.fr has 3 lines but .*short\.en has 1"):
        read(Corpus(source=source, target=str(short)))
    with pytest.raises(ValueError, match=r"short\.en has 1 line for 3 sources"):
        read_answers(str(short), 3)
    with pytest.raises(ValueError, match=r"wrong\.tsv:2: 1 column"):
        read(Corpus(path=str(wrong)))
    with pytest.raises(ValueError, match="is empty"):
        read(Corpus(path=str(empty)))
