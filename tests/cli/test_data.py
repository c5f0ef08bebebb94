"""Making data and looking at units from the command line."""

import gzip
import json
import re
from pathlib import Path

import pytest

from regard.cli import run

TEXT = "".join(f"le {noun} est {how} .\n" for noun in ("roi", "chat", "mur") for how in ("grand", "petit", "beau") * 5)


def width(picture: str) -> int:
    """The width of a PNG file in pixels, as its header says."""
    return int.from_bytes(Path(picture).read_bytes()[16:20], "big")


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_a_dictionary_becomes_three_files_and_a_count(desk, capsys):
    (desk / "dict").write_text(
        "".join(f"{a}{b} B AH{b in 'aeiou':d}\n" for a in "bcdfgh" for b in "aeioubcdf") + "a1 B\n"
    )
    assert run(["data", "make", "cmudict", "dict", "out"]) == 0
    stdout = capsys.readouterr().out
    assert "left out: 1 word with" in stdout
    assert "out/train.tsv.gz: " in stdout
    lines = gzip.decompress((desk / "out" / "train.tsv.gz").read_bytes()).decode().splitlines()
    assert all(line.endswith("\tB AH") for line in lines)
    assert run(["data", "make", "cmudict", "dict", "out", "--stress"]) == 0
    lines = gzip.decompress((desk / "out" / "train.tsv.gz").read_bytes()).decode().splitlines()
    assert {line[-1] for line in lines} == {"0", "1"}


def test_sentences_of_agreement_are_written_and_shown(desk, capsys):
    command = [
        "data",
        "make",
        "agreement",
        "out",
        "--count",
        "40",
        "--shortest",
        "3",
        "--longest",
        "5",
        "--plain",
        "--show",
        "2",
    ]
    assert run(command) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert len(gzip.decompress((desk / "out" / "train.txt.gz").read_bytes()).decode().splitlines()) == 40
    assert len(gzip.decompress((desk / "out" / "valid.txt.gz").read_bytes()).decode().splitlines()) == 2


def test_units_are_told_as_tables_as_json_and_as_a_picture(desk, capsys):
    (desk / "a.fr").write_text(TEXT)
    (desk / "b.fr").write_text("le roi est grand .\nla reine est grande .\n")
    command = ["lab", "tokenizers", "a.fr", "--held", "b.fr", "--sizes", "300,320", "--words", "grand beau"]
    assert run([*command, "-o", "units.png"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].rstrip() == "45 lines to make units from, 2 to measure them on"
    assert max(map(len, lines)) <= 80
    assert width("units.png") > 800
    assert run([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    words = next(record for record in result["units"] if record["kind"] == "words")
    assert (words["per_line"], words["unknown"]) == (5.0, 0.3)
    assert words["words"] == {"grand": ["grand"], "beau": ["beau"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lab", "tokenizers", "none.fr"], "no file none.fr here"),
        (["lab", "tokenizers", "a.fr", "--sizes", "many"], "--sizes 'many': give whole numbers"),
        (["lab", "tokenizers", "a.fr", "--sizes", "100"], "the least is 300"),
        (["lab", "tokenizers", "a.fr", "--column", "2"], "a.fr:1: 1 column, wanted column 2"),
        (
            ["data", "make", "agreement", "out", "--shortest", "9", "--longest", "8"],
            "must be from 1 to longest, 8",
        ),
        (["data", "make", "cmudict", "a.fr", "out"], "a.fr:1: 'le roi est grand .' is not a word and its sounds"),
    ],
)
def test_bad_input_is_one_line(words, message, desk, capsys):
    (desk / "a.fr").write_text(TEXT)
    assert run(words) == 1
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


def test_data_is_checked_as_what_it_is_said_to_hold(desk, capsys):
    (desk / "pairs.tsv").write_text("".join(f"le roi {n}\tthe king {n}\n" for n in range(40)))
    (desk / "texts.csv").write_text("".join(f"film {n},{('good', 'bad')[n % 2]}\n" for n in range(40)))
    for kind, file, expected in (
        ("pairs", "pairs.tsv", "40"),
        ("labelled", "texts.csv", "2 labels"),
        ("text", "pairs.tsv", ""),
    ):
        assert run(["data", "check", f"--{kind}", file]) == 0
        stdout = " ".join(capsys.readouterr().out.split())
        assert "can be trained on" in stdout
        assert expected in stdout
    assert run(["data", "check", "--pairs", "pairs.tsv", "--text", "pairs.tsv"]) == 1
    assert "--pairs and --text contradict each other" in capsys.readouterr().err


PLURAL = re.compile(
    r"\b(?<!\.)1 (?:good |grey |colour )?(?:pair|line|text|label|cell|column|row|question|picture|step)s\b"
)


@pytest.mark.parametrize(
    ("words", "name", "text"),
    [
        (["data", "check", "--pairs"], "pairs.tsv", "a house\tune maison\n"),
        (["data", "check", "--labelled"], "labels.tsv", "a film\tgood\n"),
        (["data", "check", "--questions"], "asked.jsonl", '{"question": "a?", "context": "b", "answers": []}\n'),
        (["train", "--table"], "table.csv", "a,b,c\n1,2,3\n1\n"),
        (["evaluate", "en-fr", "--device", "cpu"], "tested.tsv", "a house\n"),
        (["fill", "encoder", "--device", "cpu", "-i"], "texts.csv", "id,text\n1\n"),
    ],
)
def test_one_of_something_is_not_counted_in_the_plural(tmp_path, capsys, words, name, text):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    run([*words, str(file)])
    message = "".join(capsys.readouterr())
    assert re.search(r"\b1 \w", message)
    assert PLURAL.findall(message) == []
