"""Names in the source: variables say what they hold, and functions what they do."""

import ast
from pathlib import Path

import pytest

from tests.finders import count_names, sources

MAX_VAGUE, MAX_PARTICIPLES = 0.5, 1.5  # per cent of all identifiers, and of all functions


def trees_by_folder() -> dict[str, list[ast.Module]]:
    """Return the files of every part of the package, with those of a task by themselves."""
    folders: dict[str, list[ast.Module]] = {}
    for path, tree in sources().items():
        parts = Path(path).parent.parts
        folders.setdefault("/".join(parts[: 3 if parts[:2] == ("regard", "tasks") else 2]), []).append(tree)
    return folders


@pytest.mark.parametrize("folder", sorted(trees_by_folder()))
def test_names_say_what_they_name(folder: str):
    """Variables are not called `found` or `each`, functions not `drawn` or `told`."""
    counts = count_names(trees_by_folder()[folder])
    assert 100 * counts["vague"] <= MAX_VAGUE * counts["identifiers"]
    assert 100 * counts["participles"] <= MAX_PARTICIPLES * counts["functions"]
