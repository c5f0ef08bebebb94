"""A property that is computed once, for objects that are used inside a compiled step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class cached(Generic[Value]):
    """`functools.cached_property` without the lock it takes before Python 3.12, which breaks a compiler's graph."""

    def __init__(self, work: Callable[[Any], Value]):
        self.work, self.name, self.__doc__ = work, work.__name__, work.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> cached[Value]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...

    def __get__(self, owner: object | None, kind: type) -> cached[Value] | Value:
        if owner is None:
            return self
        attributes = owner.__dict__
        if self.name not in attributes:
            attributes[self.name] = self.work(owner)
        return attributes[self.name]
