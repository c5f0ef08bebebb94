"""Former names of modules and attributes, which still work with a deprecation warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

from regard.config.registry import load_module

FORMER_MODULES = {  # removed in 0.3
    "regard.interpret.curves": "regard.interpret.draw.curves",
    "regard.interpret.maps": "regard.interpret.measure.maps",
    "regard.interpret.page": "regard.interpret.draw.page",
    "regard.interpret.plots": "regard.interpret.draw.plots",
    "regard.interpret.terminal": "regard.interpret.draw.terminal",
    "regard.models.blocks": "regard.models.parts.blocks",
    "regard.models.cells": "regard.models.parts.cells",
    "regard.models.lora": "regard.models.parts.lora",
    "regard.models.lstm": "regard.models.rnn_lm",
    "regard.models.spread": "regard.models.parts.unpack",
    "regard.tasks.vision": "regard.tasks.scenes",
    "regard.tasks.vision.drawn": "regard.tasks.scenes.digit_scenes",
}


class FormerModules(MetaPathFinder, Loader):
    """Imports a module under its former name: the module itself, not a copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for former names, and None for other modules."""
        return spec_from_loader(fullname, self) if fullname in FORMER_MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module under its current name."""
        current = FORMER_MODULES[spec.name]
        warn_of_former_name(spec.name, current, stacklevel=2)
        module = load_module(current)
        self._spec_of_module = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which was replaced by importing it under another name."""
        module.__spec__ = self._spec_of_module


def install_former_modules() -> None:
    """Make the former names of modules importable."""
    if not any(isinstance(finder, FormerModules) for finder in sys.meta_path):
        sys.meta_path.append(FormerModules())


class FormerName:
    """A descriptor for an attribute's former name: `written_out = FormerName("to_stepwise")` in a class body."""

    def __init__(self, current: str) -> None:
        self.current = current

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        former = next(name for parent in owner.__mro__ for name, value in vars(parent).items() if value is self)
        warn_of_former_name(f"{owner.__name__}.{former}", f"{owner.__name__}.{self.current}", stacklevel=3)
        return getattr(instance, self.current)


def look_up_former_name(module: str, name: str, current_names: Mapping[str, str]) -> Any:
    """Return an attribute of a module by its former name; for use in the module's `__getattr__`."""
    if name not in current_names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_of_former_name(f"{module}.{name}", f"{module}.{current_names[name]}", stacklevel=3)
    return vars(sys.modules[module])[current_names[name]]


def warn_of_former_name(former: str, current: str, *, stacklevel: int) -> None:
    """Warn that a name is deprecated, and give the current one."""
    message = f"{former} is called {current} now; the former name goes with the next version"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)
