"""The commands that label, from words typed to lines printed."""

import csv
import io
import json
import sys

import pytest

import regard
from regard import checkpoint
from regard.cli import run

TRAINING = {"steps": 40, "eval_every": 40, "save_every": 40, "device": "cpu", "tensorboard": False}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    words = {"good": "yes", "fine": "yes", "bad": "no", "dull": "no"}
    (folder / "a.tsv").write_text("".join(f"film {n} {w}\t{label}\n" for n in range(20) for w, label in words.items()))
    (folder / "a.txt").write_text("".join(f"the/D film{n}/N is/V {w}/A\n" for n in range(20) for w in words))
    settings = {"optim": {"learning_rate": 0.02, "warmup": 1, "schedule": "constant"}, "training": TRAINING}
    model = {"name": "rnn-encoder", "width": 8, "embedding": 8, "pool": "attention", "dropout": 0.0}
    for task, name in (("classification", "a.tsv"), ("tagging", "a.txt")):
        data = {"train": {"path": str(folder / name)}, "batch_tokens": 128}
        regard.train({"task": task, "data": data, "model": model, **settings}, out=folder / task, quiet=True)
    return folder


def output_of(capsys, *words: str) -> str:
    assert run(list(words)) == 0
    return capsys.readouterr().out


def error_of(capsys, *words: str) -> str:
    assert run(list(words)) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_classify_prints_a_label_and_its_probability_for_each_text(models, capsys):
    model = str(models / "classification")
    lines = output_of(capsys, "classify", model, "film 3 good", "dull", "--device", "cpu").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["yes", "no"]
    assert all(0.5 < float(line.split("\t")[1]) <= 1 for line in lines)
    [line] = output_of(capsys, "classify", model, "--all", "good", "--device", "cpu").splitlines()
    assert line.split("\t")[::2] == ["yes", "no"]
    result = json.loads(output_of(capsys, "classify", model, "--all", "--json", "bad", "--device", "cpu"))
    assert (result["text"], result["label"], sorted(result["all"])) == ("bad", "no", ["no", "yes"])
    assert result["probability"] == result["all"]["no"]


def test_what_is_blank_has_no_label(models, capsys, monkeypatch):
    model = str(models / "classification")
    for blank in ("", "  "):
        assert "one of the texts is empty" in error_of(capsys, "classify", model, "good", blank)
        assert "the text is empty" in error_of(capsys, "explain", model, blank)
    for words, expected in (([], ""), (["--json"], '{"text": "", "label": null, "probability": null}')):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"good\n\nbad\n \n")))
        lines = output_of(capsys, "classify", model, *words).splitlines()
        assert (len(lines), lines[1], lines[3]) == (4, expected, expected)
        assert "no" in lines[2]


def test_texts_come_from_standard_input_too(models, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"good\nbad\n")))
    assert len(output_of(capsys, "classify", str(models / "classification")).splitlines()) == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the film1 is bad\n")))
    assert output_of(capsys, "tag", str(models / "tagging")) == "the/D film1/N is/V bad/A\n"


def test_tag_prints_a_tag_after_each_word(models, capsys):
    result = json.loads(output_of(capsys, "tag", str(models / "tagging"), "--json", "the film1 is"))
    assert (result["words"], result["tags"]) == (["the", "film1", "is"], ["D", "N", "V"])
    assert len(result["probabilities"]) == 3


@pytest.mark.parametrize(("task", "file"), [("classification", "a.tsv"), ("tagging", "a.txt")])
def test_evaluate_scores_a_file_of_labels(models, capsys, task, file):
    table = output_of(capsys, "evaluate", str(models / task), str(models / file))
    assert "accuracy" in table
    assert "precision" in table
    assert ("words" if task == "tagging" else "texts") in table
    result = json.loads(output_of(capsys, "evaluate", str(models / task), str(models / file), "--json"))
    assert result["accuracy"] > 0.9
    assert result["metrics"]["accuracy, %"]["low"] <= 100 * result["accuracy"]
    assert sum(map(sum, result["confusion"])) == sum(record["count"] for record in result["labels"].values())


def test_explain_shows_where_a_classifier_looked(models, capsys, tmp_path):
    model = str(models / "classification")
    shown = output_of(capsys, "explain", model, "film was good")
    assert "pool" in shown
    assert "film" in shown
    for name in ("a.html", "a.csv", "a.json", "a.svg"):
        output_of(capsys, "explain", model, "film was good", "--output", str(tmp_path / name))
        assert (tmp_path / name).stat().st_size > 20


def test_what_is_wrong_is_said_in_one_line(models, capsys):
    classifier, tagger = str(models / "classification"), str(models / "tagging")
    assert (
        "is a tagger; regard classify needs a classifier, a classifier of nodes or a classifier of pictures "
        "(try regard tag)" in error_of(capsys, "classify", tagger, "x")
    )
    assert "is a classifier; regard tag needs a tagger (try regard classify)" in error_of(
        capsys, "tag", classifier, "x"
    )
    assert "set columns=[1, 2]" in error_of(
        capsys, "evaluate", classifier, str(models / "a.tsv"), "--columns", "2", "1"
    )
    assert "--gold is for translators" in error_of(capsys, "explain", classifier, "x", "--gold", "0-0")
    assert "--step 7: pool looks from tokens 0 to 0" in error_of(capsys, "explain", classifier, "x", "--step", "7")
    nothing = error_of(capsys, "explain", tagger, "the film is")
    assert "no attention to show" in nothing
    assert "pool" not in nothing, "a tagger does not pool"
    assert "lines of a.tsv are refused: " in error_of(
        capsys, "evaluate", classifier, str(models / "a.tsv"), "--columns", "1", "3"
    ).replace(f"{models}/", "")
    assert "no file nowhere.tsv" in error_of(capsys, "evaluate", classifier, "nowhere.tsv")


def test_the_arithmetic_of_a_label_is_shown_without_a_word_of_writing(models, capsys):
    assert run(["explain", str(models / "classification"), "the film", "--step", "0"]) == 0
    shown = capsys.readouterr().out
    assert "v . tanh(W q + U k)" in shown
    assert "label    chosen: " in shown
    assert "written" not in shown


def test_empty_standard_input_is_not_passed_over_in_silence(models, capsys, monkeypatch):
    for command, model in (("classify", "classification"), ("tag", "tagging")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        assert "standard input is empty" in error_of(capsys, command, str(models / model))


@pytest.mark.parametrize("more", [["--to", "fr"], ["-s", "beams=1"], ["--metric", "errors"]])
def test_options_of_translators_are_refused_where_labels_are_scored(models, capsys, more):
    error = error_of(capsys, "evaluate", str(models / "classification"), str(models / "a.tsv"), *more)
    assert f"unknown setting file.{more[-1].split('=')[0] if '=' in more[-1] else more[0][2:]}" in error


def test_answers_are_written_as_the_name_of_the_file_says(models, capsys, tmp_path):
    model = str(models / "classification")
    (tmp_path / "texts").write_text("good\n\nbad\n")
    for name in ("a.txt", "a.jsonl", "a.csv"):
        assert output_of(capsys, "classify", model, "-i", str(tmp_path / "texts"), "-o", str(tmp_path / name)) == ""
    lines = (tmp_path / "a.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["yes", "", "no"]
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [record["label"] for record in records] == ["yes", None, "no"]
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["text"], row["label"]) for row in rows] == [("good", "yes"), ("", ""), ("bad", "no")]
    over = ["-i", str(tmp_path / "texts"), "-o", str(tmp_path / "texts")]
    assert "would be overwritten" in error_of(capsys, "classify", model, *over)
    assert "is a file: use -i" in error_of(capsys, "classify", model, str(tmp_path / "texts"))
    assert "ask for two forms" in error_of(capsys, "classify", model, "good", "-o", "a.csv", "--json")


def test_two_classifiers_are_compared_side_by_side(models, capsys, tmp_path):
    model, file = str(models / "classification"), str(models / "a.tsv")
    page = tmp_path / "both.html"
    output = output_of(capsys, "evaluate", model, file, "--against", f"{model}/best", "-o", str(page))
    assert "p, randomised" in " ".join(output.split())
    assert page.read_text(encoding="utf-8").startswith("<!")
    result = json.loads(output_of(capsys, "compare", model, model, "-i", file, "--json"))
    assert [record["name"] for record in result["systems"]] == ["classification", "classification (2)"]
    assert {record["metric"] for record in result["tests"]} == {"accuracy, %", "Matthews"}
    assert result["systems"][0]["by_time"][0]["accuracy"] > 0.5


def test_columns_that_were_given_hold_against_those_of_the_recipe(models, capsys, tmp_path):
    lines = [line.split("\t")[::-1] for line in (models / "a.tsv").read_text().splitlines()]
    (tmp_path / "b.tsv").write_text("".join("\t".join(line) + "\n" for line in lines))
    data = {"train": {"path": str(tmp_path / "b.tsv"), "columns": [2, 1]}, "batch_tokens": 128}
    regard.train({"task": "classification", "data": data, "training": TRAINING}, out=tmp_path / "run", quiet=True)
    capsys.readouterr()
    output_of(capsys, "evaluate", str(tmp_path / "run"), str(tmp_path / "b.tsv"))
    output_of(capsys, "evaluate", str(tmp_path / "run"), str(models / "a.tsv"), "--columns", "1", "2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: saved["model"].update(width=16), "weights do not fit the model"),
        (
            lambda saved: saved["model"].update(name="oracle"),
            "model.name must be one of cnn-encoder, rnn-encoder, transformer-encoder, bert-encoder, gpt-encoder,",
        ),
        (lambda saved: saved.pop("labels"), "config.yaml and 'labels' do not fit"),
    ],
)
def test_a_model_of_another_version_is_named_with_its_place(models, capsys, tmp_path, change, message):
    saved = checkpoint.read(models / "classification" / "best")
    settings = {**saved.config, "model": dict(saved.config["model"])}
    change(settings)
    checkpoint.write(tmp_path / "m", {**{name: saved.data(name) for name in saved.files}, "config.yaml": settings})
    error = error_of(capsys, "classify", str(tmp_path / "m"), "x")
    assert f"{tmp_path / 'm'}: {message}" in error
    assert "train again" in error


@pytest.mark.parametrize("name", ["a.conll", "a.tsv"])
def test_words_with_their_tags_are_no_sentences_to_tag(models, capsys, tmp_path, name):
    (tmp_path / name).write_text("the\tD\nfilm1\tN\n\nis\tV\n")
    error = error_of(capsys, "tag", str(models / "tagging"), "-i", str(tmp_path / name))
    assert f"{name} has a word in each line: give a file with a sentence in each line" in error


def test_texts_that_a_spreadsheet_takes_for_formulas_stay_as_they_are_and_are_told(models, tmp_path, capsys):
    model, out = str(models / "classification"), tmp_path / "out.csv"
    texts = ["=1+1", "-0.5", "- good", "bad", "@film"]
    assert run(["classify", model, "-o", str(out), "--", *texts[2:]]) == 0
    stderr = capsys.readouterr().err
    assert stderr == (
        f"regard: 2 cells of {out} begin with =, +, - or @: import them as text, spreadsheets take them for formulas\n"
    )
    with out.open(newline="", encoding="utf-8") as file:
        assert [row["text"] for row in csv.DictReader(file)] == texts[2:]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    assert run(["classify", model, "-i", str(tmp_path / "in.txt"), "-o", str(out)]) == 0
    assert f"3 cells of {out} begin with" in capsys.readouterr().err, "numbers are none"
    (tmp_path / "a.tsv").write_text("=good\tyes\nbad\tno\n")
    assert run(["evaluate", model, str(tmp_path / "a.tsv"), "-o", str(out)]) == 0
    assert f"1 cell of {out} begins with" in capsys.readouterr().err
    assert run(["classify", model, "good", "-o", str(out)]) == 0
    assert capsys.readouterr().err == ""
    assert run(["classify", model, "- good"]) == 2
    assert "No such option: -: put -- before texts that begin with a dash" in capsys.readouterr().err
