"""Triton's interpreter with any numpy, and in half the time.

Triton before 3.7 reads a loop's bounds in a way that numpy 2.4 refuses. And its language is patched anew, name by name,
at every call of a function in a kernel, which is most of what a small kernel takes; here it is patched once.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from triton.runtime import interpreter


def prepare() -> None:
    """Make the interpreter ready for a process in which every kernel is interpreted."""
    _read_bounds_as_scalars()
    _patch_once()


def _read_bounds_as_scalars() -> None:
    """Let a number that a kernel has loaded be a bound of its loops, whatever the versions of Triton and numpy."""
    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


def _patch_once() -> None:
    """Let the language stay as the interpreter has patched it, for a module's kernels once."""
    patch = interpreter._patch_lang
    patched: set[int] = set()
    kept = SimpleNamespace(restore=lambda: None)

    def once(function: Any) -> Any:
        module = id(function.__globals__)  # modules are never let go
        if module not in patched:
            patch(function)
            patched.add(module)
        return kept

    interpreter._patch_lang = once
