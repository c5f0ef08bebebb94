"""One way to name files in recipes, whatever the task."""

from typing import get_type_hints

import pytest

from regard import config
from regard.tasks import TASKS

REQUIRED = {"regression": {"target": "y"}}
FILED = [name for name, entry in TASKS.items() if "train" in get_type_hints(get_type_hints(entry.task.Recipe)["data"])]

APART = ("node-classification", "omics")  # one graph; two tables or more, and their labels
SEVERAL = [name for name in FILED if name not in APART]


def data(name: str, **files):
    recipe = config.build(TASKS[name].task.Recipe, {"task": name, "data": {**REQUIRED.get(name, {}), **files}})
    return recipe.data


def test_all_tasks_but_those_that_draw_learn_from_files():
    assert set(TASKS) - set(FILED) == {"counting", "localisation", "remembering"}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_file_is_named_by_its_path_or_by_a_section_alone_or_in_a_list(name):
    one = data(name, train="a.txt")
    for spelling in (["a.txt"], {"path": "a.txt"}, [{"path": "a.txt"}]):
        assert data(name, train=spelling) == one
    assert [file.path for file in one.train] == ["a.txt"]
    both = data(name, train=["a.txt", {"path": "b.txt"}])
    assert [file.path for file in both.train] == ["a.txt", "b.txt"]
    if hasattr(one, "valid"):
        assert data(name, train="a.txt", valid="v.txt") == data(name, train="a.txt", valid=[{"path": "v.txt"}])
        assert data(name, train="a.txt", valid=["v.txt", "w.txt"]).valid[1].path == "w.txt"


@pytest.mark.parametrize("name", SEVERAL)
def test_what_is_no_file_is_answered_with_what_may_stand_there(name):
    with pytest.raises(ValueError, match=r"data\.train must be a path or a section, or a list of them.*, not 3"):
        data(name, train=3)
