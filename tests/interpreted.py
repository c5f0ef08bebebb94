"""Triton's interpreter with any numpy, and in less than half the time; and all that is run by it, in one process.

Triton before 3.7 reads a loop's bounds in a way that numpy 2.4 refuses. Its language is patched anew, name by name, at
every call of a function in a kernel, which is most of what a small kernel takes; here it is patched once. And it works
out shapes and types anew for every number that it computes; here, for every kind of number once.

Triton interprets its kernels if it was told so before it was imported, so they are tested in a process of their own:
`python -m tests.interpreted` imports everything once and forks for each module of cases.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock

CASES = ("attention.rows_cases", "decoding.kernel_cases", "decoding.draw_cases", "models.kernel_cases")


def said(cases: str, factory: pytest.TempPathFactory) -> str | None:
    """What went wrong in a module of cases, or None; all of them are run once for all workers of a test run."""
    place = factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    told = place / "interpreted.json"
    with FileLock(place / "interpreted.lock"):
        if not told.exists():
            environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
            words, root = [sys.executable, "-m", "tests.interpreted", str(told)], Path(__file__).parent.parent
            done = subprocess.run(words, env=environment, cwd=root, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(told.read_text())[cases]


def interpret(told: Path) -> None:
    """Run every module of cases in a child of its own, for they change settings of kernels, and write what they say."""
    prepare()
    modules = {name: import_module(f"tests.{name}") for name in CASES}
    outcomes = {name: outcome(modules[name].run) for name in CASES}
    part = told.with_suffix(".part")
    part.write_text(json.dumps(outcomes))
    part.replace(told)


def outcome(run: Any) -> str | None:
    """What a forked child says, if it fails."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(here)
        words = io.StringIO()
        with redirect_stdout(words), redirect_stderr(words):
            try:
                run()
                status = 0
            except BaseException:
                traceback.print_exc()
                status = 1
        with os.fdopen(there, "w") as pipe:
            pipe.write(words.getvalue() if status else "")
        os._exit(status)
    os.close(there)
    with os.fdopen(here) as pipe:
        found = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if status == 0 else f"ended with {status}\n{found}"


def prepare() -> None:
    """Make the interpreter ready for a process in which every kernel is interpreted."""
    _read_bounds_as_scalars()
    _patch_once()
    _remember_types()
    _refuse_short_sums()


def _refuse_short_sums() -> None:
    """Let a matrix product have no fewer terms in a sum than a GPU's has; the interpreter would take any number."""
    from triton.runtime.interpreter import interpreter_builder

    interpreter_builder.codegen_fns["min_dot_size"] = lambda *_: (1, 1, 16)


def _read_bounds_as_scalars() -> None:
    """Let a number that a kernel has loaded be a bound of its loops, whatever the versions of Triton and numpy."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


def _patch_once() -> None:
    """Let the language stay as the interpreter has patched it, for a module's kernels once."""
    from triton.runtime import interpreter

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
    from triton.language import core
    from triton.runtime import interpreter

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


if __name__ == "__main__":
    interpret(Path(sys.argv[1]))
