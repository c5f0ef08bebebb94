"""The scripts of the explorer as one script, since a file that opens from disk cannot import another.

Every module becomes a function that returns its exports, in an order in which each comes after those it imports.
What this cannot turn into a function is refused with its line.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

WEB = Path(__file__).parents[2] / "web"
ENTRY = "main"
STYLES = ("page.css", "decode.css", "use.css")
NAME = r"[A-Za-z_$][\w$]*"
IMPORT = re.compile(rf'import\s+(?:(\{{[^}}]*\}}|\*\s+as\s+{NAME})\s+from\s+)?"\./([\w./-]+)\.js";')
REEXPORT = re.compile(r'export\s+(\{[^}]*\}|\*)\s+from\s+"\./([\w./-]+)\.js";')
EXPORT_LIST = re.compile(r"export\s+(\{[^}]*\});")
DECLARATION = re.compile(rf"export\s+((?:async\s+)?function(?:\s*\*)?|class|const)\s+({NAME})")
STATEMENT = re.compile(r"^(?:import|export)\b", re.MULTILINE)
STRINGS_AND_COMMENTS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`""", re.DOTALL
)


@dataclass
class Module:
    """One script: what it imports, its body without imports and exports, and the names that it exports."""

    name: str
    needs: list[str] = field(default_factory=list)
    """Modules that it imports, in order."""
    exports: dict[str, str] = field(default_factory=dict)
    """The expression behind each exported name."""
    spreads: list[str] = field(default_factory=list)
    """Modules all of whose exports it exports."""
    body: str = ""

    def write(self) -> str:
        """Return the module as a function that is called once."""
        members = [f"...{variable(name)}" for name in self.spreads]
        members += [name if name == value else f"{name}: {value}" for name, value in self.exports.items()]
        returned = f"return {{ {', '.join(members)} }};\n"
        return f"const {variable(self.name)} = (() => {{\n{self.body}{returned}}})();\n"


def variable(name: str) -> str:
    """Return the name of the variable that holds the exports of a module."""
    return "$" + re.sub(r"\W", "_", name)


def write_bundle(folder: Path = WEB, entry: str = ENTRY) -> str:
    """Return all modules that the entry needs as one script."""
    return "\n".join(module.write() for module in order_modules(folder, entry))


@functools.cache
def explorer_script() -> str:
    """Return the script of the explorer."""
    return write_bundle()


def explorer_style() -> str:
    """Return the style sheet of the explorer."""
    return "".join((WEB / name).read_text(encoding="utf-8") for name in STYLES)


def order_modules(folder: Path = WEB, entry: str = ENTRY) -> list[Module]:
    """Return the entry and all that it needs, each module after those that it imports."""
    modules: dict[str, Module] = {}
    under_way: list[str] = []

    def visit(name: str, importer: str) -> None:
        if name in under_way:
            raise ValueError(f"{importer}.js: modules import each other in a circle: {' -> '.join([*under_way, name])}")
        if name in modules:
            return
        path = folder / f"{name}.js"
        if not path.is_file():
            raise ValueError(f"{importer}.js imports ./{name}.js, and there is no such file in {folder}")
        module = read_module(name, path.read_text(encoding="utf-8"))
        under_way.append(name)
        for need in module.needs:
            visit(need, name)
        under_way.pop()
        modules[name] = module

    visit(entry, entry)
    _check_names(modules)
    return list(modules.values())


def read_module(name: str, text: str) -> Module:
    """Split a module into what it imports, what it exports and the rest."""
    module, parts, end = Module(name), [], 0
    code = STRINGS_AND_COMMENTS.sub(_blank_out, text)
    for start in (match.start() for match in STATEMENT.finditer(code)):
        if start < end:
            continue
        replacement, stop = _read_statement(module, text, start)
        parts += [text[end:start], replacement]
        end = stop
    if match := re.search(r"\bimport\s*\(|\bimport\.meta\b", code):
        raise refuse(name, text, match.start(), "a bundle cannot load modules later: import it at the top")
    module.body = drop_comments("".join([*parts, text[end:]])).rstrip("\n") + "\n"
    return module


def drop_comments(text: str) -> str:
    """Remove the comments that have lines of their own, an eighth of what a page would be sent."""

    def drop(match: re.Match[str]) -> str:
        line = text.rfind("\n", 0, match.start()) + 1
        is_alone = text[line : match.start()].isspace() or line == match.start()
        ends_line = text[match.end() : match.end() + 1] in ("\n", "")
        return "" if match[0].startswith(("//", "/*")) and is_alone and ends_line else match[0]

    return STRINGS_AND_COMMENTS.sub(drop, text)


def _read_statement(module: Module, text: str, start: int) -> tuple[str, int]:
    """Note one import or export; return what takes its place and where it ends."""
    if match := IMPORT.match(text, start):
        names, need = match.groups()
        _add_need(module, need)
        if names is None:
            return "", match.end()
        pattern = names.split()[-1] if names.startswith("*") else _rename(names)
        return f"const {pattern} = {variable(need)};", match.end()
    if match := REEXPORT.match(text, start):
        names, need = match.groups()
        _add_need(module, need)
        if names == "*":
            module.spreads.append(need)
        else:
            module.exports |= {public: f"{variable(need)}.{own}" for own, public in _read_names(names)}
        return "", match.end()
    if match := EXPORT_LIST.match(text, start):
        module.exports |= {public: own for own, public in _read_names(match[1])}
        return "", match.end()
    if match := DECLARATION.match(text, start):
        kind, own = match.groups()
        module.exports[own] = own
        return f"{kind} {own}", match.end()
    if re.compile(r"export\s+(?:let|var)\b").match(text, start):
        remedy = "what imports it would keep its first value: export a const, or a function that returns it"
        raise refuse(module.name, text, start, remedy)
    raise refuse(module.name, text, start, "write imports and exports by name at the beginning of a line")


def _blank_out(match: re.Match[str]) -> str:
    """Replace a string or a comment by blanks; places stay the same."""
    return re.sub(r"[^\n]", " ", match[0]) if "\n" in match[0] else " " * len(match[0])


def refuse(name: str, text: str, place: int, remedy: str) -> ValueError:
    """Return the error for what cannot be bundled."""
    line = text.count("\n", 0, place) + 1
    shown = text.splitlines()[line - 1].strip()
    return ValueError(f"{name}.js:{line}: cannot bundle {shown[:60]!r}: {remedy}")


def _add_need(module: Module, need: str) -> None:
    if need not in module.needs:
        module.needs.append(need)


def _read_names(braces: str) -> list[tuple[str, str]]:
    """Return the own and the public name of each entry of `{ a, b as c }`."""
    entries = [entry.split() for entry in braces.strip("{} \n").split(",") if entry.strip()]
    return [(words[0], words[-1]) for words in entries]


def _rename(braces: str) -> str:
    """Return `{ a, b as c }` as a pattern, `{ a, b: c }`."""
    names = [own if own == local else f"{own}: {local}" for own, local in _read_names(braces)]
    return f"{{ {', '.join(names)} }}"


def _check_names(modules: dict[str, Module]) -> None:
    """Refuse imports of names that a module does not export, which would be undefined without a word."""
    exported: dict[str, set[str]] = {}
    for name, module in modules.items():  # those it spreads come before it
        exported[name] = set(module.exports).union(*(exported[spread] for spread in module.spreads))
    for name, module in modules.items():
        for need in module.needs:
            pattern = re.compile(rf"const \{{ (.*?) \}} = {re.escape(variable(need))};")
            wanted = [
                entry.split(":")[0].strip() for match in pattern.findall(module.body) for entry in match.split(",")
            ]
            if missing := next((each for each in wanted if each not in exported[need]), None):
                raise ValueError(f"{name}.js imports {missing} from ./{need}.js, which does not export it")
