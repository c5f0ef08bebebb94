"""Triton's interpreter with any numpy: Triton before 3.7 reads a loop's bounds in a way that numpy 2.4 refuses."""

from __future__ import annotations

from typing import Any

from triton.runtime import interpreter


def read_bounds_as_scalars() -> None:
    """Let a number that a kernel has loaded be a bound of its loops, whatever the versions of Triton and numpy."""
    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched
