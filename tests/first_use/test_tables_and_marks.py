"""Excel's line about separators, and files whose marks are neither texts to learn from nor texts to translate."""

import json
from pathlib import Path

import pytest

from regard.cli import run
from regard.data.line_report import LineReport
from regard.data.readers import Corpus, pairs, read_cells
from regard.data.sniff import FilePreview
from regard.data.tables import Sheet
from regard.tasks.prompting.files import read as read_prompts
from regard.tasks.prompting.template import read as read_template
from regard.tasks.text_encoders.labelled_file import LabelledFile
from regard.tasks.translation.documents import glossary


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaint(capsys, *words: str) -> str:
    capsys.readouterr()
    assert run(list(words)) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    return shown.err


def save(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


@pytest.mark.parametrize("mark", [";", ",", "\t", "|"])
def test_the_line_that_names_the_separator_is_heeded_and_left_out(mark):
    rows = [["text", "label"], ["one, two; three", "yes"], ["four", "no"]]
    lines = [mark.join(f'"{cell}"' for cell in row) for row in rows]
    file = save("films.csv", "\ufeff" + "\r\n".join([f"sep={mark}", *lines]) + "\r\n")
    assert list(read_cells(file, LineReport())) == list(enumerate(rows, start=2))
    examples = LabelledFile(path=file).examples(0, LineReport())
    assert [(one.texts[0], one.labels[0], one.place) for one in examples] == [
        ("one, two; three", "yes", (0, 3)),
        ("four", "no", (0, 4)),
    ]
    if mark != "|":
        assert FilePreview.read(file).rows == rows


def test_the_line_that_names_the_separator_is_left_out_of_other_tables():
    sheet = Sheet.read(save("numbers.csv", "sep=;\nx;y\n1,5;2\n3;4\n"))
    assert (sheet.header, sheet.lines) == (["x", "y"], [("numbers.csv:3", ["1.5", "2"]), ("numbers.csv:4", ["3", "4"])])
    prompts, _ = read_prompts(save("p.csv", "sep=;\ntext;label\na film;positive\n"), read_template("sentiment"))
    assert [(one.texts.x, one.place) for one in prompts] == [("a film", "p.csv:3")]
    with pytest.warns(UserWarning, match="is a heading and left out"):
        assert list(glossary.rows(save("terms.csv", "sep=;\nEnglish;French\nhouse;maison\n"))) == [
            (3, ["house", "maison"])
        ]
    both = save("pairs.csv", "sep=;\nEnglish;French\nthe house;la maison\n")
    assert list(pairs(Corpus(path=both), LineReport())) == [(3, "the house", "la maison")]


def test_texts_of_such_a_table_are_used_without_it(tiny_models, capsys):
    file = save("films.csv", "sep=;\nID;text\n1;a cat\n2;a dog\n")
    assert run(["classify", str(tiny_models["classification"]), "-i", file, "--json"]) == 0
    out, error = capsys.readouterr()
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["a cat", "a dog"]
    assert error == "regard: films.csv: reading the column 'text'; the heading and the column ID are left out\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fr.po", "fr.po is a catalogue of messages (PO), whose keywords would be learnt: export it as tab-separated"),
        ("film.srt", "film.srt is subtitles, whose numbers and times would be learnt: keep only their lines of text"),
        ("page.html", "page.html is a web page (HTML), whose tags would be learnt: save it as plain text (UTF-8)"),
        ("page.HTM", "page.HTM is a web page (HTML), whose tags would be learnt: save it as plain text (UTF-8)"),
        ("page.xml", "page.xml is XML, whose tags would be learnt: save it as plain text"),
        ("work.ipynb", "work.ipynb is a notebook, whose JSON would be learnt: export it, as jupyter nbconvert"),
    ],
)
@pytest.mark.parametrize(
    "command", [["train"], ["train", "--text"], ["train", "--task", "word2vec"], ["data", "check"]]
)
def test_text_between_marks_is_not_trained_on(capsys, name, said, command):
    assert said in complaint(capsys, *command, save(name, "a line of it\nanother line of it\n" * 30))


@pytest.mark.parametrize("command", [["train"], ["train", "--text"], ["train", "--masked"], ["train", "--pairs"]])
def test_web_pages_in_a_folder_in_pairs_or_under_another_name_are_not_trained_on(tmp_path, capsys, command):
    page = "<!DOCTYPE html>\n<html><body>\n" + "<p>a line of it</p>\n" * 30 + "</body></html>\n"
    folder = tmp_path / "pages"
    folder.mkdir()
    names = [save(f"pages/{name}", page) for name in ("fr.html", "en.html")]
    why = "is a web page (HTML), whose tags would be learnt: save it as plain text (UTF-8)"
    assert why in complaint(capsys, *command, *names)
    if "--pairs" not in command:
        assert why in complaint(capsys, *command, str(folder))
        assert f"saved.txt {why}" in complaint(capsys, *command, save("saved.txt", page))


@pytest.mark.parametrize("command", [["translate", "--to", "fr"], ["embed"]])
@pytest.mark.parametrize("text", ['{\n "open": "Open the door.",\n "close": "Close"\n}\n', '[\n "one",\n "two"\n]\n'])
def test_a_catalogue_of_texts_is_refused_as_what_it_is(capsys, command, text):
    told = complaint(capsys, *command, "-i", save("en.json", text), "--device", "cpu")
    assert "en.json is one value of JSON over several lines, such as a catalogue of texts: write its texts" in told


def test_the_lines_of_a_table_are_not_searched(capsys):
    for name, kind in (("films.csv", "a table"), ("films.jsonl", "JSON")):
        told = complaint(capsys, "search", save(name, "ID;text\n1;a cat\n"), "a dog")
        assert f"{name} is {kind}, whose lines would be searched with all that stands beside the texts: write" in told
