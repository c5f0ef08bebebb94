"""One grammar: every command answers -h within eighty columns, in panels, and old names answer with the new ones."""

import re
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from regard.cli import PANELS, app, run
from regard.cli.renamed_commands import RENAMED

TABLE = typer.main.get_command(app)


def list_commands(command=TABLE, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words that lead to every command and family."""
    below = getattr(command, "commands", {})
    return [path, *(way for name, record in below.items() for way in list_commands(record, (*path, name)))]


def find_command(path: tuple[str, ...]):
    command = TABLE
    for name in path:
        command = command.commands[name]
    return command


COMMANDS = [path for path in list_commands() if path]


def help_text(*words: str) -> str:
    completed = CliRunner().invoke(app, list(words), env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert completed.exit_code == 0, completed.output
    return completed.output


@pytest.mark.parametrize("path", list_commands(), ids=" ".join)
def test_help_fits_eighty_columns_and_nothing_is_cut_off(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    short = help_text(*path, "-h")
    assert "--help" in short
    assert "…" not in short
    assert max(map(len, short.splitlines())) <= 80
    message = " ".join(re.sub(r"[│╭╮╰╯─]", " ", short).split())
    for parameter in find_command(path).params:
        assert parameter.help, f"{parameter.name} has no help"
        assert " ".join(parameter.help.split()) in message


def test_a_bare_command_prints_the_table_in_panels(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run([]) == 0
    printed = capsys.readouterr().out
    assert re.findall(r"╭─ (\w+) ─", printed) == ["Options", *PANELS]
    assert re.findall(r"^│ (\w+)  ", printed, re.MULTILINE) == [name for some in PANELS.values() for name in some]
    for family in ("data", "words", "lab", "data make"):
        assert run(family.split()) == 0
        assert "Usage: regard" in capsys.readouterr().out


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_options_mean_the_same_everywhere(path: tuple[str, ...]):
    flags = {
        name: set(record.opts) for record in find_command(path).params for name in record.opts if name.startswith("-")
    }
    for short, long in (("-o", "--output"), ("-i", "--input"), ("-s", "--set")):
        assert flags.get(short, {short, long}) == {short, long}
    assert not {"--plot", "--page", "--draw"} & set(flags)


@pytest.mark.parametrize("name", RENAMED)
def test_an_old_name_answers_with_the_new_one(name: str, capsys: pytest.CaptureFixture[str]):
    words = name.split()
    arguments = ["x", "y", "z"] if words[-1].startswith("--") else []
    assert run([*[word for word in words if not word.startswith("--")], *arguments, *words[-1:][: len(arguments)], "w"])
    assert capsys.readouterr().err == f"regard: {name} is now: regard {RENAMED[name]}\n"
    leading = tuple(word for word in RENAMED[name].split() if re.fullmatch(r"[a-z-]+", word) and word[0] != "-")
    assert leading[:2] in COMMANDS or leading[:1] in COMMANDS, "and the new one exists"
    assert tuple(words) not in COMMANDS


def test_help_does_not_wait_for_torch():
    code = "import sys; from regard.cli import run; run(['--help']); print('torch' in sys.modules)"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.splitlines()[-1] == "False"
