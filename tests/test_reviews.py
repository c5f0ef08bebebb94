"""The reviews of aclImdb, a file each, become the JSON lines that the recipes read."""

import gzip
import json
import runpy
import sys
from pathlib import Path

import pytest
import yaml

from regard.tasks.text_encoders.examples import read_examples
from regard.tasks.text_encoders.labelled_file import LabelledFile
from tests.documents import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "imdb_lines.py"))
REVIEWS = {
    "train/neg/10_2.txt": "Dull.<br />Twice.",
    "train/neg/9_4.txt": 'No "plot", café\x85',
    "train/pos/0_10.txt": "A film\nlike no other.",
    "test/neg/0_1.txt": "Bad.",
    "test/pos/0_8.txt": "Good.",
    "train/unsup/1_0.txt": "Second.",
    "train/unsup/0_0.txt": "First.",
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for name, text in REVIEWS.items():
        path = tmp_path / "aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (tmp_path / "aclImdb" / "train" / "urls_neg.txt").write_text("http://example.org\n")
    return tmp_path / "aclImdb"


def convert(archive: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    monkeypatch.setattr(sys, "argv", ["imdb_lines.py", str(archive), str(folder)])
    SCRIPT["main"]()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_lines_stand_by_label_and_number_with_the_text_as_it_was(archive, tmp_path, monkeypatch, capsys):
    files = convert(archive, tmp_path / "imdb", monkeypatch)
    assert capsys.readouterr().out == "train: 3 reviews\ntest: 2 reviews\nunsup: 2 reviews\n"
    rows = {name: list(map(json.loads, gzip.decompress(data).split(b"\n")[:-1])) for name, data in files.items()}
    assert rows["train.jsonl.gz"] == [
        {"id": 9, "rating": 4, "label": 0, "text": 'No "plot", café\x85'},
        {"id": 10, "rating": 2, "label": 0, "text": "Dull.<br />Twice."},
        {"id": 0, "rating": 10, "label": 1, "text": "A film\nlike no other."},
    ]
    assert rows["unsup.jsonl.gz"] == [{"id": 0, "text": "First."}, {"id": 1, "text": "Second."}]


def test_the_same_reviews_give_the_same_bytes(archive, tmp_path, monkeypatch):
    once, again = (convert(archive, tmp_path / name, monkeypatch) for name in ("once", "again"))
    assert once == again


@pytest.mark.parametrize("name", ["imdb-cnn", "imdb-lstm", "imdb-transformer"])
def test_the_recipes_find_texts_and_labels_in_them(name, archive, tmp_path, monkeypatch):
    convert(archive, tmp_path / "imdb", monkeypatch)
    train = yaml.safe_load((ROOT / "recipes" / f"{name}.yaml").read_text(encoding="utf-8"))["data"]["train"]
    file = LabelledFile(path=str(tmp_path / train["path"]), fields=tuple(train["fields"]))
    assert [example.labels for example in read_examples([file], {}, 0.0).examples] == [("0",), ("0",), ("1",)]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("train/neg/note.txt", b"", r"note.txt: not named as ID_RATING.txt"),
        ("test/pos/1_7.txt", b"caf\xe9", r"1_7.txt: invalid UTF-8 at byte 3"),
    ],
)
def test_a_file_that_is_no_review_is_named(name, data, message, archive, tmp_path, monkeypatch):
    (archive / name).write_bytes(data)
    with pytest.raises(SystemExit, match=message) as error:
        convert(archive, tmp_path / "imdb", monkeypatch)
    assert "\n" not in str(error.value)


def test_another_folder_is_told_before_anything_is_written(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=r"neg: no reviews there: give the folder aclImdb"):
        convert(tmp_path, tmp_path / "imdb", monkeypatch)
    assert not (tmp_path / "imdb").exists()
