"""A long file is answered in blocks that stay: interrupted anywhere, the same command ends with the same file."""

import json
from pathlib import Path

import pytest

from regard.cli import answers, resumable_output, run, translate
from regard.tasks.translation.translator import Translator
from tests.documents import ROOT

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere
FROZEN = str(ROOT / "tests" / "checkpoints" / "format-1")
LINES = [f"le chat {number} dort" for number in range(7)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(translate, "BLOCK_SIZE", 2)
    monkeypatch.setattr(answers, "BLOCK_SIZE", 2)
    Path("in.fr").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return tmp_path


def interrupt_translation(monkeypatch, after: int) -> list[int]:
    """Translators that stop after so many blocks; the sizes of the blocks they were asked for."""
    answered_texts, whole = [], Translator.answers

    def some(self, texts, **options):
        if len(answered_texts) == after:
            raise KeyboardInterrupt
        answered_texts.append(len(texts))
        return whole(self, texts, **options)

    monkeypatch.setattr(Translator, "answers", some)
    return answered_texts


@pytest.mark.parametrize(
    ("verb", "name", "more"),
    [
        ("translate", "out.csv", []),
        ("translate", "out.en", ["--nbest", "2"]),
        ("translate", "out.en", ["-s", "sample=true", "-s", "seed=3"]),
        ("predict", "out.jsonl", []),
    ],
)
def test_an_interrupted_file_is_continued_where_it_stopped(verb, name, more, here, monkeypatch, capsys):
    command = [verb, FROZEN, "-i", "in.fr", *more, "--device", "cpu"]
    assert run([*command, "-o", f"whole-{name}"]) == 0
    with monkeypatch.context() as patch:
        interrupt_translation(patch, after=2)
        assert run([*command, "-o", name]) == 130
    assert not Path(name).exists()
    assert f"{name}.part has 4 lines: the same command continues it" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        answered_texts = interrupt_translation(patch, after=99)
        assert run([*command, "-o", name]) == 0
    assert sum(answered_texts) == 3, "what was answered is not asked again"
    assert f"continuing {name} after 4 lines" in capsys.readouterr().err
    assert Path(name).read_bytes() == Path(f"whole-{name}").read_bytes()
    assert not list(Path().glob("*.part*"))


def test_what_came_after_the_last_block_is_cut_off(here, monkeypatch):
    command = ["translate", FROZEN, "-i", "in.fr", "--device", "cpu"]
    assert run([*command, "-o", "whole"]) == 0
    with monkeypatch.context() as patch:
        interrupt_translation(patch, after=2)
        run([*command, "-o", "out"])
    with Path("out.part").open("a", encoding="utf-8") as file:
        file.write("half a li")
    assert run([*command, "-o", "out"]) == 0
    assert Path("out").read_text() == Path("whole").read_text()


def test_a_continued_file_goes_into_the_language_that_its_beginning_asked_for(here, monkeypatch):
    english, french = ["Where is the station?", "I am very tired today."], ["Où est la gare ?", "Je suis très fatigué."]
    Path("in.fr").write_text("".join(f"{line}\n" for line in english + french), encoding="utf-8")
    command = ["translate", "en-fr", "-i", "in.fr", "--beams", "1", "--device", "cpu"]
    with monkeypatch.context() as patch:
        interrupt_translation(patch, after=1)
        run([*command, "-o", "out"])
    answered_texts, whole = [], Translator.answers
    monkeypatch.setattr(
        Translator,
        "answers",
        lambda self, texts, **options: (answered_texts.append(options["to"]), whole(self, texts, **options))[1],
    )
    assert run([*command, "-o", "out"]) == 0
    assert answered_texts == ["fr"], "guessed from the English lines, not from those that were left"


@pytest.mark.parametrize("change", ["input", "options", "damage"])
def test_another_question_begins_anew(change, here, monkeypatch, capsys):
    command = ["translate", FROZEN, "-i", "in.fr", "--device", "cpu", "-o", "out"]
    with monkeypatch.context() as patch:
        interrupt_translation(patch, after=1)
        run(command)
    capsys.readouterr()
    if change == "input":
        Path("in.fr").write_text("".join(f"{line}\n" for line in ["une fois", *LINES[1:]]), encoding="utf-8")
    elif change == "options":
        command += ["--beams", "3"]
    else:
        Path("out.part.json").write_text(json.dumps({"asked": 1}))
    answered_texts = interrupt_translation(monkeypatch, after=99)
    assert run(command) == 0
    assert sum(answered_texts) == len(LINES)
    assert "continuing" not in capsys.readouterr().err


def test_progress_is_told_once_a_minute_where_there_is_no_terminal(here, monkeypatch, capsys):
    clock = iter(range(0, 10**6, 40))
    monkeypatch.setattr(resumable_output.time, "monotonic", lambda: next(clock))
    assert run(["translate", FROZEN, "-i", "in.fr", "-o", "out", "--device", "cpu"]) == 0
    stderr = [line for line in capsys.readouterr().err.splitlines() if "of 7 lines" in line]
    assert stderr
    assert all(line.startswith("regard: ") and line.endswith("min left") for line in stderr)
