"""Where a translation runs when nobody says it: little text is not worth waking a GPU."""

import json
from pathlib import Path

import pytest

import regard
from regard.cli import run
from regard.cli.translate import CPU_LIMIT, choose_device
from regard.shipped import models
from regard.tasks.translation.documents.entities import ENTITY

MODEL = models()["en-fr"].path
ROOM = int(CPU_LIMIT / ((MODEL / "model.safetensors").stat().st_size / 1e6))


@pytest.mark.parametrize("lines", [["Where is the station?"], [], ["word"] * (ROOM // 5), ["x" * (ROOM - 1)]])
def test_little_text_is_left_to_the_cpu(lines: list[str]) -> None:
    device, back = choose_device("auto", MODEL, iter(lines))
    assert (device, list(back)) == ("cpu", lines)


@pytest.mark.parametrize("lines", [["word"] * (ROOM // 5 + 1), ["x" * ROOM, "y"], ["x" * 10 * ROOM]])
def test_much_text_goes_where_there_is_a_gpu_and_no_line_is_lost(lines: list[str]) -> None:
    device, back = choose_device("auto", MODEL, iter(lines))
    assert (device, list(back)) == ("auto", lines)


def test_a_large_model_is_soon_worth_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    with (tmp_path / "best" / "model.safetensors").open("wb") as file:
        file.truncate(5_000_000_000)  # holds nothing, and takes no room
    assert choose_device("auto", tmp_path, iter(["A sentence."]))[0] == "auto"
    assert choose_device("cpu", tmp_path, iter(["A sentence."] * 1000))[0] == "cpu"
    assert choose_device("cuda", None, iter(["A."]))[0] == "cuda"


def test_what_is_left_and_what_is_foreign_is_said_once_at_the_end(tmp_path, capsys):
    (tmp_path / "in.txt").write_text(
        "Where is the station?\nJe ne sais pas où elle est.\nMerci beaucoup pour votre aide.\n"
        "Ich weiß nicht, wo der Bahnhof ist.\n",
        encoding="utf-8",
    )
    words = ["translate", "-i", str(tmp_path / "in.txt"), "--to", "fr", "--device", "cpu", "--beams", "1"]
    assert run([*words, "--json"]) == 0
    captured = capsys.readouterr()
    records = [json.loads(line) for line in captured.out.splitlines()]
    assert [record.get("kept") for record in records] == [None, 1, 1, None]
    assert [record.get("foreign") for record in records] == [None, None, None, "de"]
    assert captured.err.splitlines() == [
        "regard: 2 sentences are already in the target language (fr) and left as written",
        "regard: 1 line: the text looks like German; en-fr knows English and French only, so do not trust the answer",
    ]


def translate_text(capsys, *words: str) -> tuple[str, str]:
    assert run(["translate", "--to", "fr", "--device", "cpu", "--beams", "1", *words]) == 0
    shown = capsys.readouterr()
    return shown.out, shown.err


def error_of(capsys, *words: str) -> str:
    assert run(["translate", "--to", "fr", "--device", "cpu", *words]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    return shown.err


def test_line_feeds_of_a_typed_text_are_kept(capsys):
    text, error = translate_text(capsys, "Hello!\n\n- I am tired.\n- Close the door.")
    lines = text.splitlines()
    assert (len(lines), lines[1], error) == (4, "", "")
    assert [line[:2] for line in lines[2:]] == ["- ", "- "]


def test_lines_without_a_letter_are_copied_and_counted(tmp_path, capsys):
    untouched = ["```", "| --- | :-: |", "00:00:09,000 --> 00:00:10,000", "1,234.56", "***", "  ", ""]
    (tmp_path / "in.txt").write_text("\n".join([*untouched, "I am tired."]) + "\n", encoding="utf-8")
    text, error = translate_text(capsys, "-i", str(tmp_path / "in.txt"))
    assert text.split("\n")[:7] == untouched
    assert text.split("\n")[7].startswith("Je suis fatigué")
    assert error == "regard: 5 lines without a letter are copied untranslated\n"


def test_subtitles_keep_their_times_and_markdown_its_code(tmp_path, capsys):
    srt = "1\r\n00:00:06,200 --> 00:00:09,000\r\n<i>I am tired.</i>\r\n\r\n"
    (tmp_path / "a.srt").write_bytes(b"\xef\xbb\xbf" + srt.encode())
    assert run(["translate", "--to", "fr", "-i", str(tmp_path / "a.srt"), "-o", str(tmp_path / "b.srt")]) == 0
    lines = (tmp_path / "b.srt").read_bytes().split(b"\n")
    assert lines[:2] == [b"\xef\xbb\xbf1\r", b"00:00:06,200 --> 00:00:09,000\r"]
    assert lines[2].startswith("<i>Je suis fatigué".encode())
    assert lines[2].endswith(b"</i>\r")
    assert "a.srt: 2 lines copied untranslated: 2 of times and numbers" in capsys.readouterr().err
    (tmp_path / "a.md").write_text("# I am **very** tired.\n\n```sh\nls -l\n```\n", encoding="utf-8")
    text, error = translate_text(capsys, "-i", str(tmp_path / "a.md"))
    heading, *code = text.splitlines()
    assert heading.startswith("# Je suis **très** fatigué")
    assert code == ["", "```sh", "ls -l", "```"]
    assert error.endswith("a.md: 3 lines copied untranslated: 3 of code\n")


def test_a_page_is_html_by_its_name(tmp_path, capsys):
    page = "<style>p{color:red}</style>\n<p>I am <b>very</b> tired.</p>\n"
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    text, _ = translate_text(capsys, "-i", str(tmp_path / "page.html"))
    assert text.startswith("<style>p{color:red}</style>\n<p>Je suis <b>très</b> fatigué")
    assert "(HTML) gives one answer as text" in error_of(capsys, "-i", str(tmp_path / "page.html"), "--json")


def test_a_page_keeps_its_line_ends_its_mark_and_the_signs_of_its_scripts(tmp_path):
    before = (
        b"\xef\xbb\xbf<!DOCTYPE html>\r\n<script>\r\nx = '\xe2\x80\xa6';\r\n</script>\r\n<p class='it\xe2\x80\x99s'>"
    )
    (tmp_path / "page.html").write_bytes(before + b"I am tired.</p>\r\n")
    assert run(["translate", "--to", "fr", "-i", str(tmp_path / "page.html"), "-o", str(tmp_path / "b.html")]) == 0
    page = (tmp_path / "b.html").read_bytes()
    assert page.startswith(before + b"Je suis")
    assert page.endswith(b"</p>\r\n")


def test_entities_in_plain_text_come_back(tmp_path, capsys):
    (tmp_path / "in.txt").write_text("AT&amp;T is big.\nIt is 5&nbsp;km from here.\nI am tired.\n", encoding="utf-8")
    text, error = translate_text(capsys, "-i", str(tmp_path / "in.txt"))
    company, distance, tired = text.splitlines()
    assert "AT&amp;T" in company
    assert "5&nbsp;km" in distance
    assert tired.startswith("Je suis fatigué")
    assert error == ""


@pytest.mark.parametrize("name", ["page.html", "page.htm", "-"])
def test_attributes_that_people_read_are_translated_and_the_language_is_named(tmp_path, capsys, name):
    image = '<img src="a.png" alt="The black cat" title=\'It is "open" today\'>'
    page = f'<html lang="en">\n<p>I am tired.{image}</p>\n</html>\n'
    words = ["--html", page]
    if name != "-":
        (tmp_path / name).write_text(page, encoding="utf-8")
        words = ["-i", str(tmp_path / name)]
    text, _ = translate_text(capsys, *words)
    assert text.startswith('<html lang="fr">\n<p>Je suis fatigué.<img src="a.png" alt="Le chat noir" title=\'')
    assert "It is" not in text
    assert text.rstrip().endswith("'></p>\n</html>")


ENTITIES = [
    "AT&amp;T is a company.",
    "Bread &amp; butter is good.",
    "&amp;",
    "It is 5&nbsp;km from here.",
    "I am tired.",
]


def test_entities_in_plain_text_come_back_from_python_as_from_the_command(tmp_path, capsys):
    (tmp_path / "in.txt").write_text("\n".join(ENTITIES) + "\n", encoding="utf-8")
    answers = regard.load("en-fr").translate(ENTITIES, to="fr")
    assert translate_text(capsys, "-i", str(tmp_path / "in.txt"))[0].splitlines() == answers
    for text, answer in zip(ENTITIES, answers, strict=True):
        assert ENTITY.findall(answer) == ENTITY.findall(text)
        assert "&" not in ENTITY.sub("", answer)


def test_entities_on_several_lines_of_one_text_come_back():
    answer = regard.load("en-fr").translate("I am tired.\nAT&amp;T is here.", to="fr")
    assert "\nAT&amp;T est" in answer


def test_a_name_that_says_nothing_is_reported(tmp_path, capsys):
    (tmp_path / "in.foo").write_text("I am tired.\n", encoding="utf-8")
    assert "in.foo is read as plain text, line by line" in translate_text(capsys, "-i", str(tmp_path / "in.foo"))[1]


@pytest.mark.parametrize("name", ["memory.tmx", "fr.po", "data.xml", "paper.tex"])
def test_what_would_come_out_broken_is_refused(tmp_path, capsys, name):
    (tmp_path / name).write_text("Hello.\n", encoding="utf-8")
    error = error_of(capsys, "-i", str(tmp_path / name))
    assert "whose form would be lost: " in error
    assert error.count("\n") == 1


def test_text_wrapped_by_hand_is_said_to_be_translated_line_by_line(tmp_path, capsys):
    wrapped = ["The man in the red coat", "walks slowly along the river", "with his two dogs and", "he does not know"]
    (tmp_path / "in.txt").write_text("\n".join([*wrapped, "where he is going."]) + "\n", encoding="utf-8")
    _, error = translate_text(capsys, "-i", str(tmp_path / "in.txt"))
    assert error.count("\n") == 1
    assert "in.txt end in mid-sentence, and lines are translated one by one; to join paragraphs first: awk" in error
    (tmp_path / "in.txt").write_text("I am tired.\nWhere are you?\nhello there\nI know\nyou too\n", encoding="utf-8")
    assert translate_text(capsys, "-i", str(tmp_path / "in.txt"))[1] == ""


def test_of_a_table_the_column_of_the_other_language_is_translated(tmp_path, capsys):
    (tmp_path / "pairs.csv").write_text('French;English\nBonjour.;"I am\ntired."\nOui.;\n', encoding="utf-8")
    text, error = translate_text(capsys, "-i", str(tmp_path / "pairs.csv"))
    assert len(text.splitlines()) == 2
    assert text.startswith("Je suis")
    assert "reading the column 'English'; the heading and the column French are left out" in error


@pytest.mark.filterwarnings("always:.*is a heading:UserWarning")
def test_a_glossary_may_be_a_spreadsheet(tmp_path, capsys):
    (tmp_path / "terms.csv").write_text("\ufeffEnglish;French\nhouse;demeure\n", encoding="utf-8")
    text, error = translate_text(capsys, "--terms", str(tmp_path / "terms.csv"), "They sold their house last year.")
    assert "demeure" in text
    assert "terms.csv:1: English, French is a heading and left out" in error
