"""Words of a command that say nothing or too much: an empty value, which would name the current folder, and an option
given twice, of which only the last would count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any


def check_words(words: Sequence[str], command: Any) -> None:
    """Stop at an option without a value, at one that is given again, and at a model or file without a name."""
    reading = iter(words)
    while (commands := getattr(command, "commands", None)) is not None:
        name = next(reading, None)
        if name not in commands:
            return
        command = commands[name]
    options = {spelling: option for option in command.params for spelling in option.opts if spelling[:1] == "-"}
    names = iter([argument for argument in command.params if argument.opts[0][:1] != "-"])
    seen: dict[str, str] = {}
    for word in reading:
        spelling, values = _split_option(word, options)
        if word == "--":
            for name in reading:
                _check_name(name, names)
        elif spelling not in options:
            _check_name(word, names)
        elif not getattr(options[spelling], "is_flag", False):
            option = options[spelling]
            values = values or list(islice(reading, option.nargs))
            if "" in values:
                raise ValueError(f"{spelling} is given nothing: give it a value, or leave it out")
            if option.name in seen and not option.multiple:
                first, last = seen[option.name], " ".join(values)
                raise ValueError(f"{spelling} is given twice, {first} and {last}: give one of them")
            seen[option.name] = " ".join(values)


def _split_option(word: str, options: dict[str, Any]) -> tuple[str, list[str]]:
    """The option that a word names, with its value where that is in the same word: --output=a.txt, -oa.txt."""
    name, mark, value = word.partition("=")
    if name in options:
        return name, [value] if mark else []
    if word[:1] == "-" and word[:2] in options:
        return word[:2], [word[2:]]
    return word, []


def _check_name(word: str, arguments: Iterator[Any]) -> None:
    """Stop at an empty word where a model or a file is named; texts, of which there may be many, are not names."""
    argument = next(arguments, None)
    if argument is not None and word == "" and argument.nargs == 1 and argument.required:
        raise ValueError(f"{argument.metavar} is given nothing: name one")
