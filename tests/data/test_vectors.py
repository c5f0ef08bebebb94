"""The text format is word2vec's: what is written comes back exactly, here and in gensim; what is wrong is named."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from regard.data import vectors

WORDS = ["the", "new_york", "l'été", "日本"]


def numbers() -> np.ndarray:
    values = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    values[0] = [0, 1e-30, -12345.678]
    return values


def test_what_is_written_comes_back_exactly(tmp_path):
    vectors.write(tmp_path / "a.txt", WORDS, numbers())
    words, found = vectors.read(str(tmp_path / "a.txt"))
    assert words == WORDS
    assert found.dtype == np.float32
    assert (found == numbers()).all()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_gensim_reads_what_is_written_and_writes_what_is_read(tmp_path):
    gensim = pytest.importorskip("gensim.models", reason="gensim is not installed (pip install -e '.[test]')")
    vectors.write(tmp_path / "ours.txt", WORDS, numbers())
    theirs = gensim.KeyedVectors.load_word2vec_format(str(tmp_path / "ours.txt"))
    assert theirs.index_to_key == WORDS
    assert (theirs.vectors == numbers()).all()
    theirs.save_word2vec_format(str(tmp_path / "theirs.txt"))
    words, found = vectors.read(str(tmp_path / "theirs.txt"))
    assert words == WORDS
    np.testing.assert_allclose(found, numbers(), rtol=1e-6)


def test_blanks_at_the_end_gzip_and_files_without_a_head_are_read(tmp_path):
    (tmp_path / "a.vec").write_text("a 1 2 \nb 3 4.5e-1 \n", encoding="utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"2 2\na 1 2\nb 3 .45\n"))
    for name in ("a.vec", "b.txt.gz"):
        words, found = vectors.read(str(tmp_path / name))
        assert words == ["a", "b"]
        np.testing.assert_allclose(found, [[1, 2], [3, 0.45]], rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no vectors"),
        (b"2 2\na 1 2\n", "has 1 words and promises 2: the file is not complete"),
        (b"1 2\na 1 x\n", r"a\.txt:2: not a word and its numbers"),
        (b"2 2\na 1 2\nb 1\n", r"a\.txt:3: 1 number, not 2"),
        (b"2 2\na 1 2\na 1 3\n", r"a\.txt:3: 'a' has a vector already, in line 2"),
        (b"1 2\na nan 2\n", r"a\.txt:2: the vector of 'a' is not finite"),
        (b"1 2\n\xff 1 2\n", r"a\.txt:2: not UTF-8"),
        (b"hello world\n", r"a\.txt:1: neither"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, content, message):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        vectors.read(str(tmp_path / "a.txt"))
