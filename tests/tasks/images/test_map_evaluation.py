"""Maps judged by boxes that are known, on a network whose evidence is known: it tells colours in squares of pixels."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from regard import models, recipe
from regard.cli import app, run
from regard.data.images.sources import BOX, PictureFile, shelve
from regard.metrics import maps as measures
from regard.metrics.boxes import iou
from regard.models.detector import ClassAndBox, LocatorConfig
from regard.tasks.images.classifier import ImageClassifier
from regard.tasks.scenes import digit_scenes
from regard.tasks.scenes.digit_scenes import DigitImageConfig
from regard.tasks.scenes.localisation import Locator
from tests.interpret.colours import Colours, ColoursConfig

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

SIZE = 16
NAMES = ["red", "green", "blue"]


@pytest.fixture
def colours(monkeypatch: pytest.MonkeyPatch) -> ImageClassifier:
    monkeypatch.setattr(models, "build", lambda config: Colours(config, trained=False))
    model = Colours(ColoursConfig(size=SIZE, channels=3))
    return ImageClassifier(model, NAMES, {"mean": [0, 0, 0], "std": [1, 1, 1]}, "colours")


def painted(path: Path, count: int = 24, **changes: np.ndarray) -> Path:
    """One square of a colour in each picture, with its box."""
    chance = np.random.default_rng(0)
    pictures, boxes = np.zeros((count, SIZE, SIZE, 3), np.uint8), np.zeros((count, 4))
    for number in range(count):
        left, top = 2 * chance.integers(0, 5, 2)
        pictures[number, top : top + 6, left : left + 6, number % 3] = 255
        boxes[number] = np.array([left, top, left + 6, top + 6]) / SIZE
    arrays = {"pictures": pictures, "labels": np.arange(count) % 3, "boxes": boxes, "classes": np.array(NAMES)}
    np.savez(path, **{**arrays, **changes})
    return path


def locator(size: int = SIZE) -> Locator:
    torch.manual_seed(0)
    return Locator(ClassAndBox(LocatorConfig(size=size, channels=(8, 8), width=8)), "locator")


def test_maps_are_held_against_boxes_beside_a_model_that_draws_some(colours: ImageClassifier, tmp_path: Path) -> None:
    path, other = painted(tmp_path / "squares.npz"), locator()
    found = colours.judge_maps(path, against=other, grids=12, singles=4)
    assert (found.boxed_count, found.correct_count) == (12, 24)
    assert found.box_area == pytest.approx((6 / SIZE) ** 2)
    for name in ("cam", "gradcam"):
        assert [one.score for one in found.boxed_checks[name].values()] == pytest.approx([1, 1, 1])
    assert found.boxed_checks["uniform"]["overlap"].score == pytest.approx(found.box_area)
    assert found.boxed_checks["uniform"]["inside"].score == pytest.approx(found.box_area)
    with np.load(path) as held:
        pictures, true = held["pictures"], torch.from_numpy(held["boxes"]).float()
    with torch.no_grad():
        guesses = other.model(torch.from_numpy(pictures.mean(3) / 255).float())[1]
    each = found.boxed_checks["locator"]["overlap"].counts[:, 0]
    wanted = iou(guesses, true).double().numpy()
    assert np.abs(each[:, None] - wanted).min(1).max() < 1e-6
    assert list(found.boxed_checks["locator"]) == ["pointing", "overlap"]
    assert found.plain()["boxed"]["cam"]["overlap"]["mean"] == pytest.approx(1)
    assert set(found.plain()["boxed"]) == {
        "cam",
        "gradcam",
        "centre",
        "uniform",
        "random",
        "untrained",
        "locator",
    }
    assert found.p_value("gradcam", "centre", "overlap", boxed=True) < 0.01
    assert found.boxed_rows()[-1][2] == "-"


def test_a_single_picture_has_a_score_and_no_spread(colours: ImageClassifier, tmp_path: Path) -> None:
    found = colours.judge_maps(painted(tmp_path / "one.npz", 1), grids=4, singles=1)
    assert found.boxed_rows()[0] == ["cam", "1.000", "1.000", "1.000"]


def test_without_boxes_there_is_nothing_to_hold_maps_against(colours: ImageClassifier, tmp_path: Path) -> None:
    with np.load(painted(tmp_path / "a.npz")) as held:
        np.savez(tmp_path / "b.npz", **{name: held[name] for name in held if name != "boxes"})
    found = colours.judge_maps(tmp_path / "b.npz", grids=4, singles=2)
    assert "boxed" not in found.plain()
    with pytest.raises(ValueError, match="--against needs pictures whose boxes are known: `regard data make digits"):
        colours.judge_maps(tmp_path / "b.npz", against=locator())
    with pytest.raises(ValueError, match="locator reads pictures of 24 pixels and these have 16"):
        colours.judge_maps(tmp_path / "a.npz", against=locator(24))


def test_boxes_are_judged_where_one_label_leaves_no_grids(colours: ImageClassifier, tmp_path: Path) -> None:
    found = colours.judge_maps(painted(tmp_path / "a.npz", labels=np.full(24, 2)), grids=8, singles=4)
    assert (found.grid_count, found.correct_count, found.boxed_count) == (0, 8, 8)
    assert found.boxed_checks["cam"]["pointing"].score == 1
    assert "pointing" not in found.checks["cam"]
    assert found.p_value("gradcam", "centre") is None
    assert found.rows()[0][1] == "-"


@pytest.mark.parametrize(
    ("boxes", "message"),
    [
        (np.zeros((24, 3)), r"boxes of shape \(24, 3\) for 24 pictures: give left, top, right, bottom"),
        (np.tile([0.0, 0.0, 8.0, 8.0], (24, 1)), r"a.npz:0: \[0.0, 0.0, 8.0, 8.0\] is no box"),
        (np.tile([0.5, 0.0, 0.5, 1.0], (24, 1)), "is no box"),
        (np.full((24, 4), np.nan), "is no box"),
        (np.full((24, 4), "a"), "boxes of shape"),
    ],
)
def test_what_is_no_box_is_named(boxes: np.ndarray, message: str, tmp_path: Path) -> None:
    path = painted(tmp_path / "a.npz", boxes=boxes)
    with pytest.raises(ValueError, match=message):
        shelve(PictureFile(path=str(path)))


def test_boxes_are_of_square_pictures(tmp_path: Path) -> None:
    path = painted(tmp_path / "a.npz", pictures=np.zeros((24, 16, 8, 3), np.uint8))
    with pytest.raises(ValueError, match="not square"):
        shelve(PictureFile(path=str(path)))


def test_drawn_digits_are_those_of_localisation_and_test_ones_are_new(tmp_path: Path) -> None:
    assert run(["data", "make", "digits", str(tmp_path / "d"), "--count", "20", "--seed", "3"]) == 0
    file = PictureFile(path=str(tmp_path / "d" / "digits.npz"))
    train, test = shelve(file), shelve(file, part="test")
    assert (len(train), len(test)) == (20, 2)
    own = DigitImageConfig(seed=3)
    for shelf, part, first in ((train, "train", 0), (test, "valid", own.valid)):
        picture, label, box = digit_scenes.scene_dataset(own, part)[first]
        assert np.array_equal(shelf.pictures[0], np.rint(255 * picture))
        assert shelf.columns["label"][0] == str(label)
        assert shelf.columns[BOX][0] == pytest.approx(box.tolist())


def test_a_box_in_a_grid_is_drawn_at_the_level_that_is_best_for_others(
    colours: ImageClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn_at = list[float]()
    monkeypatch.setattr(measures, "LEVELS", (0.2, 0.9))
    bounding_boxes = measures.bounding_boxes
    monkeypatch.setattr(
        measures, "bounding_boxes", lambda maps, level=0.5: drawn_at.append(level) or bounding_boxes(maps, level)
    )
    colours.judge_maps(painted(tmp_path / "squares.npz"), grids=4, singles=1)
    assert set(drawn_at) == {0.2, 0.9}, "in grids and in pictures with boxes"


def test_the_command_prints_both_tables(
    colours: ImageClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, known = painted(tmp_path / "squares.npz"), {"colours": colours, "locator": locator()}
    monkeypatch.setattr(recipe, "load", lambda name, **_: known[Path(name).name])
    for name in known:
        (tmp_path / name).mkdir()
    asked = ["explain", str(tmp_path / "colours"), "--judge", str(path)]
    shown = CliRunner().invoke(app, [*asked, "--against", str(tmp_path / "locator")], env={"COLUMNS": "120"})
    assert shown.exit_code == 0, shown.output
    assert "pictures with boxes: 24" in shown.output
    assert "locator was trained on boxes, the maps were not." in " ".join(shown.output.split())
    assert re.search(r"gradcam (above|below|level with) centre, overlap: p = ", shown.output)
    wrong = CliRunner().invoke(app, [*asked, "--against", str(tmp_path / "colours")])
    assert "--against is for models that find digits: colours is a classifier of pictures" in str(wrong.exception)
    narrow = CliRunner().invoke(app, asked, env={"COLUMNS": "80"})
    assert max(map(len, narrow.output.splitlines())) <= 80
    heads = [line.split() for line in narrow.output.splitlines() if line.startswith("method")]
    placed = ["pointing", "inside", "overlap"]
    assert heads == [["method", *each] for each in (placed, ["deletion", "insertion", "change"], placed)]
    assert not any(line.rstrip().endswith("±") for line in narrow.output.splitlines()), "numbers stay whole"
    assert "single pictures: 24" in narrow.output
    assert "uniform, every region alike" in " ".join(narrow.output.split())
