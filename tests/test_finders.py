"""What looks for offences against the rules of the house finds them, and nothing else."""

import ast

import pytest

from tests.finders import (
    MACHINE_PATH,
    banned,
    compared_column_names,
    count_names,
    import_circles,
    import_graph,
    mentions,
    named_tasks,
    refuses_columns,
    translators,
)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import numpy as np\nnp.load(path)", "numpy.load"),
        ("import torch.nn.functional as F\nF.softmax(x, -1)", "torch.nn.functional.softmax"),
        ("import torch.distributed as dist", "torch.distributed"),
        ("from torch import distributed", "torch.distributed"),
        ("from torch import load\nload(path)", "torch.load"),
        ("from regard.models.gpt import GPT", "regard.models.gpt.GPT"),
        ("from .gpt import GPT", ".gpt.GPT"),
        ("if x:\n    print(1)", "print"),
        ("import sys\nsys.argv[1:]", "sys.argv"),
        ("(a @ b).softmax(-1)", "(a @ b).softmax"),
    ],
)
def test_a_forbidden_name_would_be_found(code, name):
    assert name in mentions(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import pickle as p\np.loads(x)",
        "from pickle import loads as read\nread(x)",
        "import _pickle",
        "import torch\ntorch.load(x, weights_only=False)",
        "from torch import load as read\nread(x)",
        "from torch.serialization import load",
        "import torch\ntorch.hub.load(x)",
        "import numpy as np\nnp.load(x, 'r', True)",
        "from numpy import load\nload(x, **{'allow_pickle': True})",
        "import yaml\nyaml.load(x, Loader=yaml.SafeLoader)",
        "import yaml\nyaml.load_all(x)",
        "import yaml\nyaml.unsafe_load_all(x)",
        "from yaml import CLoader",
        "from yaml.loader import UnsafeLoader",
        "from yaml.constructor import UnsafeConstructor",
        "eval('1')",
        "exec('1')",
        "compile('1', '', 'eval')",
        "__import__('pickle')",
        "import builtins\ngetattr(builtins, 'eval')('1')",
        "__builtins__['eval']('1')",
        "from importlib import import_module\nimport_module(x)",
    ],
)
def test_code_that_could_run_what_is_in_a_file_would_be_found(code):
    assert any(banned(name) for name in mentions(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    ["model.eval()", "torch.loads", "yaml.safe_load(x)", "yaml.SafeLoader", "re.compile('x')", "torch.compile(f)"],
)
def test_what_only_sounds_like_it_is_no_crime(code):
    assert not any(banned(name) for name in mentions(ast.parse(code)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("'/home/me/x'", True),
        ("see /opt/x/y", True),
        ("https://a.b/home/x", False),
        ("a/tmp/b", False),
        ("~/data/x", False),
    ],
)
def test_a_path_of_somebodys_machine_would_be_found(text, found):
    assert bool(MACHINE_PATH.search(text)) == found


@pytest.mark.parametrize(
    "code",
    [
        'if task == "translation":\n    pass',
        'if "tagging" in (settings["task"],):\n    pass',
        'names = {"language": 1}',
        'TASKS["word2vec"]',
        'settings.get("task", "translation")',
        'match task:\n    case "counting":\n        pass',
    ],
)
def test_the_name_of_a_task_would_be_found(code):
    assert named_tasks(ast.parse(code), command=True)
    assert not named_tasks(ast.parse('recipe.load(path, task="tagging")'), command=True)
    assert named_tasks(ast.parse('recipe.load(path, task="tagging")'))


@pytest.mark.parametrize(
    "code",
    [
        "from regard.tasks.translation.translator import Translator",
        "def f():\n    from regard.tasks.translation import scoring",
        "def f(translator):\n    pass",
        "self.translator.model",
        "class Translator:\n    pass",
    ],
)
def test_a_translator_would_be_found(code):
    assert translators(ast.parse(code))
    assert not translators(ast.parse("text.translate(table)"))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("import regard.b", "from regard import a"),
        ("from regard.b import x", "def f():\n    from regard.a import y"),
        ("from regard.b import x", "if TYPE_CHECKING:\n    from regard.a import y"),
    ],
)
def test_a_circle_would_be_found(a, b):
    trees = {"regard/__init__.py": ast.parse(""), "regard/a.py": ast.parse(a), "regard/b.py": ast.parse(b)}
    assert import_circles(import_graph(trees)) == [("regard.a", "regard.b")]
    trees["regard/b.py"] = ast.parse("from regard.c import z")
    trees["regard/c.py"] = ast.parse("")
    assert not import_circles(import_graph(trees))


def test_an_import_for_annotations_can_be_left_out():
    trees = {
        "regard/a.py": ast.parse("import regard.b"),
        "regard/b.py": ast.parse("if TYPE_CHECKING:\n    from regard.a import y"),
    }
    assert not import_circles(import_graph(trees, annotations=False))


def test_names_that_say_nothing_are_counted():
    code = "def drawn(found, picture):\n    return found\ndef open_file(path):\n    return path"
    assert count_names([ast.parse(code)]) == {"identifiers": 5, "vague": 2, "functions": 2, "participles": 1}


def test_columns_chosen_by_hand_would_be_found():
    imported = "from regard.data.column_names import TEXTS\n"
    assert compared_column_names(ast.parse(f"{imported}first = [name for name in row if name.lower() in TEXTS]"))
    assert compared_column_names(ast.parse(f"{imported}shared = TEXTS & set(heading)"))
    assert not compared_column_names(ast.parse(f"{imported}role = Role(name='text', usual=(*TEXTS, 'x'))"))
    assert refuses_columns(ast.parse("raise ValueError(f'{path} has no column {name}')"))
    assert not refuses_columns(ast.parse("raise ValueError(f'{path} has no column of features')"))
