"""Maps of words: the principal directions, and a label for each word."""

import numpy as np
import pytest

from regard.interpret.draw import plots, word_map


def some(words: int = 12, width: int = 5) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(words, width)).astype(np.float32)


def test_the_map_keeps_as_much_of_the_differences_as_two_numbers_can():
    vectors = some()
    places = word_map.project(vectors)
    values = np.sort(np.linalg.eigvalsh(np.cov(vectors.T.astype(np.float64))))[::-1]
    np.testing.assert_allclose(places.var(axis=0, ddof=1), values[:2], rtol=1e-6)
    np.testing.assert_allclose(places.mean(axis=0), 0, atol=1e-6)
    assert word_map.explained_variance(vectors) == pytest.approx(values[:2].sum() / values.sum())


def test_a_plane_is_drawn_as_it_is():
    flat = some(width=2)
    turned = flat @ np.linalg.qr(some(words=5, width=5))[0][:2].astype(np.float32)
    places = word_map.project(turned)
    before, after = (np.linalg.norm(x[:, None] - x[None], axis=-1) for x in (flat, places))
    np.testing.assert_allclose(before, after, atol=1e-5)
    np.testing.assert_allclose(word_map.project(turned[::-1]), places[::-1], atol=1e-5)  # whichever comes first


def test_every_word_is_written_on_the_map(tmp_path):
    words = [f"word{number}" for number in range(11)] + ["$x_1$"]
    figure = word_map.plot_words(
        word_map.project(some()), words, [number % 3 for number in range(12)], title="some $words"
    )
    written = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(written) == sorted([*words[:-1], r"\$x_1\$"])
    plots.save(figure, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_neighbours_stay_neighbours_in_tsne():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    vectors = np.concatenate([some() + 20, some() - 20])
    places = word_map.project(vectors, method="tsne")
    apart = np.linalg.norm(places[:12].mean(axis=0) - places[12:].mean(axis=0))
    assert apart > np.linalg.norm(places[:12] - places[:12].mean(axis=0), axis=1).mean()


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(ValueError, match="name at least three"):
        word_map.project(some(words=2))
    with pytest.raises(ValueError, match="take pca or tsne"):
        word_map.project(some(), method="umap")
