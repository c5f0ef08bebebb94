"""Drawn pictures: each is what its seed and number say, its box is around its ink, its counts are what was drawn."""

import gzip
import struct
from dataclasses import replace

import numpy as np
import pytest

from regard.config import build
from regard.tasks.scenes import digit_scenes, glyphs
from regard.tasks.scenes.digit_scenes import DigitFramesConfig, DigitImageConfig
from regard.tasks.scenes.glyphs import Glyphs

CLEAN = DigitImageConfig(noise=0.0, clutter=0)


def idx(array: np.ndarray) -> bytes:
    """An array of bytes as an idx file holds it."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def handwriting(tmp_path):
    """A folder as MNIST's: 30 digits to learn from, 10 others to measure on; half of the files are gzipped."""
    for name, count in (("train", 30), ("t10k", 10)):
        pictures = np.zeros((count, 28, 28), np.uint8)
        pictures[:, 5:23, 10:18] = 255
        labels = np.arange(count) % 10
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(idx(pictures))
        (tmp_path / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return tmp_path


def test_every_hand_draws_ten_digits_that_differ():
    found = glyphs.built_in_glyphs()
    assert found.images.shape == (40, 7, 5)
    assert found.labels.tolist() == [*range(10)] * 4
    for hand in range(4):
        own = found.images[10 * hand : 10 * hand + 10]
        assert len({each.tobytes() for each in own}) == 10
    assert all(found.images[digit].any() for digit in range(40))


def test_a_picture_is_a_function_of_its_seed_and_number():
    for config in (DigitImageConfig(), DigitFramesConfig()):
        album, again = digit_scenes.scene_dataset(config, "train"), digit_scenes.scene_dataset(config, "train")
        later = [again[number] for number in (7, 3, 7)]  # in another order
        for one, other in zip(album[7], later[0], strict=True):
            assert np.array_equal(one, other)
        assert all(np.array_equal(one, other) for one, other in zip(later[0], later[2], strict=True))
        assert not np.array_equal(later[0][0], later[1][0])
        assert not np.array_equal(album[7][0], digit_scenes.scene_dataset(replace(config, seed=1), "train")[7][0])
        assert not np.array_equal(album[7][0], digit_scenes.scene_dataset(config, "valid")[7][0])


def test_a_box_is_the_smallest_around_the_ink():
    album = digit_scenes.scene_dataset(CLEAN, "train")
    for number in range(40):
        picture, label, box = album[number]
        assert 0 <= label <= 9
        assert picture.dtype == box.dtype == np.float32
        rows, columns = np.flatnonzero(picture.any(1)), np.flatnonzero(picture.any(0))
        assert np.rint(box * 48).tolist() == [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        assert 8 <= rows[-1] + 1 - rows[0] <= 32


def test_digits_have_the_heights_asked_for_and_lie_everywhere():
    boxes = np.array([digit_scenes.scene_dataset(CLEAN, "train")[number].box for number in range(400)]) * 48
    heights = boxes[:, 3] - boxes[:, 1]
    assert heights.min() >= 12  # the ink may end a little before the height
    assert heights.max() <= 32
    assert boxes[:, :2].min() == 0
    assert boxes[:, 2:].max() == 48
    assert {digit_scenes.scene_dataset(CLEAN, "train")[number].label for number in range(100)} == set(range(10))


def test_a_lower_threshold_is_a_bolder_stroke_and_a_slant_leans_to_the_right():
    seven = glyphs.built_in_glyphs().images[7]
    assert (
        digit_scenes.render_glyph(seven, 30.0, stroke=0.3).sum()
        > digit_scenes.render_glyph(seven, 30.0, stroke=0.6).sum()
    )
    one = glyphs.built_in_glyphs().images[11]  # a single upright line
    upright, leaning = digit_scenes.render_glyph(one, 30.0), digit_scenes.render_glyph(one, 30.0, slant=0.35)
    assert leaning.shape[1] > upright.shape[1] + 5
    assert leaning[:5].argmax(1).mean() > leaning[-5:].argmax(1).mean() + 5
    assert abs(upright.shape[0] - 30) <= 3


def test_scraps_and_noise_are_where_they_are_asked_for():
    clean = digit_scenes.scene_dataset(CLEAN, "train")
    cluttered = digit_scenes.scene_dataset(replace(CLEAN, clutter=6), "train")
    inked = [np.mean([(album[number].image > 0).mean() for number in range(30)]) for album in (clean, cluttered)]
    assert inked[1] > 1.3 * inked[0]
    noisy = digit_scenes.scene_dataset(replace(CLEAN, noise=0.15), "train")[0].image
    assert 0.05 < noisy[clean[0].image == 0].mean() < 0.07  # half of a normal deviation of 0.15
    assert 0 <= noisy.min() <= noisy.max() <= 1


def test_counts_are_those_of_the_digits_that_came_and_never_fall():
    album = digit_scenes.scene_dataset(DigitFramesConfig(noise=0.0), "train")
    seen_less = 0
    for number in range(60):
        pictures, counts, seen = album[number]
        assert pictures.shape == (8, 32, 32)
        assert (np.diff(counts) >= 0).all()
        assert (seen <= counts).all()
        assert ((seen == 0) == ~pictures.any((1, 2))).all()
        rising = np.flatnonzero(np.diff(counts, prepend=0))
        assert (seen[rising] >= 1).all()  # who comes is seen
        seen_less += (seen < counts).sum()
    assert seen_less > 60
    assert max(album[number].counts.max() for number in range(60)) == 4


def test_seen_digits_do_not_overlap_so_each_can_be_told():
    """Counted by an outsider: there are never fewer pieces of ink than digits."""
    album = digit_scenes.scene_dataset(DigitFramesConfig(noise=0.0, hidden=0.0), "train")
    for number in range(20):
        pictures, counts, seen = album[number]
        assert (seen == counts).all()
        for picture, count in zip(pictures, seen, strict=True):
            assert pieces(picture > 0) >= count


def pieces(there: np.ndarray) -> int:
    """Connected pieces, corners included, by flood filling."""
    left, found = set(map(tuple, np.argwhere(there))), 0
    while left:
        found += 1
        waiting = [left.pop()]
        while waiting:
            row, column = waiting.pop()
            near = {(row + down, column + over) for down in (-1, 0, 1) for over in (-1, 0, 1)} & left
            left -= near
            waiting += near
    return found


def test_nothing_hides_when_nothing_shall_hide_and_nothing_moves_at_rest():
    still = digit_scenes.scene_dataset(DigitFramesConfig(noise=0.0, hidden=0.0, pace=0.0), "train")
    for number in range(10):
        pictures, counts, _ = still[number]
        after = pictures[1:] - pictures[:-1]
        assert not after[np.diff(counts) == 0].any()


def test_digits_in_mnists_files_are_drawn_too_and_others_are_measured_on(handwriting):
    config = DigitImageConfig(digits=str(handwriting), noise=0.0, clutter=0)
    train, valid = digit_scenes.scene_dataset(config, "train"), digit_scenes.scene_dataset(config, "valid")
    assert (len(train.glyphs.labels), len(valid.glyphs.labels)) == (30, 10)
    picture, _, box = train[0]
    left, top, right, bottom = np.rint(box * 48).astype(int)
    assert picture[top:bottom, left:right].mean() > 0.3
    assert digit_scenes.scene_dataset(DigitFramesConfig(digits=str(handwriting)), "train")[0].images.shape == (
        8,
        32,
        32,
    )


def test_the_fingerprint_tells_what_is_drawn_but_not_how_much_at_a_time(handwriting):
    def mark(config):
        return digit_scenes.scene_dataset(config, "train").report["fingerprint"]

    assert mark(DigitImageConfig()) == mark(DigitImageConfig(batch_size=3))
    assert mark(DigitImageConfig()) != mark(DigitImageConfig(noise=0.2)) != mark(DigitImageConfig(seed=1))
    assert mark(DigitImageConfig()) != mark(DigitImageConfig(digits=str(handwriting)))
    assert digit_scenes.scene_dataset(DigitImageConfig(), "valid").report["fingerprint"] != mark(DigitImageConfig())


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("train-images-idx3-ubyte", b"\0\0\x08\x03\0\0", "no idx file of pictures"),
        ("train-images-idx3-ubyte", b"\x89PNG and more bytes", "no idx file of pictures"),
        ("train-images-idx3-ubyte", idx(np.zeros((30, 28, 28)))[:-1], "cut short"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(np.zeros(29)), mtime=0), "30 pictures but 29 labels"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(np.full(30, 12)), mtime=0), "the label 12 is no digit"),
        (
            "train-labels-idx1-ubyte.gz",
            gzip.compress(idx(np.zeros(30)), mtime=0)[:10],
            "fetch it again|cut short|no idx",
        ),
        ("train-labels-idx1-ubyte.gz", None, "no file .*train-labels-idx1-ubyte"),
    ],
    ids=range(7),
)
def test_bad_files_of_digits_are_named_in_one_line(handwriting, name, data, said):
    (handwriting / name).unlink()
    if data is not None:
        (handwriting / name).write_bytes(data)
    with pytest.raises(ValueError, match=said) as error:
        glyphs.load_glyphs(str(handwriting), "train")
    assert "\n" not in str(error.value)


def test_a_blank_glyph_is_refused_by_name(handwriting):
    pictures = np.zeros((30, 28, 28), np.uint8)
    pictures[1:, 5:20, 10:18] = 255
    (handwriting / "train-images-idx3-ubyte").write_bytes(idx(pictures))
    with pytest.raises(ValueError, match=r"picture 0 of \w+ is blank"):
        glyphs.load_glyphs(str(handwriting), "train")


@pytest.mark.parametrize(
    "settings", [{"smallest": 40}, {"size": 4}, {"noise": -1.0}, {"batch_size": 0}, {"clutter": -1}, {"largest": 99}]
)
def test_what_cannot_be_drawn_is_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must|do not fit pictures"):
        build(DigitImageConfig, settings)


@pytest.mark.parametrize("settings", [{"frames": 0}, {"max_digits": 0}, {"hidden": 1.0}, {"pace": -1.0}])
def test_frames_that_cannot_be_drawn_are_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must"):
        build(DigitFramesConfig, settings)


def test_glyphs_of_any_size_can_be_drawn_with():
    wide = Glyphs(np.full((1, 3, 20), 255, np.uint8), np.array([4]))
    ink = digit_scenes.render_glyph(wide.images[0], 9.0)
    assert ink.shape[1] > 4 * ink.shape[0]


@pytest.mark.parametrize("high", [5.0, 8.0, 9.3, 14.0, 40.0])
def test_a_hair_is_drawn_at_any_size(high):
    for place in range(8, 20):
        hair = np.zeros((28, 28), np.uint8)
        hair[3:25, place] = hair[place, 8:20] = 255
        assert digit_scenes.render_glyph(hair, high, stroke=0.6, slant=0.3).max() > 0.4
