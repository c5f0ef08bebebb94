"""What is typed and says nothing, or too much, is refused before a model is opened; only what is near is proposed."""

import pytest

from regard.cli import run


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) != 0
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    return error.strip()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "", "x=1"], "MODEL is given nothing: name one"),
        (["export", "en-fr", ""], "OUT is given nothing: name one"),
        (["cost", ""], "MODEL is given nothing"),
        (["translate", "-i", ""], "-i is given nothing: give it a value, or leave it out"),
        (["translate", "--output=", "a"], "--output is given nothing"),
        (["train", "t.csv", "--from", ""], "--from is given nothing"),
        (["evaluate", "stories", ""], "evaluate takes the names of files, not an empty text"),
        (["train", ""], "an empty name of a file, which would be the folder here: give its name"),
        (["translate", "-i", "a.md", "-i", "b.md"], "-i is given twice, a.md and b.md: give one of them"),
        (["translate", "-ia.md", "--input=b.md"], "--input is given twice, a.md and b.md"),
        (["evaluate", "--columns", "1,2", "--columns", "2,1", "x"], "--columns is given twice, 1 2 and 2 1"),
    ],
)
def test_an_empty_value_and_one_given_twice_are_refused(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("must not be read\n")
    assert message in error_of(capsys, *words)


def test_an_option_for_several_may_be_given_again_and_words_after_a_dash_are_texts(capsys):
    assert run(["translate", "--to", "fr", "-s", "beams=1", "-s", "longest=20", "--", "-i"]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["tranlate", "x"], ", did you mean translate?"),
        (["load", "x"], ""),
        (["runs", "smples"], ", did you mean samples?"),
        (["words", "simlar"], ", did you mean similar?"),
        (["translate", "--outpt", "x"], ", did you mean --output?"),
        (["predict", "--bogus"], ""),
    ],
)
def test_a_command_and_an_option_are_proposed_only_where_they_are_near(words, near, capsys):
    error = error_of(capsys, *words)
    name = next(word for word in words if word not in ("runs", "words", "translate", "predict"))
    what = f"No such option: {name}" if name.startswith("-") else f"No such command {name!r}"
    assert error.startswith(f"regard: {what}{near} (see regard ")


def test_the_address_of_a_page_is_neither_a_model_nor_fetched(capsys):
    error = error_of(capsys, "translate", "--to", "fr", "https://example.com")
    assert error.startswith("regard: https://example.com: nothing is fetched: save the page and give -i FILE")
    assert run(["translate", "--to", "fr", "https://example.com is down."]) == 0
    assert "https://example.com" in capsys.readouterr().out


def test_a_language_may_be_written_in_capitals(capsys):
    assert run(["translate", "--to", "FR", "Good morning."]) == 0
    upper = capsys.readouterr()
    assert run(["translate", "--to", "fr", "Good morning."]) == 0
    assert capsys.readouterr() == upper
    assert "unknown language tag 'DE': there are en, fr" in error_of(capsys, "translate", "--to", "DE", "Good morning.")
