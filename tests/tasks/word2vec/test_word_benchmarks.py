"""Tests of word vectors are read as they are published, and refused line by line."""

import os
from pathlib import Path

import pytest

from regard.tasks.word2vec import word_benchmarks


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_pairs_are_read_with_comments_or_a_line_of_headings(tmp_path):
    right = [("love", "sex", 6.77), ("tiger", "cat", 7.35)]
    assert (
        word_benchmarks.read_similarity(written(tmp_path / "a", "# Words\nlove\tsex\t6.77\ntiger\tcat\t7.35\n\n"))
        == right
    )
    assert (
        word_benchmarks.read_similarity(
            written(tmp_path / "b", "Word 1\tWord 2\tMean\nlove\tsex\t6.77\ntiger\tcat\t7.35")
        )
        == right
    )


def test_questions_are_read_by_section(tmp_path):
    text = ": capitals\nAthens Greece Oslo Norway\n: family\nboy girl king queen\nman woman son daughter\n"
    found = word_benchmarks.read_analogies(written(tmp_path / "a", text))
    assert {name: len(questions) for name, questions in found.items()} == {"capitals": 1, "family": 2}
    assert found["family"][0] == ("boy", "girl", "king", "queen")
    assert word_benchmarks.read_analogies(written(tmp_path / "b", "a b c d\n")) == {"": [("a", "b", "c", "d")]}


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (word_benchmarks.read_similarity, "a\tb\t1\nc\td\n", r"a:2: not two words and a number"),
        (word_benchmarks.read_similarity, "head\tb\tx\nhead\td\ty\n", r"a:2: not two words and a number"),
        (word_benchmarks.read_similarity, "a\tb\t1\n", "too few"),
        (word_benchmarks.read_analogies, ": x\na b c\n", r"a:2: not four words"),
        (word_benchmarks.read_analogies, ": x\n", "no questions"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, read, text, message):
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path / "a", text))


def test_the_published_files_have_their_known_sizes():
    folder = Path(os.environ.get("REGARD_DATA", "data")) / "word-eval"
    if not folder.is_dir():
        pytest.skip("the tests of words are not under REGARD_DATA")
    assert len(word_benchmarks.read_similarity(str(folder / "wordsim353.tsv"))) == 353
    sections = word_benchmarks.read_analogies(str(folder / "questions-words.txt"))
    assert (len(sections), sum(map(len, sections.values()))) == (14, 19_544)
