"""Settings as text: YAML and `a.b=c` to mappings and back.

The schema is that of YAML 1.2 (`on` and `no` are words, 1e-9 is a number) without aliases and duplicate names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from regard.config.words import quote

LARGEST = 1 << 20  # bytes of a settings file
DEEP = 100  # nested lists, which libyaml would follow until the stack overflows


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the mapping in a YAML file; any error is one line with its place."""
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
    """Return the mapping in a YAML text; `name` is the source of the text in errors."""
    value = _load(text, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name}:1: expected `name: value` lines, not {quote(value)}")
    return value


def dump(mapping: Mapping[str, Any]) -> str:
    """Return YAML text that `parse` reads back as the same mapping."""
    return yaml.dump(dict(mapping), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)


def override(mapping: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Return a copy of the mapping with each `a.b=c` applied in turn; values are YAML, missing sections are created."""
    result = plain(mapping)
    for setting in settings:
        if not isinstance(setting, str):
            raise ValueError(f"a setting is a text such as training.epochs=20, not {setting!r}")
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
                raise ValueError(f"cannot set {name.strip()}: {place} is {quote(here)}, not a section")
        here[last] = _scalar(text, setting)
    return result


def plain(config: Any) -> Any:
    """Convert a config back to nested dicts, lists and scalars, from which `build` makes an equal dataclass."""
    if dataclasses.is_dataclass(config):
        return {field.name: plain(getattr(config, field.name)) for field in dataclasses.fields(config) if field.init}
    if isinstance(config, Mapping):
        return {str(name): plain(value) for name, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [plain(value) for value in config]
    return str(config) if isinstance(config, Path) else config


class _Constructor(yaml.constructor.SafeConstructor):
    """Constructs values from YAML nodes, and refuses names that are no words or occur twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        lines: dict[str, int] = {}
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.tag != "tag:yaml.org,2002:str":
                raise _refusal(f"names must be words, quote {quote(key.value)}", key)
            if key.value in lines:
                raise _refusal(f"{key.value} is given twice, first in line {lines[key.value]}", key)
            lines[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep=deep)

    def whole(self, node: Any) -> int:
        """Return a decimal or hexadecimal integer; `0100` is a hundred."""
        digits = self.construct_scalar(node).replace("_", "")
        return int(digits, 16 if "0x" in digits else 10)


class _Loader(_Constructor, yaml.SafeLoader):
    """A safe loader that refuses aliases and tags."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        tagged = isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag
        if isinstance(event, yaml.AliasEvent) or tagged:
            raise _refusal("aliases and tags are not supported, write the value out", event)
        return super().compose_node(parent, index)


# libyaml, where PyYAML was built with it, is several times as fast.
_IN_C: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OUT_C: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Quick(_Constructor, _IN_C):
    """A faster loader for plain settings, in which aliases and tags cannot occur."""


class Dumper(_OUT_C):
    """A dumper that quotes texts which YAML 1.1 or 1.2 would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, value: str) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=None if value.isprintable() else '"')


def _refusal(problem: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_SCHEMA = [
    ("null", re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("int", re.compile(r"^([-+]?[0-9][0-9_]*|0x[0-9a-fA-F_]+)$"), list("-+0123456789")),
    ("float", re.compile(rf"^({NUMBER.pattern}|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"), list("-+.0123456789")),
]
_CALM = r"(?: *#[ -~]*|[-\w .,:;/\\()\[\]'\"#+=<~$]{0,500})"  # comments, and text without aliases and tags
_PLAIN = re.compile(rf"(?:{_CALM}\n)*{_CALM}", re.ASCII)
_Loader.yaml_implicit_resolvers, _Quick.yaml_implicit_resolvers = {}, {}
for _tag, _pattern, _first in _SCHEMA:
    for _kind in (_Loader, _Quick, Dumper):
        _kind.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
_Constructor.add_constructor("tag:yaml.org,2002:int", _Constructor.whole)  # type: ignore[type-var]
Dumper.add_representer(str, Dumper.text)


def _load(text: str, name: str) -> Any:
    if text.count("[") < DEEP and _PLAIN.fullmatch(text):
        with contextlib.suppress(yaml.YAMLError, ValueError):  # parsed again below, for an error with its place
            return _Quick(text).get_single_data()  # type: ignore[call-arg]
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
