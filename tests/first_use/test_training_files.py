"""Files as people have them, trained and measured on by the command line: read as they expect, or refused in a line."""

import csv
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import run
from tests.documents import ROOT

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere

SHORT = ["training.steps=2", "training.tensorboard=false", "training.device=cpu"]
WORDS = {
    "cat": "chat",
    "dog": "chien",
    "house": "maison",
    "tree": "arbre",
    "man": "homme",
    "woman": "femme",
    "child": "enfant",
    "sees": "voit",
    "eats": "mange",
    "sleeps": "dort",
}
CHANCE = random.Random(3)
CHOSEN = [[CHANCE.choice([*WORDS]) for _ in range(CHANCE.randrange(4, 7))] for _ in range(60)]
PAIRS = [
    (f"{' '.join(words)}, {n}", f"{' '.join(WORDS[word] for word in words)} {n}") for n, words in enumerate(CHOSEN)
]
REVIEWS = [(f"{text}; it was {('bad', 'good')[n % 2]}", ("neg", "pos")[n % 2]) for n, (text, _) in enumerate(PAIRS)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    return tmp_path


def sheet(name: str, rows: list[tuple[object, ...]], mark: str = ",", coding: str = "utf-8") -> str:
    with open(name, "w", encoding=coding, newline="") as file:
        csv.writer(file, delimiter=mark).writerows(rows)
    return name


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    capsys.readouterr()
    assert run([*words]) == status, capsys.readouterr().err
    out, error = capsys.readouterr()
    return f"{out}{error}"


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    said = told(capsys, *words, status=1).strip()
    assert said.startswith("regard: ")
    assert "\n" not in said
    return said


def passengers() -> str:
    rows = [("PassengerId", "Survived", "Pclass", "Name", "Sex", "Age", "Fare")]
    for n in range(80):
        name = f"Braund{n}, Mr. Owen {CHANCE.randrange(99)}"
        age = "" if n == 5 else CHANCE.randrange(80)
        rows.append((n + 1, n % 3 // 2, 1 + n % 3, name, "mf"[n % 2], age, f"{CHANCE.random() * 80:.2f}"))
    return sheet("titanic.csv", rows)


def test_a_list_of_people_is_asked_about_and_learnt_as_a_table_of_classes(capsys):
    file = passengers()
    said = refusal(capsys, "train", file)
    assert "could be labelled texts, the text in Name, the label in Survived, or a table to predict Fare" in said
    assert "say which with --labelled or --table" in said
    gap = refusal(capsys, "train", "--table", file, "data.target=Survived")
    assert "titanic.csv:7: an empty cell in column Age is no number: correct it, or name" in gap
    assert "'data.inputs=[Pclass, Fare]'" in gap
    checked = told(capsys, "data", "check", "--table", file, "data.target=Survived", status=1)
    assert "titanic.csv:7: an empty cell in column Age" in " ".join(checked.split())
    said = told(capsys, "train", "--table", file, "data.target=Survived", "data.inputs=[Pclass, Fare]", *SHORT)
    assert "Survived holds 2 values: learnt as classes; data.predicts=number learns a number" in said
    assert "accuracy" in said


def test_a_spreadsheet_with_decimal_commas_is_a_table_of_numbers(capsys):
    rows = [(f"{n / 10:.1f}".replace(".", ","), n % 7, f"{n**0.5:.2f}".replace(".", ",")) for n in range(40)]
    file = sheet("pendule.csv", [("longueur", "angle", "période"), *rows], ";", "utf-8-sig")
    assert "decimal commas are read as points" in told(capsys, "data", "check", file)
    said = told(capsys, "train", file, *SHORT, "--out", "run")
    assert "to learn période from longueur, angle" in said
    assert "r2" in said
    assert "mean absolute error" in told(capsys, "evaluate", "run", file)


def test_a_table_that_cannot_be_one_says_why(capsys):
    sheet("t_date.csv", [("date", "temp"), *((f"2024-01-{n:02}", n / 3) for n in range(1, 29))])
    assert "no column of numbers to predict temp from; date (words, not numbers)" in refusal(
        capsys, "train", "--table", "t_date.csv"
    )
    sheet("huge.csv", [("a", "b"), *((n, n % 3) for n in range(20)), ("1" * 200_000, 3)])
    assert f"huge.csv:22: '{'1' * 40}' in column a is no number: correct it" in refusal(
        capsys, "train", "--table", "huge.csv"
    )


@pytest.mark.parametrize("heading", [("English", "French"), ("en", "fr-FR"), ("source", "target")])
def test_the_heading_of_a_file_of_pairs_is_no_pair(heading, capsys):
    file = sheet("memoire.tsv", [heading, *PAIRS], "\t", "utf-8-sig")
    said = told(capsys, "train", file, *SHORT, "--out", "run")
    assert f"training a translator from {heading[0]} to {heading[1]}" in said
    assert "left out: 1 pair that names the columns (memoire.tsv:1)" in said
    assert json.loads(told(capsys, "evaluate", "run", file, "--json").partition("\nmemoire.tsv:")[0])["sentences"] == 60


def test_pairs_of_a_spreadsheet_are_read_wherever_their_columns_stand(capsys):
    rows = [("id", "English", "French"), *((n, *pair) for n, pair in enumerate(PAIRS))]
    said = told(capsys, "train", sheet("pairs.csv", rows, ";"), *SHORT)
    assert "training a translator from English to French" in said
    assert "of 61 pairs kept" in said
    assert "good pairs" in told(capsys, "data", "check", "--pairs", sheet("plain.csv", PAIRS))


def save_memory(name: str) -> str:
    versions = (
        (f'<tuv xml:lang="en"><seg>{a}</seg></tuv>', f'<tuv xml:lang="fr"><seg>{b}</seg></tuv>') for a, b in PAIRS
    )
    units = "".join(f"<tu>{one}{other}</tu>\n" for one, other in versions)
    Path(name).write_text(f'<?xml version="1.0"?>\n<tmx version="1.4"><body>\n{units}</body></tmx>\n')
    return name


@pytest.mark.parametrize("said", [[], ["--pairs"]])
def test_a_translation_memory_is_trained_on_and_measured_on(said, capsys):
    memory = save_memory("memory.tmx")
    trained = told(capsys, "train", *said, memory, *SHORT, "--out", "run")
    assert "training a translator from en to fr" in trained
    assert "of 60 pairs kept" in trained
    scores = told(capsys, "evaluate", "run", memory, "--json")
    assert json.loads(scores.partition("\nmemory.tmx:")[0])["sentences"] == 60
    assert "was trained on" in scores
    assert "good pairs" in told(capsys, "data", "check", memory)


def test_a_memory_where_no_pairs_are_wanted_or_a_document_is_refused_with_a_remedy(capsys):
    memory = save_memory("memory.tmx")
    assert "memory.tmx is a translation memory (TMX), whose tags would be learnt: train a translator on it" in refusal(
        capsys, "train", "--text", memory
    )
    assert "memory.tmx is a translation memory (TMX), which is not read as it is: train a translator" in refusal(
        capsys, "train", "--labelled", memory
    )
    unnamed = save_memory("tm.txt")
    for words in (["train", unnamed], ["train", "--text", unnamed], ["train", "--pairs", unnamed]):
        assert "tm.txt is a translation memory (TMX), which is not read as it is: give it a name that ends in .tmx" in (
            refusal(capsys, *words)
        )
    Path("lettre.docx").write_bytes(b"PK\x03\x04" + bytes(range(256)) * 20)
    assert "lettre.docx is a Word document, not text: save it as text (.txt) or HTML" in refusal(
        capsys, "train", "--text", "lettre.docx"
    )
    Path("noise.bin").write_bytes(random.Random(0).randbytes(4000))
    assert "noise.bin is a binary file, not text: give a text file" in refusal(capsys, "train", "--text", "noise.bin")
    assert not Path("runs").exists()


def test_the_command_of_the_page_makes_pairs_of_a_translation_file():
    page = (ROOT / "docs" / "commands" / "train.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^python -c .* > memory\.tsv$", page, re.MULTILINE)
    units = "".join(f"<trans-unit><source>{a}</source><target>{b}</target></trans-unit>" for a, b in PAIRS)
    Path("memory.xlf").write_text(f'<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2">{units}</xliff>')
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
    assert [tuple(line.split("\t")) for line in Path("memory.tsv").read_text().splitlines()] == PAIRS


@pytest.mark.parametrize("flags", [["--masked"], ["--text"]])
def test_a_table_is_not_read_as_text_and_the_command_of_the_message_makes_text_of_it(flags, capsys):
    file = sheet("reviews.csv", [("text", "label"), *REVIEWS])
    said = refusal(capsys, "train", *flags, file)
    assert "reviews.csv is a table, not text" in said
    command = "python" + said.partition("into a file, python")[2]
    command = command.replace("COLUMN", "text").replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True)  # as a person would paste it
    assert Path("reviews.txt").read_text().splitlines() == [text for text, _ in REVIEWS]


@pytest.mark.parametrize("task", ["causal-lm", "language", "word2vec"])
def test_a_text_without_line_ends_is_trained_on_if_it_is_named_as_text(task, capsys):
    Path("text8").write_text("the cat sees a dog " * 60_000)
    assert "with --text for plain text" in refusal(capsys, "train", "text8")
    said = told(capsys, "data", "check", "--text", "text8", f"task={task}")
    assert "can be trained on" in said
