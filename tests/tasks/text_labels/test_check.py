"""Checking labelled data: every number against counting by hand, and what stops a training stops the check."""

import json

import pytest

from regard.cli import run
from regard.tasks.text_encoders.examples import read_examples
from regard.tasks.text_encoders.labelled_file import LabelledFile
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig
from regard.tasks.text_labels.check import check_examples
from regard.tasks.text_labels.files import LabelsConfig, TagsConfig
from regard.tasks.text_labels.tagged_file import TaggedFile


@pytest.fixture
def texts(tmp_path):
    rows = [f"{'very ' * (n % 7)}good film {n},{'a' if n % 3 else 'b'}\n" for n in range(60)]
    rows += ["good film 1,a\n", "good film 1,b\n", ",a\n", "rare one,c\n"]  # again, otherwise, empty, alone
    (tmp_path / "train.csv").write_text("".join(["text,label\n", *rows]).replace("very good film 1,", "good film 1,"))
    (tmp_path / "valid.csv").write_text("good film 1,a\nsomething new,b\n")
    train, valid = (LabelledFile(path=str(tmp_path / name)) for name in ("train.csv", "valid.csv"))
    return LabelsConfig(train=(train,), valid=(valid,), reject=0.5)


def lines(finding):
    return [int(place.rpartition(":")[2]) for place in finding.places]


def test_every_count_is_what_counting_by_hand_gives(texts):
    report = check_examples(texts, TextTokenizerConfig(max_length=4))
    assert report.labels == {
        "a": {"train": 41, "valid": 1},
        "b": {"train": 21, "valid": 1},
        "c": {"train": 1, "valid": 0},
    }
    assert (lines(report.repeated), lines(report.several), lines(report.overlap)) == ([62], [63], [1])
    train = report.corpora[0]
    assert (train["read"], train["good"], train["refused"]["empty on one side"]["count"]) == (64, 63, 1)
    assert "is a heading" in train["layout"]
    assert report.kept == {"train": 63, "valid": 2}
    assert report.rare == ["c"]
    assert report.longest[0] == (len("very " * 6 + "good film 13"), train["file"] + ":15")
    assert report.lengths["words"].plain()["most"] == report.lengths["tokens"].plain()["most"] == 9
    assert report.cut.count == sum(n % 7 + 3 > 4 for n in range(60))
    assert report.verdict == "can be trained on: 63 texts to learn from, 2 to measure on, 3 labels"
    assert json.loads(json.dumps(report.plain()))["labels"]["c"]["train"] == 1


def test_what_would_stop_a_training_is_told(texts, tmp_path):
    (tmp_path / "valid.csv").write_text("good film 1,a\nsomething new,z\n")
    strict = LabelsConfig(train=texts.train, valid=texts.valid, reject=0.001)
    [bad, unknown] = check_examples(strict).problems
    assert bad.startswith("1 of 64 lines")
    assert "valid.csv:2: the label 'z' is none of the training labels" in unknown
    swapped = LabelledFile(path=texts.train[0].path, columns=(2, 1))
    [odd] = check_examples(LabelsConfig(train=(swapped,))).problems
    assert "different labels" in odd
    assert check_examples(LabelsConfig(train=(LabelledFile(path="nowhere.csv"),))).verdict.startswith(
        "cannot be trained on: no"
    )


def test_tagged_sentences_are_checked_too(tmp_path):
    (tmp_path / "a.txt").write_text("the/D cat/N\n" * 2 + "the/D dog/N sleeps/V\na/D dog/_\n")
    report = check_examples(TagsConfig(train=(TaggedFile(path=str(tmp_path / "a.txt")),)))
    assert report.labels["D"] == {"train": 4, "valid": 0}
    assert list(report.labels) == ["D", "N", "V"]
    assert lines(report.repeated) == [2]


def test_the_command_checks_labels(texts, capsys):
    settings = ["task=classification", f"data.train.path={texts.train[0].path}"]
    assert run(["data", "check", *settings, "--json"]) == 1
    assert "more than the allowed 1.00%" in json.loads(capsys.readouterr().out)["verdict"]
    assert run(["data", "check", *settings, "data.reject=0.1"]) == 0
    said = capsys.readouterr().out
    assert "label a" in said
    assert "can be trained on" in said


def test_sentences_with_a_word_in_each_line_are_counted_as_sentences(tmp_path):
    (tmp_path / "a.conll").write_text("the\tD\ncat\tN\n\n" * 3)
    (tmp_path / "b.txt").write_text("the/D cat/N\n" * 3)
    found = [
        read_examples([TaggedFile(path=str(tmp_path / name))], {}, 0.01).summary[0] for name in ("a.conll", "b.txt")
    ]
    assert [line.partition(": ")[2] for line in found] == ["3 sentences in 9 lines", "3 of 3 lines kept"]
