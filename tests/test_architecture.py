"""The rules of the house, read off the source: who imports whom, what only one file may do, how long things get."""

import ast
import graphlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 8
EXCEPTIONS: dict[str, str] = {}  # "regard/file.py:function": why it may break one of the three bounds above
NAMELESS = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}
KERNELS = {"scaled_dot_product_attention", "varlen_attn", "flex_attention"}
MODEL_PARTS = {
    "__init__",
    "bits",
    "blocks",
    "captioner",
    "cells",
    "convolution",
    "dropout",
    "encoder_decoder",
    "gelu",
    "hogwild",
    "kernels",
    "inference",
    "lean",
    "lora",
    "sparse",
    "picture",
    "reader",
    "running",
    "spectral",
    "spread",
    "weights",
    "writers",
}  # every other file is a model
PRINTERS = ("regard/cli/", "regard/demo.py", "regard/serve/", "regard/training/log.py")
PICKLES = {"pickle", "_pickle", "cPickle", "copyreg", "dill", "marshal", "shelve", "cloudpickle", "joblib"}
LOADERS = {
    "torch.load",
    "torch.save",
    "torch.serialization",
    "torch.jit.load",
    "torch.package",
    "torch.hub",
    "numpy.load",
}
RUNNERS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "builtins",
    "__builtins__",
    "importlib.import_module",
    "runpy",
}
BANNED = PICKLES | LOADERS | RUNNERS
TRANSLATING = (  # what translates, or shows it
    "regard/tasks/translation/",
    "regard/tasks/__init__.py",
    "regard/cli/translate.py",
    "regard/demo.py",
)
TASK_NAMED = {  # "file": why it may say the name of a task
    "regard/models/__init__.py": "models had other names in version 0.1, by task",
    "regard/models/word2vec.py": "the model is called so too",
}
EVERYDAY = {
    "captions",
    "pictures",
    "pixels",
}  # tasks named by words that mean other things too: only who compares with one asks for it
MACHINE_PATH = re.compile(r"""(?<![\w.~/>-])/(?:home|root|work|Users|tmp|mnt|media|opt|var|usr|data|scratch)/\w""")


@cache
def sources() -> dict[str, ast.Module]:
    """Every file of the package as a syntax tree, by its path in the repository."""
    paths = sorted((ROOT / "regard").rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """Everything in a syntax tree, walked once for all rules."""
    return list(ast.walk(tree))


def spelled(node: ast.AST) -> str:
    """The source of a name, with or without dots, or of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
        return f"{spelled(node.value)}.{node.attr}"
    return ast.unparse(node)


@cache
def mentions(tree: ast.AST) -> set[str]:
    """Full dotted names of everything imported or used, with `np`, `F` and the like spelled out."""
    aliases, names = {}, set()
    for node in nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            prefix = f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                full = prefix + alias.name
                names.add(full)
                if alias.asname or prefix:
                    aliases[alias.asname or alias.name] = full
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
            first, _, rest = spelled(node).partition(".")
            names.add(aliases.get(first, first) + (f".{rest}" if rest else ""))
    return names


def offenders(wrong: Callable[[str], bool], *, allowed: tuple[str, ...] = (), within: str = "regard/") -> list[str]:
    """`file: name` for every forbidden name outside the files that may use it."""
    return [
        f"{path}: {name}"
        for path, tree in sources().items()
        if path.startswith(within) and not path.startswith(allowed or ("-",))
        for name in sorted(mentions(tree))
        if wrong(name)
    ]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method."""
    return (node for node in nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def tasks() -> set[str]:
    """The names of all tasks, as their registry has them."""
    [table] = [
        node.value
        for node in sources()["regard/tasks/__init__.py"].body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "TASKS"
    ]
    return {ast.literal_eval(key) for key in table.keys}


def named_tasks(tree: ast.AST, *, command: bool = False) -> list[str]:
    """Where a file says the name of a task; a command of one task may, when it loads a model: `load(..., task="x")`."""
    loads = [word.value for word in nodes(tree) if isinstance(word, ast.keyword) and word.arg == "task"]
    excused = {id(node) for node in loads} if command else set()
    compared = {id(each) for node in nodes(tree) if isinstance(node, ast.Compare) for each in ast.walk(node)}
    return [
        f"{node.lineno}: {node.value!r}"
        for node in nodes(tree)
        if isinstance(node, ast.Constant) and id(node) not in excused
        if isinstance(node.value, str) and node.value in tasks()
        if node.value not in EVERYDAY or id(node) in compared
    ]


def translators(tree: ast.AST) -> set[str]:
    """Names of translators in a file: imported from their wing, or of variables, attributes and parameters."""
    own = {getattr(node, kind, None) for node in nodes(tree) for kind in ("id", "attr", "arg", "name")}
    named = {name for name in own if isinstance(name, str) and re.fullmatch(r"_?[Tt]ranslators?", name)}
    return named | {name for name in mentions(tree) if under(name, "regard.tasks.translation")}


def last(name: str) -> str:
    """The last part of a dotted name."""
    return name.rpartition(".")[2]


def under(name: str, package: str) -> bool:
    """Whether a dotted name is a package or something in it."""
    return name == package or name.startswith(f"{package}.")


def banned(name: str) -> bool:
    """Whether a name can run code hidden in a file; of YAML's loaders and constructors only the safe ones cannot."""
    loader = under(name, "yaml") and re.search(r"load|Load|Construct", last(name))
    return any(under(name, each) for each in BANNED) or bool(loader and not re.match(r"safe|C?Safe", last(name)))


# The finders find.


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
    [("import regard.b", "from regard import a"), ("from regard.b import x", "def f():\n    from regard.a import y")],
)
def test_a_circle_would_be_found(a, b):
    trees = {"regard/__init__.py": ast.parse(""), "regard/a.py": ast.parse(a), "regard/b.py": ast.parse(b)}
    with pytest.raises(graphlib.CycleError):
        in_order(trees)


# Who may import whom.


def test_the_import_contract_holds(capfd):
    cli = pytest.importorskip("importlinter.cli", reason="import-linter is not installed (pip install -e '.[test]')")
    status = cli.lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == 0, capfd.readouterr().out


def test_the_attention_core_knows_nothing_of_regard():
    inside = ("regard.attention",)
    assert not offenders(lambda name: under(name, "regard") and not name.startswith(inside), within="regard/attention/")


def test_the_public_doors_are_for_those_outside():
    doors = {"regard.load", "regard.train", "regard.watch"}
    assert not offenders(doors.__contains__, allowed=("regard/cli/", "regard/demo.py", "regard/serve/"))


def test_models_never_import_one_another():
    models = {Path(path).stem for path in sources() if Path(path).parent.as_posix() == "regard/models"} - MODEL_PARTS
    for model in models:
        others = {f"{prefix}{other}" for other in models - {model} for prefix in ("regard.models.", ".")}
        tree = sources()[f"regard/models/{model}.py"]
        assert not [name for name in mentions(tree) if any(under(name, other) for other in others)], model


def test_only_one_file_knows_of_other_processes():
    assert not offenders(lambda name: under(name, "torch.distributed"), allowed=("regard/training/distributed.py",))


def test_only_the_tasks_themselves_and_their_commands_know_what_a_task_is_called():
    """Whoever else asks `if task ==` has found something that belongs on Task or Trained."""
    found = {
        path: named
        for path, tree in sources().items()
        if not path.startswith("regard/tasks/") and path not in TASK_NAMED
        if (named := named_tasks(tree, command=path.startswith("regard/cli/")))
    }
    assert not found
    assert all(named_tasks(sources()[path]) for path in TASK_NAMED), "an exception that nobody needs"


def test_nothing_but_translating_names_a_translator():
    found = {path: translators(tree) for path, tree in sources().items() if not path.startswith(TRANSLATING)}
    assert not {path: names for path, names in found.items() if names}


def test_every_wing_is_a_stranger_to_the_others():
    """The contract names wings one by one: a new one must be in it."""
    wings = {Path(path).parts[2] for path in sources() if path.startswith("regard/tasks/") and path.count("/") > 2}
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [contract] = [one for one in told if one["type"] == "independence"]
    assert {f"regard.tasks.{wing}" for wing in wings} == set(contract["modules"])


def test_other_peoples_models_are_met_in_tests_only():
    assert not offenders(lambda name: under(name, "transformers"))


@pytest.mark.parametrize("heavy", ["matplotlib", "tensorboard", "torch.utils.tensorboard", "sacrebleu"])
def test_a_heavy_import_waits_inside_the_function_that_needs_it(heavy):
    top = {
        path: ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], [])
        for path, tree in sources().items()
    }
    assert not [path for path, tree in top.items() if any(under(name, heavy) for name in mentions(tree))]


@pytest.mark.parametrize(
    "code", ["import regard", "import regard.cli", "sys.argv[1:] = ['--help']; import regard.cli; regard.cli.main()"]
)
def test_nothing_heavy_is_imported_before_it_is_needed(code):
    script = (
        f"import sys, atexit\natexit.register(lambda: print('HEAVY', *{{'torch', 'numpy'}} & set(sys.modules)))\n{code}"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["HEAVY"]


# What only one place may do.


def test_only_attend_calls_a_fused_kernel():
    assert not offenders(lambda name: last(name) in KERNELS, allowed=("regard/attention/attend.py",))


def test_there_is_one_softmax_over_keys():
    only = ("regard/attention/attend.py",)
    assert not offenders(lambda name: last(name) in {"softmax", "Softmax"}, allowed=only, within="regard/attention/")


def test_only_the_surfaces_print():
    assert not offenders(
        lambda name: name == "print" or name.startswith(("sys.stdout", "sys.stderr")), allowed=PRINTERS
    )


def test_only_the_command_line_reads_its_arguments():
    assert not offenders(lambda name: under(name, "sys.argv"), allowed=("regard/cli/",))


def test_no_file_can_run_code():
    assert not offenders(banned)
    keywords = [
        (path, node) for path, tree in sources().items() for node in nodes(tree) if isinstance(node, ast.keyword)
    ]
    assert not [path for path, node in keywords if node.arg == "allow_pickle" and ast.unparse(node.value) != "False"]
    assert not [path for path, node in keywords if node.arg == "trust_remote_code"]


def test_no_path_of_somebodys_machine():
    files = [path for part in ("regard", "recipes", "scripts") for path in sorted((ROOT / part).rglob("*"))]
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.suffix in {".py", ".yaml", ".md"}}
    assert not [f"{path}: {found[0]}" for path, text in texts.items() if (found := MACHINE_PATH.search(text))]


# How it reads.


@cache
def flags() -> frozenset[str]:
    """What the commands call the flags that several of them have."""
    trees = (tree for path, tree in sources().items() if path.startswith("regard/cli/"))
    assigned = [node for tree in trees for node in tree.body if isinstance(node, ast.Assign)]
    return frozenset(ast.unparse(node.targets[0]) for node in assigned if "typer." in ast.unparse(node.value))


def is_command(path: str, function: ast.FunctionDef) -> bool:
    """Whether a function is a command: every parameter is a flag or an argument."""
    if not path.startswith("regard/cli/"):
        return False
    taken = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    annotations = (ast.unparse(each.annotation) if each.annotation else "" for each in taken)
    return all("typer." in each or each.removeprefix("option.") in flags() for each in annotations)


def test_files_stay_short():
    lengths = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert not {path: length for path, length in lengths.items() if length > LINES and path not in EXCEPTIONS}


def test_functions_stay_short():
    lengths = {
        f"{path}:{function.name}": function.end_lineno
        - (function.body[0] if is_command(path, function) else function).lineno  # flags are a table of their own
        + 1
        for path, tree in sources().items()
        for function in functions(tree)
    }
    assert not {name: length for name, length in lengths.items() if length > FUNCTION_LINES and name not in EXCEPTIONS}


def test_functions_take_few_parameters():
    counts = {}
    for path, tree in sources().items():
        for function in functions(tree):
            taken = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
            if is_command(path, function):
                continue  # a command's parameters are its flags, which users type one by one
            if any("triton.jit" in one or "custom_op" in one for one in map(ast.unparse, function.decorator_list)):
                continue  # a kernel's parameters are the memory it works on, which nothing can hold together
            counts[f"{path}:{function.name}"] = len([each for each in taken if each.arg not in {"self", "cls"}])
    assert not {name: count for name, count in counts.items() if count > PARAMETERS and name not in EXCEPTIONS}


def test_every_exception_is_still_needed():
    names = {f"{path}:{function.name}" for path, tree in sources().items() for function in functions(tree)} | set(
        sources()
    )
    assert set(EXCEPTIONS) <= names


def test_every_file_has_a_name_that_says_something():
    assert not [path for path in sources() if NAMELESS & set(Path(path).with_suffix("").parts)]


def test_everything_public_says_what_it_is():
    silent = []
    for path, tree in sources().items():
        public = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        silent += [path] if not ast.get_docstring(tree) else []
        silent += [f"{path}:{n.name}" for n in public if not n.name.startswith("_") and not ast.get_docstring(n)]
    assert not silent


def test_every_recipe_is_under_test():
    tests = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("*.py")))
    assert not [path.name for path in sorted((ROOT / "recipes").glob("*.yaml")) if path.stem not in tests]


def test_nobody_knows_the_numbers_of_special_tokens():
    """Pad, begin, end and unknown are attributes of a tokenizer; a model is given what it needs of them."""
    named = re.compile(r"\b(?:PAD|BOS|EOS|UNK)(?:_ID|_TOKEN)?\b")
    for path, tree in sources().items():
        names = {
            found
            for node in nodes(tree)
            for found in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", "") or "")
        }
        assert not {name for name in names if named.fullmatch(name)}, path


def test_no_file_imports_itself_by_way_of_others():
    assert len(in_order(sources())) == len(sources()) - 1


def in_order(trees: dict[str, ast.Module]) -> list[str]:
    """All modules but the public doors, which open late, each after those it imports; a circle raises and is named."""
    names = {path: path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in trees}
    modules = set(names.values())
    graph = {names[path]: imported(tree, modules) - {names[path]} for path, tree in trees.items()}
    del graph["regard"]
    return list(graphlib.TopologicalSorter(graph).static_order())


def imported(tree: ast.Module, modules: set[str]) -> set[str]:
    """The project's modules that a file imports, at its top or inside a function, but for those it needs as types."""
    guarded = [node for node in nodes(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    types = {id(inner) for node in guarded for inner in ast.walk(node)}
    found: set[str] = set()
    for node in nodes(tree):
        if id(node) in types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (whole & modules) or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & modules) - {"regard"}
