"""Parts cut from one file share no sentence, are the same every time, and say which test pairs are unlike training."""

import gzip
import runpy
import sys
from pathlib import Path

import pytest

from regard.data.holdout import sentence
from tests.desk import SAMPLE
from tests.documents import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "split_pairs.py"))
LINES = [tuple(line.split("\t")) for line in gzip.decompress(SAMPLE.read_bytes()).decode("utf-8").splitlines()]


def test_no_sentence_of_a_part_is_in_another_on_either_side():
    parts = SCRIPT["split"](LINES, valid=30, test=40)
    assert (len(parts["valid"]), len(parts["test"])) == (30, 40)
    for side in (0, 1):
        sentences = [{sentence(line[side]) for line in part} for part in parts.values()]
        assert len(set.union(*sentences)) == sum(map(len, sentences))


def test_pairs_that_share_a_sentence_through_others_stay_together():
    lines = [("a", "x"), ("A!", "y"), ("b", "Y."), ("c", "z")]
    assert sorted(map(sorted, SCRIPT["groups"](lines))) == [[("A!", "y"), ("a", "x"), ("b", "Y.")], [("c", "z")]]


def test_the_order_of_the_lines_does_not_matter():
    there, back = (SCRIPT["split"](lines, valid=30, test=40) for lines in (LINES, LINES[::-1]))
    assert (there["test"], there["valid"]) == (back["test"], back["valid"])
    assert set(there["train"]) == set(back["train"])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.0])
def test_a_line_is_far_if_comparing_it_with_every_known_one_says_so(share):
    held, known = LINES[:60], LINES[60:]
    words = SCRIPT["words"]

    def alike(one: str, other: str) -> bool:
        return len(words(one) & words(other)) >= share * len(words(one) | words(other))

    expected = [line for line in held if not any(alike(line[side], other[side]) for other in known for side in (0, 1))]
    assert SCRIPT["far"](held, known, share=share) == expected


def test_words_that_are_the_same_on_one_side_are_enough_to_be_near():
    known = [("Opens the file.", "Ouvre le fichier.")]
    near, other = ("Opens the files", "Rien de tel"), ("Closes it", "Ferme")
    assert SCRIPT["far"]([near, other], known, share=0.5) == [other]


def test_the_parts_are_written_with_all_their_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    command = ["split_pairs.py", str(SAMPLE), str(tmp_path), "--valid", "5", "--test", "7", "--far", "0.5"]
    monkeypatch.setattr(sys, "argv", command)
    SCRIPT["main"]()
    assert "test: 7 pairs" in capsys.readouterr().out
    parts = {
        path.name.split(".")[0]: gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
        for path in tmp_path.iterdir()
    }
    assert set(parts) == {"train", "valid", "test", "far"}
    assert set(parts["far"]) <= set(parts["test"])
    assert all(tuple(line.split("\t")) in LINES for part in parts.values() for line in part)
