"""Packages that only tests need: where they may be missing, on a machine with a GPU for instance, tests are skipped."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
MODULES = {"pytest-xdist": "xdist", "import-linter": "importlinter", "torch-geometric": "torch_geometric"}
MODULES |= {"deep-translator": "deep_translator", "kubernetes-validate": "kubernetes_validate"}
MODULES |= {"axe-playwright-python": "axe_playwright_python"}


@cache
def packages_of_tests() -> frozenset[str]:
    """Return the modules that the extra `test` of pyproject.toml brings."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return frozenset(MODULES.get(name, name) for name in names_of_extra(extras, "test"))


def names_of_extra(extras: dict[str, list[str]], extra: str) -> Iterator[str]:
    """Yield the packages of an extra, and of those that it names, as `regard[docs,serve]`."""
    for line in extras[extra]:
        if inner := re.match(r"regard\[([\w,]+)\]", line):
            for name in inner[1].split(","):
                yield from names_of_extra(extras, name)
        else:
            yield re.match(r"[\w-]+", line)[0]


def may_be_missing(module: str) -> bool:
    """True for a module that only tests need, except where all of them were promised: in CI and in `.venv`."""
    promised = os.environ.get("CI") == "true" or Path(sys.prefix).resolve() == (ROOT / ".venv").resolve()
    return module in packages_of_tests() and not promised


def import_optional(module: str) -> Any:
    """Import a module that only tests need, or return None where it is missing and may be."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not may_be_missing(error.name or ""):
            raise
        return None


def require(module: str) -> Any:
    """Import a module that only tests need, late, or skip the test where it is missing and may be."""
    imported = import_optional(module)
    if imported is None:
        pytest.skip(f"{module} is not installed (pip install -e '.[test]')")
    return imported


class Module(pytest.Module):
    """A module of tests that is skipped, with the reason, where a package is missing that only tests need."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:  # type: ignore[override]
        """Import the module and return its tests."""
        try:
            return super().collect()  # type: ignore[return-value]
        except self.CollectError as error:
            cause = error.__cause__
            missing = (cause.name or "").split(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
            if may_be_missing(missing):
                pytest.skip(f"{missing} is not installed (pip install -e '.[test]')", allow_module_level=True)
            raise
