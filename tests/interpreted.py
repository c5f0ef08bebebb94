"""Triton's interpreter with any numpy, and in less than half the time.

Triton before 3.7 reads a loop's bounds in a way that numpy 2.4 refuses. Its language is patched anew, name by name, at
every call of a function in a kernel, which is most of what a small kernel takes; here it is patched once. And it works
out shapes and types anew for every number that it computes; here, for every kind of number once.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from triton.language import core
from triton.runtime import interpreter


def prepare() -> None:
    """Make the interpreter ready for a process in which every kernel is interpreted."""
    _read_bounds_as_scalars()
    _patch_once()
    _remember_types()


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


def _remember_types() -> None:
    """Let what follows from a type be worked out once."""
    make_type, make_tensor, in_numpy = core.block_type.__init__, core.tensor.__init__, interpreter._get_np_dtype
    types: dict[Any, dict[str, Any]] = {}
    tensors: dict[str, dict[str, Any]] = {}
    dtypes: dict[str, Any] = {}

    def block_type(self: Any, element: Any, shape: Any) -> None:
        key = element.name, *(getattr(size, "value", size) for size in shape)
        if key not in types:
            make_type(self, element, shape)
            types[key] = {name: value for name, value in vars(self).items() if name != "element_ty"}
        vars(self).update(types[key], element_ty=element)

    def tensor(self: Any, handle: Any, type: Any) -> None:
        if type.name not in tensors:
            make_tensor(self, handle, type)
            own = ("handle", "type", "dtype")
            tensors[type.name] = {name: value for name, value in vars(self).items() if name not in own}
        vars(self).update(tensors[type.name], handle=handle, type=type, dtype=type.scalar)

    def numpy_type(type: Any) -> Any:
        if type.name not in dtypes:
            dtypes[type.name] = in_numpy(type)
        return dtypes[type.name]

    core.block_type.__init__, core.tensor.__init__ = block_type, tensor
    core.block_type.to_ir = lambda self, builder: self  # as the interpreter would make it again
    interpreter._get_np_dtype = numpy_type
