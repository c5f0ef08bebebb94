"""The rules of the house, read off the source: who imports whom, what only one file may do, how long things get."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.finders import (
    MACHINE_PATH,
    ROOT,
    banned,
    compared_column_names,
    functions,
    import_circles,
    import_graph,
    last,
    lists_delimiters,
    mentions,
    named_tasks,
    nodes,
    offenders,
    refuses_columns,
    sources,
    translators,
    under,
)

LINES, MODEL_LINES = 400, 500
FUNCTION_LINES = 60
PARAMETERS = 8
EXCEPTIONS: dict[str, str] = {}  # "regard/file.py:function": why it may break one of the three bounds above
NAMELESS = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}
KERNELS = {"scaled_dot_product_attention", "varlen_attn", "flex_attention"}
MODEL_PARTS = {"__init__", "interface", "weights"}  # every other file beside `parts` and `inference` is a model
OF_ONE_BODY = {"captioner", "encoder_with_head"}  # models that put a head or a writer on another model
PRINTERS = ("regard/cli/", "regard/demo.py", "regard/serve/", "regard/training/log.py")
TRANSLATING = (  # what translates, or shows it
    "regard/tasks/translation/",
    "regard/tasks/__init__.py",
    "regard/cli/translate.py",
    "regard/cli/translated_documents.py",
    "regard/cli/translated_lines.py",
    "regard/cli/translated_parts.py",
    "regard/serve/libretranslate.py",
    "regard/demo.py",
)
COLUMN_CHOOSER = "regard/data/columns.py"
TABLE_PARSER = "regard/data/table_records.py"
HOLDOUT = "regard.data.holdout"
IMAGE_HOLDOUT = "regard.data.images.labelled_images"  # which has the one file choose
AT_THE_END = {"regard/tasks/rnn_lm"}  # running text, of which the end is held out
SHARED = ["regard.tasks.supervised", "regard.tasks.text_encoders"]  # what several wings have in common
TASK_NAMED = {  # "file": why it may say the name of a task
    "regard/data/column_names.py": "columns of tables are called language, similarity or translation too",
    "regard/models/__init__.py": "models had other names in version 0.1, by task",
    "regard/config/former_names.py": "settings of one former name are several today, by task",
    "regard/models/word2vec.py": "the model is called so too",
    "regard/serve/libretranslate.py": "clients of LibreTranslate call the code of a language so",
}


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
    for model in models - OF_ONE_BODY:
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
    """The contracts name wings one by one: a new one must be in them; what they may share knows none of them."""
    wings = {Path(path).parts[2] for path in sources() if path.startswith("regard/tasks/") and path.count("/") > 2}
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [contract] = [one for one in told if one["type"] == "independence"]
    assert {f"regard.tasks.{wing}" for wing in wings} - {*SHARED} == set(contract["modules"])
    [shared] = [one for one in told if one.get("source_modules") == SHARED]
    assert shared["forbidden_modules"] == contract["modules"]


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
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["HEAVY"]


PROBELESS = (
    *("training", "recipe.py", "models", "cost", "config", "checkpoint", "data", "decoding", "interop"),
    *("cli", "tasks", "interpret", "bench.py", "__init__.py"),
)
PROBES = {  # "file": how often it asks whether something has an attribute, and why nothing can declare it
    "regard/config/text.py": (2, "PyYAML may be built without libyaml"),
    "regard/cost/trace.py": (1, "functions of torch"),
    "regard/data/images/files.py": (1, "pictures of Pillow, some of which have several frames"),
    "regard/data/memory.py": (2, "functions of the C library, which not every system has"),
    "regard/data/images/decoding.py": (1, "pictures of Pillow, some of which move"),
    "regard/data/roles.py": (1, "models of tokenizers, some of which have an unknown token"),
    "regard/data/tokenizers/forking.py": (1, "systems that fork"),
    "regard/decoding/threads.py": (1, "what is stepped need not be a module"),
    "regard/interop/folder.py": (2, "flags of files, which not every system has"),
    "regard/models/weights.py": (1, "functions of torch"),
    "regard/training/muon.py": (1, "torch's gradient scaler gives an optimizer an attribute"),
    "regard/training/prefetch.py": (1, "a batch is whatever a task makes, a number or an array too"),
    "regard/cli/__init__.py": (5, "errors of the command line library, whichever version brings them"),
    "regard/cli/answers.py": (1, "a callable has no name unless it is a function"),
    "regard/cli/argument_checks.py": (2, "commands of the command line library, whichever version brings them"),
    "regard/interpret/notebook.py": (1, "a shell of IPython, which has a kernel in notebooks only"),
    "regard/interpret/steps.py": (1, "a score is any callable"),
    "regard/tasks/translation/encoding.py": (1, "not every system says which cores a process may use"),
}


def test_nobody_asks_whether_something_has_an_attribute():
    """What a task, a model or a config can do is declared, with a default, in a base; the exceptions are counted."""
    prefixes = tuple(f"regard/{name}" if name.endswith(".py") else f"regard/{name}/" for name in PROBELESS)
    counts = {path: len(find_probes(tree)) for path, tree in sources().items() if path.startswith(prefixes)}
    assert {path: count for path, count in counts.items() if count} == {path: n for path, (n, _) in PROBES.items()}


def find_probes(tree):
    """The calls of hasattr, and of getattr with a default."""
    calls = [node for node in nodes(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [call for call in calls if call.func.id == "hasattr" or (call.func.id == "getattr" and len(call.args) == 3)]


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


def test_only_one_file_parses_csv():
    parsers = {"csv.reader", "csv.DictReader", "csv.Sniffer", "csv.field_size_limit"}
    assert {found.partition(":")[0] for found in offenders(parsers.__contains__)} == {TABLE_PARSER}


def test_only_one_file_holds_examples_out():
    """Every task that can hold out a share of its examples has the one file choose them."""
    holding_out, choosing = set(), set()
    for path, tree in sources().items():
        wing = "/".join(path.split("/")[:3])
        fields = (field for node in nodes(tree) if isinstance(node, ast.ClassDef) for field in node.body)
        names = {ast.unparse(field.target) for field in fields if isinstance(field, ast.AnnAssign)}
        if path.startswith("regard/tasks/") and names & {"validation_size", "validation_share"}:
            holding_out.add(wing)
        if any(under(name, HOLDOUT) or under(name, IMAGE_HOLDOUT) for name in mentions(tree)):
            choosing.add(wing)
    assert holding_out - choosing == AT_THE_END


def test_only_one_file_chooses_columns():
    """Usual names go to the chooser with a role, and are compared with a heading nowhere else; nor are errors made."""
    compared = {path: names for path, tree in sources().items() if (names := compared_column_names(tree))}
    assert not compared
    assert [path for path, tree in sources().items() if refuses_columns(tree)] == [COLUMN_CHOOSER]


def test_there_is_one_set_of_delimiters():
    assert [path for path, tree in sources().items() if lists_delimiters(tree)] == [TABLE_PARSER]


def test_no_file_can_run_code():
    assert offenders(banned) == ["regard/config/registry.py: importlib.import_module"]  # of what stands in the code
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
    known = {*flags(), "NamedFiles"}  # the latter are the flags of files, which several commands share
    return all("typer." in each or each.removeprefix("option.") in known for each in annotations)


def test_files_stay_short():
    paths = [path for folder in ("regard", "tests", "benchmarks", "scripts") for path in (ROOT / folder).rglob("*.py")]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    lengths = {path: len(text.splitlines()) for path, text in texts.items()}
    bounds = {path: MODEL_LINES if path.startswith("regard/models/") else LINES for path in lengths}
    assert not {path: n for path, n in lengths.items() if n > bounds[path] and path not in EXCEPTIONS}


def test_functions_stay_short():
    lengths = {
        f"{path}:{function.name}": function.end_lineno - function.lineno + 1
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


def test_no_module_imports_itself_by_way_of_others():
    """Not in annotations either: what two modules must know of one another belongs into a third, or a protocol."""
    assert not import_circles(import_graph(sources()))
