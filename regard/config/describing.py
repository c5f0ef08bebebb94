"""Descriptions of all settings below a dataclass, for documents and `--help`."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
from typing import Any, get_origin

import yaml

from regard.config.fields import bare, default_of, hints, named_sections, sections
from regard.config.text import Dumper, plain
from regard.config.words import describe_type, join


@dataclasses.dataclass(frozen=True)
class Field:
    """The description of one setting; sections come before their own settings."""

    name: str
    type: str
    default: str
    help: str


def describe(cls: type, *, where: str = "", defaults: Any = None) -> list[Field]:
    """Return descriptions of all settings below a dataclass; an instance as `defaults` replaces the class's defaults.

    Where a section is one of several, distinguished by their `name`, the first is `section.x`, others
    `section(name).x`.
    """
    kinds, helps = hints(cls), read_helps(cls)
    rows: list[Field] = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        kind, name, help = kinds[field.name], join(where, field.name), helps.get(field.name, "")
        default = default_of(field) if defaults is None else getattr(defaults, field.name)
        section = next(sections(kind), None)
        if section is None:
            rows.append(Field(name, describe_type(kind), _shown_default(default), help))
            continue
        inner = default if isinstance(default, section) else None
        shown = "" if inner else _shown_default(default)
        rows.append(Field(name, describe_type(kind), shown, help or _sentence(section)))
        listed = get_origin(bare(kind)[0]) in (tuple, list)
        rows += describe(section, where=f"{name}[]" if listed else name, defaults=inner)
        for choice, other in named_sections(kind).items():
            if other is not section:
                rows += describe(other, where=f"{name}({choice})")
    return rows


@functools.cache
def read_helps(cls: type) -> dict[str, str]:
    """Return the string literal under each field; the class's own override inherited ones."""
    helps: dict[str, str] = {}
    for ancestor in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(ancestor):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(ancestor)))
        except (OSError, TypeError):  # defined at a prompt: there is no source to read
            continue
        for pair in itertools.pairwise(tree.body[0].body):  # type: ignore[attr-defined]
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    helps[name] = " ".join(text.split())
    return helps


def _shown_default(default: Any) -> str:
    if default is dataclasses.MISSING:
        return "required"
    text = yaml.dump(plain(default), Dumper=Dumper, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _sentence(cls: type) -> str:
    text = inspect.getdoc(cls) or ""
    return "" if text.startswith(f"{cls.__name__}(") else text.partition("\n\n")[0].replace("\n", " ")
