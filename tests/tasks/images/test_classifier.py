"""A classifier of pictures meets what is odd: files that are none, links that lead away, sizes that do not fit."""

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import regard
from regard import checkpoint
from regard.cli import run
from regard.models.vit import ViTConfig
from regard.tasks.image_inputs import expand_folder
from regard.tasks.image_model_sizes import default_model_sizes
from tests.data.images.drawing import fill

BRIEF = ["training.steps=2", "training.tensorboard=false", "training.device=cpu"]
SMALL = ["model.width=16", "model.hidden=16", "model.depth=1", *BRIEF]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("photos"), 6)


@pytest.fixture(scope="module")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    assert run(["train", "--pictures", str(photos), "--out", str(out), "data.size=16", *SMALL]) == 0
    return out


def answered(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, list[str], list[str]]:
    capsys.readouterr()
    status = run([*map(str, words), "--device", "cpu"])
    out, error = capsys.readouterr()
    return status, out.splitlines(), error.splitlines()


def test_of_several_pictures_those_that_are_none_are_told_and_the_others_answered(trained, tmp_path, capsys) -> None:
    folder = fill(tmp_path / "some", 3, ("red",)) / "red"
    (folder / "01.png").write_bytes((folder / "01.png").read_bytes()[:60])
    (folder / "99.png").write_bytes(b"")
    status, lines, said = answered(capsys, "classify", trained, folder)
    assert status == 1
    assert [line.partition("\t")[0] for line in lines] == [str(folder / "00.png"), "", str(folder / "02.png"), ""]
    assert [line.split(": ")[:2] for line in said] == [
        ["regard", str(folder / "01.png")], ["regard", str(folder / "99.png")],
    ]  # fmt: skip
    (tmp_path / "list.txt").write_text("".join(f"{path}\n" for path in sorted(folder.iterdir())))
    status, lines, said = answered(capsys, "classify", trained, "-i", tmp_path / "list.txt", "--json")
    answers = [json.loads(line) for line in lines]
    assert [answer["picture"] for answer in answers] == list(map(str, sorted(folder.iterdir())))
    assert [answer["label"] is None for answer in answers] == [False, True, False, True]
    (folder / "98.png").symlink_to(folder / "nowhere.png")
    os.mkfifo(folder / "97.png")
    status, lines, said = answered(capsys, "classify", trained, folder)
    assert (status, len(lines), len(said)) == (1, 6, 4), "a link that leads nowhere and a pipe are told of too"
    status, lines, said = answered(capsys, "classify", trained, folder / "99.png")
    assert (status, lines, len(said)) == (1, [], 1)
    status, lines, said = answered(capsys, "classify", trained, folder / "00.png")
    assert (status, len(lines), said) == (0, 1, [])
    (tmp_path / "raw.heic").write_bytes(b"not read here")
    status, lines, said = answered(capsys, "classify", trained, tmp_path / "raw.heic", folder / "00.png")
    assert (status, len(lines)) == (1, 2)
    assert said == [f"regard: {tmp_path / 'raw.heic'}: no picture: give PNG, JPEG or WebP"]


@pytest.mark.filterwarnings("default")
def test_of_an_animated_picture_the_first_frame_is_answered_for_and_a_line_says_so(trained, tmp_path, capsys) -> None:
    film = tmp_path / "film.gif"
    first, *later = (Image.new("RGB", (16, 16), colour) for colour in ("blue", "red", "green"))
    first.save(film, save_all=True, append_images=later)
    first.save(tmp_path / "still.gif")
    status, lines, said = answered(capsys, "classify", trained, film, tmp_path / "still.gif")
    assert status == 0
    assert said == [f"regard: {film}: animated, of which the first frame is taken: save another by itself"]
    assert len({line.partition("\t")[2] for line in lines}) == 1
    status, lines, said = answered(capsys, "explain", trained, film)
    assert said[0] == f"regard: {film}: animated, of which the first frame is taken: save another by itself"
    assert len(said) == 2, "the other is the answer"


def test_scores_on_pictures_that_were_learnt_from_are_told_to_be_such(photos, trained, tmp_path, capsys) -> None:
    _, lines, _ = answered(capsys, "evaluate", trained, photos, "--json")
    [note] = json.loads("\n".join(lines))["notes"]
    assert "it has learnt from pictures that are here (" in note
    others = fill(tmp_path / "others", 9)
    for path in photos.rglob("*.png"):
        (others / path.relative_to(photos)).unlink()
    (others / "red" / "bad.png").write_bytes(b"nonsense")
    _, lines, _ = answered(capsys, "evaluate", trained, others, "--json", "-s", "reject=0.2")
    [note] = json.loads("\n".join(lines))["notes"]
    assert note.startswith("refused: 1 no picture"), "what is left out is told in JSON too"


def test_a_folder_answers_for_no_picture_outside_it(photos, tmp_path) -> None:
    fill(tmp_path / "some", 1, ("red",))
    (tmp_path / "some" / "inside.png").symlink_to(tmp_path / "some" / "red" / "00.png")
    assert len(expand_folder(tmp_path / "some")) == 2
    (tmp_path / "some" / "linked.png").symlink_to(photos / "blue" / "00.png")
    with pytest.warns(UserWarning, match=r"linked.png: a link that leaves the folder"):
        assert len(expand_folder(tmp_path / "some")) == 2, "the others are answered for"


def test_sizes_follow_from_what_was_named() -> None:
    assert default_model_sizes(ViTConfig(width=90), 100, 32)["heads"] == 3
    assert default_model_sizes(ViTConfig(width=128), 10_000, 32) | {"hidden": 0} == {
        "width": 128, "depth": 6, "heads": 2, "hidden": 0, "patch": 4,
    }  # fmt: skip
    patches = {size: default_model_sizes(ViTConfig(), 100, size)["patch"] for size in (8, 9, 28, 32, 49, 96, 224)}
    assert patches == {8: 4, 9: 3, 28: 4, 32: 4, 49: 7, 96: 6, 224: 14}
    assert default_model_sizes(ViTConfig(patch=97), 100, 97)["patch"] == 97
    for size, near in ((97, 96), (94, 88)):
        with pytest.raises(ValueError, match=f"set data.size to another, such as {near}, or name model.patch"):
            default_model_sizes(ViTConfig(), 100, size)


def test_a_model_goes_on_with_pictures_cut_or_squeezed_as_its_own_were(photos, tmp_path) -> None:
    sizes = ["data.size=16", *SMALL]
    begun = ["train", "--pictures", str(photos), "--out", str(tmp_path / "run"), "data.fit=squeeze", *sizes]
    assert run(begun) == 0
    again = ["train", "--pictures", str(photos), "--from", str(tmp_path / "run"), *BRIEF]
    assert run([*again, "--out", str(tmp_path / "again")]) == 0
    assert checkpoint.peek(tmp_path / "again" / "best").config["data"]["fit"] == "squeeze"
    assert run([*again, "--out", str(tmp_path / "cut"), "data.fit=crop"]) == 0
    assert checkpoint.peek(tmp_path / "cut" / "best").config["data"]["fit"] == "crop", "what is named counts"


def test_an_animated_picture_is_told_once_whatever_else_is_asked_about(trained, photos, tmp_path, capsys) -> None:
    frames = [Image.open(photos / colour / "00.png").convert("P") for colour in ("red", "blue")]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    (tmp_path / "x.png").write_bytes(b"no picture")
    words = [tmp_path / "film.gif", tmp_path / "x.png", photos / "red" / "00.png"]
    with warnings.catch_warnings(action="default"):
        status, lines, said = answered(capsys, "classify", trained, *words)
    assert (status, len(lines), len(said)) == (1, 3, 2)
    assert sum("animated, of which" in line for line in said) == 1


def test_pictures_smaller_than_a_patch_of_the_model_are_told_and_used(tmp_path, capsys) -> None:
    folder = fill(tmp_path / "photos", 6)
    tiny, fine = folder / "red" / "tiny.jpg", folder / "red" / "00.png"
    Image.new("RGB", (20, 7), "red").save(tiny)
    small = "smaller than a patch of 8 x 8 pixels, so enlarged: give larger pictures"
    given = ["train", "--pictures", str(folder), "data.size=16", *SMALL]
    for patch, lines in ((8, 1), (4, 0)):
        assert run([*given, "--out", str(tmp_path / f"patch-{patch}"), f"model.patch={patch}"]) == 0
        assert (tmp_path / f"patch-{patch}" / "train.log").read_text().count(f"1 {small}: {tiny}") == lines
    assert answered(capsys, "classify", tmp_path / "patch-4", tiny)[2] == []
    with warnings.catch_warnings(action="default"):
        status, lines, said = answered(capsys, "classify", tmp_path / "patch-8", tiny, fine)
        assert (status, len(lines), len(said)) == (0, 2, 1)
        assert f"{tiny}: {small}" in said[0]
    model = regard.load(tmp_path / "patch-8", device="cpu")
    assert f"1 {small}: {tiny}" in model.evaluate(folder).notes
    with pytest.warns(UserWarning, match=r"an array of shape \(7, 9\): smaller than a patch of 8"):
        model.classify(np.zeros((7, 9), np.uint8))


def test_a_width_alone_may_be_named_and_positions_for_another_size_are_told(photos, tmp_path, capsys) -> None:
    sizes = ["model.width=40", *SMALL[1:]]
    assert run(["train", "--pictures", str(photos), "--out", str(tmp_path / "run"), "data.size=16", *sizes]) == 0
    again = ["--from", str(tmp_path / "run"), "--out", str(tmp_path / "again"), "data.size=24", *BRIEF]
    assert run(["train", "--pictures", str(photos), *again]) == 0
    log = (tmp_path / "again" / "train.log").read_text()
    assert "positions.table.weight is interpolated" in log
    Image.new("L", (8, 8)).save(tmp_path / "grey.png")
    status, lines, said = answered(capsys, "classify", tmp_path / "again", tmp_path / "grey.png")
    assert (status, len(lines), said) == (0, 1, [])
