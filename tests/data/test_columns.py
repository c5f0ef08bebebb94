"""The chooser of columns: names first, then what the cells hold, then the usual position; the rest is left out."""

import pytest

from regard.data.column_content import CLASS, TEXT
from regard.data.column_names import LABELS, TEXTS
from regard.data.columns import ColumnSample, Role, check_columns, choose_columns, locate_column, pair_roles
from regard.data.labelled_columns import choose_labelled_columns

ROWS = [[str(n), f"a film number {n} that was {('dull', 'good')[n % 2]}", "np"[n % 2]] for n in range(40)]
TEXT_ROLE = Role(name="text", usual=TEXTS, content=TEXT, position=1)
LABEL_ROLE = Role(name="label", usual=LABELS, content=CLASS, position=2)


def choose(names=(), rows=ROWS, roles=(TEXT_ROLE, LABEL_ROLE)):
    choice = choose_columns(ColumnSample("a.csv", tuple(names), rows), roles)
    return list(choice.places.values()), [choice.reasons[name] for name in choice.places], choice.left_out


@pytest.mark.parametrize(
    ("names", "places", "reasons", "left_out"),
    [
        (("text", "b", "Label"), [0, 2], ["usual", "usual"], ["b"]),
        (("n", "avis", "étiquette"), [1, 2], ["usual", "usual"], ["n"]),
        (("n", "review", "verdict"), [1, 2], ["usual", "content"], ["n"]),
        (("n", "remark", "label"), [1, 2], ["content", "usual"], ["n"]),
        (("a", "b", "c"), [1, 2], ["content", "content"], ["a"]),
        ((), [1, 2], ["content", "content"], ["column 1"]),
    ],
)
def test_names_come_before_what_the_cells_hold(names, places, reasons, left_out):
    assert choose(names) == (places, reasons, left_out)


def test_usual_positions_are_believed_where_the_cells_allow_it():
    rows = [[text, label, str(n)] for n, text, label in ROWS]
    assert choose(rows=rows)[:2] == ([0, 1], ["position", "position"])
    assert choose(rows=[]) == ([0, 1], ["position", "position"], [])
    sentences = [[f"a text of several words {n}", f"another long text, as different as number {n}"] for n in range(40)]
    assert choose(rows=sentences)[:2] == ([0, 1], ["position", "position"]), "no column can hold labels"


def test_a_column_that_somebody_names_is_taken_by_name_or_number_and_no_other_role_gets_it():
    named = Role(name="label", column="TEXT", usual=LABELS)
    assert choose(("text", "review", "label"), roles=[TEXT_ROLE, named])[0] == [1, 0]
    numbered = Role(name="label", column=2)
    assert choose(("text", "review", "label"), roles=[TEXT_ROLE, numbered])[:2] == ([0, 1], ["usual", "numbered"])
    assert choose(("text", "review", "label"), roles=[TEXT_ROLE, Role(name="label", column="2")])[1][1] == "numbered"
    trained = Role(name="text", trained=("remark",), usual=TEXTS)
    assert choose(("text", "Remark", "label"), roles=[trained])[:2] == ([1], ["training"])


def test_a_guess_of_what_a_file_is_trusts_a_name_only_with_its_content():
    strict = Role(name="label", usual=LABELS, content=CLASS, needs_content=True, required=False)
    assert choose(("label", "b", "c"), roles=[strict])[:2] == ([2], ["content"])
    assert choose(("a", "b", "c"), rows=[row[:2] for row in ROWS], roles=[strict])[0] == []


def test_one_short_row_hides_no_column():
    assert choose(rows=[*ROWS, ["41"]])[0] == [1, 2]


def test_both_texts_of_a_pair_have_names_that_go_together():
    names = ("id", "hypothesis", "gold_label", "premise")
    choice = choose_labelled_columns(ColumnSample("a.csv", names), usual_labels=("gold_label",))
    assert choice.describe() == "first text is premise, second text is hypothesis, label is gold_label; id is left out"
    assert [role.usual for role in pair_roles(("b", "x", "a"), ("a", "b"))] == [("a",), ("b",)]
    assert not pair_roles(("premise", "conclusion"))


def test_fields_of_json_lines_are_chosen_as_columns_are():
    records = [{"id": n, "meta": {"text": text}, "tags": [label], "ok": True} for n, text, label in ROWS]
    assert ColumnSample.of_records("a.jsonl", records).names == ("id", "ok")
    assert ColumnSample.of_records("a.jsonl", records, texts=True).names == ("id", "meta.text")
    assert ColumnSample.of_records("a.jsonl", [*records, {"ok": False}]).columns[0].cells[-2:] == ("true", "false")


@pytest.mark.parametrize(
    ("role", "said"),
    [
        ({"name": "text"}, "a.csv: cannot tell which column holds the text (a, b): name it"),
        (
            {"name": "text", "trained": ("avis",), "setting": "name it, as --column {column}"},
            "a.csv: cannot tell which column holds the text (a, b), and none is called 'avis' as in training: "
            "name it, as --column b",
        ),
        (
            {"name": "text", "column": "xyz", "setting": "name it by data.text=COLUMN"},
            "a.csv has no column 'xyz'; there are a, b: name it by data.text=COLUMN",
        ),
    ],
)
def test_what_cannot_be_told_is_one_error_with_the_columns_and_the_setting(role, said):
    with pytest.raises(ValueError) as error:
        choose_columns(ColumnSample("a.csv", ("a", "b"), [["x", "some more words"]]), [Role(**role)])
    assert str(error.value) == said


def test_columns_that_must_be_there_are_looked_for_by_their_exact_names():
    check_columns("a.csv", ["a", "b"], ["b"])
    with pytest.raises(ValueError, match=r"^a.csv has no column 'A', did you mean a\? add it, or name one"):
        check_columns("a.csv", ["a", "b"], ["A"])
    assert locate_column("a.csv", ["a", "b"], "A") == 0
