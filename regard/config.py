"""Settings: YAML and `a.b=c` become frozen dataclasses, and a typo answers with the nearest name."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import functools
import inspect
import itertools
import math
import os
import re
import textwrap
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

LARGEST = 1 << 20  # bytes of a settings file
T = TypeVar("T")
_MISSING = dataclasses.MISSING


@dataclasses.dataclass(frozen=True)
class Field:
    """One setting as a person reads about it; sections come before their own settings."""

    name: str
    type: str
    default: str
    help: str


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The mapping a YAML file holds; whatever is wrong with it is said in one line with its place."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ValueError(f"{name}: {(error.strerror or str(error)).lower()}") from None
    if len(data) > LARGEST:
        raise ValueError(f"{name}: larger than {LARGEST} bytes, which is too large for settings")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}:{line}: not UTF-8, save the file as UTF-8 text") from None
    return parse(text, name=name)


def parse(text: str, *, name: str = "settings") -> dict[str, Any]:
    """The mapping a YAML text holds; `name` says in errors where the text came from."""
    value = _load(text, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name}:1: expected `name: value` lines, not {_shown(value)}")
    return value


def dump(mapping: Mapping[str, Any]) -> str:
    """YAML text that `parse` reads back as the same mapping."""
    return yaml.dump(dict(mapping), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def override(mapping: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """A copy of the mapping with each `a.b=c` applied in turn; the value is YAML, a missing section is created."""
    result = plain(mapping)
    for setting in settings:
        name, equals, text = setting.partition("=")
        *sections, last = keys = name.strip().split(".")
        if not equals or not all(keys):
            raise ValueError(f"cannot read setting {setting!r}, write it as name=value or section.name=value")
        here = result
        for depth, section in enumerate(sections, start=1):
            if here.get(section) is None:
                here[section] = {}
            here = here[section]
            if not isinstance(here, dict):
                place = ".".join(sections[:depth])
                raise ValueError(f"cannot set {name.strip()}: {place} is {_shown(here)}, not a section")
        here[last] = _scalar(text, setting)
    return result


def build(cls: type[T], mapping: Any, *, where: str = "") -> T:
    """The dataclass that a mapping describes, checked all the way down; `where` is the section's own name."""
    if isinstance(mapping, cls):
        return mapping
    if not isinstance(mapping, Mapping):
        raise ValueError(f"{where or 'settings'} must be a section of `name: value` lines, not {_shown(mapping)}")
    kinds = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    mapping = _with_preset(cls, mapping, fields, where)
    for name in mapping:
        if name not in fields:
            raise ValueError(f"unknown setting {_join(where, str(name))}{_nearest(str(name), fields)}")
    missing = [
        _join(where, name) for name, field in fields.items() if name not in mapping and _default(field) is _MISSING
    ]
    if missing:
        raise ValueError(f"missing setting {', '.join(missing)}")
    values = {name: _convert(kinds[name], value, _join(where, name)) for name, value in mapping.items()}
    try:
        return cls(**values)
    except ValueError as error:  # the dataclass checks what single values cannot show
        raise ValueError(f"{where}: {error}" if where else str(error)) from None


def plain(config: Any) -> Any:
    """The way back: nested dicts, lists and scalars, of which `build` makes an equal dataclass."""
    if dataclasses.is_dataclass(config):
        return {field.name: plain(getattr(config, field.name)) for field in dataclasses.fields(config) if field.init}
    if isinstance(config, Mapping):
        return {str(name): plain(value) for name, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [plain(value) for value in config]
    return str(config) if isinstance(config, Path) else config


def describe(cls: type, *, where: str = "", defaults: Any = None) -> list[Field]:
    """Every setting below a dataclass, for documents and `--help`; an instance as `defaults` stands for the class's."""
    kinds, helps = get_type_hints(cls), _helps(cls)
    rows: list[Field] = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        kind, name, help = kinds[field.name], _join(where, field.name), helps.get(field.name, "")
        default = _default(field) if defaults is None else getattr(defaults, field.name)
        section = _section(kind)
        if section is None:
            rows.append(Field(name, _named(kind), _shown_default(default), help))
            continue
        inner = default if isinstance(default, section) else None
        shown = "" if inner else _shown_default(default)
        rows.append(Field(name, _named(kind), shown, help or _sentence(section)))
        rows += describe(section, where=f"{name}[]" if get_origin(kind) in (tuple, list) else name, defaults=inner)
    return rows


# Reading YAML: the 1.2 schema (`on` and `no` are words, 1e-9 is a number) without aliases and doubled names.


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses what settings have no use for and readers stumble over."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
            raise _refusal("aliases and tags are not supported, write the value out", event)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        seen: dict[str, int] = {}
        for key, _ in getattr(node, "value", ()):
            if key.tag != "tag:yaml.org,2002:str":
                raise _refusal(f"names must be words, quote {_shown(key.value)}", key)
            if key.value in seen:
                raise _refusal(f"{key.value} is given twice, first in line {seen[key.value]}", key)
            seen[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep=deep)

    def whole(self, node: Any) -> int:
        """A decimal or hexadecimal integer; `0100` is a hundred."""
        digits = self.construct_scalar(node).replace("_", "")
        return int(digits, 16 if "0x" in digits else 10)


class _Dumper(yaml.SafeDumper):
    """Quotes whatever the old or the new schema would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, value: str) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=None if value.isprintable() else '"')


def _refusal(problem: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_SCHEMA = [
    ("null", re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("int", re.compile(r"^([-+]?[0-9][0-9_]*|0x[0-9a-fA-F_]+)$"), list("-+0123456789")),
    ("float", re.compile(rf"^({_NUMBER.pattern}|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"), list("-+.0123456789")),
]
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _SCHEMA:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.whole)
_Dumper.add_representer(str, _Dumper.text)


def _load(text: str, name: str) -> Any:
    try:
        return _Loader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(error.problem or error.context).split())
        if "\\t" in problem:
            problem = "a tab, indent with spaces"
        raise ValueError(f"{name}:{mark.line + 1 if mark else 1}: {problem}") from None
    except yaml.reader.ReaderError as error:
        place = f"{name}:{text.count(chr(10), 0, error.position) + 1}"
        raise ValueError(f"{place}: character {ord(text[error.position]):#x} is not allowed") from None
    except RecursionError:
        raise ValueError(f"{name}: nested too deeply") from None
    except ValueError as error:  # such as a number of a hundred thousand digits
        raise ValueError(f"{name}: {' '.join(str(error).split())}") from None


def _scalar(text: str, setting: str) -> Any:
    try:
        value = _load(text, "value")
    except ValueError as error:
        reason = str(error).partition(": ")[2]
        raise ValueError(f"cannot read the value of {setting!r}, quote it as YAML text: {reason}") from None
    return text.strip() if isinstance(value, dict) and not text.lstrip().startswith("{") else value


# Checking values against annotations.


def _convert(kind: Any, value: Any, where: str) -> Any:
    """The value as the annotation wants it, or a ValueError that names the place, the value and what is allowed."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(kind, arguments, value, where)
    if origin is Literal:
        return _convert_choice(arguments, value, where)
    if dataclasses.is_dataclass(kind):
        return build(kind, value, where=where)  # type: ignore[arg-type]
    if origin in (tuple, list):
        return _convert_sequence(kind, value, where)
    if origin is dict or kind is dict:
        if not isinstance(value, Mapping):
            raise ValueError(f"{where} must be {_named(kind)}, not {_shown(value)}")
        inner = arguments[1] if arguments else Any
        return {str(key): _convert(inner, entry, _join(where, str(key))) for key, entry in value.items()}
    assert kind in (bool, int, float, str, type(None)), f"{where}: settings cannot be of type {kind}"
    return _convert_scalar(kind, value, where)


def _convert_scalar(kind: type, value: Any, where: str) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is str and isinstance(value, (str, Path)):
        return str(value)
    if kind in (bool, type(None)) and isinstance(value, kind):
        return value
    if kind is int and number and value == value // 1:  # also 1e4
        return int(value)
    if kind is float and (number or (isinstance(value, str) and _NUMBER.fullmatch(value))):
        with contextlib.suppress(OverflowError):
            if math.isfinite(finite := float(value)):
                return finite
    remedy = ", quote it to make it text" if kind is str and (number or isinstance(value, bool)) else ""
    raise ValueError(f"{where} must be {_named(kind)}, not {_shown(value)}{remedy}")


def _convert_union(kind: Any, arms: tuple, value: Any, where: str) -> Any:
    known = [arm for arm in arms if arm is not type(None)]
    if len(known) == 1 and value is not None:
        return _convert(known[0], value, where)  # whose complaint is the more exact one
    for arm in arms:
        with contextlib.suppress(ValueError):
            return _convert(arm, value, where)
    raise ValueError(f"{where} must be {_named(kind)}, not {_shown(value)}")


def _convert_choice(choices: tuple, value: Any, where: str) -> Any:
    if any(choice == value and type(choice) is type(value) for choice in choices):
        return value
    close = difflib.get_close_matches(str(value), [str(choice) for choice in choices], n=1, cutoff=0.5)
    hint = f", did you mean {close[0]}?" if close else ""
    raise ValueError(f"{where} must be one of {', '.join(map(str, choices))}, not {_shown(value)}{hint}")


def _convert_sequence(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(value, Mapping) and dataclasses.is_dataclass(arguments[0]):
        value = [value]  # one entry may be written without the list around it
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{where} must be {_named(kind)}, not {_shown(value)}")
    if origin is tuple and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise ValueError(f"{where} must have {len(arguments)} entries, not {len(value)}: {_shown(value)}")
    else:
        arguments = arguments[:1] * len(value)
    pairs = zip(arguments, value, strict=True)
    return origin(_convert(one, entry, f"{where}[{i}]") for i, (one, entry) in enumerate(pairs))


def _with_preset(cls: type, mapping: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The preset's values with the mapping's own laid over them; the name stays where the class has a field for it."""
    presets = getattr(cls, "PRESETS", None)
    if presets is None or "preset" not in mapping:
        return mapping
    name = mapping["preset"]
    own = mapping if "preset" in fields else {key: value for key, value in mapping.items() if key != "preset"}
    if name is None:
        return own
    if not isinstance(name, str) or name not in presets:
        raise ValueError(f"unknown preset {_join(where, str(name))}{_nearest(str(name), presets)}")
    return _merge(presets[name], own)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merge(merged[name], value) if both else value
    return merged


# Describing classes and values in words.


def _section(kind: Any) -> type | None:
    """The dataclass an annotation holds, also inside Optional or as the items of a tuple."""
    if dataclasses.is_dataclass(kind):
        return kind  # type: ignore[return-value]
    found = [section for section in map(_section, get_args(kind)) if section is not None]
    return found[0] if found else None


@functools.cache
def _helps(cls: type) -> dict[str, str]:
    """The string literal under each field, the class's own before the inherited."""
    helps: dict[str, str] = {}
    for ancestor in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(ancestor):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(ancestor)))
        except (OSError, TypeError):  # written at a prompt: there is no source to read
            continue
        for pair in itertools.pairwise(tree.body[0].body):  # type: ignore[attr-defined]
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    helps[name] = " ".join(text.split())
    return helps


def _named(kind: Any) -> str:
    """An annotation in words: `a whole number`, `one of adam, sgd`."""
    origin, arguments = get_origin(kind), get_args(kind)
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    if kind in words:
        return words[kind]
    if origin in (Union, types.UnionType):
        return " or ".join(_named(arm) for arm in arguments)
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}" if len(arguments) > 1 else str(arguments[0])
    if origin in (tuple, list):
        return f"a list, each {_named(arguments[0])}"
    return "a section" if dataclasses.is_dataclass(kind) else "a mapping" if kind is not Any else "anything"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a section"
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _shown_default(default: Any) -> str:
    if default is _MISSING:
        return "required"
    text = yaml.dump(plain(default), Dumper=_Dumper, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _sentence(cls: type) -> str:
    text = inspect.getdoc(cls) or ""
    return "" if text.startswith(f"{cls.__name__}(") else text.partition("\n\n")[0].replace("\n", " ")


def _nearest(name: str, names: Any) -> str:
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else f"; there are {', '.join(names)}"


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _default(field: dataclasses.Field) -> Any:
    return field.default_factory() if field.default_factory is not _MISSING else field.default
