"""Columns of a table: what is left out is said, what is mistyped is refused, what is a class is learnt as one."""

import random

import pytest

from regard import config
from regard.data.tables import Sheet
from regard.tasks.tables import files as tables
from regard.tasks.tables.columns import choose_columns
from regard.tasks.tables.files import TableConfig

CHANCE = random.Random(0)
NUMBERS = [f"{CHANCE.random():.4f}" for _ in range(60)]
AGES = [str(CHANCE.randrange(20, 60)) for _ in range(60)]


def table(folder, mark: str = ",", **columns: list[str]) -> str:
    path = folder / "t.csv"
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    path.write_text("".join(mark.join(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def prepare(path: str, **changes):
    return tables.prepare(config.build(TableConfig, {"train": path, "target": "y", **changes}))


def test_columns_that_are_left_out_are_named_with_the_reason_in_one_line(tmp_path):
    path = table(
        tmp_path,
        passengerId=[str(7 * row + 3) for row in range(60)],
        sexe=["M", "F", "F"] * 20,
        ticket=["A/5 21171", "113803"] * 30,
        nothing=[""] * 60,
        age=AGES,
        y=NUMBERS,
    )
    prepared = prepare(path)
    assert prepared.columns.inputs == ("age",)
    assert prepared.summary == [
        "48 rows to learn y from age, 12 held out",
        "  left out: passengerId (a number for each row), sexe (words, not numbers), ticket (30 of 60 are no numbers), "
        "nothing (empty); data.inputs=[...] names the columns to learn from",
    ]


@pytest.mark.parametrize("cell", ["", "abc", "inf", "nan", "1,5", "0x10", "NA"])
@pytest.mark.parametrize("column", ["x", "y"])
def test_one_cell_that_is_no_number_is_refused_with_its_place_and_changes_nothing_silently(tmp_path, cell, column):
    columns = {"x": [*NUMBERS], "z": AGES, "y": [*reversed(NUMBERS)]}
    columns[column][29] = f'"{cell}"'
    what = f"{cell!r}" if cell else "an empty cell"
    with pytest.raises(
        ValueError, match=rf"t\.csv:31: {what} in column {column} is no number: correct it, or "
    ) as error:
        prepare(table(tmp_path, **columns))
    assert ("'data.inputs=[z]'" if column == "x" else "data.predicts=class") in str(error.value)


def test_a_column_with_gaps_can_be_left_out_by_naming_the_others_as_the_message_does(tmp_path):
    gaps = ["" if row % 5 == 0 else age for row, age in enumerate(AGES)]
    path = table(tmp_path, x=NUMBERS, **{"my age": gaps}, z=AGES, y=NUMBERS)
    with pytest.raises(ValueError, match=r"t\.csv:2: an empty cell in column my age .*\(and 11 cells more\)") as error:
        prepare(path)
    assert "'data.inputs=[x, z]'" in str(error.value)
    assert prepare(path, inputs=["x", "z"]).columns.inputs == ("x", "z")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_decimal_commas_are_read_as_numbers_and_said(tmp_path, mark):
    comma = [number.replace(".", ",") for number in NUMBERS]
    path = table(tmp_path, mark=mark, age=AGES, x=comma, y=[*reversed(comma)])
    prepared = prepare(path)
    assert prepared.columns.classes == ()
    assert sorted([*prepared.train.targets, *prepared.valid.targets]) == sorted(map(float, NUMBERS))
    assert f"  {path}: decimal commas are read as points" in prepared.summary
    assert tables.read(path, prepared.columns).inputs[0].tolist() == [float(AGES[0]), float(NUMBERS[0])]


def test_a_comma_among_decimal_points_or_between_commas_is_no_decimal_comma(tmp_path):
    mixed = [*NUMBERS[:-1], "1,5"]
    with pytest.raises(ValueError, match=r"t\.csv:61: '1,5' in column x is no number"):
        prepare(table(tmp_path, mark=";", x=mixed, y=NUMBERS))
    thousands = ['"1,500"', *AGES[1:]]
    with pytest.raises(ValueError, match=r"t\.csv:2: '1,500' in column x is no number"):
        prepare(table(tmp_path, x=thousands, y=AGES))


@pytest.mark.parametrize(
    ("target", "classes"),
    [
        (["0", "1", "1"] * 20, ("0", "1")),
        (["-1", "1"] * 30, ("-1", "1")),
        (["1", "2", "3", "4", "5"] * 12, ("1", "2", "3", "4", "5")),
        (["4", "6", "8"] * 20, ()),
        (["0.5", "1.5"] * 30, ()),
        (AGES, ()),
    ],
)
def test_a_few_whole_numbers_are_classes_unless_a_number_is_asked_for(tmp_path, target, classes):
    path = table(tmp_path, x=NUMBERS, y=target)
    prepared = prepare(path)
    assert prepared.columns.classes == classes
    said = f"  y holds {len(classes)} values: learnt as classes; data.predicts=number learns a number"
    assert (said in prepared.summary) == bool(classes)
    assert prepare(path, predicts="number").columns.classes == ()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (["3"] * 60, r"t\.csv:2: column y is 3 in every row, nothing to learn: choose data\.target=NAME \(x\)"),
        ([""] * 60, "column y is empty, nothing to learn"),
        (["yes", "no", ""] * 20, r"t\.csv:4: an empty cell in column y, which is predicted \(20 in all\)"),
        ([f"Mr. No {row}" for row in range(60)], "column y holds 60 different texts in 60 rows"),
    ],
)
def test_a_target_that_cannot_be_learnt_is_refused(tmp_path, target, said):
    with pytest.raises(ValueError, match=said) as error:
        prepare(table(tmp_path, x=NUMBERS, y=target))
    assert "\n" not in str(error.value)


def test_a_series_is_learnt_from_its_counter_if_there_is_nothing_else(tmp_path):
    days = [str(day + 1) for day in range(60)]
    assert prepare(table(tmp_path, day=days, y=NUMBERS)).columns.inputs == ("day",)
    assert prepare(table(tmp_path, day=days, x=AGES, y=NUMBERS)).columns.inputs == ("x",)
    with pytest.raises(ValueError, match=r"no column of numbers to predict y from; id \(a number for each row\)"):
        prepare(table(tmp_path, id=days, y=NUMBERS))


def test_what_is_named_is_taken_as_it_is(tmp_path):
    path = table(tmp_path, id=[str(row) for row in range(60)], x=AGES, y=["0", "1"] * 30)
    choice = choose_columns([Sheet.read(path)], "y", ("id", "x"), "number")
    assert (choice.inputs, choice.kind, choice.notes) == (("id", "x"), "number", ())
