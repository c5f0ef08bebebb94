"""Labelled texts from files: what is read, refused and held out, and how a wrong label is told."""

import gzip
import json

import pytest

from regard import config
from regard.tasks.labels import files as labels
from regard.tasks.labels.files import LabelledFile, LabelsConfig, TaggedFile, TagsConfig


def read(*files, names=None, reject=0.5):
    return labels.read(files, names or {}, reject)


def pairs(found):
    return [(example.words, example.labels) for example in found.examples]


def test_json_lines_have_fields_and_labels_may_be_numbers(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    rows = [{"a": {"b": "good film"}, "y": 1}, {"a": {"b": "bad film"}, "y": 0}, {"a": {"b": "so so"}, "y": True}]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    found = read(LabelledFile(path=str(path), fields=("a.b", "y")), names={"1": "positive"})
    assert pairs(found) == [(("good film",), ("positive",)), (("bad film",), ("0",)), (("so so",), ("true",))]
    assert found.place(found.examples[1]) == f"{path}:2"


def test_tables_have_columns_between_tabs_or_commas_and_maybe_a_heading(tmp_path):
    (tmp_path / "a.tsv").write_text("1\tx, y\tyes\n2\tz\tno\n")
    (tmp_path / "a.csv").write_text('id,text,label\n1,"x, ""y""",yes\n2,z,no\n')
    tabs = read(LabelledFile(path=str(tmp_path / "a.tsv"), columns=(2, 3)))
    commas = read(LabelledFile(path=str(tmp_path / "a.csv"), columns=(2, 3), heading=True))
    assert pairs(tabs) == [(("x, y",), ("yes",)), (("z",), ("no",))]
    assert pairs(commas) == [(('x, "y"',), ("yes",)), (("z",), ("no",))]


def test_a_file_may_hold_the_texts_of_one_label(tmp_path):
    (tmp_path / "French.txt").write_text("Dupont\nMartin\n")
    found = read(LabelledFile(path=str(tmp_path / "French.txt"), label="French"))
    assert pairs(found) == [(("Dupont",), ("French",)), (("Martin",), ("French",))]


def test_bad_lines_are_counted_with_their_places_up_to_a_share(tmp_path):
    path = tmp_path / "a.jsonl"
    good = '{"text": "x", "label": "a"}\n'
    bad = ['{"text": "x", "label": null}\n', '{"text": "", "label": "a"}\n', '{"label": "a"}\n', "{\n", '{"text": 1}\n']
    path.write_text(good + "".join(bad) + good)
    with pytest.raises(
        ValueError, match=r"5 of 7 lines .* without a label named label \(.*a.jsonl:2.*raise data.reject"
    ) as error:
        read(LabelledFile(path=str(path)))
    assert "\n" not in str(error.value)
    found = read(LabelledFile(path=str(path)), reject=0.8)
    assert [example.place for example in found.examples] == [(0, 1), (0, 7)]


def test_an_open_quotation_mark_in_a_table_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text('x,a\n"y,b\nz,a\n')
    found = read(LabelledFile(path=str(tmp_path / "a.csv")))
    assert len(found.examples) == 2
    assert list(found.tallies[0].refused) == ["with a quotation mark that is never closed"]


def test_sentences_have_a_tag_after_each_word(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("the/DET cat/NOUN\n\n1/2/NUM of/_\nbroken word/X\n")
    found = read(TaggedFile(path=str(path)))
    assert pairs(found) == [(("the", "cat"), ("DET", "NOUN")), (("1/2", "of"), ("NUM", None))]
    assert list(found.tallies[0].refused) == ["with a word without / and a tag"]


def test_words_in_lines_of_their_own_are_sentences_between_empty_lines(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(
        "# text\n1\tthe\t_\tDET\n2\tcat\t_\tNOUN\n\n\n1\tsleeps\t_\tVERB\n\n1\tbroken\n2\tx\t_\tX\n\n1\tyes\t_\t_\n"
    )
    found = read(TaggedFile(path=str(path), columns=(2, 4)))
    assert pairs(found) == [(("the", "cat"), ("DET", "NOUN")), (("sleeps",), ("VERB",)), (("yes",), (None,))]


def test_what_is_held_out_depends_on_the_texts_alone_and_alike_ones_stay_together(tmp_path):
    lines = [f"text number {number}\t{'a' if number < 250 else 'b'}\n" for number in range(500)]
    twins = [f"Text, number {number}!\tb\n" for number in range(500)]
    sides = []
    for name, order in (("one", lines + twins), ("two", (lines + twins)[::-1])):
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(order))
        sides.append(labels.hold(read(LabelledFile(path=str(path))), 0.2))
    (train, valid), (again, other) = sides
    assert {example.words for example in valid.examples} == {example.words for example in other.examples}
    assert len(train.examples) + len(valid.examples) == 1000 == len(again.examples) + len(other.examples)
    assert 0.2 <= len(valid.examples) / 1000 < 0.21
    assert {label for example in valid.examples for label in example.labels} == {"a", "b"}  # although they were sorted
    bare = [{"".join(filter(str.isalnum, e.words[0].lower())) for e in side.examples} for side in (train, valid)]
    assert not bare[0] & bare[1]


def test_too_few_texts_to_hold_some_out_are_told_in_one_line(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta\n")
    with pytest.raises(ValueError, match="1 texts are too few, or too much alike"):
        labels.hold(read(LabelledFile(path=str(tmp_path / "a.tsv"))), 0.1)


def test_of_few_texts_one_is_held_out(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta\ny\tb\nz\ta\n")
    train, valid = labels.hold(read(LabelledFile(path=str(tmp_path / "a.tsv"))), 0.01)
    assert (len(train.examples), len(valid.examples)) == (2, 1)


def test_a_label_that_was_not_learnt_is_told_with_its_place(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta\ny\tb\n")
    (tmp_path / "b.tsv").write_text("x\ta\ny\tc\n")
    known = labels.classes(read(LabelledFile(path=str(tmp_path / "a.tsv"))))
    assert known == ["a", "b"]
    with pytest.raises(ValueError, match=r"b.tsv:2: the label 'c' is none of the training labels \(a, b\)"):
        labels.numbered(read(LabelledFile(path=str(tmp_path / "b.tsv"))), known)


def test_one_label_is_not_enough(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta\ny\ta\n")
    with pytest.raises(ValueError, match="all texts have the label a"):
        labels.classes(read(LabelledFile(path=str(tmp_path / "a.tsv"))))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LabelledFile(path="x", columns=(1, 1)), "two different numbers"),
        (lambda: TaggedFile(path="x", separator=" "), "separator must be a sign"),
        (lambda: LabelsConfig(train=()), "at least one file"),
        (lambda: config.build(TagsConfig, {"train": {"path": "x"}, "held": 0}), "held must be a number above 0 and"),
        (lambda: config.build(TagsConfig, {"train": {"path": "x", "columns": [0, 1]}}), "from 1 to 10,000, not 0"),
        (lambda: read(LabelledFile(path="nowhere.tsv")), "no file nowhere.tsv"),
    ],
)
def test_settings_that_cannot_be_are_told_in_one_line(make, said):
    with pytest.raises(ValueError, match=said) as error:
        make()
    assert "\n" not in str(error.value)
