"""Tables: what is read, how it is split and scaled, and what is refused with its line."""

import gzip

import numpy as np
import pytest

from regard import config
from regard.tasks.tables import files as tables
from regard.tasks.tables.files import TableConfig

ROWS = [f"{i / 10},{i % 7},{'odd' if i % 2 else 'even'},{i * 3}" for i in range(50)]


def table(folder, *, name: str = "t.csv", header: str = "a,b,kind,y", rows: list[str] | None = None) -> str:
    path = folder / name
    data = "".join(f"{line}\n" for line in (header, *(ROWS if rows is None else rows))).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def settings(path: str, **changes) -> TableConfig:
    return config.build(TableConfig, {"train": path, "target": "y", "inputs": ("a", "b"), **changes})


def test_columns_have_mean_0_and_deviation_1_where_something_is_learnt_from(tmp_path):
    found = tables.prepare(settings(table(tmp_path)))
    scaled = found.columns.scale(found.train.inputs)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(0), 1, atol=1e-6)
    assert len(found.train) + len(found.valid) == 50
    assert len(found.valid) == 10
    assert found.columns.mean == pytest.approx(found.train.targets.mean())
    assert not set(found.train.places) & set(found.valid.places)
    assert found.train.places[0].startswith(str(tmp_path / "t.csv:"))


def test_all_other_columns_are_taken_where_none_is_named(tmp_path):
    path = table(tmp_path, header="a,b,y", rows=["1,2,3", "2,3,4", "4,1,5", "5,5,5"])
    assert tables.prepare(settings(path, inputs=())).columns.inputs == ("a", "b")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_commas_semicolons_and_tabs_lie_between_cells_and_files_may_be_gzipped(tmp_path, mark):
    path = table(
        tmp_path, name="t.csv.gz", header=f"a{mark}b{mark}y", rows=[f"{i}{mark}{i}.5{mark}{i * i}" for i in range(9)]
    )
    found = tables.prepare(settings(path))
    assert sorted([*found.train.inputs[:, 1], *found.valid.inputs[:, 1]]) == [i + 0.5 for i in range(9)]


def test_quoted_cells_marks_and_blank_lines_are_read(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'\xef\xbb\xbf"a",b,"y, in s"\r\n1,"2",3\r\n\r\n4,5,6\r\n7,8,9\r\n')
    found = tables.prepare(settings(str(tmp_path / "t.csv"), target="y, in s"))
    assert {*found.train.places, *found.valid.places} == {f"{tmp_path / 't.csv'}:{line}" for line in (2, 4, 5)}


def test_equal_rows_are_held_out_together(tmp_path):
    rows = [f"{i % 6},{i % 6},x,{i}" for i in range(60)]
    found = tables.prepare(settings(table(tmp_path, rows=rows)))
    assert not {tuple(row) for row in found.train.inputs} & {tuple(row) for row in found.valid.inputs}


def test_which_rows_are_held_out_depends_on_the_seed_and_not_on_their_order(tmp_path):
    def held(rows: list[str], seed: int = 0) -> set[float]:
        return set(tables.prepare(settings(table(tmp_path, rows=rows), seed=seed)).valid.inputs[:, 0])

    assert held(ROWS) == held(ROWS[::-1]) != held(ROWS, seed=1)


def test_an_epoch_shows_every_row_once_in_an_order_of_its_own(tmp_path):
    found = tables.prepare(settings(table(tmp_path)))
    assert found.rows(16) == 3
    epochs = [[found.row(epoch * 3 + row, batch=16, seed=0) for row in range(3)] for epoch in range(2)]
    orders = [np.concatenate(epoch).tolist() for epoch in epochs]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(40))
    assert orders[0] != orders[1]
    assert np.array_equal(found.row(4, batch=16, seed=0), epochs[1][1])
    assert not np.array_equal(found.row(4, batch=16, seed=1), epochs[1][1])


def test_classes_are_named_in_order(tmp_path):
    found = tables.prepare(settings(table(tmp_path), target="kind", predicts="class"))
    assert found.columns.classes == ("even", "odd")
    assert set(found.train.targets) == {0, 1}


def test_a_table_of_its_own_can_be_measured_on(tmp_path):
    valid = table(tmp_path, name="v.csv", header="y,b,a", rows=["1,2,3", "4,5,6"])
    found = tables.prepare(settings(table(tmp_path), valid=valid))
    assert (len(found.train), len(found.valid)) == (50, 2)
    assert found.valid.inputs.tolist() == [[3, 2], [6, 5]]
    assert found.report["valid"]["rows"] == 2


def test_tables_with_the_same_columns_are_one(tmp_path):
    more = table(tmp_path, name="more.csv", header="y,a,b", rows=["7,1,2", "8,3,4"])
    found = tables.prepare(settings([table(tmp_path), {"path": more}], valid={"path": table(tmp_path, name="v.csv")}))
    assert len(found.train) == 52
    assert found.train.inputs[-2:].tolist() == [[1, 2], [3, 4]]
    assert found.train.targets[-2:].tolist() == [7, 8]
    assert found.train.places[-1] == f"{more}:3"
    other = table(tmp_path, name="other.csv", header="a,c,y", rows=["1,2,3"])
    with pytest.raises(ValueError, match=r"other\.csv has no column 'b'"):
        tables.prepare(settings([table(tmp_path), other]))


def test_targets_are_read_where_all_are_there(tmp_path):
    columns = tables.prepare(settings(table(tmp_path))).columns
    rows = ["1,2,x,5", "1,2,x,"]
    assert tables.read(table(tmp_path, name="n.csv", rows=rows), columns).targets is None
    assert tables.read(table(tmp_path, name="n.csv", rows=rows[:1]), columns).targets.tolist() == [5]
    assert tables.read(table(tmp_path, name="n.csv", header="b,a", rows=["2,1"]), columns).inputs.tolist() == [[1, 2]]


def test_the_fingerprint_follows_contents_and_columns(tmp_path):
    def mark(**changes) -> str:
        return tables.prepare(settings(table(tmp_path), **changes)).report["train"]["fingerprint"]

    assert mark() == mark(batch_size=5) != mark(inputs=("a",))
    assert mark() != mark(validation_share=0.5)


@pytest.mark.parametrize(
    ("header", "rows", "changes", "said"),
    [
        ("", [], {}, "is empty: give a table"),
        ("a,b,y", [], {}, "holds no rows below its header"),
        ("a,b,y", ["1,2,3", "1,x,4"], {}, r"t\.csv:3: 'x' in column b is no number"),
        ("a,b,y", ["1,2,3", "1,,4"], {}, r"t\.csv:3: an empty cell in column b"),
        ("a,b,y", ["1,nan,3"], {}, r"t\.csv:2: 'nan' in column b is no number"),
        (
            "a,b,y",
            ["1,2,inf"],
            {},
            r"t\.csv:2: 'inf' in column y is no number: correct it, or set data\.predicts=class",
        ),
        ("a,b,y", ["1,2,3", "1,2"], {}, r"t\.csv:3: 2 cells under 3 columns"),
        ("a,b,y", ["1,2,3", '"1,2,3', "4,5,6"], {}, r"t\.csv:3: .*correct the line"),
        ('"a,b,y', ["1,2,3"], {}, r"t\.csv:1: .*correct the line and its quotation marks"),
        ("a,a,y", ["1,2,3"], {}, r"t\.csv:1: two columns are named 'a'"),
        ("a,b,y", ["1,2,3"], {"inputs": ("aa",)}, "no column 'aa', did you mean a"),
        ("a,b,y", ["1,2,3"], {"target": "z"}, "no column 'z'"),
        ("a,b,y", ["1,2,3", "1,2,4"] * 3, {}, "too few different rows"),
        ("a,b,y", ["1,2,x", "2,2,x"], {"predicts": "class"}, "column y holds 1 classes"),
        ("y", ["1"], {"inputs": ()}, "no column but y"),
    ],
)
def test_what_is_no_table_is_refused_with_its_place(tmp_path, header, rows, changes, said):
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{line}\n" for line in (header, *rows)) if header else "")
    with pytest.raises(ValueError, match=said) as error:
        tables.prepare(settings(str(path), **changes))
    assert "\n" not in str(error.value)


def test_a_class_that_was_never_learnt_is_named(tmp_path):
    columns = tables.prepare(settings(table(tmp_path), target="kind", predicts="class")).columns
    with pytest.raises(ValueError, match=r"n\.csv:2: 'both' in column kind is none of the training classes: even, odd"):
        tables.read(table(tmp_path, name="n.csv", rows=["1,2,both,5"]), columns)


def test_text_in_another_coding_is_refused_with_its_line(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b,y\n1,2,3\n1,\xe9,3\n")
    with pytest.raises(ValueError, match=r"t\.csv:3: not UTF-8"):
        tables.prepare(settings(str(tmp_path / "t.csv")))


@pytest.mark.parametrize("changes", [{"held": 0.0}, {"batch": 0}, {"target": "a"}])
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match=r"held|batch|target"):
        config.build(TableConfig, {"train": "t.csv", "target": "y", "inputs": ["a"], **changes})
