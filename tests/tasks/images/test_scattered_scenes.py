"""Models that learn from scenes of scattered pictures, and the crops that their spatial transformers cut out."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import regard
from regard import checkpoint
from regard.cli import app
from regard.data.images.augmentation import AugmentConfig
from regard.interpret.trace import load as reload
from regard.models.spatial_transformer import corners
from regard.tasks.images.classifier import READ_AS_SCENES
from tests.data.images.drawing import fill
from tests.tasks.images.learner import learner

SMALL = {"name": "spatial-transformer", "searching": [4], "widths": [4, 4], "hidden": 8}
SHORT = {"steps": 2, "eval_every": 2, "save_every": 1, "device": "cpu", "tensorboard": False, "threads": 1}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each of three digits, of 12 x 12: as many stripes as the digit says."""
    root = tmp_path_factory.mktemp("digits")
    for digit in (1, 2, 3):
        (root / str(digit)).mkdir()
        for number in range(8):
            shades = np.random.default_rng([digit, number]).integers(0, 60, (12, 12), np.uint8)
            shades[:, 2 : 2 + 3 * digit : 3] += 190
            Image.fromarray(shades).save(root / str(digit) / f"{number}.png")
    return root


def asked(path: Path, count: int = 2, **sections: Any) -> dict[str, Any]:
    scatter = {"size": 32, "count": count, "scraps": [1, 3], "scrap": 4}
    data = {"train": {"path": str(path)}, "size": 12, "batch_size": 6, "validation_share": 0.25, "scatter": scatter}
    model = SMALL | {"transformers": count}
    return {"task": "pictures", "data": data, "model": model, "training": SHORT, **sections}


@pytest.fixture(scope="module")
def run(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of sums after two steps, whose transformers look somewhere else than at the whole picture."""
    folder = tmp_path_factory.mktemp("sums") / "run"
    regard.train(asked(digits), out=folder, quiet=True)
    return folder


def test_scenes_are_not_varied_where_nobody_asks(digits: Path) -> None:
    """Two of them cut into one, as single pictures are, would be a scene with half a digit: none comes twice anyway."""
    assert learner(asked(digits)).recipe.augment == AugmentConfig()
    assert learner(asked(digits, augment={"shift": 0.1})).recipe.augment == AugmentConfig(shift=0.1)


def test_labels_are_sums_of_what_a_scene_is_made_of(digits: Path) -> None:
    task = learner(asked(digits))
    assert task.prepared.classes == ["2", "3", "4", "5", "6"]
    assert task.recipe.model.size == 32
    assert task.recipe.data.size == 12
    batch = task.batch(1)
    assert batch.numbers.shape == (6, 2 + 3)
    train = task.prepared.train
    for numbers, label in zip(batch.numbers.tolist(), batch.labels.tolist(), strict=True):
        shown = [int(Path(train.place(number)).parent.name) for number in numbers[:2]]
        assert task.prepared.classes[label] == str(sum(shown))
    assert task.origins(batch) == [train.place(number) for number in batch.numbers[:, 0].tolist()]


def test_halves_of_a_row_and_pictures_on_the_device_lose_the_same(digits: Path) -> None:
    task = learner(asked(digits))
    task.model.eval()
    batch = task.batch(2)
    whole = task.step(batch, "model").loss
    assert whole.item() == pytest.approx(sum(task.step(half, "model").loss.item() for half in task.split(batch)))
    task.device_pixels = torch.from_numpy(task.prepared.train.pixels(np.arange(len(task.prepared.train))))
    again = task.batch(2)
    assert again.pixels is None
    assert torch.equal(task.step(again, "model").loss, whole)


def test_scenes_that_are_measured_on_are_always_the_same(digits: Path, run: Path) -> None:
    one, other = (learner(asked(digits, training={**SHORT, "seed": seed})).prepared.valid for seed in (0, 1))
    assert one.album.pixels.shape[1:] == (1, 32, 32)
    assert np.array_equal(one.album.pixels, other.album.pixels)
    assert np.array_equal(one.labels, other.labels)
    first, second = (regard.load(run).read_images(digits) for _ in range(2))
    assert np.array_equal(first.album.pixels, second.album.pixels)
    assert len(first) == 24
    scored = regard.load(run).evaluate(digits)
    truth = np.array([int(each.right) for each in scored.examples])
    assert np.array_equal(truth, 2 + first.labels)


def test_mean_and_deviation_are_those_of_scenes(digits: Path) -> None:
    found = learner(asked(digits)).prepared
    pixels = found.valid.pixels(np.arange(len(found.valid))) / 255
    assert found.mean[0] == pytest.approx(pixels.mean(), abs=0.03)
    assert found.mean[0] < 0.7 * float((found.train.pixels(np.arange(len(found.train))) / 255).mean())


def test_a_run_that_is_resumed_is_the_run_that_was_never_stopped(digits: Path, tmp_path: Path) -> None:
    four, two = (
        asked(digits, training={**SHORT, "steps": steps}, optim={"schedule": "constant", "warmup": 1})
        for steps in (4, 2)
    )
    whole = regard.train(four, out=tmp_path / "whole", quiet=True)
    regard.train(two, out=tmp_path / "parts", quiet=True)
    resumed = regard.train(four, out=tmp_path / "parts", quiet=True, resume=True)
    one, other = (checkpoint.read(each.best).tensors() for each in (whole, resumed))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_another_model_of_sums_goes_on_with_the_same_labels(digits: Path, run: Path, tmp_path: Path) -> None:
    further = regard.train(asked(digits), out=tmp_path / "further", start=str(run), quiet=True)
    assert checkpoint.read(further.best).config["labels"] == ["2", "3", "4", "5", "6"]


def test_a_model_of_coloured_sums_learns_is_resumed_and_told_about(digits: Path, tmp_path: Path) -> None:
    """Grey pictures become scenes of three channels; recipe, checkpoint and files that are written agree on it."""
    how = asked(digits)
    how["data"]["scatter"] |= {"colours": True}
    folder = tmp_path / "run"
    regard.train(how, out=folder, quiet=True)
    how["training"] = {**SHORT, "steps": 4}
    regard.train(how, out=folder, quiet=True, resume=True)
    model = regard.load(folder)
    assert (model.model.config.channels, model.data["channels"], len(model.data["mean"])) == (3, 1, 3)
    further = regard.train(how, out=tmp_path / "further", start=str(folder), quiet=True)
    assert len(regard.load(further.folder).evaluate(digits).examples) == 24
    with pytest.raises(ValueError, match=r"sees 3 numbers of a pixel, and these scenes have 1: leave out start="):
        regard.train(asked(digits), out=tmp_path / "grey", start=str(folder), quiet=True)
    done = CliRunner().invoke(app, ["data", "make", "scenes", str(folder), str(digits), str(tmp_path / "scenes")])
    assert done.exit_code == 0, done.output
    made, side = model.read_images(tmp_path / "scenes" / "labels.csv", scatter=False), model.read_images(digits)
    assert np.array_equal(made.album.pixels, side.pixels(np.arange(20)))
    assert side.album.pixels[:, :2].any()
    assert len(model.look(tmp_path / "scenes" / "00000.png").facts["crops"]) == 2


def test_crops_are_told_and_drawn_as_boxes(digits: Path, run: Path, tmp_path: Path) -> None:
    command = CliRunner()
    done = command.invoke(
        app, ["data", "make", "scenes", str(run), str(digits), str(tmp_path / "scenes"), "--count", "3"]
    )
    assert done.exit_code == 0, done.output
    written = sorted((tmp_path / "scenes").glob("*.png"))
    model = regard.load(run)
    side = model.read_images(digits)
    assert [path.stem for path in written] == ["00000", "00001", "00002"]
    for number, path in enumerate(written):
        with Image.open(path) as picture:
            assert np.array_equal(np.asarray(picture), side.pixels(np.array([number]))[0, 0])
    table = tmp_path / "scenes" / "labels.csv"
    made = model.read_images(table, scatter=False)
    assert np.array_equal(made.album.pixels, side.pixels(np.arange(3)))
    assert np.array_equal(made.labels, side.labels[:3])
    given = model.read_images(table)
    assert np.array_equal(given.album.pixels, made.album.pixels)
    assert READ_AS_SCENES in model.evaluate(table).notes
    for scatter, scenes in ((False, made), (True, model.read_images(table, scatter=True))):
        right = model.logits(torch.from_numpy(scenes.pixels(np.arange(3)))).argmax(-1).numpy() == scenes.labels
        words = ["evaluate", str(run), str(table), "-s", f"scatter={str(scatter).lower()}", "--json"]
        scored = command.invoke(app, words)
        assert scored.exit_code == 0, scored.output
        assert json.loads(scored.stdout)["metrics"]["accuracy, %"]["score"] == pytest.approx(100 * right.mean())
    assert not np.array_equal(scenes.pixels(np.arange(3)), made.pixels(np.arange(3)))
    with torch.no_grad():
        for number, transformer in enumerate(model.model.transformers):
            transformer.identity.copy_(torch.tensor([0.4, 0.1, -0.3 + 0.5 * number, -0.1, 0.4, 0.2]))
    trace = model.look(written[0])
    pixels = model.normalise(model.decode_images([written[0]]))
    truth = corners(model.model.looks(pixels))[0]
    torch.testing.assert_close(torch.tensor(trace.facts["crops"]), truth, rtol=0, atol=1e-5)
    trace.save(tmp_path / "trace.json")
    assert reload(tmp_path / "trace.json").facts["crops"] == trace.facts["crops"]
    from regard.interpret.draw import page, plots, terminal

    assert json.dumps(trace.facts["crops"][0][0])[1:-1].replace(" ", "") in page.render(trace)
    told = terminal.regions(trace).splitlines()
    assert [line[:7] for line in told[1:3]] == ["crop 1:", "crop 2:"]
    trace.items["asked"][0] = replace(trace.items["asked"][0], text="a label of so many letters that it needs lines")
    figure = plots.plot_on_picture(trace)
    assert figure.axes[0].get_ylabel().count("\n") == 1
    lines = figure.axes[0].lines
    assert len(lines) == 4, "a box and a dot for each crop"
    x, y = lines[0].get_data()
    np.testing.assert_allclose(np.stack([x, y], 1)[:4], 32 * truth[0].detach().numpy() - 0.5, rtol=0, atol=1e-3)


@torch.no_grad()
def test_a_map_of_a_crop_lies_on_the_picture_where_the_crop_does(run: Path) -> None:
    model = regard.load(run).model
    for transformer in model.transformers:
        transformer.pace = 0.0
        transformer.identity.copy_(torch.tensor([0.5, 0, -0.5, 0, 0.5, 0.5]))  # the lower left quarter
    maps = torch.zeros(1, *model.grid)
    maps[0, 0, -1] = 1.0  # its upper right corner, in the middle of the picture
    found = model.project_maps(maps, torch.randn(1, 1, 32, 32))[0]
    assert found.shape == model.field == (16, 16)
    row, column = divmod(int(found.argmax()), 16)
    assert (row, column) in [(8, 7)]
    assert found[:7].sum() == found[:, 9:].sum() == 0


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"scatter": {"size": 10}}, "data.scatter.size is 10, and pictures of 12 become up to 15 pixels"),
        ({"scatter": {}, "shortcut": {"label": "1"}}, "scatter and shortcut do not go together"),
        ({"scatter": {"count": 9}}, "data.scatter.count"),
        ({"scatter": {"scarps": [1, 2]}}, "did you mean scraps?"),
    ],
)
def test_bad_settings_are_refused_in_a_line(digits: Path, change: dict[str, Any], line: str) -> None:
    settings = asked(digits)
    settings["data"] |= change
    with pytest.raises(ValueError, match=r".*") as refused:
        learner(settings)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_cannot_be_added_up_and_other_models_have_no_scenes(tmp_path: Path, run: Path, digits: Path) -> None:
    from tests.data.images.drawing import fill

    photos = fill(tmp_path / "photos", 4)
    with pytest.raises(ValueError, match="'blue' is no whole number: give pictures labelled by numbers"):
        learner(asked(photos))
    with pytest.raises(ValueError, match="the label 'blue' is never learnt"):
        regard.load(run).evaluate(photos)
    refused = CliRunner().invoke(app, ["data", "make", "scenes", "en-fr", str(digits), str(tmp_path / "out")])
    assert "en-fr was not trained on scattered pictures" in str(refused.exception)


def test_a_folder_of_photos_is_learnt_without_the_modules_of_scenes_and_drawn_digits(tmp_path: Path) -> None:
    photos = fill(tmp_path / "photos", 6)
    settings = {"task": "pictures", "data": {"train": str(photos), "size": 8, "batch_size": 4}, "training": SHORT}
    settings["model"] = {"width": 16, "heads": 2, "hidden": 16, "depth": 1, "patch": 4}
    code = (
        "import sys, regard\n"
        f"regard.train({settings!r}, out={str(tmp_path / 'run')!r}, quiet=True)\n"
        f"regard.load({str(tmp_path / 'run')!r}).evaluate({str(photos)!r})\n"
        "print(*(name for name in sys.modules if name.startswith(('regard.tasks.', 'regard.data.images'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=3600, check=True)
    imported = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert "labelled_images" in imported
    assert not imported & {
        "scattered_scenes",
        "scene_task",
        "digit_scenes",
        "digit_file",
        "glyphs",
        "counting",
        "localisation",
    }
