"""Files of captions: every form says the same, and what is wrong with one is told in a line."""

import gzip
import json
import shutil

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.tasks.captions.files import CAPTION, CaptionFile, shelve
from regard.tasks.captions.recognition import recognise
from regard.tasks.recognition import choose_task
from regard.training.task import Given
from tests.data.images.drawing import fill
from tests.tasks.images.captioning import prepared

pytestmark = pytest.mark.usefixtures("own_cache")


def test_all_forms_of_files_say_the_same(photos, tmp_path):
    names = [f"red/{number:02}.png" for number in range(3)]
    texts = {name: [f'A "red" wall, number {n} .', f"wall {n}"] for n, name in enumerate(names)}
    rows = [(name, text) for name in names for text in texts[name]]
    quoted = [f'{name},"{text.replace(chr(34), chr(34) * 2)}"' for name, text in rows]
    files = {
        "a.csv": ["image,caption", *quoted],
        "a.jsonl": [json.dumps({"path": name, "captions": texts[name]}) for name in names],
        "b.jsonl": [json.dumps({"file_name": name, "caption": text}) for name, text in rows],
        "token.txt": [f"{name}#{n}\t{text}" for n, (name, text) in enumerate(rows)],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        shelf = shelve(CaptionFile(path=str(tmp_path / name), folder=str(photos)))
        assert shelf.columns[CAPTION] == list(texts.values()), name
        assert [str(path) for path in shelf.pictures] == [str(photos / each) for each in names]
        assert not shelf.refused
        elsewhere = r"none of its pictures is there, .*: if they lie in another folder, name it by data.train.folder"
        with pytest.raises(ValueError, match=elsewhere):
            shelve(CaptionFile(path=str(tmp_path / name)))
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("\n".join(files["a.csv"]))
    (tmp_path / "split.txt").write_text(f"{names[1]}\n")
    some = shelve(CaptionFile(path=str(tmp_path / "a.csv.gz"), folder=str(photos), only=str(tmp_path / "split.txt")))
    assert some.columns[CAPTION] == [texts[names[1]]]


def test_a_caption_without_file_and_a_file_without_caption_are_told_in_a_line(photos, tmp_path):
    root = fill(tmp_path / "own", 6)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*.png"))
    lines = [*(f"{name},a wall" for name in names[2:]), "gone.png,nobody", f"{names[2]},", ",nothing"]
    (root / "c.csv").write_text("\n".join(["path,caption", *lines]) + "\n")
    own = {"data": {"train": {"path": str(root / "c.csv")}, "size": 8, "reject": 0.0}}
    with pytest.raises(ValueError, match=r"3 of 19 pictures are refused, more than the allowed 0.00%") as error:
        prepared(photos, **own)
    place = f"{root}/c.csv"
    assert f"missing file: check the path: {place}:18" in str(error.value)
    assert f"no caption: write one, or leave the row out: {place}:19" in str(error.value)
    assert "no path: name a picture, or leave the row out" in str(error.value)
    own["data"]["reject"] = 0.5
    summary = "\n".join(prepared(photos, **own).prepared.summary)
    assert f"{root / names[0]}, {root / names[1]}: no caption in {place}, left out" in summary
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "c.csv").write_text("path,caption\n" + "".join(f"../own/{name},a wall\n" for name in names))
    (root / "red" / "linked.png").symlink_to(photos / "red" / "00.png")
    shelf = shelve(CaptionFile(path=str(tmp_path / "beside" / "c.csv")))
    assert [note for note in shelf.notes if "no caption" in note] == [
        f"{tmp_path / 'beside' / '../own/red/linked.png'}: no caption in {shelf.name}, left out: "
        "write some, or leave them so"
    ]
    shutil.copytree(photos, tmp_path / "many")
    first = sorted((tmp_path / "many").glob("*/*.png"))[0]
    (tmp_path / "many" / "one.csv").write_text(f"path,caption\n{first.relative_to(tmp_path / 'many')},a wall\n")
    shelf = shelve(CaptionFile(path=str(tmp_path / "many" / "one.csv")))
    others = len(list(first.parent.glob("*.png"))) - 1
    assert f"{others:,} other pictures beside these, without a caption in {shelf.name}, are not used" in shelf.notes
    (root / "d.csv").write_text(
        "path,caption\nblue/../red/linked.png,a wall\nred/linked.jpg,a wall\nred/linked.jpg,red\nred/00.png,a wall\n"
    )
    shelf = shelve(CaptionFile(path=str(root / "d.csv")))
    assert [reason for _, reason in shelf.refused] == ["a link that leaves the folder: copy the picture itself"] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,caption\n", "has no captions: give the path of a picture and a caption in each row"),
        ("path,label\nred/00.png,red\n", r"cannot tell which column holds the caption \(path, label\): name it"),
        ("words,caption\nhello,red\n", r"cannot tell which column holds the picture \(words, caption\): name it"),
    ],
)
def test_a_file_that_is_none_is_refused(photos, tmp_path, text, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        shelve(CaptionFile(path=str(tmp_path / "x.csv"), folder=str(photos)))
    with pytest.raises(ValueError, match="is a folder: name the CSV or JSON-lines file with the captions"):
        shelve(CaptionFile(path=str(photos)))


def test_captions_are_checked_before_training(photos):
    checked = CliRunner().invoke(app, ["data", "check", "--captions", str(photos / "captions.csv"), "--json"])
    assert checked.exit_code == 0, checked.output
    assert json.loads(checked.stdout)["verdict"] == "can be trained on"


def test_names_of_a_split_without_caption_are_named(photos, tmp_path):
    (tmp_path / "split.txt").write_text("red/00.png\nred/99.png\n")
    shelf = shelve(CaptionFile(path=str(photos / "captions.csv"), only=str(tmp_path / "split.txt")))
    assert shelf.refused == [
        (f"{tmp_path}/split.txt:2", f"no caption in {photos}/captions.csv: write one, or leave the name out")
    ]


def test_files_are_recognised_and_labels_are_not_captions(photos, tmp_path):
    assert choose_task(Given((str(photos / "captions.csv"),)))[0] == "captions"
    (tmp_path / "token.txt").write_text("a.jpg#0\tA dog .\na.jpg#1\tDogs .\n")
    assert choose_task(Given((str(tmp_path / "token.txt"),)))[0] == "captions"
    (tmp_path / "labels.csv").write_text("path,label\na.jpg,dog\nb.jpg,cat\n")
    assert choose_task(Given((str(tmp_path / "labels.csv"),)))[0] == "pictures"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"image": "a.png", "captions": ["a cat", "a pet"]}\n'),
        ("a.csv", "Fichier;Légende\na.png;un chat qui dort\nb.png;un chien\n"),
    ],
)
def test_captions_are_recognised_by_the_names_of_their_columns(name, text, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    claim = recognise(Given((str(tmp_path / name),)))
    assert claim is not None
    assert str(tmp_path / name) in str(claim.data)
    (tmp_path / name).write_text(text.replace("caption", "label").replace("Légende", "Classe"), encoding="utf-8")
    assert recognise(Given((str(tmp_path / name),))) is None
