"""Types and tensor shapes of the package are checked on every call of a test run.

jaxtyping binds the arguments of a call twice and looks at all of them a second time with the answer, which is worth it
where axes have names. Where a signature names no tensors there is nothing to hold together, and beartype alone checks
the same in less time. In a test, what was right so many times is trusted from then on: the thousandth step of a
training has the shapes of the hundredth.
"""

import builtins
import dataclasses
import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, ForwardRef, Literal, get_args, get_origin

import jaxtyping
from jaxtyping import config

from tests import packages

PACKAGES = ("attention", "models", "decoding", "data", "metrics", "training", "tasks", "interpret", "lab")
ENOUGH = 4  # calls of a function in one test
BEARTYPE = packages.import_optional("beartype")


class TEST:
    """Which test is running."""

    number = 0


def install() -> None:
    """From here on these packages are imported with checks, where beartype is installed."""
    if BEARTYPE is None:
        return
    beartype, jaxtyped = BEARTYPE.beartype, jaxtyping.jaxtyped

    def checked(*, typechecker: Any) -> Callable[[Any], Any]:
        def decorate(thing: Any) -> Any:
            if not inspect.isclass(thing):
                return sparing(
                    thing, lambda: beartype(thing) if plain(thing) else jaxtyped(thing, typechecker=typechecker)
                )
            if dataclasses.is_dataclass(thing) and plain(thing.__init__):
                begin = thing.__init__
                thing.__init__ = sparing(begin, lambda: beartype(begin))
                return thing
            return jaxtyped(thing, typechecker=typechecker)

        return decorate

    jaxtyping.jaxtyped = checked  # the import hook asks for it by this name
    jaxtyping.install_import_hook([f"regard.{package}" for package in PACKAGES], "beartype.beartype")


def sparing(function: Callable[..., Any], strictly: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """The function with its checks, where they are not turned off, in its first calls of every test.

    The checks are made when they are first needed: most functions are not called in most processes.
    """
    if not function.__annotations__:  # nothing to check
        return function
    own, calls, strict = -1, 0, None

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        nonlocal own, calls, strict
        if config.jaxtyping_disable:
            return function(*given, **named)
        if own != TEST.number:
            own, calls = TEST.number, 0
        calls += 1
        if calls > ENOUGH:
            return function(*given, **named)
        strict = strict or strictly()
        return strict(*given, **named)

    return called


def plain(function: Any) -> bool:
    """Whether a function's signature is known to name no tensors; names that cannot be found might stand for some."""
    own = dict.fromkeys(function.__qualname__.split("."))  # the class that is being made
    known = {**own, **vars(builtins), **function.__globals__}
    for annotation in function.__annotations__.values():
        if not isinstance(annotation, str):
            found = [annotation]
        else:
            words = re.findall(r"(?<![\w.])[^\W\d]\w*", re.sub(r"'[^']*'|\"[^\"]*\"", "", annotation))
            if any(word not in known for word in words):
                return False
            found = [known[word] for word in words]
        if any(map(names_tensors, found)):
            return False
    return True


def names_tensors(annotation: Any) -> bool:
    """Whether a type, or one within it, is jaxtyping's."""
    if get_origin(annotation) is Literal:
        return False
    if isinstance(annotation, str | ForwardRef):
        return True  # not looked into
    home = getattr(annotation, "__module__", None) or getattr(annotation, "__name__", "")
    return str(home).startswith("jaxtyping") or any(map(names_tensors, get_args(annotation)))
