"""Files that cannot be written are named before any work is done, in one line."""

import pytest

from regard.cli import run
from regard.cli.text_io import check_writable, count_formulas, escape_name
from regard.config.words import quantity

PICTURES = [
    "compare nomodel nomodel -o {}",
    "lab agreement nomodel -o {}",
    "evaluate ./nomodel nofile nofile -o {}",
    "explain ./nomodel text --output {}",
    "lab gradients -o {}",
    "lab complexity -o {}",
    "lab positions sinusoidal -o {}",
    "lab attention -o {}",
    "lab norms -o {}",
    "lab pooling -o {}",
    "lab graph -o {}",
    "lab forcing -o {}",
    "lab beams -o {}",
    "lab by-hand -o {}",
    "lab tokenizers nofile -o {}",
    "words map nomodel word -o {}",
]
OTHERS = [
    ("locate nomodel nopicture -o {}", "png"),
    ("classify nomodel text -o {}", "csv"),
    ("tag nomodel text -o {}", "jsonl"),
    ("predict nomodel text -o {}", "txt"),
    ("count nomodel frame -o {}", "txt"),
    ("generate nomodel -o {}", "txt"),
    ("evaluate ./nomodel nofile nofile --against nomodel -o {}", "html"),
    ("translate ./nomodel text --output {}", "txt"),
    ("words export nomodel -o {}", "txt"),
]


@pytest.mark.parametrize("line", PICTURES)
def test_a_picture_without_a_known_ending_is_refused_first(line, capsys):
    assert run(line.format("a.xyz").split()) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("regard: a.xyz: cannot draw a xyz file, choose ")
    assert (shown.out, shown.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(("line", "kind"), [*((line, "png") for line in PICTURES), *OTHERS])
def test_a_folder_that_is_not_there_is_named_first(line, kind, capsys):
    assert run(line.format(f"/nowhere/a.{kind}").split()) == 1
    shown = capsys.readouterr()
    assert shown.err == f"regard: /nowhere/a.{kind}: there is no folder /nowhere, make it first\n"
    assert shown.out == ""


def test_a_file_is_not_a_folder_nor_a_folder_a_file(tmp_path, capsys):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(ValueError, match=r"a\.png is a folder: name a file"):
        check_writable(tmp_path / "a.png", ("png",))
    (tmp_path / "file").write_text("")
    for line in (["data", "make", "agreement"], ["data", "make", "cmudict", "nofile"]):
        assert run([*line, str(tmp_path / "file")]) == 1
        assert capsys.readouterr().err.endswith("file is a file: name a folder to write into, which may be new\n")


def test_what_can_be_written_passes_and_nothing_is_made(tmp_path):
    for path in (None, tmp_path / "a.PNG"):
        check_writable(path, ("png", "svg"))
    assert not list(tmp_path.iterdir())


def test_one_thing_is_told_in_the_singular():
    assert [quantity(count, "name") for count in (0, 1, 2, 1234)] == ["0 names", "1 name", "2 names", "1,234 names"]


def test_a_name_stays_on_its_line_and_in_utf_8():
    assert escape_name("été 1.png") == "été 1.png"
    assert escape_name("a\nb\tc\r.png") == r"a\nb\tc\r.png"
    assert escape_name("caf\udce9.png") == r"caf\udce9.png"


def test_numbers_are_no_formulas():
    assert count_formulas([-0.5, "-0.5", "+1e-5", "-.5", "7", "", "a=b", None, "1-2"]) == 0
    assert count_formulas(["=1", "+a", "-a", "@x", "\t=1", "\r", "- said he", "-1+2"]) == 8
