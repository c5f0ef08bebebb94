"""Files to measure on: laid out in their own way, or trained on before, which is said."""

import csv
import json
import shutil
from pathlib import Path

import pytest

import regard
from regard.cli import run

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere

SHORT = ["training.steps=2", "training.tensorboard=false", "training.device=cpu"]
TEXTS = [(f"a film number {n} that was {('dull', 'good')[n % 2]}", ("neg", "pos")[n % 2]) for n in range(60)]
PAIRS = [(f"the cat {n} sees {n * 7}", f"le chat {n} voit {n * 7}") for n in range(40)]
TABLE = [("x", "z", "y"), *((f"{n * 37 % 101 / 7:.3f}", n % 11, f"{n * 53 % 97 / 3:.3f}") for n in range(60))]


def sheet(path: Path, rows, mark: str = ",") -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=mark).writerows(rows)
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hardly trained models beside the files they were trained on."""
    here = tmp_path_factory.mktemp("evaluation")
    reviews = [("ID", "Date", "Review text", "Sentiment"), *((n, "2024", *row) for n, row in enumerate(TEXTS))]
    sheet(here / "avis.csv", reviews, ";")
    sheet(here / "table.csv", TABLE)
    sheet(here / "valid.csv", [*TABLE[:1], *TABLE[30:]])
    sheet(here / "pairs.tsv", PAIRS, "\t")
    regard.train(here / "avis.csv", *SHORT, out=here / "reviews", quiet=True)
    regard.train(here / "table.csv", *SHORT, f"data.valid={here / 'valid.csv'}", out=here / "numbers", quiet=True)
    regard.train(here / "pairs.tsv", *SHORT, out=here / "translator", quiet=True)
    return here


def evaluated(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> tuple[dict, str]:
    capsys.readouterr()
    assert run(["evaluate", *map(str, words), "--json"]) == status, capsys.readouterr().err
    out, error = capsys.readouterr()
    return json.loads(out) if out else {}, error


@pytest.mark.parametrize(
    ("model", "file"), [("reviews", "avis.csv"), ("numbers", "table.csv"), ("translator", "pairs.tsv")]
)
def test_a_file_that_was_trained_on_is_known_by_its_content_wherever_model_and_file_are(
    model, file, folder, tmp_path, capsys
):
    shutil.copytree(folder / model / "best", tmp_path / "copied")
    shutil.copy(folder / file, tmp_path / f"other-{file}")
    found, error = evaluated(capsys, tmp_path / "copied", tmp_path / f"other-{file}")
    assert found["trained_on"] == [str(tmp_path / f"other-{file}")]
    assert error == f"{tmp_path}/other-{file}: copied was trained on this file, so new data will score lower\n"
    changed = (folder / file).read_text().splitlines()[:-5]
    (tmp_path / file).write_text("\n".join(changed) + "\n")
    found, error = evaluated(capsys, tmp_path / "copied", tmp_path / file)
    [(name, shared)] = found["partly_trained_on"].items()
    assert (found["trained_on"], name) == ([], str(tmp_path / file))
    assert shared["shared"] == shared["compared"] == len(changed) - (file != "pairs.tsv")  # without the heading


@pytest.mark.parametrize("form", ["aligned", "tsv", "csv", "jsonl"])
def test_half_of_a_test_set_that_was_trained_on_is_counted_in_whatever_form_it_is(form, folder, tmp_path, capsys):
    new = [(f"a dog {n} barks {n * 3}", f"un chien {n} aboie {n * 3}") for n in range(20)]
    rows = [*PAIRS[10:30], *new]
    files = [str(tmp_path / "test.en"), str(tmp_path / "test.fr")] if form == "aligned" else [f"{tmp_path}/t.{form}"]
    if form == "aligned":
        for file, side in zip(files, zip(*rows, strict=True), strict=True):
            Path(file).write_text("\n".join(side) + "\n")
    elif form == "jsonl":
        Path(files[0]).write_text("\n".join(json.dumps({"source": a, "target": b}) for a, b in rows) + "\n")
    else:
        sheet(Path(files[0]), rows, "\t" if form == "tsv" else ",")
    found, error = evaluated(capsys, folder / "translator", *files)
    assert found["partly_trained_on"] == {file: {"shared": 20, "compared": 40, "lines": 40} for file in files}
    said = "20 of its 40 lines are also in what translator was trained on, so new data may score lower"
    assert [line for line in error.splitlines() if "trained on" in line] == [f"{file}: {said}" for file in files]


def test_texts_and_rows_are_known_by_what_they_hold_not_by_how_the_file_is_laid_out(folder, tmp_path, capsys):
    new = [(f"the book number {n} was {('long', 'fine')[n % 2]}", ("neg", "pos")[n % 2]) for n in range(10)]
    file = sheet(tmp_path / "t.csv", [("text", "label"), *TEXTS[:30], *new])
    shared = evaluated(capsys, folder / "reviews", file)[0]["partly_trained_on"][file]
    assert shared["shared"] == 30
    rows = [(y, f"{float(x)}0", z) for x, z, y in TABLE[1:31]]
    file = sheet(tmp_path / "n.csv", [("y", "x", "z"), *rows, *((f"{n}.77", n, n) for n in range(10))], ";")
    shared = evaluated(capsys, folder / "numbers", file)[0]["partly_trained_on"][file]
    assert shared == {"shared": 30, "compared": 40, "rows": 40}
    for heading in ([], [("ID", "Date", "Review text", "Sentiment")]):  # that of the training file
        rows = [*heading, *((n, "2025", *row) if heading else row for n, row in enumerate(new))]
        file = sheet(tmp_path / "new.csv", rows, ";" if heading else ",")
        assert "partly_trained_on" not in evaluated(capsys, folder / "reviews", file)[0]


def test_a_file_inside_a_folder_that_was_trained_on_is_known(tmp_path, capsys):
    for name in ("one", "two"):
        (tmp_path / "notes" / name).mkdir(parents=True)
        lines = (f"{name} says line {n} of the text, which is {n * n} letters long" for n in range(40))
        (tmp_path / "notes" / name / "text.txt").write_text("\n".join(lines) + "\n")
    regard.train({"task": "causal-lm", "data": {"train": str(tmp_path / "notes")}}, *SHORT,
                 "model.width=16", "model.heads=2", "model.depth=1", out=tmp_path / "gpt", quiet=True)  # fmt: skip
    inside = tmp_path / "notes" / "two" / "text.txt"
    _, error = evaluated(capsys, tmp_path / "gpt", inside)
    assert f"{inside}: 40 of its 40 lines are also in what gpt was trained on" in error


def test_python_hears_of_it_too(folder, tmp_path):
    file = sheet(tmp_path / "t.csv", [("text", "label"), *TEXTS[:30]])
    trained = regard.load(folder / "reviews")
    scores = trained.evaluate(file)
    assert scores.details["partly_trained_on"] == {file: {"shared": 30, "compared": 30, "lines": 30}}
    assert scores.warnings == [line for line in repr(scores).splitlines() if "was trained on" in line]
    assert "30 of its 30 lines are also in what" in scores.warnings[0]
    [whole] = trained.evaluate(folder / "avis.csv").warnings
    assert "was trained on this file" in whole


def test_a_file_that_a_model_was_chosen_by_is_known_too(folder, capsys):
    found, error = evaluated(capsys, folder / "numbers", folder / "valid.csv")
    assert (found["trained_on"], found["validated_on"]) == ([], [str(folder / "valid.csv")])
    assert "numbers was chosen by its score on this file" in error


def test_a_model_that_started_from_another_knows_what_that_one_was_trained_on(folder, tmp_path, capsys):
    rows = [*TABLE[:1], *TABLE[20:]]
    sheet(tmp_path / "more.csv", rows)
    regard.train(tmp_path / "more.csv", *SHORT, start=folder / "numbers", out=tmp_path / "tuned", quiet=True)
    for file in (folder / "table.csv", tmp_path / "more.csv"):
        assert evaluated(capsys, tmp_path / "tuned", file)[0]["trained_on"] == [str(file)]


def test_a_model_without_a_record_says_that_nobody_can_tell(folder, capsys, tmp_path):
    from regard import checkpoint

    known = checkpoint.read(folder / "numbers" / "best")
    contents = {name: known.data(name) for name in known.files}
    checkpoint.write(tmp_path / "old", contents, facts={"step": 2})
    found, error = evaluated(capsys, tmp_path / "old", folder / "table.csv")
    assert found["trained_on"] is None
    assert error == "old keeps no record of the files it was trained on: they may be these\n"


def test_only_wrong_answers_of_a_table_are_listed_and_errors_are_not_negative(folder, tmp_path, capsys):
    found, _ = evaluated(capsys, folder / "numbers", folder / "table.csv")
    errors = [one["score"] for one in found["worst"]]
    assert errors == sorted(errors, reverse=True)
    assert all(error > 0 for error in errors)
    assert all(
        abs(float(one["right"]) - float(one["answer"])) == pytest.approx(one["score"], rel=1e-3)
        for one in found["worst"]
    )
    rows = [("a", "b", "kind"), *((n, -n, ("low", "high")[n > 30]) for n in range(60))]
    file = sheet(tmp_path / "kinds.csv", [rows[0], *((f"{a}.5", b, kind) for a, b, kind in rows[1:])])
    regard.train(file, *SHORT, "training.steps=150", out=tmp_path / "kinds", quiet=True)
    found, _ = evaluated(capsys, tmp_path / "kinds", file)
    assert found["metrics"]["accuracy, %"]["score"] > 90
    assert all(one["right"] != one["answer"] for one in found["worst"])
    assert len(found["worst"]) <= 5


def test_a_test_file_with_its_own_layout_is_read_by_its_own_heading(folder, tmp_path, capsys):
    file = sheet(tmp_path / "reviews_test.csv", [("text", "label"), *TEXTS[:20]])
    found, _ = evaluated(capsys, folder / "reviews", file)
    assert found["texts"] == 20
    assert any(
        "is laid out otherwise than what was trained on: text is text, label is label" in note
        for note in found["notes"]
    )
    swapped = sheet(tmp_path / "swapped.csv", [(label, text) for text, label in TEXTS[:20]])
    for words in (["--columns", "2,1"], ["--columns=2,1"], ["--columns", "2", "1"], ["-s", "text=2", "-s", "label=1"]):
        assert evaluated(capsys, folder / "reviews", swapped, *words)[0]["texts"] == 20
    named = sheet(tmp_path / "named.csv", [("what", "how"), *((label, text) for text, label in TEXTS[:20])], ";")
    words = ["-s", "text=how", "-s", "label=what"]
    assert evaluated(capsys, folder / "reviews", named, *words)[0]["texts"] == 20


def test_a_layout_that_cannot_be_guessed_is_asked_for_with_the_option_that_names_it(folder, tmp_path, capsys):
    file = sheet(tmp_path / "odd.csv", [(f"word{n}", f"other{n}") for n in range(20)])
    _, error = evaluated(capsys, folder / "reviews", file, status=1)
    assert "name its columns of text and label, --columns 1 2 by number or -s text=NAME -s label=NAME by name" in error
    _, error = evaluated(capsys, folder / "reviews", status=1)
    assert "is measured on labelled texts: name at least one file" in error
