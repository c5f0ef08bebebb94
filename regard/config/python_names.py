"""Translation of command-line options to Python arguments in messages that both interfaces show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from regard.config.file_kinds import FILE_KINDS

SWITCHES = ("resume", "overwrite")
ARGUMENTS = {"out": "out", "from": "start", "valid": "valid", "to": "to"}
OPTION = re.compile(r"(?<![\w-])--([a-z]+)(?![\w-])")


def name_as_in_python(message: str) -> str:
    """Replace the options in a message (`--resume`, `--out`, `--pairs`) by the arguments of `regard.train`."""
    return OPTION.sub(lambda match: _argument(match.group(1)) or match.group(0), message)


@contextmanager
def python_call() -> Iterator[None]:
    """Rewrite the messages of ValueErrors raised in the block for callers from Python."""
    try:
        yield
    except ValueError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (name_as_in_python(error.args[0]), *error.args[1:])
        raise


def _argument(option: str) -> str | None:
    if option in SWITCHES:
        return f"{option}=True"
    if option in ARGUMENTS:
        return f"{ARGUMENTS[option]}=..."
    return f'kind="{option}"' if option in FILE_KINDS else None
