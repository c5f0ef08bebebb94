"""Test files whose columns stand in another order than those of training: read by their names, said, or refused."""

import csv
import json
from pathlib import Path

import pytest

import regard
from regard import checkpoint, config
from regard.cli import run
from regard.tasks.recognition import choose_task
from regard.tasks.text_encoders.examples import read_examples
from regard.tasks.text_labels.files import LabelsConfig
from regard.training.task import Given

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere

SHORT = ["training.steps=2", "training.tensorboard=false", "training.device=cpu"]
NAMES = ("id", "title", "review", "label")
REVIEWS = [(n, f"Title {n}", f"a film number {n} that was {('dull', 'good')[n % 2]}", "np"[n % 2]) for n in range(60)]
RIGHT = [row[2] for row in REVIEWS[:20]]


def save(path: Path, rows, names=NAMES, order=(0, 1, 2, 3)) -> str:
    """Write a table with its columns in some order; without names it has no heading."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerows([row[place] for place in order] for row in ([names] if names else []) + rows)
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hardly trained classifier beside the table it was trained on."""
    here = tmp_path_factory.mktemp("orders")
    regard.train(save(here / "reviews.csv", REVIEWS), *SHORT, out=here / "run", quiet=True)
    return here


def texts_of(model, *files) -> list[str]:
    return [example.given for example in regard.load(model).evaluate(*files).examples]


def evaluated(capsys, *words: str) -> tuple[int, dict, str]:
    capsys.readouterr()
    status = run(["evaluate", *words, "--json"])
    out, error = capsys.readouterr()
    return status, json.loads(out) if out else {}, error


def test_columns_are_found_by_the_names_that_they_had_in_training(folder, tmp_path, capsys):
    for number, order in enumerate([(0, 1, 2, 3), (0, 2, 1, 3), (3, 2, 0, 1)]):
        file = save(tmp_path / f"{number}.csv", REVIEWS[:20], order=order)
        assert texts_of(folder / "run", file) == RIGHT
        assert evaluated(capsys, str(folder / "run"), file)[1]["notes"] == []
    assert texts_of(folder / "run", save(tmp_path / "caps.csv", REVIEWS[:20], [n.upper() for n in NAMES])) == RIGHT


def test_a_checkpoint_without_the_name_of_its_labels_reads_texts_by_their_name(folder, tmp_path):
    known = checkpoint.read(folder / "run" / "best")
    contents = {name: known.data(name) for name in known.files}
    settings = known.config
    del settings["data"]["label_column"]
    checkpoint.write(tmp_path / "old", {**contents, "config.yaml": settings}, facts={"step": 2})
    assert texts_of(tmp_path / "old", save(tmp_path / "x.csv", REVIEWS[:20], order=(3, 2, 0, 1))) == RIGHT


@pytest.mark.parametrize(
    ("names", "order", "said"),
    [
        (("n", "titre", "avis", "note"), (0, 2, 1, 3), "text is avis, label is note"),
        (("n", "x", "text", "y"), (3, 0, 1, 2), "text is text, label is y"),
        (("n", "", "remark", "how"), (0, 2, 3), "text is remark, label is how"),
        (None, (0, 1, 2, 3), "has no heading: text is column 3, label is column 4"),
    ],
)
def test_what_is_read_of_another_heading_is_said(folder, tmp_path, capsys, names, order, said):
    file = save(tmp_path / "x.csv", REVIEWS[:20], names, order)
    assert texts_of(folder / "run", file) == RIGHT
    assert any(said in note for note in evaluated(capsys, str(folder / "run"), file)[1]["notes"])


@pytest.mark.parametrize("names", [("a", "b", "c", "d"), ("id", "title", "remark", "verdict")[::-1]])
def test_a_heading_that_does_not_tell_the_text_is_refused_with_the_option_that_names_it(
    folder, tmp_path, capsys, names
):
    names = [name if name != "title" else "heading" for name in names]
    file = save(tmp_path / "x.csv", REVIEWS[:20], names)
    status, _, error = evaluated(capsys, str(folder / "run"), file)
    assert status == 1
    assert error.count("\n") == 1
    assert "without a column review" in error
    assert "--columns 1 2 by number or -s text=NAME -s label=NAME by name" in error


def test_a_validation_file_is_read_by_the_names_of_the_training_file(folder, tmp_path):
    by_name = save(tmp_path / "valid.csv", REVIEWS[:20], order=(0, 2, 1, 3))
    other = save(tmp_path / "other.csv", REVIEWS[:20], ("n", "titre", "avis", "note"), (0, 2, 1, 3))
    bare = save(tmp_path / "bare.csv", REVIEWS[:20], None)
    second = save(tmp_path / "second.csv", REVIEWS[20:], order=(3, 2, 0, 1))
    first = save(tmp_path / "first.csv", REVIEWS[:20])
    whole = str(folder / "reviews.csv")
    for files, valid in [((whole,), by_name), ((whole,), other), ((whole,), bare), ((first, second), by_name)]:
        _, claim = choose_task(Given(files, valid=(valid,)))
        data = config.build(LabelsConfig, claim.data, where="data")
        assert [one.texts[0] for one in read_examples(data.valid, {}, reject=0.0).examples] == RIGHT
        assert [one.texts[0] for one in read_examples(data.train, {}, reject=0.0).examples] == [
            row[2] for row in REVIEWS
        ]
