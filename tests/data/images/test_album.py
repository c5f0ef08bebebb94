"""Pictures stand in folders, tables, idx and npz files; each is decoded once, and what is bad is named."""

import gzip
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.images import album as albums
from regard.data.images.album import Shape, join_albums, load_album, shape_of
from regard.data.images.image_tables import LABEL
from regard.data.images.sources import PictureFile, has_test_part, shelve
from tests.data.images.drawing import draw, fill

SHAPE = Shape(16, 3)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def shelf_of(path: Path, **how):
    return shelve(PictureFile(path=str(path), **how))


def test_every_folder_is_a_class_in_an_order_that_is_always_the_same(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", 2)
    (root / "red" / "more").mkdir()
    Image.fromarray(draw("red", 9)).save(root / "red" / "more" / "9.png")
    (root / "red" / ".hidden.png").write_bytes(b"")
    (root / "red" / "notes.txt").write_text("nothing")
    (root / "empty").mkdir()
    Image.fromarray(draw("red", 8)).save(root / "loose.png")
    shelf = shelf_of(root)
    assert shelf.columns[LABEL] == ["blue"] * 2 + ["green"] * 2 + ["red"] * 3
    assert [Path(place).name for place in shelf.places] == ["00.png", "01.png"] * 3 + ["9.png"]
    assert [note.partition(": ")[0] for note in shelf.notes] == [
        str(root / "empty"), str(root / "loose.png"), str(root / "red" / "notes.txt")
    ]  # fmt: skip
    assert "no picture, so this class is not learnt: add some or remove it" in shelf.notes[0]


def test_a_link_that_leaves_the_folder_is_refused_and_one_inside_is_not(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", 1)
    Image.fromarray(draw("red", 9)).save(tmp_path / "outside.png")
    (root / "red" / "out.png").symlink_to(tmp_path / "outside.png")
    (root / "red" / "in.png").symlink_to(root / "blue" / "00.png")
    (root / "red" / "folder").symlink_to(tmp_path)
    fill(tmp_path / "elsewhere", 2)
    (root / "class").symlink_to(tmp_path / "elsewhere")  # might lead to a whole disk: it is not entered
    shelf = shelf_of(root)
    assert [Path(place).name for place in shelf.places] == ["00.png", "00.png", "00.png", "in.png"]
    assert {Path(place).name for place, _ in shelf.refused} == {"class", "folder", "out.png"}
    assert all(why == "a link that leaves the folder: copy the picture itself" for _, why in shelf.refused)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", 1)
    os.mkfifo(root / "red" / "pipe.png")
    (root / "red" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (root / "red" / "phone.heic").write_bytes(b"ftypheic")
    found = load_album(shelf_of(root), SHAPE)
    assert len(found) == 3
    assert {reason.partition(":")[0]: finding.count for reason, finding in found.refused.items()} == {
        "no file but a pipe, a device or a folder": 1, "missing file": 1, "no picture": 1,
    }  # fmt: skip


def test_a_folder_without_classes_says_what_to_do(tmp_path: Path) -> None:
    Image.fromarray(draw("red", 9)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="1 picture but no folders for classes: put the pictures of each class into"):
        shelf_of(tmp_path)


def test_a_table_names_pictures_beside_it_and_keeps_all_its_columns(tmp_path: Path) -> None:
    fill(tmp_path / "photos", 1)
    rows = ["image,class,caption", 'photos/red/00.png,red,"a, b"', "photos/blue/00.jpg,blue,c"]
    (tmp_path / "a.csv").write_text("\n".join([*rows, "photos/none.png,,d", ",red,e", "photos/red/00.png,red"]))
    shelf = shelf_of(tmp_path / "a.csv")
    assert [Path(path).name for path in shelf.pictures] == ["00.png", "00.png"], "one is there in another format"
    assert shelf.columns == {
        LABEL: ["red", "blue"], "image": ["photos/red/00.png", "photos/blue/00.jpg"],
        "class": ["red", "blue"], "caption": ["a, b", "c"],
    }  # fmt: skip
    assert shelf.places == [f"{tmp_path}/a.csv:2", f"{tmp_path}/a.csv:3"]
    assert [(place.rpartition(":")[2], why.partition(":")[0]) for place, why in shelf.refused] == [
        ("4", "no label in column class"), ("5", "no path"), ("6", "2 cells under 3 columns")
    ]  # fmt: skip


def test_tables_of_json_lines_or_without_a_heading(tmp_path: Path) -> None:
    fill(tmp_path / "photos", 1)
    lines = [{"path": "red/00.png", "label": 1, "captions": ["x", "y"]}, {"path": "blue/00.png", "label": 0}]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines) + "nonsense\n[1]\n")
    shelf = shelf_of(tmp_path / "a.jsonl", folder=str(tmp_path / "photos"))
    assert shelf.columns[LABEL] == ["1", "0"]
    assert shelf.columns["captions"] == [["x", "y"], None]
    assert len(shelf.refused) == 2
    (tmp_path / "photos" / "a.tsv").write_text("red/00.png\tred\nblue/00.png\tblue\n")
    assert shelf_of(tmp_path / "photos" / "a.tsv").columns[LABEL] == ["red", "blue"]
    with pytest.raises(ValueError, match=r"has no column 'lable', did you mean label\?"):
        shelf_of(tmp_path / "a.jsonl", label="lable")


def idx(path: Path, array: np.ndarray) -> None:
    kind = 0x800 + array.ndim
    data = struct.pack(f">I{array.ndim}I", kind, *array.shape) + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def test_a_table_that_names_no_picture_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("path,label\n")
    with pytest.raises(ValueError, match="names no picture: give a path and a label in each row"):
        shelf_of(tmp_path / "notes.csv")


def test_idx_files_and_npz_files_have_parts(tmp_path: Path) -> None:
    pictures = np.arange(6 * 8 * 8).reshape(6, 8, 8).astype(np.uint8)
    idx(tmp_path / "train-images-idx3-ubyte.gz", pictures)
    idx(tmp_path / "train-labels-idx1-ubyte", np.arange(6))
    idx(tmp_path / "t10k-images-idx3-ubyte", pictures[:2])
    idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.array([5, 5]))
    train, test = (shelve(PictureFile(path=str(tmp_path)), part=part) for part in ("train", "test"))
    assert (len(train), len(test), test.columns[LABEL]) == (6, 2, ["5", "5"])
    assert has_test_part(str(tmp_path))
    assert shape_of([train], None, None, "crop") == (8, 1, "crop", None, None)
    found = load_album(train, Shape(8, 1))
    assert np.array_equal(found.pixels[:, 0], pictures)
    colours = np.stack([pictures] * 3, -1)
    parts = {"train_pictures": colours, "train_labels": np.arange(6) % 2, "x_test": colours[:3].transpose(0, 3, 1, 2)}
    np.savez(tmp_path / "a.npz", **parts, y_test=np.array([1, 0, 1]), classes=np.array(["cat", "dog"]))
    file = PictureFile(path=str(tmp_path / "a.npz"))
    assert shelve(file).columns[LABEL] == ["cat", "dog"] * 3
    assert shelve(file, part="test").columns[LABEL] == ["dog", "cat", "dog"]
    assert np.array_equal(shelve(file, part="test").pictures, colours[:3])


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", pictures=np.array([object()] * 2, object), labels=np.arange(2))
    with pytest.raises(ValueError, match=r"cannot be read .*make it again with numpy.savez"):
        shelf_of(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="make it again"):
        shelf_of(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", pictures=np.zeros((3, 8, 8), np.uint8), labels=np.arange(2))
    with pytest.raises(ValueError, match="and 2 labels do not belong together"):
        shelf_of(tmp_path / "c.npz")


def test_a_folder_with_parts_is_read_part_by_part(tmp_path: Path) -> None:
    fill(tmp_path / "train", 2)
    fill(tmp_path / "val", 1, first=5)
    train, test = (shelve(PictureFile(path=str(tmp_path)), part=part) for part in ("train", "test"))
    assert (len(train), len(test)) == (6, 3)
    assert train.columns[LABEL] == ["blue", "blue", "green", "green", "red", "red"]


def test_pictures_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = fill(tmp_path / "photos", 3)
    first = load_album(shelf_of(root), SHAPE)
    assert first.pixels.shape == (9, 3, 16, 16)
    monkeypatch.setattr(albums, "decode_picture", None)  # nobody may ask again
    again = load_album(shelf_of(root), SHAPE)
    assert np.array_equal(first.pixels, again.pixels)
    assert isinstance(again.pixels.base, np.memmap)
    (root.rename(tmp_path / "moved"))
    assert len(load_album(shelf_of(tmp_path / "moved"), SHAPE)) == 9, "found by content, wherever it lies"


def test_grey_pictures_among_coloured_ones_are_counted_and_named(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", 4)
    Image.new("L", (16, 16), 90).save(root / "red" / "grey.png")
    [line] = load_album(shelf_of(root), SHAPE).summary
    assert line.startswith("1 grey, read as if in colour: ")
    assert "red/grey.png" in line
    [line] = load_album(shelf_of(root), SHAPE._replace(channels=1)).summary
    assert line.startswith("12 in colour, read as grey: ")


def test_bad_pictures_are_counted_named_and_allowed_up_to_a_share(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", 4)
    (root / "red" / "00.png").write_bytes(b"")
    (root / "red" / "01.png").write_bytes(b"no picture")
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    frames[0].save(root / "red" / "9.gif", save_all=True, append_images=frames[1:])
    found = load_album(shelf_of(root), SHAPE)
    assert (found.read, len(found)) == (13, 11)
    assert [line.partition(": /")[0] for line in found.summary] == [
        "refused: 1 empty file: save the picture again",
        "refused: 1 no picture: give PNG, JPEG or WebP",
        "1 animated, of which the first frame is taken: save another by itself",
    ]
    assert all("red/" in line for line in found.summary)
    found.check(0.2, "photos")
    with pytest.raises(
        ValueError, match=r"photos: 2 of 13 pictures are refused, more than the allowed 10.00%: .*; mend"
    ):
        found.check(0.1, "photos")


def test_sizes_follow_from_the_pictures(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", 2)
    assert shape_of([shelf_of(root)], None, None, "crop") == (20, 3, "crop", None, None)
    assert shape_of([shelf_of(root)], 64, 1, "squeeze") == (64, 1, "squeeze", None, None)
    for number, side in enumerate((300, 500, 700)):
        (tmp_path / "large" / "a").mkdir(parents=True, exist_ok=True)
        Image.new("L", (side, 2 * side)).save(tmp_path / "large" / "a" / f"{number}.png")
    assert shape_of([shelf_of(tmp_path / "large")], None, None, "crop") == (224, 1, "crop", None, None)


def test_several_albums_are_one(tmp_path: Path) -> None:
    one, other = (
        load_album(shelf_of(fill(tmp_path / name, 2, first=first)), SHAPE) for name, first in (("a", 0), ("b", 1))
    )
    both = join_albums([one, other])
    assert len(both) == 12
    mixed = np.array([11, 0, 6, 5, 5, 7])
    assert np.array_equal(both.pixels[mixed], np.concatenate([one.pixels, other.pixels])[mixed])
    assert both.pixels.shape == (12, *one.pixels.shape[1:])
    assert all(isinstance(part.base, np.memmap) for part in both.parts), "none of them is read into memory"
    assert both.columns[LABEL] == [*one.columns[LABEL], *other.columns[LABEL]]
    assert len(set(both.marks.tolist())) == 9, "equal pictures have equal marks"
