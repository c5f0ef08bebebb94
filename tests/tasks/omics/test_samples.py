"""Tables joined by name or by line, labels, held-out samples, and what is refused, in one line with a remedy."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from regard import config
from regard.tasks.omics import samples as sample_data
from regard.tasks.omics.files import OmicsConfig
from regard.tasks.omics.samples import OmicsData
from tests.tasks.omics import cohorts


def prepared(folder: Path, **more: object) -> OmicsData:
    return sample_data.prepare(config.build(OmicsConfig, {**cohorts.data(folder), **more}))


def test_samples_are_joined_by_name_whatever_their_order(tmp_path: Path) -> None:
    cohorts.write(tmp_path / "a")
    straight = prepared(tmp_path / "a", validation_share=0)
    head, *rows = (tmp_path / "a" / "mirna.csv").read_text().splitlines()
    (tmp_path / "a" / "mirna.csv").write_text("\n".join([head, *rows[::-1]]))
    turned = prepared(tmp_path / "a", validation_share=0)
    assert straight.train.names == turned.train.names
    assert np.array_equal(straight.train.values, turned.train.values)
    assert np.array_equal(straight.train.targets, turned.train.targets)
    assert straight.omics.classes == ("ill", "well")
    assert straight.train.targets.tolist()[:4] == [1, 0, 1, 0]


def test_a_sample_that_an_omic_lacks_is_masked_and_does_not_move_its_scale(tmp_path: Path) -> None:
    cohorts.write(tmp_path, lacking={"protein": 10})
    found = prepared(tmp_path, validation_share=0)
    assert found.train.present[:, 2].tolist() == [True] * 30 + [False] * 10
    assert "10 samples without protein: masked" in found.summary
    protein = found.train.values[:30, -4:]
    np.testing.assert_allclose(found.omics.means[-4:], protein.mean(0))
    np.testing.assert_allclose(found.omics.deviations[-4:], protein.std(0))
    scaled = found.omics.scale(found.train)
    assert (scaled[30:, -4:] == 0).all()
    np.testing.assert_allclose(scaled[:30, -4:].std(0), 1, atol=1e-5)


def test_tables_without_any_names_are_joined_by_line(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for name in ("one", "two"):
        np.savetxt(tmp_path / f"{name}.csv", draw.normal(size=(8, 3)), delimiter=",")
    np.savetxt(tmp_path / "labels.csv", np.arange(8) % 2)  # as 1.000e+00
    (tmp_path / "names.csv").write_text("TP53\nBRCA1\nEGFR\n")
    first = {"path": str(tmp_path / "one.csv"), "features": str(tmp_path / "names.csv"), "name": "rna"}
    settings = {
        "train": [first, str(tmp_path / "two.csv")],
        "labels": str(tmp_path / "labels.csv"),
        "validation_share": 0,
    }
    found = sample_data.prepare(config.build(OmicsConfig, settings))
    assert found.omics.names == ("rna", "two")
    assert found.omics.features == (("TP53", "BRCA1", "EGFR"), ("two.1", "two.2", "two.3"))
    assert found.omics.classes == ("0", "1")
    assert found.train.names == tuple("12345678")


def test_every_class_is_held_out_in_proportion_and_scales_are_those_of_the_rest(tmp_path: Path) -> None:
    cohorts.write(tmp_path)
    found = prepared(tmp_path, validation_share=0.2)
    assert np.bincount(found.valid.targets).tolist() == [4, 4]
    assert not set(found.valid.names) & set(found.train.names)
    assert len(found.valid) + len(found.train) == 40
    np.testing.assert_allclose(found.omics.means, found.train.values.mean(0))
    assert prepared(tmp_path, validation_share=0.2, seed=1).valid.names != found.valid.names


def test_every_sample_comes_once_in_an_epoch_and_rows_are_even(tmp_path: Path) -> None:
    cohorts.write(tmp_path)
    found = prepared(tmp_path, validation_share=0)
    rows = [found.row(row, batch=16, seed=0) for row in range(found.rows(16))]
    assert sorted(np.concatenate(rows).tolist()) == list(range(40))
    assert {len(row) for row in rows} <= {13, 14}


def test_files_are_known_by_their_features_by_name_or_by_order(tmp_path: Path) -> None:
    mrna, mirna, protein = cohorts.write(tmp_path)
    omics = prepared(tmp_path, validation_share=0).omics
    whole, _ = sample_data.read_for_model([mrna, mirna, protein], omics)
    mixed, _ = sample_data.read_for_model([protein, mrna, f"mirna={mirna}"], omics)
    assert np.array_equal(whole.values, mixed.values)
    lacking, _ = sample_data.read_for_model([mirna], omics)
    assert lacking.present[0].tolist() == [False, True, False]
    one, _ = sample_data.read_for_model([mrna, mirna, "sample=s7"], omics)
    assert one.names == ("s7",)
    assert np.array_equal(one.values[0, :11], whole.values[7, :11])


def test_features_in_another_order_are_put_in_the_models(tmp_path: Path) -> None:
    paths = cohorts.write(tmp_path)
    omics = prepared(tmp_path, validation_share=0).omics
    whole, _ = sample_data.read_for_model(paths, omics)
    cells = [line.split(",") for line in Path(paths[0]).read_text().splitlines()]
    with gzip.open(tmp_path / "turned.csv.gz", "wt") as file:
        file.write("\n".join(",".join([row[0], *row[:0:-1]]) for row in cells))
    turned, _ = sample_data.read_for_model([str(tmp_path / "turned.csv.gz"), *paths[1:]], omics)
    assert np.array_equal(whole.values, turned.values)


def edit(path: Path, line: int, old: str, new: str) -> None:
    """One cell of one line, counted from 1."""
    rows = path.read_text().splitlines()
    assert old in rows[line - 1]
    rows[line - 1] = rows[line - 1].replace(old, new, 1)
    path.write_text("\n".join(rows) + "\n")


def column(path: Path, place: int, value: str | None) -> None:
    """A column made constant, or, without a value, a copy of the one before it."""
    head, *rows = [line.split(",") for line in path.read_text().splitlines()]
    for row in rows:
        row[place] = row[place - 1] if value is None else value
    path.write_text("\n".join(map(",".join, [head, *rows])))


DAMAGE = {
    "word": (lambda f: edit(f / "mrna.csv", 4, "s2,", "s2,high"), "mrna.csv:4: 'high"),
    "constant": (
        lambda f: column(f / "mirna.csv", 2, "7"),
        "mirna.csv: column mirna1 is 7 in every sample: take it out",
    ),
    "repeated": (
        lambda f: column(f / "mirna.csv", 3, None),
        "mirna.csv: column mirna2 repeats column mirna1: take it out",
    ),
    "doubled": (
        lambda f: edit(f / "mrna.csv", 1, "mrna1", "mrna0"),
        "mrna.csv:1: two columns are named 'mrna0': rename",
    ),
    "alone": (
        lambda f: edit(f / "mrna.csv", 3, "s1,", "elsewhere,"),
        "mrna.csv:3: sample 'elsewhere' stands in this table only",
    ),
    "twice": (lambda f: edit(f / "mrna.csv", 3, "s1,", "s0,"), "mrna.csv:3: sample 's0' stands here a second time"),
    "unlabelled": (lambda f: edit(f / "labels.csv", 5, "s3,", "x3,"), "labels.csv: no label for sample 's3': give one"),
    "empty label": (lambda f: edit(f / "labels.csv", 5, "ill", ""), "labels.csv:5: the label is missing: give one"),
    "labelled twice": (
        lambda f: edit(f / "labels.csv", 5, "s3,", "s0,"),
        "labels.csv:5: sample 's0' is labelled a second time: take",
    ),
    "one of a class": (
        lambda f: edit(f / "labels.csv", 5, "ill", "odd"),
        "labels.csv: class 'odd' has one sample, s3: give",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_cannot_be_learnt_from_is_refused_with_its_place(what: str, tmp_path: Path) -> None:
    cohorts.write(tmp_path)
    damage, said = DAMAGE[what]
    damage(tmp_path)
    with pytest.raises(ValueError) as caught:
        prepared(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_of_samples_in_no_table_are_counted_and_left_out(tmp_path: Path) -> None:
    cohorts.write(tmp_path)
    before = prepared(tmp_path)
    with (tmp_path / "labels.csv").open("a", encoding="utf-8") as file:
        file.write("elsewhere,ill\nnowhere,ill\n")
    found = prepared(tmp_path)
    assert found.summary == [*before.summary, "2 labelled but in no table, such as 'elsewhere': left out"]
    assert found.train.names == before.train.names
    cohorts.write(tmp_path / "valid", count=8)
    for omic in cohorts.OMICS:  # the same names again, but for those that one file of labels has as well
        table = tmp_path / "valid" / f"{omic}.csv"
        table.write_text(table.read_text().replace("s0,", "elsewhere,"))
    files = [{"path": str(tmp_path / "valid" / f"{omic}.csv")} for omic in cohorts.OMICS]
    both = prepared(tmp_path, valid=files, valid_labels=str(tmp_path / "labels.csv"))
    assert both.unmatched == ("nowhere",)


def test_a_missing_number_is_named_with_its_column_and_remedy(tmp_path: Path) -> None:
    cohorts.write(tmp_path)
    column(tmp_path / "mrna.csv", 2, "NaN")
    with pytest.raises(
        ValueError, match=r"mrna.csv:2: 'NaN' in column mrna1 is no number: .* a missing omic is masked"
    ):
        prepared(tmp_path)


def test_columns_that_say_nothing_can_be_kept(tmp_path: Path) -> None:
    cohorts.write(tmp_path)
    column(tmp_path / "mirna.csv", 2, "7")
    found = prepared(tmp_path, columns="keep")
    assert np.isfinite(found.omics.scale(found.train)).all()


def test_files_that_do_not_fit_a_model_are_refused(tmp_path: Path) -> None:
    mrna, mirna, _ = cohorts.write(tmp_path)
    omics = prepared(tmp_path, validation_share=0).omics
    edit(tmp_path / "mrna.csv", 1, "mrna1", "TP53")
    np.savetxt(tmp_path / "bare.csv", np.ones((3, 2)), delimiter=",")
    (tmp_path / "other.csv").write_text("sample,a,b\ns1,1,2\n")
    cases = {
        (mrna, mirna): "mrna.csv:1: no column mrna1, which mrna was trained with",
        (mirna, f"mirna={mirna}"): "both stand for mirna",
        (str(tmp_path / "other.csv"),): "other.csv:1: no feature of mrna, mirna, protein",
        (f"mrna={tmp_path / 'bare.csv'}",): "bare.csv: 2 columns and mrna has 6 features",
        (str(tmp_path / "bare.csv"),): "bare.csv names no features, and there are fewer tables than omics: say which",
        (*[str(tmp_path / "bare.csv")] * 4,): "bare.csv: the model has 3 omics only, mrna, mirna, protein",
        (mirna, str(tmp_path / "labels.csv")): "labels.csv:2: 'well' in column label is no number",
        (mirna, "sample=s99"): "no sample s99",
        (): "no table: give one for each omic, mrna, mirna, protein",
    }
    for words, said in cases.items():
        with pytest.raises(ValueError) as caught:
            sample_data.read_for_model(words, omics)
        assert said in str(caught.value)


def test_a_sample_in_use_may_lack_all_omics_but_one(tmp_path: Path) -> None:
    """In training nothing could be joined with it; a model that is there answers it, the rest masked."""
    mrna, _, protein = cohorts.write(tmp_path)
    omics = prepared(tmp_path, validation_share=0).omics
    head, *rows = Path(protein).read_text().splitlines()
    Path(protein).write_text("\n".join([head, *rows[:30]]) + "\n")
    found, _ = sample_data.read_for_model([protein, mrna], omics)
    there = dict(zip(found.names, found.present.tolist(), strict=True))
    assert there["s0"] == [True, False, True]
    assert there["s30"] == [True, False, False]


def test_omics_with_the_same_features_must_be_named(tmp_path: Path) -> None:
    """Genes may be features of two omics: a table is then known by its name alone."""
    mrna, mirna, protein = cohorts.write(tmp_path)
    head, *rows = Path(mrna).read_text().splitlines()
    Path(mirna).write_text("\n".join([head, *(row.replace("0.", "1.") for row in rows)]) + "\n")
    omics = prepared(tmp_path, validation_share=0).omics
    with pytest.raises(ValueError, match=r"mirna.csv:1: mrna and mirna have the same features: say which"):
        sample_data.read_for_model([mirna, protein], omics)
    found, _ = sample_data.read_for_model([f"mirna={mirna}", protein], omics)
    assert found.present[0].tolist() == [False, True, True]


def test_tables_by_line_need_as_many_lines(tmp_path: Path) -> None:
    for name, count in (("a", 5), ("b", 4)):
        np.savetxt(tmp_path / f"{name}.csv", np.random.default_rng(count).random((count, 3)), delimiter=",")
    (tmp_path / "labels.csv").write_text("0\n1\n" * 2)
    tables = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    settings = config.build(OmicsConfig, {"train": tables, "labels": str(tmp_path / "labels.csv")})
    with pytest.raises(ValueError, match=r"a.csv has 5 samples and .*b.csv 4: joined by line they need as many"):
        sample_data.prepare(settings)
    np.savetxt(tmp_path / "b.csv", np.random.default_rng(1).random((5, 3)), delimiter=",")
    with pytest.raises(ValueError, match=r"labels.csv has 4 labels for 5 samples"):
        sample_data.prepare(settings)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"train": ["a.csv"]}, "give two omics or more"),
        ({"train": ["a.csv", "x/a.csv"]}, "two tables are called a"),
        ({"train": ["a.csv", "b.csv"], "valid": ["c.csv", "d.csv"]}, "valid and valid_labels go together"),
        (
            {"train": ["a.csv", "b.csv"], "valid": ["c.csv"], "valid_labels": "l.csv"},
            "1 tables in valid for 2 in train",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        config.build(OmicsConfig, {"labels": "labels.csv", **more})


def renamed(folder: Path, old: str, new: str) -> None:
    for path in folder.glob("*.csv"):
        path.write_text(path.read_text().replace(old, new))


def test_numbers_that_name_samples_are_no_feature(tmp_path: Path) -> None:
    cohorts.write(tmp_path)
    renamed(tmp_path, "\ns", "\n100")
    numbered = prepared(tmp_path, validation_share=0)
    assert numbered.train.names[:2] == ("1000", "1001")
    renamed(tmp_path, "sample,", "barcode,")
    with pytest.raises(ValueError, match="first column of every table is barcode and holds whole numbers, each once"):
        prepared(tmp_path)
    for path, name in zip(sorted(tmp_path.glob("m*.csv")), ("a", "b"), strict=True):
        path.write_text(path.read_text().replace("barcode,", f"{name},"))
    with pytest.raises(ValueError, match="labels with the names of samples, which the tables do not have"):
        prepared(tmp_path)


@pytest.mark.parametrize("first", ["sample", ""])
def test_features_may_be_called_by_numbers(tmp_path: Path, first: str) -> None:
    cohorts.write(tmp_path)
    for number, omic in enumerate(cohorts.OMICS):
        path = tmp_path / f"{omic}.csv"
        path.write_text(path.read_text().replace(omic, f"{70 + number}").replace("sample,", f"{first},", 1))
    found = prepared(tmp_path, validation_share=0)
    assert found.omics.features[0][:2] == ("700", "701")
    assert len(found.train) == 40


def test_a_class_whose_samples_are_equal_is_learnt_from(tmp_path: Path) -> None:
    cohorts.write(tmp_path)
    for omic, size in cohorts.OMICS.items():
        with (tmp_path / f"{omic}.csv").open("a") as file:
            file.write("".join(f"t{number},{','.join(['1.5'] * size)}\n" for number in range(3)))
    with (tmp_path / "labels.csv").open("a") as file:
        file.write("".join(f"t{number},other\n" for number in range(3)))
    found = prepared(tmp_path, validation_share=0.2)
    assert found.omics.classes == ("ill", "other", "well")
    assert [(side.targets == 1).sum() for side in (found.train, found.valid)] == [3, 0]
