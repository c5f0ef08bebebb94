"""`regard explain --tree`: the search for an answer in the terminal, as JSON, as a picture and in a page."""

import json
import re
from pathlib import Path

import pytest

import regard
from regard.cli import run
from regard.decoding.search_tree import read_tree

pytestmark = pytest.mark.unchecked
SMALL = str(Path(__file__).parent.parent / "checkpoints" / "format-1")
TEXT = "Le chat noir dort."


def test_the_tree_is_printed_within_the_terminal_and_says_what_was_answered(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["explain", SMALL, TEXT, "--tree", "--beams", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    tree = regard.load(SMALL).tree(TEXT, beams=3)
    winner = tree.nodes[tree.answers[0]]
    [line] = [line for line in lines if line.startswith("★") and "(end)" in line]
    assert line.startswith(f"★ {tree.answer} (end)")
    assert line.split()[-2:] == [f"{winner.total:.3f}", f"{winner.normalized:.3f}"]
    assert "kept the 3 best hypotheses" in lines[0]


def test_the_tree_is_written_as_json_picture_and_page(capsys, tmp_path):
    for name in ("tree.json", "tree.png", "tree.svg", "tree.html"):
        assert run(["explain", SMALL, TEXT, "--tree", "-o", str(tmp_path / name)]) == 0
        assert capsys.readouterr().out == f"{tmp_path / name}: how the answer was searched for\n"
    plain = json.loads((tmp_path / "tree.json").read_text(encoding="utf-8"))
    assert run(["explain", SMALL, TEXT, "--tree", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == plain
    assert read_tree(plain).answer == regard.load(SMALL).translate(TEXT)
    data = re.search(r'id="data">(.*?)</script>', (tmp_path / "tree.html").read_text(encoding="utf-8"), re.S)
    assert json.loads(data[1])["tree"] == plain


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["encoder", "a b", "--tree"], "--tree is for models that write: encoder is an embedder, leave it out"),
        ([SMALL, TEXT, "--tree", "--step", "2"], "--tree shows how an answer was searched for: leave --step out"),
        ([SMALL, TEXT, "--tree", "--gold", "0-0"], "--tree shows how an answer was searched for: leave --gold out"),
        ([SMALL, TEXT, "--tree", "--head", "0"], "--tree shows how an answer was searched for: leave --head out"),
        ([SMALL, TEXT, "--beams", "3"], "--beams is for --tree: add it, or leave --beams out"),
        ([SMALL, "--tree"], "give one input to explain, not 0"),
        ([SMALL, TEXT, TEXT, "--tree"], "give one input to explain, not 2"),
        ([SMALL, TEXT, "--tree", "-o", "tree.csv"], "tree.csv: cannot draw a csv file, choose png, json or html"),
        (["stories", "Once", "--to", "fr", "--tree"], "--to is for translators: stories is a language model"),
    ],
)
def test_what_has_no_tree_is_said_in_one_line(words, message, capsys):
    assert run(["explain", *words]) == 1
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
