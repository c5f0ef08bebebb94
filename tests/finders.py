"""What a rule of the house is read off: names, imports and functions in the syntax trees of the source."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
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
EVERYDAY = {
    "captions",
    "pictures",
    "pixels",
}  # tasks named by words that mean other things too: only who compares with one asks for it
VAGUE_WORDS = """
    found one each own told kept asked given named held said meant seen wanted strange known done taken left made
    suited sized fitted paced bounded inherited opened unfolded joined parted understood introduced fellows kin
"""
VAGUE = frozenset(VAGUE_WORDS.split())
"""Names of variables that could hold anything."""
NO_PARTICIPLES = (
    "embed|_embed|seed|feed|need|open|between|len|gen|token|children|screen|green|wooden|even|often|threshold|fold|hold|"
    "hidden|cold|bold|scaffold|round|bound|sound|ground|background|left|speed|breed|shared|padded|indeed"
)
PARTICIPLE = re.compile(rf"^_?(?!{NO_PARTICIPLES})[a-z]+(ed|en|wn|ept|old|aid|ound|ade)$")
"""Names of functions that say what came out, not what is done."""
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


def import_graph(trees: dict[str, ast.Module], *, annotations: bool = True) -> dict[str, set[str]]:
    """Return which modules each one imports, wherever it does; the public doors are left out, which open late.

    Imports for `annotations` alone, under TYPE_CHECKING, count like others unless they are not asked for.
    """
    names = {path: path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in trees}
    modules = set(names.values()) - {"regard"}
    return {
        names[path]: imported_modules(tree, modules, annotations=annotations) - {names[path]}
        for path, tree in trees.items()
        if names[path] in modules
    }


def imported_modules(tree: ast.Module, modules: set[str], *, annotations: bool = True) -> set[str]:
    """Return which of these modules a file imports, at its top or inside a function."""
    guarded = [node for node in nodes(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    skipped = set() if annotations else {id(inner) for node in guarded for inner in ast.walk(node)}
    imports: set[str] = set()
    for node in nodes(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                imports.add(submodule if submodule in modules else node.module)
        elif isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
    return imports & modules


def import_circles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Return the groups of modules each of which imports all the others of its group, by way of others or directly."""
    reached = {module: reachable_modules(graph, module) for module in graph}
    circles = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in graph
        if module in reached[module]
    }
    return sorted(circles)


def reachable_modules(graph: dict[str, set[str]], module: str) -> set[str]:
    """Return all modules that one imports, directly or by way of others."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def count_names(trees: Iterable[ast.Module]) -> Counter[str]:
    """Count identifiers and those that say nothing, functions and those that a participle names."""
    counts: Counter[str] = Counter()
    for tree in trees:
        for node in nodes(tree):
            if isinstance(node, ast.Name | ast.arg):
                counts["identifiers"] += 1
                counts["vague"] += (node.id if isinstance(node, ast.Name) else node.arg) in VAGUE
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                counts["functions"] += 1
                counts["participles"] += bool(PARTICIPLE.match(node.name))
    return counts


def compared_column_names(tree: ast.AST) -> list[str]:
    """Where a file compares cells with usual names of columns by hand, or looks them up in a set."""
    vocabulary = {
        alias.asname or alias.name
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "regard.data.column_names"
        for alias in node.names
    }
    operations = (node for node in nodes(tree) if isinstance(node, ast.Compare | ast.BinOp))
    return [
        f"{operation.lineno}: {part.id}"
        for operation in operations
        for part in (operation.left, *getattr(operation, "comparators", [getattr(operation, "right", None)]))
        if isinstance(part, ast.Name) and part.id in vocabulary
    ]


def refuses_columns(tree: ast.AST) -> bool:
    """True if a file has an error of its own for a column that is named and not there."""
    texts = (
        part.value
        for node in nodes(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values[:-1]
        if isinstance(part, ast.Constant)
    )
    return any(str(text).endswith((" has no column ", " has no column named ")) for text in texts)


def lists_delimiters(tree: ast.AST) -> bool:
    """True if a string, list or dict holds the delimiters of tables and little else."""
    return any({",", ";", "\t"} <= texts <= set(",;\t| ") for texts in map(_characters, nodes(tree)))


def _characters(node: ast.AST) -> set[object]:
    """The characters of a string, or the constants that a literal lists."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return set(node.value)
    listed = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return {item.value for item in listed if isinstance(item, ast.Constant)}
