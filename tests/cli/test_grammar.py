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


def every(command=TABLE, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words that lead to every command and family."""
    below = getattr(command, "commands", {})
    return [path, *(way for name, each in below.items() for way in every(each, (*path, name)))]


def found(path: tuple[str, ...]):
    command = TABLE
    for name in path:
        command = command.commands[name]
    return command


COMMANDS = [path for path in every() if path]


def helped(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("path", every(), ids=" ".join)
def test_help_fits_eighty_columns_and_nothing_is_cut_off(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    short = helped(*path, "-h")
    assert "--help" in short
    assert "…" not in short
    assert max(map(len, short.splitlines())) <= 80
    said = " ".join(re.sub(r"[│╭╮╰╯─]", " ", short).split())
    for parameter in found(path).params:
        assert parameter.help, f"{parameter.name} has no help"
        assert " ".join(parameter.help.split()) in said


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
    flags = {name: set(each.opts) for each in found(path).params for name in each.opts if name.startswith("-")}
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
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "False"
