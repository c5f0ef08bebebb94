"""Tables in files that are not called so, handed to a model in use; and plain text that has a tab here and there."""

import json
from pathlib import Path

import pytest

import regard
from regard.cli import run

SHORT = ["training.steps=2", "training.tensorboard=false", "training.device=cpu"]
FILMS = [(f"a film number {n} that was {('dull', 'good')[n % 2]}", ("no", "yes")[n % 2]) for n in range(60)]
TEXTS = [text for text, _ in FILMS[:5]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Classifiers trained on a text and a label between tabs, one with a heading, in files of other names."""
    here = tmp_path_factory.mktemp("unnamed")
    rows = "".join(f"{text}\t{label}\n" for text, label in FILMS)
    (here / "films.txt").write_text(rows)
    (here / "films.data").write_text(f"avis\tlabel\n{rows}")
    regard.train(here / "films.txt", *SHORT, out=here / "bare", quiet=True)
    regard.train(here / "films.data", *SHORT, out=here / "headed", quiet=True)
    return here


def answer(capsys, *words: str) -> tuple[int, list[str], str]:
    capsys.readouterr()
    status = run([*words, "--json"])
    out, error = capsys.readouterr()
    return status, [json.loads(line)["text"] for line in out.splitlines()], error


def save(path: Path, heading: str = "", mark: str = "\t") -> str:
    path.write_text(heading + "".join(f"{text}{mark}{label}\n" for text, label in FILMS[:5]))
    return str(path)


@pytest.mark.parametrize("command", ["predict", "classify"])
@pytest.mark.parametrize(
    ("model", "heading", "mark", "said"),
    [
        ("bare", "", "\t", "reading column 1 of 2, as in training"),
        ("headed", "avis\tlabel\n", "\t", "reading the column 'avis', as in training; the heading"),
        ("bare", "text\tlabel\n", "\t", "reading the column 'text'"),
        ("headed", "avis;label\n", ";", "reading the column 'avis', as in training; the heading"),
    ],
)
def test_the_text_alone_is_labelled(folder, tmp_path, capsys, command, model, heading, mark, said):
    file = save(tmp_path / "new.txt", heading, mark)
    status, texts, error = answer(capsys, command, str(folder / model), "-i", file)
    assert (status, texts) == (0, TEXTS)
    assert said in error
    assert error.count("\n") == 1


def test_a_column_can_be_named_and_a_table_without_the_trained_heading_is_refused(folder, tmp_path, capsys):
    file = save(tmp_path / "new.txt")
    assert answer(capsys, "predict", str(folder / "headed"), "-i", file, "--column", "1")[1] == TEXTS
    status, _, error = answer(capsys, "predict", str(folder / "headed"), "-i", file)
    assert (status, error.count("\n")) == (1, 1)
    assert error.endswith("name the column of the texts, as --column 1\n")


def test_plain_text_stays_plain_text(folder, tmp_path, capsys):
    lines = ["one text", "another\twith a tab", "a third one, with commas", "a fourth one, with commas"]
    (tmp_path / "plain.txt").write_text("".join(f"{line}\n" for line in lines))
    for model in ("bare", "headed"):
        assert answer(capsys, "predict", str(folder / model), "-i", str(tmp_path / "plain.txt")) == (0, lines, "")
    status, _, error = answer(capsys, "predict", str(folder / "bare"), "-i", str(tmp_path / "plain.txt"), "--column=1")
    assert status == 1
    assert "plain.txt is no table" in error


def test_lines_that_are_read_whole_though_they_have_columns_are_named(tiny_models, tmp_path, capsys):
    file = save(tmp_path / "new.txt")
    model = str(tiny_models["causal-lm"])
    assert run(["predict", model, "-i", file]) == 0
    assert "lines are read whole, though all have 2 columns between tabs: --column 1 reads" in capsys.readouterr().err
    (tmp_path / "words.txt").write_text("the\tDET\ncat\tNOUN\n\nit\tPRON\n")
    assert run(["tag", str(tiny_models["tagging"]), "-i", str(tmp_path / "words.txt")]) == 1
    assert "words.txt has a word in each line" in capsys.readouterr().err


def test_the_column_that_is_advised_holds_the_longest_texts(folder, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("ID,Kunde,Meinung\n" + "".join(f"{n},K{n},{t}\n" for n, t in enumerate(TEXTS)))
    (tmp_path / "new.jsonl").write_text(json.dumps({"ID": "1", "Kunde": "K1", "Meinung": TEXTS[0]}) + "\n")
    for name in ("new.csv", "new.jsonl"):
        status, _, error = answer(capsys, "predict", str(folder / "headed"), "-i", str(tmp_path / name))
        assert status == 1
        assert error.endswith("as --column Meinung\n")
