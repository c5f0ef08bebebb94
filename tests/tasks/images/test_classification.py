"""A folder of pictures becomes a classifier: what is learnt from, what is held out, what is said of bad pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard import checkpoint, recipe
from regard.cli import run
from regard.data.images.image_dataset import ImageDataConfig, prepare
from regard.data.images.image_tables import LABEL
from regard.data.images.labelled_images import limit_images, training_row
from regard.metrics.labels import judge
from regard.tasks.image_inputs import expand_folder
from regard.tasks.images.scoring import ImageClassifierResults, classification_scores
from tests.data.images.drawing import draw, fill
from tests.tasks.images.learner import learner

TINY = {"width": 16, "heads": 2, "hidden": 16, "depth": 1, "patch": 4}
SHORT = {"steps": 2, "device": "cpu", "tensorboard": False, "threads": 1}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return fill(tmp_path / "photos", 10)


def asked(path: Any, **sections: Any) -> dict[str, Any]:
    data = {"train": {"path": str(path)}, "size": 8, "batch_size": 4, **sections.pop("data", {})}
    return {"task": "pictures", "data": data, "model": TINY, "training": SHORT, **sections}


def config(path: Path, **more: Any) -> ImageDataConfig:
    return recipe.resolve(asked(path, data=more))[1].data


def test_a_share_of_every_class_is_held_out_by_content(photos: Path) -> None:
    found = prepare(config(photos, validation_share=0.2))
    assert found.classes == ["blue", "green", "red"]
    assert np.bincount(found.valid.labels).tolist() == [2, 2, 2]
    assert np.bincount(found.train.labels).tolist() == [8, 8, 8]
    assert not set(found.train.marks.tolist()) & set(found.valid.marks.tolist())
    for path in sorted((photos / "red").iterdir()):
        path.rename(path.with_name(f"renamed-{path.name}"))
    again = prepare(config(photos, validation_share=0.2))
    assert set(found.valid.marks.tolist()) == set(again.valid.marks.tolist()), "names do not matter"
    other = prepare(config(photos, validation_share=0.2, seed=1))
    assert set(found.valid.marks.tolist()) != set(other.valid.marks.tolist())


def test_equal_pictures_are_on_one_side_of_a_split_and_named(photos: Path, tmp_path: Path) -> None:
    for number in range(10):
        Image.fromarray(draw("red", number)).save(photos / "red" / f"copy{number}.bmp")
    found = prepare(config(photos, validation_share=0.3))
    assert not set(found.train.marks.tolist()) & set(found.valid.marks.tolist())
    [line] = [line for line in found.summary if "equal to an earlier picture:" in line]
    assert "copy" in line
    valid = fill(tmp_path / "valid", 3)
    found = prepare(config(photos, valid={"path": str(valid)}))
    assert len(found.valid) == 9
    assert not set(found.train.marks.tolist()) & set(found.valid.marks.tolist())
    [line] = [line for line in found.summary if "left out of training" in line]
    assert line.startswith("left out of training: 12 equal to pictures that are measured on: ")
    assert "blue/00.png" in line


def test_pictures_to_learn_from_that_are_among_those_to_test_on_are_named(tmp_path: Path) -> None:
    train, test = fill(tmp_path / "both" / "train", 6), fill(tmp_path / "both" / "test", 2)
    for colour in ("blue", "green"):
        Image.fromarray(draw(colour, 77)).save(test / colour / "00.png")
    found = prepare(config(tmp_path / "both", validation_share=0.2))
    told = [line for line in found.summary if "to test on" in line]
    learnt = {str(path) for path in train.rglob("*.png")} & {found.train.place(n) for n in range(len(found.train))}
    expected = [
        name for name in ("blue/01.png", "green/01.png", "red/00.png", "red/01.png") if str(train / name) in learnt
    ]
    assert told[0].startswith(f"{len(expected)} equal to pictures to test on: ")
    assert all(name in told[0] for name in expected)
    (test / "red" / "00.png").write_bytes(b"nonsense")
    assert prepare(config(tmp_path / "both", validation_share=0.2)), "what is only tested on may be bad"


def test_an_equal_picture_with_another_label_is_named_wherever_it_is(photos: Path) -> None:
    picture = photos / "red" / "00.png"
    (photos / "blue" / "copy.png").write_bytes(picture.read_bytes())
    for held in (0.1, 0.9):  # the copies stay together: with most pictures held out, they are
        summary = prepare(config(photos, validation_share=held)).summary
        names = [line for line in summary if "measured on" in line or "with another label" in line]
        assert "blue/copy.png" in "".join(names) or "red/00.png" in "".join(names)
    assert any("1 equal to an earlier picture with another label: " in line for line in summary)


def test_a_class_of_damaged_pictures_alone_is_named(photos: Path) -> None:
    (photos / "violet").mkdir()
    (photos / "violet" / "a.png").write_bytes(b"nonsense")
    summary = prepare(config(photos, reject=0.2)).summary
    assert "classes without a usable picture, so not learnt: violet: mend or remove them" in summary


def test_where_no_picture_can_be_read_the_reasons_are_told(photos: Path) -> None:
    table = photos.parent / "a.csv"
    table.write_text("path,label\nred/00.png,red\nblue/00.png,blue\n")
    with pytest.raises(ValueError, match=r"a.csv: none of its pictures is there, the first would be .*/red/00.png: "):
        prepare(config(table, size=None))
    table.write_text("path,label\nphotos,red\nphotos/blue,blue\n")
    with pytest.raises(ValueError, match=r"a.csv: no usable picture: 2 no file but a pipe.*: .*a.csv:2, 3"):
        prepare(config(table, size=None))
    table.write_text("path,label\nphotos/red/00.png\n")
    with pytest.raises(ValueError, match=r"1 cell under 2 columns: correct the line: .*a.csv:2"):
        prepare(config(table, size=None))


def test_a_table_without_labels_or_paths_says_what_it_has(photos: Path) -> None:
    table = photos / "a.csv"
    table.write_text("path,kind\nred/00.png,red\n")
    with pytest.raises(
        ValueError, match=r"which column holds the label \(path, kind\): name it, data.train.label=COLUMN"
    ):
        prepare(config(table))
    table.write_text("kind,size\nred,3\n")
    with pytest.raises(ValueError, match=r"cannot tell which column holds the picture \(kind, size\): name it"):
        prepare(config(table))


def test_a_folder_stands_for_its_picture_files_but_hidden_ones(photos: Path) -> None:
    (photos / "red" / "folder.png").mkdir()
    for name in (".hidden.png", "folder.png/in.png"):
        (photos / "red" / name).write_bytes((photos / "red" / "00.png").read_bytes())
    found = [Path(each).relative_to(photos / "red").as_posix() for each in expand_folder(photos / "red")]
    assert found == [*(f"{number:02}.png" for number in range(10)), "folder.png/in.png"]


def test_a_limit_takes_classes_alike(photos: Path) -> None:
    found = prepare(config(photos, validation_share=0.1, max_images=9))
    assert np.bincount(found.train.labels).tolist() == [3, 3, 3]
    whole = prepare(config(photos, validation_share=0.1)).train
    few, more = (set(limit_images(whole, most, 0).marks.tolist()) for most in (3, 9))
    assert few < more


def test_mean_and_deviation_are_those_of_the_training_pictures(photos: Path) -> None:
    found = prepare(config(photos))
    pixels = found.train.pixels(np.arange(len(found.train))) / 255
    assert np.allclose(found.mean, pixels.mean((0, 2, 3)), atol=1e-4)
    assert np.allclose(found.std, pixels.std((0, 2, 3)), atol=1e-4)
    assert prepare(config(photos, mean=[0.5] * 3, std=[0.25] * 3)).mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("batch", [4, 7, 64])
def test_rows_are_full_and_every_picture_comes_once_a_pass(photos: Path, batch: int) -> None:
    train = prepare(config(photos)).train
    rows = [training_row(train, row, batch=batch, seed=3) for row in range(-(-2 * len(train) // batch))]
    assert all(len(chosen) == len(places) == batch for chosen, places in rows)
    order = np.concatenate([chosen for chosen, _ in rows])
    for first in (0, len(train)):
        assert sorted(order[first : first + len(train)].tolist()) == list(range(len(train)))
    assert order[: len(train)].tolist() != order[len(train) : 2 * len(train)].tolist()
    places = np.concatenate([places for _, places in rows])
    assert places.tolist() == list(range(len(order)))


def test_the_order_does_not_depend_on_the_batch(photos: Path) -> None:
    train = prepare(config(photos)).train
    orders = [
        np.concatenate([training_row(train, row, batch=batch, seed=3)[0] for row in range(24 // batch)]).tolist()
        for batch in (2, 4, 12)
    ]
    assert orders[0] == orders[1] == orders[2]


def test_halves_of_a_row_lose_what_the_whole_loses(photos: Path) -> None:
    mixed = {"shift": 0.2, "flip": True, "operations": 1, "mixup": 0.5, "cutmix": 1.0, "erase": 0.5}
    task = learner(asked(photos, data={"batch_size": 12}, augment=mixed, objective={"label_smoothing": 0.1}))
    task.model.eval()
    batch = task.batch(0)
    halves = task.split(batch)
    assert [len(half) for half in halves] == [6, 6]
    assert [len(part) for part in task.split(halves[0])] == [2, 4]
    assert len(task.split(task.split(halves[0])[0])) == 1, "a pair stays together"
    losses = [task.step(each, "model").loss.item() for each in (batch, *halves)]
    assert losses[0] == pytest.approx(sum(losses[1:]), rel=1e-5)
    assert task.origins(batch)[0] == task.prepared.train.place(int(batch.numbers[0]))


def test_pictures_kept_on_the_device_give_the_same_loss(photos: Path) -> None:
    task = learner(asked(photos, augment={"flip": True, "operations": 1}))
    task.model.eval()
    before = task.step(task.batch(3), "model").loss
    task.device_pixels = torch.from_numpy(task.prepared.train.pixels(np.arange(len(task.prepared.train))))
    batch = task.batch(3)
    assert batch.pixels is None
    assert torch.equal(task.step(batch, "model").loss, before)


def test_many_classes_are_scored_by_the_five_likeliest_too(photos: Path) -> None:
    side = prepare(config(photos)).train
    names, count = [str(number) for number in range(20)], len(side)
    logits = np.tile(np.arange(20.0), (count, 1))
    found = ImageClassifierResults(judge(side.labels, logits.argmax(-1), names), logits, np.arange(count) % 20)
    expected = np.mean([number % 20 >= 15 for number in range(count)])
    assert found.metrics["top5"] == pytest.approx(expected)
    scores = classification_scores("x", "pictures", side, found, 1.0)
    assert scores.metrics["top-5 accuracy, %"] == pytest.approx(100 * expected)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({}, ("muon", 0.002)),
        ({"optim": {"name": "adamw"}}, ("adamw", 0.001)),
        ({"optim": {"learning_rate": 0.01}}, ("adamw", 0.01)),
        ({"model": {"name": "resnet"}}, ("adamw", 0.001)),
    ],
)
def test_muon_is_chosen_for_a_vit_from_nothing_where_nobody_says_how(photos: Path, sections, expected) -> None:
    task = learner(asked(photos, **sections))
    assert (task.recipe.optim.name, task.recipe.optim.learning_rate) == expected


def test_variations_are_chosen_only_where_nobody_named_any(photos: Path) -> None:
    chosen = learner(asked(photos)).recipe.augment
    assert (chosen.shift, chosen.flip, chosen.operations, chosen.cutmix) == (0.125, True, 1, 1.0)
    named = learner(asked(photos, augment={"flip": True})).recipe.augment
    assert (named.shift, named.flip, named.operations, named.cutmix) == (0.0, True, 0, 0.0)


def test_the_loss_of_a_mixture_is_that_of_both_labels(photos: Path) -> None:
    task = learner(asked(photos, augment={"mixup": 1.0}, objective={"label_smoothing": 0.1}))
    task.model.eval()
    batch = task.batch(0)
    shown = task.augment(batch.pixels, batch.labels, batch.places)
    targets = torch.zeros(4, 3)
    rows = torch.arange(4)
    targets[rows, shown.labels] += shown.share
    targets[rows, shown.others] += 1 - shown.share
    targets = 0.9 * targets + 0.1 / 3
    expected = -(targets * task.model(shown.pixels).log_softmax(-1)).sum()
    assert torch.allclose(task.step(batch, "model").loss, expected, rtol=1e-5)


def test_colours_are_learnt_and_told(photos: Path, tmp_path: Path) -> None:
    settings = asked(
        photos,
        data={"batch_size": 16},
        optim={"name": "adamw", "learning_rate": 0.01, "warmup": 5, "schedule": "cosine"},
        training={**SHORT, "steps": 40, "eval_every": 20, "ema": 0.9},
    )
    outcome = recipe.train(settings, out=tmp_path / "run", quiet=True)
    assert outcome.metrics["accuracy"] == 1.0
    model = regard.load(tmp_path / "run", device="cpu")
    fresh = fill(tmp_path / "fresh", 4, first=50)
    assert model.evaluate(str(fresh)).metrics["accuracy, %"] == 100.0
    sights = model.classify([fresh / "red" / "50.png", draw("blue", 60), draw("green", 61) / 255])
    assert [sight.label for sight in sights] == ["red", "blue", "green"]
    assert sum(sights[0].all.values()) == pytest.approx(1, abs=1e-5)
    assert [sight.label for sight in model.classify(str(fresh / "green"))] == ["green"] * 4
    assert model.classify(draw("red", 70))[0].label == "red"
    trace = model.look(fresh / "red" / "50.png")
    assert len(trace.items["source"]) == 1 + 4
    assert trace.items["source"][1].box == (0.0, 0.0, 0.5, 0.5)
    assert trace.facts["answer"] == "red"
    with pytest.raises(ValueError, match=r"none.png: missing file: check the path"):
        model.classify("none.png")


def test_a_model_goes_on_with_other_classes_and_another_size(photos: Path, tmp_path: Path) -> None:
    recipe.train(asked(photos), out=tmp_path / "first", quiet=True)
    two = fill(tmp_path / "two", 8, ("blue", "red"))
    (two / "red").rename(two / "crimson")
    settings = {name: part for name, part in asked(two, data={"size": None}).items() if name != "model"}
    recipe.train(settings, out=tmp_path / "second", start=tmp_path / "first", quiet=True)
    log = (tmp_path / "second" / "train.log").read_text()
    assert "tensors taken over, made anew: head" in log
    before, after = (checkpoint.peek(tmp_path / name / "best").config for name in ("first", "second"))
    assert after["data"]["mean"] == before["data"]["mean"], "scales belong to the weights"
    assert (after["model"]["size"], after["model"]["classes"], after["labels"]) == (8, 2, ["blue", "crimson"])
    settings["data"]["size"] = 16
    recipe.train(settings, out=tmp_path / "third", start=tmp_path / "second", quiet=True)
    assert checkpoint.peek(tmp_path / "third" / "best").config["model"]["size"] == 16
    assert "made anew" not in (tmp_path / "third" / "train.log").read_text(), "positions are interpolated"


def said(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    status = run([str(word) for word in words])
    out, error = capsys.readouterr()
    return status, out, error


def test_from_a_folder_to_answers_by_commands(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    small = [f"model.{name}={value}" for name, value in TINY.items()]
    status, told, log = said(
        capsys, "train", "--pictures", photos, "--out", out, *small, "training.steps=2", "training.tensorboard=false"
    )
    assert status == 0
    assert f"use it with: regard classify {out} PICTURE" in told
    log = (out / "train.log").read_text()
    assert "labelled pictures: training a classifier" in log
    assert "27 colour pictures of 20 x 20 to learn 3 classes from, 3 to measure on" in log
    assert "fewer than 5,000 pictures" in log
    one = photos / "red" / "00.png"
    status, told, _ = said(capsys, "classify", out, one, photos / "blue", "--device", "cpu")
    assert status == 0
    assert [line.split("\t")[0] for line in told.splitlines()] == [
        str(one),
        *map(str, sorted((photos / "blue").iterdir())),
    ]
    status, told, _ = said(capsys, "classify", out, one, "--json", "--device", "cpu")
    [answer] = map(json.loads, told.splitlines())
    assert answer.keys() == {"picture", "label", "probability", "all"}
    status, told, _ = said(capsys, "classify", out, one, "--all", "--device", "cpu")
    assert len(told.split("\t")) == 1 + 2 * 3
    status, told, _ = said(capsys, "evaluate", out, photos, "--json", "--device", "cpu")
    assert json.loads(told)["metrics"]["accuracy, %"]["score"] >= 0
    (photos / "red" / "bad.png").write_bytes(b"")
    status, told, error = said(capsys, "evaluate", out, photos, "--device", "cpu")
    assert (status, "red/bad.png; mend them, or allow a share of them: -s reject=0.05" in error) == (1, True)
    status, told, error = said(capsys, "explain", out, "--judge", photos, "--device", "cpu")
    assert (status, "red/bad.png; mend them, or leave them out" in error) == (1, True), "there is no setting to name"
    status, told, error = said(capsys, "predict", out, one, "-o", one, "--device", "cpu")
    assert (status, "would be overwritten" in error) == (1, True)
    status, told, error = said(capsys, "classify", out, one, "-o", tmp_path / "answer.png", "--device", "cpu")
    assert (status, "answers are written as text: choose jsonl, csv or txt" in error) == (1, True)
    status, told, error = said(capsys, "evaluate", out, photos, "-s", "reject=0.1", "--device", "cpu")
    assert (status, "refused: 1 empty file" in told) == (0, True)
    status, told, error = said(capsys, "classify", out, one, "-o", one, "--device", "cpu")
    assert (status, "would be overwritten" in error) == (1, True)
    status, told, error = said(capsys, "classify", out, tmp_path / "cache-none", "--device", "cpu")
    assert (status, error.count("\n"), "missing file: check the path" in error) == (1, 1, True)


def test_data_check_says_what_is_odd(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (photos / "red" / "bad.png").write_bytes(b"nonsense")
    (photos / "single").mkdir()
    Image.fromarray(draw("red", 99)).save(photos / "single" / "a.png")
    (photos / "none").mkdir()
    words = ["data", "check", "--pictures", photos, "data.size=8"]
    status, told, _ = said(capsys, *words, "--json")
    report = json.loads(told)
    assert status == 1
    assert "1 of 32 pictures are refused, more than the allowed 1.00%" in report["problems"][0]
    assert "red/bad.png" in report["problems"][0]
    assert [line for line in report["summary"] if "none: no picture, so this class is not learnt" in line]
    status, told, _ = said(capsys, *words, "data.reject=0.1", "--json")
    assert status == 0
    lines = json.loads(told)["summary"]
    for part in (
        "refused: 1 no picture: give PNG, JPEG or WebP: ",
        "none: no picture, so this class is not learnt: add some or remove it",
        "classes with one picture to learn from: single: add pictures of them",
        "classes that are never measured: single",
    ):
        assert [line for line in lines if part in line], part


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"valid": "zebras"},
            r"zebra/a.png: the label 'zebra' is never learnt: correct it, or leave it out; there are",
        ),
        ({"train": "one"}, r"has only the class 'blue': give pictures of two classes at least"),
        ({"train": "nowhere"}, r"no file .*nowhere here"),
        ({"size": 30}, r"a picture of 30 pixels is no row of patches of 4: set model.patch to a divisor of 30"),
        ({"batch_size": 5}, r"data.batch_size is 5, and pictures are mixed in pairs: give an even number"),
        ({"channels": 2}, r"channels must be 3, of colours, or 1, of grey"),
        ({"mean": [0.5], "channels": 3}, r"mean has 1 numbers for 3 channels"),
    ],
)
def test_what_cannot_be_learnt_from_is_said_in_a_line(
    photos: Path, tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    (tmp_path / "zebras" / "zebra").mkdir(parents=True)
    Image.fromarray(draw("red", 1)).save(tmp_path / "zebras" / "zebra" / "a.png")
    fill(tmp_path / "one", 3, ("blue",))
    data = {
        name: {"path": str(tmp_path / each)} if name in ("train", "valid") else each for name, each in wrong.items()
    }
    settings = asked(photos, augment={"mixup": 1.0})
    settings["data"] |= data
    with pytest.raises(ValueError, match=message) as error:
        learner(settings)
    assert "\n" not in str(error.value)


def test_columns_of_a_table_are_labels(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"photos/{label}/{number:02}.png,{label}" for label in ("blue", "red") for number in range(10)]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *rows]))
    order = recipe.order([str(tmp_path / "labels.csv")])
    assert order.settings["task"] == "pictures", "its columns tell"
    found = prepare(config(tmp_path / "labels.csv"))
    assert found.classes == ["blue", "red"]
    assert found.train.album.columns[LABEL][0] == "blue"
    assert found.train.place(0).startswith(f"{tmp_path}/labels.csv:")
