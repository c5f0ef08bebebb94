"""Files that people have, handed to a model in use: tables, spreadsheets, Word documents, subtitles, pages."""

import json
from pathlib import Path

import pytest

import regard
from regard.cli import run
from regard.cli.text_column import read_texts
from regard.data.text_columns import TextColumn, find_text_column

TRAINING = {"steps": 40, "eval_every": 40, "save_every": 40, "device": "cpu", "tensorboard": False}
WORDS = {"good": "yes", "fine": "yes", "bad": "no", "dull": "no"}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A classifier trained on a French spreadsheet: byte order mark, semicolons, an id before the text."""
    folder = tmp_path_factory.mktemp("reviews")
    films = [(f"film {n} {word}", label) for n in range(20) for word, label in WORDS.items()]
    rows = "".join(f"A{n};{text};{label}\n" for n, (text, label) in enumerate(films))
    (folder / "avis.csv").write_text(f"\ufeffID;Review text;Sentiment\n{rows}", encoding="utf-8")
    settings = {
        "task": "classification",
        "data": {"train": {"path": str(folder / "avis.csv")}, "batch_tokens": 128},
        "model": {"name": "rnn-encoder", "width": 8, "embedding": 8, "pool": "attention", "dropout": 0.0},
        "optim": {"learning_rate": 0.02, "warmup": 1, "schedule": "constant"},
        "training": TRAINING,
    }
    return str(regard.train(settings, out=folder / "run", quiet=True).folder)


def answers(capsys, *words: str) -> tuple[list[dict], str]:
    """The answers of a command as JSON, and what it says on stderr."""
    assert run([*words, "--json"]) == 0
    shown = capsys.readouterr()
    return [json.loads(line) for line in shown.out.splitlines()], shown.err


def complaint(capsys, *words: str) -> str:
    assert run(list(words)) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    return shown.err


def write(path: Path, text: str, encoding: str = "utf-8") -> str:
    path.write_bytes(text.encode(encoding))
    return str(path)


# Tables.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\ufeffID;Review text;Sentiment\n1;film 3 good;yes\n2;film 3 dull;no\n", "'Review text', as in training"),
        ("sentiment,review TEXT\nyes,film 3 good\nno,film 3 dull\n", "'review TEXT', as in training"),
        ('text,label\nfilm 3 good,yes\n"film 3 dull",no\n', "'text'; the heading and the column label are"),
        ("Review text\r\nfilm 3 good\r\nfilm 3 dull\r\n", "its only column 'Review text'"),
    ],
)
def test_the_column_of_the_training_file_is_read_and_neither_heading_nor_label(
    classifier, capsys, tmp_path, text, said
):
    told, error = answers(capsys, "classify", classifier, "-i", write(tmp_path / "new.csv", text))
    assert [one["text"] for one in told] == ["film 3 good", "film 3 dull"]
    assert [one["label"] for one in told] == ["yes", "no"]
    assert error.count("\n") == 1
    assert said in error
    assert "left out" in error


def test_answers_stay_beside_the_rows_of_the_table(classifier, capsys, tmp_path):
    text = 'Review text,Sentiment\n"good,\nvery good",yes\n"",no\n,\n"the ""dull"" one",no\n'
    path = write(tmp_path / "new.csv", text)
    told, _ = answers(capsys, "classify", classifier, "-i", path)
    assert [one["text"] for one in told] == ["good,\nvery good", "", "", 'the "dull" one']
    assert run(["classify", classifier, "-i", path, "-o", str(tmp_path / "out.txt")]) == 0
    assert [line.split("\t")[0] for line in (tmp_path / "out.txt").read_text().splitlines()] == ["yes", "", "", "no"]
    capsys.readouterr()


def test_a_table_without_such_a_column_is_refused_with_a_remedy_that_works(classifier, capsys, tmp_path):
    path = write(tmp_path / "other.csv", "Kunde,Meinung\n1,film 3 good\n2,film 3 dull\n")
    told = complaint(capsys, "classify", classifier, "-i", path)
    assert "cannot tell which column holds the text (Kunde, Meinung)" in told
    assert "none is called 'Review text' as in training: name the column of the texts, as --column Meinung" in told
    assert "no column 'meinun', did you mean Meinung?" in complaint(
        capsys, "classify", classifier, "-i", path, "--column", "meinun"
    )
    for column in ("Meinung", "meinung"):
        told, _ = answers(capsys, "classify", classifier, "-i", path, "--column", column)
        assert [one["text"] for one in told] == ["film 3 good", "film 3 dull"]
    told, error = answers(capsys, "classify", classifier, "-i", path, "--column", "2")
    assert [one["text"] for one in told] == ["Meinung", "film 3 good", "film 3 dull"]
    assert "reading column 2 of 2, the first line too" in error


def test_json_lines_are_read_by_the_name_of_their_text(classifier, capsys, tmp_path):
    path = write(tmp_path / "new.jsonl", '{"label": "no", "text": "film 3 good"}\n\n{"text": "film 3 dull"}\n')
    told, error = answers(capsys, "classify", classifier, "-i", path)
    assert [one["text"] for one in told] == ["film 3 good", "", "film 3 dull"]
    assert error == f"regard: {path}: reading 'text' of each line; label is left out\n"
    path = write(tmp_path / "two.jsonl", '{"a": "x y", "b": "z"}\n')
    assert "which column holds the text (a, b), and none is called 'Review text' as in training: name the" in complaint(
        capsys, "classify", classifier, "-i", path
    )
    path = write(tmp_path / "bad.jsonl", '{"text": "x"}\n{"txt": "y"}\n')
    assert run(["classify", classifier, "-i", path]) == 1
    assert "without a text named text (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "encoding", "told"),
    [
        ("Review text,Sentiment\nun été à la plage,no\n", "cp1252", "it looks like Latin-1: iconv -f WINDOWS-1252"),
        ("Review text,Sentiment\nfilm 3 good,yes\n", "utf-16", "it looks like UTF-16: iconv"),
        ('Review text,Sentiment\n"film 3 good,yes\nfilm 3 bad,no\n', "utf-8", "a quotation mark that is never closed"),
        ("Export\nReview text,Sentiment\nfilm,yes\nfilm,no\n", "utf-8", "take out what stands above the heading"),
        ("", "utf-8", "new.csv is empty"),
        ("\n\n", "utf-8", "holds nothing but blank lines"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(classifier, capsys, tmp_path, text, encoding, told):
    path = write(tmp_path / "new.csv", text, encoding)
    assert told in complaint(capsys, "classify", classifier, "-i", path)


def test_a_text_cut_by_its_own_comma_is_refused_by_its_place(classifier, capsys, tmp_path):
    rows = "1,film 3 good\n2,film 3 bad\n3,a bad one, and dull\n"
    path = write(tmp_path / "new.csv", f"ID,Review text\n{rows}")
    assert run(["classify", classifier, "-i", path]) == 1
    assert f"{path}:4: 3 cells under 2 columns: put quotation marks around" in capsys.readouterr().err


def test_a_plain_file_goes_on_as_lines(classifier, capsys, tmp_path):
    path = write(tmp_path / "new.txt", "\ufefffilm 3 good, really\n\ntext,label\n")
    told, error = answers(capsys, "classify", classifier, "-i", path)
    assert [one["text"] for one in told] == ["film 3 good, really", "", "text,label"]
    assert error == ""
    assert "new.txt is no table" in complaint(capsys, "classify", classifier, "-i", path, "--column", "text")
    assert "--column text is for a table" in complaint(capsys, "classify", classifier, "x", "--column", "text")


def test_one_column_without_a_known_name_is_read_whole_and_said(tmp_path, capsys):
    path = tmp_path / "one.csv"
    write(path, 'Good, I think\nBad\n"Dull, too"\nFine\n')
    assert list(read_texts(path)) == ["Good, I think", "Bad", "Dull, too", "Fine"]
    assert "its only column, the first line too; if that is a heading, name it with --column" in capsys.readouterr().err
    write(path, "Kundenmeinung\nBad\n")
    assert list(read_texts(path, column="Kundenmeinung")) == ["Bad"]


def test_a_model_that_recorded_no_names_reads_the_same_layout(tmp_path):
    path = write(tmp_path / "a.tsv", "Nr\tWas\tWie\n1\tfilm 3 good\tyes\n2\tfilm 3 bad\tno\n")
    known = TextColumn(number=2, label_number=3, labels=frozenset({"yes", "no"}))
    layout = find_text_column(path, expected=known)
    assert (layout.place, layout.heading) == (1, ("Nr", "Was", "Wie"))
    path = write(tmp_path / "b.tsv", "1\tfilm 3 good\tyes\n2\tfilm 3 bad\tno\n")
    assert find_text_column(path, expected=known).heading == ()
    known = TextColumn(number=1, label_number=2, labels=frozenset({"nom", "verbe"}))
    assert find_text_column(write(tmp_path / "c.tsv", "titre\tnom\naller\tverbe\n"), expected=known).heading == ()
    assert find_text_column(write(tmp_path / "c.csv", "mot;classe;\naller;verbe;\n"), expected=known).place == 0


def test_tables_of_the_training_file_are_read_by_the_recorded_names(classifier):
    known = regard.load(classifier, device="cpu").inputs.text_column
    assert (known.names, known.number, known.label_number) == (("Review text",), 2, 3)
    assert known.labels == {"yes", "no"}


def test_no_command_reads_a_table_of_pairs_as_lines(capsys, tmp_path):
    path = write(tmp_path / "pairs.tsv", "Where is he?\tOù est-il ?\nHello.\tBonjour.\n")
    for words in (["translate", "--to", "fr"], ["fill"], ["embed"]):
        told = complaint(capsys, *words, "-i", path, "--device", "cpu")
        assert "cannot tell which column holds the text (Where is he?, Où est-il ?)" in told
        assert "--column 1" in told
    told = complaint(capsys, "explain", "--to", "fr", "--alignments", "-i", path)
    assert "pairs.tsv is a table: give a file with a text in each line" in told
    assert "pairs.tsv is a table, and a text is continued" in complaint(capsys, "generate", "-i", path)


# Files that hold no text.

BINARY = [
    ("letter.docx", b"PK\x03\x04" + bytes(range(256)) * 9, "letter.docx is a Word document, not text: save it as text"),
    ("letter.doc", b"\xd0\xcf\x11\xe0" + bytes(range(256)) * 9, "letter.doc is a Word document"),
    ("paper.pdf", b"%PDF-1.4\n" + bytes(range(256)) * 9, "paper.pdf is a PDF document"),
    ("sheet.xlsx", b"PK\x03\x04xl/workbook.xml", "sheet.xlsx is a spreadsheet, not text: save the sheet as CSV"),
    ("unnamed", b"PK\x03\x04\x00\x00word/document.xml", "unnamed is a Word document"),
    ("many.zip", b"PK\x03\x04\x00\x00a.txt", "many.zip is an archive, not text: unpack it"),
    ("noise.bin", bytes(range(256)) * 9, "noise.bin is a binary file, not text"),
]


@pytest.mark.parametrize(("name", "data", "told"), BINARY)
def test_what_is_no_text_is_refused_for_what_it_is(capsys, tmp_path, monkeypatch, name, data, told):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(data)
    assert told in complaint(capsys, "translate", "--to", "fr", "-i", name)
    assert told in complaint(capsys, "train", "--text", name)


@pytest.mark.parametrize("ending", ["docx", "odt", "xlsx", "zip", "txt.gz", "pptx"])
def test_no_text_is_written_under_a_name_that_promises_something_else(capsys, tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    for words in (["translate", "Hello."], ["classify", "nomodel", "x"], ["generate", "nomodel"], ["fill", "a [MASK]"]):
        told = complaint(capsys, *words, "-o", f"x.{ending}")
        assert f"x.{ending}: cannot write a" in told
        assert "choose .txt, .csv or .jsonl" in told
    assert "translations are written as text: choose txt" in complaint(capsys, "translate", "Hello.", "-o", "x.pdf")
    assert not list(tmp_path.iterdir())


def test_a_table_is_reported_in_one_line_whether_it_is_answered_or_refused(tmp_path, capsys):
    model = ["fill", "encoder", "--device", "cpu", "-i"]
    filled = write(tmp_path / "filled.csv", "ID;text\n1;The [MASK] is old.\n2;I live in [MASK].\n")
    assert run([*model, filled]) == 0
    said = "reading the column 'text'; the heading and the column ID are left out"
    assert capsys.readouterr().err == f"regard: {filled}: {said}\n"
    whole = write(tmp_path / "whole.csv", "ID;text\n1;The [MASK] is old.\n2;I live in Boston.\n")
    assert "no gap in 'I live in Boston.': write [MASK]" in complaint(capsys, *model, whole)
    lines = write(tmp_path / "whole.jsonl", '{"text": "I live in Boston.", "id": "1"}\n')
    assert "no gap in 'I live in Boston.': write [MASK]" in complaint(capsys, *model, lines)
