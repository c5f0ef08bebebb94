"""Names in the source: variables say what they hold, and functions what they do."""

import ast
from pathlib import Path

import pytest

from tests.finders import count_names, sources

MOST = 0.5, 1.5  # per cent of all identifiers, and of all functions
STILL_ABOVE = {  # "folder": per cent of both; they may only shrink
    "regard/cli": (9.1, 13.6),
    "regard/tasks/answering": (9.2, 15.8),
    "regard/tasks/labels": (8.9, 16.7),
    "regard/tasks/vision": (6.7, 11.7),
}


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
    counts, (most_vague, most_participles) = count_names(trees_by_folder()[folder]), STILL_ABOVE.get(folder, MOST)
    assert 100 * counts["vague"] <= most_vague * counts["identifiers"]
    assert 100 * counts["participles"] <= most_participles * counts["functions"]
