"""Every command answers whatever file it is given, or refuses it in one line, and says what sweep.tsv has recorded."""

from pathlib import Path

import pytest

from regard.cli import PANELS
from tests.first_use.commands import COMMANDS, WITHOUT_FILES
from tests.first_use.kinds import KINDS
from tests.first_use.sweep import ANSWERS, REFUSES, normalise, read_table, sweep_command

REMEDY = "python -m tests.first_use.sweep --write records what is said now; read the diff"


@pytest.mark.unchecked
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_answers_or_refuses_every_kind_of_file_as_recorded(command: str, desk: Path):
    cells, recorded = sweep_command(command, desk), read_table()
    broken = {kind: cell for kind, cell in cells.items() if cell.outcome not in (ANSWERS, REFUSES)}
    assert not broken, f"{command}: {broken}"
    wordless = [kind for kind, cell in cells.items() if cell.outcome == REFUSES and not cell.said]
    assert not wordless, f"{command} refuses without a word: {wordless}"
    seen = {kind: (cell.outcome, cell.said) for kind, cell in cells.items()}
    assert seen == {kind: recorded.get((command, kind)) for kind in KINDS}, REMEDY


def test_every_recorded_row_is_of_a_command_and_a_kind_of_file_that_exist():
    assert list(read_table()) == [(command, kind) for command in COMMANDS for kind in KINDS], REMEDY


def test_every_command_is_swept_or_takes_no_file():
    swept = {words.split()[0] for words in COMMANDS.values()}
    commands = {name for panel in PANELS.values() for name in panel}
    assert swept | WITHOUT_FILES == commands
    assert not swept & WITHOUT_FILES


def test_what_differs_between_machines_is_not_recorded(tmp_path: Path):
    said = [f"{tmp_path}/a.csv:12: 1,234 of 5.5e-06 lines", "  of sha 0123456789abcdef"]
    assert normalise(said, tmp_path) == "a.csv:N: N of N lines / of sha N"
