"""Refuse arguments that are empty, which would name the current folder, and options given twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any


def check_words(words: Sequence[str], command: Any) -> None:
    """Refuse an option without a value, one that is repeated, and an empty name of a model or file."""
    remaining = iter(words)
    while (commands := getattr(command, "commands", None)) is not None:
        name = next(remaining, None)
        if name not in commands:
            return
        command = commands[name]
    options = {spelling: option for option in command.params for spelling in option.opts if spelling[:1] == "-"}
    positional = iter([argument for argument in command.params if argument.opts[0][:1] != "-"])
    values_by_option: dict[str, str] = {}
    for word in remaining:
        spelling, values = _split_option(word, options)
        if word == "--":
            for name in remaining:
                _check_name(name, positional)
        elif spelling not in options:
            _check_name(word, positional)
        elif not getattr(options[spelling], "is_flag", False):
            option = options[spelling]
            values = values or list(islice(remaining, option.nargs))
            if "" in values:
                raise ValueError(f"{spelling} is given nothing: give it a value, or leave it out")
            if option.name in values_by_option and not option.multiple:
                first, last = values_by_option[option.name], " ".join(values)
                raise ValueError(f"{spelling} is given twice, {first} and {last}: give one of them")
            values_by_option[option.name] = " ".join(values)


def _split_option(word: str, options: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the option that a word names, with its value if both are one word: --output=a.txt, -oa.txt."""
    name, mark, value = word.partition("=")
    if name in options:
        return name, [value] if mark else []
    if word[:1] == "-" and word[:2] in options:
        return word[:2], [word[2:]]
    return word, []


def _check_name(word: str, arguments: Iterator[Any]) -> None:
    """Refuse an empty argument that names a model or file; empty texts are allowed."""
    argument = next(arguments, None)
    if argument is not None and word == "" and argument.nargs == 1 and argument.required:
        raise ValueError(f"{argument.metavar} is given nothing: name one")
