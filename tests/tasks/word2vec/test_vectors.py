"""Word vectors in use: their answers are gensim's, their files come back, an unknown word gets a hint."""

import numpy as np
import pytest

from regard import checkpoint
from regard.tasks.word2vec.vectors import WordVectors

WORDS = ["film", "movie", "actor", "actress", "king", "queen", "man", "woman", "good", "Paris"]


def some() -> WordVectors:
    return WordVectors(WORDS, np.random.default_rng(0).normal(size=(10, 5)).astype(np.float32), range(100, 0, -10))


@pytest.fixture
def theirs(tmp_path):
    """The same vectors as gensim's."""
    gensim = pytest.importorskip("gensim.models", reason="gensim is not installed (pip install -e '.[test]')")
    some().export(tmp_path / "vectors.txt")
    return gensim.KeyedVectors.load_word2vec_format(str(tmp_path / "vectors.txt"))


def test_neighbours_are_those_that_gensim_finds(theirs):
    for word in WORDS:
        mine, other = some().similar(word, count=4), theirs.most_similar(word, topn=4)
        assert [near for near, _ in mine] == [near for near, _ in other]
        np.testing.assert_allclose([c for _, c in mine], [c for _, c in other], rtol=1e-5)


def test_analogies_are_those_that_gensim_finds(theirs):
    mine = some().analogy("man", "woman", "king", count=3)
    other = theirs.most_similar(positive=["woman", "king"], negative=["man"], topn=3)
    assert [near for near, _ in mine] == [near for near, _ in other]


def test_scores_are_those_of_gensims_evaluation(theirs, tmp_path):
    from regard.tasks.word2vec import word_benchmarks

    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a}\t{b}\t{n % 7}\n" for n, (a, b) in enumerate(zip(WORDS, WORDS[3:], strict=False))))
    questions = tmp_path / "questions.txt"
    lines = [f"{WORDS[n]} {WORDS[n + 1]} {WORDS[n + 2]} {WORDS[(n + 5) % 9]}" for n in range(7)]
    questions.write_text(": some\n" + "\n".join([*lines, "king queen man nobody"]) + "\n")
    agreed = some().agreement(word_benchmarks.read_similarity(str(pairs)))
    assert agreed.rho == pytest.approx(theirs.evaluate_word_pairs(str(pairs))[1][0])
    [section] = some().analogies(word_benchmarks.read_analogies(str(questions)))
    assert (section.known_count, section.asked_count) == (7, 8)
    assert section.share == pytest.approx(theirs.evaluate_word_analogies(str(questions))[0])


def test_what_is_saved_comes_back_and_damage_is_found(tmp_path):
    some().save(tmp_path / "model")
    found = WordVectors.load(checkpoint.read(tmp_path / "model"))
    assert (found.words, found.counts) == (WORDS, list(range(100, 0, -10)))
    assert (found.vectors == some().vectors).all()
    (tmp_path / "model" / "vocabulary.tsv").write_text("film\t1\n")
    with pytest.raises(checkpoint.CheckpointError, match="damaged"):
        checkpoint.read(tmp_path / "model")


def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path):
    contents = {**some().contents(), **some().weights(), "vocabulary.tsv": "film\t1\n"}
    checkpoint.write(tmp_path / "model", contents)
    with pytest.raises(checkpoint.CheckpointError, match="not those of its 1 words"):
        WordVectors.load(checkpoint.read(tmp_path / "model"))


def test_capitals_are_forgiven_and_an_unknown_word_gets_a_hint():
    assert some().find("Film") == 0
    assert some().find("Paris") == 9
    assert some().find("paris") is None
    with pytest.raises(ValueError, match=r"'acter' is none of the 10 words that have a vector, did you mean actor"):
        some().similar("acter")


def test_nothing_known_is_no_score():
    found = some().agreement([("a", "b", 1.0), ("c", "d", 2.0)])
    assert (found.known_count, found.asked_count) == (0, 2)
    assert np.isnan(found.rho)
    [section] = some().analogies({"x": [("a", "b", "c", "d")]})
    assert (section.right, section.known_count) == (0, 0)
    assert np.isnan(section.share)
