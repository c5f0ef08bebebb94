"""Labelled texts from files: what is read, refused and held out, and how a wrong label is told."""

import csv
import gzip
import io
import json

import pytest

from regard import config
from regard.tasks.text_encoders.examples import label_names, label_numbers, read_examples, split_examples
from regard.tasks.text_encoders.labelled_file import LabelledFile
from regard.tasks.text_labels.files import LabelsConfig, TagsConfig
from regard.tasks.text_labels.tagged_file import TaggedFile


def read(*files, names=None, reject=0.5):
    return read_examples(files, names or {}, reject)


def pairs(found):
    return [(example.texts, example.labels) for example in found.examples]


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
    assert list(found.reports[0].refused) == ["with a quotation mark that is never closed"]


FILMS = [(f"a film {n}, which was {'good' if n % 3 else 'bad'}", "up" if n % 3 else "down") for n in range(60)]


def table(path, rows, *, heading=(), delimiter=",", mark=b"", zipped=False):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([*([heading] if heading else []), *rows])
    data = mark + text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if zipped else data)
    return LabelledFile(path=str(path))


@pytest.mark.parametrize(
    "how",
    [
        {"heading": ("text", "label")},
        {"heading": ("Review", "Stars")},
        {"heading": ("ce qui", "est dit")},  # no usual name: a label that never comes again
        {"delimiter": ";"},
        {"delimiter": "\t", "heading": ("text", "class")},
        {"delimiter": "|"},
        {"mark": b"\xef\xbb\xbf", "heading": ("text", "label")},
        {"zipped": True},
        {},
    ],
)
def test_delimiter_heading_mark_and_compression_of_a_table_are_recognised(tmp_path, how):
    found = read(table(tmp_path / f"a.csv{'.gz' * how.get('zipped', False)}", FILMS, **how))
    assert pairs(found) == [((text,), (label,)) for text, label in FILMS]
    assert found.place(found.examples[0]).endswith(f":{1 + bool(how.get('heading'))}")
    assert found.reports[0].read == 60
    said = " ".join(found.summary)
    assert ("is a heading" in said) == bool(how.get("heading"))
    assert ("between semicolons" in said) == (how.get("delimiter") == ";")


def test_a_first_line_that_is_a_text_stays_one(tmp_path):
    words = [("être", "verbe"), ("lentement", "adverbe"), ("chat", "nom"), ("manger", "verbe"), ("ici", "adverbe")]
    assert len(read(table(tmp_path / "a.csv", [*words, ("chien", "nom")])).examples) == 6
    assert len(read(table(tmp_path / "b.csv", [("text", "up"), *FILMS])).examples) == 61
    given = table(tmp_path / "c.csv", FILMS, heading=("text", "label"))
    assert len(read(LabelledFile(path=given.path, heading=False)).examples) == 61


@pytest.mark.parametrize(
    "chosen", [{"text": "words", "label": "stars"}, {"text": 3, "label": 1}, {"columns": (3, 1)}, {}]
)
def test_columns_are_named_numbered_or_found(tmp_path, chosen):
    rows = [(label, str(n), text) for n, (text, label) in enumerate(FILMS)]
    path = table(tmp_path / "a.csv", rows, heading=("stars", "number", "words")).path
    file = LabelledFile(path=path, **chosen)
    found = read(file)
    assert pairs(found) == [((text,), (label,)) for text, label in FILMS]
    assert pairs(read(LabelledFile(path=path, **file.shared_settings()))) == pairs(found)
    with pytest.raises(
        ValueError, match=r"no column 'star', did you mean stars\? name it, as text: COLUMN and label: COLUMN"
    ):
        read(LabelledFile(path=path, text="words", label="star"))


def test_fields_of_json_lines_have_usual_names_or_are_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"id": 1, "Review": text, "sentiment": label}) + "\n" for text, label in FILMS))
    expected = [((text,), (label,)) for text, label in FILMS]
    assert pairs(read(LabelledFile(path=str(path)))) == expected
    assert pairs(read(LabelledFile(path=str(path), text="Review", label="sentiment"))) == expected
    with pytest.raises(ValueError, match="sentiment would be the label of every line"):
        read(LabelledFile(path=str(path), label="sentiment", fields=("Review", "sentiment")))


def test_a_cell_may_go_over_lines_and_is_placed_by_its_first(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"good\nfilm",a\n\nbad,b\n"never ""closed",b\n"open,a\nlast,a\n')
    found = read(LabelledFile(path=str(path)))
    assert [(example.texts[0], example.place[1]) for example in found.examples] == [
        ("good\nfilm", 2),
        ("bad", 5),
        ('never "closed', 6),
        ("last", 8),
    ]
    [(why, bad)] = found.reports[0].refused.items()
    assert (why, bad.places) == ("with a quotation mark that is never closed", [(0, 7)])
    assert found.reports[0].dropped["blank"].places == [(0, 4)]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_swapped_columns_are_refused_in_one_line_with_the_remedy(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        table(path, FILMS)
        swapped, remedy = LabelledFile(path=str(path), columns=(2, 1)), r"set columns=\[1, 2\]"
    else:
        path.write_text("".join(json.dumps({"text": label, "label": text}) + "\n" for text, label in FILMS))
        swapped, remedy = LabelledFile(path=str(path)), "name other fields"
    with pytest.raises(ValueError, match=rf"60 different labels for 60 texts, such as 'a film 0.*{remedy}") as error:
        read(swapped)
    assert "\n" not in str(error.value)


def test_labels_that_come_first_are_found_and_sentences_are_no_labels(tmp_path):
    turned = [(label, text) for text, label in FILMS]
    assert pairs(read(table(tmp_path / "a.csv", turned))) == [((text,), (label,)) for text, label in FILMS]
    long = [(f"text {n}", f"this is a very long sentence about number {n % 25}") for n in range(100)]
    with pytest.raises(ValueError, match="labels of 9 words, such as 'this is"):
        read(table(tmp_path / "b.csv", long))


def test_sentences_have_a_tag_after_each_word(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("the/DET cat/NOUN\n\n1/2/NUM of/_\nbroken word/X\n")
    found = read(TaggedFile(path=str(path)))
    assert pairs(found) == [(("the", "cat"), ("DET", "NOUN")), (("1/2", "of"), ("NUM", None))]
    assert list(found.reports[0].refused) == ["with a word without / and a tag"]


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
        sides.append(split_examples(read(LabelledFile(path=str(path))), 0.2))
    (train, valid), (again, other) = sides
    assert {example.texts for example in valid.examples} == {example.texts for example in other.examples}
    assert len(train.examples) + len(valid.examples) == 1000 == len(again.examples) + len(other.examples)
    assert 0.2 <= len(valid.examples) / 1000 < 0.21
    assert {label for example in valid.examples for label in example.labels} == {"a", "b"}  # although they were sorted
    bare = [{"".join(filter(str.isalnum, e.texts[0].lower())) for e in side.examples} for side in (train, valid)]
    assert not bare[0] & bare[1]


def test_too_few_texts_to_hold_some_out_are_told_in_one_line(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta\n")
    with pytest.raises(ValueError, match="1 texts are too few, or too much alike"):
        split_examples(read(LabelledFile(path=str(tmp_path / "a.tsv"))), 0.1)


def test_of_few_texts_one_is_held_out(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta\ny\tb\nz\ta\n")
    train, valid = split_examples(read(LabelledFile(path=str(tmp_path / "a.tsv"))), 0.01)
    assert (len(train.examples), len(valid.examples)) == (2, 1)


def test_a_label_that_was_not_learnt_is_told_with_its_place(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta\ny\tb\n")
    (tmp_path / "b.tsv").write_text("x\ta\ny\tc\n")
    known = label_names(read(LabelledFile(path=str(tmp_path / "a.tsv"))))
    assert known == ["a", "b"]
    with pytest.raises(ValueError, match=r"b.tsv:2: the label 'c' is none of the training labels \(a, b\)"):
        label_numbers(read(LabelledFile(path=str(tmp_path / "b.tsv"))), known)


def test_one_label_is_not_enough(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ta\ny\ta\n")
    with pytest.raises(ValueError, match="all texts have the label a"):
        label_names(read(LabelledFile(path=str(tmp_path / "a.tsv"))))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LabelledFile(path="x", columns=(1, 1)), "two different numbers"),
        (lambda: LabelledFile(path="x", columns=(1, 2), text="a"), "name the same columns"),
        (lambda: LabelledFile(path="x", text=2, label=2), "two different columns"),
        (lambda: LabelledFile(path="x", text=0, label=2), "text is counted from 1"),
        (lambda: LabelledFile(path="x", delimiter="ab"), "delimiter must be one character"),
        (lambda: TaggedFile(path="x", separator=" "), "separator must be a sign"),
        (lambda: LabelsConfig(train=()), "at least one file"),
        (
            lambda: config.build(TagsConfig, {"train": {"path": "x"}, "validation_share": 0}),
            "validation_share must be a number above 0 and",
        ),
        (lambda: config.build(TagsConfig, {"train": {"path": "x", "columns": [0, 1]}}), "from 1 to 10,000, not 0"),
        (lambda: read(LabelledFile(path="nowhere.tsv")), "no file nowhere.tsv"),
    ],
)
def test_settings_that_cannot_be_are_told_in_one_line(make, said):
    with pytest.raises(ValueError, match=said) as error:
        make()
    assert "\n" not in str(error.value)
